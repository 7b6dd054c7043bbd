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

    // How early the heads told of a NaN.
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
            : run.summary.ctx === null || run.summary.ctx === undefined
                ? 'ok (no ctx)' : 'ok';
        return cell({class: 'chips'}, ...chips.length ? chips : [
            Dom.element('span', {class: 'chip fine'}, calm)]);
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

    const tellsArch = (run) => run.summary.arch &&
        run.summary.arch !== run.title;

    function row(run) {
        const s = run.summary;
        const where = s.path + (s.run > 1 ? `:${s.run}` : '');
        return Dom.element('tr', {},
            Dom.element('th', {scope: 'row', title: where}, run.title,
                Dom.element('small', {class: 'muted'},
                            tellsArch(run) ? s.arch
                                : s.name !== run.title ? s.name : '')),
            status(run), cell({class: 'number'}, String(s.n_layer) + ' × ' +
                String(s.n_head)), number(s, 'ctx'), number(s, 'step'),
            number(s, 'loss'), number(s, 'ppl'), number(s, 'eval_ppl'),
            bands(run), cell({class: 'number'}, s.bands.heads
                ? String(s.bands.nonfinite) : '–'), flags(run), download(run));
    }

    function head() {
        const titles = [['run'], ['status'], ['L × H', 1], ['ctx', 1],
                        ['step', 1], ['loss', 1], ['ppl', 1], ['eval ppl', 1],
                        ['heads by quarter of m'], ['NaN', 1], ['flags'], ['']];
        return Dom.element('thead', {}, Dom.element('tr', {}, ...titles.map(
            ([text, right]) => Dom.element('th', {
                scope: 'col', class: right ? 'number' : null}, text))));
    }

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
