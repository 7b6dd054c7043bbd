/** The style that all figures share: colours, letter sizes, margins, layout
 * options. */
#ifndef ES_THEME_H
#define ES_THEME_H

#include "render/colormap.h"

/* Sizes in points. */
#define ES_TITLE_SIZE 11.0
#define ES_PANEL_TITLE_SIZE 9.0
#define ES_LABEL_SIZE 8.5
#define ES_SMALL_SIZE 7.5
#define ES_MARGIN 10.0
#define ES_GUTTER 18.0 /* between panels */

typedef enum es_theme { ES_THEME_LIGHT, ES_THEME_DARK } es_theme;

/** Parses "light" or "dark". Returns ES_OK or ES_EUSAGE. */
es_status es_theme_parse(es_theme *out, const char *text) ES_MUST_USE;

typedef struct es_colors {
    es_color paper, ink, muted, grid;
    es_color alarm;             /* marks NaN and infinity among lines */
    es_color hatched, hatching; /* background and lines of NaN areas */
} es_colors;

/** The picture that a chart draws on, and its colours. */
typedef struct es_canvas {
    es_picture *picture;
    const es_colors *colors;
} es_canvas;

/**
 * Aligns the pages of a composite figure, which are stacked vertically. Each
 * page is drawn twice: first with all requests zero, when it writes its
 * measures; then with requests that all pages share, so that their plots align.
 */
typedef struct es_page_frame {
    /* --- requests; 0: the page decides */
    double left, right; /* from the page's edges to the plots */
    double inner;       /* left of the plots in every column but the first */
    size_t n_columns;
    bool without_legend; /* another page shows the same legend */
    /* --- measures that the page writes */
    double own_left, own_right, own_inner;
    size_t own_columns, n_panels;
    uint64_t legend; /* hash of the legend's contents; 0: no legend */
    bool legend_below;
} es_page_frame;

/** Options of every figure. Zero is a good default for every member. */
typedef struct es_figure_style {
    const char *title;    /* NULL: only the panels have titles */
    double width, height; /* points; 0: as the content needs. If one of them
                             is given, the content is scaled, with fewer
                             columns of panels if they would be small */
    double tallest; /* limit of an open height, in points: a higher page gets
                       more columns and flatter plots, as far as they stay
                       legible; 0: no limit */
    double zoom;    /* final enlargement of the page with its letters and
                       lines, for slides; 0: none */
    size_t most_columns;  /* maximum of panels per row; 0: four */
    size_t letters;       /* number of the first panel's letter: 1 for (a); 0:
                             no letters */
    es_page_frame *frame; /* NULL: not part of a composite figure */
    es_colormap colormap;
    es_theme theme;
} es_figure_style;

/** Returns the fixed colours of a theme, never NULL. */
const es_colors *es_theme_colors(es_theme theme);

/** Severity of a flag or event. */
typedef enum es_level {
    ES_LEVEL_INFO,
    ES_LEVEL_WARNING,
    ES_LEVEL_ERROR,
    ES_LEVEL_CRITICAL
} es_level;

/** Returns the colour of a severity. */
es_color es_theme_level(es_theme theme, es_level level);

/** Number of colours of es_theme_category, after which they repeat. */
#define ES_N_CATEGORIES 8

/**
 * Returns colour i for unordered categories, such as runs. The colours suit
 * colour-blind readers (Okabe and Ito, 2008) and contrast with the theme's
 * paper; adjacent ones also differ in greyscale.
 */
es_color es_theme_category(es_theme theme, size_t i);

/** Returns the light theme's ink or paper, whichever reads better on `fill`. */
es_color es_text_on(es_color fill);

#endif
