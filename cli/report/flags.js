'use strict';

// Shows the table of all periods in which a flag was raised: steps, severity,
// values and layers.
const Flags = (() => {
    const FIRST = 12; // number of rows that are shown initially
    const advisedOn = new Set(); // flags whose advice is visible
    let isWhole = false;

    const idOf = (run, flag) => [run.key, flag.kind, flag.onset].join();

    // Formats layer numbers as ranges: [0,1,2,9] becomes "0–2, 9".
    function ranges(numbers) {
        const parts = [];
        for (let i = 0; i < numbers.length;) {
            let last = i;
            while (numbers[last + 1] === numbers[last] + 1)
                last++;
            parts.push(last > i ? `${numbers[i]}–${numbers[last]}`
                                : String(numbers[i]));
            i = last + 1;
        }
        return parts.join(', ');
    }

    // Returns the description of one layer, " (window, model.layers.3)", or the
    // kind that several layers have in common.
    function about(run, layers) {
        const [first] = layers;
        const kinds = new Set(layers.map(
            (l) => (run.summary.layers[l] || {}).kind));
        const text = layers.length === 1 ? Data.aboutLayer(run, first)
            : kinds.size === 1 && [...kinds][0] || '';
        return text && ` (${text})`;
    }

    const lastStep = Data.once(() => Plot.max(Data.runs, (run) => Math.max(
        run.summary.step ?? 0, ...run.series.map(
            (s) => s.steps?.length ? s.steps[s.steps.length - 1] : 0),
        ...(run.summary.flags || []).map((f) => f.last))) || 1);

    // Draws the period of a flag on the axis of all steps.
    function strip(flag, end) {
        const bar = Dom.element('span', {class: 'episode ' + flag.severity});
        bar.style.left = 100 * flag.onset / end + '%';
        bar.style.width = 100 * (flag.last - flag.onset) / end + '%';
        return Dom.element('td', {class: 'strip'}, Dom.element(
            'div', {}, bar));
    }

    function jump(flag) {
        const button = Dom.element('button', {
            type: 'button', class: 'link',
            title: 'Show this step'}, String(flag.onset));
        button.addEventListener('click', () => Steps.choose(flag.onset));
        return Dom.element('td', {class: 'number'}, button,
                           ` – ${flag.last}`);
    }

    function against(flag) {
        const value = Values.member(flag, 'value');
        const limit = Values.member(flag, 'threshold');
        return Dom.element('td', {class: 'number', title: value.full},
                           value.text, Dom.element('small', {class: 'muted'},
                                                   ` limit ${limit.text}`));
    }

    // Makes the row below the row of a flag, with likely causes and remedies.
    function advised({causes, remedies, sources}) {
        const paragraph = (title, text) => Dom.element('p', {},
            Dom.element('b', {}, title), text);
        return Dom.element('tr', {class: 'advice'}, Dom.element(
            'td', {colspan: 7}, paragraph('Likely causes: ', causes),
            paragraph('Remedies: ', remedies), Dom.element(
                'ul', {class: 'muted'}, ...sources.map(
                    (text) => Dom.element('li', {}, text)))));
    }

    // Makes the button that shows and hides the advice; returns null if
    // there is no advice.
    function why(run, flag) {
        const advice = Data.about.advice[flag.advice];
        if (!advice)
            return null;
        const button = Dom.element('button', {
            type: 'button', class: 'link why',
            'aria-expanded': String(advisedOn.has(idOf(run, flag))),
            title: 'Likely causes and remedies'}, 'why?');
        button.addEventListener('click', () => {
            const row = button.closest('tr');
            const open = button.getAttribute('aria-expanded') === 'true';
            if (open) {
                row.nextSibling.remove();
                advisedOn.delete(idOf(run, flag));
            } else {
                row.after(advised(advice));
                advisedOn.add(idOf(run, flag));
            }
            button.setAttribute('aria-expanded', String(!open));
        });
        return button;
    }

    function row({run, flag}, end) {
        return Dom.element('tr', {class: flag.stands ? null : 'over'},
            Dom.element('th', {scope: 'row'}, run.title),
            Dom.element('td', {class: 'chips'}, Dom.element(
                'span', {class: 'chip ' + flag.severity}, flag.kind + ' ',
                Dom.element('small', {}, flag.verdict || flag.severity)),
                why(run, flag)),
            Dom.element('td', {}, flag.stands ? 'active' : 'ended'),
            jump(flag), strip(flag, end), against(flag),
            Dom.element('td', {}, flag.layers.length
                ? (flag.layers.length > 1 ? 'layers ' : 'layer ') +
                    ranges(flag.layers) + about(run, flag.layers) : '',
                Dom.element('small', {class: 'muted'}, flag.heads.length
                    ? ' ' + Dom.count(flag.heads.length, 'head') : '')));
    }

    function draw(all, n) {
        const titles = ['run', 'flag', 'state', 'steps', '', 'value', 'where'];
        const end = lastStep();
        Dom.replace(Dom.byId('flags'),
            Dom.element('thead', {}, Dom.element('tr', {}, ...titles.map(
                (t, i) => Dom.element('th', {
                    scope: 'col', class: i === 3 || i === 5 ? 'number' : null},
                    t)))),
            Dom.element('tbody', {}, ...all.slice(0, n).flatMap((each) => {
                const advice = Data.about.advice[each.flag.advice];
                return [row(each, end), ...advice && advisedOn.has(
                    idOf(each.run, each.flag)) ? [advised(advice)] : []];
            })));
    }

    function build() {
        const {open, selected} = State.now;
        const every = flagsOf(open.length ? open : selected);
        const all = [...every.filter(({flag}) => flag.stands),
                     ...every.filter(({flag}) => !flag.stands)];
        const note = Dom.byId('flags-note');
        Dom.byId('flags').hidden = !all.length;
        Dom.replace(note, all.length ? ''
                          : 'No flag was raised in these runs.');
        draw(all, isWhole ? all.length : FIRST);
        if (all.length <= FIRST || isWhole)
            return;
        const more = Dom.element('button', {type: 'button', class: 'small'},
                                 `Show all ${all.length}`);
        more.addEventListener('click', () => {
            isWhole = true;
            build();
        });
        Dom.replace(note, more);
    }

    const flagsOf = (runs) => runs.flatMap((run) => (run.summary.flags || [])
        .map((flag) => ({run, flag})));

    // Returns the flags of the open or selected runs as rows of a table.
    function rows() {
        const {open, selected} = State.now;
        return [['run', 'flag', 'severity', 'active', 'onset', 'last', 'value',
                 'threshold', 'layers', 'heads'],
            ...flagsOf(open.length ? open : selected).map(({run, flag: f}) => [
                run.title, f.kind, f.severity, f.stands ? 1 : 0, f.onset, f.last,
                f.value ?? f.value_state ?? '', f.threshold ?? '',
                f.layers.join(' '), f.heads.map((h) => h.join(':')).join(' ')])];
    }

    function start() {
        Save.add(Dom.byId('flags-card'), {name: 'flags', rows});
        State.follow(['open', 'selected'], () => {
            isWhole = false;
            build();
        });
        State.follow(['runs'], () => Dom.keepFocus(Dom.byId('flags-card'), build));
    }

    return {start, rows};
})();
