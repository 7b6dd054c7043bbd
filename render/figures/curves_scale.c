/* What lies on a panel's axes. */
#include "render/figures/curves_internal.h"

#include "analyzer/base/value.h"

#define AIR 0.07 /* above the values, as a share of their range */
#define MOST_TICKS 8
#define TICK_HEIGHT 15.0
#define INSET 4.0 /* the first and last sample are clear of the edges */

static const es_curves_range nothing = {INFINITY, -INFINITY, INFINITY, false};

static void widen(es_curves_range *range, double value)
{
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
    range->zeros = range->zeros || value == 0;
    if (value > 0)
        range->smallest = fmin(range->smallest, value);
}

static void measure_values(es_curves_sheet *sheet, es_curves_range *range,
                           const es_curve *curve, const float *values)
{
    double limit = sheet->figure->limit;
    if (!(isfinite(limit) && limit != 0))
        limit = INFINITY;
    for (size_t i = 0; values && i < curve->n; i++) {
        double value = (double)values[i];
        if (isfinite(value) && value <= limit)
            widen(range, value);
        else if (isfinite(value))
            sheet->beyond = fmax(sheet->beyond, value); /* not NaN's */
        else if (values == curve->values && !es_is_missing(values[i]))
            sheet->nonfinite = true;
    }
}

/* They should increase; a file may say otherwise. */
static void measure_x(es_curves_block *block, const es_curve *curve)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < curve->n; i++) {
        first = curve->x[i] < first ? curve->x[i] : first;
        last = curve->x[i] > last ? curve->x[i] : last;
    }
    if (curve->n == 0)
        return;
    block->first = fmin(block->first, (double)first);
    block->last = fmax(block->last, (double)last);
}

static void measure_panel(es_curves_sheet *sheet, es_curves_block *block)
{
    const es_curves_panel *panel = block->panel;
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        if (curve->color >= sheet->n_categories)
            sheet->n_categories = curve->color + 1;
        measure_values(sheet, &block->range, curve, curve->values);
        measure_values(sheet, &block->range, curve, curve->low);
        measure_values(sheet, &block->range, curve, curve->high);
        measure_x(block, curve);
    }
    if (panel->n_curves > sheet->n_named) {
        sheet->named = panel->curves;
        sheet->n_named = panel->n_curves;
    }
}

static void share_range(es_curves_sheet *sheet)
{
    es_curves_range all = nothing;
    size_t n = sheet->figure->n_panels;
    for (size_t i = 0; i < n; i++) {
        const es_curves_range *range = &sheet->blocks[i].range;
        all.least = fmin(all.least, range->least);
        all.most = fmax(all.most, range->most);
        all.smallest = fmin(all.smallest, range->smallest);
        all.zeros = all.zeros || range->zeros;
    }
    for (size_t i = 0; i < n; i++)
        sheet->blocks[i].range = all;
}

/* From the values' range to what the axis has to show: with zero where that
 * is not far away, and never empty. */
static void choose_range(es_curves_range *range, const es_curves *figure)
{
    double reference = figure->reference;
    bool referred = isfinite(reference);
    bool counted = figure->y_labels == ES_LABELS_COUNT;
    double low = range->least, high = range->most;
    if (referred) {
        low = fmin(low, reference);
        high = fmax(high, reference);
    }
    if (!(low <= high))
        low = high = 0; /* nothing finite */
    if (low >= 0 && (referred || counted || low <= high / 2 || low == high))
        low = 0;
    if (high <= 0 && low == high)
        high = 0;
    if (low == high)
        high = 1;
    range->least = low;
    range->most = high;
}

/* One x axis for all, unless one panel would not be readable on it. */
static void share_x(es_curves_sheet *sheet)
{
    double first = INFINITY, last = -INFINITY, shortest = INFINITY;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        const es_curves_block *b = &sheet->blocks[i];
        if (b->first > b->last)
            continue;
        first = fmin(first, b->first);
        last = fmax(last, b->last);
        shortest = fmin(shortest, b->last - b->first);
    }
    if (shortest < (last - first) / 4)
        return;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        if (sheet->blocks[i].first > sheet->blocks[i].last)
            continue;
        sheet->blocks[i].first = first;
        sheet->blocks[i].last = last;
    }
}

es_status es_curves_measure_panels(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    double least = INFINITY;
    sheet->beyond = NAN;
    for (size_t i = 0; i < figure->n_panels; i++) {
        sheet->blocks[i] = (es_curves_block){.panel = &figure->panels[i],
                                             .first = INFINITY,
                                             .last = -INFINITY,
                                             .range = nothing};
        measure_panel(sheet, &sheet->blocks[i]);
        least = fmin(least, sheet->blocks[i].range.least);
    }
    if (figure->logarithmic && least < 0)
        return es_fail(ES_EUSAGE,
                       "a logarithmic scale has no place for %.4g: leave out "
                       "--log",
                       least);
    if (!figure->own_scales)
        share_range(sheet);
    for (size_t i = 0; i < figure->n_panels; i++)
        choose_range(&sheet->blocks[i].range, figure);
    share_x(sheet);
    return ES_OK;
}

/* --- y --------------------------------------------------------------------*/

/* No more ticks than their labels leave space for. */
static int most_ticks(double height)
{
    return (int)fmax(2, fmin(MOST_TICKS, height / TICK_HEIGHT));
}

/* The range with some air, a share of it, except beyond zero. */
static void set_linear(es_curves_block *b, const es_curves *figure)
{
    double low = b->range.least, high = b->range.most;
    double height = b->plot.height, bottom = b->plot.y + height, share = AIR;
    if (figure->reference_text && height > 2 * ES_REFERENCE_HEIGHT)
        share =
            fmax(share, ES_REFERENCE_HEIGHT / (height - ES_REFERENCE_HEIGHT));
    double air = (high - low) * share;
    if (isfinite(high + air) && isfinite(low - air)) {
        high += high > 0 ? air : 0;
        low = low > 0 ? fmax(0, low - air) : low < 0 ? low - air : 0;
    }
    /* A scale of 0 puts everything onto the lower edge: nothing overflows
     * where the range is denormal. */
    double scale = height / (high - low);
    int most = most_ticks(height);
    if (figure->y_labels == ES_LABELS_COUNT)
        most = (int)fmin(most, floor(high) - ceil(low) + 1);
    b->low = low;
    b->y0 = bottom;
    b->y_scale = isfinite(scale) ? scale : 0;
    b->upright = es_axis_make(low, high, false, bottom, b->plot.y, most);
}

static void set_logarithmic(es_curves_block *b, es_labels labels)
{
    double least = b->range.smallest;
    if (labels == ES_LABELS_COUNT)
        least = fmin(least, 1); /* counts begin at one */
    double height = b->plot.height - (b->range.zeros ? ES_ZERO_HEIGHT : 0);
    b->y0 = b->plot.y + height;
    b->upright = es_axis_make(least, b->range.most, true, b->y0, b->plot.y,
                              most_ticks(height));
    b->low = log10(b->upright.low);
    b->y_scale = height / (log10(b->upright.high) - b->low);
    b->logarithmic = true;
}

void es_curves_set_upright(const es_curves_sheet *sheet, es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    if (figure->logarithmic)
        set_logarithmic(b, figure->y_labels);
    else
        set_linear(b, figure);
    /* Decades as people say them. */
    bool spoken =
        b->logarithmic && b->upright.low >= 1 && b->upright.high < 1e12;
    b->upright.labels = spoken ? ES_LABELS_COUNT : figure->y_labels;
}

/* --- x --------------------------------------------------------------------*/

/* As many ticks as their labels leave space for, at whole numbers. */
static es_axis spread_ticks(const es_curves_block *b, double start, double end)
{
    es_axis axis = {.low = 0};
    double fitting = fmin(b->plot.width / 30, b->last - b->first + 1);
    for (int most = (int)fmax(fitting, 1); most > 0; most--) {
        axis = es_axis_make(b->first, b->last, false, start, end, 2);
        axis.labels = ES_LABELS_COUNT;
        axis.ticks = es_ticks_make(b->first, b->last, most);
        if (axis.ticks.n < 2)
            break;
        double apart = es_axis_place(&axis, es_axis_tick(&axis, 1)) -
                       es_axis_place(&axis, es_axis_tick(&axis, 0));
        if (es_axis_label_width(&axis) + 10 <= apart)
            break;
    }
    return axis;
}

/* The one place there is, in the middle. */
static es_axis lone_tick(double value, double start, double end)
{
    double air = fmax(1, fabs(value) / 2);
    return (es_axis){.low = value - air,
                     .high = value + air,
                     .start = start,
                     .end = end,
                     .labels = ES_LABELS_COUNT,
                     .ticks = es_ticks_make(value, value, 1)};
}

void es_curves_set_across(es_curves_block *b)
{
    double range = b->last - b->first;
    double scale = (b->plot.width - 2 * INSET) / range;
    double start = b->plot.x + INSET, end = start + b->plot.width - 2 * INSET;
    if (range > 0 && isfinite(scale)) {
        b->x0 = start;
        b->x_scale = scale;
        b->across = spread_ticks(b, start, end);
    } else {
        b->x0 = (start + end) / 2;
        b->x_scale = 0;
        b->across = lone_tick(b->first, start, end);
    }
}
