/**
 * A grid of character cells: what is drawn on the terminal, before it is text.
 * Whatever lies outside of the grid is left out.
 */
#ifndef ES_SCREEN_H
#define ES_SCREEN_H

#include "analyzer/base/status.h"
#include "cli/terminal/terminal.h"
#include "render/colormap.h"

#include <stdint.h>
#include <stdio.h>

/** A colour: 0 the terminal's own, one of its sixteen, or 24 bits. */
typedef uint32_t es_ink;

#define ES_INK_OWN UINT32_C(0)
#define ES_INK_RED UINT32_C(0x01000001)
#define ES_INK_GREEN UINT32_C(0x01000002)
#define ES_INK_YELLOW UINT32_C(0x01000003)

es_ink es_ink_of(es_color color);

/** The nearest colour of xterm's 6 x 6 x 6 cube, 16..231, by squared distance
 *  in RGB. */
int es_ink_cube(es_color color);

typedef struct es_style {
    es_ink ink, paper;
    bool bold, faint;
} es_style;

#define ES_PLAIN ((es_style){0})
#define ES_BOLD ((es_style){.bold = true})
#define ES_FAINT ((es_style){.faint = true})

/** To be read, and written by the functions below. */
typedef struct es_screen {
    es_depth depth;
    int width, height;
    struct es_screen_cell *cells; /* (height,width) */
} es_screen;

/** All blank. width, height >= 1. ES_OK or ES_ENOMEM. */
es_status es_screen_new(es_screen **out, es_depth depth, int width,
                        int height) ES_MUST_USE;

void es_screen_free(es_screen *screen); /* NULL is fine */

/**
 * Writes text from column x of row y, at most `columns` columns of it; returns
 * the columns that it took.
 *
 *   text   UTF-8; control characters are shown as '?', and so is, on an ASCII
 *          screen, whatever else ASCII has not. Characters without a width
 *          that are no accents are left out: they turn the direction of
 *          writing, or change how wide others are.
 */
int es_screen_write(es_screen *screen, int x, int y, int columns,
                    const char *text, es_style style);

/** The same with printf's format; 255 bytes at most. Nothing, and 0, if there
 *  is no space for all of it: a number that is cut is another number. */
int es_screen_say(es_screen *screen, int x, int y, int columns, es_style style,
                  const char *fmt, ...) ES_PRINTF(6, 7);

/**
 * Row y as text, without a line end: escape sequences where colours change,
 * none on an ASCII screen, back to the terminal's own at the end; blank cells
 * on the right are left out.
 */
void es_screen_print_row(const es_screen *screen, int y, FILE *out);

/** All rows, each with a line end. */
void es_screen_print(const es_screen *screen, FILE *out);

/* --- marks that the parts of a drawing share ------------------------------*/

/** Half a cell that is NaN or infinite: in no colour map. */
#define ES_BROKEN_COLOR ((es_color){230, 30, 30, 255})
#define ES_BROKEN_STYLE ((es_style){.ink = ES_INK_RED, .bold = true})

/** What a screen shows for a value that is NaN or infinite: a cross, written
 *  in ES_BROKEN_STYLE. */
const char *es_mark_broken_text(const es_screen *screen);
void es_mark_broken(es_screen *screen, int x, int y);

/** The ASCII shade of `share` in [0,1]. */
const char *es_mark_ascii(double share);

/** A cell of the map's colour at `share`, on an ASCII screen of a shade. */
void es_mark_shade(es_screen *screen, int x, int y, es_colormap map,
                   double share);

#endif
