/** Colour scales, which map values to colours, and the colour bar. */
#ifndef ES_COLOR_SCALE_H
#define ES_COLOR_SCALE_H

#include "render/colormap.h"
#include "render/figures/axis.h"

/** A scale; values outside are clamped to its ends. If a bound is not finite or
 *  high < low, there is no scale, and no bar is drawn. */
typedef struct es_color_scale {
    double low, high;
    bool logarithmic; /* requires 0 < low */
    es_colormap map;
} es_color_scale;

/** Returns true if the scale exists; false for NULL. */
bool es_scale_is_there(const es_color_scale *scale);

/** Returns the index of a value's colour among the
 *  es_colormap_levels(scale->map) colours; 0 for a NaN. */
int es_scale_level(const es_color_scale *scale, double value);

es_color es_scale_level_color(const es_color_scale *scale, int level);

es_color es_scale_color(const es_color_scale *scale, double value);

#define ES_BAR_GAP 18.0 /* between the plots and the colour bar */

/** Returns the width of the bar with its gap, labels and text; 0 without a
 *  scale. */
double es_bar_width(const es_color_scale *scale, const char *text);

/** Returns the least height at which the text is no longer than the bar. */
double es_bar_least_height(const es_color_scale *scale, const char *text);

/** Draws the vertical colour bar of a scale, if there is a scale. (x, y) is the
 *  top left corner of the bar without its labels. text: "entropy (nats)"; may
 *  be NULL. */
void es_draw_bar(const es_canvas *canvas, const es_color_scale *scale,
                 const char *text, double x, double y, double height);

#endif
