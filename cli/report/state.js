'use strict';

// What the page shows at the moment. Views draw themselves again when a part
// of it that they follow changes.
const State = (() => {
    const now = {
        series: Data.grids[0] || null, // of the heatmaps and curves
        step: null,                    // everything shows its last sample by it
        span: null,                    // [from, to] of the curves; null: all
        // runs whose panels are drawn: all of a few, else those chosen
        open: Data.runs.length <= 4 ? Data.runs : [],
        delta: null,                   // [run, run that is subtracted]
        selected: Data.runs,           // the runs that filters leave
        head: null,                    // {run, row, column} followed in curves
        log: false,                    // curves on a logarithmic axis
        theme: null,
    };
    const followers = [];

    // follow(['step'], draw): draw is called now and whenever one changes.
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
