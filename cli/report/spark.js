'use strict';

// Draws small curves of the mean entropy and the loss into the table of runs, on
// one scale for all runs. A live page gets the points with the list of runs; a
// report computes them from the series while the browser is idle.
const Spark = (() => {
    const WIDTH = 88, HEIGHT = 18, PAD = 2;
    const MOST = 48; // groups of samples, with two points each
    const KINDS = ['entropy', 'loss'];
    const waiting = []; // {box, run, kind}: cells without their curve

    /* --- points ----------------------------------------------------------*/

    function seriesOf(run, kind) {
        if (kind === 'entropy')
            return Data.find(run, run.summary.series);
        const all = run.series.filter((s) => s.shape === 'run' &&
                                      s.name === 'loss' && s.steps);
        return all.find((s) => s.phase === 'train') || all[0];
    }

    // Keeps the smallest and largest value of each group of points. A value that
    // is not finite represents its group.
    function thin(points) {
        const n = Math.ceil(points.length / MOST);
        if (n <= 2)
            return points;
        return Plot.range(0, points.length, n).flatMap((from) => {
            const some = points.slice(from, from + n);
            const broken = some.find((p) => Number.isNaN(p.y));
            const [low, high] = Plot.extent(some, (p) => p.y);
            return broken ? [broken] : some.filter(
                (p) => p.y === low || p.y === high).slice(0, 2);
        });
    }

    function compute(run, kind) {
        const series = seriesOf(run, kind);
        if (!series)
            return [];
        const values = series.glance(), {size} = series;
        return thin(series.steps.map((x, k) => ({x, y: Data.rowMean(
            values, k * size, size)})).map((p) => Number.isFinite(p.y) ||
                p.y === null ? p : {x: p.x, y: NaN}));
    }

    // Reads the points that the server computed.
    const spell = ({steps, values}) => steps.map((x, i) => ({
        x, y: values[i] === null ? NaN : values[i] === '' ? null : values[i]}));

    // Returns the points {x, y} of a run; y is NaN if not finite, null if
    // missing.
    function points(run, kind) {
        run.points = run.points || {};
        if (!run.points[kind])
            run.points[kind] = run.summary.spark
                ? spell(run.summary.spark[kind]) : compute(run, kind);
        return run.points[kind];
    }

    // Returns the mean and the range of several runs at up to n steps, as
    // [{x, y, low, high}]. A run counts between its first and its last sample.
    function spread(runs, kind, n = 2 * MOST) {
        const all = runs.map((run) => points(run, kind).filter(
            (p) => p.y !== null)).filter((list) => list.length);
        const from = Plot.min(all, (list) => list[0].x);
        const to = Plot.max(all, (list) => list[list.length - 1].x);
        if (from === undefined)
            return [];
        return Plot.range(0, n).map((i) => {
            const x = from + (to - from) * i / (n - 1);
            const ys = all.map((list) => between(list, x));
            const known = ys.filter(Number.isFinite);
            return {x, y: known.length ? known.reduce((a, b) => a + b) /
                        known.length : ys.some(Number.isNaN) ? NaN : null,
                    low: Math.min(...known), high: Math.max(...known)};
        });
    }

    // Interpolates a line; returns null outside its steps.
    function between(list, x) {
        const i = Plot.bisect(list, x, false, (p) => p.x), a = list[i - 1];
        if (i === list.length)
            return null;
        if (list[i].x === x || !a)
            return list[i].x === x ? list[i].y : null;
        return a.y + (list[i].y - a.y) * (x - a.x) / (list[i].x - a.x);
    }

    /* --- drawing ---------------------------------------------------------*/

    // Returns the range of values of all runs; single huge losses leave it.
    const domains = Data.once(() => Object.fromEntries(KINDS.map((kind) => {
        const extents = Data.runs.map((run) => Plot.extent(
            points(run, kind).filter((p) => Number.isFinite(p.y)), (p) => p.y))
            .filter(([low]) => low !== undefined);
        const high = Plot.max(extents, (e) => e[1]);
        const usual = extents.length ? Plot.median(extents.map((e) => e[1])) : 1;
        const low = kind === 'entropy' ? 0 : Plot.min(extents, (e) => e[0]) || 0;
        return [kind, [Math.min(low, usual), kind === 'loss'
            ? Math.min(high, Math.max(usual, 0) * 1.5) : high]];
    })));
    const lastStep = Data.once(() => Plot.max(Data.runs, (run) => Plot.max(
        KINDS.flatMap((kind) => points(run, kind).slice(-1)), (p) => p.x)) || 1);

    function draw({box, run, kind}) {
        const [low, high] = domains()[kind];
        const x = Plot.scale([0, lastStep()], [PAD, WIDTH - PAD]);
        const of = Plot.scale(high > low ? [low, high] : [low - 1, low + 1],
                              [HEIGHT - PAD, PAD]);
        const y = (v) => Math.max(PAD, Math.min(HEIGHT - PAD, of(v)));
        const all = run.members ? spread(run.members, kind)
                                : points(run, kind);
        const finite = all.filter((p) => Number.isFinite(p.y));
        const broken = all.filter((p) => Number.isNaN(p.y));
        const [last] = finite.slice(-1);
        const svg = Plot.svg('svg', {width: WIDTH, height: HEIGHT, role: 'img',
            'aria-label': `${kind} over the steps`});
        if (run.members && finite.length > 1)
            svg.append(Plot.svg('path', {class: 'band', d: Plot.path([[
                ...finite.map((p) => [x(p.x), y(p.high)]),
                ...finite.reverse().map((p) => [x(p.x), y(p.low)])]])}));
        finite.sort((a, b) => a.x - b.x);
        svg.append(Plot.svg('path', {class: 'line', d: Plot.path(
            [finite.map((p) => [x(p.x), y(p.y)])])}),
            ...last ? [Plot.svg('circle', {cx: x(last.x), cy: y(last.y), r: 1.8})]
                : [],
            ...broken.map((p) => Plot.svg('line', {class: 'broken',
                x1: x(p.x), x2: x(p.x), y1: HEIGHT, y2: HEIGHT - 6})));
        Dom.replace(box, svg);
    }

    // Points that the server computed are ready; others are if they are kept.
    const isReady = (run) => (run.members || [run]).every((one) =>
        one.summary.spark || (one.points && KINDS.every(
            (kind) => one.points[kind])));

    // Computes points, and then fills cells, for a few milliseconds.
    function work(idle) {
        const end = performance.now() + 12;
        const late = () => performance.now() > end ||
            (idle.timeRemaining && idle.timeRemaining() <= 0 && !idle.didTimeout);
        for (const run of Data.runs) {
            if (!isReady(run))
                KINDS.forEach((kind) => points(run, kind));
            if (late())
                break;
        }
        while (waiting.length && !late() && Data.runs.every(isReady))
            draw(waiting.shift());
        if (waiting.length)
            later();
    }

    let scheduled = false;
    function later() {
        if (scheduled)
            return;
        scheduled = true;
        const run = (idle) => {
            scheduled = false;
            work(idle);
        };
        if (window.requestIdleCallback)
            requestIdleCallback(run, {timeout: 300});
        else
            setTimeout(() => run({}), 20);
    }

    const cell = (kind) => (run) => {
        const box = Dom.element('td', {class: 'spark'});
        if (Data.runs.every(isReady)) {
            draw({box, run, kind});
        } else {
            waiting.push({box, run, kind});
            later();
        }
        return box;
    };

    return {cell, points, spread};
})();
