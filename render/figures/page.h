/**
 * Lays out a page of panels, for every chart. A chart reports the size of each
 * panel's plot and draws one plot. The page measures the margins, lays the
 * panels out in a grid, fits the grid into the requested size and draws the
 * common parts: titles, colour bar, keys and note.
 */
#ifndef ES_PAGE_H
#define ES_PAGE_H

#include "render/figures/color_scale.h"
#include "render/figures/title.h"
#include "render/picture_internal.h"

/**
 * One panel of a page. The chart sets the titles and `left`; the page sets the
 * position and size of the plot.
 */
typedef struct es_page_panel {
    const char *title, *subtitle; /* may be NULL */
    double left;                  /* width of the labels left of the plot */
    es_box plot;
    double width; /* width for the titles, which is the width of the column */
} es_page_panel;

typedef enum es_page_swatch {
    ES_SWATCH_BLANK,
    ES_SWATCH_HATCHED,
    ES_SWATCH_ALARM,      /* a square in the alarm colour */
    ES_SWATCH_EDGE_ALARM, /* the mark for NaN and infinity at the edge of a plot
                           */
    ES_SWATCH_DOTS        /* two dots */
} es_page_swatch;

/** A key: a swatch and a text below the panels, which explain a mark in the
 *  plots. */
typedef struct es_page_key {
    es_page_swatch swatch;
    const char *text;
} es_page_key;

enum { ES_PAGE_KEYS = 4 };

typedef struct es_page es_page;

/** Returns the width or height of plot i for a scale factor; 1 is its natural
 *  size. The result must not decrease as the factor grows. The function may
 *  store the chosen layout in page->chart. */
typedef double es_page_size(es_page *page, size_t i, double factor);

struct es_page {
    /* --- set by the chart; zero is a good default */
    const char *name; /* the chart's name in messages: "a heatmap" */
    const es_figure_style *style;
    void *chart; /* data of the chart, for its callbacks below */
    /* Natural size of all plots; used if `width` and `height` are NULL. */
    double plot_width, plot_height;
    es_page_size *width, *height;
    /* Called after the columns have been placed. Sets `above`, `below` and
       `foot` if they depend on the widths of the plots; may be NULL. */
    void (*arrange)(es_page *page);
    es_status (*draw)(const es_page *page, size_t i);
    void (*draw_legend)(const es_page *page); /* or NULL */
    double least_factor; /* minimum scale factor if a size is requested */
    /* Maximum height of a plot, before scaling, on a page that several figures
     * share; 0 for no maximum. */
    double composite_height;
    double title_most;   /* maximum width to which a narrow panel is widened
                            for its title; 0 for 150 points */
    size_t most_lines;   /* maximum number of lines of a title; 0 for three
                            lines */
    size_t most_columns; /* default maximum number of columns; 0 for four
                            columns */
    double left;         /* width of labels and texts left of the panels */
    double right;        /* width of a legend right of the panels */
    double foot;         /* height of the labels below each plot */
    double air;          /* gap between titles and plots */
    double title_gap;    /* distance from the subtitle's baseline to the plot */
    double above, below; /* heights of a legend above or below the panels */
    /* Scale of the colour bar; NULL if the page has no colour bar. */
    const es_color_scale *scale;
    const char *scale_text;
    es_page_key keys[ES_PAGE_KEYS];
    size_t n_keys;
    const char *note; /* may be NULL */
    bool long_note;   /* true if the note is as wide as the plots, false if
                         it is as wide as the page */

    /* --- set by the page */
    es_canvas canvas;      /* canvas.picture is NULL except during drawing */
    es_page_panel *panels; /* (n_panels) */
    /* Additional margins that the style's frame requests. */
    double extra_left, extra_right;
    bool nonfinite, missing; /* true if a plot has non-finite or missing values,
                                respectively */
    size_t n_panels, n_rows, n_columns;
    /* Width and height of the page in points. */
    double width_points, height_points;
    double head; /* height of the titles of a panel */
    /* Number of lines of the longest title and subtitle. */
    size_t title_lines, subtitle_lines;
    /* True if the letters of panels, such as (a), are on a separate line. */
    bool letters_above;
    double note_width; /* width of the lines of the note */
    size_t note_lines;
    es_box plots;  /* bounding box of all plots */
    double footer; /* height of the keys and the note */
    es_box bar;    /* position and size of the colour bar */
};

/**
 * Creates the n empty panels of a page, and sets the colours by the theme of
 * page->style.
 *
 * Returns ES_OK, ES_EUSAGE (n is 0) or ES_ENOMEM. The caller clears the page
 * with es_page_clear, even after an error.
 */
es_status es_page_begin(es_page *page, size_t n) ES_MUST_USE;

/**
 * Places the plots on the page. Without a requested size, plots have their
 * natural size, with about four panels per row. If the style requests a size,
 * plots have the largest scale factor that fits. If only the width or only the
 * height is requested, the factor of this side is used for the other side too.
 * If this would make the panels much smaller than natural, they are arranged in
 * fewer columns. May be called repeatedly.
 *
 * Returns ES_OK, or ES_EUSAGE if the scale factor is below least_factor; the
 * message then names the smallest possible size.
 */
es_status es_page_lay_out(es_page *page) ES_MUST_USE;

/** Draws a page after es_page_lay_out, enlarged by the zoom of the style.
 *  Returns ES_OK, or an error of the chart's `draw` or of es_picture_new. */
es_status es_page_draw(es_picture **out, es_page *page) ES_MUST_USE;

void es_page_clear(es_page *page);

/** Returns true if panel i is in the first column, where the labels of its row
 *  are drawn. */
bool es_page_is_first(const es_page *page, size_t i);

/** Adds a key to the page. At most ES_PAGE_KEYS keys are kept; further keys are
 *  ignored. */
void es_page_add_key(es_page *page, es_page_swatch swatch, const char *text);

/**
 * Records whether any of n values is missing, and whether any is NaN or
 * infinite, so that the page explains the marks of such values below the
 * panels.
 */
void es_page_look_at(es_page *page, const float *values, size_t n);

/** Adds the keys that explain the missing, NaN and infinite values that
 *  es_page_look_at has recorded. `swatch` is the mark of NaN and infinity. */
void es_page_explain(es_page *page, es_page_swatch swatch);

#endif
