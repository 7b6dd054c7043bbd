/**
 * Draws the heatmap of a run on the terminal. Rows are layers, columns are
 * heads; a character can show two values, one above the other.
 */
#ifndef ES_HEAT_H
#define ES_HEAT_H

#include "render/screen.h"

#include <stddef.h>

/** The colour scale of a heatmap; high > low. */
typedef struct es_heat_scale {
    double low, high;
    es_colormap map;
    bool ends_matter; /* true if both ends of the scale are critical (as for
                         entropies), not only the upper end */
} es_heat_scale;

/**
 * The layout of a heatmap. The rectangle that shows one head is called a place.
 * A place is `columns` characters wide and `halves` half characters high: 2 x 2
 * (a row of text then shows one layer) or 1 x 1 (a row of text then shows two
 * layers). Places of both sizes look square. ASCII has no half characters, so
 * each layer is a row of text.
 */
typedef struct es_heat_layout {
    int n_layers, n_heads;
    int columns, halves; /* width of a head's rectangle in characters, and
                            its height in half characters */
    /* Number of layers and number of heads that share one rectangle; 1 if
     * every layer or every head has its own. */
    int layers_in, heads_in;
    int width, height; /* width in columns and height in rows of text */
} es_heat_layout;

/**
 * Returns the largest layout that fits into `width` columns and `height` rows,
 * both at least 1. The rectangle of a head (its place) is 2 x 2 half
 * characters only if `roomy` is true, otherwise 1 x 1. If this is still too
 * large, several adjacent layers or heads share a place.
 */
es_heat_layout es_heat_fit(int n_layers, int n_heads, int width, int height,
                           bool roomy, es_depth depth);

/** Sets *first and *last to the range of layers that row `row` of text
 *  shows. */
void es_heat_layers_of_row(const es_heat_layout *layout, int row, int *first,
                           int *last);

/**
 * Returns the value that is drawn if several heads share a place of the
 * heatmap. NaN or infinity of any head takes precedence. Otherwise the most
 * critical value is shown: the largest value or, if both ends of the scale are
 * critical, the value farthest from the middle of the scale (the lower of two
 * values that are equally far). The result is missing if all heads are missing.
 *
 *   values  (L,H)
 */
float es_heat_place(const float *values, const es_heat_layout *layout,
                    const es_heat_scale *scale, int layer, int head);

/**
 * Draws a heatmap of values (L,H) with its upper left corner at (x, y). NaN and
 * infinity are drawn in red, or as a red cross if they fill the whole
 * character; missing values are blank.
 */
void es_heat_draw(es_screen *screen, int x, int y, const float *values,
                  const es_heat_layout *layout, const es_heat_scale *scale);

/** Draws the numbers of the layers to the left of column x, and the numbers of
 *  the heads in the row above y. */
void es_heat_draw_axes(es_screen *screen, int x, int y,
                       const es_heat_layout *layout);

#endif
