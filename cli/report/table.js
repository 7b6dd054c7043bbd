'use strict';

// Shows the table of runs, which can be sorted by a column, filtered by words
// and flags, and grouped by a setting. A click on a row opens the panels of its
// run, and two ticked runs can be compared. A long table has only the rows in
// sight in the document.
const Table = (() => {
    const table = Dom.byId('runs'), text = Dom.byId('filter');
    const flag = Dom.byId('filter-flag'), compare = Dom.byId('compare');
    const group = Dom.byId('group');
    const unfolded = new Set(); // identifiers of groups with visible runs
    const rows = new Map();     // key of a run -> its row, if it was shown
    const merged = new Map();   // key of a group -> its row
    const ticks = new Set();    // runs whose box is ticked
    // Most lines of a table that is in the document as a whole, where the browser
    // can search it; lines above and below those in sight; rows that are kept.
    const MOST = {whole: 160, beyond: 8, kept: 400};
    const PAUSE = 4000; // milliseconds between changes of the scale
    let columns = [], lines = [], height = 25;
    let drawn = ''; // titles of the columns that the rows have

    const several = () => Data.runs.length > 1;
    const rowOf = (run) => rows.get(run.key) || fill(run);

    /* --- order -----------------------------------------------------------*/

    // Numbers come first, then strings; values in another state are last,
    // whether the order is ascending or descending.
    const STATES = ['inf', '-inf', 'nan', 'damaged', 'missing'];
    const rank = (key) => typeof key === 'number' ? 0
        : typeof key === 'object' ? 2 + STATES.indexOf(key.state) : 1;

    function order(a, b) {
        const kind = rank(a.key) - rank(b.key);
        const sign = State.now.sort.down ? -1 : 1;
        if (kind || typeof a.key === 'object')
            return kind || a.run.index - b.run.index;
        const by = typeof a.key === 'number' ? a.key - b.key
            : String(a.key).localeCompare(String(b.key), 'en',
                                          {numeric: true});
        return sign * by || a.run.index - b.run.index;
    }

    function sort(column) {
        const {sort: now} = State.now;
        State.set({sort: {title: column.title,
                          down: now?.title === column.title && !now.down}});
    }

    const sorted = () => columns.find((c) => c.by &&
        c.title === State.now.sort?.title);

    function inOrder(runs) {
        const column = sorted();
        return !column ? runs : runs.map((run) => ({run, key: column.by(run)}))
            .sort(order).map(({run}) => run);
    }

    // Sorts the lines of the table. A merged line includes only the runs that
    // pass the filters.
    function arrange() {
        const column = sorted(), {group: by, selected} = State.now;
        columns.forEach((c, i) => table.tHead.rows[0].cells[i + several()]
            .setAttribute('aria-sort', c !== column ? 'none'
                : State.now.sort.down ? 'descending' : 'ascending'));
        const one = (run) => ({key: run.key, run, row: () => rowOf(run)});
        lines = !by ? inOrder(selected).map(one)
            : inOrder(Fold.groups(selected, by)).flatMap((run) => !run.members
                ? [one(run)] : [groupLine(run), ...unfolded.has(run.key)
                    ? inOrder(run.members).map(one) : []]);
        dropUnknown(merged, new Set(lines.map(({key}) => key)));
        if (!lines.some(({key}) => key === roving))
            roving = lines[0]?.key;
        render();
    }

    /* --- lines in sight --------------------------------------------------*/

    const box = table.parentNode;
    let from = 0, to = 0, isWhole = false;

    // Puts the lines in sight into the document, and space for the others.
    function render() {
        const whole = isWhole || lines.length <= MOST.whole;
        const first = Math.floor(box.scrollTop / height) - MOST.beyond;
        const n = Math.ceil((box.clientHeight || 600) / height) +
            2 * MOST.beyond;
        from = whole ? 0 : Math.max(0, Math.min(first, lines.length - n));
        to = whole ? lines.length : Math.min(lines.length, from + n);
        show(lines.slice(from, to).map((line) => line.row()));
        table.style.marginTop = from * height + 'px';
        table.style.marginBottom = (lines.length - to) * height + 'px';
        table.setAttribute('aria-rowcount', lines.length + 1);
        rove();
        if (!whole)
            settle();
        forget();
    }

    // Keeps the widths of columns and the height of rows while rows come and go.
    function settle() {
        const cells = Array.from(table.tHead.rows[0].cells);
        const widths = cells.map((cell) => cell.offsetWidth);
        cells.forEach((cell, i) => {
            if (parseFloat(cell.style.minWidth) !== widths[i])
                cell.style.minWidth = widths[i] + 'px';
        });
        const row = table.tBodies[0].rows[1];
        height = row && row.offsetHeight || height;
    }

    function dropUnknown(map, known) {
        for (const key of map.keys())
            if (!known.has(key))
                map.delete(key);
    }

    function forget() {
        if (rows.size > MOST.kept)
            dropUnknown(rows, new Set(
                lines.slice(from, to).map(({key}) => key)));
    }

    function scroll() {
        const first = Math.floor(box.scrollTop / height);
        const last = first + Math.ceil(box.clientHeight / height);
        if ((first < from + MOST.beyond / 2 && from > 0) ||
            (last > to - MOST.beyond / 2 && to < lines.length))
            render();
    }

    // Makes these rows the rows of the table. The row with the focus keeps it.
    function show(wanted) {
        const body = table.tBodies[0], keep = new Set(wanted);
        const focused = document.activeElement;
        for (const row of Array.from(body.rows))
            if (!keep.has(row))
                row.remove();
        let next = body.firstChild;
        wanted.forEach((row, i) => {
            row.setAttribute('aria-rowindex', from + i + 2);
            if (row === next)
                next = next.nextSibling;
            else
                body.insertBefore(row, next);
        });
        if (body.contains(focused))
            focused.focus({preventScroll: true});
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

    const passesFlag = (run, wanted) =>
        Object.hasOwn(FLAGS, wanted) ? FLAGS[wanted](run)
            : Runs.standing(run).some((f) => 'is ' + f.kind === wanted);

    function filter() {
        const wanted = State.now.filter.toLowerCase().split(/\s+/);
        if (text.value !== State.now.filter)
            text.value = State.now.filter;
        flag.value = State.now.flag;
        const selected = Data.runs.filter((run) =>
            wanted.every((word) => words(run).includes(word)) &&
            passesFlag(run, State.now.flag) && Parallel.passes(run));
        const before = State.now.selected;
        if (selected.length !== before.length ||
            selected.some((run, i) => run !== before[i]))
            State.set({selected});
    }

    const option = (value, label) => Dom.element('option', {value}, label);

    function addFlags() {
        const kinds = new Set(Data.runs.flatMap(
            (run) => Runs.standing(run).map((f) => f.kind)));
        if (State.now.flag.startsWith('is '))
            kinds.add(State.now.flag.slice(3));
        Dom.replace(flag, option('', 'all flags'), option('any', 'any flag'),
                    option('none', 'no flag'),
                    ...Data.runs.some(FLAGS.unknown) ||
                        State.now.flag === 'unknown'
                        ? [option('unknown', 'not judged')] : [],
                    ...Array.from(kinds).sort().map(
                        (kind) => option('is ' + kind, kind)));
        flag.value = State.now.flag;
    }

    function addGroups() {
        const ways = Data.runs.length > 4 ? Fold.ways() : [];
        Dom.byId('group-label').hidden = !ways.length;
        Dom.replace(group, option('', 'nothing'), ...ways.map(
            ([value, label]) => option(value, label)));
        group.value = State.now.group;
    }

    function drawSelected() {
        const {selected} = State.now;
        Dom.byId('filter-count').textContent = selected.length ===
            Data.runs.length ? Dom.count(selected.length, 'run')
            : `${selected.length} of ${Data.runs.length} runs`;
        arrange();
    }

    const clear = () => State.set({filter: '', flag: '', brushes: {}});

    /* --- rows ------------------------------------------------------------*/

    function toggle(run) {
        const {open} = State.now, others = open.filter((r) => r !== run);
        State.set({delta: null, open: others.length < open.length
            ? others : [...open, run]});
        if (State.now.open.includes(run))
            Dom.byId('views').scrollIntoView({block: 'nearest'});
    }

    function mark(run, row) {
        const isOpen = State.now.open.includes(run);
        row.classList.toggle('opened', isOpen);
        row.querySelector('.open').setAttribute('aria-expanded', isOpen);
    }

    function drawOpen() {
        const {open} = State.now;
        for (const run of Data.runs)
            if (rows.has(run.key))
                mark(run, rows.get(run.key));
        Dom.byId('close').hidden = open.length < 2;
        Dom.byId('closed').hidden = open.length > 0 || !Data.runs.length;
    }

    const ticked = () => Data.runs.filter((run) => several() &&
        ticks.has(run.key));

    function drawCompare() {
        const n = ticked().length;
        compare.disabled = n !== 2;
        compare.title = n === 2 ? ''
            : `Tick two runs in the table (${n} ticked)`;
    }

    function compareTicked() {
        const [base, run] = ticked();
        if (ticked().length !== 2)
            return;
        State.set({open: [base, run], delta: [run, base]});
        Dom.byId('views').scrollIntoView({block: 'start'});
    }

    // Puts cells into a row. Cells that did not change stay, so that a click or
    // the focus on them is not lost. `ticks` makes the cell before the first
    // column.
    function put(row, ticks, cells) {
        const texts = cells.map((cell) => cell.outerHTML);
        Dom.keepFocus(row, () => {
            if (row.filled === drawn)
                cells.forEach((cell, i) => {
                    if (texts[i] !== row.texts[i])
                        row.cells[i + several()].replaceWith(cell);
                });
            else
                Dom.replace(row, ...several() ? [ticks()] : [], ...cells);
        });
        Object.assign(row, {texts, filled: drawn});
    }

    // Fills the row of a run, a new one or the one that it has.
    function fill(run) {
        const row = rows.get(run.key) || line(run);
        put(row, () => tick(run), columns.map((c) => c.cell(run)));
        row.drawn = run.summary;
        rows.set(run.key, row);
        mark(run, row);
        return row;
    }

    function line(run) {
        const row = Dom.element('tr', {});
        row.addEventListener('click', (event) => {
            const control = event.target.closest('button, input, a');
            if (several() && (!control || control.className === 'open') &&
                !String(getSelection()))
                toggle(run);
        });
        row.addEventListener('pointerenter', () => Parallel.point(run));
        row.addEventListener('pointerleave', () => Parallel.point(null));
        return row;
    }

    // Fills the row of merged runs.
    function groupLine(run) {
        const key = `group ${run.key}`;
        const row = merged.get(key) || groupRow(run.key);
        put(row, () => Dom.element('td', {class: 'ticks'}), columns.map(
            (c) => c.by ? c.cell(run) : Dom.element('td')));
        row.querySelector('.open').setAttribute('aria-expanded',
                                                unfolded.has(run.key));
        merged.set(key, row);
        return {key, row: () => row};
    }

    // A click on the row of a group shows the runs below it.
    function groupRow(group) {
        const row = Dom.element('tr', {class: 'group'});
        row.addEventListener('click', () => {
            if (!unfolded.delete(group))
                unfolded.add(group);
            arrange();
        });
        return row;
    }

    function tick(run) {
        const box = Dom.element('input', {
            type: 'checkbox', class: 'tick', tabindex: -1,
            'aria-label': `compare ${run.title}`});
        box.checked = ticks.has(run.key);
        box.addEventListener('change', () => {
            if (box.checked)
                ticks.add(run.key);
            else
                ticks.delete(run.key);
            drawCompare();
        });
        return Dom.element('td', {class: 'ticks'}, box);
    }

    function heading(column) {
        const button = Dom.element('button', {type: 'button', class: 'sort'},
                                   column.title);
        button.addEventListener('click', () => sort(column));
        return Dom.element('th', {
            scope: 'col', class: column.right ? 'number' : null},
            several() && column.by ? button : column.title);
    }

    /* --- keys ------------------------------------------------------------*/

    // Only one line is in the order of the tab key; arrow keys go to the others.
    let roving = null; // its key
    function rove() {
        lines.slice(from, to).forEach((line) => {
            line.row().querySelector('.open').tabIndex =
                line.key === roving ? 0 : -1;
        });
    }

    // Moves the focus by some lines, to the current line at first.
    function move(by) {
        const at = lines.findIndex(({key}) => key === roving);
        const inside = table.contains(document.activeElement);
        const to = Math.min(lines.length - 1, Math.max(0, inside ? at + by : at));
        if (!lines[to])
            return;
        roving = lines[to].key;
        reveal(to);
        const row = lines[to].row();
        row.querySelector('.open').focus();
        row.scrollIntoView({block: 'nearest'});
    }

    // Scrolls the table to a line that is not in the document.
    function reveal(at) {
        if (at < from || at >= to)
            box.scrollTop = (at - 5) * height;
        render();
    }

    function tickFocused() {
        const row = document.activeElement.closest('#runs tr');
        row?.querySelector('.tick')?.click();
    }

    function listen() {
        table.addEventListener('focusin', (event) => {
            const row = event.target.closest('tbody tr');
            const line = row && lines.slice(from, to).find(
                (one) => one.row() === row);
            if (line) {
                roving = line.key;
                rove();
            }
        });
        box.addEventListener('scroll', scroll);
        new ResizeObserver(scroll).observe(box);
        const print = (whole) => () => {
            isWhole = whole;
            render();
        };
        addEventListener('beforeprint', print(true));
        addEventListener('afterprint', print(false));
        table.addEventListener('keydown', (event) => {
            const by = {ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15,
                        Home: -Infinity, End: Infinity}[event.key];
            if (!by || !event.target.closest('tbody') || event.ctrlKey ||
                event.metaKey || event.altKey)
                return;
            event.preventDefault();
            move(by);
        });
    }

    /* --- all of it -------------------------------------------------------*/

    // Returns true if the cells of all rows have another scale, such as more
    // steps, at most every few seconds.
    let scale = null, rescaled = -Infinity;
    function rescales() {
        const now = Runs.scaleKey();
        if (now === scale || performance.now() < rescaled + PAUSE)
            return false;
        scale = now;
        rescaled = performance.now();
        return true;
    }

    // The rows stay in the document, so that one of them keeps the focus.
    function setHead(head) {
        if (table.tHead)
            table.tHead.replaceWith(head);
        else
            table.append(head, Dom.element('tbody'));
    }

    // Makes the columns, the rows and the choices. Rows are filled again if
    // their run or the columns changed.
    function build() {
        columns = Runs.columns();
        const now = [several(), ...columns.map((c) => c.title)].join('\n');
        const same = now === drawn;
        drawn = now;
        dropUnknown(rows, new Set(Data.runs.map((run) => run.key)));
        const all = !same || rescales();
        for (const run of Data.runs)
            if (rows.has(run.key) &&
                (all || rows.get(run.key).drawn !== run.summary))
                fill(run);
        if (!same || !table.tHead)
            setHead(Dom.element('thead', {}, Dom.element('tr', {},
                ...several() ? [Dom.element('th', {scope: 'col',
                                                   class: 'ticks'})] : [],
                ...columns.map(heading))));
        Dom.byId('runs-note').textContent = Runs.note();
        Dom.byId('filters').hidden = !several();
        table.classList.toggle('many', Data.runs.length > 4);
        addFlags();
        addGroups();
        filter();
        drawSelected();
        drawOpen();
        drawCompare();
    }

    // Returns the runs that pass the filters as rows of a table.
    function csvRows() {
        const wanted = columns.filter((c) => c.by && c.csv !== null);
        return [wanted.map((c) => c.title),
            ...inOrder(State.now.selected).map((run) => wanted.map((c) => {
                const key = (c.csv || c.by)(run);
                return typeof key !== 'object' ? key
                    : {nan: NaN, inf: Infinity, '-inf': -Infinity}[key.state] ??
                        '';
            }))];
    }

    function start() {
        Save.add(Dom.byId('runs-card'), {name: 'runs', rows: csvRows,
            figure: () => ({names: ['overview'], all: true})});
        const choose = (key, input, event) => input.addEventListener(
            event, () => State.set({[key]: input.value}));
        choose('filter', text, 'input');
        choose('flag', flag, 'change');
        choose('group', group, 'change');
        Dom.byId('clear').addEventListener('click', clear);
        Dom.byId('close').addEventListener('click',
            () => State.set({open: [], delta: null}));
        compare.addEventListener('click', compareTicked);
        listen();
        State.follow(['runs'], build);
        State.follow(['sort', 'group'], () => {
            group.value = State.now.group;
            arrange();
        });
        State.follow(['filter', 'flag', 'brushes'], filter);
        State.follow(['selected'], drawSelected);
        State.follow(['open'], drawOpen);
        // Keeps the content below the table in place while filters shorten the
        // table.
        table.parentNode.style.minHeight = table.parentNode.offsetHeight + 'px';
    }

    return {start, filter, toggle, clear, move, tickFocused, compareTicked,
            get columns() { return columns; }};
})();
