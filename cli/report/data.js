'use strict';

// What the program wrote into the page.
const Data = (() => {
    const read = (element) => JSON.parse(element.textContent);

    function readSeries(element) {
        const series = read(element), {rows, columns, steps, curve} = series;
        return Object.assign(series, {
            size: rows * columns, values: Values.decode(series.values),
            // Those beyond 2^53 come as strings: the label stays exact.
            steps: steps.map(Number), labels: steps.map(String),
            thinned: series.samples > steps.length,
            curve: curve && {steps: curve.steps.map(Number),
                             values: Values.decode(curve.values)},
        });
    }

    // As a line takes it: null is missing, NaN not finite.
    const valueAt = (values, i) =>
        Values.isMissing(values, i) ? null : values.floats[i];

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
        const {steps, columns, size, values, curve} = series;
        if (!series.lines)
            series.lines = d3.range(series.rows).map((row) => curve
                ? curve.steps.map((x, k) => ({x, y: valueAt(
                    curve.values, row * curve.steps.length + k)}))
                : steps.map((x, k) => ({x, y: rowMean(
                    values, k * size + row * columns, columns)})));
        return series.lines;
    }

    // One head over the steps that the page has.
    const headLine = ({steps, values, size, columns}, row, column) =>
        steps.map((x, k) => ({x, y: valueAt(
            values, k * size + row * columns + column)}));

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
    const names = (isGrid) => Array.from(new Set(series.filter(
        (s) => (s.shape !== 'run') === isGrid).map((s) => s.name)));
    const grids = names(true), curves = names(false);

    function find(run, name) {
        return run.series.find((s) => s.name === name && s.shape !== 'run');
    }

    return {summary, about, runs, series, colours, grids, curves, find, lines,
            headLine, sampleAt, extent};
})();
