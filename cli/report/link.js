'use strict';

// Keeps the selection in the address, so that a link shows the same view and the
// browser's buttons go back and forward. Whatever an address says is only
// compared with the names that the page has.
const Link = (() => {
    // A change of these states can be undone by the browser's "back".
    const STATIONS = ['open', 'delta', 'series', 'head', 'group', 'sort', 'flag'];
    const OTHERS = ['step', 'span', 'log', 'full', 'filter', 'brushes'];
    const NONE = '-';  // no run is open
    const PAUSE = 250; // milliseconds without a change, before the address changes
    let seen = {}, timer = null, wanted = null;

    const isHeld = (open) => open.length !== (Data.runs.length <= 4
        ? Data.runs.length : 0);

    // Writes the states that differ from those of a page without an address.
    function write() {
        const {open, delta, step, series, head, sort, filter, flag, group, log,
            full, span, brushes} = State.now;
        const said = {
            runs: isHeld(open) ? open.map((run) => run.key).join() || NONE
                : null,
            delta: delta && delta.map((run) => run.key).join(),
            series: series === Data.grids[0] ? null : series,
            step: Steps.isLast() ? null : step,
            head: head && [head.run, head.row, head.column].join(),
            sort: sort && (sort.down ? '-' : '') + sort.title,
            filter, flag, group, log: log ? '1' : null, full: full ? '1' : null,
            span: span && span.map((x) => Number(x.toPrecision(6))).join(),
            axes: Object.entries(brushes).map(([title, at]) =>
                `${encodeURIComponent(title)}:${at.map(Math.round).join(':')}`)
                .join()};
        const text = new URLSearchParams(Object.entries(said).filter(
            ([, value]) => value !== null && value !== ''));
        return text.toString();
    }

    /* --- reading ---------------------------------------------------------*/

    const numbers = (text, n, by = ',') => {
        const all = text.split(by).map(Number);
        return all.length === n && all.every(Number.isFinite) ? all : null;
    };

    const runsOf = (text) => text.split(',').map(
        (id) => Data.runs.find((run) => run.key === id)).filter(Boolean);

    function headOf(text) {
        const [id] = text.split(',');
        const at = numbers(text.slice(id.length + 1), 2);
        return at && at.every((x) => Number.isInteger(x) && x >= 0)
            ? {run: id, row: at[0], column: at[1]} : null;
    }

    const flagOf = (text) => text.startsWith('is ') ||
        ['any', 'none', 'unknown'].includes(text) ? text : '';

    function brushesOf(text) {
        const pairs = text.split(',').map((part) => {
            const at = part.indexOf(':');
            return [decode(part.slice(0, at)), numbers(part.slice(at + 1), 2, ':')];
        });
        return Object.fromEntries(pairs.filter(([, at]) => at));
    }

    function decode(text) {
        try {
            return decodeURIComponent(text);
        } catch (error) {
            return '';
        }
    }

    // Returns the states that an address names, and the defaults of all others.
    function read(hash) {
        const said = new URLSearchParams(hash.replace(/^#/, ''));
        const of = (name) => said.get(name) || '';
        const delta = runsOf(of('delta')), sort = of('sort');
        const step = of('step') === '' ? null : Number(of('step'));
        return {
            open: said.has('runs') ? runsOf(of('runs'))
                : Data.runs.length <= 4 ? [...Data.runs] : [],
            delta: delta.length === 2 ? delta : null,
            series: Data.grids.includes(of('series')) ? of('series')
                : Data.grids[0] || null,
            step: Number.isFinite(step) ? step : null,
            head: of('head') ? headOf(of('head')) : null,
            sort: sort ? {title: sort.replace(/^-/, ''), down: sort[0] === '-'}
                : null,
            filter: of('filter'), flag: flagOf(of('flag')),
            group: Fold.ways().some(([by]) => by === of('group'))
                ? of('group') : '',
            log: of('log') === '1', full: of('full') === '1', span: numbers(of('span'), 2),
            brushes: brushesOf(of('axes')),
        };
    }

    /* --- the address -----------------------------------------------------*/

    function show() {
        State.set(read(location.hash));
        keep();
    }

    const keep = () => {
        seen = Object.fromEntries(STATIONS.map((key) => [key, State.now[key]]));
        clearTimeout(timer);
        timer = wanted = null;
    };

    function store() {
        const address = '#' + write(), how = wanted;
        keep();
        if (address !== (location.hash || '#'))
            history[how](null, '', address);
    }

    // A burst of changes makes one entry of the history.
    function change() {
        const moved = STATIONS.some((key) => seen[key] !== State.now[key]);
        wanted = moved || wanted === 'pushState' ? 'pushState' : 'replaceState';
        clearTimeout(timer);
        timer = setTimeout(store, PAUSE);
    }

    // Reads the address. The views are made after that, and start() then
    // follows them.
    const open = show;

    function start() {
        keep();
        State.follow([...STATIONS, ...OTHERS], change);
        keep();
        addEventListener('popstate', show);
    }

    return {open, start};
})();
