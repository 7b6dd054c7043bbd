'use strict';

// Keeps a live page up to date: the list of runs, the samples of the runs that are
// drawn, alerts, and the state of the connection. A report has none of this.
const Live = (() => {
    const about = Data.about.live || null, on = Boolean(about);
    // Values of one series, and of all series that are loaded together; names in
    // one request, requests at once, and runs in a figure (ES_SERVE_PLACES_MOST).
    const MOST = {series: 250000, all: 4000000, names: 8, requests: 3,
                  drawn: 150};
    const KEPT = 12;    // series that are kept although they are not drawn
    const PAUSE = 200;  // milliseconds between requests of the list
    const ALERTS = 5;   // alerts in the banner
    const entries = new Map(); // key of a run -> its entry in the list
    let version = null, failed = [], reading = true, last = null;
    let away = null, started = null;

    /* --- the list of runs ------------------------------------------------*/

    // Returns the changes of the list, or null if the server does not answer.
    async function getList() {
        try {
            return await (await Server.get('api/runs',
                version ? [['since', version]] : [])).json();
        } catch (error) {
            lose(error.status || null);
            return null;
        }
    }

    function merge(answer) {
        const named = new Set(answer.runs.map(({key}) => key));
        if (answer.complete)
            for (const key of entries.keys())
                if (!named.has(key))
                    entries.delete(key);
        for (const run of answer.runs)
            if (JSON.stringify(entries.get(run.key)) !== JSON.stringify(run))
                entries.set(run.key, run);
        for (const key of answer.gone || [])
            entries.delete(key);
        ({version, failed, reading} = answer);
        last = new Date();
        away = null;
        take(answer.max, named);
    }

    const order = (a, b) => a.path < b.path ? -1 : a.path > b.path ? 1
        : a.run - b.run;

    // Shows the list. State refers only to runs that are in the list.
    function take(max, changed) {
        const runs = Array.from(entries.values()).sort(order);
        Data.setRuns({max, runs}, runs);
        for (const run of Data.runs)
            if (changed.has(run.key))
                describe(run);
        Data.setNames();
        if (!started && runs.length) {
            started = true;
            Report.start();
        }
        if (started) {
            const known = new Set(Data.runs), {now} = State;
            const still = (list) => list && list.every((run) => known.has(run));
            State.set({
                runs: now.runs + 1,
                open: still(now.open) ? now.open
                    : now.open.filter((run) => known.has(run)),
                delta: still(now.delta) ? now.delta : null,
                series: now.series || Data.grids[0] || null});
            loadSoon();
        }
        drawState();
    }

    // Gives a run an object for each of its series. Of a series with a value per
    // head or layer only one phase is shown.
    function describe(run) {
        const {recorded: all, phase} = run.summary;
        const shown = all.filter((s) => s.shape === 'run' || s.phase === phase ||
            !all.some((o) => o.name === s.name && o.phase === phase));
        run.series = shown.map((s) => Object.assign(
            run.series.find((o) => o.name === s.name && o.phase === s.phase &&
                o.shape === s.shape) || {run, steps: null, used: 0}, s));
        run.hasMaps = run.summary.maps;
    }

    // A change between the two halves of a click would take the button away from
    // under the pointer.
    let pressed = false;
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    async function released() {
        while (pressed)
            await pause(30);
    }

    function watchPointer() {
        const set = (value) => () => setTimeout(() => { pressed = value; }, 0);
        addEventListener('pointerdown', () => { pressed = true; }, true);
        for (const name of ['pointerup', 'pointercancel', 'blur'])
            addEventListener(name, set(false), true);
    }

    // Requests the list again, at most once at a time.
    let wanted = false, busy = false;
    async function refresh() {
        wanted = true;
        if (busy)
            return;
        busy = true;
        while (wanted) {
            wanted = false;
            const answer = await getList();
            await released();
            if (answer)
                merge(answer);
            await pause(PAUSE);
        }
        busy = false;
    }

    /* --- samples ---------------------------------------------------------*/

    const needed = () => State.now.open.flatMap((run) => run.series.filter(
        (s) => s.shape === 'run' || s.name === State.now.series));

    // Reads the blocks of an answer: {header, steps, values, curve}.
    function* blocks(buffer) {
        const view = new DataView(buffer), aligned = (n) => n + (8 - n % 8) % 8;
        for (let at = 0; at < buffer.byteLength;) {
            const size = view.getUint32(at, true);
            const header = JSON.parse(new TextDecoder().decode(
                new Uint8Array(buffer, at + 4, size)));
            const {n, c, rows, columns} = header;
            const part = (Type, count) => {
                const made = new Type(buffer.slice(at,
                    at + count * Type.BYTES_PER_ELEMENT));
                at = aligned(at + made.byteLength);
                return made;
            };
            at += 4 + size;
            const steps = part(BigInt64Array, n);
            const values = part(Float32Array, n * rows * columns);
            const curveSteps = part(BigInt64Array, c);
            yield {header, steps, values, curve: c ? {
                steps: curveSteps, values: part(Float32Array, rows * c)} : null};
        }
    }

    // Sets the samples of a series, or appends them.
    function put(series, {header, steps, values, curve}) {
        const {rows, columns} = header, size = rows * columns;
        const labels = Array.from(steps, String);
        if (!header.continues) {
            Object.assign(series, {rows, columns, size, steps: [], labels: [],
                                   store: new Float32Array(0), curve: null});
            if (!labels.length) {
                series.steps = null;
                return;
            }
        }
        const before = series.steps.length * size;
        const after = before + values.length;
        if (series.store.length < after) {
            const store = new Float32Array(Math.max(after, before * 1.5));
            store.set(series.store.subarray(0, before));
            series.store = store;
        }
        series.store.set(values, before);
        series.steps.push(...labels.map(Number));
        series.labels.push(...labels);
        if (curve)
            series.curve = join(series.curve, curve, rows);
        Object.assign(series, {
            unit: header.unit, samples: header.samples, mark: header.mark,
            thinned: header.samples > series.steps.length,
            extent: null, lines: null, values: {
                floats: series.store.subarray(0, after),
                bits: new Uint32Array(series.store.buffer, 0, after)}});
        // A series that has outgrown its share is thinned again.
        if (after > 2 * share())
            series.mark = null;
    }

    // Joins two curves, whose values are (rows,steps).
    function join(old, curve, rows) {
        const n = old ? old.steps.length : 0, m = curve.steps.length;
        const values = new Float32Array(rows * (n + m));
        for (let row = 0; row < rows; row++) {
            if (old)
                values.set(old.values.floats.subarray(row * n, (row + 1) * n),
                           row * (n + m));
            values.set(curve.values.subarray(row * m, (row + 1) * m),
                       row * (n + m) + n);
        }
        return {steps: [...old ? old.steps : [],
                        ...Array.from(curve.steps, Number)],
                values: Values.wrap(values.buffer)};
    }

    const share = () => Math.max(1000, Math.min(MOST.series, Math.floor(
        MOST.all / Math.max(1, State.now.open.length))));

    // Requests series of one run and phase: all of each, or the samples after
    // those of the page.
    async function load(list) {
        const [{run, phase}] = list, state = run.summary;
        try {
            const answer = await Server.get('api/series', [
                ['run', run.key], ['phase', phase], ['values', share()],
                ...list.map((s) => ['name', s.name]),
                ...list.map((s) => ['since', s.steps && s.mark || ''])]);
            for (const block of blocks(await answer.arrayBuffer())) {
                const series = list.find((s) => s.name === block.header.name);
                if (series && !block.header.error)
                    put(series, block);
            }
        } finally {
            list.forEach((s) => {
                s.loading = false;
                s.loaded = state; // the entry of the list when it was loaded
            });
        }
    }

    // Divides series into requests, each of few series of one run and phase.
    function requests(list) {
        const found = new Map();
        for (const series of list) {
            const key = `${series.run.key} ${series.phase}`;
            found.set(key, [...found.get(key) || [], series]);
        }
        return Array.from(found.values()).flatMap((some) => Plot.range(
            0, some.length, MOST.names).map(
                (from) => some.slice(from, from + MOST.names)));
    }

    // Runs requests, a few at a time. A failed one is repeated when its run
    // changes.
    async function loadEach(list) {
        const waiting = requests(list);
        const next = async () => {
            while (waiting.length)
                await load(waiting.shift()).catch(() => 0);
        };
        await Promise.all(Array.from({length: MOST.requests}, next));
    }

    // Loads the series that are drawn and have changed. Drops series that have
    // not been drawn for long.
    async function loadAll() {
        const all = needed(), now = performance.now();
        all.forEach((s) => { s.used = now; });
        const due = all.filter((s) => !s.loading &&
                               s.loaded !== s.run.summary);
        due.forEach((s) => { s.loading = true; });
        drop(new Set(all));
        await Promise.all([loadEach(due), loadMaps()]);
        if (due.length)
            State.set({data: State.now.data + 1});
    }

    const loadSoon = () => loadAll().catch(() => 0);

    function drop(used) {
        const idle = Data.series.filter((s) => s.steps && !used.has(s))
            .sort((a, b) => b.used - a.used);
        for (const series of idle.slice(KEPT))
            Object.assign(series, {steps: null, labels: null, values: null,
                store: null, curve: null, lines: null, loaded: null});
    }

    async function loadMaps() {
        const due = State.now.open.filter((run) => run.hasMaps &&
            run.mapsOf !== run.summary);
        for (const run of due) {
            run.mapsOf = run.summary;
            const answer = await Server.get('api/maps', [['run', run.key]]);
            for (const {header, steps, values} of blocks(
                await answer.arrayBuffer()))
                Maps.set(run, header.n ? Object.assign(header, {
                    steps: Array.from(steps, Number),
                    values: Values.wrap(values.buffer)}) : null);
        }
        for (const run of Data.runs)
            if (Maps.has(run) && !State.now.open.includes(run)) {
                Maps.set(run, null);
                run.mapsOf = null;
            }
        if (due.length)
            State.set({maps: State.now.maps + 1});
    }

    /* --- figures and files -----------------------------------------------*/

    // Requests figures on one page, of the open runs or, if none is open or `all`
    // is true, of the selected runs. `span` is the range of steps of a zoomed
    // chart. A delta subtracts the first run.
    async function draw({names, log, full, span, all}, format) {
        const {open, selected, delta, series, step, theme} = State.now;
        const runs = names.includes('delta') && delta ? [delta[1], delta[0]]
            : (open.length && !all ? open : selected).slice(0, MOST.drawn);
        if (all && selected.length > MOST.drawn)
            throw new Error(`a picture shows at most ${MOST.drawn} runs: ` +
                'filter the runs');
        return (await Server.get('api/draw', [
            ...names.map((name) => ['figure', name]),
            ...log ? [['log', 1]] : [], ...full ? [['full', 1]] : [],
            ...span ? [['steps', `${Math.ceil(span[0])}-${Math.floor(span[1])}`]]
                : [],
            ['format', format], ['theme', theme],
            ...runs.map((run) => ['run', run.key]),
            ...series ? [['name', series]] : [],
            ...step === null || Steps.isLast() ? [] : [['step', step]]])).blob();
    }

    async function exportRun(run) {
        try {
            const answer = await Server.get('api/draw', [
                ['format', 'csv'], ['run', run.key]]);
            Save.store(await answer.blob(), Csv.fileName(run));
        } catch (error) {
            say(`${run.title}: not saved: ${error.message}`);
        }
    }

    /* --- stop ------------------------------------------------------------*/

    const canStop = (run) => on && about.stop && !run.members &&
        run.summary.status === 'running';

    function confirmStop(run) {
        const dialog = Dom.byId('stop');
        Dom.byId('stop-text').textContent = `Stop ${run.title}? The training ` +
            'ends after its current step. It cannot be undone here.';
        Dom.byId('stop-yes').onclick = () => {
            dialog.close();
            requestStop(run);
        };
        dialog.showModal();
    }

    async function requestStop(run) {
        try {
            await Server.get('api/stop', [['run', run.key]], {method: 'POST'});
            say(`${run.title}: the stop is requested.`);
        } catch (error) {
            say(`${run.title}: not stopped: ${error.message}`);
        }
    }

    /* --- alerts and state ------------------------------------------------*/

    const alerts = [];
    let unseen = 0;

    // Shows an alert in place of an earlier one of the same run and kind.
    function alarm(alert) {
        const before = alerts.findIndex((one) => one.run === alert.run &&
            one.kind === alert.kind);
        if (before >= 0)
            alerts.splice(before, 1);
        else
            unseen++;
        alerts.unshift(alert);
        alerts.splice(ALERTS);
        drawAlerts();
    }

    // Says something that is not an alert.
    function say(text) {
        alerts.unshift({text});
        alerts.splice(ALERTS);
        drawAlerts();
    }

    function showAlert(alert) {
        const run = Data.runs.find(({key}) => key === alert.run);
        if (!run)
            return;
        State.set({open: State.now.open.includes(run) ? State.now.open
            : [...State.now.open, run], delta: null});
        Steps.choose(alert.step);
        Dom.byId('views').scrollIntoView({block: 'start'});
    }

    function line(alert) {
        const row = Dom.element('p', {class: alert.severity || 'info'});
        if (alert.severity) {
            const button = Dom.element('button', {type: 'button',
                class: 'link'}, alert.title);
            button.addEventListener('click', () => showAlert(alert));
            row.append(Dom.element('span', {class: 'chip ' + alert.severity},
                `${alert.kind} `, Dom.element('small', {}, alert.severity)),
                button, ` from step ${alert.onset}` + (alert.layers?.length
                    ? `, ${Dom.count(alert.layers.length, 'layer')}` : ''));
        } else {
            row.append(alert.text);
        }
        return row;
    }

    function drawAlerts() {
        Dom.byId('alerts').hidden = !alerts.length;
        Dom.replace(Dom.byId('alerts-list'), ...alerts.map(line));
        document.title = (unseen ? `(${unseen}) ` : '') + Data.about.title;
    }

    function dismiss() {
        alerts.splice(0);
        unseen = 0;
        drawAlerts();
    }

    const clock = (date) => date.toLocaleTimeString('en-GB');

    function lose(status) {
        away = {status};
        drawState();
    }

    // Shows the state of the connection, files that cannot be read, and what is
    // missing while there are no runs.
    function drawState() {
        const state = Dom.byId('state');
        const text = !away ? last ? `Live, last change ${clock(last)}`
                                  : 'Connecting'
            : away.status === 401 ? 'The server has a new token: open the ' +
                'address that it printed'
            : 'The server is away' + (last ? `, last data of ${clock(last)}`
                                           : '');
        state.className = 'state ' + (away ? 'away' : 'on');
        state.textContent = text;
        Dom.byId('away').hidden = !away;
        Dom.byId('away').textContent = `${text}.`;
        Dom.byId('empty').hidden = Boolean(Data.runs.length);
        Dom.byId('empty').textContent = reading && last ? 'Reading the runs.'
            : 'There are no runs yet. They appear here as soon as a training ' +
                'writes its first samples.';
        const list = Dom.byId('failed');
        list.hidden = !failed.length;
        Dom.replace(list, ...!failed.length ? [] : [
            Dom.element('summary', {}, Dom.count(failed.length, 'file') +
                ' cannot be read'), ...failed.map(({path, error}) =>
                Dom.element('p', {}, error.includes(path) ? error
                    : `${path}: ${error}`))]);
    }

    function hear(name, data) {
        if (name === 'alert')
            alarm(data);
        else if (name === 'away')
            lose(data.status);
        else if (name === 'runs' ? data.version !== version || away
            : name === 'open' || name === 'quiet')
            refresh();
    }

    function start() {
        Dom.byId('state').hidden = false;
        watchPointer();
        Dom.byId('alerts-close').addEventListener('click', dismiss);
        Dom.byId('stop-no').addEventListener('click',
            () => Dom.byId('stop').close());
        // The bar of the steps is below the banner of alerts.
        const banner = Dom.byId('alerts');
        new ResizeObserver(() => document.documentElement.style.setProperty(
            '--alerts', `${banner.offsetHeight}px`)).observe(banner);
        drawState();
        refresh();
        Server.listen(hear);
    }

    // Loads what is drawn after a change of the selection.
    function follow() {
        if (on)
            State.follow(['open', 'series'], loadSoon);
    }

    return {on, start, follow, draw, exportRun, canStop, confirmStop};
})();
