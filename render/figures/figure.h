/** What all figures share: from numbers to a display list. */
#ifndef ES_FIGURE_H
#define ES_FIGURE_H

#include "render/colormap.h"
#include "render/figures/theme.h"
#include "render/picture.h"

/** What all figures share. Zero is a good default for every member. */
typedef struct es_figure_style {
    const char *title;    /* NULL: none beyond the panels' own */
    double width, height; /* points; 0: what the content wants. With one of
                             them given the content is scaled evenly, and
                             panels are put into fewer columns where they
                             would be small */
    double zoom;         /* the page is enlarged so much in the end, letters and
                            lines too: for a slide; 0: not */
    size_t most_columns; /* panels beside each other at most; 0: four */
    es_colormap colormap;
    es_theme theme;
} es_figure_style;

#endif
