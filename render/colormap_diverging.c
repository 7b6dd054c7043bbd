/*
 * Two straight lines in Oklab from a grey to a blue and to a brown. Distances
 * there are differences to the eye (Ottosson, 2020), so that equal steps look
 * equal, and both sides are as far from the middle.
 */
#include "render/colormap_internal.h"

#include <math.h>

typedef struct oklab {
    double lightness, a, b;
} oklab;

static uint8_t channel(double light)
{
    double s = light <= 0.0031308 ? 12.92 * light
                                  : 1.055 * pow(light, 1 / 2.4) - 0.055;
    return (uint8_t)lround(255 * fmin(fmax(s, 0), 1));
}

static es_color rgb_of(oklab color)
{
    double l =
        color.lightness + 0.3963377774 * color.a + 0.2158037573 * color.b;
    double m =
        color.lightness - 0.1055613458 * color.a - 0.0638541728 * color.b;
    double s =
        color.lightness - 0.0894841775 * color.a - 1.2914855480 * color.b;
    l = l * l * l;
    m = m * m * m;
    s = s * s * s;
    return (es_color){
        channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s), 255};
}

/* Lightness of the middle and of both ends, and the hues of these. */
static const struct {
    double middle, end, chroma, below, above;
} sides[] = {{0.93, 0.40, 0.12, 255, 40}, {0.33, 0.80, 0.11, 235, 60}};

es_color es_colormap_diverging(bool dark, double x)
{
    int half = es_colormap_levels(ES_COLORMAP_DIVERGING) / 2;
    double away = round((2 * x - 1) * half) / half;
    double hue =
        (away < 0 ? sides[dark].below : sides[dark].above) * M_PI / 180;
    double chroma = sides[dark].chroma * fabs(away);
    return rgb_of(
        (oklab){sides[dark].middle +
                    (sides[dark].end - sides[dark].middle) * fabs(away),
                chroma * cos(hue), chroma * sin(hue)});
}
