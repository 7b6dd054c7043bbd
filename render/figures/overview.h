/** Draws an overview of runs with one row per run: settings, a value, heads,
 *  layers, flags and status. */
#ifndef ES_OVERVIEW_H
#define ES_OVERVIEW_H

#include "render/figures/axis.h"

/** Number of parts of the bar that shows a run's heads: one for each quarter of
 *  the range from 0 to m, the largest entropy, and one for NaN and infinity. */
#define ES_OVERVIEW_SHARES 5

/** A text column of the overview. */
typedef struct es_overview_column {
    const char *title;
    bool number; /* aligned right */
} es_overview_column;

/** The period of steps during which a flag was raised. */
typedef struct es_overview_flag {
    double from, to; /* steps */
    es_level level;
} es_overview_flag;

/** A text that is drawn in the colour of a severity level. */
typedef struct es_overview_word {
    const char *text; /* NULL: unknown */
    es_level level;
} es_overview_word;

typedef struct es_overview_row {
    /* (n_columns) text for each column; NULL: a dash. */
    const char *const *texts;
    /* Value of the run. A NaN is drawn as a mark, es_missing() as a dash. */
    float value;
    /* Range of the value over seeds; no range if low >= high. */
    double low, high;
    /* The value is a mean over seeds, one of which is NaN or infinite. */
    bool nonfinite;
    /* Fraction of the heads in each segment of the bar; no bar if all are 0. */
    double shares[ES_OVERVIEW_SHARES];
    const float *layers; /* (n_layers) values, layer 0 at the left; NaN and
                            infinity have the alarm colour */
    size_t n_layers;
    const es_overview_flag *flags; /* (n_flags) flags, drawn in this order */
    size_t n_flags;
    double last, planned; /* last step and planned last step; NaN if unknown */
    es_overview_word flag, status;
} es_overview_row;

typedef struct es_overview {
    es_figure_style style;
    const es_overview_column *columns; /* (n_columns) */
    size_t n_columns;
    const es_overview_row *rows; /* (n_rows) rows, from the top */
    size_t n_rows;
    /* Number of further rows, which are not in `rows` and not drawn. */
    size_t n_more;
    const char *row_word;   /* noun for a row in texts, such as "run" */
    const char *value_text; /* "perplexity" */
    /* Titles of the column that shows the heads and of the column that shows
     * the layers. */
    const char *heads_text, *layers_text;
    /* Ends of the colour scale of the layers, as in a heatmap. */
    double low, high;
    bool logarithmic;
    /* Name of the layers' values, such as "entropy (nats)"; or NULL. */
    const char *scale_text;
    const char *note; /* may be NULL */
    /* Draw only the columns of settings, and wide bars that show the heads of
     * each run with percentages. */
    bool heads_only;
} es_overview;

/**
 * Draws the overview, with rows that are ten points high.
 *
 *   out  owned by the caller
 *
 * If there are four or more values, a value above ten times the upper quartile
 * is drawn as an arrow at the end of the scale, so that it does not squeeze the
 * others together. The scale is logarithmic if its largest value is more than
 * twenty times its smallest. All rows share the scales, and a layer has the
 * same horizontal position in every row. If a height is requested, rows that do
 * not fit are left out, and the last line reports their number. Takes time
 * O(rows * (columns + layers + flags)). Returns the same statuses as
 * es_heatmap_draw.
 */
es_status es_overview_draw(es_picture **out,
                           const es_overview *figure) ES_MUST_USE;

#endif
