'use strict';

// The runs and their series. A report contains them; a live page (live.js) gets
// them from the server, and changes them while the page is open.
const Data = (() => {
    const read = (element) => JSON.parse(element.textContent);
    const about = read(document.getElementById('about'));
    const summary = {max: {}, runs: []}; // as printed by --json
    // The elements of these arrays change in a live page, the arrays do not.
    const runs = [], series = [];
    const grids = [], curves = []; // names of series: with a value per head or layer; per step

    function readSeries(element) {
        const series = read(element), {rows, columns, steps, curve} = series;
        const text = series.values;
        let decoded = null;
        Object.defineProperty(series, 'values', {
            get: () => decoded || (decoded = Values.decode(text))});
        return Object.assign(series, {
            glance: () => decoded || Values.decode(text), // without keeping them
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

    // Returns a value for CSV: a number, or NA if missing.
    const cell = (values, i) =>
        Values.isMissing(values, i) ? 'NA' : values.floats[i];

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

    // Makes a function that computes its value again only if the list of runs
    // changed.
    function once(compute) {
        let value, at = -1;
        return () => {
            if (at !== version) {
                at = version;
                value = compute();
            }
            return value;
        };
    }

    // Makes the keys of runs distinct: two copies of a run have one UUID.
    function distinct(keys) {
        const seen = new Map();
        return keys.map((key) => {
            const n = (seen.get(key) || 0) + 1;
            seen.set(key, n);
            return n > 1 ? `${key}.${n}` : key;
        });
    }

    // Sets the list of runs to the output of --json; `described` has the key
    // and title of each run. A run that is known keeps its object and its
    // series.
    let version = 0;
    function setRuns(printed, described) {
        const known = new Map(runs.map((run) => [run.key, run]));
        const keys = distinct(described.map(({key}, i) => key || `run${i}`));
        version++;
        Object.assign(summary, printed);
        runs.splice(0, runs.length, ...printed.runs.map((one, i) => {
            const run = known.get(keys[i]) || {key: keys[i], series: []};
            run.index = i;
            run.title = described[i].title;
            if (run.summary !== one)
                Object.assign(run, {
                    summary: one, words: null, points: null,
                    settings: new Map(
                        one.config ? flatten(one.config, '') : [])});
            return run;
        }));
        setNames();
    }

    // Collects the series of all runs and their names.
    function setNames() {
        const fill = (array, values) => array.splice(0, array.length, ...values);
        const names = (isGrid) => new Set(series.filter(
            (s) => (s.shape !== 'run') === isGrid).map((s) => s.name));
        fill(series, runs.flatMap((run) => run.series));
        const first = [runs[0]?.summary.series, 'entropy', 'max_logit', 'loss'];
        const rank = (name) => (first.indexOf(name) + 1) || Infinity;
        const order = (isGrid) => [...names(isGrid)].sort(
            (a, b) => rank(a) - rank(b) || 0);
        fill(grids, order(true));
        fill(curves, order(false));
    }

    // Reads the runs that the program wrote into a report.
    function readPage() {
        setRuns(readSummary(), about.runs);
        for (const element of document.querySelectorAll('script.series')) {
            const one = readSeries(element), run = runs[one.run];
            run.series.push(Object.assign(one, {run}));
        }
        setNames();
    }

    const colours = Object.fromEntries(Object.entries(about.colours).map(
        ([name, text]) => [name, text.match(/.{6}/g).map((c) => '#' + c)]));

    // Returns a series of a run. A live page may not have its samples yet.
    function find(run, name) {
        return run.series.find((s) => s.name === name && s.shape !== 'run' &&
            s.steps);
    }

    // Describes a layer by its kind and module: "window,
    // model.layers.3.self_attn". Returns "" if the file has neither.
    function aboutLayer(run, layer) {
        const {kind, name} = run.summary.layers[layer] || {};
        return [kind, name].filter(Boolean).join(', ');
    }

    if (document.getElementById('summary'))
        readPage();

    return {summary, about, aboutLayer, runs, series, colours, grids, curves,
            setRuns, setNames, once, find, lines, cell, rowMean, differing, varies, headLine,
            sampleAt, extent};
})();
