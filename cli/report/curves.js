'use strict';

// Draws a chart of the layers for every run, and charts of series with one
// value per run, such as the loss.
const Curves = (() => {
    const box = Dom.byId('curves'), values = Dom.byId('values');
    // Colours after Okabe and Ito, distinguishable with colour blindness on
    // both backgrounds.
    const HUES = {
        light: ['#0072b2', '#d55e00', '#009e73', '#b8558b', '#b57a00',
                '#2b8fc4'],
        dark: ['#56b4e9', '#f08a4b', '#2fc79b', '#e08dbb', '#e9b63f',
               '#8fd0f5'],
    };

    let shown = [];           // panels of the layers
    const charts = new Map(); // name of a series -> its chart

    function colour(i) {
        const hues = HUES[State.now.theme] || HUES.light;
        return hues[i % hues.length];
    }

    const hue = (run) => colour(State.now.open.indexOf(run));

    /* --- layers ----------------------------------------------------------*/

    function linesOfRun(run, series) {
        const lines = Data.lines(series).map((points, layer) => ({
            points, of: run.title,
            label: series.columns > 1 ? `layer ${layer}, mean`
                                      : `layer ${layer}`,
            colour: Scale.ofLayer(layer, series.rows),
        }));
        const head = State.now.head;
        if (head && head.run === run.key && head.row < series.rows &&
            head.column < series.columns && series.columns > 1)
            lines.push({points: Data.headLine(series, head.row, head.column),
                        label: `layer ${head.row}, head ${head.column}`,
                        of: run.title, colour: Dom.ink('ink'),
                        kind: 'chosen'});
        return lines;
    }

    const extentOf = (lines) => Plot.extent(
        lines.flatMap((l) => l.points.map((p) => p.y))
            .filter((y) => y !== null && Number.isFinite(y)));

    // Returns the reference line at ln(T!)/T, the upper bound of the mean
    // entropy.
    function referenceOf(run, name) {
        const {ceiling} = run.summary;
        return name.startsWith('entropy') && ceiling !== null
            ? {y: ceiling, text: `ceiling ${Values.short(ceiling)}`} : null;
    }

    function addCurves(panel, width) {
        const {run, series} = panel;
        const phase = series.phase === 'eval' ? ', eval' : '';
        const figure = Dom.element('figure', {}, Dom.element('figcaption', {},
            Dom.element('strong', {title: run.title}, run.title),
            Dom.element('span', {class: 'muted'},
                series.columns > 1 ? 'mean of each layer' + phase
                                   : 'each layer' + phase)));
        box.append(figure);
        panel.chart = Chart.make(figure, {
            ...dataOf(panel), unit: series.unit, width,
            height: Math.max(240, Math.min(380, width * 0.62)),
            label: `${series.name} of ${run.title} over the steps, one line ` +
                'per layer',
        });
    }

    const dataOf = ({lines, range, reference}) => ({lines, range, reference});

    // Returns the panels of the open runs, which have one range of values.
    function panelsOf(name) {
        const panels = State.now.open.map((run) => ({
            run, series: Data.find(run, name),
            reference: referenceOf(run, name || '')}))
            .filter((p) => p.series);
        panels.forEach((p) => { p.lines = linesOfRun(p.run, p.series); });
        const range = extentOf(panels.flatMap((p) => p.lines));
        range[0] = Math.min(0, range[0]);
        panels.filter((p) => p.reference).forEach((p) => {
            range[1] = Math.max(range[1] || 0, p.reference.y);
        });
        panels.forEach((p) => { p.range = range; });
        return panels;
    }

    function buildCurves() {
        Dom.replace(box);
        shown = panelsOf(State.now.series);
        if (!shown.length)
            return;
        const width = Dom.panelWidth(box, shown.length, 320);
        shown.forEach((p) => addCurves(p, width));
        drawDepth(Plot.extent(shown, (p) => p.series.rows));
        Chart.redraw();
    }

    // Draws new values into the charts that exist, if they show the same runs.
    function updateCurves() {
        const now = panelsOf(State.now.series);
        if (now.length !== shown.length || now.some((p, i) =>
            p.series !== shown[i].series))
            return buildCurves();
        now.forEach((p, i) => {
            p.chart = shown[i].chart;
            Chart.change(p.chart, dataOf(p));
        });
        shown = now;
        return Chart.redraw();
    }

    function drawDepth([least, most]) {
        Dom.replace(Dom.byId('depth'), ...most < 2 ? [] : Scale.bar(
            Scale.depth(), 'layer 0',
            least === most ? `layer ${most - 1}` : 'last layer'));
    }

    /* --- values of runs --------------------------------------------------*/

    function linesOf(name) {
        return State.now.open.flatMap((run) => run.series)
            .filter((s) => s.shape === 'run' && s.name === name && s.steps)
            .map((s) => ({
                points: Data.headLine(s, 0, 0), of: s.run.title, run: s.run.key,
                label: s.phase === 'eval' ? `${name}, eval` : name,
                colour: hue(s.run), kind: s.phase,
            }));
    }

    const PANELS = 12; // largest number of panels of the figure values
    const LOSSES = ['loss', 'ce'];
    const axisOf = (name, lines) => ({lines, range: extentOf(lines),
        limit: LOSSES.includes(name) ? Limit.of(lines) : NaN});

    function addValues(name, width) {
        const lines = linesOf(name);
        const figure = Dom.element('figure', {});
        if (drawable().length > 1)
            figure.append(Dom.element('figcaption', {},
                                      Dom.element('strong', {}, name)));
        values.append(figure);
        charts.set(name, Chart.make(figure, {
            ...axisOf(name, lines), width, height: 240, reference: null,
            unit: '', label: `${name} over the steps`,
        }));
    }

    function updateValues() {
        const names = drawable();
        if (names.length !== charts.size || names.some((n) => !charts.has(n)))
            return buildValues();
        for (const [name, chart] of charts) {
            Chart.change(chart, axisOf(name, linesOf(name)));
        }
        return Chart.redraw();
    }

    // Makes an entry of the legend: "SM — train - - eval".
    function legendOf(run) {
        const phases = new Set(run.series.filter((s) => s.shape === 'run')
            .map((s) => s.phase));
        return Dom.element('span', {class: 'key'},
            ...Array.from(phases, (phase) => {
                const key = Dom.element('span', {class: 'stroke ' + phase,
                                                 title: phase});
                key.style.borderColor = hue(run);
                return key;
            }), Dom.element('span', {}, run.title +
                (phases.has('eval') ? ' (dashed: eval)' : '')));
    }

    // Returns the names of the series that the open runs have.
    const drawable = () => Data.curves.filter((name) => State.now.open.some(
        (run) => run.series.some((s) => s.name === name && s.shape === 'run' &&
                                 s.steps)));

    function buildValues() {
        Dom.replace(values);
        charts.clear();
        const card = Dom.byId('values-card'), names = drawable();
        card.hidden = !names.length;
        if (card.hidden)
            return;
        Dom.byId('values-heading').textContent = names.length > 1
            ? 'Values of the run' : names[0] === 'loss' ? 'Loss' : names[0];
        Dom.replace(Dom.byId('values-legend'), ...State.now.open
            .filter((r) => r.series.some((s) => s.shape === 'run'))
            .map(legendOf));
        const width = Dom.panelWidth(values, names.length, 420);
        names.forEach((name) => addValues(name, width));
        Chart.redraw();
    }

    const rowsOf = (line) => line.points.map((p) => [
        line.of, line.label, p.x, p.y === null ? 'NA' : p.y]);

    // Return the points of the curves as rows of a table.
    const curveRows = () => [['run', 'line', 'step', State.now.series],
        ...shown.flatMap((panel) => panel.lines).flatMap(rowsOf)];
    const valueRows = () => [['run', 'line', 'step', 'value'],
        ...drawable().flatMap(linesOf).flatMap(rowsOf)];

    // Returns the figure that shows the same charts; false if there are too many
    // charts, or if only some have a logarithmic axis.
    function valuesFigure() {
        const {full, span} = State.now, all = [...charts.values()];
        const logs = all.filter(Chart.isLog).length;
        const name = all.length > 1 || !charts.has('loss') ? 'values' : 'loss';
        return all.length <= PANELS && (logs === 0 || logs === all.length) &&
            {names: [name], log: logs > 0, full, span};
    }

    function start() {
        Save.add(Dom.byId('curves-card'), {name: 'layers', picture: true,
            rows: curveRows, figure: () => !shown.some(
                ({lines}) => lines.some(({kind}) => kind === 'chosen')) &&
                {names: ['curves'], span: State.now.span,
                 log: shown.some((p) => Chart.isLog(p.chart))}});
        Save.add(Dom.byId('values-card'), {name: 'loss', picture: true,
            rows: valueRows,
            figure: valuesFigure});
        let width = 0;
        new ResizeObserver(() => {
            if (box.clientWidth + values.clientWidth === width)
                return;
            width = box.clientWidth + values.clientWidth;
            buildCurves();
            buildValues();
        }).observe(Dom.byId('main'));
        State.follow(['theme', 'open'], buildValues);
        State.follow(['series', 'theme', 'open'], buildCurves);
        State.follow(['head', 'data'], updateCurves);
        State.follow(['data'], updateValues);
    }

    return {start, colour};
})();
