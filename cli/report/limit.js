'use strict';

// Chooses the upper limit of an axis of losses, as the figure loss of the program
// does (cli/figures/loss.c): the largest value in the last two thirds of each run.
const Limit = (() => {
    // A line that rises to more than so many times its first value diverges.
    const RISE = 1.5;

    // Returns the y of a point, or the upper edge of its band.
    const top = (p) => p.high ?? p.y;

    const isFinite = (y) => y !== null && Number.isFinite(y);

    // Interpolates a quantile of a sorted array.
    function quantile(sorted, share) {
        const at = share * (sorted.length - 1), i = Math.floor(at);
        return sorted[i] + (at - i) * ((sorted[i + 1] ?? sorted[i]) - sorted[i]);
    }

    // Returns the largest value of a line from step `from` on, without outliers:
    // with d as the distance between the 5% and the 95% quantile, values more
    // than 3 d above the 95% quantile. `rises`: it is far above the first value.
    function tail({points}, from) {
        const known = points.filter((p) => isFinite(top(p)));
        const sorted = Float64Array.from(known.filter((p) => p.x >= from), top)
            .sort();
        if (!sorted.length)
            return {high: NaN, rises: false};
        const low = quantile(sorted, 0.05), most = quantile(sorted, 0.95);
        const high = Plot.max(sorted.filter((y) => y <= most + 3 * (most - low)));
        return {high, rises: high > RISE * top(known[0])};
    }

    // Returns the largest values of the lines of one run, and whether one of
    // them diverges.
    function tailOf(lines) {
        const steps = lines.flatMap(({points}) => points.filter(
            (p) => isFinite(p.y)).map((p) => p.x));
        const [first, last] = Plot.extent(steps);
        const tails = lines.map((line) => tail(line, first + (last - first) / 3));
        return {high: Plot.max(tails, (t) => t.high),
                rises: tails.some((t) => t.rises)};
    }

    // Returns the limit for lines {run, points: [{x, y, high}]}, or NaN if no
    // value is finite. Runs that diverge do not count if there are others.
    function of(lines) {
        const runs = new Map(lines.map(({run}) => [run, []]));
        lines.forEach((line) => runs.get(line.run).push(line));
        const tails = Array.from(runs.values(), tailOf);
        const falling = tails.filter((t) => !t.rises);
        const known = (some) => Plot.max(some, (t) => t.high);
        return known(falling) ?? known(tails) ?? NaN;
    }

    return {of, top};
})();
