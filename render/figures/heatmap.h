/** Heatmaps: a coloured cell for each head of each layer. */
#ifndef ES_HEATMAP_H
#define ES_HEATMAP_H

#include "render/figures/theme.h"

/** A small plot to the right of a panel, with a dot per layer. */
typedef struct es_heatmap_side {
    const char *text;    /* name below the plot: "mean" */
    const float *values; /* (L) borrowed; only finite values have a dot */
    double low, high;    /* ends of the axis */
} es_heatmap_side;

/** One panel: a run at one step. */
typedef struct es_heatmap_panel {
    const char *title;    /* architecture or name; may be NULL */
    const char *subtitle; /* "step 400" ...; may be NULL */
    const float *values;  /* (L,H) row 0 at the top; borrowed; NaN and infinity
                             are hatched, missing cells blank */
    int n_layers, n_heads;
} es_heatmap_panel;

typedef struct es_heatmap {
    es_figure_style style;
    const es_heatmap_panel *panels; /* (n_panels) L and H may differ */
    size_t n_panels;
    const es_heatmap_side *sides; /* (n_panels,n_sides) plots right of panels */
    size_t n_sides;
    double low, high;         /* ends of the shared colour scale, to which
                                 values are clamped. No colour bar if they are
                                 not finite or high < low */
    bool logarithmic;         /* colour scale; requires 0 < low */
    const char *scale_text;   /* "entropy (nats)"; may be NULL */
    const char *note;         /* below: "max = 3.87 (observed)"; may be NULL */
    const char *const *marks; /* (n_panels) or NULL; each (L) or NULL: a letter
                                 after each row's number, or NUL for none */
} es_heatmap;

/**
 * Draws the panels side by side, more than four in several rows, in
 * es_colormap_levels colours of the map.
 *
 *   out  owned by the caller
 *
 * Every cell shows its value: counts without decimals, other values with as
 * many as the largest value needs, usually two. If that does not fit, cells
 * show two significant digits, or nothing if legible letters do not fit. Titles
 * and the note are cut with an ellipsis if they do not fit. A narrow panel is
 * widened to at most 150 points for its title. Returns ES_OK; ES_ENOMEM;
 * ES_EUSAGE if the requested size is too small for the content (the message
 * names a size that is large enough), if there is no panel, or if a panel is
 * smaller than 1 x 1.
 */
es_status es_heatmap_draw(es_picture **out,
                          const es_heatmap *figure) ES_MUST_USE;

#endif
