"""Writes SVG in the style of entropy-scan's figures: the font and the colours of the light
theme (render/figures/theme.c). The scripts in samples use this module for figures that
entropy-scan does not draw."""
import html

INK, MUTED, GRID = "#222222", "#666666", "#e1e1e1"
COLOURS = ("#0072b2", "#e69f00", "#000000", "#56b4e9", "#d55e00", "#009e73", "#783c6e", "#cc79a7")


class Picture:
    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                      f'width="{width}" height="{height}" font-family="DejaVu Sans, sans-serif" '
                      f'font-size="12" fill="{INK}">'
                      f'<rect width="{width}" height="{height}" fill="#fff"/>']

    def text(self, x, y, text, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>'
                          f'{html.escape(text)}</text>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height}" '
                          f'fill="{colour}"/>')

    def line(self, points, colour, more=""):
        self.parts.append(f'<polyline fill="none" stroke="{colour}" {more} points="' +
                          " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')

    def dot(self, x, y, colour, radius=3, opacity=1):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" '
                          f'fill-opacity="{opacity}"/>')

    def mark(self, x, y, i):
        """Draws the mark of series i, which differs from other series' marks in greyscale too."""
        shape = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"',
                 f'<rect x="{x - 2.8:.1f}" y="{y - 2.8:.1f}" width="5.6" height="5.6"',
                 f'<path d="M{x:.1f} {y - 3.8:.1f}l3.6 6.4h-7.2z"',
                 f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"')[i % 4]
        self.parts.append(f'{shape} fill="{"#fff" if i % 2 else COLOURS[i]}" '
                          f'stroke="{COLOURS[i]}" stroke-width="1.4"/>')

    def key(self, x, y, colour, text, more="", mark=None):
        """Draws an entry of a legend: a line, the mark of series `mark`, and a text."""
        self.line([(x, y - 4), (x + 22, y - 4)], colour, f'stroke-width="1.8" {more}')
        if mark is not None:
            self.mark(x + 11, y - 4, mark)
        self.text(x + 28, y, text)

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts) + "\n</svg>\n")
