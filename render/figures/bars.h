/** Draws bar charts: groups of bars, which are side by side or stacked. */
#ifndef ES_BARS_H
#define ES_BARS_H

#include "render/figures/axis.h"

/** One bar. `text` and `brief` are the full and the short printed form of its
 *  value. */
typedef struct es_bar {
    double value;     /* >= 0; if not finite, only the text is drawn */
    const char *text; /* the value in full, such as "73.6%"; may be NULL */
    /* Shorter form, used if `text` does not fit: "74"; may be NULL. */
    const char *brief;
    /* Second line of text inside a part of a stack. If the part is too low for
     * text inside it, this line is drawn next to the part instead of `text`.
     * May be NULL. */
    const char *detail;
} es_bar;

typedef struct es_bars_panel {
    const char *title, *subtitle; /* may be NULL */
    const es_bar *bars;           /* (n_groups,n_series) */
    /* Texts above the stacks of the n_groups groups; or NULL. */
    const char *const *totals;
} es_bars_panel;

typedef struct es_bars {
    es_figure_style style;
    /* The n_panels panels, drawn side by side with one scale. */
    const es_bars_panel *panels;
    size_t n_panels;
    const char *const *groups; /* labels below the n_groups groups */
    size_t n_groups;
    const char *const *series; /* n_series names in the legend; if all are "",
                                  there is no legend */
    size_t n_series;
    bool stacked;
    /* Upper end of the scale; NaN: the value of the largest bar or stack. */
    double high;
    /* Largest possible value, such as 100 for percentages; no tick is above it.
     * 0: no limit. */
    double limit;
    /* Name of the y axis, such as "heads (%)"; may be NULL. */
    const char *y_text;
    const char *group_text; /* name of the x axis; may be NULL */
    const char *note;       /* may be NULL */
} es_bars;

/**
 * Draws a bar chart with its panels.
 *
 *   out  owned by the caller
 *
 * The scale begins at 0. In a stack, the first series is at the bottom. Texts
 * are above the bars, or inside the parts of a stack, or to the right of a part
 * that is too low for its text. All texts of a figure are printed in the same
 * way: in full, in the brief form, or rotated, whichever fits first; if none
 * fits, there are no texts. Group labels that do not fit are broken into two
 * lines, or rotated, and finally cut. The legend is above the panels. Series
 * differ by colour and, from the fourth series on, by line patterns; both
 * repeat after 24 series. O(bars). Returns the same statuses as
 * es_heatmap_draw.
 */
es_status es_bars_draw(es_picture **out, const es_bars *figure) ES_MUST_USE;

/** Fills an area with the colour of a series (es_theme_category) and, for most
 *  series, a pattern of lines, so that series are distinct in greyscale too. */
void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area);

#endif
