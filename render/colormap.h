/** Provides colour maps that are perceptually uniform and readable in greyscale
 *  print. */
#ifndef ES_COLORMAP_H
#define ES_COLORMAP_H

#include "render/picture.h"

typedef enum es_colormap {
    ES_COLORMAP_VIRIDIS,
    ES_COLORMAP_CIVIDIS,
    ES_COLORMAP_MAGMA,
    /*
     * Maps for differences: blue below the middle, brown above. The middle is a
     * grey close to the page colour of the light or the dark theme. Both halves
     * have the same lightness and can be distinguished with red-green
     * blindness. Users cannot choose these two maps by name.
     */
    ES_COLORMAP_DIVERGING,
    ES_COLORMAP_DIVERGING_DARK
} es_colormap;

/** Parses "viridis", "cividis" or "magma". Returns ES_OK or ES_EUSAGE. */
es_status es_colormap_parse(es_colormap *out, const char *text) ES_MUST_USE;

/**
 * Returns the colour of a map at x, which is clamped to [0,1]; NaN counts as 0.
 * The result is the nearest of the 256 published colours, without
 * interpolation. A diverging map has es_colormap_levels colours, one of which
 * is exactly the middle.
 */
es_color es_colormap_at(es_colormap map, double x);

/**
 * Returns the number of colours of a map that a figure uses. This number is
 * small enough that a PNG palette of 256 colours has entries left for the
 * smoothed edges of text.
 */
int es_colormap_levels(es_colormap map);

/** Returns the relative luminance of a colour in [0,1], ignoring alpha, as
 *  defined by WCAG 2.1. */
double es_color_luminance(es_color color);

#endif
