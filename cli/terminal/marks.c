/* Marks that heatmap, scale and lines share. */
#include "cli/terminal/marks.h"

const char *es_mark_broken_text(const es_screen *screen)
{
    return es_screen_depth(screen) == ES_DEPTH_ASCII ? "x" : "×";
}

void es_mark_broken(es_screen *screen, int x, int y)
{
    es_screen_write(screen, x, y, 1, es_mark_broken_text(screen),
                    (es_style){.ink = ES_INK_RED, .bold = true});
}

const char *es_mark_ascii(double at)
{
    static const char *const shades[] = {".", ":", "-", "=", "+",
                                         "*", "#", "%", "@"};
    enum { N = sizeof shades / sizeof *shades };
    int shade = at > 0 ? (int)(at * N) : 0;
    return shades[shade < N ? shade : N - 1];
}

void es_mark_shade(es_screen *screen, int x, int y, es_colormap map, double at)
{
    if (es_screen_depth(screen) == ES_DEPTH_ASCII)
        es_screen_write(screen, x, y, 1, es_mark_ascii(at), ES_PLAIN);
    else
        es_screen_write(
            screen, x, y, 1, " ",
            (es_style){.paper = es_ink_of(es_colormap_at(map, at))});
}
