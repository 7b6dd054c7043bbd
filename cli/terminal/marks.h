/** Marks that the parts of the drawing share. */
#ifndef ES_MARKS_H
#define ES_MARKS_H

#include "cli/terminal/screen.h"

/** Half a cell that is NaN or infinite: in no colour map. */
#define ES_BROKEN_COLOR ((es_color){230, 30, 30, 255})

/** What a screen shows for a value that is NaN or infinite: a red cross. */
const char *es_mark_broken_text(const es_screen *screen);
void es_mark_broken(es_screen *screen, int x, int y);

/** A cell of a colour, or on an ASCII screen of a shade: x in [0,1] of the
 *  map. */
void es_mark_shade(es_screen *screen, int x, int y, es_colormap map, double at);

/** The ASCII shade of x in [0,1]. */
const char *es_mark_ascii(double at);

#endif
