/* Maps values to colours by a scale, and draws the colour bar. */
#include "render/figures/color_scale.h"

#include "render/figures/title.h"
#include <math.h>

#define BAR_WIDTH 10.0
#define MOST_TICKS 8
#define TICK_HEIGHT 16.0

bool es_scale_is_there(const es_color_scale *scale)
{
    return scale && isfinite(scale->low) && isfinite(scale->high) &&
           scale->low <= scale->high;
}

int es_scale_level(const es_color_scale *scale, double value)
{
    double x = scale->logarithmic
                   ? es_fraction(log10(fmax(value, scale->low)),
                                 log10(scale->low), log10(scale->high))
                   : es_fraction(value, scale->low, scale->high);
    return (int)lround(fmin(fmax(x, 0), 1) *
                       (es_colormap_levels(scale->map) - 1));
}

es_color es_scale_level_color(const es_color_scale *scale, int level)
{
    return es_colormap_at(scale->map,
                          level / (es_colormap_levels(scale->map) - 1.0));
}

es_color es_scale_color(const es_color_scale *scale, double value)
{
    return es_scale_level_color(scale, es_scale_level(scale, value));
}

/* Returns the axis of the colour bar, whose ends are the ends of the scale. On
 * a logarithmic scale, the ticks are the powers of ten inside it. */
static es_axis axis_of(const es_color_scale *scale, double y, double height)
{
    int most = (int)fmin(MOST_TICKS, height / TICK_HEIGHT);
    es_axis axis = {.low = scale->low,
                    .high = scale->high,
                    .logarithmic = scale->logarithmic,
                    .start = y + height,
                    .end = y};
    most = most > 2 ? most : 2;
    if (scale->logarithmic) {
        double first = ceil(log10(scale->low) - 1e-9);
        double last = floor(log10(scale->high) + 1e-9);
        double step = fmax(1, ceil((last - first) / most));
        axis.ticks = (es_ticks){
            first, step, (int)fmax(0, floor((last - first) / step) + 1), 0};
    } else {
        axis.ticks = es_ticks_make(scale->low, scale->high, most);
    }
    return axis;
}

double es_bar_width(const es_color_scale *scale, const char *text)
{
    if (!es_scale_is_there(scale))
        return 0;
    /* Width of the widest label, whatever number of ticks the bar will have. */
    double widest = 0;
    for (int most = 2; most <= MOST_TICKS; most++) {
        es_axis axis = axis_of(scale, 0, most * TICK_HEIGHT);
        widest = fmax(widest, es_axis_label_width(&axis));
    }
    return ES_BAR_GAP + BAR_WIDTH + 5 + widest + (text ? 6 + ES_LABEL_SIZE : 0);
}

double es_bar_least_height(const es_color_scale *scale, const char *text)
{
    bool any = text && es_scale_is_there(scale);
    return any ? es_text_width(text, ES_LABEL_SIZE, ES_WEIGHT_NORMAL) : 0;
}

void es_draw_bar(const es_canvas *canvas, const es_color_scale *scale,
                 const char *text, double x, double y, double height)
{
    if (!es_scale_is_there(scale))
        return;
    es_axis axis = axis_of(scale, y, height);
    double right = x + BAR_WIDTH;
    int n = scale->low < scale->high ? es_colormap_levels(scale->map) : 1;
    /* Each colour is drawn down to the bottom of the bar, and the next colour
       over it, so that no gap shows between two colours. */
    for (int i = 0; i < n; i++) {
        double top = height * i / n;
        es_picture_rect(canvas->picture, x, y + top, BAR_WIDTH, height - top,
                        n > 1 ? es_scale_level_color(scale, n - 1 - i)
                              : es_scale_color(scale, scale->low));
    }
    es_picture_frame(canvas->picture, x, y, BAR_WIDTH, height, 0.5,
                     canvas->colors->muted);
    for (int i = 0; i < axis.ticks.n; i++) {
        char label[ES_LABEL_MAX];
        double at = axis.low < axis.high
                        ? es_axis_place(&axis, es_axis_tick(&axis, i))
                        : y + height / 2;
        es_axis_label(label, &axis, i);
        es_picture_line(canvas->picture, right, at, right + 2.5, at, 0.5,
                        canvas->colors->muted);
        es_draw_label(canvas, right + 5, at + ES_SMALL_DROP, ES_ALIGN_START,
                      canvas->colors->ink, label);
    }
    if (text)
        es_draw_name(canvas, x - ES_BAR_GAP + es_bar_width(scale, text) - 2,
                     y + height / 2, 90, canvas->colors->ink, text);
}
