'use strict';

// Draws a heatmap of layers by heads for every run, at the step shown.
const Heatmaps = (() => {
    const MARGIN = {left: 26, top: 2, right: 2, bottom: 18};
    // Sizes in pixels: the largest cell, and the smallest cell that shows its value.
    const CELL = {most: 40, text: 28};
    const box = Dom.byId('heatmaps');
    let panels = [];

    /* --- texts of a cell ---------------------------------------------------*/

    const place = (p, i) => ({row: Math.floor(i / p.series.columns),
                              column: i % p.series.columns});

    function placeText(p, i) {
        const {row, column} = place(p, i);
        const about = Data.aboutLayer(p.run, row);
        const layer = `layer ${row}` + (about ? ` (${about})` : '');
        return p.series.columns > 1 ? `${layer}, head ${column}` : layer;
    }

    // Returns the letter for the kind of a layer, such as "w" for window.
    const mark = (p, row) =>
        ((p.run.summary.layers[row] || {}).kind || '').slice(0, 1);

    function valueText(p, i) {
        const {values, from} = p.shown, {unit} = p.series, k = from + i;
        if (Values.isMissing(values, k))
            return 'missing';
        const text = Values.text(values, k);
        return Number.isFinite(values.floats[k]) && unit ? `${text} ${unit}`
                                                         : text;
    }

    function showTip(p, i, at) {
        Tip.show([{text: placeText(p, i), strong: true},
                  {text: valueText(p, i), strong: true},
                  {text: `${p.shown.label}, ${p.title}`,
                   muted: true}], at);
    }

    /* --- one panel -------------------------------------------------------*/

    function layout(p, width) {
        const {rows, columns} = p.series;
        // A page that is not visible yet has no width.
        const space = Math.max(columns, width - MARGIN.left - MARGIN.right);
        const cell = Math.min(CELL.most, space / columns);
        p.cell = {width: columns === 1 ? Math.min(space, 3 * CELL.most) : cell,
                  height: Math.max(3, Math.min(cell, CELL.most, 720 / rows))};
        if (columns === 1)
            p.cell.height = Math.min(24, 720 / rows);
        p.width = MARGIN.left + columns * p.cell.width + MARGIN.right;
        p.height = MARGIN.top + rows * p.cell.height + MARGIN.bottom;
    }

    function addLabels(p) {
        const {rows, columns} = p.series, {width, height} = p.cell;
        const down = Dom.every(rows, rows * height, 13);
        const across = Dom.every(columns, columns * width,
                                 columns > 100 ? 24 : 18);
        const label = (text, x, y, anchor) => Plot.svg(
            'text', {x, y, 'text-anchor': anchor}, String(text));
        p.svg.append(Plot.svg('g', {class: 'axis'},
            ...Plot.range(0, rows, down).map((r) => label(r + mark(p, r), MARGIN.left - 6,
                MARGIN.top + (r + 0.5) * height + 4, 'end')),
            ...Plot.range(0, columns > 1 ? columns : 0, across).map(
                (c) => label(c, MARGIN.left + (c + 0.5) * width,
                             MARGIN.top + rows * height + 13, 'middle'))));
    }

    function addCells(p) {
        const {size} = p.series, {width, height} = p.cell;
        const gap = Math.min(width, height) > 8 ? 1 : 0;
        const x = (i) => MARGIN.left + place(p, i).column * width;
        const y = (i) => MARGIN.top + place(p, i).row * height;
        const fits = width >= CELL.text && height >= 14;
        const rect = (style, place) => Plot.svg('rect', {
            class: style, rx: gap * 2, width: width - gap,
            height: height - gap, ...place});
        p.cells = Plot.range(0, size).map(
            (i) => rect('cell', {x: x(i), y: y(i)}));
        p.texts = Plot.range(0, fits ? size : 0).map((i) => Plot.svg('text', {
            x: x(i) + (width - gap) / 2,
            y: y(i) + (height - gap) / 2 + 3.5}));
        p.ring = rect('ring');
        p.cursor = rect('cursor');
        p.svg.append(Plot.svg('g', {class: gap ? 'cells' : 'cells tight'},
                              ...p.cells, ...p.texts), p.ring, p.cursor);
    }

    function moveTo(p, rect, i) {
        const {row, column} = place(p, i);
        Plot.set(rect, {x: MARGIN.left + column * p.cell.width,
                        y: MARGIN.top + row * p.cell.height});
    }

    /* --- pointer and keys ------------------------------------------------*/

    function cellAt(p, event) {
        const bounds = p.svg.getBoundingClientRect();
        const column = Math.floor(
            (event.clientX - bounds.left - MARGIN.left) / p.cell.width);
        const row = Math.floor(
            (event.clientY - bounds.top - MARGIN.top) / p.cell.height);
        const inside = column >= 0 && column < p.series.columns && row >= 0 &&
            row < p.series.rows;
        return inside ? row * p.series.columns + column : null;
    }

    function hover(p, event) {
        const i = cellAt(p, event);
        if (i === null) {
            leave(p);
            return;
        }
        p.at = {x: event.clientX, y: event.clientY};
        point(p, i);
    }

    function point(p, i) {
        p.pointed = i;
        p.cursor.classList.add('shown');
        moveTo(p, p.cursor, i);
        showTip(p, i, p.at);
    }

    function leave(p) {
        p.pointed = null;
        p.cursor.classList.remove('shown');
        Tip.hide();
    }

    function choose(p, i) {
        const head = State.now.head, {row, column} = place(p, i);
        const again = head && head.run === p.run.key && head.row === row &&
            head.column === column;
        State.set({head: again ? null
                               : {run: p.run.key, row, column}});
    }

    const MOVES = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0],
                   ArrowDown: [1, 0]};

    function key(p, event) {
        const move = MOVES[event.key];
        if (event.key === 'Enter' && p.pointed !== null) {
            choose(p, p.pointed);
        } else if (move) {
            const {row, column} = place(p, p.pointed || 0);
            const clamp = (x, n) => Math.min(n - 1, Math.max(0, x));
            const to = p.pointed === null ? 0
                : clamp(row + move[0], p.series.rows) * p.series.columns +
                  clamp(column + move[1], p.series.columns);
            const bounds = p.cells[to].getBoundingClientRect();
            p.at = {x: bounds.right, y: bounds.bottom};
            point(p, to);
        } else {
            return;
        }
        event.preventDefault();
    }

    function listen(p) {
        const {svg} = p;
        svg.addEventListener('pointermove', (e) => hover(p, e));
        svg.addEventListener('pointerleave', () => leave(p));
        svg.addEventListener('blur', () => leave(p));
        svg.addEventListener('keydown', (e) => key(p, e));
        svg.addEventListener('click', (e) => {
            const i = cellAt(p, e);
            if (i !== null)
                choose(p, i);
        });
    }

    /* --- all of them -----------------------------------------------------*/

    function addPanel(run, width, base = null) {
        const series = Data.find(run, State.now.series);
        const title = base ? `${run.title} − ${base.title}` : run.title;
        const caption = Dom.element('span', {class: 'muted'});
        const figure = Dom.element('figure', {}, Dom.element(
            'figcaption', {}, Dom.element('strong', {title}, title),
            caption));
        box.append(figure);
        const p = {run, base, title, series, size: series.size, figure, caption,
                   pointed: null, at: {x: 0, y: 0}};
        layout(p, width);
        p.svg = Plot.svg('svg', {class: 'heatmap', width: p.width,
                                 height: p.height, tabindex: 0, role: 'img'});
        figure.append(p.svg);
        addLabels(p);
        addCells(p);
        listen(p);
        return p;
    }

    function build() {
        const name = State.now.series;
        Dom.replace(box);
        const shown = State.now.open.map((run) => [run, Data.find(run, name)])
            .filter(([, series]) => series);
        panels = [];
        if (!shown.length)
            return;
        const delta = shown.length === 2 && State.now.delta;
        const same = delta && shown[0][1].rows === shown[1][1].rows &&
            shown[0][1].columns === shown[1][1].columns;
        // Use several pixels per head if they fit.
        const wanted = Plot.max(shown, ([, s]) => s.columns) * 9 + 40;
        const width = Dom.panelWidth(box, shown.length + (same ? 1 : 0), Math.max(
            270, Math.min(wanted, box.clientWidth)));
        panels = shown.map(([run]) => addPanel(run, width));
        if (same)
            addDifference(delta, width);
        else if (delta)
            box.append(Dom.element('p', {class: 'muted'},
                ...shown.map(([run, s]) => `${run.title}: ${s.rows} layers ` +
                    `of ${s.columns} heads. `),
                'A difference needs runs of the same shape.'));
        drawData();
        drawRing();
    }

    // Draws the values, and the colours that depend on them.
    function drawData() {
        if (!panels.length)
            return;
        panels.forEach((p) => {
            if (!p.base)
                p.scale = Scale.of(State.now.series, p.run);
        });
        drawScale(panels[0].series);
        drawSample();
    }

    // After a change of the series, keeps the panels if they are the same.
    function update() {
        const shown = State.now.open.map((run) => Data.find(run,
            State.now.series)).filter(Boolean);
        const now = panels.filter((p) => !p.base);
        if (shown.length === now.length && now.every((p, i) =>
            p.series === shown[i] && p.size === p.series.size))
            drawData();
        else
            build();
    }

    // Adds a panel with the values of one run minus those of another, on a
    // separate scale.
    function addDifference([run, base], width) {
        const p = addPanel(run, width, base);
        p.bar = Dom.element('div', {class: 'scale'});
        p.figure.append(p.bar);
        panels.push(p);
    }

    function drawDifference(p) {
        const finite = p.shown.values.floats.filter(Number.isFinite);
        const most = Plot.max(finite, Math.abs) || 1;
        const map = Scale.ofDifference(), text = Values.short(most);
        p.scale = {low: -most, high: most, map};
        Dom.replace(p.bar, ...Scale.bar([0, 1], '−' + text, text +
            (p.series.unit ? ' ' + p.series.unit : ''), map));
    }

    // Subtracts two samples. The result is missing if either value is missing,
    // and NaN if either value is not finite.
    function subtract(a, b, size) {
        const made = Values.wrap(new ArrayBuffer(4 * size));
        for (let i = 0; i < size; i++)
            if (Values.isMissing(a.values, a.from + i) ||
                Values.isMissing(b.values, b.from + i))
                made.bits[i] = Values.MISSING;
            else
                made.floats[i] = a.values.floats[a.from + i] -
                    b.values.floats[b.from + i];
        return made;
    }

    // Returns the values of a run at the chosen step, and a text that names the
    // step.
    function sampleOf(run) {
        const series = Data.find(run, State.now.series);
        const last = series.steps.length - 1;
        const sample = Data.sampleAt(series, State.now.step);
        const ended = sample === last && State.now.step > series.steps[last];
        return {values: series.values, from: sample * series.size,
                step: series.labels[sample],
                label: `step ${series.labels[sample]}` +
                    (series.phase === 'eval' ? ', eval' : '') +
                    (ended ? ', the last' : '')};
    }

    function shownOf(p) {
        const a = sampleOf(p.run);
        if (!p.base)
            return a;
        const b = sampleOf(p.base);
        return {values: subtract(a, b, p.series.size), from: 0,
                label: a.step === b.step ? a.label
                                         : `${a.label}, minus step ${b.step}`};
    }

    function drawScale(series) {
        const {low, high} = Scale.of(series.name, State.now.open[0]);
        const own = Scale.policy() === 'run';
        const unit = series.unit ? ' ' + series.unit : '';
        const any = panels.some((p) => p.series.values.floats.some(
            (x, i) => !Number.isFinite(x) &&
                !Values.isMissing(p.series.values, i)));
        Dom.replace(Dom.byId('scale'), ...Scale.bar(
            [0, 1], Values.short(low), own ? 'largest of each run'
                                         : Values.short(high) + unit),
            ...any ? Scale.hatched('NaN') : []);
    }

    function fill(p, k) {
        const value = p.shown.values.floats[k];
        if (Number.isFinite(value))
            return Scale.colour(p.scale, value);
        return Values.isMissing(p.shown.values, k) ? 'none' : 'url(#hatch)';
    }

    function cellText(p, k) {
        const value = p.shown.values.floats[k];
        if (!Number.isFinite(value))
            return ''; // the cell is hatched or blank
        const most = Math.max(Math.abs(p.scale.low), Math.abs(p.scale.high));
        if (most < 10)
            return value.toFixed(2).replace('-0.00', '0.00');
        return most < 1000 ? value.toFixed(most < 100 ? 1 : 0)
                           : Dom.thousands(Number(value.toPrecision(2)));
    }

    function drawCells(p) {
        const {from} = p.shown;
        p.cells.forEach((c, i) => c.setAttribute('fill', fill(p, from + i)));
        p.texts.forEach((text, i) => {
            const colour = fill(p, from + i);
            text.textContent = cellText(p, from + i);
            text.style.fill = colour[0] === '#' ? Dom.textOn(colour) : 'none';
        });
    }

    function drawSample() {
        for (const p of panels) {
            const {series} = p;
            p.shown = shownOf(p);
            if (p.base)
                drawDifference(p);
            p.caption.textContent = p.shown.label;
            p.svg.setAttribute('aria-label', `${series.name} of ${p.title}, ` +
                `${series.rows} layers of ${series.columns} heads, ${p.shown.label}`);
            drawCells(p);
            if (p.pointed !== null)
                showTip(p, p.pointed, p.at);
        }
    }

    function drawRing() {
        const head = State.now.head;
        for (const p of panels) {
            const here = head && head.run === p.run.key &&
                head.row < p.series.rows && head.column < p.series.columns;
            p.ring.classList.toggle('shown', !!here);
            if (here)
                moveTo(p, p.ring, head.row * p.series.columns + head.column);
        }
    }

    // Returns the values shown as rows of a table.
    const rows = () => [['run', 'step', 'layer', 'head', State.now.series],
        ...panels.flatMap((p) => Plot.range(0, p.series.size).map((i) => {
            const {row, column} = place(p, i), k = p.shown.from + i;
            return [p.title, p.shown.label.replace(/^step /, ''), row,
                    p.series.columns > 1 ? column : '', Data.cell(
                        p.shown.values, k)];
        }))];

    function start() {
        Save.add(Dom.byId('heads-card'), {name: 'heads', picture: true, rows,
            figure: () => ({names: panels.some((p) => p.base)
                ? ['heatmap', 'delta'] : ['heatmap']})});
        State.follow(['series', 'open', 'delta', 'theme'],
                     Dom.onWidth(box, build));
        State.follow(['data'], update);
        State.follow(['step'], drawSample);
        State.follow(['head'], drawRing);
    }

    return {start};
})();
