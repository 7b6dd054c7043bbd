/** Defines colour scales, which map values to colours, and draws the colour
 *  bar. */
#ifndef ES_COLOR_SCALE_H
#define ES_COLOR_SCALE_H

#include "render/colormap.h"
#include "render/figures/axis.h"

/** A colour scale from low to high; values outside are clamped to its ends. If
 *  a bound is not finite or high < low, the scale does not exist and no colour
 *  bar is drawn. */
typedef struct es_color_scale {
    double low, high;
    bool logarithmic; /* requires 0 < low */
    es_colormap map;
} es_color_scale;

/** Returns true if the scale exists; false if it does not or `scale` is
 *  NULL. */
bool es_scale_is_there(const es_color_scale *scale);

/** Returns the index of a value's colour among the
 *  es_colormap_levels(scale->map) colours of the map; NaN gives 0. */
int es_scale_level(const es_color_scale *scale, double value);

es_color es_scale_level_color(const es_color_scale *scale, int level);

es_color es_scale_color(const es_color_scale *scale, double value);

#define ES_BAR_GAP 18.0 /* gap between the plots and the colour bar */

/** Returns the width of the colour bar with its gap, labels and text; 0 if the
 *  scale does not exist. */
double es_bar_width(const es_color_scale *scale, const char *text);

/** Returns the minimum height of the colour bar at which its rotated text
 *  fits. */
double es_bar_least_height(const es_color_scale *scale, const char *text);

/** Draws the vertical colour bar if the scale exists. (x, y) is the top left
 *  corner of the bar, without its labels. `text` is the name of the values,
 *  such as "entropy (nats)"; may be NULL. */
void es_draw_bar(const es_canvas *canvas, const es_color_scale *scale,
                 const char *text, double x, double y, double height);

#endif
