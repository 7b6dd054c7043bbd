/** Bar charts: groups of bars, side by side or stacked. */
#ifndef ES_BARS_H
#define ES_BARS_H

#include "render/figures/axis.h"

/** One bar. The texts are its number as printed. */
typedef struct es_bar {
    double value;       /* >= 0; if not finite, only the text is drawn */
    const char *text;   /* "73.6%"; may be NULL */
    const char *brief;  /* used if text does not fit: "74"; may be NULL */
    const char *detail; /* second line inside a stacked bar; may be NULL */
} es_bar;

typedef struct es_bars_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_bar *bars;           /* (n_groups,n_series) */
    const char *const *totals;    /* (n_groups) texts above stacks; or NULL */
} es_bars_panel;

typedef struct es_bars {
    es_figure_style style;
    const es_bars_panel *panels; /* (n_panels) side by side, one scale */
    size_t n_panels;
    const char *const *groups; /* (n_groups) labels below the groups */
    size_t n_groups;
    const char *const
        *series; /* (n_series) legend entries; all "": no legend */
    size_t n_series;
    bool stacked;
    double high;            /* end of the scale; NaN: as the bars need */
    double limit;           /* largest possible value and tick; 0: no limit */
    const char *y_text;     /* "heads (%)"; may be NULL */
    const char *group_text; /* name of the groups' axis; may be NULL */
    const char *note;       /* may be NULL */
} es_bars;

/**
 * Draws the panels.
 *
 *   out  owned by the caller
 *
 * The first series is at the bottom of a stack. The scale begins at 0. Texts
 * are above the bars or inside the parts of a stack. All texts of a figure are
 * printed in full, or all briefly, or all rotated, whichever fits first;
 * otherwise there are no texts. A stack's part that is too small has no text.
 * Group labels that do not fit are put on two lines, or rotated, and finally
 * cut. The legend is above the panels. Series differ by colour and, from the
 * fourth on, by line patterns; they repeat after 24. O(bars). Returns as
 * es_heatmap_draw.
 */
es_status es_bars_draw(es_picture **out, const es_bars *figure) ES_MUST_USE;

/** Fills an area with the pattern of a series, which is distinct in greyscale
 *  too: a colour of es_theme_category, usually with lines. */
void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area);

#endif
