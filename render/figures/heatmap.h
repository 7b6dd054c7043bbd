/** Layers by heads, in colours. */
#ifndef ES_HEATMAP_H
#define ES_HEATMAP_H

#include "render/figures/theme.h"

/** A small plot beside a panel that shares its layers: a dot for each. */
typedef struct es_heatmap_side {
    const char *text;    /* below: "mean" */
    const float *values; /* (L) borrowed; what is not finite has no dot */
    double low, high;    /* of its axis */
} es_heatmap_side;

/** One heatmap panel: a run at one step. */
typedef struct es_heatmap_panel {
    const char *title;    /* arch or name; may be NULL */
    const char *subtitle; /* "step 400" ...; may be NULL */
    const float *values;  /* (L,H), row 0 on top; borrowed; NaN hatched,
                             infinities hatched too, missing blank */
    int n_layers, n_heads;
} es_heatmap_panel;

typedef struct es_heatmap {
    es_figure_style style;
    const es_heatmap_panel *panels; /* (n_panels) any mixture of L and H */
    size_t n_panels;
    const es_heatmap_side *sides; /* (n_panels,n_sides) right of each panel */
    size_t n_sides;
    double low, high;         /* the one shared colour scale; values outside
                                 have the colour of its end. Not numbers, or
                                 high < low: there is no colour bar */
    bool logarithmic;         /* the colour scale is; then 0 < low */
    const char *scale_text;   /* beside it: "entropy (nats)"; may be NULL */
    const char *note;         /* below: "max = 3.87 (observed)"; may be NULL */
    const char *const *marks; /* (n_panels) or NULL: of each (L) a letter after
                                 a row's number, NUL: none there; or NULL */
} es_heatmap;

/**
 * Draws the panels side by side, more than four in several rows, in
 * es_colormap_levels colours of the map.
 *
 *   out  owned by the caller
 *
 * Every cell shows its value with two decimals (none where all are counts, as
 * many as the largest value needs elsewhere), or short where those do not
 * fit, or nothing where the cell is too small for legible letters. Titles and
 * the note are cut with an ellipsis where they do not fit. A narrow panel
 * takes up to 150 points for its title. ES_OK; ES_ENOMEM; ES_EUSAGE if the
 * requested size is too small for the content (the message says which is not),
 * no panel, or one below 1 x 1.
 */
es_status es_heatmap_draw(es_picture **out,
                          const es_heatmap *figure) ES_MUST_USE;

#endif
