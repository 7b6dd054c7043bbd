/* From values to colours, and the colour bar. */
#include "render/figures/color_scale.h"

#include "render/picture_internal.h"
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

/* An axis that ends where the scale does; its ticks of a logarithmic one are
 * the decades within. */
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
    double widest = 0; /* whatever the height leaves of the ticks */
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

/* Each level is drawn down to the bar's end, so that no seam can show. */
static void draw_levels(es_picture *picture, const es_color_bar *bar)
{
    const es_color_scale *scale = bar->scale;
    int n = scale->low < scale->high ? es_colormap_levels(scale->map) : 1;
    for (int i = 0; i < n; i++) {
        double top = bar->height * i / n;
        es_picture_rect(picture, bar->x, bar->y + top, BAR_WIDTH,
                        bar->height - top,
                        n > 1 ? es_scale_level_color(scale, n - 1 - i)
                              : es_scale_color(scale, scale->low));
    }
}

void es_draw_bar(es_picture *picture, const es_colors *colors,
                 const es_color_bar *bar)
{
    if (!es_scale_is_there(bar->scale))
        return;
    es_axis axis = axis_of(bar->scale, bar->y, bar->height);
    double right = bar->x + BAR_WIDTH;
    draw_levels(picture, bar);
    es_picture_frame(picture, bar->x, bar->y, BAR_WIDTH, bar->height, 0.5,
                     colors->muted);
    for (int i = 0; i < es_axis_n_ticks(&axis); i++) {
        char text[ES_LABEL_MAX];
        double y = axis.low < axis.high
                       ? es_axis_place(&axis, es_axis_tick(&axis, i))
                       : bar->y + bar->height / 2;
        es_axis_label(text, &axis, i);
        es_picture_line(picture, right, y, right + 2.5, y, 0.5, colors->muted);
        es_picture_text(picture, right + 5, y + 0.36 * ES_SMALL_SIZE,
                        ES_SMALL_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                        colors->ink, text);
    }
    if (bar->text)
        es_picture_text(
            picture,
            bar->x - ES_BAR_GAP + es_bar_width(bar->scale, bar->text) - 2,
            bar->y + bar->height / 2, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
            ES_WEIGHT_NORMAL, 90, colors->ink, bar->text);
}
