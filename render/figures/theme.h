/**
 * Defines the style that all figures share: colours, font sizes, margins and
 * layout options.
 */
#ifndef ES_THEME_H
#define ES_THEME_H

#include "render/colormap.h"

/* Font sizes and margins, in points. */
#define ES_TITLE_SIZE 11.0
#define ES_PANEL_TITLE_SIZE 9.0
#define ES_LABEL_SIZE 8.5
#define ES_SMALL_SIZE 7.5
#define ES_MARGIN 10.0
#define ES_GUTTER 18.0 /* between panels */

typedef enum es_theme { ES_THEME_LIGHT, ES_THEME_DARK } es_theme;

/** Parses the name of a theme, "light" or "dark". Returns ES_OK or
 *  ES_EUSAGE. */
es_status es_theme_parse(es_theme *out, const char *text) ES_MUST_USE;

typedef struct es_colors {
    es_color paper, ink, muted, grid;
    /* Colour of the marks for NaN and infinity in line charts. */
    es_color alarm;
    /* Background and line colour of hatched (NaN) areas. */
    es_color hatched, hatching;
} es_colors;

/** The picture that a chart is drawn into, and the colours of the theme. */
typedef struct es_canvas {
    es_picture *picture;
    const es_colors *colors;
} es_canvas;

/**
 * Aligns the pages of a composite figure, which are stacked vertically. Each
 * page is drawn twice. In the first drawing all members are zero, and the page
 * writes its own sizes to them; in the second drawing all pages get the same
 * members, so that their plots align.
 */
typedef struct es_page_frame {
    /* --- requests; 0: the page decides */
    double left, right; /* distances from the page's edges to the plots */
    /* Gap to the left of the plots in all columns but the first. */
    double inner;
    size_t n_columns;
    /* Leave out the legend, because another page shows it. */
    bool without_legend;
    /* --- measures that the page writes */
    double own_left, own_right, own_inner;
    size_t own_columns, n_panels;
    uint64_t legend; /* hash of the legend's contents; 0: no legend */
    bool legend_below;
} es_page_frame;

/** Options of every figure. Every member may be zero, which is its default. */
typedef struct es_figure_style {
    /* Title of the figure; NULL: only the panels have titles. */
    const char *title;
    /* size in points; 0: as large as the content needs. If only one of the two
     * is given, the content is scaled to it; if that would make the panels too
     * small, they are arranged in fewer columns */
    double width, height;
    /* maximum height in points if no height is requested: a page that would be
     * taller gets more columns and flatter plots, as long as the plots stay
     * legible; 0: no limit */
    double tallest;
    /* factor by which the finished page is enlarged, including text and lines,
     * for slides; 0: not enlarged */
    double zoom;
    size_t most_columns; /* maximum number of panels per row; 0: four */
    size_t letters;      /* number of the letter of the first panel: 1 for (a);
                            0: panels have no letters */
    /* Shared layout; NULL: not part of a composite figure. */
    es_page_frame *frame;
    es_colormap colormap;
    es_theme theme;
} es_figure_style;

/** Returns the fixed colours of a theme; never NULL. */
const es_colors *es_theme_colors(es_theme theme);

/** The severity of a flag or an event. */
typedef enum es_level {
    ES_LEVEL_INFO,
    ES_LEVEL_WARNING,
    ES_LEVEL_ERROR,
    ES_LEVEL_CRITICAL
} es_level;

/** Returns the colour for a severity in a theme. */
es_color es_theme_level(es_theme theme, es_level level);

/** Number of distinct colours of es_theme_category; after these, colours
 *  repeat. */
#define ES_N_CATEGORIES 8

/**
 * Returns colour i for unordered categories, such as runs. The colours are
 * suitable for colour-blind readers (Okabe and Ito, 2008) and contrast with the
 * background of the theme; adjacent colours also differ in greyscale.
 */
es_color es_theme_category(es_theme theme, size_t i);

/** Returns the text colour for an area filled with `fill`: the light theme's
 *  text colour or background colour, whichever is easier to read. */
es_color es_text_on(es_color fill);

#endif
