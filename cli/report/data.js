'use strict';

// Reads the data that the program wrote into the page.
const Data = (() => {
    const read = (element) => JSON.parse(element.textContent);

    function readSeries(element) {
        const series = read(element), {rows, columns, steps, curve} = series;
        const text = series.values;
        let decoded = null;
        Object.defineProperty(series, 'values', {
            get: () => decoded || (decoded = Values.decode(text))});
        return Object.assign(series, {
            size: rows * columns,
            // Steps beyond 2^53 are strings, so that labels stay exact.
            steps: steps.map(Number), labels: steps.map(String),
            thinned: series.samples > steps.length,
            curve: curve && {steps: curve.steps.map(Number),
                             values: Values.decode(curve.values)},
        });
    }

    // Flattens {"a":{"b":1}} to [["a.b", 1]].
    function flatten(value, prefix) {
        if (value === null || typeof value !== 'object' ||
            Array.isArray(value))
            return [[prefix, Array.isArray(value) ? JSON.stringify(value)
                                                  : value]];
        return Object.entries(value).flatMap(([key, member]) =>
            flatten(member, prefix ? `${prefix}.${key}` : key));
    }

    // Returns true if runs have different values of a setting.
    const varies = (of, key) => new Set(of.map((run) => run.settings.get(key))
        .filter((value) => value !== undefined)).size > 1;

    // Returns the settings whose values differ between the runs, followed by
    // those that only some runs have but with equal values.
    function differing(of) {
        const keys = new Set(of.flatMap((run) => [...run.settings.keys()]));
        return Array.from(keys).filter((key) => of.some((run) =>
            run.settings.get(key) !== of[0].settings.get(key)))
            .sort((a, b) => varies(of, b) - varies(of, a));
    }

    // Converts a value to a y of a line: null if missing, NaN if not finite.
    const valueAt = (values, i) =>
        Values.isMissing(values, i) ? null : values.floats[i];

    // Returns the mean of the finite values of a row, or missing if all values
    // are missing.
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

    // Returns a line of {x, y} per row; y is null if missing, NaN if not finite.
    function lines(series) {
        const {steps, columns, size, values, curve} = series;
        if (!series.lines)
            series.lines = Plot.range(0, series.rows).map((row) => curve
                ? curve.steps.map((x, k) => ({x, y: valueAt(
                    curve.values, row * curve.steps.length + k)}))
                : steps.map((x, k) => ({x, y: rowMean(
                    values, k * size + row * columns, columns)})));
        return series.lines;
    }

    // Returns the line of one head over the steps in the page.
    const headLine = ({steps, values, size, columns}, row, column) =>
        steps.map((x, k) => ({x, y: valueAt(
            values, k * size + row * columns + column)}));

    // Returns the index of the last sample at or before a step, or 0.
    function sampleAt(series, step) {
        return Math.max(0, Plot.bisect(series.steps, step, true) - 1);
    }

    function extent(series) {
        if (!series.extent)
            series.extent = Plot.extent(series.values.floats,
                                        (x) => Number.isFinite(x) ? x : null);
        return series.extent;
    }

    // Decompresses the output of --json in the page.
    function readSummary() {
        const element = document.getElementById('summary');
        const bytes = Inflate.unpack(Values.bytesOf(element.textContent),
                                     Number(element.dataset.size));
        return JSON.parse(new TextDecoder().decode(bytes));
    }

    const summary = readSummary();
    const about = read(document.getElementById('about'));
    const series = Array.from(document.querySelectorAll('script.series'),
                              readSeries);
    const runs = summary.runs.map((run, i) => ({
        index: i, summary: run, title: about.runs[i].title,
        series: series.filter((s) => s.run === i),
        settings: new Map(run.config ? flatten(run.config, '') : []),
    }));
    const colours = Object.fromEntries(Object.entries(about.colours).map(
        ([name, text]) => [name, text.match(/.{6}/g).map((c) => '#' + c)]));

    // Returns the names of the series that have (or do not have) one value per
    // head or layer.
    const names = (isGrid) => Array.from(new Set(series.filter(
        (s) => (s.shape !== 'run') === isGrid).map((s) => s.name)));
    const grids = names(true), curves = names(false);

    function find(run, name) {
        return run.series.find((s) => s.name === name && s.shape !== 'run');
    }

    // Describes a layer by its kind and module: "window,
    // model.layers.3.self_attn". Returns "" if the file has neither.
    function aboutLayer(run, layer) {
        const {kind, name} = run.summary.layers[layer] || {};
        return [kind, name].filter(Boolean).join(', ');
    }

    return {summary, about, aboutLayer, runs, series, colours, grids, curves, find, lines,
            differing, varies, headLine, sampleAt, extent};
})();
