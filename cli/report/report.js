'use strict';

// Assembles the page from its parts.
const Report = (() => {
    const {summary, about, runs, series, grids} = Data;

    function describeRuns() {
        if (runs.length !== 1)
            return `${runs.length} runs`;
        const s = runs[0].summary;
        return [s.name !== about.title ? s.name : '',
                Dom.count(s.n_layer, 'layer') + ' of ' +
                    Dom.count(s.n_head, 'head'), s.status].filter(Boolean).join(', ');
    }

    function writeHeader() {
        Dom.byId('lede').textContent = describeRuns();
        Dom.byId('made').textContent = Live.on ? `${about.program} serve.`
            : `Made by ${about.program}. This page contains all of its data ` +
                'and requests nothing from the network.';
    }

    // Returns a note "150 of 3 000 steps shown", or "150–200 of 3 000 ..." for
    // several series.
    function shares(left) {
        const count = (n) => n.toLocaleString('en').replace(/,/g, '\u202f');
        const range = (of) => {
            const [least, most] = Plot.extent(left, of);
            return least === most ? count(least)
                                  : `${count(least)}–${count(most)}`;
        };
        return `${range((s) => s.steps.length)} of ` +
            `${range((s) => s.samples)} steps shown`;
    }

    // Describes how a series was thinned; returns "" if it was not thinned.
    function thinned(name) {
        const left = State.now.open.flatMap((run) => run.series)
            .filter((s) => s.name === name && s.thinned);
        if (!left.length)
            return '';
        const parts = left.length > 4 ? [shares(left) + ' of each run']
            : left.map((s) => shares([s]) + (runs.length > 1
                ? ` (${s.run.title})` : ''));
        return parts.join('; ') + ': of each group of samples, the first is ' +
            'kept, and those with the head furthest below and above it. ' +
            'Curves keep the smallest and largest mean of all steps.';
    }

    function writeNotes() {
        const policy = Scale.policy() === 'observed'
            ? 'Colours end at the largest value of all runs and steps shown. '
            : '';
        const click = series.some((s) => s.name === State.now.series &&
            s.columns > 1) ? 'Choose a head to follow it in the curves.' : '';
        Dom.byId('heads-note').textContent =
            [policy + click, thinned(State.now.series)].join(' ');
        Dom.byId('curves-note').textContent =
            'Zoom with the wheel or + and −, drag to move, double-click or ' +
            'press 0 to see all, click to choose a step. Red along the ' +
            'bottom: not finite.';
    }

    /* --- controls --------------------------------------------------------*/

    function addTab(name) {
        const input = Dom.element('input', {
            type: 'radio', name: 'series', value: name,
            checked: name === State.now.series});
        input.addEventListener('change', () => State.set({series: name}));
        return Dom.element('label', {class: 'tab'}, input,
                           Dom.element('span', {}, name));
    }

    function addLog() {
        const input = Dom.element('input', {type: 'checkbox', id: 'log'});
        input.addEventListener('change',
                               () => State.set({log: input.checked}));
        return Dom.element('label', {
            class: 'tab', title: 'Logarithmic axis of the curves'}, input,
            Dom.element('span', {}, 'log'));
    }

    // Makes the choice of the series that have no tab.
    function addMore(names) {
        const option = (value, text) => Dom.element('option', {value}, text);
        const select = Dom.element('select', {class: 'more',
            'aria-label': 'More series'}, option('', 'more'),
            ...names.map((name) => option(name, name)));
        select.value = names.includes(State.now.series) ? State.now.series : '';
        select.classList.toggle('chosen', select.value !== '');
        select.addEventListener('change', () => {
            if (select.value)
                State.set({series: select.value});
        });
        return select;
    }

    const TABS = 3; // tabs if there are many series
    let tabs = '';
    function writeTabs() {
        const now = [...grids, State.now.series].join('\n');
        if (now === tabs)
            return;
        tabs = now;
        Dom.replace(Dom.byId('series'), ...grids.length > TABS + 1
            ? [...grids.slice(0, TABS).map(addTab), addMore(grids.slice(TABS))]
            : grids.map(addTab), addLog());
    }

    function showViews() {
        const {open} = State.now;
        Dom.byId('views').hidden = !grids.length || !open.length;
        Dom.byId('views').classList.toggle(
            'one', open.length === 1 && open[0].summary.n_head <= 48);
    }

    /* --- light and dark --------------------------------------------------*/

    // Loads or saves the theme. A page that was opened from a file may have no
    // storage.
    function stored(value) {
        try {
            if (value)
                localStorage.setItem('entropy-scan-theme', value);
            return localStorage.getItem('entropy-scan-theme');
        } catch (error) {
            return null;
        }
    }

    function setTheme(theme) {
        document.documentElement.dataset.theme = theme;
        State.set({theme});
    }

    function startTheme() {
        const dark = matchMedia('(prefers-color-scheme: dark)');
        const system = () => dark.matches ? 'dark' : 'light';
        setTheme(stored() || system());
        dark.addEventListener('change', () => setTheme(system()));
        Dom.byId('theme').addEventListener('click', () => {
            const other = State.now.theme === 'dark' ? 'light' : 'dark';
            stored(other);
            setTheme(other);
        });
    }

    function start() {
        State.follow(['runs'], writeHeader);
        Dom.byId('main').hidden = false;
        Link.open();
        State.follow(['series', 'runs'], writeTabs);
        State.follow(['log'], () => { Dom.byId('log').checked = State.now.log; });
        State.follow(['open'], showViews);
        Save.start();
        Table.start();
        Parallel.start();
        Groups.start();
        Steps.start();
        Heatmaps.start();
        Curves.start();
        Maps.start();
        Chart.start();
        Timeline.start();
        Flags.start();
        Figures.start();
        Config.start();
        Keys.start();
        Link.start();
        Live.follow();
        State.follow(['series', 'open', 'data'], writeNotes);
    }

    startTheme();
    Dom.byId('title').textContent = about.title;
    if (Live.on)
        Live.start();
    else if (summary.runs.length)
        start();

    return {start};
})();
