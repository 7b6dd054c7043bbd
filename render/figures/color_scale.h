/** From values to colours, and the bar that says which is which. */
#ifndef ES_COLOR_SCALE_H
#define ES_COLOR_SCALE_H

#include "render/colormap.h"
#include "render/figures/axis.h"

/** Values outside have the colour of their end. Bounds that are not numbers,
 *  or high < low: nothing to go by, and no bar. */
typedef struct es_color_scale {
    double low, high;
    bool logarithmic; /* then 0 < low */
    es_colormap map;
} es_color_scale;

/** False too for NULL. */
bool es_scale_is_there(const es_color_scale *scale);

/** Which of es_colormap_levels(scale->map) colours a value has; 0 of a NaN. */
int es_scale_level(const es_color_scale *scale, double value);

es_color es_scale_level_color(const es_color_scale *scale, int level);

es_color es_scale_color(const es_color_scale *scale, double value);

#define ES_BAR_GAP 18.0 /* between the plots and a bar */

/** What a bar takes with its gap, labels and text; 0 if there is no scale. */
double es_bar_width(const es_color_scale *scale, const char *text);

/** The least height at which a bar's text is no longer than the bar. */
double es_bar_least_height(const es_color_scale *scale, const char *text);

/** The upright bar of a scale, if that is there, without its labels at
 *  (x, y). text: "entropy (nats)"; may be NULL. */
void es_draw_bar(const es_canvas *canvas, const es_color_scale *scale,
                 const char *text, double x, double y, double height);

#endif
