'use strict';

// Maps values to colours. All open runs and their steps share one scale, so that colours
// can be compared; only under the policy "run" each run has a separate scale.
const Scale = (() => {
    const policy = () => Data.summary.max.policy;

    // Returns the upper end of the scale as in the program's heatmap: m, if the
    // policy of --max makes m an upper bound of the series.
    function bound(run, name) {
        if (policy() === 'observed' || policy() === 'run' ||
            run.summary.series !== name)
            return NaN;
        return run.summary.bands.max === null ? NaN : run.summary.bands.max;
    }

    function of(name, run) {
        const runs = policy() === 'run' ? [run] : State.now.open;
        const found = runs.map((r) => Data.find(r, name)).filter(Boolean);
        const extents = found.map(Data.extent);
        const low = Math.min(0, Plot.min(extents, (e) => e[0]) || 0);
        const fixed = Plot.max(runs, (r) => bound(r, name));
        const seen = Plot.max(extents, (e) => e[1]);
        const high = fixed > low ? fixed : seen > low ? seen : low + 1;
        return {low, high};
    }

    function colour({low, high, map}, value) {
        const x = Math.min(1, Math.max(0, (value - low) / (high - low)));
        return (map || Data.colours.values)[Math.floor(x * 255 + 0.5)];
    }

    // The colours for differences, on a scale that is symmetric around zero:
    // the hue shows the sign.
    const ofDifference = () => Data.colours[
        document.documentElement.dataset.theme === 'dark'
            ? 'differences_dark' : 'differences'];

    const ramp = (map, from, to) => Plot.range(0, 17).map((k) => map[
        Math.round(255 * (from + (to - from) * k / 16))]).join(',');

    // The part of the colour map that is visible as lines on the background.
    const depth = () => document.documentElement.dataset.theme === 'dark'
        ? [0.2, 1] : [0, 0.87];

    function ofLayer(layer, n) {
        const [from, to] = depth();
        const x = n > 1 ? from + (to - from) * layer / (n - 1) : (from + to) / 2;
        return Data.colours.values[Math.round(255 * x)];
    }

    // Makes a colour bar with a label at each end.
    function bar([from, to], left, right, map = Data.colours.values) {
        const strip = Dom.element('span', {class: 'ramp'});
        strip.style.background =
            `linear-gradient(to right,${ramp(map, from, to)})`;
        return [Dom.element('span', {}, left), strip,
                Dom.element('span', {}, right)];
    }

    function hatched(text) {
        return [Dom.element('span', {class: 'swatch hatched'}),
                Dom.element('span', {}, text)];
    }

    return {of, ofDifference, colour, depth, ofLayer, bar, hatched, policy};
})();
