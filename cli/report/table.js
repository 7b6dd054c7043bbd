'use strict';

// Shows the table of runs, which can be sorted by a column and filtered by
// words and flags. A click on a row opens the panels of its run, and two ticked
// runs can be compared.
const Table = (() => {
    const table = Dom.byId('runs'), text = Dom.byId('filter');
    const flag = Dom.byId('filter-flag'), compare = Dom.byId('compare');
    const several = Data.runs.length > 1;
    const fold = Dom.byId('fold');
    const unfolded = new Set(); // indices of groups with visible seeds
    let columns, rows, sorted = {column: null, down: false};

    /* --- order -----------------------------------------------------------*/

    // Numbers come first, then strings; values in another state are last,
    // whether the order is ascending or descending.
    const STATES = ['inf', '-inf', 'nan', 'damaged', 'missing'];
    const rank = (key) => typeof key === 'number' ? 0
        : typeof key === 'object' ? 2 + STATES.indexOf(key.state) : 1;

    function order(a, b) {
        const kind = rank(a.key) - rank(b.key), sign = sorted.down ? -1 : 1;
        if (kind || typeof a.key === 'object')
            return kind || a.run.index - b.run.index;
        const by = typeof a.key === 'number' ? a.key - b.key
            : String(a.key).localeCompare(String(b.key), 'en',
                                          {numeric: true});
        return sign * by || a.run.index - b.run.index;
    }

    function sort(column) {
        sorted = {column, down: sorted.column === column && !sorted.down};
        arrange();
        columns.forEach((c, i) => table.tHead.rows[0].cells[i + several]
            .setAttribute('aria-sort', c !== column ? 'none'
                : sorted.down ? 'descending' : 'ascending'));
    }

    const inOrder = (runs) => !sorted.column ? runs
        : runs.map((run) => ({run, key: sorted.column.by(run)})).sort(order)
            .map(({run}) => run);

    // Sorts the rows. A merged row includes only the seeds that pass the
    // filters.
    function arrange() {
        const body = table.tBodies[0];
        if (!fold.checked)
            return Dom.replace(body, ...inOrder(Data.runs).map(
                (run) => rows[run.index]));
        const groups = Fold.groups(State.now.selected);
        return Dom.replace(body, ...inOrder(groups).flatMap(
            (run) => !run.members ? [rows[run.index]] : [
                groupLine(run), ...unfolded.has(run.index)
                    ? inOrder(run.members).map((one) => rows[one.index])
                    : []]));
    }

    /* --- filters ---------------------------------------------------------*/

    // Returns the text of a run in which the filter searches.
    function words(run) {
        const s = run.summary;
        run.words = run.words || [
            run.title, s.name, s.arch, s.path, s.status,
            ...Array.from(run.settings, ([key, value]) => `${key}=${value}`),
            ...Runs.standing(run).map((f) => f.kind)].join('\n').toLowerCase();
        return run.words;
    }

    const FLAGS = {
        '': () => true, any: (run) => Runs.standing(run).length > 0,
        none: (run) => run.summary.flags !== null &&
            !Runs.standing(run).length,
        unknown: (run) => run.summary.flags === null};

    const passesFlag = (run) => FLAGS[flag.value] ? FLAGS[flag.value](run)
        : Runs.standing(run).some((f) => 'is ' + f.kind === flag.value);

    function filter() {
        const wanted = text.value.toLowerCase().split(/\s+/);
        State.set({selected: Data.runs.filter((run) =>
            wanted.every((word) => words(run).includes(word)) &&
            passesFlag(run) && Parallel.passes(run))});
    }

    function addFlags() {
        const kinds = new Set(Data.runs.flatMap(
            (run) => Runs.standing(run).map((f) => f.kind)));
        const option = (value, label) => Dom.element('option', {value}, label);
        flag.append(option('', 'all flags'), option('any', 'any flag'),
                    option('none', 'no flag'),
                    ...Data.runs.some(FLAGS.unknown)
                        ? [option('unknown', 'not judged')] : [],
                    ...Array.from(kinds).sort().map(
                        (kind) => option('is ' + kind, kind)));
    }

    function drawSelected() {
        const {selected} = State.now, shown = new Set(selected);
        rows.forEach((row, i) => { row.hidden = !shown.has(Data.runs[i]); });
        Dom.byId('filter-count').textContent = selected.length ===
            Data.runs.length ? Dom.count(selected.length, 'run')
            : `${selected.length} of ${Data.runs.length} runs`;
        if (fold.checked)
            arrange();
    }

    function clear() {
        text.value = flag.value = '';
        Parallel.clear();
        filter();
    }

    /* --- rows ------------------------------------------------------------*/

    function toggle(run) {
        const {open} = State.now, others = open.filter((r) => r !== run);
        State.set({delta: null, open: others.length < open.length
            ? others : [...open, run]});
        if (State.now.open.includes(run))
            Dom.byId('views').scrollIntoView({block: 'nearest'});
    }

    function drawOpen() {
        const {open} = State.now;
        rows.forEach((row, i) => {
            const isOpen = open.includes(Data.runs[i]);
            row.classList.toggle('opened', isOpen);
            row.querySelector('.open').setAttribute('aria-expanded', isOpen);
        });
        Dom.byId('close').hidden = open.length < 2;
        Dom.byId('closed').hidden = open.length > 0;
    }

    const ticked = () => Data.runs.filter((run) => several &&
        rows[run.index].querySelector('.tick').checked);

    function drawCompare() {
        const n = ticked().length;
        compare.disabled = n !== 2;
        compare.title = n === 2 ? ''
            : `Tick two runs in the table (${n} ticked)`;
    }

    function line(run) {
        const row = Dom.element('tr', {}, ...several ? [tick(run)] : [],
                                ...columns.map((c) => c.cell(run)));
        row.addEventListener('click', (event) => {
            const control = event.target.closest('button, input, a');
            if (several && (!control || control.className === 'open') &&
                !String(getSelection()))
                toggle(run);
        });
        row.addEventListener('pointerenter', () => Parallel.point(run));
        row.addEventListener('pointerleave', () => Parallel.point(null));
        return row;
    }

    // Makes the row of merged seeds. A click on the row shows the seeds below
    // it.
    function groupLine(run) {
        const row = Dom.element('tr', {class: 'group'},
            Dom.element('td', {class: 'ticks'}),
            ...columns.map((c) => c.by ? c.cell(run) : Dom.element('td')));
        row.querySelector('.open').setAttribute('aria-expanded',
                                                unfolded.has(run.index));
        row.addEventListener('click', () => {
            if (!unfolded.delete(run.index))
                unfolded.add(run.index);
            arrange();
        });
        return row;
    }

    function tick(run) {
        const box = Dom.element('input', {
            type: 'checkbox', class: 'tick',
            'aria-label': `compare ${run.title}`});
        box.addEventListener('change', drawCompare);
        return Dom.element('td', {class: 'ticks'}, box);
    }

    function heading(column) {
        const button = Dom.element('button', {type: 'button', class: 'sort'},
                                   column.title);
        button.addEventListener('click', () => sort(column));
        return Dom.element('th', {
            scope: 'col', class: column.right ? 'number' : null},
            several && column.by ? button : column.title);
    }

    function start() {
        columns = Runs.columns();
        rows = Data.runs.map(line);
        Dom.replace(table, Dom.element('thead', {}, Dom.element('tr', {},
            ...several ? [Dom.element('th', {scope: 'col', class: 'ticks'})]
                : [], ...columns.map(heading))),
            Dom.element('tbody', {}, ...rows));
        Dom.byId('runs-note').textContent = Runs.note();
        Dom.byId('filters').hidden = !several;
        table.classList.toggle('many', Data.runs.length > 4);
        Dom.byId('fold-label').hidden = Data.runs.length <= 4 ||
            Fold.groups(Data.runs).length === Data.runs.length;
        fold.addEventListener('change', arrange);
        addFlags();
        text.addEventListener('input', filter);
        flag.addEventListener('change', filter);
        Dom.byId('clear').addEventListener('click', clear);
        Dom.byId('close').addEventListener('click',
            () => State.set({open: [], delta: null}));
        compare.addEventListener('click', () => {
            const [base, run] = ticked();
            State.set({open: [base, run], delta: [run, base]});
            Dom.byId('views').scrollIntoView({block: 'start'});
        });
        State.follow(['selected'], drawSelected);
        State.follow(['open'], drawOpen);
        drawCompare();
        // Keeps the content below the table in place while filters shorten the
        // table.
        table.parentNode.style.minHeight = table.parentNode.offsetHeight + 'px';
    }

    return {start, filter, toggle};
})();
