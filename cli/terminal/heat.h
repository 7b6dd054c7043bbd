/** Draws the heatmap of a run on the terminal: layers x heads in half character
 *  cells. */
#ifndef ES_HEAT_H
#define ES_HEAT_H

#include "cli/terminal/screen.h"

#include <stddef.h>

/** The colour scale of a heatmap; high > low. */
typedef struct es_heat_scale {
    double low, high;
    es_colormap map;
    bool ends_matter; /* both ends of the scale are critical (for entropies),
                         not only the upper end */
} es_heat_scale;

/**
 * The layout of a heatmap. The area of one head is called a place; it is
 * `columns` characters wide and `halves` half characters high. A place has 2 x
 * 2, so that a row of text shows one layer, or 1 x 1, so that it shows two
 * layers; both look square. ASCII has no half characters, so each layer is a
 * row of text.
 */
typedef struct es_heat_layout {
    int n_layers, n_heads;
    int columns, halves; /* size of a place, in columns and half rows */
    /* Number of layers and heads merged in a place; 1 if all fit. */
    int layers_in, heads_in;
    int width, height; /* width in columns and height in rows of text */
} es_heat_layout;

/**
 * Returns the largest layout that fits into `width` columns and `height` rows,
 * both at least 1. Places have 2 x 2 only if `roomy`. If there is not enough
 * space even with 1 x 1, several adjacent layers or heads share a place.
 */
es_heat_layout es_heat_fit(int n_layers, int n_heads, int width, int height,
                           bool roomy, es_depth depth);

/** Sets *first and *last to the range of layers that row `row` of text
 *  shows. */
void es_heat_layers_of_row(const es_heat_layout *layout, int row, int *first,
                           int *last);

/**
 * Returns the value shown by a place that several heads share. NaN or infinity
 * of any head takes precedence. Otherwise the most critical value is shown: the
 * largest, or, if both ends of the scale matter, the one farthest from the
 * middle (the lower one if two are equally far). The result is missing if all
 * heads are missing.
 *
 *   values  (L,H)
 */
float es_heat_place(const float *values, const es_heat_layout *layout,
                    const es_heat_scale *scale, int layer, int head);

/**
 * Draws a heatmap of values (L,H) with its upper left corner at (x, y). NaN and
 * infinity are red, or a red cross if they fill the whole character; missing
 * values are blank.
 */
void es_heat_draw(es_screen *screen, int x, int y, const float *values,
                  const es_heat_layout *layout, const es_heat_scale *scale);

/** Draws the numbers of the layers to the left of column x, and the numbers of
 *  the heads in the row above y. */
void es_heat_draw_axes(es_screen *screen, int x, int y,
                       const es_heat_layout *layout);

#endif
