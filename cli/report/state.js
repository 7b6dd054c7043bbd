'use strict';

// Holds the current state of the page. A view follows some of the states, and redraws
// itself when one of them changes.
const State = (() => {
    const now = {
        runs: 0,                       // grows when the list of runs changes
        data: 0,                       // grows when series change
        maps: 0,                       // grows when attention maps change
        series: Data.grids[0] || null, // series in heatmaps and curves
        step: null,                    // views show their last sample up to it
        span: null,                    // [from, to] of the curves; null: all steps
        // runs whose panels are drawn: all runs if there are few, otherwise the opened ones
        open: Data.runs.length <= 4 ? [...Data.runs] : [],
        delta: null,                   // [run, subtracted run]
        filter: '', flag: '',          // words and flag that runs must have
        brushes: {},                   // title of an axis -> [from, to] in pixels
        selected: [...Data.runs],      // runs that pass the filters
        sort: null,                    // {title, down}: column of the table
        group: '',                     // setting by which the table merges runs
        head: null,                    // {run: id, row, column} shown in the curves
        log: false,                    // curves on a logarithmic axis
        full: false,                   // losses with all values
        theme: null,
    };
    const followers = [];

    // follow(['step'], draw) calls draw now, and whenever a named state changes.
    function follow(keys, draw) {
        followers.push({keys, draw});
        draw();
    }

    function set(changes) {
        const changed = Object.keys(changes).filter(
            (key) => now[key] !== changes[key]);
        Object.assign(now, changes);
        for (const {keys, draw} of followers)
            if (keys.some((key) => changed.includes(key)))
                draw();
    }

    return {now, follow, set};
})();
