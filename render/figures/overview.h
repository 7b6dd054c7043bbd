/** An overview of runs, one row each: settings, a value, heads, layers, flags,
 *  status. */
#ifndef ES_OVERVIEW_H
#define ES_OVERVIEW_H

#include "render/figures/axis.h"

/** Parts of a bar of heads: the four quarters of m, and NaN or infinite. */
#define ES_OVERVIEW_SHARES 5

/** A column of text. */
typedef struct es_overview_column {
    const char *title;
    bool number; /* aligned right */
} es_overview_column;

/** An episode of a flag. */
typedef struct es_overview_flag {
    double from, to; /* steps */
    es_level level;
} es_overview_flag;

/** A text in the colour of a level. */
typedef struct es_overview_word {
    const char *text; /* NULL: unknown */
    es_level level;
} es_overview_word;

typedef struct es_overview_row {
    const char *const *texts;          /* (n_columns) NULL: a dash */
    float value;                       /* NaN is marked; missing is a dash */
    double low, high;                  /* range of value; none if low >= high */
    bool nonfinite;                    /* a value of several is not finite */
    double shares[ES_OVERVIEW_SHARES]; /* fractions; no bar if all are 0 */
    const float *layers; /* (n_layers) layer 0 at the left; NaN and
                            infinity have the alarm colour */
    size_t n_layers;
    const es_overview_flag *flags; /* (n_flags) drawn in this order */
    size_t n_flags;
    double last, planned; /* steps; NaN if unknown */
    es_overview_word flag, status;
} es_overview_row;

typedef struct es_overview {
    es_figure_style style;
    const es_overview_column *columns; /* (n_columns) */
    size_t n_columns;
    const es_overview_row *rows; /* (n_rows) from the top */
    size_t n_rows;
    size_t n_more;          /* further rows that are only counted */
    const char *row_word;   /* noun for a row: "run" */
    const char *value_text; /* "perplexity" */
    const char *heads_text, *layers_text; /* titles of those columns */
    double low, high; /* colour scale of the layers, as in a heatmap */
    bool logarithmic;
    const char *scale_text; /* of the layers: "entropy (nats)"; or NULL */
    const char *note;       /* may be NULL */
    bool heads_only; /* only settings, and wide bars of heads with numbers */
} es_overview;

/**
 * Draws the rows, each ten points high.
 *
 *   out  owned by the caller
 *
 * With four or more values, a value above ten times the upper quartile would
 * squeeze the others together, so it is an arrow at the end of the scale. The
 * scale is logarithmic if its largest value is more than twenty times its
 * smallest. All rows share the scales, and a layer has the same place in every
 * row. If a height is requested, rows without space are left out, and the last
 * line says how many. O(rows (columns + layers + flags)). Returns as
 * es_heatmap_draw.
 */
es_status es_overview_draw(es_picture **out,
                           const es_overview *figure) ES_MUST_USE;

#endif
