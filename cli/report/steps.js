'use strict';

// Shows the slider over all steps at which any run has a sample, and its
// buttons.
const Steps = (() => {
    const slider = Dom.byId('slider'), output = Dom.byId('step');
    const play = Dom.byId('play'), marks = Dom.byId('marks');
    // Approximate duration of playing all steps, and time between two updates,
    // in milliseconds.
    const PLAY = {seconds: 12, tick: 40, slowest: 400};
    let steps = [], labels = new Map(), timer = null;
    let last = Infinity; // last of the most recent steps

    function gather() {
        const series = State.now.open.flatMap((run) => run.series).filter(
            (s) => s.name === State.now.series && s.shape !== 'run' && s.steps);
        labels = new Map(series.flatMap(
            (s) => s.steps.map((step, k) => [step, s.labels[k]])));
        steps = Array.from(labels.keys()).sort((a, b) => a - b);
    }

    const index = () => Math.max(0,
        Plot.bisect(steps, State.now.step, true) - 1);

    function show(i) {
        const at = Math.min(steps.length - 1, Math.max(0, i));
        if (steps.length)
            State.set({step: steps[at]});
    }

    // Chooses the last step that is at most a given number.
    function choose(step) {
        stop();
        show(Plot.bisect(steps, step + 0.5) - 1);
    }

    function drawStep() {
        const i = index(), label = labels.get(steps[i]) || '–';
        slider.value = i;
        slider.setAttribute('aria-valuetext', `step ${label}`);
        slider.style.setProperty('--done',
            (steps.length > 1 ? 100 * i / (steps.length - 1) : 100) + '%');
        Dom.replace(output, Dom.element('small', {}, 'step '), label);
    }

    // Draws a tick on the slider's track wherever a flag was raised.
    function drawMarks() {
        const THUMB = 16, track = slider.clientWidth - THUMB;
        const ticks = State.now.open.flatMap((run) => run.summary.flags || [])
            .filter((f) => f.severity !== 'info').slice(0, 200);
        const x = (flag) => THUMB / 2 + track *
            Math.min(steps.length - 1, Plot.bisect(steps, flag.onset)) /
            Math.max(1, steps.length - 1);
        Plot.set(marks, {width: slider.clientWidth, height: 8});
        Dom.replace(marks, ...ticks.map((f) => Plot.svg('line', {
            class: f.severity, x1: x(f), x2: x(f), y1: 1, y2: 7})));
    }

    function stop() {
        clearInterval(timer);
        timer = null;
        play.setAttribute('aria-pressed', 'false');
        play.setAttribute('aria-label', 'Play');
    }

    function toggle() {
        if (timer) {
            stop();
            return;
        }
        if (index() === steps.length - 1)
            show(0);
        const stride = Math.max(1, Math.round(
            steps.length * PLAY.tick / (1000 * PLAY.seconds)));
        const tick = Math.min(PLAY.slowest, Math.max(
            PLAY.tick, stride * 1000 * PLAY.seconds / steps.length));
        timer = setInterval(() => {
            show(index() + stride);
            if (index() === steps.length - 1)
                stop();
        }, tick);
        play.setAttribute('aria-pressed', 'true');
        play.setAttribute('aria-label', 'Pause');
    }

    const isLast = () => !steps.length || State.now.step >= last;

    // A slider at the last step stays at the last step when steps are added.
    function build() {
        const follows = State.now.step === null || State.now.step >= last;
        gather();
        last = steps.length ? steps[steps.length - 1] : last;
        slider.max = Math.max(0, steps.length - 1);
        Dom.byId('bar').hidden = !steps.length &&
            !(Live.on && State.now.open.length);
        if (follows)
            show(steps.length - 1);
        drawStep();
        drawMarks();
    }

    function follow() {
        if (State.now.step === null)
            show(steps.length - 1);
        drawStep();
    }

    function move(by) {
        stop();
        show(index() + by);
    }

    function start() {
        slider.addEventListener('input', () => {
            stop();
            show(Number(slider.value));
        });
        Dom.byId('back').addEventListener('click', () => move(-1));
        Dom.byId('forward').addEventListener('click', () => move(1));
        play.addEventListener('click', toggle);
        new ResizeObserver(drawMarks).observe(slider);
        State.follow(['series', 'open', 'data'], build);
        State.follow(['step'], follow);
    }

    return {start, choose, move, toggle, isLast};
})();
