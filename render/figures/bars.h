/** Bars in groups, side by side or on top of each other. */
#ifndef ES_BARS_H
#define ES_BARS_H

#include "render/figures/axis.h"

/** One bar. The texts are what it is read by: a number, as it is to be
 *  printed. */
typedef struct es_bar {
    double value;       /* >= 0; not finite: no bar, but its text */
    const char *text;   /* "73.6%"; may be NULL */
    const char *brief;  /* where that does not fit: "74"; may be NULL */
    const char *detail; /* stacked: a second line inside; may be NULL */
} es_bar;

typedef struct es_bars_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_bar *bars;           /* (n_groups,n_series) */
    const char *const *totals;    /* (n_groups) above the stacks; may be NULL */
} es_bars_panel;

typedef struct es_bars {
    es_figure_style style;
    const es_bars_panel *panels; /* (n_panels) side by side, one scale */
    size_t n_panels;
    const char *const *groups; /* (n_groups) what stands below each */
    size_t n_groups;
    const char *const *series; /* (n_series) the legend; all "": none */
    size_t n_series;
    bool stacked;
    double high;        /* end of the scale; NaN: what the bars need */
    double limit;       /* there are no values, so no ticks, above; 0: none */
    const char *y_text; /* "heads (%)"; may be NULL */
    const char *group_text; /* below the groups; may be NULL */
    const char *note;       /* may be NULL */
} es_bars;

/**
 * Draws the panels.
 *
 *   out  owned by the caller
 *
 * The first series of a stack is at its foot. The scale begins at 0. Texts
 * stand above the bars, or inside a stack's parts: whole, or brief, or turned
 * where all of them fit so; else none is printed. Those of a stack's parts
 * are left out where a part is too small. Group labels are put on two lines,
 * or turned where they do not fit, and then cut. The legend stands above the
 * panels. Series differ by colour and, from the fourth on, by lines in it;
 * after 24 they repeat. O(bars). Returns as es_heatmap_draw.
 */
es_status es_bars_draw(es_picture **out, const es_bars *figure) ES_MUST_USE;

/** How an area of one series looks, distinct in greyscale too: the colours of
 *  es_theme_category, most of them with lines in them. */
void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area);

#endif
