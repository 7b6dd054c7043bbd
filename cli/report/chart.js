'use strict';

// Draws line charts over the steps, which can be zoomed with the wheel, by
// dragging and by keys. All charts of the page show the same range of steps.
const Chart = (() => {
    const MARGIN = {left: 44, right: 12, top: 10, bottom: 24};
    const charts = [];
    let number = 0;

    /* --- the span of steps -----------------------------------------------*/

    // Returns the smallest range that contains the steps of all charts.
    function whole() {
        const all = charts.filter((c) => c.box.isConnected)
            .flatMap((c) => c.lines.map((l) => l.points))
            .filter((points) => points.length);
        const from = Plot.min(all, (points) => points[0].x);
        const to = Plot.max(all, (points) => points[points.length - 1].x);
        return from === undefined ? [0, 1] : to > from ? [from, to]
                                                       : [from - 1, to + 1];
    }

    const span = () => State.now.span || whole();

    // Sets the visible range of steps, clamped to the range of all steps.
    function setSpan(from, to) {
        const [low, high] = whole(), all = high - low;
        const width = Math.min(all, Math.max(to - from, all / 1e4, 2));
        const start = Math.min(Math.max(from, low), high - width);
        State.set({span: width >= all ? null : [start, start + width]});
    }

    function zoom(by, around) {
        const [from, to] = span();
        setSpan(around - (around - from) / by, around + (to - around) / by);
    }

    /* --- drawing ---------------------------------------------------------*/

    // Returns true if all values are positive and a few huge values would
    // flatten all others. The axis is then logarithmic by default.
    function isExtreme(lines) {
        const ys = lines.flatMap((l) => l.points.map((p) => p.y))
            .filter((y) => y !== null && Number.isFinite(y));
        const [low, high] = Plot.extent(ys);
        return low > 0 && high > 1000 * Plot.median(ys);
    }

    const isLog = (c) => State.now.log || c.extreme;

    const drawable = (c, y) => y !== null && Number.isFinite(y) &&
        (!isLog(c) || y > 0);

    function makeScales(c) {
        const [low, high] = [...c.range].filter(Number.isFinite);
        const padded = low === undefined ? [0, 1]
            : low === high ? [low - 0.5, high + 0.5] : [low, high];
        const rows = [c.height - MARGIN.bottom, MARGIN.top];
        c.x = Plot.scale(span(), [MARGIN.left, c.width - MARGIN.right]);
        c.y = isLog(c) ? Plot.scale(logDomain(c), rows, true)
                       : Plot.scale(Plot.nice(padded, 5), rows);
    }

    function logDomain(c) {
        const ys = c.lines.flatMap((l) => l.points.map((p) => p.y))
            .filter((y) => y > 0 && Number.isFinite(y));
        const [low, high] = Plot.extent(ys);
        return low === undefined ? [0.1, 1]
            : low === high ? [low / 2, high * 2] : [low, high];
    }

    // A logarithmic axis has ticks only at powers of ten, unless there are few
    // of these.
    function yTicks(c) {
        const ticks = c.y.ticks(5);
        if (!isLog(c) || ticks.length < 8)
            return ticks;
        const tens = ticks.filter((t) => Math.abs(
            Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
        const stride = Math.ceil(tens.length / 6);
        return tens.length > 1 ? tens.filter((t, i) => i % stride === 0)
            : ticks.filter((t, i) => i % Math.ceil(ticks.length / 5) === 0);
    }

    function drawAxes(c) {
        const text = (x, y, anchor, words) => Plot.svg(
            'text', {x, y, 'text-anchor': anchor}, words);
        const axis = (...parts) => Plot.svg('g', {class: 'axis'}, ...parts);
        // Use only whole steps, with enough space for each label.
        const steps = c.x.ticks(Math.max(2, Math.floor(c.width / 90)))
            .filter((t) => Number.isInteger(t));
        Dom.replace(c.axes,
            ...isLog(c) ? [text(MARGIN.left + 6, MARGIN.top + 10, 'start',
                                'log')] : [],
            ...yTicks(c).map((t) => axis(
                Plot.svg('line', {x1: MARGIN.left, y1: c.y(t), y2: c.y(t),
                                  x2: c.width - MARGIN.right}),
                text(MARGIN.left - 7, c.y(t) + 4, 'end', Dom.thousands(t)))),
            ...steps.map((t) => axis(text(c.x(t), c.height - 6, 'middle',
                                          Dom.thousands(t)))));
    }

    // Returns the visible points of a line, and one more point on either side.
    function inSight(points) {
        const [from, to] = span(), x = (p) => p.x;
        return points.slice(
            Math.max(0, Plot.bisect(points, from, false, x) - 1),
            Plot.bisect(points, to, true, x) + 1);
    }

    function drawLines(c) {
        const shown = c.lines.map((line) => ({
            line, pieces: pieces(c, inSight(line.points))}));
        c.paths = shown.map(({line, pieces: all}) => Plot.svg('path', {
            d: Plot.path(all), class: 'line ' + (line.kind || ''),
            stroke: line.colour}));
        Dom.replace(c.plot, ...bands(c), ...c.paths, ...shown.flatMap(alone),
                    ...broken(c));
    }

    // Draws the range between `low` and `high` of the points of a line's band.
    function bands(c) {
        const at = (p, y) => [c.x(p.x), c.y(y)];
        return c.lines.filter(({band}) => band && band.length > 1).map(
            ({band, colour}) => {
                const points = inSight(band).filter((p) => drawable(c, p.low));
                return Plot.svg('path', {class: 'band', fill: colour,
                    d: Plot.path([[...points.map((p) => at(p, p.high)),
                                   ...points.reverse().map(
                                       (p) => at(p, p.low))]])});
            });
    }

    // Splits a line into pieces, [[x, y], ...], at values that cannot be drawn.
    function pieces(c, points) {
        const all = [[]];
        for (const p of points)
            if (drawable(c, p.y))
                all[all.length - 1].push([c.x(p.x), c.y(p.y)]);
            else if (all[all.length - 1].length)
                all.push([]);
        return all;
    }

    // Draws a dot for each isolated point, which is not part of a line.
    const alone = ({line, pieces: all}) => all.filter((p) => p.length === 1)
        .map(([[cx, cy]]) => Plot.svg('circle', {r: 2.5, cx, cy,
                                                 fill: line.colour}));

    // Marks NaN and infinity at the bottom, at most once per pixel.
    function broken(c) {
        const pixels = new Set(c.lines.flatMap(({points}) => inSight(points)
            .filter((p) => p.y !== null && !Number.isFinite(p.y))
            .map((p) => Math.round(c.x(p.x)))));
        const foot = c.height - MARGIN.bottom;
        return Array.from(pixels, (x) => Plot.svg('line', {
            class: 'broken', x1: x, x2: x, y1: foot, y2: foot - 8}));
    }

    function drawReference(c) {
        const {reference, height} = c, y = reference && c.y(reference.y);
        const fits = reference && y > MARGIN.top - 1 && y < height;
        Dom.replace(c.ceiling, ...!fits ? [] : [
            Plot.svg('line', {x1: MARGIN.left, y1: y, y2: y,
                              x2: c.width - MARGIN.right}),
            Plot.svg('text', {x: c.width - MARGIN.right - 2,
                              y: y < MARGIN.top + 14 ? y + 12 : y - 4,
                              'text-anchor': 'end'}, reference.text)]);
    }

    function drawStep(c) {
        const x = c.x(State.now.step);
        const inside = x >= MARGIN.left && x <= c.width - MARGIN.right;
        c.now.classList.toggle('shown', State.now.step !== null && inside);
        Plot.set(c.now, {x1: x, x2: x, y1: MARGIN.top,
                         y2: c.height - MARGIN.bottom});
    }

    function draw(c) {
        if (!c.box.isConnected)
            return;
        makeScales(c);
        drawAxes(c);
        drawLines(c);
        drawReference(c);
        drawStep(c);
    }

    /* --- pointer and keys ------------------------------------------------*/

    const local = (c, event) => {
        const bounds = c.svg.getBoundingClientRect();
        return {x: event.clientX - bounds.left, y: event.clientY - bounds.top};
    };

    // Finds the point of every line that is nearest in steps to the pointer.
    // Returns the nearest of these points and its line.
    function nearest(c, at) {
        const step = c.x.invert(at.x);
        let best = null;
        for (const line of c.lines) {
            const i = Plot.bisect(line.points, step, false, (p) => p.x);
            for (const p of line.points.slice(Math.max(0, i - 1), i + 1)) {
                if (!drawable(c, p.y))
                    continue;
                const far = Math.hypot((c.x(p.x) - at.x) / 4,
                                       c.y(p.y) - at.y);
                if (!best || far < best.far)
                    best = {line, p, far};
            }
        }
        return best;
    }

    function leave(c) {
        c.svg.classList.remove('pointing');
        c.dot.classList.remove('shown');
        Tip.hide();
    }

    function hover(c, event) {
        const found = nearest(c, local(c, event));
        if (!found) {
            leave(c);
            return;
        }
        const {line, p} = found;
        c.svg.classList.add('pointing');
        c.paths.forEach((path, i) =>
            path.classList.toggle('near', c.lines[i] === line));
        c.dot.classList.add('shown');
        Plot.set(c.dot, {cx: c.x(p.x), cy: c.y(p.y), fill: line.colour});
        Tip.show([{text: line.label, strong: true},
                  {text: Values.short(p.y) + (c.unit ? ' ' + c.unit : ''),
                   strong: true},
                  {text: `step ${p.x}, ${line.of}`, muted: true}],
                 {x: event.clientX, y: event.clientY});
    }

    function wheel(c, event) {
        event.preventDefault();
        const pixels = event.deltaMode ? 120 * event.deltaY : event.deltaY;
        zoom(Math.pow(2, -pixels / 300), c.x.invert(local(c, event).x));
    }

    // Dragging moves the visible range of steps.
    function press(c, event) {
        if (event.button !== 0)
            return;
        const {svg} = c, start = local(c, event).x;
        const [from, to] = span(), a_pixel = (to - from) /
            (c.width - MARGIN.left - MARGIN.right);
        c.moved = false;
        const move = (e) => {
            const by = local(c, e).x - start;
            c.moved = c.moved || Math.abs(by) > 4;
            if (c.moved)
                setSpan(from - by * a_pixel, to - by * a_pixel);
        };
        const listeners = {pointermove: move};
        const release = () => Object.entries(listeners).forEach(
            ([name, heard]) => svg.removeEventListener(name, heard));
        listeners.pointerup = listeners.pointercancel = release;
        svg.setPointerCapture(event.pointerId);
        Object.entries(listeners).forEach(
            ([name, heard]) => svg.addEventListener(name, heard));
    }

    function click(c, event) {
        if (event.detail > 1)
            return;
        c.before = State.now.step;
        if (!c.moved)
            Steps.choose(c.x.invert(local(c, event).x));
    }

    function key(event) {
        const [from, to] = span(), quarter = (to - from) / 4;
        const actions = {
            '+': () => zoom(2, (from + to) / 2),
            '=': () => zoom(2, (from + to) / 2),
            '-': () => zoom(0.5, (from + to) / 2),
            '0': () => State.set({span: null}),
            ArrowLeft: () => setSpan(from - quarter, to - quarter),
            ArrowRight: () => setSpan(from + quarter, to + quarter),
        };
        if (!actions[event.key] || event.ctrlKey || event.metaKey)
            return;
        actions[event.key]();
        event.preventDefault();
    }

    function listen(c) {
        const on = (name, heard, options) =>
            c.svg.addEventListener(name, heard, options);
        on('pointermove', (e) => hover(c, e));
        on('pointerleave', () => leave(c));
        on('pointerdown', (e) => press(c, e));
        on('wheel', (e) => wheel(c, e), {passive: false});
        on('click', (e) => click(c, e));
        // Undo the choice of a step by the first of the two clicks.
        on('dblclick', () => State.set({span: null, step: c.before}));
        on('keydown', key);
    }

    function addParts(c) {
        const clip = 'clip-' + number++;
        const add = (...part) => {
            const made = Plot.svg(...part);
            c.svg.append(made);
            return made;
        };
        add('clipPath', {id: clip}, Plot.svg('rect', {
            x: MARGIN.left, y: 0, height: c.height,
            width: Math.max(0, c.width - MARGIN.left - MARGIN.right)}));
        c.axes = add('g');
        c.now = add('line', {class: 'now'});
        c.ceiling = add('g', {class: 'ceiling'});
        c.plot = add('g', {'clip-path': `url(#${clip})`});
        c.dot = add('circle', {class: 'dot', r: 4});
    }

    /**
     * Adds a chart to `box`. options: {lines: [{points, label, of, colour,
     * kind, band}], unit, range: values that the axis must include, reference,
     * label, width, height}. redraw() draws all charts again.
     */
    function make(box, options) {
        const c = Object.assign({box}, options);
        c.extreme = isExtreme(c.lines);
        c.svg = Plot.svg('svg', {
            class: 'chart', width: c.width, height: c.height, tabindex: 0,
            role: 'img', 'aria-label': c.label});
        box.append(c.svg);
        addParts(c);
        listen(c);
        charts.push(c);
        return c;
    }

    // Sets the lines, the range and the reference of a chart. redraw() shows
    // them.
    function change(c, options) {
        Object.assign(c, options);
        c.extreme = isExtreme(c.lines);
    }

    function redraw() {
        charts.splice(0, charts.length,
                      ...charts.filter((c) => c.box.isConnected));
        charts.forEach(draw);
    }

    function start() {
        State.follow(['span', 'log'], redraw);
        State.follow(['step'], () => charts.forEach(
            (c) => c.x && c.box.isConnected && drawStep(c)));
    }

    return {make, change, redraw, start};
})();
