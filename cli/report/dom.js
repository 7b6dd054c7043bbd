'use strict';

// Helpers for the DOM. Text from run files is only inserted through
// textContent.
const Dom = (() => {
    const byId = (id) => document.getElementById(id);

    // Makes an element: element('td', {class: 'number'}, 'text', child, ...).
    function element(name, attributes, ...children) {
        const made = document.createElement(name);
        for (const [key, value] of Object.entries(attributes || {}))
            if (value !== null && value !== undefined && value !== false)
                made.setAttribute(key, value === true ? '' : value);
        made.append(...children.filter((c) => c !== null));
        return made;
    }

    function replace(parent, ...children) {
        parent.textContent = '';
        parent.append(...children);
        return parent;
    }

    const inks = getComputedStyle(document.documentElement);
    const ink = (name) => inks.getPropertyValue('--' + name).trim();

    const count = (n, thing) => `${n} ${thing}${n === 1 ? '' : 's'}`;

    // Formats a number briefly for an axis: 12, 1.5K, 30K, 1e16.
    function thousands(x) {
        const a = Math.abs(x);
        if (a >= 1e12)
            return Values.short(x);
        const [by, unit] = a >= 1e9 ? [1e9, 'G'] : a >= 1e6 ? [1e6, 'M']
            : a >= 1e3 ? [1e3, 'K'] : [1, ''];
        return Values.short(x / by) + unit;
    }

    // Returns the stride between labels at which n labels have `space` each
    // within `size`.
    function every(n, size, space) {
        let stride = 1;
        while (stride * size / n < space && stride < n)
            stride *= 2;
        return stride;
    }

    // Returns the width of each of n panels in a box. All rows have about the
    // same number of panels, and panels are at least `least` pixels wide if the
    // box is.
    function panelWidth(box, n, least) {
        const whole = box.clientWidth, gap = 24;
        const fit = Math.max(1, Math.floor((whole + gap) / (least + gap)));
        const across = Math.ceil(n / Math.ceil(n / fit));
        const width = Math.floor((whole - (across - 1) * gap) / across);
        box.style.setProperty('--panel', width + 'px');
        return width;
    }

    // Returns the width of a text of 11 pixels in the font of a box.
    const pen = document.createElement('canvas').getContext('2d');
    function widthOf(text, box, bold) {
        pen.font = `${bold ? 600 : 400} 11px ${getComputedStyle(box).fontFamily}`;
        return pen.measureText(text).width;
    }

    // Splits a text where a narrow place should shorten it: if the program has
    // shortened it, there, otherwise before its last letters, which often
    // distinguish it from others. A short text has no second part.
    const SPLIT = {least: 24, end: 12};
    function halves(text) {
        const letters = Array.from(text), n = letters.length;
        const dots = Array.from(text.slice(0, text.indexOf('...') + 1)).length;
        const at = dots ? dots + 2 : n - SPLIT.end;
        return n < SPLIT.least ? [text]
            : [letters.slice(0, at).join(''), letters.slice(at).join('')];
    }

    // Cuts a text to some letters, in its middle.
    function shorten(text, most) {
        const [start, end = ''] = halves(text);
        const n = Math.min(Array.from(end).length, Math.floor(most / 2));
        return text.length <= most ? text
            : Array.from(start).slice(0, Math.max(1, most - 1 - n)).join('') +
                '…' + (n ? Array.from(end).slice(-n).join('') : '');
    }

    // Returns the relative luminance of a colour (WCAG 2.1).
    function luminance(colour) {
        const [r, g, b] = [1, 3, 5].map((at) => {
            const x = parseInt(colour.slice(at, at + 2), 16) / 255;
            return x <= 0.03928 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4);
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }

    // Returns black or white, whichever is easier to read on a colour.
    const known = new Map();
    function textOn(colour) {
        if (!known.has(colour))
            known.set(colour, luminance(colour) > 0.18 ? '#000' : '#fff');
        return known.get(colour);
    }

    // Calls `build` when the box gets its first layout, and whenever its width
    // changes. Returns a function that calls `build` for other reasons.
    function onWidth(box, build) {
        let width = 0;
        const rebuild = () => {
            build();
            width = box.clientWidth;
        };
        new ResizeObserver(() => {
            if (box.clientWidth !== width)
                rebuild();
        }).observe(box);
        return rebuild;
    }

    // Calls `build`, which makes the contents of a box again, and gives the focus
    // to the element at the same place.
    function keepFocus(box, build) {
        const all = () => Array.from(box.querySelectorAll('button, a, [tabindex]'));
        const at = all().indexOf(document.activeElement);
        build();
        if (at >= 0)
            all()[at]?.focus({preventScroll: true});
    }

    // Makes a function that calls `act` at once, but at most every `pause`
    // milliseconds.
    function seldom(pause, act) {
        let timer = null, again = false;
        const run = () => {
            again = false;
            act();
            timer = setTimeout(() => {
                timer = null;
                if (again)
                    run();
            }, pause);
        };
        return () => {
            if (timer)
                again = true;
            else
                run();
        };
    }

    return {byId, element, replace, ink, count, thousands, every, panelWidth,
            widthOf, halves, shorten, textOn, onWidth, seldom, keepFocus};
})();

// Shows the tooltip next to the pointer.
const Tip = (() => {
    const box = Dom.byId('tip');

    // lines: [{text, strong, muted}]; at: {x, y} in coordinates of the window
    function show(lines, at) {
        Dom.replace(box, ...lines.map((line) => Dom.element(
            'div', {class: line.strong ? 'strong' : line.muted ? 'muted' : null},
            line.text)));
        box.hidden = false;
        const gap = 14, {offsetWidth: w, offsetHeight: h} = box;
        const left = at.x + gap + w > innerWidth ? at.x - gap - w : at.x + gap;
        const top = at.y + gap + h > innerHeight ? at.y - gap - h : at.y + gap;
        box.style.left = Math.max(4, left) + 'px';
        box.style.top = Math.max(4, top) + 'px';
    }

    function hide() {
        box.hidden = true;
    }

    return {show, hide};
})();
