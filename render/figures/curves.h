/** Line charts: values over steps, tokens or layers. */
#ifndef ES_CURVES_H
#define ES_CURVES_H

#include "render/figures/axis.h"
#include "render/figures/theme.h"

/** The style of a line. */
typedef enum es_pen {
    ES_PEN_NORMAL,
    ES_PEN_THIN,   /* secondary to another line of the same colour */
    ES_PEN_STRONG, /* a wide line */
    ES_PEN_MARKS,  /* only marks: too few samples for a line */
    ES_PEN_INK     /* in the page's ink, e.g. a mean of all lines */
} es_pen;

/** A line of a chart. */
typedef struct es_curve {
    const char *label;   /* "layer 3"; NULL: not in the legend */
    const int64_t *x;    /* (n) increasing; borrowed */
    const float *values; /* (n) NaN, infinite and missing values leave a gap;
                            NaN and infinity are marked on the axis */
    size_t n;
    const float *low, *high; /* (n) bounds of a shaded area, drawn where both
                                are finite; NULL: no area */
    const struct es_curve *trend; /* a straight line, drawn dashed in the same
                                     colour with the area of its low and high;
                                     borrowed; NULL: no trend */
    const float *spikes; /* (n) values to be ringed; the others are missing;
                            NULL: no rings */
    es_pen pen;
    size_t color; /* index of the colour for ES_CURVES_BY_CATEGORY */
} es_curve;

typedef struct es_curves_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_curve
        *curves; /* (n_curves) in the order of the colours by depth */
    size_t n_curves;
} es_curves_panel;

/** How colours are assigned. */
typedef enum es_curves_colors {
    ES_CURVES_BY_DEPTH,   /* curve i of n has a colour of the colour map */
    ES_CURVES_BY_CATEGORY /* colour `color` of the theme and one of ES_N_MARKS
                             marks, which are distinct in greyscale too */
} es_curves_colors;

#define ES_N_MARKS 12

typedef struct es_curves {
    es_figure_style style;
    const es_curves_panel *panels; /* (n_panels) side by side, one y scale */
    size_t n_panels;
    const char *y_text; /* "entropy (nats)"; may be NULL */
    es_labels y_labels; /* ES_LABELS_COUNT: only whole numbers */
    bool logarithmic;   /* y axis; zeros get a separate line below the
                           decades */
    bool own_scales;    /* each panel has its own y scale */
    double limit;       /* larger values are clipped, marked at the upper edge
                           and noted below; 0 or not finite: no limit */
    const char *x_text; /* NULL: "step" */
    es_curves_colors colors;
    const char *line_text;      /* legend title: "layer"; may be NULL. It is
                                   removed from the front of labels */
    double reference;           /* a dashed line, e.g. the ceiling; or NaN */
    const char *reference_text; /* may be NULL */
    const char *note;           /* may be NULL */
} es_curves;

/**
 * Draws the panels side by side, more than four in several rows.
 *
 *   out  owned by the caller
 *
 * All panels share one y scale, which begins at zero unless the values are far
 * from it; curves of the same index have the same colour in every panel. Panels
 * also share the x axis, unless one panel would then use less than a quarter of
 * it. A single sample between gaps is a dot, and so are the samples of a short
 * line. Long series are decimated to the minimum and maximum of each half point
 * of width, so that a dip of one sample stays visible. Identical lines
 * alternate dashes of their colours and their marks, and identical samples
 * between gaps are drawn side by side; a key explains both. The legend is to
 * the right of the panels, or below them if it would take too much of the
 * width; many lines by depth have a colour bar. O(samples). Returns as
 * es_heatmap_draw, and ES_EUSAGE for a negative value on a logarithmic scale.
 */
es_status es_curves_draw(es_picture **out, const es_curves *figure) ES_MUST_USE;

#endif
