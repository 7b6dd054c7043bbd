#include "render/figures/figure_internal.h"

#include <math.h>
#include <stdlib.h>

const es_color es_ink = {34, 34, 34, 255};
const es_color es_muted = {102, 102, 102, 255};
const es_color es_grid = {225, 225, 225, 255};
const es_color es_paper = {255, 255, 255, 255};
const es_color es_alarm = {200, 30, 45, 255};
const es_color es_hatched = {250, 240, 240, 255};
const es_color es_hatching = {205, 90, 95, 255};

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double nice_step(double least)
{
    static const double factors[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(least)));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (factors[i] * power >= least * (1 - 1e-9))
            return factors[i] * power;
    return 10 * power;
}

es_ticks es_ticks_make(double low, double high, int most)
{
    es_ticks none = {0};
    if (!(isfinite(low) && isfinite(high) && low <= high && most > 0))
        return none;
    if (low == high)
        return (es_ticks){.first = low, .n = 1};
    double step = nice_step((high - low) / most);
    while (isfinite(step) && step > 0) {
        /* A bound that is a multiple but for rounding is a tick. */
        double first = ceil(low / step - 1e-6);
        double last = floor(high / step + 1e-6);
        if (!(fabs(first) < 1e12 && fabs(last) < 1e12))
            return none;
        if (last - first < most)
            return (es_ticks){first * step, step, (int)(last - first) + 1,
                              (int)fmax(0, -floor(log10(step) + 1e-9))};
        step = nice_step(step * 1.5);
    }
    return none;
}

double es_ticks_at(const es_ticks *ticks, int i)
{
    /* first is a multiple of step, rounded once: their sum is 0 exactly. */
    return ticks->first + i * ticks->step;
}

void es_label_value(char out[ES_LABEL_MAX], const es_ticks *ticks, int i)
{
    double x = es_ticks_at(ticks, i);
    double last = es_ticks_at(ticks, ticks->n - 1);
    double largest = fmax(fabs(ticks->first), fabs(last));
    if (ticks->step == 0)
        snprintf(out, ES_LABEL_MAX, "%.3g", x);
    else if (largest < 1e5 && ticks->decimals <= 4)
        snprintf(out, ES_LABEL_MAX, "%.*f", ticks->decimals, x);
    else {
        int digits = 1 + (int)floor(log10(largest / ticks->step) + 1e-9);
        snprintf(out, ES_LABEL_MAX, "%.*g", digits + 1, x);
    }
}

void es_label_step(char out[ES_LABEL_MAX], double step)
{
    if (fabs(step) >= 1e6)
        snprintf(out, ES_LABEL_MAX, "%.9gM", step / 1e6);
    else if (fabs(step) >= 1e3)
        snprintf(out, ES_LABEL_MAX, "%.6gK", step / 1e3);
    else
        snprintf(out, ES_LABEL_MAX, "%.6g", step);
}

double es_fraction(double x, double low, double high)
{
    if (!(isfinite(low) && isfinite(high) && low < high && !isnan(x)))
        return 0;
    /* Halves, because high - low may overflow. */
    double fraction = (x / 2 - low / 2) / (high / 2 - low / 2);
    return isfinite(fraction) ? fraction : x > low;
}

int es_power_step(double least)
{
    int step = 1;
    while (step < least && step < 1 << 20)
        step *= 2;
    return step;
}

/* The largest factor, to a part in a million, for which `place` needs no more
 * than `wanted` points; 0 if none. */
static double solve_factor(void *sheet, double wanted,
                           double (*place)(void *sheet, double factor))
{
    double low = 0, high = 1;
    while (high < 1e6 && place(sheet, high) <= wanted)
        high *= 2;
    for (int i = 0; i < 50; i++) {
        double half = low + (high - low) / 2;
        if (place(sheet, half) <= wanted)
            low = half;
        else
            high = half;
    }
    return low;
}

static es_status too_small(const es_layout *layout,
                           const es_figure_style *style)
{
    double width = ceil(layout->across(layout->sheet, layout->least_factor));
    double height = ceil(layout->down(layout->sheet, layout->least_factor));
    return es_fail(ES_EUSAGE,
                   "%s of %.0fx%.0f points has no room for its content: ask "
                   "for at least %.0fx%.0f",
                   layout->what, style->width > 0 ? style->width : width,
                   style->height > 0 ? style->height : height, width, height);
}

es_status es_layout_fit(es_extent *out, const es_layout *layout,
                        const es_figure_style *style)
{
    double across = 1, down = 1;
    if (style->width > 0)
        across = down =
            solve_factor(layout->sheet, style->width, layout->across);
    if (style->height > 0)
        down = solve_factor(layout->sheet, style->height, layout->down);
    if (style->height > 0 && !(style->width > 0))
        across = down;
    if (fmin(across, down) < 0.999 * layout->least_factor)
        return too_small(layout, style);
    out->width = layout->across(layout->sheet, across);
    out->height = layout->down(layout->sheet, down);
    return ES_OK;
}

void es_panel_grid(size_t n, size_t *n_rows, size_t *n_columns)
{
    *n_rows = n < 1 ? 1 : (n + 3) / 4;
    *n_columns = n < 1 ? 1 : (n + *n_rows - 1) / *n_rows;
}

void es_draw_fitted(es_picture *picture, double x, double y, double size,
                    es_align align, es_weight weight, es_color color,
                    const char *text, double width)
{
    char *fitted = es_text_fit(text, width, size, weight);
    if (!fitted) {
        picture->failed = true;
        return;
    }
    es_picture_text(picture, x, y, size, align, weight, 0, color, fitted);
    free(fitted);
}

void es_draw_titles(es_picture *picture, double x, double y, double width,
                    double head, const char *title, const char *subtitle)
{
    if (subtitle)
        es_draw_fitted(picture, x, y, ES_SMALL_SIZE, ES_ALIGN_START,
                       ES_WEIGHT_NORMAL, es_muted, subtitle, width);
    if (title)
        es_draw_fitted(picture, x, y - head + ES_TITLE_LINE,
                       ES_PANEL_TITLE_SIZE, ES_ALIGN_START, ES_WEIGHT_BOLD,
                       es_ink, title, width);
}

double es_head(const char *title, const char *subtitle)
{
    return (title && *title ? ES_TITLE_LINE : 0) +
           (subtitle && *subtitle ? ES_SUBTITLE_LINE : 0);
}
