'use strict';

// Exports the data of a run in the page, in the CSV format of `entropy-scan
// export`.
const Csv = (() => {
    const SHAPES = ['run', 'layer', 'head'];

    // Escapes backslashes, control characters, and leading or trailing spaces
    // as bytes; `entropy-scan import` converts them back.
    function escape(text) {
        const hex = (c) => Array.from(new TextEncoder().encode(c), (b) =>
            '\\x' + b.toString(16).padStart(2, '0')).join('');
        return text.replace(/[\\\u0000-\u001f\u007f-\u009f]|^ | $/g, hex);
    }

    function quote(text) {
        return /[",;]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    }

    // Spreadsheets treat a leading =, +, - or @ as the beginning of a formula.
    const ambiguous = (name) => /^$|^[-=+@']|^(train|eval):/.test(name);

    function column(series) {
        const phase = series.phase === 'eval' ? 'eval:'
            : ambiguous(series.name) ? 'train:' : '';
        return quote(phase + escape(series.name));
    }

    function about(run) {
        const s = run.summary;
        const lines = [['name', s.name], ['arch', s.arch],
                       ['n_layer', s.n_layer], ['n_head', s.n_head],
                       ['ctx', s.ctx]];
        return lines.filter(([, value]) => value !== null &&
                value !== undefined)
            .map(([key, value]) => `# ${key}: ${escape(String(value))}`);
    }

    function describe(series) {
        const unit = escape(series.unit).replace(/ /g, '\\x20') || '-';
        return `# series: ${series.shape} ${unit} ` +
            `${series.phase}:${escape(series.name)}`;
    }

    function left(series) {
        return series.filter((s) => s.thinned).map((s) =>
            `# thinned: ${s.steps.length} of ${s.samples} samples of ` +
            `${s.phase}:${escape(s.name)}`);
    }

    // Returns the CSV rows of one step: for the run, for each layer and for
    // each head.
    function rowsOf(step, columns, run) {
        const rows = [];
        for (const shape of SHAPES) {
            const size = Plot.max(columns, (c) => c.k >= 0 &&
                c.series.shape === shape ? c.series.size : 0);
            for (let i = 0; i < size; i++)
                rows.push([step, ...place(shape, i, run.summary.n_head),
                           ...columns.map((c) => cell(c, shape, i))].join());
        }
        return rows;
    }

    function place(shape, i, heads) {
        if (shape === 'run')
            return ['', ''];
        return shape === 'layer' ? [i, ''] : [Math.floor(i / heads), i % heads];
    }

    function cell({series, k}, shape, i) {
        return k < 0 || series.shape !== shape ? ''
            : Values.text(series.values, k * series.size + i);
    }

    const order = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1
        : a.phase < b.phase ? 1 : -1;

    function print(run) {
        const series = run.series.slice().sort(order);
        const lines = [`# ${Data.about.program} report. Empty cell: no ` +
            'sample. NA: missing.', ...about(run), ...series.map(describe),
            ...left(series),
            ['step,layer,head', ...series.map(column)].join()];
        const at = series.map((s) => new Map(s.labels.map((l, k) => [l, k])));
        const labels = new Set(series.flatMap((s) => s.labels));
        const steps = Array.from(labels).sort((a, b) => {
            const x = BigInt(a), y = BigInt(b);
            return x < y ? -1 : x > y ? 1 : 0;
        });
        for (const step of steps)
            lines.push(...rowsOf(step, series.map((s, i) => ({
                series: s, k: at[i].has(step) ? at[i].get(step) : -1})), run));
        return lines.join('\n') + '\n';
    }

    // Makes the name of the CSV file from the title of the run.
    function fileName(run) {
        const plain = run.title.normalize('NFKD')
            .replace(/[^A-Za-z0-9+_-]+/g, '-').replace(/^-+|-+$/g, '');
        return (plain.slice(0, 60) || 'run') + '.csv';
    }

    function download(run) {
        const blob = new Blob([print(run)], {type: 'text/csv'});
        const url = URL.createObjectURL(blob);
        Dom.element('a', {href: url, download: fileName(run)}).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    return {print, download, fileName};
})();
