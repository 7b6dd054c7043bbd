'use strict';

// What the program wrote into the page.
const Data = (() => {
    const read = (element) => JSON.parse(element.textContent);

    // Steps beyond 2^53 come as strings: the label stays exact.
    function readSteps(steps) {
        return {at: steps.map(Number), labels: steps.map(String)};
    }

    function readSeries(element) {
        const series = read(element);
        const size = series.rows * series.columns;
        const steps = readSteps(series.steps);
        const values = Values.decode(series.values);
        return Object.assign(series, {
            size, values, steps: steps.at, labels: steps.labels,
            thinned: series.samples > steps.at.length,
            curve: series.curve ? readCurve(series.curve) : null,
        });
    }

    function readCurve(curve) {
        return {steps: readSteps(curve.steps).at,
                values: Values.decode(curve.values), n: curve.steps.length};
    }

    // Mean of the finite values of a row; missing if all of it is.
    function rowMean(values, from, n) {
        let sum = 0, finite = 0, missing = 0;
        for (let i = from; i < from + n; i++) {
            if (Values.isMissing(values, i))
                missing++;
            else if (Number.isFinite(values.floats[i])) {
                sum += values.floats[i];
                finite++;
            }
        }
        if (finite)
            return sum / finite;
        return missing === n ? null : NaN;
    }

    // Lines over the steps: [row] -> {x, y}; y null: missing, NaN: not finite.
    function lines(series) {
        if (!series.lines)
            series.lines = series.curve ? linesOfCurve(series)
                                        : linesOfSamples(series);
        return series.lines;
    }

    function linesOfSamples(series) {
        const {steps, columns, size, values} = series;
        return d3.range(series.rows).map((row) => steps.map((x, k) => ({
            x, y: rowMean(values, k * size + row * columns, columns),
        })));
    }

    function linesOfCurve({curve, rows}) {
        const {steps, values, n} = curve;
        return d3.range(rows).map((row) => steps.map((x, k) => {
            const i = row * n + k;
            return {x, y: Values.isMissing(values, i) ? null
                                                      : values.floats[i]};
        }));
    }

    // One head over the steps that the page has.
    function headLine(series, row, column) {
        const {values, size, columns} = series;
        return series.steps.map((x, k) => {
            const i = k * size + row * columns + column;
            return {x, y: Values.isMissing(values, i) ? null
                                                      : values.floats[i]};
        });
    }

    // The last sample at or before a step, or the first: an index.
    function sampleAt(series, step) {
        return Math.max(0, d3.bisectRight(series.steps, step) - 1);
    }

    function extent(series) {
        if (!series.extent)
            series.extent = d3.extent(
                Array.from(series.values.floats).filter(Number.isFinite));
        return series.extent;
    }

    const summary = read(document.getElementById('summary'));
    const about = read(document.getElementById('about'));
    const series = Array.from(document.querySelectorAll('script.series'),
                              readSeries);
    const runs = summary.runs.map((run, i) => ({
        index: i, summary: run, title: about.runs[i].title,
        series: series.filter((s) => s.run === i),
    }));
    const colours = about.colours.match(/.{6}/g).map((c) => '#' + c);

    // Names of the series that have a value for each head or layer, in order.
    const grids = Array.from(new Set(
        series.filter((s) => s.shape !== 'run').map((s) => s.name)));
    const curves = Array.from(new Set(
        series.filter((s) => s.shape === 'run').map((s) => s.name)));

    function find(run, name) {
        return run.series.find((s) => s.name === name && s.shape !== 'run');
    }

    return {summary, about, runs, series, colours, grids, curves, find, lines,
            headLine, sampleAt, extent};
})();
