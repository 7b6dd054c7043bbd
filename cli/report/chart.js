'use strict';

// One chart: lines over the steps, zoomed by wheel, drag and keys; all charts
// of the page share the span of steps that they show.
const Chart = (() => {
    const MARGIN = {left: 44, right: 12, top: 10, bottom: 24};
    const charts = [];
    let number = 0;

    /* --- the span of steps -----------------------------------------------*/

    // All steps of all charts.
    function whole() {
        const all = charts.filter((c) => c.box.isConnected)
            .flatMap((c) => c.lines.map((l) => l.points))
            .filter((points) => points.length);
        const from = d3.min(all, (points) => points[0].x);
        const to = d3.max(all, (points) => points[points.length - 1].x);
        return from === undefined ? [0, 1] : to > from ? [from, to]
                                                       : [from - 1, to + 1];
    }

    const span = () => State.now.span || whole();

    // Keeps a span inside the steps that there are.
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

    // A few huge values would press all others flat: then the axis is
    // logarithmic by itself, if no value is lost by it.
    function isExtreme(lines) {
        const ys = lines.flatMap((l) => l.points.map((p) => p.y))
            .filter((y) => y !== null && Number.isFinite(y));
        return ys.length > 0 && d3.min(ys) > 0 &&
            d3.max(ys) > 1000 * d3.median(ys);
    }

    const isLog = (c) => State.now.log || c.extreme;

    const drawable = (c, y) => y !== null && Number.isFinite(y) &&
        (!isLog(c) || y > 0);

    function makeScales(c) {
        const [low, high] = [...c.range].filter(Number.isFinite);
        const padded = low === undefined ? [0, 1]
            : low === high ? [low - 0.5, high + 0.5] : [low, high];
        const rows = [c.height - MARGIN.bottom, MARGIN.top];
        c.x = d3.scale.linear().domain(span())
            .range([MARGIN.left, c.width - MARGIN.right]);
        c.y = isLog(c)
            ? d3.scale.log().domain(logDomain(c)).range(rows)
            : d3.scale.linear().domain(padded).range(rows).nice(5);
    }

    function logDomain(c) {
        const ys = c.lines.flatMap((l) => l.points.map((p) => p.y))
            .filter((y) => y > 0 && Number.isFinite(y));
        const [low, high] = d3.extent(ys);
        return low === undefined ? [0.1, 1]
            : low === high ? [low / 2, high * 2] : [low, high];
    }

    // d3's ticks of a logarithm are many: the powers of ten, or all if few.
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
        const ticksOf = (data, enter) => {
            const all = c.axes.append('g').selectAll('g').data(data).enter()
                .append('g').attr('class', 'axis');
            enter(all);
        };
        c.axes.text('');
        if (isLog(c))
            c.axes.append('text').attr('x', MARGIN.left + 6)
                .attr('y', MARGIN.top + 10).text('log');
        ticksOf(yTicks(c), (g) => {
            g.append('line').attr('x1', MARGIN.left)
                .attr('x2', c.width - MARGIN.right)
                .attr('y1', c.y).attr('y2', c.y);
            g.append('text').attr('x', MARGIN.left - 7)
                .attr('y', (t) => c.y(t) + 4).attr('text-anchor', 'end')
                .text(Dom.thousands);
        });
        // whole steps, each label with its space
        const steps = c.x.ticks(Math.max(2, Math.floor(c.width / 90)))
            .filter((t) => Number.isInteger(t));
        ticksOf(steps, (g) => {
            g.append('text').attr('x', c.x).attr('y', c.height - 6)
                .attr('text-anchor', 'middle').text(Dom.thousands);
        });
    }

    // The points in sight, and one more on either side.
    function inSight(points) {
        const [from, to] = span(), left = d3.bisector((p) => p.x);
        return points.slice(Math.max(0, left.left(points, from) - 1),
                            left.right(points, to) + 1);
    }

    function drawLines(c) {
        const path = d3.svg.line().x((p) => c.x(p.x)).y((p) => c.y(p.y))
            .defined((p) => drawable(c, p.y));
        const shown = c.lines.map((line) => ({
            line, points: inSight(line.points)}));
        const join = c.plot.selectAll('path').data(shown);
        join.enter().append('path');
        join.exit().remove();
        join.attr('d', ({points}) => path(points))
            .attr('class', ({line}) => 'line ' + (line.kind || ''))
            .attr('stroke', ({line}) => line.colour);
        drawAlone(c, shown);
        drawBroken(c, shown);
    }

    // A point without neighbours is no line: a dot.
    function drawAlone(c, shown) {
        const alone = shown.flatMap(({line, points}) => points.filter(
            (p, i) => drawable(c, p.y) &&
                !(points[i - 1] && drawable(c, points[i - 1].y)) &&
                !(points[i + 1] && drawable(c, points[i + 1].y)))
            .map((p) => ({p, line})));
        const join = c.plot.selectAll('circle').data(alone);
        join.enter().append('circle').attr('r', 2.5);
        join.exit().remove();
        join.attr('cx', ({p}) => c.x(p.x)).attr('cy', ({p}) => c.y(p.y))
            .attr('fill', ({line}) => line.colour);
    }

    // Where a line is NaN or infinite: a mark at the foot, one a pixel.
    function drawBroken(c, shown) {
        const pixels = new Set(shown.flatMap(({points}) => points
            .filter((p) => p.y !== null && !Number.isFinite(p.y))
            .map((p) => Math.round(c.x(p.x)))));
        const join = c.plot.selectAll('line').data(Array.from(pixels));
        join.enter().append('line').attr('class', 'broken');
        join.exit().remove();
        join.attr('x1', (x) => x).attr('x2', (x) => x)
            .attr('y1', c.height - MARGIN.bottom)
            .attr('y2', c.height - MARGIN.bottom - 8);
    }

    function drawReference(c) {
        const {reference, height} = c, y = reference && c.y(reference.y);
        const fits = reference && y > MARGIN.top - 1 && y < height;
        c.ceiling.classed('shown', !!fits);
        if (!fits)
            return;
        c.ceiling.select('line').attr('x1', MARGIN.left)
            .attr('x2', c.width - MARGIN.right).attr('y1', y).attr('y2', y);
        c.ceiling.select('text').attr('x', c.width - MARGIN.right - 2)
            .attr('y', y < MARGIN.top + 14 ? y + 12 : y - 4)
            .text(reference.text);
    }

    function drawStep(c) {
        const x = c.x(State.now.step);
        const inside = x >= MARGIN.left && x <= c.width - MARGIN.right;
        c.now.classed('shown', State.now.step !== null && inside)
            .attr('x1', x).attr('x2', x).attr('y1', MARGIN.top)
            .attr('y2', c.height - MARGIN.bottom);
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
        const bounds = c.svg.node().getBoundingClientRect();
        return {x: event.clientX - bounds.left, y: event.clientY - bounds.top};
    };

    // Of each line the point nearest in steps; of these the nearest, and its
    // line.
    function nearest(c, at) {
        const step = c.x.invert(at.x), left = d3.bisector((p) => p.x).left;
        let best = null;
        for (const line of c.lines) {
            const i = left(line.points, step);
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
        c.svg.classed('pointing', false);
        c.dot.classed('shown', false);
        Tip.hide();
    }

    function hover(c, event) {
        const found = nearest(c, local(c, event));
        if (!found) {
            leave(c);
            return;
        }
        const {line, p} = found;
        c.svg.classed('pointing', true);
        c.plot.selectAll('path').classed('near', (d) => d.line === line);
        c.dot.classed('shown', true).attr('cx', c.x(p.x)).attr('cy', c.y(p.y))
            .attr('fill', line.colour);
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

    // A drag moves the span.
    function press(c, event) {
        if (event.button !== 0)
            return;
        const svg = c.svg.node(), start = local(c, event).x;
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
            c.svg.node().addEventListener(name, heard, options);
        on('pointermove', (e) => hover(c, e));
        on('pointerleave', () => leave(c));
        on('pointerdown', (e) => press(c, e));
        on('wheel', (e) => wheel(c, e), {passive: false});
        on('click', (e) => click(c, e));
        // its first click chose a step, which was not meant
        on('dblclick', () => State.set({span: null, step: c.before}));
        on('keydown', key);
    }

    function addParts(c) {
        const clip = 'clip-' + number++;
        c.svg.append('clipPath').attr('id', clip).append('rect')
            .attr('x', MARGIN.left).attr('y', 0)
            .attr('width', Math.max(0, c.width - MARGIN.left - MARGIN.right))
            .attr('height', c.height);
        c.axes = c.svg.append('g');
        c.now = c.svg.append('line').attr('class', 'now');
        c.ceiling = c.svg.append('g').attr('class', 'ceiling');
        c.ceiling.append('line');
        c.ceiling.append('text').attr('text-anchor', 'end');
        c.plot = c.svg.append('g').attr('clip-path', `url(#${clip})`);
        c.dot = c.svg.append('circle').attr('class', 'dot').attr('r', 4);
    }

    /**
     * A chart in `box`: {lines: [{points, label, of, colour, kind}], unit,
     * range: values that the axis has to hold, reference, label, width,
     * height}. drawn again by redraw().
     */
    function make(box, options) {
        const c = Object.assign({box}, options);
        c.extreme = isExtreme(c.lines);
        c.svg = d3.select(box).append('svg').attr('class', 'chart')
            .attr('width', c.width).attr('height', c.height)
            .attr('tabindex', 0).attr('role', 'img')
            .attr('aria-label', c.label);
        addParts(c);
        listen(c);
        charts.push(c);
        return c;
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

    return {make, redraw, start};
})();
