'use strict';

// Draws line charts over the steps, which can be zoomed with the wheel, by
// dragging and by keys. All charts of the page show the same range of steps.
const Chart = (() => {
    const MARGIN = {left: 44, right: 12, top: 10, bottom: 24};
    // Sizes of the arrows above a plot: height, half the width, and the space of
    // an arrow and its text.
    const ARROW = {height: 9, half: 2.5, space: 14};
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

    // Returns true if values above the limit of a chart need not be visible.
    const isLimited = (c) => Number.isFinite(c.limit) && !State.now.full &&
        !State.now.log;

    const isLog = (c) => State.now.log || (c.extreme && !isLimited(c));

    // Finds the largest value of a chart with a limit, and the range of the
    // values up to the limit.
    function measure(c) {
        c.extreme = isExtreme(c.lines);
        const ys = !Number.isFinite(c.limit) ? [] : c.lines.flatMap(
            ({points, band}) => [...points.map((p) => p.y),
                ...(band || []).flatMap((p) => [p.low, p.high])])
            .filter((y) => y !== null && Number.isFinite(y));
        c.most = Plot.max(ys);
        c.within = Plot.extent(ys.filter((y) => y <= c.limit));
    }

    const drawable = (c, y) => y !== null && Number.isFinite(y) &&
        (!isLog(c) || y > 0);

    function makeScales(c) {
        const [low, high] = (isLimited(c) ? c.within : [...c.range])
            .filter(Number.isFinite);
        const padded = low === undefined ? [0, 1]
            : low === high ? [low - 0.5, high + 0.5] : [low, high];
        const domain = Plot.nice(padded, 5);
        c.beyond = isLimited(c) && c.most > domain[1];
        c.top = MARGIN.top + (c.beyond ? ARROW.space : 0);
        const rows = [c.height - MARGIN.bottom, c.top];
        c.x = Plot.scale(span(), [MARGIN.left, c.width - MARGIN.right]);
        c.y = isLog(c) ? Plot.scale(logDomain(c), rows, true)
                       : Plot.scale(domain, rows);
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

    /* --- values above the plot -------------------------------------------*/

    // Returns the visible points at which a line is highest above the plot.
    function peaks(c) {
        const [from, to] = span();
        return c.lines.flatMap(({points}) => {
            const found = [];
            let above = false;
            for (const p of inSight(points).filter(
                ({x}) => x >= from && x <= to)) {
                const y = Limit.top(p), before = above;
                above = drawable(c, y) && c.y(y) < c.top;
                if (above && !before)
                    found.push({x: c.x(p.x), y});
                else if (above && y > found[found.length - 1].y)
                    found[found.length - 1] = {x: c.x(p.x), y};
            }
            return found;
        }).sort((a, b) => a.x - b.x);
    }

    // Returns an arrow with its text, which take the interval from left to right.
    function arrowAt(c, {x, y}) {
        const text = Dom.thousands(Number(y.toPrecision(3)));
        const width = ARROW.half + 2 + Dom.widthOf(text, c.box);
        const flipped = x + width > c.width - MARGIN.right;
        return {x, y, text, flipped, left: x - (flipped ? width : ARROW.half),
                right: x + (flipped ? ARROW.half : width)};
    }

    function drawArrow(c, {x, text, flipped}) {
        const foot = c.top - 2, head = foot - ARROW.height, {half} = ARROW;
        return [Plot.svg('path', {d: Plot.path([[[x, foot], [x, head]],
            [[x - half, head + 3], [x, head], [x + half, head + 3]]])}),
            Plot.svg('text', {x: x + (flipped ? -1 : 1) * (half + 2), y: foot,
                              'text-anchor': flipped ? 'end' : 'start'}, text)];
    }

    // Draws an arrow with the value where lines leave the plot. Of arrows that
    // would overlap, only the one with the largest value is drawn.
    function drawArrows(c) {
        const shown = [];
        for (const p of c.beyond ? peaks(c) : []) {
            const next = arrowAt(c, p), last = shown[shown.length - 1];
            if (!last || next.left > last.right)
                shown.push(next);
            else if (next.y > last.y)
                shown[shown.length - 1] = next;
        }
        Dom.replace(c.arrows, ...shown.flatMap((arrow) => drawArrow(c, arrow)));
        Plot.set(c.frame, {y: c.beyond ? c.top - 1 : 0});
    }

    /* --- parts of lines --------------------------------------------------*/

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
        Plot.set(c.now, {x1: x, x2: x, y1: c.top,
                         y2: c.height - MARGIN.bottom});
    }

    function draw(c) {
        if (!c.box.isConnected)
            return;
        makeScales(c);
        drawAxes(c);
        drawLines(c);
        drawArrows(c);
        drawReference(c);
        drawStep(c);
    }

    /* --- pointer and keys ------------------------------------------------*/

    const local = (c, event) => {
        const bounds = c.svg.getBoundingClientRect();
        return {x: event.clientX - bounds.left, y: event.clientY - bounds.top};
    };

    // Returns the y of a value; values above the plot are at its upper edge.
    const rowOf = (c, y) => Math.max(c.beyond ? c.top : -Infinity, c.y(y));

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
                                       rowOf(c, p.y) - at.y);
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
        Plot.set(c.dot, {cx: c.x(p.x), cy: rowOf(c, p.y), fill: line.colour});
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
        c.frame = Plot.svg('rect', {
            x: MARGIN.left, y: 0, height: c.height,
            width: Math.max(0, c.width - MARGIN.left - MARGIN.right)});
        add('clipPath', {id: clip}, c.frame);
        c.axes = add('g');
        c.now = add('line', {class: 'now'});
        c.ceiling = add('g', {class: 'ceiling'});
        c.plot = add('g', {'clip-path': `url(#${clip})`});
        c.arrows = add('g', {class: 'arrows'});
        c.dot = add('circle', {class: 'dot', r: 4});
    }

    /**
     * Adds a chart to `box`. options: {lines: [{points, label, of, colour,
     * kind, band, run}], unit, range: values that the axis must include, limit:
     * values above it are cut unless State.now.full (NaN: none), reference,
     * label, width, height}. redraw() draws all charts again.
     */
    function make(box, options) {
        const c = Object.assign({box}, options);
        measure(c);
        c.svg = Plot.svg('svg', {
            class: 'chart', width: c.width, height: c.height, tabindex: 0,
            role: 'img', 'aria-label': c.label});
        box.append(c.svg);
        addParts(c);
        listen(c);
        charts.push(c);
        return c;
    }

    // Sets the lines, the range, the limit and the reference of a chart.
    // redraw() shows them.
    function change(c, options) {
        Object.assign(c, options);
        measure(c);
    }

    function redraw() {
        charts.splice(0, charts.length,
                      ...charts.filter((c) => c.box.isConnected));
        charts.forEach(draw);
        fulls.forEach(drawFull);
    }

    // A card whose charts cut values has a box that shows all of them.
    const fulls = Array.from(document.querySelectorAll('.full'));
    function drawFull(label) {
        const card = label.closest('.card');
        label.firstElementChild.checked = State.now.full;
        label.hidden = !charts.some((c) => card.contains(c.box) &&
            (c.beyond || (State.now.full && Number.isFinite(c.limit))));
    }

    function start() {
        for (const label of fulls)
            label.addEventListener('change', (event) => State.set(
                {full: event.target.checked}));
        State.follow(['span', 'log', 'full'], redraw);
        State.follow(['step'], () => charts.forEach(
            (c) => c.x && c.box.isConnected && drawStep(c)));
    }

    return {make, change, redraw, isLog, start};
})();
