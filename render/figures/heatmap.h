/** Draws heatmaps, with a coloured cell for each head of each layer. */
#ifndef ES_HEATMAP_H
#define ES_HEATMAP_H

#include "render/figures/theme.h"

/** A small plot to the right of a heatmap, with one dot per layer. */
typedef struct es_heatmap_side {
    const char *text; /* name below the plot, such as "mean" */
    /* One value for each layer; borrowed. Values that are not finite have no
     * dot. */
    const float *values;
    double low, high; /* ends of the axis */
} es_heatmap_side;

/** One panel of the chart: the heatmap of a run at one step. */
typedef struct es_heatmap_panel {
    const char *title;    /* architecture or name of the run; may be NULL */
    const char *subtitle; /* such as "step 400"; may be NULL */
    const float *values;  /* values (L,H), layer 0 at the top; borrowed; NaN and
                             infinity are hatched, missing cells are blank */
    int n_layers, n_heads;
} es_heatmap_panel;

typedef struct es_heatmap {
    es_figure_style style;
    /* Panels (n_panels); L and H may differ between them. */
    const es_heatmap_panel *panels;
    size_t n_panels;
    /* Small plots to the right of the panels; (n_panels,n_sides). */
    const es_heatmap_side *sides;
    size_t n_sides;
    double low, high; /* ends of the shared colour scale; values outside
                         are clamped. There is no colour bar if an end
                         is not finite or high < low */
    bool logarithmic; /* logarithmic colour scale; requires low > 0 */
    /* Name of the colour bar, such as "entropy (nats)"; may be NULL. */
    const char *scale_text;
    /* Note below the chart, such as "max = 3.87 (observed)"; may be NULL. */
    const char *note;
    /* One list of letters for each panel, or NULL. A list is NULL or has one
     * letter for each layer, which is printed after the number of the layer. */
    const char *const *marks;
} es_heatmap;

/**
 * Draws the heatmaps of all panels: up to four side by side, more in several
 * rows. Each cell has one of the es_colormap_levels colours of the colour map.
 *
 *   out  owned by the caller
 *
 * Every cell shows its value: counts without decimals, other values with the
 * number of decimals that suits the largest value, usually two. If these
 * numbers do not fit, cells show two significant digits, or no number if it
 * would not be legible. Titles and the note are cut with an ellipsis if they do
 * not fit. A narrow panel is widened to at most 150 points for its title.
 * Returns ES_OK; ES_ENOMEM; ES_EUSAGE if the requested size is too small for
 * the content (the message names a size that is large enough), if there is no
 * panel, or if a panel is smaller than 1 x 1.
 */
es_status es_heatmap_draw(es_picture **out,
                          const es_heatmap *figure) ES_MUST_USE;

#endif
