/** What the figures share: theme, ticks, numbers as labels, page layout. */
#ifndef ES_FIGURE_INTERNAL_H
#define ES_FIGURE_INTERNAL_H

#include "render/figures/figure.h"
#include "render/picture_internal.h"

/* Sizes in points. */
#define ES_TITLE_SIZE 11.0
#define ES_PANEL_TITLE_SIZE 9.0
#define ES_LABEL_SIZE 8.5
#define ES_SMALL_SIZE 7.5
#define ES_MARGIN 10.0
#define ES_GUTTER 18.0 /* between panels */

extern const es_color es_ink, es_muted, es_grid, es_paper, es_alarm, es_hatched,
    es_hatching;

/** Ticks at first, first + step, ...: n of them, n >= 0. */
typedef struct es_ticks {
    double first, step;
    int n;
    int decimals; /* that tell the ticks apart */
} es_ticks;

/**
 * At most `most` ticks inside [low, high], a step of 1, 2 or 5 times a power
 * of ten. One tick if low == high. None if a bound is not finite, or high
 * < low.
 */
es_ticks es_ticks_make(double low, double high, int most);

/** Tick i; exactly 0 where it should be. */
double es_ticks_at(const es_ticks *ticks, int i);

#define ES_LABEL_MAX 32

/** A tick of a value axis: "0.25", "1.5e+06" where that is shorter. */
void es_label_value(char out[ES_LABEL_MAX], const es_ticks *ticks, int i);

/** A number of steps: 400, 5K, 2.5M. */
void es_label_step(char out[ES_LABEL_MAX], double step);

/**
 * Where x lies between low and high: 0 at low, 1 at high. 0 if the range is
 * empty or not finite, or x is NaN; nothing overflows.
 */
double es_fraction(double x, double low, double high);

/** Smallest of 1, 2, 4, 8 ... that is at least `least`. */
int es_power_step(double least);

/** What is laid out, and how: `across` and `down` put everything where it
 *  goes at a factor of its natural size, and return the points that takes.
 *  They must not fall with the factor. */
typedef struct es_layout {
    void *sheet;
    double (*across)(void *sheet, double factor);
    double (*down)(void *sheet, double factor);
    double least_factor;
    const char *what; /* of a message: "a heatmap" */
} es_layout;

/** The points that a layout takes. */
typedef struct es_extent {
    double width, height;
} es_extent;

/**
 * Lays out at the natural size or, where `style` asks for one, at the largest
 * factor that fits it; a single size asked for counts for both.
 *
 *   out  what was needed, at most what was asked for
 *
 * ES_OK; ES_EUSAGE: less than least_factor, naming the size it takes.
 */
es_status es_layout_fit(es_extent *out, const es_layout *layout,
                        const es_figure_style *style) ES_MUST_USE;

/** How n panels are put into rows of about four. */
void es_panel_grid(size_t n, size_t *n_rows, size_t *n_columns);

/** Text cut to `width` with an ellipsis; see es_picture_text. */
void es_draw_fitted(es_picture *picture, double x, double y, double size,
                    es_align align, es_weight weight, es_color color,
                    const char *text, double width);

#define ES_TITLE_LINE 13.0
#define ES_SUBTITLE_LINE 11.0

/** Height of a panel's titles; either may be NULL. */
double es_head(const char *title, const char *subtitle);

/** A panel's titles above (x, y), the baseline of the subtitle; the title
 *  stands where those of all panels stand, `head` being the largest. */
void es_draw_titles(es_picture *picture, double x, double y, double width,
                    double head, const char *title, const char *subtitle);

#endif
