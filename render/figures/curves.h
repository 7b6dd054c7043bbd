/** Lines: values over steps, tokens or layers. */
#ifndef ES_CURVES_H
#define ES_CURVES_H

#include "render/figures/axis.h"
#include "render/figures/theme.h"

/** How a line stands among the others. */
typedef enum es_pen {
    ES_PEN_NORMAL,
    ES_PEN_THIN,   /* behind the line of the same colour that counts */
    ES_PEN_STRONG, /* wide */
    ES_PEN_MARKS,  /* no line: too few samples for one to be true */
    ES_PEN_INK     /* the page's ink: stands for all lines, such as a mean */
} es_pen;

/** One line. */
typedef struct es_curve {
    const char *label;   /* "layer 3"; NULL: the legend leaves it out */
    const int64_t *x;    /* (n) increasing; borrowed */
    const float *values; /* (n) NaN, infinite and missing ones leave a gap;
                            all but the missing are marked on the axis */
    size_t n;
    const float *low, *high; /* (n) an area in a tint of the colour, where both
                                are finite; NULL: none */
    const struct es_curve *trend; /* a straight line, dashed, in the same
                                     colour, and the area of its low and high;
                                     borrowed; NULL: none */
    const float *spikes; /* (n) values that have a ring of their own, the
                            others missing; NULL: none */
    es_pen pen;
    size_t color; /* index among the colours, where ES_CURVES_BY_CATEGORY */
} es_curve;

typedef struct es_curves_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_curve *curves; /* (n_curves) by depth: colours follow the map */
    size_t n_curves;
} es_curves_panel;

/** What the colours mean. */
typedef enum es_curves_colors {
    ES_CURVES_BY_DEPTH,   /* curve i of n: the map from end to end */
    ES_CURVES_BY_CATEGORY /* colour `color` of the theme, and one of
                             ES_N_MARKS marks: apart in grey, too */
} es_curves_colors;

#define ES_N_MARKS 12

typedef struct es_curves {
    es_figure_style style;
    const es_curves_panel *panels; /* (n_panels) side by side, one y scale */
    size_t n_panels;
    const char *y_text; /* "entropy (nats)"; may be NULL */
    es_labels y_labels; /* ES_LABELS_COUNT: whole numbers alone */
    bool logarithmic;   /* y; zeros lie on a line of their own below the
                           decades */
    bool own_scales;    /* each panel its own y scale */
    double limit;       /* what is above it is cut, marked at the upper edge
                           and said below; 0 or not finite: nothing is */
    const char *x_text; /* NULL: "step" */
    es_curves_colors colors;
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
 * of the same index has the same colour in every panel. Panels share the x
 * axis too, unless one would be squeezed into less than a quarter of it. A
 * single sample between gaps is a dot, and so is each of a few. Long series
 * are decimated to the minimum and maximum of each half point of width, so a
 * one-sample dip stays visible. Lines that are equal take turns: stripes of
 * their colours, marks of one after the other, and equal samples between gaps
 * stand side by side; a key says so. The legend
 * stands beside the panels, or below them where it would take too much of the
 * width; 96 lines by depth have a colour bar. O(samples). Returns as
 * es_heatmap_draw; ES_EUSAGE too for a value below zero on a logarithmic scale.
 */
es_status es_curves_draw(es_picture **out, const es_curves *figure) ES_MUST_USE;

#endif
