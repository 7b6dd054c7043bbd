/** What stands beside bars and points: a legend and a note, in lines. */
#ifndef ES_LEGEND_H
#define ES_LEGEND_H

#include "render/figures/axis.h"

/** How an area of one series looks, distinct in greyscale too:
 *  the colours of es_theme_category, most of them with lines in them. */
void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area);

/** True if letters on the area need a plain ground. */
bool es_pattern_has_lines(size_t series);

typedef struct es_legend {
    es_theme theme;
    const char *const *names; /* (n) */
    size_t n;
    double width; /* that it may take */
} es_legend;

/** Height of the legend; 0 if no name has a letter. */
double es_legend_height(const es_legend *legend);

/** Swatches and names from the left, in as many lines as they take; names too
 *  long for a line are cut. (x, y) is the upper left corner. */
void es_draw_legend(es_picture *picture, const es_legend *legend, double x,
                    double y);

#define ES_NOTE_LINES 10

/** Number of lines, at most ES_NOTE_LINES, that a note takes when it is broken
 *  at its blanks; NULL: 0. */
size_t es_note_lines(const char *text, double width);

#define ES_NOTE_LINE 10.0

/** The note in small letters; y is the baseline of its first line. What does
 *  not fit into the last line is cut. */
void es_draw_note(es_picture *picture, es_color color, double x, double y,
                  double width, const char *text);

#endif
