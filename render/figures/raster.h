/** Draws rasters: every layer and every head of a run is a row of colours over
 *  the steps. */
#ifndef ES_RASTER_H
#define ES_RASTER_H

#include "render/figures/color_scale.h"
#include "render/figures/theme.h"

/** A grid of values: rows (layers or heads) by columns of time. */
typedef struct es_raster_grid {
    const float *values; /* values of shape (n_rows,n_columns), row 0 at the
                            top; borrowed; NaN and infinity have the alarm
                            colour, missing cells are blank */
    const float *levels; /* reference level of each row; merged cells show the
                            value farthest from this level */
    size_t n_rows;       /* 0: no grid */
} es_raster_grid;

/** The panel of one run: the image of its layers, and below it the image of its
 *  heads, layer by layer. */
typedef struct es_raster_panel {
    const char *title, *subtitle; /* may be NULL */
    es_raster_grid layers, heads;
    size_t n_columns;   /* number of columns of both grids */
    double left, right; /* steps at the left edge of the first column and the
                           right edge of the last */
    /* Steps of the first and the last sample; ticks lie between them. */
    double first, last;
} es_raster_panel;

typedef struct es_raster {
    es_figure_style style;
    const es_raster_panel *panels; /* array of n_panels panels, drawn side by
                                      side */
    size_t n_panels;
    double low, high; /* ends of the shared colour scale, as in a heatmap */
    bool logarithmic;
    const char *scale_text; /* name of the colour bar; may be NULL */
    const char *note;       /* may be NULL */
} es_raster;

/** Maximum number of cells per point in the width and height of an image. If
 *  there are more, cells are merged, because the program draws at most this
 *  many pixels per point. */
#define ES_RASTER_DENSITY 2.0

/** Returns true if `value` takes precedence over `best` when cells of a row
 *  with reference level `level` are merged, by the rules of es_raster_join. */
bool es_raster_wins(float value, float best, double level);

/**
 * Merges the cells of an area into one value. NaN and infinity take precedence
 * over finite values; among finite values, the value farthest from the
 * reference level of its row takes precedence; any value takes precedence over
 * a missing one. Therefore neither a dip of one sample nor a NaN is lost.
 *
 *   from, to  rows and columns [from, to) of `grid`, which has n_columns
 */
float es_raster_join(const es_raster_grid *grid, size_t n_columns,
                     const size_t from[2], const size_t to[2]);

/**
 * Draws the rasters of all panels side by side. Columns and rows that have a
 * NaN or an infinity are also marked at the upper and right edges, so that even
 * a single such cell is noticed.
 *
 * Returns the same statuses as es_heatmap_draw.
 */
es_status es_raster_draw(es_picture **out, const es_raster *figure) ES_MUST_USE;

#endif
