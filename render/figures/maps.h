/** Square maps of attention: mean weights of queries by keys, in colours. */
#ifndef ES_RENDER_MAPS_H
#define ES_RENDER_MAPS_H

#include "render/figures/theme.h"

/** One map. */
typedef struct es_map_panel {
    const char *title, *subtitle; /* may be NULL */
    const float *values; /* (size,size) query 0 on top; borrowed; what is not
                            finite in the alarm's colour, missing blank; NULL:
                            there is no map, an empty panel */
    int size;
    int n_ctx; /* tokens along each side */
} es_map_panel;

typedef struct es_map_figure {
    es_figure_style style;
    const es_map_panel *panels; /* (n_panels) */
    size_t n_panels;
    double low, high; /* the one scale, as a heatmap's */
    bool logarithmic;
    const char *scale_text; /* beside the colour bar; may be NULL */
    const char *note;       /* may be NULL */
} es_map_figure;

/** Draws the panels in rows, small ones without axes where there are more than
 *  24. Returns as es_heatmap_draw. */
es_status es_maps_draw(es_picture **out,
                       const es_map_figure *figure) ES_MUST_USE;

#endif
