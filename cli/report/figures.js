'use strict';

// Shows the figures that the program draws, as images. An image is decompressed,
// or drawn by the server, when its figure is opened, and can be saved as a file.
const Figures = (() => {
    const all = Live.on ? Data.about.live.figures : Array.from(
        document.querySelectorAll('script.figure'),
        (element) => JSON.parse(element.textContent));

    const address = ({packed, size}) => Save.address(
        Inflate.unpack(Values.bytesOf(packed), size));

    const note = (text) => Dom.element('p', {class: 'muted note'}, text);

    // Returns the address of a figure: of the one in the page, or of one that
    // the server draws now, of the runs that are open or selected.
    async function find(figure) {
        if (figure.packed)
            return address(figure);
        return URL.createObjectURL(await Live.draw({names: [figure.name]}, 'svg'));
    }

    async function show(box, figure) {
        Dom.replace(box, note('The server draws the figure.'));
        try {
            const src = await find(figure);
            Dom.replace(box, Dom.element('img', {
                src, alt: `${figure.name}: ${figure.about}`}), Dom.element(
                'p', {}, Dom.element('a', {class: 'csv', href: src, download:
                    `${figure.name}.svg`}, 'Save as SVG')));
        } catch (error) {
            Dom.replace(box, note(error.message));
        }
    }

    function part(figure) {
        const box = Dom.element('div', {class: 'scroll'});
        const made = Dom.element('details', {}, Dom.element('summary', {},
            figure.name, Dom.element('span', {class: 'muted'},
                ` ${figure.about}`)), box);
        made.addEventListener('toggle', () => {
            if (made.open && (Live.on || !box.firstChild))
                show(box, figure);
            else if (Live.on)
                drop(box);
        });
        return made;
    }

    function drop(box) {
        const image = box.querySelector('img');
        if (image)
            URL.revokeObjectURL(image.src);
        Dom.replace(box);
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
                    figure.packed || Live.on ? part(figure)
                        : missing(figure)));
        });
    }

    return {start};
})();
