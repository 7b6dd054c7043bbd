/** What all figures share: their style, the colours of a page and of things,
 * the sizes of letters and margins. */
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

/** light|dark. ES_OK or ES_EUSAGE. */
es_status es_theme_parse(es_theme *out, const char *text) ES_MUST_USE;

typedef struct es_colors {
    es_color paper, ink, muted, grid;
    es_color alarm;             /* what is not finite, among lines */
    es_color hatched, hatching; /* the same as an area */
} es_colors;

/** What charts draw on. */
typedef struct es_canvas {
    es_picture *picture;
    const es_colors *colors;
} es_canvas;

/**
 * How the pages of a composite figure, which stand one below the other, are
 * aligned. Drawn once with all but the measures zero, each page writes these;
 * drawn again with what is common to all, its plots stand below the others'.
 */
typedef struct es_page_frame {
    /* --- what is wanted; 0: what the page wants */
    double left, right; /* from the page's edges to the plots */
    double inner;       /* left of the plots of all columns but the first */
    size_t n_columns;
    bool without_legend; /* another page has the same */
    /* --- measures that the page writes */
    double own_left, own_right, own_inner;
    size_t own_columns, n_panels;
    uint64_t legend; /* the same number: the same legend; 0: there is none */
    bool legend_below;
} es_page_frame;

/** What all figures share. Zero is a good default for every member. */
typedef struct es_figure_style {
    const char *title;    /* NULL: none beyond the panels' own */
    double width, height; /* points; 0: what the content wants. With one of
                             them given the content is scaled evenly, and
                             panels are put into fewer columns where they
                             would be small */
    double tallest; /* of a page whose height is left open: it has more columns
                       where it would be higher, and flatter plots, as far as
                       both are legible; 0: as high as it is */
    double zoom;    /* the page is enlarged so much in the end, letters and
                       lines too: for a slide; 0: not */
    size_t most_columns;  /* panels beside each other at most; 0: four */
    size_t letters;       /* panels are called (a), (b), ... from this one on, 1
                             for (a); 0: they are not */
    es_page_frame *frame; /* NULL: the page stands alone */
    es_colormap colormap;
    es_theme theme;
} es_figure_style;

/** Never NULL; the colours are fixed. */
const es_colors *es_theme_colors(es_theme theme);

/** How bad something is. */
typedef enum es_level {
    ES_LEVEL_INFO,
    ES_LEVEL_WARNING,
    ES_LEVEL_ERROR,
    ES_LEVEL_CRITICAL
} es_level;

/** Its colour. */
es_color es_theme_level(es_theme theme, es_level level);

/** How many colours es_theme_category has; then they repeat. */
#define ES_N_CATEGORIES 8

/**
 * Colour i for things without an order, such as runs. Those of colour-blind
 * eyes (Okabe and Ito, 2008), each with contrast to the theme's paper; also
 * in grey no neighbours are alike.
 */
es_color es_theme_category(es_theme theme, size_t i);

/** Ink of the light theme or paper, whichever is read better on `fill`. */
es_color es_text_on(es_color fill);

#endif
