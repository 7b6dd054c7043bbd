/** The heatmap on the terminal: layers x heads in half character cells. */
#ifndef ES_HEAT_H
#define ES_HEAT_H

#include "cli/terminal/screen.h"

#include <stddef.h>

/** A colour scale; high > low. */
typedef struct es_heat_scale {
    double low, high;
    es_colormap map;
    bool ends_matter; /* both ends indicate trouble (entropies), not only the
                         top */
} es_heat_scale;

/**
 * The layout of layers and heads. A place, which shows a head, is `columns`
 * characters wide and `halves` half characters high: 2 x 2, with one layer per
 * row of text, or 1 x 1, with two layers per row; both look square. ASCII has
 * no half characters, so each layer is a row of text.
 */
typedef struct es_heat_layout {
    int n_layers, n_heads;
    int columns, halves;     /* size of a place */
    int layers_in, heads_in; /* merged in a place; 1 if all fit */
    int width, height;       /* in columns and rows of text */
} es_heat_layout;

/**
 * Returns the largest layout that fits into width x height, both >= 1; 2 x 2
 * only if `roomy`. If even 1 x 1 does not fit, adjacent layers or heads share a
 * place.
 */
es_heat_layout es_heat_fit(int n_layers, int n_heads, int width, int height,
                           bool roomy, es_depth depth);

/** Sets the layers first..last that are in row `row` of text. */
void es_heat_layers_of_row(const es_heat_layout *layout, int row, int *first,
                           int *last);

/**
 * Returns the value that a place of several heads shows: NaN or infinity if a
 * head has it; otherwise the most critical value, which is the largest, or, if
 * both ends matter, the one farthest from the middle of the scale (the lower of
 * two equal ones); missing if all heads are missing.
 *
 *   values  (L,H)
 */
float es_heat_place(const float *values, const es_heat_layout *layout,
                    const es_heat_scale *scale, int layer, int head);

/**
 * Draws values (L,H) with the upper left corner at (x, y). NaN and infinity are
 * red (a cross if they fill the whole character), missing values are blank.
 */
void es_heat_draw(es_screen *screen, int x, int y, const float *values,
                  const es_heat_layout *layout, const es_heat_scale *scale);

/** Draws the layers' numbers left of column x, and the heads' numbers in the
 * row above y. */
void es_heat_draw_axes(es_screen *screen, int x, int y,
                       const es_heat_layout *layout);

#endif
