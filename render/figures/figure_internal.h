/** What the figures share: theme, ticks, numbers as labels, page layout. */
#ifndef ES_FIGURE_INTERNAL_H
#define ES_FIGURE_INTERNAL_H

#include "render/figures/axis.h"
#include "render/figures/figure.h"
#include "render/figures/title.h"
#include "render/picture_internal.h"

/* Sizes in points. */
#define ES_TITLE_SIZE 11.0
#define ES_PANEL_TITLE_SIZE 9.0
#define ES_LABEL_SIZE 8.5
#define ES_SMALL_SIZE 7.5
#define ES_MARGIN 10.0
#define ES_GUTTER 18.0 /* between panels */

/** What is laid out, and how: `across` and `down` put everything where it
 *  goes at a factor of its natural size, and return the points that takes.
 *  They must not fall with the factor. */
typedef struct es_layout {
    void *sheet;
    double (*across)(void *sheet, double factor);
    double (*down)(void *sheet, double factor);
    double least_factor;
    const char *what; /* of a message: "a heatmap" */
    size_t n_panels;
    size_t *n_rows, *n_columns; /* of the panels: written before across and
                                   down are called */
} es_layout;

/** The points that a layout takes. */
typedef struct es_extent {
    double width, height;
} es_extent;

/**
 * Lays out at the natural size, about four panels in a row, or, where `style`
 * asks for a size, at the largest factor that fits it; a single size asked for
 * counts for both. Panels that would be much smaller than they want to be are
 * put into fewer columns.
 *
 *   out  what was needed, at most what was asked for
 *
 * ES_OK; ES_EUSAGE: less than least_factor, naming the size it takes.
 */
es_status es_layout_fit(es_extent *out, const es_layout *layout,
                        const es_figure_style *style) ES_MUST_USE;

/**
 * Ends a figure: gives the page its zoom, or frees it.
 *
 *   out  written if status is ES_OK
 *
 * Returns status.
 */
es_status es_figure_finish(es_picture **out, es_picture *picture,
                           const es_figure_style *style,
                           es_status status) ES_MUST_USE;

#define ES_TITLE_LINE 13.0
#define ES_SUBTITLE_LINE 11.0

/** The figure's own title, at the top of the page from x on; NULL: none. */
void es_draw_page_title(es_picture *picture, const es_colors *colors, double x,
                        double width, const char *title);

/** Height of a panel's titles; either may be NULL. */
double es_head(const char *title, const char *subtitle);

/** A panel's titles above (x, y), the baseline of the subtitle; the title
 *  stands where those of all panels stand, `head` being the largest. */
void es_draw_titles(es_picture *picture, const es_colors *colors, double x,
                    double y, double width, double head, const char *title,
                    const char *subtitle);

#endif
