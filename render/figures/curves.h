/** Lines over the steps. */
#ifndef ES_CURVES_H
#define ES_CURVES_H

#include "render/figures/figure.h"

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
