'use strict';

// Configurations side by side: what differs, or everything.
const Config = (() => {
    // {"a":{"b":1}} -> [["a.b", "1"]]
    function flatten(value, prefix) {
        if (value === null || typeof value !== 'object' ||
            Array.isArray(value))
            return [[prefix, typeof value === 'string' ? value
                                                       : JSON.stringify(value)]];
        return Object.entries(value).flatMap(([key, member]) =>
            flatten(member, prefix ? `${prefix}.${key}` : key));
    }

    const tables = () => Data.runs.map((run) => new Map(
        run.summary.config ? flatten(run.summary.config, '') : []));

    function row(key, of) {
        const values = of.map((table) => table.get(key));
        const same = values.every((v) => v === values[0]);
        return {same, element: Dom.element('tr', {class: same ? 'same' : null},
            Dom.element('th', {scope: 'row'}, key),
            ...values.map((v) => Dom.element('td', {
                class: v === undefined ? 'unknown' : null},
                v === undefined ? '–' : v)))};
    }

    function head() {
        return Dom.element('thead', {}, Dom.element('tr', {},
            Dom.element('th', {scope: 'col'}, ''),
            ...Data.runs.map((run) => Dom.element('th', {scope: 'col'},
                                                  run.title))));
    }

    function draw(rows, all) {
        const shown = rows.filter((r) => all || !r.same);
        Dom.byId('config').hidden = !shown.length;
        Dom.replace(Dom.byId('config'), head(), Dom.element(
            'tbody', {}, ...shown.map((r) => r.element)));
        Dom.byId('config-note').textContent = shown.length ? ''
            : 'The configurations are the same.';
    }

    function start() {
        const of = tables();
        const keys = Array.from(new Set(of.flatMap((t) => [...t.keys()])));
        const rows = keys.map((key) => row(key, of));
        const box = Dom.byId('config-all');
        Dom.byId('config-card').hidden = !keys.length;
        if (Data.runs.length < 2) {
            box.checked = true;
            box.parentNode.hidden = true;
        }
        box.addEventListener('change', () => draw(rows, box.checked));
        draw(rows, box.checked);
    }

    return {start};
})();
