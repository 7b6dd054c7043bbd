'use strict';

// The table of runs: the numbers of --json.
const Runs = (() => {
    const BANDS = ['< m/4', '< m/2', '< 3m/4', '≤ m'];
    const SEVERITIES = ['none', 'info', 'warning', 'error', 'critical'];
    const cell = (attributes, ...children) =>
        Dom.element('td', attributes, ...children);

    function number(object, name) {
        const m = Values.member(object, name);
        return cell({class: m.known ? 'number' : 'number unknown',
                     title: m.full}, m.text);
    }

    // Flags that stand, worst first: a chip for each kind.
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

    // How long before a NaN its collapse could be alerted.
    function lead(run, flag) {
        const steps = run.summary.collapse_before_nan;
        return flag.kind === 'nan' && steps > 0
            ? `, ${steps} step${steps === 1 ? '' : 's'} after collapse` : '';
    }

    function flags(run) {
        const stand = standing(run);
        const chips = stand.map((flag) => Dom.element('span', {
            class: 'chip ' + flag.severity}, flag.kind + ' ',
            Dom.element('small', {}, flag.severity + lead(run, flag))));
        const calm = run.summary.flags === null ? 'not judged'
            : run.summary.flags_state === 'damaged' ? 'unknown (damaged)'
            : run.summary.ctx === null || run.summary.ctx === undefined
                ? 'ok (no ctx)' : 'ok';
        return cell({class: 'chips'}, ...chips.length ? chips : [
            Dom.element('span', {class: 'chip ' + (
                run.summary.flags_state ? 'warning' : 'fine')}, calm)]);
    }

    const percent = (x) => x > 0 && x < 0.005 ? '<1%'
        : Math.round(100 * x) + '%';

    // The four bands as one bar, and NaN heads hatched at its end.
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
                                        x >= 0.12 ? percent(x) : ''));
        add(nonfinite / heads, 'hatched', '');
        return cell({}, bar);
    }

    function status(run) {
        const {status: text} = run.summary;
        return cell({class: 'status ' + text}, text);
    }

    function download(run) {
        const button = Dom.element('button', {
            type: 'button', class: 'small csv',
            title: 'Download the values that this page holds of the run'},
            'CSV');
        button.addEventListener('click', () => Csv.download(run));
        return cell({}, button);
    }

    const showsArch = (run) => run.summary.arch &&
        run.summary.arch !== run.title;

    function name(run) {
        const s = run.summary;
        const where = s.path + (s.run > 1 ? `:${s.run}` : '');
        return Dom.element('th', {scope: 'row', title: where}, run.title,
            Dom.element('small', {class: 'muted'}, showsArch(run) ? s.arch
                : s.name !== run.title ? s.name : ''));
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
            made.title += `, of 95 %: ${low.full} to ${high.full}`;
            made.append(Dom.element('small', {class: 'muted'},
                                    `${low.text}–${high.text}`));
        }
        return made;
    };

    // [title, cell of a run, whether it is a number]
    const COLUMNS = [
        ['run', name], ['status', status], ['L × H', size, true],
        ['ctx', member('ctx'), true], ['step', member('step'), true],
        ['loss', member('loss'), true], ['ppl', member('ppl'), true],
        ['eval ppl', member('eval_ppl'), true],
        ['GB, modelled', cost('modelled_gb', 'communication of a private ' +
            'forward pass'), true],
        ['min, modelled', cost('modelled_minutes', 'latency of a private ' +
            'forward pass'), true],
        ['heads by quarter of m', bands], ['NaN', nonfinite, true],
        ['flags', flags], ['', download]];

    const row = (run) =>
        Dom.element('tr', {}, ...COLUMNS.map(([, make]) => make(run)));

    const head = () => Dom.element('thead', {}, Dom.element('tr', {},
        ...COLUMNS.map(([title, , right]) => Dom.element('th', {
            scope: 'col', class: right ? 'number' : null}, title))));

    function note() {
        const {policy, value} = Data.summary.max;
        const first = Data.runs[0].summary;
        const series = Data.series.find((s) => s.name === first.series);
        const unit = series && series.unit ? ' ' + series.unit : '';
        const why = {observed: 'the largest of all runs at the step in the ' +
                        'table', number: 'as given',
                     run: 'the largest of each run',
                     ceiling: 'ln(T!)/T of each run',
                     logT: 'ln T of each run'}[policy];
        const m = value === null || value === undefined ? 'm'
            : `m = ${Values.short(value)}${unit}`;
        return `${first.series}: ${m} (${policy}: ${why}).`;
    }

    function start() {
        Dom.replace(Dom.byId('runs'), head(), Dom.element(
            'tbody', {}, ...Data.runs.map(row)));
        Dom.byId('runs-note').textContent = note();
    }

    return {start};
})();
