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

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts) + "\n</svg>\n")
