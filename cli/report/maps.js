'use strict';

// Draws the attention maps of every layer, at the recorded step that is nearest
// to the step shown.
const Maps = (() => {
    const MARGIN = {left: 34, top: 2, right: 2, bottom: 20};
    const SIDE = {least: 120, most: 220};
    const card = Dom.byId('maps-card'), box = Dom.byId('maps');
    const all = new Map(); // key of a run -> its maps
    let panels = [];

    // Reads the maps of a report. The values (steps, layers, size, size) are
    // decompressed when maps are first shown.
    function read(element) {
        const maps = JSON.parse(element.textContent);
        const cells = maps.steps.length * maps.layers * maps.size * maps.size;
        let values = null;
        return Object.assign(maps, {
            get values() {
                return values || (values = Values.wrap(Inflate.unpack(
                    Values.bytesOf(maps.packed), 4 * cells).buffer));
            },
        });
    }

    const of = (run) => all.get(run.key);

    // Sets the maps of a run: an object with steps, layers, size, ctx, phase,
    // recorded and values; null: none.
    function set(run, maps) {
        if (maps)
            all.set(run.key, maps);
        else
            all.delete(run.key);
    }

    function nearest(maps) {
        const away = (i) => Math.abs(maps.steps[i] - State.now.step);
        return maps.steps.reduce((best, _, i) => away(i) < away(best) ? i : best, 0);
    }

    // Returns the logarithmic scale of all maps. It is logarithmic because even
    // one map spans several powers of ten.
    function scaleOf(open) {
        const finite = open.flatMap(({maps}) => Array.from(maps.values.floats)
            .filter((x) => Number.isFinite(x) && x > 0));
        const high = Plot.max(finite, (x) => x) || 1;
        const low = Math.max(Plot.min(finite, (x) => x) || high, high / 1000);
        return {low: Math.log(low < high ? low : high / 10), high: Math.log(high)};
    }

    function colour(scale, values, k) {
        const value = values.floats[k];
        if (Number.isFinite(value))
            return Scale.colour(scale, Math.log(Math.max(value, 1e-45)));
        return Values.isMissing(values, k) ? null : Dom.ink('critical');
    }

    function draw(p, scale) {
        const {maps, layer, canvas} = p, {size} = maps;
        const step = nearest(maps), pen = canvas.getContext('2d');
        p.from = (step * maps.layers + layer) * size * size;
        pen.clearRect(0, 0, size, size);
        for (let k = 0; k < size * size; k++) {
            const fill = colour(scale, maps.values, p.from + k);
            if (fill) {
                pen.fillStyle = fill;
                pen.fillRect(k % size, Math.floor(k / size), 1, 1);
            }
        }
        p.caption.textContent = `step ${maps.steps[step]}` +
            (maps.phase === 'eval' ? ', eval' : '');
    }

    function tokens(maps, cell) {
        const first = Math.ceil(cell * maps.ctx / maps.size);
        const last = Math.ceil((cell + 1) * maps.ctx / maps.size) - 1;
        return first === last ? `${first}` : `${first}–${last}`;
    }

    function hover(p, event) {
        const {maps} = p, bounds = p.canvas.getBoundingClientRect();
        const at = (x, whole) => Math.min(maps.size - 1, Math.max(0,
            Math.floor(x / whole * maps.size)));
        const key = at(event.clientX - bounds.left, bounds.width);
        const query = at(event.clientY - bounds.top, bounds.height);
        const k = p.from + query * maps.size + key;
        const value = maps.values.floats[k];
        Tip.show([{text: Values.isMissing(maps.values, k) ? 'masked'
                      : Values.short(Number(value.toPrecision(3))), strong: true},
                  {text: `queries ${tokens(maps, query)}, keys ${tokens(maps, key)}`},
                  {text: `layer ${p.layer}, ${p.run.title}`, muted: true}],
                 {x: event.clientX, y: event.clientY});
    }

    function axes(maps, side) {
        const label = (text, x, y, anchor) => Plot.svg(
            'text', {x, y, 'text-anchor': anchor}, String(text));
        const ticks = [0, 0.5].map((share) => Math.round(share * maps.ctx));
        const place = (tick) => tick / maps.ctx * side;
        return Plot.svg('g', {class: 'axis'},
            ...ticks.map((t) => label(t, MARGIN.left - 6, MARGIN.top + place(t) + 8, 'end')),
            ...ticks.map((t) => label(t, MARGIN.left + place(t), MARGIN.top + side + 14,
                                      t ? 'middle' : 'start')),
            label('key', MARGIN.left + side, MARGIN.top + side + 14, 'end'));
    }

    function addPanel(run, maps, layer, side) {
        const caption = Dom.element('span', {class: 'muted'});
        const canvas = Dom.element('canvas', {width: maps.size, height: maps.size,
            class: 'map', role: 'img', 'aria-label':
                `attention map of layer ${layer} of ${run.title}, queries downwards`});
        const frame = Plot.svg('svg', {class: 'map-axes',
            width: MARGIN.left + side + MARGIN.right,
            height: MARGIN.top + side + MARGIN.bottom}, axes(maps, side));
        canvas.style.cssText = `left:${MARGIN.left}px;top:${MARGIN.top}px;` +
            `width:${side}px;height:${side}px`;
        const title = State.now.open.length > 1 ? `${run.title}, layer ${layer}`
                                                : `layer ${layer}`;
        box.append(Dom.element('figure', {}, Dom.element('figcaption', {},
            Dom.element('strong', {title}, title), caption),
            Dom.element('div', {class: 'map-plot'}, frame, canvas)));
        const p = {run, maps, layer, canvas, caption, from: 0};
        canvas.addEventListener('pointermove', (e) => hover(p, e));
        canvas.addEventListener('pointerleave', () => Tip.hide());
        return p;
    }

    function note(open) {
        const fewer = open.filter(({maps}) => maps.recorded > maps.steps.length);
        const [any] = open;
        return `Mean weights of ${any.maps.size} by ${any.maps.size} blocks of queries ` +
            '(downwards) and keys, over heads and sequences; logarithmic colour scale.' +
            (fewer.length ? ` This page has the last ${fewer[0].maps.steps.length} of ` +
                `${fewer[0].maps.recorded} steps.` : '');
    }

    function build() {
        const open = State.now.open.map((run) => ({run, maps: of(run)}))
            .filter(({maps}) => maps);
        card.hidden = !open.length;
        Dom.replace(box);
        panels = [];
        if (!open.length)
            return;
        const n = open.reduce((sum, {maps}) => sum + maps.layers, 0);
        const width = Dom.panelWidth(box, n, SIDE.least + MARGIN.left + MARGIN.right);
        const side = Math.min(SIDE.most, width - MARGIN.left - MARGIN.right);
        panels = open.flatMap(({run, maps}) => Plot.range(0, maps.layers).map(
            (layer) => addPanel(run, maps, layer, side)));
        panels.scale = scaleOf(open);
        Dom.replace(Dom.byId('maps-scale'), ...Scale.bar([0, 1],
            Values.short(Number(Math.exp(panels.scale.low).toPrecision(2))),
            Values.short(Number(Math.exp(panels.scale.high).toPrecision(2)))));
        Dom.byId('maps-note').textContent = note(open);
        drawAll();
    }

    function drawAll() {
        panels.forEach((p) => draw(p, panels.scale));
    }

    // Returns the weights shown as rows of a table.
    const rows = () => [['run', 'step', 'layer', 'query block', 'key block',
                         'weight'],
        ...panels.flatMap((p) => Plot.range(0, p.maps.size ** 2).map((k) => [
            p.run.title, p.maps.steps[nearest(p.maps)], p.layer,
            Math.floor(k / p.maps.size), k % p.maps.size,
            Data.cell(p.maps.values, p.from + k)]))];

    function start() {
        for (const element of document.querySelectorAll('script.maps')) {
            const maps = read(element);
            set(Data.runs[maps.run], maps);
        }
        Save.add(card, {name: 'maps', picture: true, rows, figure: () => ({names: ['maps']})});
        State.follow(['open', 'theme', 'maps'], Dom.onWidth(box, build));
        State.follow(['step'], drawAll);
    }

    return {start, set, has: (run) => all.has(run.key)};
})();
