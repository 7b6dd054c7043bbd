'use strict';

// Makes the cells of the table of runs from the values of --json.
const Runs = (() => {
    const BANDS = ['< m/4', '< m/2', '< 3m/4', '≤ m'];
    const SEVERITIES = ['none', 'info', 'warning', 'error', 'critical'];
    const cell = (attributes, ...children) =>
        Dom.element('td', attributes, ...children);

    function number(object, name) {
        const m = Values.member(object, name);
        const range = object[name + '_range'];
        return cell({class: m.known ? 'number' : 'number unknown',
                     title: m.full}, m.text, range && range[0] < range[1]
            ? Dom.element('small', {class: 'muted'}, range.map(
                Values.short).join('–')) : null);
    }

    // Returns the worst active flag of each kind, sorted by severity.
    function standing(run) {
        const worst = new Map();
        for (const flag of run.summary.flags || []) {
            const rank = SEVERITIES.indexOf(flag.severity);
            const before = worst.get(flag.kind);
            if (flag.stands && (!before || before.rank < rank))
                worst.set(flag.kind, {rank, flag});
        }
        return Array.from(worst.values()).sort((a, b) => b.rank - a.rank)
            .map(({flag}) => flag);
    }

    // Returns a text that says how many steps before a NaN the collapse could
    // have raised an alert.
    function lead(run, flag) {
        const steps = run.summary.collapse_before_nan;
        return flag.kind === 'nan' && steps > 0
            ? `, ${steps} step${steps === 1 ? '' : 's'} after collapse` : '';
    }

    // For merged seeds, returns a text that says how many of them have an
    // active flag.
    const share = ({members}, kind) => `${members.filter((one) =>
        standing(one).some((flag) => flag.kind === kind)).length} of ` +
        members.length;

    function flags(run) {
        const stand = standing(run);
        const chips = stand.map((flag) => Dom.element('span', {
            class: 'chip ' + flag.severity}, flag.kind + ' ',
            Dom.element('small', {}, run.members ? share(run, flag.kind)
                : (flag.verdict || flag.severity) + lead(run, flag))));
        const calm = run.summary.flags === null ? 'not judged'
            : run.summary.flags_state === 'damaged' ? 'unknown (damaged)'
            : run.summary.ctx === null || run.summary.ctx === undefined
                ? 'ok (no ctx)' : 'ok';
        return cell({class: 'chips'}, ...chips.length ? chips : [
            Dom.element('span', {class: 'chip ' + (
                run.summary.flags_state ? 'warning' : 'fine')}, calm)]);
    }

    // Draws the flags of a run on the axis of all steps, and the progress of
    // the run.
    function strip(run) {
        const {flags: all, step, last} = run.summary, end = lastStep();
        const share = (x) => `${(100 * x / end).toFixed(2)}%`;
        const box = Dom.element('div', {class: 'track', role: 'img',
            'aria-label': 'flags over the steps',
            title: (all || []).map((f) => `${f.kind} (${f.severity}): ` +
                                          `${f.onset} – ${f.last}`).join('\n')});
        const add = (kind, from, to) => {
            const part = Dom.element('span', {class: kind});
            part.style.left = share(from);
            part.style.width = share(to - from);
            box.append(part);
        };
        add('run', 0, last ?? step ?? 0);
        [...all || []].sort((a, b) => SEVERITIES.indexOf(a.severity) -
                                      SEVERITIES.indexOf(b.severity))
            .forEach((f) => add('episode ' + f.severity, f.onset, f.last));
        return cell({}, box);
    }

    const lastStep = Data.once(() => Plot.max(Data.runs, (r) => Math.max(
        r.summary.step ?? 0,
        ...(r.summary.flags || []).map((f) => f.last))) || 1);

    // Draws a perplexity on the scale of all runs; for several seeds, also
    // their range.
    function dot(values) {
        const box = Dom.element('div', {class: 'dots', 'aria-hidden': 'true'});
        const known = values.filter(Number.isFinite);
        const at = (x) => `${(100 * place(x)).toFixed(2)}%`;
        if (known.length > 1) {
            const range = Dom.element('span', {class: 'range'});
            range.style.left = at(Math.min(...known));
            range.style.right = `calc(100% - ${at(Math.max(...known))})`;
            box.append(range);
        }
        if (known.length)
            box.append(Dom.element('span', {class: 'mean'}));
        else if (values.some((x) => x !== null))
            box.append(Dom.element('span', {class: 'cross'}, '×'));
        if (known.length)
            box.lastChild.style.left = at(
                known.reduce((a, b) => a + b) / known.length);
        return cell({}, box);
    }

    // Returns the perplexity that is compared: on held-out data if any run has
    // such a value.
    const compared = Data.once(() => Data.runs.some((r) => Number.isFinite(
        r.summary.eval_ppl)) ? 'eval_ppl' : 'ppl');
    const perplexity = ({summary: s}) => {
        const key = compared();
        return s[key] ?? (s[key + '_state'] === 'missing' ||
                          !s[key + '_state'] ? null : NaN);
    };

    // Maps a perplexity to [0,1], logarithmically if the perplexities of all
    // runs span more than a power of ten.
    const scale = Data.once(() => {
        const [low, high] = Plot.extent(
            Data.runs.map(perplexity).filter(Number.isFinite));
        const wide = low > 0 && high > 10 * low;
        const f = wide ? Math.log : (y) => y;
        return (y) => high > low ? (f(y) - f(low)) / (f(high) - f(low)) : 0.5;
    });
    const place = (x) => scale()(x);

    const percent = (x) => x > 0 && x < 0.005 ? '<1%'
        : Math.round(100 * x) + '%';

    // Draws the shares of the four bands as one bar, with the NaN heads hatched
    // at its end.
    function bands(run) {
        const {counts, fractions, nonfinite, heads} = run.summary.bands;
        if (!heads)
            return cell({class: 'unknown'}, '–');
        const say = fractions.map((x, i) =>
            `${BANDS[i]}: ${counts[i]} (${percent(x)})`).join(', ') +
            (nonfinite ? `, NaN: ${nonfinite}` : '');
        const bar = Dom.element('div', {class: 'bands', role: 'img',
                                        title: say, 'aria-label': say});
        const add = (share, style, text) => {
            const part = Dom.element('span', {class: style}, text);
            part.style.flexGrow = share;
            if (share > 0)
                bar.append(part);
        };
        fractions.forEach((x, i) => add(x, 'band-' + i,
                                        x >= 0.15 ? percent(x) : ''));
        add(nonfinite / heads, 'hatched', '');
        return cell({}, bar);
    }

    function status(run) {
        const {status: text, failed} = run.summary;
        return cell({class: 'status ' + text.split(' ').pop()}, text,
            failed ? Dom.element('span', {class: 'chip warning', title: failed},
                                 'unreadable') : null,
            Live.canStop(run) ? stop(run) : null);
    }

    function stop(run) {
        const button = Dom.element('button', {type: 'button',
            class: 'small stop', title: 'Request the training to stop'}, 'Stop');
        button.addEventListener('click', () => Live.confirmStop(run));
        return button;
    }

    function download(run) {
        const button = Dom.element('button', {
            type: 'button', class: 'small csv',
            title: Live.on ? 'Download all values of this run'
                : 'Download the values of this run that the page contains'},
            'CSV');
        button.addEventListener('click', () => Live.on ? Live.exportRun(run)
            : Csv.download(run));
        return cell({}, button);
    }

    // Returns true if the cell should show the architecture: it is not in the
    // title and not the same for all of many runs.
    const showsArch = (run) => run.summary.arch &&
        !run.title.includes(run.summary.arch) && (Data.runs.length <= 4 ||
            Data.runs.some((r) => r.summary.arch !== run.summary.arch));

    // Makes the two parts of a title. A narrow column shortens the first at its
    // end and the second at its beginning, so that one gap is between them.
    const halves = (title) => Dom.halves(title).map((part, i) => Dom.element(
        'span', {class: i ? 'end' : 'start'}, part.replace(/\s/g, ' ')));

    function name(run) {
        const s = run.summary;
        const where = s.path + (s.run > 1 ? `:${s.run}` : '');
        // A key on this button does the same as a click on the row.
        const open = Dom.element('button', {type: 'button', class: 'open',
                                            dir: 'auto'}, ...halves(run.title));
        const more = showsArch(run) ? s.arch
            : s.name !== run.title && Data.runs.length <= 4 ? s.name : '';
        return Dom.element('th', {scope: 'row', title: where}, Dom.element(
            'div', {class: 'name'}, open, more ? Dom.element('small',
                {class: 'muted'}, more) : null));
    }

    const size = ({summary: s}) =>
        cell({class: 'number'}, `${s.n_layer} × ${s.n_head}`);
    const nonfinite = ({summary: {bands: b}}) =>
        cell({class: 'number'}, b.heads ? String(b.nonfinite) : '–');
    const member = (key) => (run) => number(run.summary, key);

    const cost = (key, about) => (run) => {
        const made = number(run.summary, key);
        made.title = `${about}, modelled: ${made.title}`;
        const low = Values.member(run.summary, key + '_low');
        const high = Values.member(run.summary, key + '_high');
        if (low.known) {
            made.title += `, 95% interval: ${low.full} to ${high.full}`;
            made.append(Dom.element('small', {class: 'muted'},
                                    `${low.text}–${high.text}`));
        }
        return made;
    };

    // Draws the means of the layers as a strip, in the colours of values up to
    // m.
    function layers(run) {
        const {layers: all, bands: {max}} = run.summary, n = all.length;
        const means = all.map((layer) => Values.member(layer, 'mean'));
        const strip = Dom.element('div', {
            class: 'layers', role: 'img', 'aria-label': 'means of the layers',
            title: means.map((m, i) => `layer ${i}: ${m.text}`).join('\n')});
        const share = (i) => `${(100 * i / n).toFixed(2)}%`;
        strip.style.background = `linear-gradient(to right,${means.map((m, i) =>
            `${layerColour(m, max)} ${share(i)} ${share(i + 1)}`).join()})`;
        return cell({}, n ? strip : '–');
    }

    const layerColour = (mean, max) => mean.known
        ? Scale.colour({low: 0, high: max || 1}, Number(mean.full))
        : mean.text === '–' ? 'transparent' : 'var(--hatch)';

    const setting = (key) => ({summary: s, settings}) => {
        const value = settings.get(key);
        return cell({class: typeof value === 'number' ? 'number'
            : value === undefined || value === Fold.MIXED ? 'unknown' : null},
            value === undefined ? '–' : value === Fold.MIXED ? '…'
                : typeof value === 'number' ? Values.short(value)
                : String(value));
    };

    /* --- columns ---------------------------------------------------------*/

    // Returns the sort key of a column: a number, a string, or {state} if there
    // is no value.
    const byMember = (key) => ({summary}) => summary[key] ??
        {state: summary[key + '_state'] || 'missing'};
    const bySetting = (key) => ({settings}) => settings.get(key) === Fold.MIXED
        ? {state: 'missing'} : settings.get(key) ?? {state: 'missing'};
    const byBands = ({summary: {bands: {fractions, heads}}}) => heads
        ? fractions[0] : {state: 'missing'};
    const byNonfinite = ({summary: {bands: b}}) => b.heads ? b.nonfinite
        : {state: 'missing'};
    const byFlags = (run) => run.summary.flags === null ? {state: 'missing'}
        : standing(run).reduce((sum, flag) => sum + Math.pow(
            100, SEVERITIES.indexOf(flag.severity)), 0);
    const byOnset = ({summary: s}) => s.flags === null || !s.flags.length
        ? {state: 'missing'} : Math.min(...s.flags.map((f) => f.onset));
    const byLayers = ({summary: {layers: all}}) => {
        const means = all.map((l) => l.mean).filter((m) => m !== null);
        return means.length ? means.reduce((a, b) => a + b) / means.length
            : {state: all.length ? 'nan' : 'missing'};
    };

    // A column has the members title, cell (a function of the run), by (the
    // sort key), right (true: aligned right) and csv (the value in CSV; null:
    // left out, undefined: the sort key).
    const number_of = (title, key) => ({
        title, cell: member(key), by: byMember(key), right: true});
    const cost_of = (title, key, about) => ({
        title, cell: cost(key, about), by: byMember(key), right: true});
    const NOT_AGAIN = ['n_layer', 'n_head', 'ctx', 'arch'];

    // Makes one column per setting. With `vary`, these are the settings whose
    // values differ, otherwise those that only some runs have.
    const settings = (vary) => Data.differing(Data.runs)
        .filter((key) => !NOT_AGAIN.includes(key) &&
                Data.varies(Data.runs, key) === vary)
        .map((key) => ({title: key, cell: setting(key), by: bySetting(key),
                        right: Data.runs.every(({settings: of}) =>
                            typeof (of.get(key) ?? 0) === 'number')}));

    // Returns true if a column is empty for all runs.
    const isEmpty = ({by}) => by && Data.runs.every(
        (run) => by(run).state === 'missing');

    // If there are few runs, these columns are left out, because the runs'
    // panels show the same.
    const glances = (list) => Data.runs.length > 4 ? list : [];

    const FIRST = 4; // settings that are on the left of the results

    const columns = () => [
        {title: 'run', cell: name, by: (run) => run.title},
        ...glances(settings(true).slice(0, FIRST)),
        number_of('eval ppl', 'eval_ppl'), number_of('ppl', 'ppl'),
        ...glances([{title: 'perplexity', csv: null, cell: (run) =>
                         dot((run.members || [run]).map(perplexity)),
                     by: (run) => Number.isFinite(perplexity(run))
                         ? perplexity(run) : {state: perplexity(run) === null
                             ? 'missing' : 'nan'}}]),
        {title: 'heads by quarter of m', cell: bands, by: byBands,
         csv: ({summary: {bands: b}}) => b.counts.join(' ')},
        {title: 'layers', cell: layers, by: byLayers, csv: null},
        ...glances([
            {title: `${Data.runs[0]?.summary.series || 'entropy'} over steps`, cell: Spark.cell('entropy'),
             by: byLayers, csv: null},
            {title: 'loss over steps', cell: Spark.cell('loss'),
             by: byMember('loss'), csv: null}]),
        ...glances([{title: 'flags over steps', cell: strip, by: byOnset,
                     csv: null}]),
        {title: 'flags', cell: flags, by: byFlags, csv: (run) =>
            standing(run).map((flag) => flag.kind).join(' ')},
        {title: 'status', cell: status, by: (run) => run.summary.status},
        ...Data.runs.length > 4 ? [] : settings(true),
        {title: 'L × H', cell: size, right: true,
         csv: ({summary: s}) => `${s.n_layer} x ${s.n_head}`,
         by: ({summary: s}) => s.n_layer * 1e6 + s.n_head},
        number_of('ctx', 'ctx'), number_of('step', 'step'),
        number_of('loss', 'loss'),
        {title: 'NaN', cell: nonfinite, by: byNonfinite, right: true},
        cost_of('GB, modelled', 'modelled_gb',
                'communication of a private forward pass'),
        cost_of('min, modelled', 'modelled_minutes',
                'latency of a private forward pass'),
        ...glances(settings(true).slice(FIRST)),
        ...settings(false), {title: '', cell: download}].filter((c) => !isEmpty(c));

    function note() {
        const {policy, value} = Data.summary.max;
        const first = Data.runs[0]?.summary;
        if (!first)
            return '';
        const series = Data.series.find((s) => s.name === first.series);
        const unit = series && series.unit ? ' ' + series.unit : '';
        const why = {observed: 'the largest value of all runs at the step in ' +
                        'the table', number: 'as given',
                     run: 'the largest value of each run',
                     ceiling: 'ln(T!)/T of each run',
                     logT: 'ln T of each run'}[policy];
        const m = value === null || value === undefined ? 'm'
            : `m = ${Values.short(value)}${unit}`;
        return `${first.series}: ${m} (${policy}: ${why}).`;
    }

    // Names the scales that the cells of all runs share.
    const scaleKey = () => JSON.stringify([
        lastStep(), compared(), Data.summary.max.value,
        Plot.extent(Data.runs.map(perplexity).filter(Number.isFinite))]);

    return {columns, note, standing, scaleKey};
})();
