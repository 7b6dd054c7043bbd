/* Colours for numbers: the named maps, by linear steps through their tables. */
#include "render/colormap_internal.h"

#include <math.h>
#include <string.h>

static const char *const names[ES_N_COLORMAPS] = {"viridis", "cividis",
                                                  "magma"};

es_status es_colormap_parse(es_colormap *out, const char *text)
{
    for (int i = 0; i < ES_N_COLORMAPS; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (es_colormap)i;
            return ES_OK;
        }
    }
    return es_fail(ES_EUSAGE,
                   "%s: no such colour map: use viridis, cividis or magma",
                   text);
}

es_color es_colormap_at(es_colormap map, double x)
{
    double inside = x > 0 ? fmin(x, 1) : 0; /* NaN is not > 0 */
    if (map >= ES_COLORMAP_DIVERGING)
        return es_colormap_diverging(map == ES_COLORMAP_DIVERGING_DARK, inside);
    long i = lround(inside * (ES_COLORMAP_SIZE - 1));
    const uint8_t *rgb = es_colormap_tables[map][i];
    return (es_color){rgb[0], rgb[1], rgb[2], 255};
}

int es_colormap_levels(es_colormap map)
{
    return map >= ES_COLORMAP_DIVERGING ? 127 : 128;
}

/* sRGB, IEC 61966-2-1. */
static double linear_light(uint8_t channel)
{
    double s = channel / 255.0;
    return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

double es_color_luminance(es_color color)
{
    return 0.2126 * linear_light(color.r) + 0.7152 * linear_light(color.g) +
           0.0722 * linear_light(color.b);
}
