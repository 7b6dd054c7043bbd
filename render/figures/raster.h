/** Rows over steps, in colours: every layer and every head of a run. */
#ifndef ES_RASTER_H
#define ES_RASTER_H

#include "render/figures/color_scale.h"
#include "render/figures/theme.h"

/** Rows of values over the columns of time. */
typedef struct es_raster_grid {
    const float *values; /* (n_rows,n_columns) row 0 on top; borrowed; what is
                            not finite in the alarm's colour, missing blank */
    const float *levels; /* (n_rows) each row's own, from which a joined column
                            shows the farthest value */
    size_t n_rows;       /* 0: there is no such grid */
} es_raster_grid;

/** A run: its layers, and below them its heads, layer after layer. */
typedef struct es_raster_panel {
    const char *title, *subtitle; /* may be NULL */
    es_raster_grid layers, heads;
    size_t n_columns;   /* of both */
    double left, right; /* steps at the left edge of the first column and the
                           right edge of the last */
    double first, last; /* the samples': ticks are at steps between them */
} es_raster_panel;

typedef struct es_raster {
    es_figure_style style;
    const es_raster_panel *panels; /* (n_panels) side by side */
    size_t n_panels;
    double low, high; /* the one scale, as a heatmap's */
    bool logarithmic;
    const char *scale_text; /* beside the colour bar; may be NULL */
    const char *note;       /* may be NULL */
} es_raster;

/** Pixels of an image a point: cells are joined until no device of the
 *  program's has fewer. */
#define ES_RASTER_DENSITY 2.0

/** True if `value` is shown rather than `best`, both of a row with this
 *  level; see es_raster_join. */
bool es_raster_wins(float value, float best, double level);

/**
 * Joins the cells of an area into one: what is not finite wins over any
 * value, the value farthest from its row's level over the others, and
 * anything over missing. So neither a dip of one sample nor a NaN is lost.
 *
 *   from, to  rows and columns [from, to) of `grid`, which has n_columns
 */
float es_raster_join(const es_raster_grid *grid, size_t n_columns,
                     const size_t from[2], const size_t to[2]);

/**
 * Draws the panels side by side. Columns and rows with something not finite
 * are marked at the upper and right edges too: one such cell is found.
 *
 * Returns as es_heatmap_draw.
 */
es_status es_raster_draw(es_picture **out, const es_raster *figure) ES_MUST_USE;

#endif
