/* Computes the ticks of axes and their labels, and draws the axes of plots. */
#include "render/figures/axis.h"

#include "analyzer/base/text.h"
#include "render/figures/title.h"
#include <stdlib.h>
#include <string.h>

void es_range_add_all(es_range *range, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        es_range_add(range, (double)values[i]);
}

/* Returns the smallest number that is 1, 2 or 5 times a power of ten and at
 * least `least`. */
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
        /* The tolerance allows for rounding: a range end that is a multiple of
           the step gets a tick. */
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
    /* `first` is the product of an integer and the step, rounded once, so a
       tick at zero has exactly the value 0. */
    return ticks->first + i * ticks->step;
}

/* Appends an exponent in superscript digits, without a plus sign. */
static void append_exponent(es_text *to, long exponent)
{
    static const char *const digits[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3",
                                         "\u2074", "\u2075", "\u2076", "\u2077",
                                         "\u2078", "\u2079"};
    char text[24];
    if (exponent < 0)
        es_text_append(to, "\u207b");
    snprintf(text, sizeof text, "%ld", labs(exponent));
    for (const char *c = text; *c; c++)
        es_text_append(to, "%s", digits[*c - '0']);
}

void es_label_typeset(char *out, size_t size)
{
    char made[2 * ES_LABEL_MAX];
    const char *e = strchr(out, 'e');
    char *rest = NULL;
    const long exponent = e ? strtol(e + 1, &rest, 10) : 0;
    if (e && (e == out || rest == e + 1))
        e = NULL; /* this letter e does not begin an exponent */
    const size_t n = e ? (size_t)(e - out) : strlen(out);
    const bool one = e && e[-1] == '1' && (n == 1 || (n == 2 && *out == '-'));
    es_text to = es_text_begin(made, sizeof made);
    for (size_t i = 0; i < n - one; i++)
        if (out[i] == '-')
            es_text_append(&to, "\u2212");
        else
            es_text_append(&to, "%c", out[i]);
    if (e) {
        es_text_append(&to, "%s10", one ? "" : "\u00d7");
        append_exponent(&to, exponent);
        es_text_append(&to, "%s", rest);
    }
    if (to.length < sizeof made && to.length < size)
        memcpy(out, made, to.length + 1);
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

void es_label_count(char out[ES_LABEL_MAX], double count)
{
    if (fabs(count) >= 1e15)
        snprintf(out, ES_LABEL_MAX, "%.6g", count);
    else if (fabs(count) >= 1e12)
        snprintf(out, ES_LABEL_MAX, "%.9gT", count / 1e12);
    else if (fabs(count) >= 1e9)
        snprintf(out, ES_LABEL_MAX, "%.9gB", count / 1e9);
    else if (fabs(count) >= 1e6)
        snprintf(out, ES_LABEL_MAX, "%.9gM", count / 1e6);
    else if (fabs(count) >= 1e3)
        snprintf(out, ES_LABEL_MAX, "%.6gK", count / 1e3);
    else
        snprintf(out, ES_LABEL_MAX, "%.6g", count);
}

double es_fraction(double x, double low, double high)
{
    if (!(isfinite(low) && isfinite(high) && low < high && !isnan(x)))
        return 0;
    /* Halve both terms, because high - low may overflow. */
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

/* Makes a linear axis with at most `most` ticks. If low equals high, the range
 * is widened around this value. */
static void make_linear(es_axis *axis, double low, double high, int most)
{
    if (!(isfinite(low) && isfinite(high) && low <= high))
        low = high = 0;
    if (low == high) {
        double air = low == 0 ? 1 : fabs(low) / 2;
        low -= low > 0 || low < 0 ? air : 0;
        high += air;
    }
    axis->low = low;
    axis->high = high;
    axis->ticks = es_ticks_make(low, high, most);
}

/* Makes a logarithmic axis from one power of ten to another. The lower end is a
 * tick. */
static void make_decades(es_axis *axis, double low, double high, int most)
{
    if (!(isfinite(high) && high > 0))
        high = 10;
    if (!(isfinite(low) && low > 0))
        low = fmin(1, high / 10);
    low = fmin(fmax(floor(log10(low) + 1e-9), -300), 299);
    high = fmin(fmax(ceil(log10(high) - 1e-9), low + 1), 300);
    axis->low = pow(10, low);
    axis->high = pow(10, high);
    double first = round(log10(axis->low)), last = round(log10(axis->high));
    double step = ceil((last - first + 1) / most);
    axis->ticks = (es_ticks){first, step, (int)((last - first) / step) + 1, 0};
}

es_axis es_axis_make(double low, double high, bool logarithmic, double start,
                     double end, int most)
{
    es_axis axis = {.logarithmic = logarithmic, .start = start, .end = end};
    most = most > 1 ? most : 2;
    if (logarithmic)
        make_decades(&axis, low, high, most);
    else
        make_linear(&axis, low, high, most);
    return axis;
}

double es_axis_place(const es_axis *axis, double value)
{
    double fraction = axis->logarithmic
                          ? es_fraction(log10(fmax(value, axis->low)),
                                        log10(axis->low), log10(axis->high))
                          : es_fraction(value, axis->low, axis->high);
    if (isnan(value))
        fraction = 0;
    fraction = fmin(fmax(fraction, 0), 1);
    return axis->start + fraction * (axis->end - axis->start);
}

double es_axis_tick(const es_axis *axis, int i)
{
    double at = es_ticks_at(&axis->ticks, i);
    return axis->logarithmic ? pow(10, at) : at;
}

/* Returns true if a tick is below 0.001 or above 10000, which would be a long
 * label. In this case all labels are written as powers of ten. */
static bool has_powers(const es_ticks *ticks)
{
    return ticks->first < -3 || es_ticks_at(ticks, ticks->n - 1) > 4;
}

void es_axis_label(char out[ES_LABEL_MAX], const es_axis *axis, int i)
{
    if (axis->labels == ES_LABELS_COUNT)
        es_label_count(out, es_axis_tick(axis, i));
    else if (axis->logarithmic && has_powers(&axis->ticks) &&
             es_ticks_at(&axis->ticks, i) != 0)
        snprintf(out, ES_LABEL_MAX, "1e%.0f", es_ticks_at(&axis->ticks, i));
    else if (axis->logarithmic)
        snprintf(out, ES_LABEL_MAX, "%.6g", es_axis_tick(axis, i));
    else
        es_label_value(out, &axis->ticks, i);
    es_label_typeset(out, ES_LABEL_MAX);
}

double es_axis_label_width(const es_axis *axis)
{
    char text[ES_LABEL_MAX];
    double widest = 0;
    for (int i = 0; i < axis->ticks.n; i++) {
        es_axis_label(text, axis, i);
        widest =
            fmax(widest, es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    return widest;
}

void es_draw_across(const es_canvas *canvas, const es_box *plot,
                    const es_axis *axis, const char *text)
{
    const es_colors *colors = canvas->colors;
    char label[ES_LABEL_MAX];
    double bottom = plot->y + plot->height, taken = -INFINITY;
    es_picture_line(canvas->picture, plot->x, bottom, plot->x + plot->width,
                    bottom, 0.5, colors->muted);
    for (int i = 0; i < axis->ticks.n; i++) {
        double x = es_axis_place(axis, es_axis_tick(axis, i));
        es_axis_label(label, axis, i);
        double half = es_text_width(label, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) / 2;
        es_picture_line(canvas->picture, x, bottom, x, bottom + 3, 0.5,
                        colors->muted);
        if (x - half < taken)
            continue;
        taken = x + half + 5;
        es_draw_label(canvas, x, bottom + 11.5, ES_ALIGN_MIDDLE, colors->ink,
                      label);
    }
    if (text)
        es_draw_name(canvas, plot->x + plot->width / 2, bottom + 22, 0,
                     colors->ink, text);
}

double es_upright_width(const es_axis *axis, const char *text)
{
    return es_axis_label_width(axis) + 5 + (text ? ES_LABEL_SIZE + 5 : 0);
}

void es_draw_upright(const es_canvas *canvas, const es_box *plot,
                     const es_axis *axis, bool labelled, const char *text)
{
    const es_colors *colors = canvas->colors;
    char label[ES_LABEL_MAX];
    for (int i = 0; i < axis->ticks.n; i++) {
        double y = es_axis_place(axis, es_axis_tick(axis, i));
        es_picture_line(canvas->picture, plot->x, y, plot->x + plot->width, y,
                        0.5, colors->grid);
        es_axis_label(label, axis, i);
        if (labelled)
            es_draw_label(canvas, plot->x - 5, y + ES_SMALL_DROP, ES_ALIGN_END,
                          colors->ink, label);
    }
    es_picture_line(canvas->picture, plot->x, plot->y, plot->x,
                    plot->y + plot->height, 0.5, colors->muted);
    if (labelled && text)
        es_draw_name(canvas,
                     plot->x - es_upright_width(axis, text) + ES_LABEL_SIZE - 1,
                     plot->y + plot->height / 2, 90, colors->ink, text);
}

void es_draw_band_numbers(const es_canvas *canvas, const es_box *box, size_t n,
                          const char *marks, bool ticked, const char *text,
                          double text_x)
{
    char label[ES_LABEL_MAX];
    double band = box->height / (double)n;
    size_t step = (size_t)es_power_step((ES_SMALL_SIZE + 1.5) / band);
    for (size_t i = 0; i < n; i += step) {
        double y = box->y + ((double)i + 0.5) * band;
        const char mark[] = {' ', marks ? marks[i] : '\0', '\0'};
        snprintf(label, sizeof label, "%zu%s", i, mark[1] ? mark : "");
        if (ticked || step > 1)
            es_picture_line(canvas->picture, box->x - 2.5, y, box->x, y, 0.5,
                            canvas->colors->muted);
        es_draw_label(canvas, box->x - 4, y + ES_SMALL_DROP, ES_ALIGN_END,
                      canvas->colors->ink, label);
    }
    if (text)
        es_draw_name(canvas, text_x, box->y + box->height / 2, 90,
                     canvas->colors->ink, text);
}
