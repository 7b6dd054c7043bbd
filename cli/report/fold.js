'use strict';

// Merges the runs of a group into one row of the table, which shows the means
// and ranges and all flags of the runs. A group has the same value of one
// setting, or differs only in the seed.
const Fold = (() => {
    const finite = (values) => values.filter(Number.isFinite);
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

    // Returns the mean of the finite values and their range, or the state of
    // the first value if no value is finite.
    function meanOf(objects, name) {
        const known = finite(objects.map((of) => of[name]));
        if (known.length)
            return {[name]: mean(known), [name + '_state']: undefined,
                    [name + '_range']: Plot.extent(known)};
        const state = objects.map((of) => of[name + '_state']);
        return {[name]: null, [name + '_state']:
            state.find((s) => s && s !== 'missing') || state.find((s) => s)};
    }

    function bandsOf(all) {
        const shown = all.filter((b) => b.heads), {max} = all[0];
        const sum = (f) => shown.reduce((n, b) => n + f(b), 0);
        return shown.length ? {
            heads: sum((b) => b.heads), nonfinite: sum((b) => b.nonfinite),
            counts: shown[0].counts.map((_, i) => sum((b) => b.counts[i])),
            fractions: shown[0].fractions.map(
                (_, i) => mean(shown.map((b) => b.fractions[i]))), max,
        } : all[0];
    }

    function statusOf(all) {
        const other = all.filter((s) => s.status !== 'finished');
        return other.length === 0 ? 'finished'
            : other.length === all.length ? other[0].status
            : `${other.length} of ${all.length} ${other[0].status}`;
    }

    // Returns the settings that are equal in all runs, and Fold.MIXED for the
    // others.
    const MIXED = Symbol('mixed');
    function settingsOf(members) {
        const differs = new Set(Data.differing(members));
        return new Map(Array.from(members[0].settings, ([key, value]) =>
            [key, differs.has(key) ? MIXED : value]));
    }

    // Makes an object with the members that the cells of the table read.
    function join(members, title) {
        const all = members.map((run) => run.summary), [first] = all;
        const deepest = Plot.max(all, (s) => s.layers.length);
        return {
            members, settings: settingsOf(members), index: members[0].index,
            title,
            summary: Object.assign({}, first, ...[
                'eval_ppl', 'ppl', 'eval_loss', 'loss', 'step'].map(
                    (name) => meanOf(all, name)), {
                bands: bandsOf(all.map((s) => s.bands)),
                layers: Plot.range(0, deepest || 0).map((_, i) => meanOf(
                    all.map((s) => s.layers[i] || {}), 'mean')),
                flags: all.every((s) => s.flags === null) ? null
                    : all.flatMap((s) => s.flags || []),
                last: Plot.max(all, (s) => s.step ?? 0),
                status: statusOf(all), collapse_before_nan: null}),
        };
    }

    /* --- groups ----------------------------------------------------------*/

    const SEED = '.seed';
    const shape = ({summary: s}) => `${s.n_layer} × ${s.n_head}`;

    // Makes a function that returns the group of a run: a text that is equal
    // for runs of one group.
    const WAYS = {
        [SEED]: ({summary: s, settings}) => JSON.stringify([
            s.arch, s.n_layer, s.n_head,
            ...Array.from(settings).filter(([name]) => name !== 'seed').sort()]),
        '.arch': ({summary}) => summary.arch || '–',
        '.shape': shape,
        '.status': ({summary}) => summary.status,
    };

    const valueOf = (run, by) => WAYS[by] ? WAYS[by](run) : spell(
        run.settings.get(by));
    const spell = (value) => value === undefined ? '–'
        : typeof value === 'number' ? Values.short(value) : String(value);

    const titleOf = (by, value, n) => by === SEED ? Dom.count(n, 'seed')
        : `${by.replace(/^\./, '')} = ${value}, ${Dom.count(n, 'run')}`;

    // Returns [value, title] of everything by which the runs can be grouped.
    function ways() {
        const several = (by) => new Set(Data.runs.map(
            (run) => valueOf(run, by))).size;
        const seeds = Data.varies(Data.runs, 'seed') ? several(SEED) : 0;
        return [
            ...seeds && seeds < Data.runs.length
                ? [[SEED, 'all settings but the seed']] : [],
            ...['.arch', '.shape', '.status'].filter((by) => several(by) > 1)
                .map((by) => [by, {'.arch': 'architecture',
                                   '.shape': 'layers × heads',
                                   '.status': 'status'}[by]]),
            ...Data.differing(Data.runs).filter((key) => key !== 'arch')
                .map((key) => [key, key])];
    }

    // Groups the runs. A run without other seeds is not changed.
    function groups(runs, by) {
        const found = new Map();
        for (const run of runs) {
            const value = valueOf(run, by), members = found.get(value);
            if (members)
                members.push(run);
            else
                found.set(value, [run]);
        }
        return Array.from(found, ([value, members]) =>
            members.length > 1 || by !== SEED
                ? Object.assign(join(members, titleOf(by, value, members.length)),
                                {key: value}) : members[0]);
    }

    return {groups, ways, MIXED};
})();
