'use strict';

// Merges runs that differ only in the seed into one row of the table, which
// shows the means and all flags of the runs.
const Fold = (() => {
    const finite = (values) => values.filter(Number.isFinite);
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

    // Returns the mean of the finite values, or the state of the first value if no
    // value is finite.
    function meanOf(objects, name) {
        const known = finite(objects.map((of) => of[name]));
        if (known.length)
            return {[name]: mean(known), [name + '_state']: undefined};
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

    // Makes an object with the members that the cells of the table read.
    function join(members) {
        const all = members.map((run) => run.summary), [first] = all;
        const settings = new Map(members[0].settings);
        settings.delete('seed');
        return {
            members, settings, index: members[0].index,
            title: Dom.count(members.length, 'seed'),
            summary: Object.assign({}, first, ...[
                'eval_ppl', 'ppl', 'eval_loss', 'loss'].map(
                    (name) => meanOf(all, name)), {
                bands: bandsOf(all.map((s) => s.bands)),
                layers: first.layers.map((_, i) => meanOf(
                    all.map((s) => s.layers[i] || {}), 'mean')),
                flags: all.every((s) => s.flags === null) ? null
                    : all.flatMap((s) => s.flags || []),
                step: Plot.max(all, (s) => s.step ?? 0),
                status: statusOf(all), collapse_before_nan: null}),
        };
    }

    const key = ({summary: s, settings}) => JSON.stringify([
        s.arch, s.n_layer, s.n_head,
        ...Array.from(settings).filter(([name]) => name !== 'seed').sort()]);

    // Groups the runs by configuration. A run without other seeds is not
    // changed.
    function groups(runs) {
        const found = new Map();
        for (const run of runs)
            found.set(key(run), [...found.get(key(run)) || [], run]);
        return Array.from(found.values(), (members) =>
            members.length > 1 ? join(members) : members[0]);
    }

    return {groups};
})();
