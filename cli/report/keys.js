'use strict';

// Keys for the whole page, and the list of them.
const Keys = (() => {
    const dialog = Dom.byId('keys');
    const focus = (id) => () => {
        const input = Dom.byId(id);
        if (input.offsetParent)
            input.focus();
    };

    function turn(by) {
        const {grids} = Data, at = grids.indexOf(State.now.series);
        if (grids.length)
            State.set({series: grids[(at + by + grids.length) % grids.length]});
    }

    const KEYS = [
        ['j', 'next run', () => Table.move(1)],
        ['k', 'previous run', () => Table.move(-1)],
        ['Enter', 'open or close the run', null],
        ['x', 'tick the run', () => Table.tickFocused()],
        ['c', 'compare two ticked runs', () => Table.compareTicked()],
        ['/', 'filter the runs', focus('filter')],
        ['g', 'group the runs', focus('group')],
        ['Escape', 'clear the filters', () => Table.clear()],
        [',', 'previous step', () => Steps.move(-1)],
        ['.', 'next step', () => Steps.move(1)],
        ['<', 'first step', () => Steps.move(-Infinity)],
        ['>', 'last step', () => Steps.move(Infinity)],
        ['p', 'play or pause', () => Steps.toggle()],
        ['s', 'next series', () => turn(1)],
        ['l', 'logarithmic axis', () => State.set({log: !State.now.log})],
        ['f', 'all values of the loss',
         () => State.set({full: !State.now.full})],
        ['t', 'light or dark', () => Dom.byId('theme').click()],
        ['Arrows', 'move in the table, between heads, along the steps', null],
        ['+ − 0', 'zoom a chart, show all of it', null],
        ['?', 'this list', () => show()],
    ];

    function show() {
        if (!dialog.open)
            dialog.showModal();
    }

    function press(event) {
        const {target, key} = event;
        if (event.ctrlKey || event.metaKey || event.altKey || dialog.open ||
            event.defaultPrevented)
            return;
        if (target.matches('select, textarea, input:not([type=checkbox])' +
                           ':not([type=radio]):not([type=range])')) {
            if (key === 'Escape')
                target.blur();
            return;
        }
        const row = KEYS.find(([name, , act]) => name === key && act);
        if (row) {
            event.preventDefault();
            row[2]();
        }
    }

    function start() {
        Dom.replace(Dom.byId('keys-list'), ...KEYS.map(([name, text]) =>
            Dom.element('tr', {}, Dom.element('th', {scope: 'row'}, Dom.element(
                'kbd', {}, name)), Dom.element('td', {}, text))));
        document.addEventListener('keydown', press);
        Dom.byId('help').hidden = false;
        Dom.byId('help').addEventListener('click', show);
        Dom.byId('keys-close').addEventListener('click', () => dialog.close());
        dialog.addEventListener('click', (event) => {
            if (event.target === dialog)
                dialog.close();
        });
    }

    return {start};
})();
