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

    function hue(run) {
        const hues = HUES[State.now.theme] || HUES.light;
        return hues[State.now.open.indexOf(run) % hues.length];
    }

    /* --- layers ----------------------------------------------------------*/

    function linesOfRun(run, series) {
        const lines = Data.lines(series).map((points, layer) => ({
            points, of: run.title,
            label: series.columns > 1 ? `layer ${layer}, mean`
                                      : `layer ${layer}`,
            colour: Scale.ofLayer(layer, series.rows),
        }));
        const head = State.now.head;
        if (head && head.run === run.index && head.row < series.rows &&
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

    function addCurves(panel, range, width) {
        const {run, series, lines, reference} = panel;
        const phase = series.phase === 'eval' ? ', eval' : '';
        const figure = Dom.element('figure', {}, Dom.element('figcaption', {},
            Dom.element('strong', {title: run.title}, run.title),
            Dom.element('span', {class: 'muted'},
                series.columns > 1 ? 'mean of each layer' + phase
                                   : 'each layer' + phase)));
        box.append(figure);
        Chart.make(figure, {
            lines, range, reference, unit: series.unit, width,
            height: Math.max(240, Math.min(380, width * 0.62)),
            label: `${series.name} of ${run.title} over the steps, one line ` +
                'per layer',
        });
    }

    function buildCurves() {
        const name = State.now.series;
        Dom.replace(box);
        const panels = State.now.open.map((run) => ({
            run, series: Data.find(run, name),
            reference: referenceOf(run, name || '')}))
            .filter((p) => p.series);
        panels.forEach((p) => { p.lines = linesOfRun(p.run, p.series); });
        if (!panels.length)
            return;
        const width = Dom.panelWidth(box, panels.length, 320);
        const range = extentOf(panels.flatMap((p) => p.lines));
        range[0] = Math.min(0, range[0]);
        panels.filter((p) => p.reference).forEach((p) => {
            range[1] = Math.max(range[1] || 0, p.reference.y);
        });
        panels.forEach((p) => addCurves(p, range, width));
        drawDepth(Plot.extent(panels, (p) => p.series.rows));
        Chart.redraw();
    }

    function drawDepth([least, most]) {
        Dom.replace(Dom.byId('depth'), ...most < 2 ? [] : Scale.bar(
            Scale.depth(), 'layer 0',
            least === most ? `layer ${most - 1}` : 'last layer'));
    }

    /* --- values of runs --------------------------------------------------*/

    function linesOf(name) {
        return State.now.open.flatMap((run) => run.series)
            .filter((s) => s.shape === 'run' && s.name === name)
            .map((s) => ({
                points: Data.headLine(s, 0, 0), of: Data.runs[s.run].title,
                label: s.phase === 'eval' ? `${name}, eval` : name,
                colour: hue(Data.runs[s.run]), kind: s.phase,
            }));
    }

    function addValues(name, width) {
        const lines = linesOf(name);
        const figure = Dom.element('figure', {});
        if (Data.curves.length > 1)
            figure.append(Dom.element('figcaption', {},
                                      Dom.element('strong', {}, name)));
        values.append(figure);
        Chart.make(figure, {
            lines, range: extentOf(lines), width, height: 240, reference: null,
            unit: '', label: `${name} over the steps`,
        });
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

    function buildValues() {
        Dom.replace(values);
        const card = Dom.byId('values-card');
        card.hidden = !Data.curves.length || !State.now.open.length;
        if (card.hidden)
            return;
        const names = Data.curves.join(', ');
        Dom.byId('values-heading').textContent =
            names === 'loss' ? 'Loss' : names;
        Dom.replace(Dom.byId('values-legend'), ...State.now.open
            .filter((r) => r.series.some((s) => s.shape === 'run'))
            .map(legendOf));
        Data.curves.forEach((name) => addValues(name, values.clientWidth));
        Chart.redraw();
    }

    function start() {
        let width = 0;
        new ResizeObserver(() => {
            if (box.clientWidth + values.clientWidth === width)
                return;
            width = box.clientWidth + values.clientWidth;
            buildCurves();
            buildValues();
        }).observe(Dom.byId('main'));
        State.follow(['theme', 'open'], buildValues);
        State.follow(['series', 'theme', 'head', 'open'], buildCurves);
    }

    return {start};
})();
