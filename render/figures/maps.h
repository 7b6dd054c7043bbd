/** Draws attention maps: square images of the mean attention weights, queries
 *  by keys. */
#ifndef ES_RENDER_MAPS_H
#define ES_RENDER_MAPS_H

#include "render/figures/theme.h"

/** One map. */
typedef struct es_map_panel {
    const char *title, *subtitle; /* may be NULL */
    const float *values; /* weights of shape (size,size), query 0 at the top;
                            borrowed; NaN and infinity have the alarm colour,
                            missing cells are blank; NULL: no map, the panel is
                            empty */
    int size;
    int n_ctx; /* number of tokens along each side */
} es_map_panel;

typedef struct es_map_figure {
    es_figure_style style;
    const es_map_panel *panels; /* (n_panels) */
    size_t n_panels;
    double low, high; /* ends of the shared colour scale, as in a heatmap */
    bool logarithmic;
    const char *scale_text; /* name of the colour bar; may be NULL */
    const char *note;       /* may be NULL */
} es_map_figure;

/**
 * Draws the panels in rows. If there are more than 24 panels, they are small
 * and have no axes. Returns the same statuses as es_heatmap_draw.
 */
es_status es_maps_draw(es_picture **out,
                       const es_map_figure *figure) ES_MUST_USE;

#endif
