'use strict';

// Draws parallel coordinates: a line per run over the axes of the settings that
// differ, perplexity and bands. Dragging along an axis selects the runs whose
// lines pass there.
const Parallel = (() => {
    const box = Dom.byId('parallel'), card = Dom.byId('parallel-card');
    const HEIGHT = 316, TOP = 46, FOOT = 16, SLOT = 18;
    const MOST = {texts: 12, ticks: 5, letters: 18, settings: 12};
    // Distances in pixels: between axes, between a label and the axis on its
    // left, of a label and its axis.
    const APART = {axes: 84, left: 10, label: 8};
    const PAUSE = 3000; // milliseconds between drawings of a live page
    let axes = [], lines = [];

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
        const fit = settings.filter((a) => Data.varies(Data.runs, a.title) &&
            (valuesOf(a, 'number').length > 1 || textsOf(a).length))
            .slice(0, MOST.settings);
        const more = settings.length - fit.length;
        Dom.byId('parallel-more').textContent = more
            ? ` ${Dom.count(more, 'setting')} more in the table.` : '';
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

    const cut = (text, most) => text.length > most
        ? text.slice(0, Math.max(1, most - 1)) + '…' : text;

    // Returns [y, text] of every label of an axis.
    const labelsOf = (axis) => [...axis.ticks,
        ...axis.slots.map(({state, y}) => [y, SPOKEN[state] || state])];

    const widthOf = (text, bold) => Dom.widthOf(text, box, bold);

    // Cuts a text to a width in pixels.
    function fitting(text, width, bold) {
        let n = Math.min(text.length, MOST.letters);
        while (n > 1 && widthOf(cut(text, n), bold) > width)
            n--;
        return cut(text, n);
    }

    // Places the axes from left to right. The labels of an axis are on its left
    // and need space there. A title that would touch its neighbour is in a
    // second row. The drawing can be wider than the page, which then scrolls.
    function arrange(width) {
        const labels = axes.map((axis) => Plot.max(labelsOf(axis),
            ([, text]) => widthOf(cut(text, MOST.letters))) || 0);
        const first = labels[0] + APART.label + 2;
        const last = Math.max(24, widthOf(axes[axes.length - 1].title, true) / 2);
        const needed = labels.slice(1).map(
            (w) => Math.max(APART.axes, w + APART.label + APART.left));
        const least = needed.reduce((a, b) => a + b, 0);
        const spare = Math.max(0, width - first - last - least) /
            Math.max(1, needed.length);
        let x = first;
        axes.forEach((axis, i) => {
            x += i ? needed[i - 1] + spare : 0;
            axis.x = x;
            axis.space = i ? needed[i - 1] + spare - APART.left - APART.label
                           : labels[0];
        });
        placeTitles(x + last);
        return Math.max(width, x + last);
    }

    // Titles are in the lower of two rows; where they would touch, every other
    // one is in the upper row.
    function placeTitles(width) {
        const half = axes.map((a) => widthOf(a.title, true) / 2 + 5);
        const touches = axes.some((a, i) => i &&
            a.x - half[i] < axes[i - 1].x + half[i - 1]);
        axes.forEach((axis, i) => {
            const near = touches ? 2 : 1;
            const left = i >= near ? axis.x - axes[i - near].x : width;
            const right = i + near < axes.length ? axes[i + near].x - axis.x
                : width;
            axis.label = fitting(axis.title, Math.min(left, right) - 10, true);
            const w = widthOf(axis.label, true) / 2;
            axis.titleX = Math.min(width - w, Math.max(w, axis.x));
            axis.titleY = touches && i % 2 === 0 ? 13 : 29;
        });
    }

    // Returns a label; pointing at a shortened one shows its text.
    const shortened = (text, label) => text === label ? [label]
        : [Plot.svg('title', {}, text), label];

    function drawAxis(axis) {
        const label = (y, text) => Plot.svg('text', {
            x: axis.x - APART.label, y: y + 4, 'text-anchor': 'end'},
            ...shortened(text, fitting(text, axis.space)));
        const {x, rows: [foot, top]} = axis;
        axis.brush = Plot.svg('rect', {class: 'brush', x: x - 8, width: 16});
        const grip = Plot.svg('rect', {
            class: 'grip', x: x - 22, width: 44, y: TOP - 10,
            height: HEIGHT - TOP - FOOT + 16});
        grip.addEventListener('pointerdown', (e) => press(axis, grip, e));
        return Plot.svg('g', {class: 'axis'},
            Plot.svg('line', {x1: x, x2: x, y1: top, y2: foot}),
            ...axis.titleY < 20 ? [Plot.svg('line', {class: 'lead', x1: x,
                x2: x, y1: axis.titleY + 4, y2: top})] : [],
            Plot.svg('text', {class: 'axis-title', x: axis.titleX,
                              y: axis.titleY, 'text-anchor': 'middle'},
                     ...shortened(axis.title, axis.label)),
            ...labelsOf(axis).map(([y, text]) => label(y, text)),
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
        if (card.hidden || !box.clientWidth)
            return;
        axes.forEach(place);
        const width = arrange(box.clientWidth);
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
        if (Object.keys(State.now.brushes).length)
            Table.filter();
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
            const [from, to] = brushOf(axis) || [0, 0];
            if (axis.brush)
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
            const {[axis.title]: old, ...others} = State.now.brushes;
            State.set({brushes: span[1] - span[0] > 3
                ? {...others, [axis.title]: span} : others});
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

    const brushOf = (axis) => Object.hasOwn(State.now.brushes, axis.title)
        ? State.now.brushes[axis.title] : null;

    const passes = (run) => axes.every((axis) => {
        const span = axis.y && brushOf(axis);
        return !span || (axis.y(run) >= span[0] && axis.y(run) <= span[1]);
    });

    function gather() {
        card.hidden = Data.runs.length < 3 || !Data.differing(Data.runs).length;
        axes = card.hidden ? [] : choose();
        axes.forEach(cap);
    }

    // Returns the values on the axes as rows of a table.
    const rows = () => [['run', ...axes.map((axis) => axis.title)],
        ...State.now.selected.map((run) => [run.title, ...axes.map((axis) => {
            const v = axis.of(run);
            return typeof v === 'object' ? say(v) : v;
        })])];

    function start() {
        Save.add(card, {name: 'settings', picture: true, rows});
        gather();
        const rebuild = Dom.onWidth(box, build);
        State.follow(['theme'], rebuild);
        State.follow(['selected', 'open'], drawSelected);
        State.follow(['brushes'], () => {
            drawBrushes();
            if (!Object.keys(State.now.brushes).length)
                document.body.style.minHeight = '';
        });
        State.follow(['runs'], Dom.seldom(PAUSE, () => {
            gather();
            rebuild();
        }));
    }

    return {start, passes, point, rows};
})();
