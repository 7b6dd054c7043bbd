'use strict';

// Draws a lane for every run and kind of flag over the steps, with a bar for
// each period in which the flag was raised. A click chooses a step.
const Timeline = (() => {
    const card = Dom.byId('timeline-card'), box = Dom.byId('timeline');
    const LANE = 20, FOOT = 22, RIGHT = 14;
    const MOST = {open: 30, closed: 12}; // lanes of open runs, of all runs
    let x = null, line = null, lanes = [], size = {};

    // Returns the lanes {run, kind, flags} of the open or selected runs. The
    // kinds of a run are ordered by their first step, so that a lane leads to
    // the lanes below it.
    function gather() {
        const {open, selected} = State.now;
        return (open.length ? open : selected).flatMap((run) => {
            const kinds = new Map();
            for (const flag of run.summary.flags || [])
                kinds.set(flag.kind, [...kinds.get(flag.kind) || [], flag]);
            const first = (flags) => Plot.min(flags, (f) => f.onset);
            return Array.from(kinds, ([kind, flags]) => ({run, kind, flags}))
                .sort((a, b) => first(a.flags) - first(b.flags));
        });
    }

    const endOf = (all) => Plot.max(all, ({run, flags}) => Math.max(
        run.summary.step ?? 0, ...flags.map((f) => f.last))) || 1;

    const text = (at, anchor, words, kind) => Plot.svg('text', {
        x: at[0], y: at[1], 'text-anchor': anchor, class: kind || ''}, words);

    function tip(event, lane, flag) {
        Tip.show([{text: `${flag.kind}: ${flag.verdict || flag.severity}`,
                   strong: true},
                  {text: `steps ${flag.onset} – ${flag.last}` +
                      (flag.stands ? ', active' : '')},
                  {text: lane.run.title, muted: true}],
                 {x: event.clientX, y: event.clientY});
    }

    function bar(lane, flag, i) {
        const from = x(flag.onset), to = Math.max(from + 4, x(flag.last));
        const made = Plot.svg('rect', {
            class: `bar-of ${flag.severity}`, x: from, width: to - from, rx: 3,
            y: i * LANE + 5, height: LANE - 9,
            opacity: flag.stands ? 1 : 0.6});
        made.addEventListener('pointermove', (e) => tip(e, lane, flag));
        made.addEventListener('pointerleave', () => Tip.hide());
        return made;
    }

    function drawLane(lane, i) {
        const starts = !i || lanes[i - 1].run !== lane.run;
        const name = lane.run.title, most = Math.floor(size.names / 7);
        return Plot.svg('g', {},
            ...starts && i ? [Plot.svg('line', {class: 'rule', x1: 0,
                x2: size.width, y1: i * LANE, y2: i * LANE})] : [],
            ...starts ? [text([0, i * LANE + 14], 'start',
                Dom.shorten(name, most), 'name')] : [],
            text([size.left - 10, i * LANE + 14], 'end', lane.kind),
            Plot.svg('line', {class: 'lane', x1: size.left,
                x2: x(lane.run.summary.step ?? 0), y1: i * LANE + LANE / 2 + 0.5,
                y2: i * LANE + LANE / 2 + 0.5}),
            ...lane.flags.map((flag) => bar(lane, flag, i)));
    }

    function build() {
        const all = gather();
        card.hidden = !all.length;
        const width = box.clientWidth; // a hidden card has none
        if (!all.length || !width)
            return;
        const most = State.now.open.length ? MOST.open : MOST.closed;
        lanes = all.slice(0, most);
        const names = width < 600 ? 84 : 190, left = names + (width < 600 ? 66 : 90);
        const height = lanes.length * LANE + FOOT;
        size = {width, left, names};
        x = Plot.scale([0, endOf(lanes)], [left, width - RIGHT]);
        line = Plot.svg('line', {class: 'now', y1: 0, y2: height - FOOT});
        const svg = Plot.svg('svg', {class: 'timeline', width, height,
            role: 'img', 'aria-label': 'flags over the steps, one lane per ' +
                'run and kind'}, ...lanes.map(drawLane),
            Plot.svg('g', {class: 'axis'}, ...x.ticks(Math.max(
                2, Math.floor((width - left) / 90))).filter(Number.isInteger)
                .map((t) => text([x(t), height - 5], 'middle',
                                 Dom.thousands(t)))), line);
        svg.addEventListener('click', (event) => {
            const at = event.clientX - svg.getBoundingClientRect().left;
            if (at >= left && State.now.open.length)
                Steps.choose(x.invert(at));
        });
        Dom.replace(box, svg);
        Dom.byId('timeline-note').textContent = all.length > most
            ? `The first ${most} of ${all.length} lanes; open runs, or filter ` +
                'them, to see others.' : '';
        drawStep();
    }

    function drawStep() {
        const {step, open} = State.now;
        if (!line)
            return;
        const inside = open.length && step !== null && x(step) <= size.width;
        line.classList.toggle('shown', inside);
        if (inside)
            Plot.set(line, {x1: x(step), x2: x(step)});
    }

    function start() {
        Save.add(card, {name: 'timeline', picture: true, rows: Flags.rows,
                        figure: () => ({names: ['timeline']})});
        State.follow(['open', 'selected', 'runs'], Dom.onWidth(box, build));
        State.follow(['step'], drawStep);
    }

    return {start};
})();
