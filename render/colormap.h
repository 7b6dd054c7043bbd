/** Colour maps: perceptually even, and readable when printed in grey. */
#ifndef ES_COLORMAP_H
#define ES_COLORMAP_H

#include "render/picture.h"

typedef enum es_colormap {
    ES_COLORMAP_VIRIDIS,
    ES_COLORMAP_CIVIDIS,
    ES_COLORMAP_MAGMA,
    /* Blue below the middle, brown above, for differences. Its middle is a
       grey near to the page of the light theme, or of the dark one; both
       halves have the same lightness, and red-green blind eyes distinguish
       them. Not among the names: what it is for decides. */
    ES_COLORMAP_DIVERGING,
    ES_COLORMAP_DIVERGING_DARK
} es_colormap;

/** viridis|cividis|magma. ES_OK or ES_EUSAGE. */
es_status es_colormap_parse(es_colormap *out, const char *text) ES_MUST_USE;

/** Colour at x in [0,1]; outside is clamped; NaN gives x = 0. The nearest of
 *  the 256 published colours: nothing is interpolated. Of the diverging maps
 *  those that es_colormap_levels counts, of which one is the middle. */
es_color es_colormap_at(es_colormap map, double x);

/** How many colours a figure uses: fewer than the eye could distinguish, so
 *  that a palette has entries for the edges of letters. */
int es_colormap_levels(es_colormap map);

/** Relative luminance in [0,1], alpha ignored. WCAG 2.1. */
double es_color_luminance(es_color color);

#endif
