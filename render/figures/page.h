/**
 * A page of panels, on which every chart is drawn. A chart gives the natural
 * size of each panel's plot and draws one plot. The page measures the margins,
 * lays the panels out in a grid, fits the grid into the requested size and
 * draws the common parts: titles, colour bar, keys and note.
 */
#ifndef ES_PAGE_H
#define ES_PAGE_H

#include "render/figures/color_scale.h"
#include "render/figures/title.h"
#include "render/picture_internal.h"

/** One panel. The chart sets the titles and `left`; the page places the
 *  plot. */
typedef struct es_page_panel {
    const char *title, *subtitle; /* may be NULL */
    double left;                  /* width of the labels left of the plot */
    es_box plot;
    double width; /* of the titles, which is that of the column */
} es_page_panel;

typedef enum es_page_swatch {
    ES_SWATCH_BLANK,
    ES_SWATCH_HATCHED,
    ES_SWATCH_ALARM,      /* a square in the alarm colour */
    ES_SWATCH_EDGE_ALARM, /* the mark at a plot's edge */
    ES_SWATCH_EDGE_MUTED,
    ES_SWATCH_STRIPES, /* a dashed line of two colours */
    ES_SWATCH_DOTS     /* two dots */
} es_page_swatch;

/** Explains a mark in the plots by a swatch and a text below the panels. */
typedef struct es_page_key {
    es_page_swatch swatch;
    const char *text;
} es_page_key;

enum { ES_PAGE_KEYS = 4 };

typedef struct es_page es_page;

/** Returns the width or height of plot i at a factor of its natural size; it
 * must not decrease as the factor grows. May store its decisions in `chart`. */
typedef double es_page_size(es_page *page, size_t i, double factor);

struct es_page {
    /* --- set by the chart; zero is a good default */
    const char *name; /* for messages: "a heatmap" */
    const es_figure_style *style;
    void *chart;                    /* context of the functions below */
    double plot_width, plot_height; /* natural size of all plots, used if the
                                       next two are NULL */
    es_page_size *width, *height;
    /* Called when the columns are placed: sets `above`, `below` and `foot` if
       they depend on the plots' widths; may be NULL. */
    void (*arrange)(es_page *page);
    es_status (*draw)(const es_page *page, size_t i);
    void (*draw_legend)(const es_page *page); /* or NULL */
    double least_factor; /* least factor of a requested size */
    double title_most;   /* maximum width of a narrow panel that is widened for
                            its title; 0: 150 points */
    size_t most_lines;   /* maximum of title lines; 0: three */
    size_t most_columns; /* default maximum of columns; 0: four */
    double left;         /* width of labels and texts left of the panels */
    double right;        /* width of a legend right of the panels */
    double foot;         /* height of the labels below each plot */
    double air;          /* between titles and plots */
    double title_gap;    /* from the subtitle's baseline to the plot */
    double above, below; /* heights for a legend above or below the panels */
    const es_color_scale *scale; /* of the colour bar; NULL: no colour bar */
    const char *scale_text;
    es_page_key keys[ES_PAGE_KEYS];
    size_t n_keys;
    const char *note; /* may be NULL */
    bool long_note;   /* the note is as wide as the plots, not as the page */

    /* --- set by the page */
    es_canvas canvas;               /* has a picture only during drawing */
    es_page_panel *panels;          /* (n_panels) */
    double extra_left, extra_right; /* margins for the style's frame */
    bool nonfinite, missing;        /* found by es_page_look_at */
    size_t n_panels, n_rows, n_columns;
    double width_points, height_points; /* of the page */
    double head;                        /* height of the titles of a panel */
    size_t title_lines, subtitle_lines; /* of the longest titles */
    bool letters_above;                 /* panel letters have a separate line */
    double note_width;                  /* width of the note's lines */
    size_t note_lines;
    es_box plots;  /* bounding box of all plots */
    double footer; /* height of keys and note */
    es_box bar;    /* of the colour bar */
};

/**
 * Makes n empty panels and sets the colours of page->style.
 *
 * Returns ES_OK, ES_EUSAGE (n is 0) or ES_ENOMEM. The caller clears the page
 * with es_page_clear, also after an error.
 */
es_status es_page_begin(es_page *page, size_t n) ES_MUST_USE;

/**
 * Places the plots: at their natural size, about four panels per row, or, if
 * the style requests a size, at the largest factor that fits. If only one side
 * is requested, its factor determines the other. Panels that would be much
 * smaller than natural are put into fewer columns. May be called repeatedly.
 *
 * Returns ES_OK, or ES_EUSAGE if the factor is below least_factor; the message
 * then names the least size.
 */
es_status es_page_lay_out(es_page *page) ES_MUST_USE;

/** Draws a laid out page, enlarged by the style's zoom. Returns ES_OK, or an
 * error of `draw` or es_picture_new. */
es_status es_page_draw(es_picture **out, es_page *page) ES_MUST_USE;

void es_page_clear(es_page *page);

/** Returns true if panel i is in the first column, and so has its row's
 *  labels. */
bool es_page_is_first(const es_page *page, size_t i);

/** Adds a key; keys beyond ES_PAGE_KEYS are ignored. */
void es_page_add_key(es_page *page, es_page_swatch swatch, const char *text);

/** Records if any of n values is missing, or NaN or infinite, and so needs a
 *  key. */
void es_page_look_at(es_page *page, const float *values, size_t n);

/** Adds the keys for the recorded values; `swatch` shows NaN and infinity. */
void es_page_explain(es_page *page, es_page_swatch swatch);

#endif
