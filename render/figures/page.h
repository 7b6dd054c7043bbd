/**
 * A page of panels, on which every chart is drawn. A chart says how wide and
 * high each panel's plot wants to be and draws one plot; the page measures the
 * margins, lays the panels out in a grid, fits it into the size requested and
 * draws what all charts share: titles, colour bar, keys, note.
 */
#ifndef ES_PAGE_H
#define ES_PAGE_H

#include "render/figures/color_scale.h"
#include "render/figures/title.h"
#include "render/picture_internal.h"

/** One panel. The chart writes titles and left; the page places the plot. */
typedef struct es_page_panel {
    const char *title, *subtitle; /* may be NULL */
    double left;                  /* width of the labels left of the plot */
    es_box plot;
    double width; /* of the titles: its column's */
} es_page_panel;

typedef enum es_page_swatch {
    ES_SWATCH_BLANK,
    ES_SWATCH_HATCHED,
    ES_SWATCH_ALARM,      /* a square in the alarm's colour */
    ES_SWATCH_EDGE_ALARM, /* the mark at a plot's edge */
    ES_SWATCH_EDGE_MUTED,
    ES_SWATCH_STRIPES, /* a line of two colours */
    ES_SWATCH_DOTS     /* two dots */
} es_page_swatch;

/** What a mark in the plots means: a swatch and a word below the panels. */
typedef struct es_page_key {
    es_page_swatch swatch;
    const char *text;
} es_page_key;

enum { ES_PAGE_KEYS = 4 };

typedef struct es_page es_page;

/** Width or height of plot i at a factor of its natural size; must not fall
 *  with the factor. It may note in `chart` what it decides. */
typedef double es_page_size(es_page *page, size_t i, double factor);

struct es_page {
    /* --- what the chart writes; zero is a good default */
    const char *name; /* of messages: "a heatmap" */
    const es_figure_style *style;
    void *chart;                    /* for the functions below */
    double plot_width, plot_height; /* natural size, to half points, of all
                                       plots; unless these say each one's: */
    es_page_size *width, *height;
    /* The columns are placed: sets `above`, `below`, `foot` where these follow
       from the plots' widths. NULL: they do not. */
    void (*arrange)(es_page *page);
    es_status (*draw)(const es_page *page, size_t i);
    void (*draw_legend)(const es_page *page); /* or NULL */
    double least_factor;                      /* of a size that is requested */
    double title_most;   /* to which a narrow panel is widened for its title;
                            0: 150 points */
    size_t most_lines;   /* of titles; 0: three */
    size_t most_columns; /* where the style leaves it open; 0: four */
    double left;         /* before the first column: labels, text */
    double right;        /* after the last: legend */
    double foot;         /* below each plot: labels */
    double air;          /* between titles and plots */
    double title_gap;    /* from the subtitle's baseline to the plot */
    double above, below; /* heights for a legend above or below the panels */
    const es_color_scale *scale; /* of the colour bar; NULL: there is none */
    const char *scale_text;
    es_page_key keys[ES_PAGE_KEYS];
    size_t n_keys;
    const char *note; /* may be NULL */
    bool long_note;   /* it is as wide as the plots, not as the page */

    /* --- what the page writes */
    es_canvas canvas;               /* its picture only while it is drawn */
    es_page_panel *panels;          /* (n_panels) */
    double extra_left, extra_right; /* for the style's frame */
    bool nonfinite, missing;        /* among the values looked at */
    size_t n_panels, n_rows, n_columns;
    double width_points, height_points; /* of the page */
    double head;                        /* height of the panels' titles */
    size_t title_lines, subtitle_lines; /* of the longest */
    bool letters_above; /* a line of their own, where a title is too wide */
    double note_width;  /* in which its lines are broken */
    size_t note_lines;
    es_box plots;  /* around all plots */
    double footer; /* height of keys and note */
    es_box bar;    /* the colour bar's */
};

/**
 * Makes n empty panels, and chooses the colours of page->style.
 *
 * ES_OK; ES_EUSAGE (n is 0), ES_ENOMEM. es_page_clear it in every case.
 */
es_status es_page_begin(es_page *page, size_t n) ES_MUST_USE;

/**
 * Places the plots at their natural size, about four panels in a row, or,
 * where the style gives a size, at the largest factor that fits into it; a
 * single side given counts for both. Panels that would be much smaller than
 * they want to be are put into fewer columns. May be called again.
 *
 * ES_OK; ES_EUSAGE: less than least_factor; the message names the least size.
 */
es_status es_page_lay_out(es_page *page) ES_MUST_USE;

/** Draws a page that is laid out, enlarged by the style's zoom. ES_OK, or what
 *  `draw` and es_picture_new return. */
es_status es_page_draw(es_picture **out, es_page *page) ES_MUST_USE;

void es_page_clear(es_page *page);

/** True if panel i is in the first column: it has the labels of its row. */
bool es_page_is_first(const es_page *page, size_t i);

/** Adds a key; one too many is left out. */
void es_page_add_key(es_page *page, es_page_swatch swatch, const char *text);

/** Notes what of n values stands out and has to be explained: what is not
 *  finite, or missing. */
void es_page_look_at(es_page *page, const float *values, size_t n);

/** Adds the keys of what was found; `swatch`: how what is not finite looks. */
void es_page_explain(es_page *page, es_page_swatch swatch);

#endif
