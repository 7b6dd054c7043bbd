'use strict';

// Draws the mean entropy and the loss of each group of runs over the steps, with
// the range of the group as a band.
const Groups = (() => {
    const card = Dom.byId('groups-card'), box = Dom.byId('groups');
    const MOST = 6; // as many as there are colours
    let shown = [];

    // The largest groups, in the order of the table.
    function choose() {
        const {group, selected} = State.now;
        const all = group ? Fold.groups(selected, group).map((one) =>
            one.members ? one : Object.assign({}, one, {members: [one]})) : [];
        const large = new Set([...all].sort(
            (a, b) => b.members.length - a.members.length).slice(0, MOST));
        Dom.byId('groups-note').textContent = 'Mean of each group, with the ' +
            'range of its runs as a band, from the points of the small curves ' +
            'in the table. ' + (all.length > MOST
                ? `The ${MOST} largest of ${all.length} groups are shown.` : '');
        return all.filter((one) => large.has(one));
    }

    function linesOf(kind) {
        return shown.map((group, i) => {
            const points = Spark.spread(group.members, kind);
            return {points, run: group.key, band: points.filter((p) => Number.isFinite(p.y)),
                    colour: Curves.colour(i), label: group.title,
                    of: Dom.count(group.members.length, 'run')};
        }).filter(({points}) => points.length);
    }

    function add(title, kind, width) {
        const lines = linesOf(kind), edges = lines.flatMap(
            (line) => line.band.flatMap((p) => [p.low, p.high]));
        if (!lines.length)
            return;
        const figure = Dom.element('figure', {}, Dom.element('figcaption', {},
            Dom.element('strong', {}, title)));
        box.append(figure);
        Chart.make(figure, {lines, range: Plot.extent(edges), width, height: 240,
            limit: kind === 'loss' ? Limit.of(lines) : NaN, reference: null, unit: '', label: `${title} of the groups`});
    }

    function build() {
        shown = choose();
        card.hidden = !shown.length;
        Dom.replace(box);
        if (card.hidden)
            return;
        const width = Dom.panelWidth(box, 2, 320);
        add(`${Data.runs[0]?.summary.series || 'entropy'}, mean of all heads`,
            'entropy', width);
        add('loss', 'loss', width);
        Dom.replace(Dom.byId('groups-legend'), ...shown.map((group, i) => {
            const stroke = Dom.element('span', {class: 'stroke'});
            stroke.style.borderColor = Curves.colour(i);
            return Dom.element('span', {class: 'key'}, stroke,
                               Dom.element('span', {}, group.title));
        }));
        Chart.redraw();
    }

    // Returns the points of all groups as rows of a table.
    const rows = () => [['group', 'series', 'step', 'mean', 'least', 'most'],
        ...['entropy', 'loss'].flatMap((kind) => shown.flatMap((group) =>
            Spark.spread(group.members, kind).map((p) => [
                group.title, kind, p.x, p.y, p.low, p.high])))];

    function start() {
        Save.add(card, {name: 'groups', picture: true, rows});
        State.follow(['group', 'selected', 'theme', 'runs'],
                     Dom.onWidth(box, build));
    }

    return {start, rows};
})();
