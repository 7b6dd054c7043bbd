/**
 * A grid of character cells, in which drawings for the terminal are composed
 * before they are printed. Anything outside the grid is clipped.
 */
#ifndef ES_SCREEN_H
#define ES_SCREEN_H

#include "analyzer/base/status.h"
#include "render/colormap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** The characters and colours that a terminal supports. */
typedef enum es_depth {
    ES_DEPTH_ASCII, /* no colours, only ASCII characters */
    ES_DEPTH_256,   /* block characters, and the 256 colours of xterm */
    ES_DEPTH_TRUE   /* block characters, and 24-bit colours */
} es_depth;

/** The colour of a character or cell: 0 for the terminal's default, one of its
 *  sixteen colours, or 24-bit RGB. */
typedef uint32_t es_ink;

#define ES_INK_OWN UINT32_C(0)
#define ES_INK_RED UINT32_C(0x01000001)
#define ES_INK_GREEN UINT32_C(0x01000002)
#define ES_INK_YELLOW UINT32_C(0x01000003)

/** Converts a 24-bit colour. */
es_ink es_ink_of(es_color color);

/** Returns the index (16 to 231) of the nearest colour in xterm's 6 x 6 x 6
 *  cube, by squared distance in RGB. */
int es_ink_cube(es_color color);

typedef struct es_style {
    es_ink ink, paper;
    bool bold, faint;
} es_style;

#define ES_PLAIN ((es_style){0})
#define ES_BOLD ((es_style){.bold = true})
#define ES_FAINT ((es_style){.faint = true})

/**
 * A grid of character cells. Only the functions in this header write to the
 * grid.
 */
typedef struct es_screen {
    es_depth depth;
    int width, height;
    struct es_screen_cell *cells; /* (height,width) */
} es_screen;

/** Creates a blank grid of width x height cells, both at least 1. Returns ES_OK
 *  or ES_ENOMEM. */
es_status es_screen_new(es_screen **out, es_depth depth, int width,
                        int height) ES_MUST_USE;

void es_screen_free(es_screen *screen); /* accepts NULL */

/**
 * Writes text at column x of row y, cut to `columns` columns. Returns the
 * number of columns written.
 *
 *   text   UTF-8; control characters are shown as '?'. On an ASCII screen, all
 *          non-ASCII characters are shown as '?' too. Zero-width characters
 *          other than accents are left out, because they change the writing
 *          direction or the width of other characters.
 */
int es_screen_write(es_screen *screen, int x, int y, int columns,
                    const char *text, es_style style);

/**
 * Writes text by a printf format, at most 255 bytes. If the text does not fit
 * completely, writes nothing and returns 0, because a truncated number would be
 * wrong. Otherwise returns the number of columns written.
 */
int es_screen_say(es_screen *screen, int x, int y, int columns, es_style style,
                  const char *fmt, ...) ES_PRINTF(6, 7);

/** Copies row `from_y` of another grid into row y, cut to the width of this
 *  grid. Does nothing if either row does not exist. */
void es_screen_copy_row(es_screen *screen, int y, const es_screen *from,
                        int from_y);

/**
 * Prints row y of the grid without a newline. Escape sequences set the colours
 * where they change and restore the default at the end; an ASCII screen prints
 * none. Trailing blank cells are left out.
 */
void es_screen_print_row(const es_screen *screen, int y, FILE *out);

/** Prints all rows, each with a newline. */
void es_screen_print(const es_screen *screen, FILE *out);

/* --- marks shared by the parts of a drawing -------------------------------*/

/** The colour of NaN and infinity, which occurs in no colour map. */
#define ES_BROKEN_COLOR ((es_color){230, 30, 30, 255})
#define ES_BROKEN_STYLE ((es_style){.ink = ES_INK_RED, .bold = true})

/**
 * The mark of NaN and infinity is a cross. es_mark_broken_text returns the
 * cross as text, es_mark_broken draws it at (x, y) in ES_BROKEN_STYLE.
 */
const char *es_mark_broken_text(const es_screen *screen);
void es_mark_broken(es_screen *screen, int x, int y);

/**
 * Returns the ASCII character whose darkness represents `share`, a number in
 * [0,1].
 */
const char *es_mark_ascii(double share);

/**
 * Fills the cell at (x, y) with the colour at `share`, a number in [0,1], of a
 * colour map. On an ASCII screen, draws the character of es_mark_ascii instead.
 */
void es_mark_shade(es_screen *screen, int x, int y, es_colormap map,
                   double share);

#endif
