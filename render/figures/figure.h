/** The figures: from numbers to a display list. */
#ifndef ES_FIGURE_H
#define ES_FIGURE_H

#include "render/colormap.h"
#include "render/picture.h"

/** What all figures share. Zero is a good default for every member. */
typedef struct es_figure_style {
    const char *title;    /* NULL: none beyond the panels' own */
    double width, height; /* points; 0: what the content wants. With one of
                             them given the content is scaled evenly */
    es_colormap colormap;
} es_figure_style;

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
    double low, high;       /* the one shared colour scale; values outside
                               have the colour of its end. Not numbers, or
                               high < low: there is no colour bar */
    const char *scale_text; /* beside it: "entropy (nats)"; may be NULL */
    const char *note;       /* below: "max = 3.87 (observed)"; may be NULL */
} es_heatmap;

/**
 * Draws the panels side by side, more than four in several rows, in 128
 * colours of the map.
 *
 *   out  owned by the caller
 *
 * Every cell shows its value with two decimals, or short where those do not
 * fit, or none where the cell is too small for legible letters. Titles and the
 * note are cut with an ellipsis where they have no room. A narrow panel takes
 * up to 150 points for its title.
 * ES_OK; ES_ENOMEM; ES_EUSAGE if the asked size has no room for the content
 * (the message says which has), no panel, or one below 1 x 1.
 */
es_status es_heatmap_draw(es_picture **out,
                          const es_heatmap *figure) ES_MUST_USE;

/** One line: values over steps. */
typedef struct es_curve {
    const char *label;    /* "layer 3" */
    const int64_t *steps; /* (n) increasing; borrowed */
    const float *values;  /* (n) NaN, infinite and missing ones leave a gap;
                             all but the missing are marked on the axis */
    size_t n;
} es_curve;

typedef struct es_curves_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_curve *curves; /* (n_curves) by depth: colours follow the map */
    size_t n_curves;
} es_curves_panel;

typedef struct es_curves {
    es_figure_style style;
    const es_curves_panel *panels; /* (n_panels) side by side, one y scale */
    size_t n_panels;
    const char *y_text;         /* "entropy (nats)"; may be NULL */
    const char *line_text;      /* what the colours mean: "layer"; may be NULL.
                                   Labels that begin with it show the rest */
    double reference;           /* a dashed line, e.g. the ceiling; NaN: none */
    const char *reference_text; /* may be NULL */
    const char *note;           /* may be NULL */
} es_curves;

/**
 * Draws the panels side by side, more than four in several rows.
 *
 *   out  owned by the caller
 *
 * One y scale for all, from zero unless the values are far from it; a curve
 * of the same index has the same colour in every panel. Panels share the step
 * axis too, unless one would be squeezed into less than a quarter of it. A
 * single sample between gaps is a dot. Long series are decimated to the
 * minimum and maximum of each half point of width, so a one-sample dip stays
 * visible. O(samples); 96 lines have a colour bar instead of a legend.
 * Returns as es_heatmap_draw.
 */
es_status es_curves_draw(es_picture **out, const es_curves *figure) ES_MUST_USE;

#endif
