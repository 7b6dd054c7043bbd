'use strict';

// Layers by heads of every run at the step shown.
const Heatmaps = (() => {
    const MARGIN = {left: 26, top: 2, right: 2, bottom: 18};
    const CELL = {most: 40, text: 28}; // pixels; values fit from `text` on
    const box = Dom.byId('heatmaps');
    let panels = [];

    /* --- what a cell says ------------------------------------------------*/

    const place = (p, i) => ({row: Math.floor(i / p.series.columns),
                              column: i % p.series.columns});

    function placeText(p, i) {
        const {row, column} = place(p, i);
        return p.series.columns > 1 ? `layer ${row}, head ${column}`
                                    : `layer ${row}`;
    }

    function valueText(p, i) {
        const {values, unit, size} = p.series, k = p.sample * size + i;
        if (Values.isMissing(values, k))
            return 'missing';
        const text = Values.text(values, k);
        return Number.isFinite(values.floats[k]) && unit ? `${text} ${unit}`
                                                         : text;
    }

    function showTip(p, i, at) {
        Tip.show([{text: placeText(p, i), strong: true},
                  {text: valueText(p, i), strong: true},
                  {text: `step ${p.series.labels[p.sample]}, ${p.run.title}`,
                   muted: true}], at);
    }

    /* --- one panel -------------------------------------------------------*/

    function layout(p, width) {
        const {rows, columns} = p.series;
        const space = width - MARGIN.left - MARGIN.right;
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
        const add = (data, x, y, anchor) => p.svg.append('g')
            .attr('class', 'axis').selectAll('text').data(data).enter()
            .append('text').attr('x', x).attr('y', y)
            .attr('text-anchor', anchor).text(String);
        add(d3.range(0, rows, down), MARGIN.left - 6,
            (r) => MARGIN.top + (r + 0.5) * height + 4, 'end');
        if (columns > 1)
            add(d3.range(0, columns, across),
                (c) => MARGIN.left + (c + 0.5) * width,
                MARGIN.top + rows * height + 13, 'middle');
    }

    function addCells(p) {
        const {size} = p.series, {width, height} = p.cell;
        const gap = Math.min(width, height) > 8 ? 1 : 0;
        const x = (i) => MARGIN.left + place(p, i).column * width;
        const y = (i) => MARGIN.top + place(p, i).row * height;
        const cells = p.svg.append('g')
            .attr('class', gap ? 'cells' : 'cells tight');
        p.cells = cells.selectAll('rect').data(d3.range(size)).enter()
            .append('rect').attr('class', 'cell').attr('x', x).attr('y', y)
            .attr('rx', gap * 2)
            .attr('width', width - gap).attr('height', height - gap);
        p.texts = null;
        if (width >= CELL.text && height >= 14)
            p.texts = cells.selectAll('text').data(d3.range(size)).enter()
                .append('text').attr('x', (i) => x(i) + (width - gap) / 2)
                .attr('y', (i) => y(i) + (height - gap) / 2 + 3.5);
        p.ring = p.svg.append('rect').attr('class', 'ring').attr('rx', gap * 2)
            .attr('width', width - gap).attr('height', height - gap);
        p.cursor = p.svg.append('rect').attr('class', 'cursor')
            .attr('rx', gap * 2)
            .attr('width', width - gap).attr('height', height - gap);
    }

    function moveTo(p, rect, i) {
        const {row, column} = place(p, i);
        rect.attr('x', MARGIN.left + column * p.cell.width)
            .attr('y', MARGIN.top + row * p.cell.height);
    }

    /* --- pointer and keys ------------------------------------------------*/

    function cellAt(p, event) {
        const bounds = p.svg.node().getBoundingClientRect();
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
        moveTo(p, p.cursor.classed('shown', true), i);
        showTip(p, i, p.at);
    }

    function leave(p) {
        p.pointed = null;
        p.cursor.classed('shown', false);
        Tip.hide();
    }

    function choose(p, i) {
        const head = State.now.head, {row, column} = place(p, i);
        const again = head && head.run === p.run.index && head.row === row &&
            head.column === column;
        State.set({head: again ? null
                               : {run: p.run.index, row, column}});
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
            const bounds = p.cells[0][to].getBoundingClientRect();
            p.at = {x: bounds.right, y: bounds.bottom};
            point(p, to);
        } else {
            return;
        }
        event.preventDefault();
    }

    function listen(p) {
        const svg = p.svg.node();
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

    function addPanel(run, series, width) {
        const caption = Dom.element('span', {class: 'muted'});
        const figure = Dom.element('figure', {}, Dom.element(
            'figcaption', {}, Dom.element('strong', {title: run.title}, run.title),
            caption));
        box.append(figure);
        const p = {run, series, caption, pointed: null, at: {x: 0, y: 0}};
        layout(p, width);
        p.svg = d3.select(figure).append('svg').attr('class', 'heatmap')
            .attr('width', p.width).attr('height', p.height)
            .attr('tabindex', 0).attr('role', 'img');
        addLabels(p);
        addCells(p);
        listen(p);
        return p;
    }

    function build() {
        const name = State.now.series;
        Dom.replace(box);
        const shown = Data.runs.map((run) => [run, Data.find(run, name)])
            .filter(([, series]) => series);
        if (!shown.length)
            return;
        // some pixels for each head, where they fit
        const wanted = d3.max(shown, ([, s]) => s.columns) * 9 + 40;
        const width = Dom.panelWidth(box, shown.length, Math.max(
            270, Math.min(wanted, box.clientWidth)));
        panels = shown.map(([run, series]) => addPanel(run, series, width));
        panels.forEach((p) => { p.scale = Scale.of(name, p.run); });
        drawScale(shown[0][1]);
        drawSample();
        drawRing();
    }

    function drawScale(series) {
        const {low, high} = Scale.of(series.name, Data.runs[0]);
        const own = Scale.policy === 'run';
        const unit = series.unit ? ' ' + series.unit : '';
        const any = panels.some((p) => p.series.values.floats.some(
            (x, i) => !Number.isFinite(x) &&
                !Values.isMissing(p.series.values, i)));
        Dom.replace(Dom.byId('scale'), ...Scale.bar(
            0, 1, Values.short(low), own ? 'largest of each run'
                                         : Values.short(high) + unit),
            ...any ? Scale.hatched('NaN') : []);
    }

    function fill(p, k) {
        const value = p.series.values.floats[k];
        if (Number.isFinite(value))
            return Scale.colour(p.scale, value);
        return Values.isMissing(p.series.values, k) ? 'none' : 'url(#hatch)';
    }

    function cellText(p, k) {
        const value = p.series.values.floats[k];
        if (!Number.isFinite(value))
            return ''; // its hatching or blank says so
        const most = Math.max(Math.abs(p.scale.low), Math.abs(p.scale.high));
        if (most < 10)
            return value.toFixed(2);
        return most < 1000 ? value.toFixed(most < 100 ? 1 : 0)
                           : Dom.thousands(Number(value.toPrecision(2)));
    }

    function drawCells(p) {
        const from = p.sample * p.series.size;
        p.cells.attr('fill', (i) => fill(p, from + i));
        if (!p.texts)
            return;
        p.texts.text((i) => cellText(p, from + i)).style('fill', (i) => {
            const colour = fill(p, from + i);
            return colour[0] === '#' ? Dom.textOn(colour) : 'none';
        });
    }

    function drawSample() {
        for (const p of panels) {
            const {series} = p, last = series.steps.length - 1;
            p.sample = Data.sampleAt(series, State.now.step);
            const phase = series.phase === 'eval' ? ', eval' : '';
            const ended = p.sample === last && State.now.step > series.steps[last];
            const label = `step ${series.labels[p.sample]}${phase}` +
                (ended ? ', its last' : '');
            p.caption.textContent = label;
            p.svg.attr('aria-label', `${series.name} of ${p.run.title}, ` +
                `${series.rows} layers of ${series.columns} heads, ${label}`);
            drawCells(p);
            if (p.pointed !== null)
                showTip(p, p.pointed, p.at);
        }
    }

    function drawRing() {
        const head = State.now.head;
        for (const p of panels) {
            const here = head && head.run === p.run.index &&
                head.row < p.series.rows && head.column < p.series.columns;
            p.ring.classed('shown', !!here);
            if (here)
                moveTo(p, p.ring, head.row * p.series.columns + head.column);
        }
    }

    function start() {
        let width = 0;
        new ResizeObserver(() => {
            if (box.clientWidth === width)
                return;
            width = box.clientWidth;
            build();
        }).observe(box);
        State.follow(['series'], () => { build(); width = box.clientWidth; });
        State.follow(['step'], drawSample);
        State.follow(['head'], drawRing);
    }

    return {start};
})();
