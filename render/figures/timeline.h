/** Timelines: series, flags and events of a run over the steps. */
#ifndef ES_TIMELINE_H
#define ES_TIMELINE_H

#include "render/figures/theme.h"

/** A small plot above the lanes. */
typedef struct es_timeline_plot {
    const char *text;     /* "max_logit" */
    const int64_t *steps; /* (n) increasing; borrowed */
    const float *values;  /* (n) NaN and infinity are marked at the bottom;
                             missing values are gaps */
    size_t n;
    bool logarithmic; /* values <= 0 are at the bottom */
} es_timeline_plot;

/** An episode of a flag: a bar in the lane of its kind. */
typedef struct es_timeline_bar {
    size_t lane;
    double from, to;
    es_level level;
    const char *text; /* on the bar or after it, if it fits: "L2-8" */
} es_timeline_bar;

/** An event at a step. */
typedef struct es_timeline_mark {
    double step;
    es_level level;
    const char *text; /* next to the mark, if it fits */
} es_timeline_mark;

typedef struct es_timeline_panel {
    const char *title, *subtitle;  /* may be NULL */
    const es_timeline_plot *plots; /* (n_plots) */
    size_t n_plots;
    const es_timeline_bar *bars; /* (n_bars) by lane, then by step */
    size_t n_bars;
    const es_timeline_mark *marks; /* (n_marks) by step */
    size_t n_marks;
    const char *order;  /* below: "collapse 130 -> nan 158"; may be NULL */
    double first, last; /* steps of the axis */
} es_timeline_panel;

typedef struct es_timeline {
    es_figure_style style;
    const es_timeline_panel *panels; /* (n_panels) */
    size_t n_panels;
    const char *const *lanes; /* (n_lanes) of every panel, from the top */
    size_t n_lanes;
} es_timeline;

/**
 * Draws the panels, two per row. The first onset of each lane is a vertical
 * line through the plots. Long series are decimated to the smallest and the
 * largest value of each half point of width.
 *
 * Returns as es_heatmap_draw.
 */
es_status es_timeline_draw(es_picture **out,
                           const es_timeline *figure) ES_MUST_USE;

#endif
