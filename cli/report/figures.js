'use strict';

// Shows the figures that the program drew, as images. An image is decompressed
// when its figure is opened, and can be saved as a file.
const Figures = (() => {
    const all = Array.from(document.querySelectorAll('script.figure'),
                           (element) => JSON.parse(element.textContent));

    // An SVG in base64, since its text may have any character.
    function address({packed, size}) {
        const bytes = Inflate.unpack(Values.bytesOf(packed), size);
        let binary = '';
        for (let i = 0; i < bytes.length; i += 8192)
            binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
        return 'data:image/svg+xml;base64,' + btoa(binary);
    }

    function show(box, figure) {
        const src = address(figure);
        Dom.replace(box, Dom.element('img', {
            src, alt: `${figure.name}: ${figure.about}`}), Dom.element('p', {},
            Dom.element('a', {class: 'csv', href: src, download:
                `${figure.name}.svg`}, 'Save as SVG')));
    }

    function part(figure) {
        const box = Dom.element('div', {class: 'scroll'});
        const made = Dom.element('details', {}, Dom.element('summary', {},
            figure.name, Dom.element('span', {class: 'muted'},
                ` ${figure.about}`)), box);
        made.addEventListener('toggle', () => {
            if (made.open && !box.firstChild)
                show(box, figure);
        });
        return made;
    }

    const missing = ({name, reason}) => Dom.element('p', {
        class: 'muted note'}, `${name}: not in this page (${reason}); ` +
        `entropy-scan draw ${name} RUN.db -o ${name}.svg writes it.`);

    function start() {
        const card = Dom.byId('figures-card');
        card.hidden = !all.length;
        card.addEventListener('toggle', () => {
            const box = Dom.byId('figures');
            if (card.open && !box.firstChild)
                Dom.replace(box, ...all.map((figure) =>
                    figure.packed ? part(figure) : missing(figure)));
        });
    }

    return {start};
})();
