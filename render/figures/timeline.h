/** Draws timelines: series, flags and events of a run over the steps. */
#ifndef ES_TIMELINE_H
#define ES_TIMELINE_H

#include "render/figures/theme.h"

/** A small plot of one series, above the lanes. */
typedef struct es_timeline_plot {
    const char *text;     /* "max_logit" */
    const int64_t *steps; /* (n) increasing; borrowed */
    const float *values;  /* the values at these steps; NaN and infinity are
                             marked at the bottom, missing values are gaps */
    size_t n;
    bool logarithmic; /* logarithmic y axis; values <= 0 are at the bottom */
} es_timeline_plot;

/** A period in which a flag was raised, drawn as a bar in the lane of its
 *  kind. */
typedef struct es_timeline_bar {
    size_t lane;
    double from, to;
    es_level level;
    /* Text on the bar, or after the bar if it fits there: "L2-8". */
    const char *text;
} es_timeline_bar;

/** An event at a step, drawn as a mark in the lane for events. */
typedef struct es_timeline_mark {
    double step;
    es_level level;
    const char *text; /* text next to the mark, if it fits */
} es_timeline_mark;

typedef struct es_timeline_panel {
    const char *title, *subtitle;  /* may be NULL */
    const es_timeline_plot *plots; /* (n_plots) */
    size_t n_plots;
    /* The n_bars flags, sorted by lane and then by step. */
    const es_timeline_bar *bars;
    size_t n_bars;
    const es_timeline_mark *marks; /* the n_marks events, sorted by step */
    size_t n_marks;
    /* Text below the panel, such as the order of the first flags, "collapse 130
       -> nan 158"; may be NULL. */
    const char *order;
    double first, last; /* first and last step of the x axis */
} es_timeline_panel;

typedef struct es_timeline {
    es_figure_style style;
    const es_timeline_panel *panels; /* (n_panels) */
    size_t n_panels;
    /* Names of the n_lanes lanes of every panel, from the top. */
    const char *const *lanes;
    size_t n_lanes;
} es_timeline;

/**
 * Draws the timelines, two panels per row. A vertical line through the plots
 * shows where the first flag of each lane was raised. Long series are reduced
 * to the smallest and the largest value of each half point of width.
 *
 * Returns the same statuses as es_heatmap_draw.
 */
es_status es_timeline_draw(es_picture **out,
                           const es_timeline *figure) ES_MUST_USE;

#endif
