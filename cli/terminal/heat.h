/** The heatmap: layers x heads in half character cells. */
#ifndef ES_HEAT_H
#define ES_HEAT_H

#include "cli/terminal/screen.h"

#include <stddef.h>

/** A colour scale; high > low. */
typedef struct es_heat_scale {
    double low, high;
    es_colormap map;
    bool ends_matter; /* both ends are trouble (entropies), not only the top */
} es_heat_scale;

/**
 * How layers and heads are laid out. In half cells a place is `columns` wide
 * and `halves` high: 2 x 2, where one layer is a row of text, or 1 x 1, where
 * two are; both look square. ASCII has no halves: a layer is a row of text.
 */
typedef struct es_heat_layout {
    int n_layers, n_heads;
    int columns, halves;     /* of a place */
    int layers_in, heads_in; /* of one place: 1, unless they do not fit */
    int width, height;       /* columns and rows of text that are taken */
} es_heat_layout;

/**
 * The largest layout that fits into width x height, both >= 1: 2 x 2 only
 * if `roomy`. Where even 1 x 1 does not fit, neighbouring layers or heads share
 * a place.
 */
es_heat_layout es_heat_fit(int n_layers, int n_heads, int width, int height,
                           bool roomy, es_depth depth);

/** Layers first..last that row `row` of text shows. */
void es_heat_layers_of_row(const es_heat_layout *layout, int row, int *first,
                           int *last);

/**
 * What a place of several heads shows: NaN or infinity if one is; else the
 * one that is most in trouble, which is the largest, or, where both ends
 * matter, the one farthest from the middle of the scale (of two, the lower);
 * missing if all are.
 *
 *   values  (L,H)
 */
float es_heat_place(const float *values, const es_heat_layout *layout,
                    const es_heat_scale *scale, int layer, int head);

/**
 * Draws values (L,H) with the upper left corner at (x, y): NaN and infinities
 * red (a cross where a row shows one layer, or both are), missing blank.
 */
void es_heat_draw(es_screen *screen, int x, int y, const float *values,
                  const es_heat_layout *layout, const es_heat_scale *scale);

/** Numbers of layers left of the rows, ending before column x, and of heads
 *  in the row above. */
void es_heat_draw_axes(es_screen *screen, int x, int y,
                       const es_heat_layout *layout);

#endif
