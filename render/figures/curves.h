/** Draws line charts: values over steps, tokens or layers. */
#ifndef ES_CURVES_H
#define ES_CURVES_H

#include "render/figures/axis.h"
#include "render/figures/theme.h"

/** Selects how a line is drawn. */
typedef enum es_pen {
    ES_PEN_NORMAL,
    /* A thin line that accompanies a main line of the same colour. */
    ES_PEN_THIN,
    ES_PEN_DASHED, /* a dashed line with marks */
    /* A line in the text colour, for example the mean of all lines. */
    ES_PEN_INK
} es_pen;

/** A line of a line chart. */
typedef struct es_curve {
    /* Name in the legend, such as "layer 3"; NULL: not in the legend. */
    const char *label;
    const int64_t *x;    /* (n) increasing; borrowed */
    const float *values; /* n values; NaN, infinite and missing values leave a
                            gap; NaN and infinity are also marked at the lower
                            edge */
    size_t n;
    const float *low, *high; /* n lower and n upper bounds of a shaded area,
                                which is drawn where both are finite; NULL: no
                                area */
    /* Trend of the line: a straight line, drawn dashed in the same colour, with
     * a shaded area between its low and high; borrowed; NULL: no trend */
    const struct es_curve *trend;
    /* n values: the values of the samples around which a ring is drawn, missing
     * for all other samples; NULL: no rings */
    const float *spikes;
    es_pen pen;
    size_t color; /* index of the colour, used with ES_CURVES_BY_CATEGORY */
} es_curve;

typedef struct es_curves_panel {
    const char *title, *subtitle; /* may be NULL */
    /* The n_curves lines; with ES_CURVES_BY_DEPTH, their order determines the
     * colours. */
    const es_curve *curves;
    size_t n_curves;
} es_curves_panel;

/** Selects how lines get their colours. */
typedef enum es_curves_colors {
    /* Line i of n has the colour at position i / (n - 1) of the colour map,
     * without the part of the map that is invisible on the page. */
    ES_CURVES_BY_DEPTH,
    ES_CURVES_BY_CATEGORY /* line i has colour `color` of the theme and one of
                             ES_N_MARKS marks, which are distinct in greyscale
                             too */
} es_curves_colors;

#define ES_N_MARKS 12

typedef struct es_curves {
    es_figure_style style;
    /* The n_panels panels, drawn side by side with one y scale. */
    const es_curves_panel *panels;
    size_t n_panels;
    /* Name of the y axis, such as "entropy (nats)"; may be NULL. */
    const char *y_text;
    es_labels y_labels; /* number format; ES_LABELS_COUNT: only whole numbers */
    bool logarithmic;   /* true for a logarithmic y axis; zeros are then drawn
                           on a separate line below the smallest power of ten */
    bool own_scales;    /* each panel has its own y scale */
    /* Upper limits of the y axes of the n_panels panels. The rest of the axis
     * is fitted to the values below the limit and need not begin at zero. Where
     * lines exceed the limit, an arrow above the plot shows their largest
     * value. A limit that is not finite is ignored; NULL: no limits. Several
     * panels with limits need own_scales. */
    const double *limits;
    const char *x_text; /* NULL: "step" */
    es_curves_colors colors;
    const char *line_text; /* title of the legend, such as "layer"; may be
                              NULL. Labels in the legend omit this word at
                              their beginning */
    /* Value at which a horizontal dashed line is drawn, such as the maximum
     * possible entropy; NaN: no line. */
    double reference;
    const char *reference_text; /* name of the dashed line; may be NULL */
    const char *note;           /* may be NULL */
} es_curves;

/**
 * Draws a line chart. Up to four panels are side by side, more are in several
 * rows.
 *
 *   out  owned by the caller
 *
 * All panels share one y scale, which begins at zero unless the values are far
 * from zero or the panel has a limit; curves of the same index have the same
 * colour in every panel. Panels also share the x axis, unless one panel would
 * then use less than a quarter of it. A single sample between gaps is drawn as
 * a dot, and so are the samples of a short line. Long series are reduced to the
 * minimum and maximum in each half point of width, so that a dip of one sample
 * stays visible. Where lines are identical, their dashes and their marks
 * alternate; identical samples between gaps are drawn side by side, which a key
 * below the panels explains. The legend is to the right of the panels, or below
 * them if it would take too much of the width; instead of a legend, many lines
 * coloured by depth have a colour bar. O(samples). Returns the same statuses as
 * es_heatmap_draw, and ES_EUSAGE for a negative value on a logarithmic scale.
 */
es_status es_curves_draw(es_picture **out, const es_curves *figure) ES_MUST_USE;

#endif
