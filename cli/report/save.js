'use strict';

// Saves a panel: its drawing as SVG or PNG, and its values as CSV. A live page
// requests the program's own figure from the server instead, if there is one.
const Save = (() => {
    const SCALE = 2; // pixels of a PNG per pixel on the screen
    const STYLES = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray',
                    'stroke-linejoin', 'opacity', 'font-size', 'font-weight',
                    'text-anchor', 'paint-order', 'visibility'];

    /* --- SVG -------------------------------------------------------------*/

    // Copies an SVG element with the colours that it has on the page.
    function copy(node) {
        const made = node.cloneNode(false);
        const style = getComputedStyle(node);
        if (style.display === 'none')
            return null;
        made.removeAttribute('class');
        made.removeAttribute('tabindex');
        made.removeAttribute('style');
        for (const name of STYLES)
            made.setAttribute(name, style.getPropertyValue(name));
        // In a page, getComputedStyle returns url("#hatch").
        if (node.getAttribute('fill') === 'url(#hatch)')
            made.setAttribute('fill', 'url(#hatch)');
        for (const child of node.childNodes)
            if (child.nodeType === Node.TEXT_NODE)
                made.append(child.textContent);
            else if (child.nodeType === Node.ELEMENT_NODE) {
                const inner = copy(child);
                if (inner)
                    made.append(inner);
            }
        return made;
    }

    const rect = (at, fill) => Plot.svg('rect', {...at, fill});

    // Draws an HTML element of a legend: a colour ramp, a swatch or a stroke.
    function shape(node, at, defs) {
        const style = getComputedStyle(node);
        if (node.classList.contains('ramp')) {
            const id = 'ramp-' + defs.childNodes.length;
            const colours = node.style.background.match(/rgb\([^)]*\)/g) || [];
            defs.append(Plot.svg('linearGradient', {id}, ...colours.map(
                (colour, i) => Plot.svg('stop', {'stop-color': colour,
                    offset: i / Math.max(1, colours.length - 1)}))));
            return rect({...at, rx: 3}, `url(#${id})`);
        }
        if (node.classList.contains('swatch'))
            return rect({...at, rx: 3}, 'url(#hatch)');
        return Plot.svg('line', {
            x1: at.x, x2: at.x + at.width, y1: at.y + 1, y2: at.y + 1,
            stroke: style.borderTopColor, 'stroke-width': 2,
            'stroke-dasharray': style.borderTopStyle === 'dashed' ? '5 3'
                : 'none'});
    }

    function words(node, at) {
        const style = getComputedStyle(node.parentElement);
        const size = parseFloat(style.fontSize);
        return Plot.svg('text', {
            x: at.x, y: at.y + at.height / 2 + size * 0.35,
            fill: style.color, 'font-size': size,
            'font-weight': style.fontWeight}, node.textContent);
    }

    // Draws the contents of a card: its pictures, captions and legends, at their
    // places. Notes, tables and controls are left out.
    function drawing(card) {
        const frame = card.getBoundingClientRect(), defs = Plot.svg('defs', {});
        const at = (box) => ({x: box.left - frame.left, y: box.top - frame.top,
                              width: box.width, height: box.height});
        const body = Plot.svg('g', {});
        let right = frame.width, bottom = 0;
        const add = (node, box) => {
            const place = at(box);
            right = Math.max(right, place.x + place.width + 12);
            bottom = Math.max(bottom, place.y + place.height);
            body.append(node);
        };
        const visit = (node) => {
            if (node.nodeType === Node.TEXT_NODE) {
                const range = document.createRange();
                range.selectNodeContents(node);
                const box = range.getBoundingClientRect();
                if (box.width && node.textContent.trim())
                    add(words(node, at(box)), box);
                return;
            }
            const box = node.nodeType === Node.ELEMENT_NODE &&
                node.getBoundingClientRect();
            if (!box || node.matches('.note, table, button, input, select, ' +
                                     'details, label') ||
                (!box.width && !box.height))
                return;
            if (node.matches('svg')) {
                const inner = copy(node);
                add(Plot.set(inner, at(box)), box);
            } else if (node.matches('canvas')) {
                add(Plot.svg('image', {...at(box), href: node.toDataURL(),
                                       'image-rendering': 'pixelated'}), box);
            } else if (node.matches('.ramp, .swatch, .stroke')) {
                add(shape(node, at(box), defs), box);
            } else {
                node.childNodes.forEach(visit);
            }
        };
        card.childNodes.forEach(visit);
        const height = bottom + 14, colour = getComputedStyle(card).backgroundColor;
        defs.append(copy(Dom.byId('hatch')));
        return Plot.svg('svg', {xmlns: 'http://www.w3.org/2000/svg',
            width: Math.ceil(right), height: Math.ceil(height),
            'font-family': getComputedStyle(document.body).fontFamily},
            defs, rect({width: '100%', height: '100%'}, colour), body);
    }

    const print = (svg) => new XMLSerializer().serializeToString(svg);

    // Draws an SVG as pixels. It is a data: address, which the page's policy
    // admits.
    function pixels(text, width, height) {
        return new Promise((resolve, reject) => {
            const image = new Image();
            image.onload = () => {
                const canvas = Dom.element('canvas', {
                    width: width * SCALE, height: height * SCALE});
                canvas.getContext('2d').drawImage(image, 0, 0, canvas.width,
                                                  canvas.height);
                canvas.toBlob((blob) => blob ? resolve(blob)
                    : reject(new Error('the picture is too large')));
            };
            image.onerror = () => reject(new Error('the picture is not valid'));
            image.src = address(new TextEncoder().encode(text));
        });
    }

    // Returns an address of an SVG in base64, since its text may have any
    // character.
    function address(bytes) {
        let binary = '';
        for (let i = 0; i < bytes.length; i += 8192)
            binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
        return 'data:image/svg+xml;base64,' + btoa(binary);
    }

    /* --- CSV -------------------------------------------------------------*/

    // Spreadsheets treat a leading =, +, - or @ of a text as a formula.
    function quote(value) {
        if (typeof value === 'number')
            return Values.exact(value);
        const text = value === null || value === undefined ? '' : String(value);
        const safe = /^[-=+@\t\r]/.test(text) ? `'${text}` : text;
        return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
    }

    const csv = (rows) => rows.map((row) => row.map(quote).join()).join('\n') +
        '\n';

    /* --- the menu --------------------------------------------------------*/

    function store(blob, name) {
        const url = URL.createObjectURL(blob);
        Dom.element('a', {href: url, download: name}).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    // A figure that the server cannot draw, such as one of no runs, is drawn
    // as it is on the page.
    async function picture(card, options, format) {
        const figure = Live.on && options.figure && options.figure();
        if (figure)
            try {
                const blob = await Live.draw(figure, format);
                return store(blob, `${options.name}.${format}`);
            } catch (error) {
                if (!options.picture)
                    throw error;
                Tip.hide();
            }
        return savePicture(card, options.name, format);
    }

    async function savePicture(card, name, format) {
        const svg = drawing(card), text = print(svg);
        const blob = format === 'svg' ? new Blob([text], {type: 'image/svg+xml'})
            : await pixels(text, Number(svg.getAttribute('width')),
                           Number(svg.getAttribute('height')));
        store(blob, `${name}.${format}`);
    }

    /**
     * Adds a menu to the heading of a card. options: {name: of the files,
     * picture: true if the card has a drawing, rows: function that returns the
     * values as rows of a table, figure: function that returns what Live.draw
     * requests to show the same, or false if the program has no such figure}. A
     * card without a drawing is saved as a picture only by a live page.
     */
    function add(card, options) {
        const drawn = options.picture || (Live.on && options.figure);
        const formats = [...drawn ? ['svg', 'png'] : [],
                         ...options.rows ? ['csv'] : []];
        const menu = Dom.element('details', {class: 'save'},
            Dom.element('summary', {class: 'small', 'aria-label':
                `Save ${options.name}`}, 'Save'));
        const list = Dom.element('div', {class: 'menu'}, ...formats.map(
            (format) => {
                const button = Dom.element('button', {type: 'button',
                    'data-format': format}, format.toUpperCase());
                button.addEventListener('click', () => {
                    menu.open = false;
                    save(card, options, format);
                });
                return button;
            }));
        menu.append(list);
        menu.addEventListener('keydown', (event) => {
            if (event.key === 'Escape' && menu.open) {
                menu.open = false;
                menu.firstChild.focus();
                event.stopPropagation();
            }
        });
        card.querySelector('.head').append(menu);
        return menu;
    }

    function save(card, options, format) {
        if (format === 'csv')
            return store(new Blob([csv(options.rows())], {type: 'text/csv'}),
                         `${options.name}.csv`);
        return picture(card, options, format).catch(
            (error) => Tip.show([{text: `not saved: ${error.message}`}],
                                {x: 20, y: 20}));
    }

    function start() {
        // A click elsewhere closes the menu.
        document.addEventListener('click', (event) => {
            for (const menu of document.querySelectorAll('.save[open]'))
                if (!menu.contains(event.target))
                    menu.open = false;
        });
    }

    return {start, add, store, address};
})();
