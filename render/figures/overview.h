/** Runs, one line each: settings, a value, heads, layers, flags, status. */
#ifndef ES_OVERVIEW_H
#define ES_OVERVIEW_H

#include "render/figures/axis.h"

/** Parts of a bar of heads: the quarters of m, and what is not finite. */
#define ES_OVERVIEW_SHARES 5

/** A column of text. */
typedef struct es_overview_column {
    const char *title;
    bool number; /* stands to the right */
} es_overview_column;

/** A stretch of the training in which something was wrong. */
typedef struct es_overview_flag {
    double from, to; /* steps */
    es_level level;
} es_overview_flag;

/** A text in the colour of a level. */
typedef struct es_overview_word {
    const char *text; /* NULL: nothing is known */
    es_level level;
} es_overview_word;

typedef struct es_overview_row {
    const char *const *texts;          /* (n_columns) NULL: a dash */
    float value;                       /* NaN is marked; missing is a dash */
    double low, high;                  /* a line beside it; low >= high: none */
    bool nonfinite;                    /* of several values some are */
    double shares[ES_OVERVIEW_SHARES]; /* of 1; all 0: there is no bar */
    const float *layers;               /* (n_layers) layer 0 left; what is not
                                          finite in the alarm's colour */
    size_t n_layers;
    const es_overview_flag *flags; /* (n_flags) later ones over earlier */
    size_t n_flags;
    double last, planned; /* steps; NaN: unknown */
    es_overview_word flag, status;
} es_overview_row;

typedef struct es_overview {
    es_figure_style style;
    const es_overview_column *columns; /* (n_columns) */
    size_t n_columns;
    const es_overview_row *rows; /* (n_rows) from the top */
    size_t n_rows;
    size_t n_more;          /* further ones, which are only counted */
    const char *row_word;   /* what a row is: "run" */
    const char *value_text; /* "perplexity" */
    const char *heads_text, *layers_text; /* above those columns */
    double low, high; /* the one scale of the layers, as a heatmap's */
    bool logarithmic;
    const char *scale_text; /* of the layers: "entropy (nats)"; may be NULL */
    const char *note;       /* may be NULL */
    bool heads_only; /* the settings, and wide bars of heads with numbers */
} es_overview;

/**
 * Draws the lines below each other, each ten points high.
 *
 *   out  owned by the caller
 *
 * Of four values and more one above ten times the upper quartile would leave
 * the others no scale: it is an arrow at the end of it. The scale is
 * logarithmic where its largest is more than twenty times its least. All rows
 * share the scales, and a layer has the same place in each of them. Where a
 * height is requested rows that have no space are left out; the last line says
 * how many there are besides. O(rows (columns + layers + flags)). Returns as
 * es_heatmap_draw.
 */
es_status es_overview_draw(es_picture **out,
                           const es_overview *figure) ES_MUST_USE;

#endif
