/** Where everything of a raster goes. */
#ifndef ES_RASTER_INTERNAL_H
#define ES_RASTER_INTERNAL_H

#include "render/figures/figure_internal.h"
#include "render/figures/raster.h"

/** One panel on the page. */
typedef struct es_raster_block {
    const es_raster_panel *panel;
    es_box layers, heads; /* the images; a height of 0: none */
} es_raster_block;

typedef struct es_raster_sheet {
    const es_raster *figure;
    const es_colors *colors;
    es_color_scale scale;
    es_raster_block *blocks; /* (n_panels) */
    size_t n_rows, n_columns;
    double width, height; /* of the page */
    double top, head;     /* heights of the titles: figure's, panels' */
    double left;          /* of each plot: labels of the layers */
    double footer;
    double bar_x, bar_y, bar_height, bar_room;
    bool nonfinite, missing; /* there is something to explain */
} es_raster_sheet;

#define ES_RASTER_MARK 3.0 /* width of the marks at the edges */
#define ES_RASTER_GAP 9.0  /* between the images */

/** As es_heatmap_lay_out. */
es_status es_raster_lay_out(es_raster_sheet *out,
                            const es_raster *figure) ES_MUST_USE;

void es_raster_sheet_clear(es_raster_sheet *sheet);

#endif
