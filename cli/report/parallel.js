'use strict';

// Draws parallel coordinates: a line per run over the axes of the settings that
// differ, perplexity and bands. Dragging along an axis selects the runs whose
// lines pass there.
const Parallel = (() => {
    const box = Dom.byId('parallel'), card = Dom.byId('parallel-card');
    const HEIGHT = 300, TOP = 30, FOOT = 16, SLOT = 18, SIDE = 60;
    const MOST = {texts: 12, ticks: 5};
    const APART = 72; // minimum distance between axes in pixels
    let axes = [], lines = [], brushes = new Map();

    /* --- axes ------------------------------------------------------------*/

    const has = (key) => Data.runs.some(({summary}) =>
        summary[key] !== null && summary[key] !== undefined);
    const member = (title, key) => ({title, of: ({summary}) => summary[key] ??
        {state: summary[key + '_state'] || 'missing'}});
    const band = (title, i) => ({title, of: ({summary: {bands: b}}) => b.heads
        ? b.fractions[i] : {state: 'missing'}, domain: [0, 1]});

    // Leaves out settings with many different strings, such as names.
    function choose() {
        const settings = Data.differing(Data.runs).map((key) => ({
            title: key,
            of: ({settings: s}) => s.get(key) ?? {state: 'missing'}}));
        const results = [
            ...has('eval_ppl') ? [member('eval ppl', 'eval_ppl')] : [],
            ...has('ppl') ? [member('ppl', 'ppl')] : [],
            band('< m/4', 0), band('> 3m/4', 3)];
        const space = Math.floor(Math.min(innerWidth, 1400) / APART);
        const fit = settings.filter((a) => Data.varies(Data.runs, a.title) &&
            (valuesOf(a, 'number').length > 1 || textsOf(a).length)).slice(0, Math.max(2, space - results.length));
        if (fit.length < settings.length)
            Dom.byId('parallel-note').append(` ${Dom.count(
                settings.length - fit.length, 'setting')} more in the table.`);
        return [...fit, ...results];
    }

    const valuesOf = (axis, type) => Array.from(new Set(Data.runs.map(axis.of)
        .filter((v) => typeof v === type)));

    function textsOf(axis) {
        const texts = [...valuesOf(axis, 'string'),
                       ...valuesOf(axis, 'boolean').map(String)].sort();
        return texts.length <= MOST.texts ? texts : [];
    }

    // If a few huge values would flatten all others, puts them in a separate
    // place on the axis, like values that are not numbers.
    function cap(axis) {
        const numbers = Data.runs.map(axis.of).filter(
            (v) => typeof v === 'number').sort((a, b) => a - b);
        const least = numbers[0], middle = Plot.median(numbers);
        if (!(least > 0) || numbers[numbers.length - 1] <= 1000 * middle)
            return;
        const {of} = axis, limit = Number((10 * middle).toPrecision(1));
        axis.of = (run) => of(run) > limit
            ? {state: `> ${Dom.thousands(limit)}`} : of(run);
    }

    // Chooses the positions of the values on an axis: numbers by a scale,
    // strings one below the other, and other states in separate places at the
    // bottom.
    function place(axis) {
        const states = new Set(Data.runs.map(axis.of).filter(
            (v) => v && typeof v === 'object').map((v) => v.state));
        const slots = Array.from(states).sort();
        const foot = HEIGHT - FOOT - SLOT * slots.length;
        const numbers = valuesOf(axis, 'number'), texts = textsOf(axis);
        const rows = [foot - (slots.length ? 10 : 0), TOP + 6];
        const [low, high] = axis.domain || Plot.extent(numbers);
        const log = low > 0 && high / low >= 20;
        const scale = Plot.scale(low === high ? [low - 1, high + 1]
                                              : [low, high], rows, log);
        const text = (t) => rows[0] + (rows[1] - rows[0]) *
            (texts.indexOf(t) + 0.5) / texts.length;
        axis.slots = slots.map((state, i) => ({
            state, y: foot + SLOT * (i + 0.5)}));
        axis.y = (run) => {
            const v = axis.of(run);
            return typeof v === 'number' ? scale(v)
                : typeof v === 'object'
                    ? axis.slots.find((s) => s.state === v.state).y
                    : text(String(v));
        };
        axis.ticks = texts.length
            ? texts.map((t) => [text(t), t])
            : ticksOf(numbers, scale, log).map((t) => [scale(t),
                                                       Dom.thousands(t)]);
        axis.rows = rows;
    }

    function ticksOf(numbers, scale, log) {
        if (numbers.length <= MOST.ticks)
            return apart(numbers.sort((a, b) => a - b), scale);
        const ticks = scale.ticks(MOST.ticks), decade = (t) => Math.abs(
            Math.log10(t) - Math.round(Math.log10(t))) < 1e-9;
        return apart(log && ticks.filter(decade).length > 1
            ? ticks.filter(decade) : ticks, scale);
    }

    // Returns the ticks of an axis whose labels do not overlap.
    function apart(ticks, scale) {
        let last = Infinity;
        return ticks.filter((t) => {
            const fits = Math.abs(scale(t) - last) >= 14;
            last = fits ? scale(t) : last;
            return fits;
        });
    }

    /* --- drawing ---------------------------------------------------------*/

    const SPOKEN = {nan: 'NaN', missing: 'missing'};

    function drawAxis(axis) {
        const cut = (text, most) => text.length > most
            ? text.slice(0, most - 1) + '…' : text;
        const label = (y, text) => Plot.svg('text', {
            x: axis.x - 7, y: y + 4, 'text-anchor': 'end'}, cut(text, 12));
        const {x, rows: [foot, top]} = axis;
        axis.brush = Plot.svg('rect', {class: 'brush', x: x - 8, width: 16});
        const grip = Plot.svg('rect', {
            class: 'grip', x: x - 22, width: 44, y: TOP - 10,
            height: HEIGHT - TOP - FOOT + 16});
        grip.addEventListener('pointerdown', (e) => press(axis, grip, e));
        return Plot.svg('g', {class: 'axis'},
            Plot.svg('line', {x1: x, x2: x, y1: top, y2: foot}),
            Plot.svg('text', {class: 'axis-title', x, y: 14,
                              'text-anchor': 'middle'},
                     cut(axis.title, axis.letters)),
            ...axis.ticks.map(([y, text]) => label(y, text)),
            ...axis.slots.map(({state, y}) => label(
                y, SPOKEN[state] || state)),
            ...axis.slots.map(({y}) => Plot.svg('line', {
                x1: x - 4, x2: x + 4, y1: y, y2: y})), axis.brush, grip);
    }

    // Colours the runs by the rank of their perplexity, in equal steps.
    function colours() {
        const key = has('eval_ppl') ? 'eval_ppl' : 'ppl';
        const known = Data.runs.map(({summary}) => summary[key])
            .filter((x) => x !== null && x !== undefined).sort((a, b) => a - b);
        const [from, to] = Scale.depth();
        return ({summary}) => {
            const x = summary[key];
            if (x === null || x === undefined)
                return summary[key + '_state'] === 'missing'
                    ? 'var(--muted)' : 'var(--hatch)';
            const share = known.length > 1
                ? known.indexOf(x) / (known.length - 1) : 0.5;
            return Data.colours.values[
                Math.round(255 * (from + (to - from) * share))];
        };
    }

    function drawLine(run, colour) {
        const path = Plot.svg('path', {
            class: 'line', stroke: colour(run),
            d: Plot.path([axes.map((axis) => [axis.x, axis.y(run)])])});
        path.addEventListener('pointerenter', (e) => {
            point(run);
            Tip.show([{text: run.title, strong: true},
                      ...axes.map((axis) => ({text: `${axis.title}: ${
                          say(axis.of(run))}`, muted: true}))],
                     {x: e.clientX, y: e.clientY});
        });
        path.addEventListener('pointerleave', () => {
            point(null);
            Tip.hide();
        });
        path.addEventListener('click', () => Table.toggle(run));
        return path;
    }

    const say = (v) => typeof v === 'number' ? Values.short(v)
        : typeof v === 'object' ? SPOKEN[v.state] || v.state : String(v);

    function build() {
        const width = box.clientWidth;
        if (card.hidden || !width)
            return;
        const gap = (width - 2 * SIDE) / Math.max(1, axes.length - 1);
        axes.forEach((axis, i) => {
            axis.x = SIDE + i * gap;
            axis.letters = Math.floor(gap / 6);
            place(axis);
        });
        const colour = colours();
        lines = Data.runs.map((run) => drawLine(run, colour));
        box.style.setProperty('--opacity', Math.max(
            0.25, Math.min(0.8, 40 / lines.length)));
        Dom.replace(box, Plot.svg('svg', {
            class: 'parallel', width, height: HEIGHT, role: 'img',
            'aria-label': 'settings, perplexity and bands, one line per ' +
                'run'},
            Plot.svg('g', {}, ...lines), ...axes.map(drawAxis)));
        drawBrushes();
        drawSelected();
    }

    function drawSelected() {
        const shown = new Set(State.now.selected), open = State.now.open;
        lines.forEach((path, i) => {
            path.classList.toggle('off', !shown.has(Data.runs[i]));
            path.classList.toggle('chosen', open.includes(Data.runs[i]) &&
                open.length < Data.runs.length);
        });
    }

    function drawBrushes() {
        axes.forEach((axis) => {
            const [from, to] = brushes.get(axis) || [0, 0];
            Plot.set(axis.brush, {y: from, height: to - from});
        });
    }

    // Highlights the line of one run.
    function point(run) {
        box.classList.toggle('pointing', run !== null && lines.length > 0);
        lines.forEach((path, i) =>
            path.classList.toggle('near', Data.runs[i] === run));
    }

    /* --- brushes ---------------------------------------------------------*/

    // Dragging along an axis selects a range; a click removes the selection.
    function press(axis, grip, event) {
        const {top} = box.getBoundingClientRect();
        const y = (e) => e.clientY - top, start = y(event);
        // If the page became shorter, it would scroll under the pointer.
        document.body.style.minHeight = document.body.scrollHeight + 'px';
        const move = (e) => {
            const span = [start, y(e)].sort((a, b) => a - b);
            if (span[1] - span[0] > 3)
                brushes.set(axis, span);
            else
                brushes.delete(axis);
            drawBrushes();
            Table.filter();
        };
        const release = (e) => {
            move(e);
            grip.removeEventListener('pointermove', move);
        };
        grip.setPointerCapture(event.pointerId);
        grip.addEventListener('pointermove', move);
        grip.addEventListener('pointerup', release, {once: true});
        event.preventDefault();
    }

    const passes = (run) => Array.from(brushes).every(
        ([axis, [from, to]]) => axis.y(run) >= from && axis.y(run) <= to);

    function clear() {
        brushes.clear();
        document.body.style.minHeight = '';
        drawBrushes();
    }

    function start() {
        axes = choose();
        axes.forEach(cap);
        card.hidden = Data.runs.length < 3 || !Data.differing(Data.runs).length;
        State.follow(['theme'], Dom.onWidth(box, build));
        State.follow(['selected', 'open'], drawSelected);
    }

    return {start, passes, point, clear};
})();
