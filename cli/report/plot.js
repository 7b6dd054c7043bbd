'use strict';

// Helpers for drawing: extents, scales with ticks, and SVG elements.
const Plot = (() => {
    const itself = (x) => x;
    const range = (from, to, by = 1) => Array.from(
        {length: Math.max(0, Math.ceil((to - from) / by))},
        (_, i) => from + i * by);

    // Returns the smallest and the largest value, ignoring NaN.
    function extent(values, of = itself) {
        let low, high;
        for (const each of values) {
            const x = of(each);
            if (x === null || x === undefined || Number.isNaN(x))
                continue;
            if (low === undefined || x < low)
                low = x;
            if (high === undefined || x > high)
                high = x;
        }
        return [low, high];
    }

    const min = (values, of) => extent(values, of)[0];
    const max = (values, of) => extent(values, of)[1];

    // Returns the median of finite numbers.
    function median(values) {
        const sorted = Float64Array.from(values).sort(), n = sorted.length;
        return (sorted[n - 1 >> 1] + sorted[n >> 1]) / 2;
    }

    // Counts the values of a sorted array that are less than x, or, if `right`,
    // at most x.
    function bisect(array, x, right = false, of = itself) {
        let from = 0, to = array.length;
        while (from < to) {
            const middle = from + to >> 1, y = of(array[middle]);
            if (y < x || (right && y === x))
                from = middle + 1;
            else
                to = middle;
        }
        return from;
    }

    // Returns a step between ticks that is 1, 2 or 5 times a power of ten, so
    // that about n ticks fit.
    function stepOf([low, high], n) {
        const step = Math.pow(10, Math.floor(Math.log10((high - low) / n)));
        const by = n / (high - low) * step;
        return step * (by <= 0.15 ? 10 : by <= 0.35 ? 5 : by <= 0.75 ? 2 : 1);
    }

    function linearTicks(domain, n) {
        const step = stepOf(domain, n), first = Math.ceil(domain[0] / step);
        return range(first, Math.floor(domain[1] / step + 1e-9) + 1)
            .map((k) => Number((k * step).toPrecision(12)));
    }

    function logTicks([low, high]) {
        const powers = range(Math.floor(Math.log10(low)),
                             Math.ceil(Math.log10(high)) + 1);
        return powers.flatMap((p) => range(1, 10).map(
            (k) => Number(`${k}e${p}`))).filter((t) => t >= low && t <= high);
    }

    // Returns a function that maps the domain to the range, with members invert
    // and ticks(n).
    function scale(domain, [first, last], log = false) {
        const of = log ? Math.log : itself, from = of(domain[0]);
        const by = (last - first) / (of(domain[1]) - from);
        const back = log ? Math.exp : itself;
        return Object.assign((x) => first + (of(x) - from) * by, {
            invert: (y) => back(from + (y - first) / by),
            ticks: (n) => (log ? logTicks : linearTicks)(domain, n)});
    }

    // Extends a domain so that it begins and ends at a tick.
    function nice([low, high], n) {
        const step = stepOf([low, high], n);
        return [Math.floor(low / step) * step, Math.ceil(high / step) * step];
    }

    function set(node, attributes) {
        for (const [key, value] of Object.entries(attributes))
            node.setAttribute(key, value);
        return node;
    }

    // Makes an SVG element: svg('text', {x: 3}, 'text or child', ...).
    function svg(name, attributes, ...children) {
        const node = document.createElementNS('http://www.w3.org/2000/svg',
                                              name);
        node.append(...children);
        return set(node, attributes || {});
    }

    // Returns an SVG path through the points [x, y] of each piece.
    const path = (pieces) => pieces.filter((p) => p.length > 1).map(
        (points) => 'M' + points.map(([x, y]) =>
            `${+x.toFixed(1)},${+y.toFixed(1)}`).join('L')).join('');

    return {range, extent, min, max, median, bisect, scale, nice, set, svg,
            path};
})();
