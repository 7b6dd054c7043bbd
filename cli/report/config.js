'use strict';

// Shows the configurations side by side: only the settings that differ, or all
// settings.
const Config = (() => {
    const text = (value) => value === undefined ? '–'
        : typeof value === 'string' ? value : JSON.stringify(value);

    function row(key, of, differs) {
        const values = of.map((run) => run.settings.get(key));
        const same = !differs.includes(key);
        return {same, element: Dom.element('tr', {class: same ? 'same' : null},
            Dom.element('th', {scope: 'row'}, key),
            ...values.map((v) => Dom.element('td', {
                class: v === undefined ? 'unknown' : null},
                text(v))))};
    }

    function head() {
        return Dom.element('thead', {}, Dom.element('tr', {},
            Dom.element('th', {scope: 'col'}, ''),
            ...State.now.open.map((run) => Dom.element('th', {scope: 'col'},
                                                  run.title))));
    }

    function draw(rows, all) {
        const shown = rows.filter((r) => all || !r.same);
        Dom.byId('config').hidden = !shown.length;
        Dom.replace(Dom.byId('config'), head(), Dom.element(
            'tbody', {}, ...shown.map((r) => r.element)));
        Dom.byId('config-note').textContent = shown.length ? ''
            : 'The configurations are identical.';
    }

    function build() {
        const {open} = State.now, differs = Data.differing(open);
        const keys = Array.from(new Set(open.flatMap(
            (run) => [...run.settings.keys()])));
        const one = open.length < 2, box = Dom.byId('config-all');
        Dom.byId('config-card').hidden = !keys.length;
        box.parentNode.hidden = one;
        draw(keys.map((key) => row(key, open, differs)), one || box.checked);
    }

    // Returns the settings as rows of a table.
    const rows = () => [['setting', ...State.now.open.map((run) => run.title)],
        ...Array.from(new Set(State.now.open.flatMap(
            (run) => [...run.settings.keys()])), (key) => [key,
            ...State.now.open.map((run) => run.settings.has(key)
                ? text(run.settings.get(key)) : '')])];

    function start() {
        Save.add(Dom.byId('config-card'), {name: 'configuration', rows});
        Dom.byId('config-all').addEventListener('change', build);
        State.follow(['open', 'runs'], build);
    }

    return {start};
})();
