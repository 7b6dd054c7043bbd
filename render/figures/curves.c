/*
 * Lays out line charts: axes, panels and keys. The lines are drawn by
 * curves_lines.c, the colours and the legend by curves_legend.c.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

/* Sizes of the chart before scaling, in points. */
#define ONE_WIDTH 340.0
#define ONE_HEIGHT 210.0
#define MANY_WIDTH 250.0
#define MANY_HEIGHT 165.0
#define PANELS_MOST 12 /* with more panels, panels are small, six per row */
#define SMALL_WIDTH 150.0
#define SMALL_HEIGHT 95.0
#define LEAST_FACTOR 0.3 /* minimum scale if a page size is requested */

#define AIR 0.07 /* space above the values, relative to their range */
#define MOST_TICKS 8
#define TICK_HEIGHT 15.0
#define INSET 4.0 /* gap between the plot's edges and the samples */

static const es_range nothing = ES_RANGE_NONE;

static void measure_values(es_curves_sheet *sheet, es_range *range,
                           const es_curve *curve, const float *values)
{
    double limit = sheet->figure->limit;
    if (!(isfinite(limit) && limit != 0))
        limit = INFINITY;
    for (size_t i = 0; values && i < curve->n; i++) {
        double value = (double)values[i];
        if (isfinite(value) && value <= limit) {
            es_range_add(range, value);
        } else if (isfinite(value)) {
            sheet->beyond = fmax(sheet->beyond, value); /* fmax ignores NaN */
        } else if (values == curve->values && !es_is_missing(values[i])) {
            sheet->nonfinite = true;
        }
    }
}

/* Searches all steps, because the steps in a file may not be sorted. */
static void measure_steps(es_curves_block *block, const es_curve *curve)
{
    for (size_t i = 0; i < curve->n; i++) {
        block->first = fmin(block->first, (double)curve->x[i]);
        block->last = fmax(block->last, (double)curve->x[i]);
    }
}

static void measure_curve(es_curves_sheet *sheet, es_curves_block *block,
                          const es_curve *curve)
{
    measure_values(sheet, &block->range, curve, curve->values);
    measure_values(sheet, &block->range, curve, curve->low);
    measure_values(sheet, &block->range, curve, curve->high);
    measure_values(sheet, &block->range, curve, curve->spikes);
    measure_steps(block, curve);
}

static void measure_panel(es_curves_sheet *sheet, es_curves_block *block)
{
    const es_curves_panel *panel = block->panel;
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        if (curve->color >= sheet->n_categories)
            sheet->n_categories = curve->color + 1;
        measure_curve(sheet, block, curve);
        if (curve->trend)
            measure_curve(sheet, block, curve->trend);
    }
    if (panel->n_curves > sheet->n_named) {
        sheet->named = panel->curves;
        sheet->n_named = panel->n_curves;
    }
}

/* --- equal lines ----------------------------------------------------------*/

enum { COMPARED_MOST = 48 };

static bool are_equal(const es_curve *a, const es_curve *b, size_t k)
{
    return k < a->n && k < b->n && a->x[k] == b->x[k] &&
           isfinite(a->values[k]) && a->values[k] == b->values[k];
}

es_curves_equals es_curves_equals_at(const es_curves_panel *panel, size_t i,
                                     size_t k, bool onwards)
{
    const es_curve *curve = &panel->curves[i];
    es_curves_equals found = {1, 0};
    if (panel->n_curves > COMPARED_MOST)
        return found;
    for (size_t j = 0; j < panel->n_curves; j++) {
        const es_curve *other = &panel->curves[j];
        if (j == i || other->pen != curve->pen || !are_equal(curve, other, k) ||
            (onwards && !are_equal(curve, other, k + 1)))
            continue;
        found.n++;
        found.rank += j < i;
    }
    return found;
}

bool es_curve_is_lone(const es_curve *curve, size_t k)
{
    return (k == 0 || !isfinite(curve->values[k - 1])) &&
           (k + 1 >= curve->n || !isfinite(curve->values[k + 1]));
}

es_curves_equals es_curves_lone_equals_at(const es_curves_panel *panel,
                                          size_t i, size_t k)
{
    const es_curve *curve = &panel->curves[i];
    es_curves_equals found = {1, 0};
    if (panel->n_curves > COMPARED_MOST || !es_curve_is_lone(curve, k))
        return found;
    for (size_t j = 0; j < panel->n_curves; j++) {
        const es_curve *other = &panel->curves[j];
        if (j == i || !are_equal(curve, other, k) ||
            !es_curve_is_lone(other, k))
            continue;
        found.n++;
        found.rank += j < i;
    }
    return found;
}

static void find_equals(es_curves_sheet *sheet, const es_curves_panel *panel)
{
    for (size_t i = 0; i < panel->n_curves; i++)
        for (size_t k = 0; k < panel->curves[i].n; k++) {
            if (!sheet->equal)
                sheet->equal = es_curves_equals_at(panel, i, k, true).n > 1;
            if (!sheet->beside)
                sheet->beside = es_curves_lone_equals_at(panel, i, k).n > 1;
        }
}

static void share_range(es_curves_sheet *sheet)
{
    es_range all = nothing;
    size_t n = sheet->figure->n_panels;
    for (size_t i = 0; i < n; i++) {
        const es_range *range = &sheet->blocks[i].range;
        all.low = fmin(all.low, range->low);
        all.high = fmax(all.high, range->high);
        all.least_positive = fmin(all.least_positive, range->least_positive);
        all.zero = all.zero || range->zero;
    }
    for (size_t i = 0; i < n; i++)
        sheet->blocks[i].range = all;
}

/* Extends the range of the values to the range of the y axis. The axis includes
 * zero unless zero is far from the values, and is never empty. */
static void choose_range(es_range *range, const es_curves *figure)
{
    double reference = figure->reference;
    bool referred = isfinite(reference);
    bool counted = figure->y_labels == ES_LABELS_COUNT;
    double low = range->low, high = range->high;
    if (referred) {
        low = fmin(low, reference);
        high = fmax(high, reference);
    }
    if (!(low <= high))
        low = high = 0; /* the panel has no finite value */
    if (low >= 0 && (referred || counted || low <= high / 2 || low == high))
        low = 0;
    if (high <= 0 && low == high)
        high = 0;
    if (low == high)
        high = 1;
    range->low = low;
    range->high = high;
}

/* Gives all panels the same x axis, unless a panel would then be unreadable. */
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

/* Finds the ranges of x and of the values in all panels. */
static es_status measure_panels(es_curves_sheet *sheet)
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
        least = fmin(least, sheet->blocks[i].range.low);
        find_equals(sheet, &figure->panels[i]);
    }
    char number[ES_FLOAT_TEXT_MAX];
    if (figure->logarithmic && least < 0)
        return es_fail(ES_EUSAGE,
                       "a logarithmic scale cannot show %s: omit --log",
                       es_number_print(number, least, 4));
    if (!figure->own_scales)
        share_range(sheet);
    for (size_t i = 0; i < figure->n_panels; i++)
        choose_range(&sheet->blocks[i].range, figure);
    share_x(sheet);
    return ES_OK;
}

/* --- y --------------------------------------------------------------------*/

/* Sets a linear y scale with some space above and below the range. The space
 * does not extend across zero. */
static void set_linear(es_curves_block *b, const es_curves *figure, int most)
{
    double low = b->range.low, high = b->range.high;
    double height = b->plot.height, bottom = b->plot.y + height, share = AIR;
    if (figure->reference_text && height > 2 * ES_REFERENCE_HEIGHT)
        share =
            fmax(share, ES_REFERENCE_HEIGHT / (height - ES_REFERENCE_HEIGHT));
    double air = (high - low) * share;
    if (isfinite(high + air) && isfinite(low - air)) {
        high += high > 0 ? air : 0;
        low = low > 0 ? fmax(0, low - air) : low < 0 ? low - air : 0;
    }
    /* The scale is infinite if the range is denormal. The scale 0 is used
     * instead, which puts all values on the lower edge. */
    double scale = height / (high - low);
    if (figure->y_labels == ES_LABELS_COUNT)
        most = (int)fmin(most, floor(high) - ceil(low) + 1);
    b->low = low;
    b->y0 = bottom;
    b->y_scale = isfinite(scale) ? scale : 0;
    b->upright = es_axis_make(low, high, false, bottom, b->plot.y, most);
}

/* Sets the y scale of a panel after its plot has been placed. */
static void set_upright(const es_curves_sheet *sheet, es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    bool zeros = figure->logarithmic && b->range.zero;
    double least = b->range.least_positive;
    double height = b->plot.height - (zeros ? ES_ZERO_HEIGHT : 0);
    /* Use at most as many ticks as there is space for labels. */
    int most = (int)fmax(2, fmin(MOST_TICKS, height / TICK_HEIGHT));
    if (figure->logarithmic) {
        if (figure->y_labels == ES_LABELS_COUNT)
            least = fmin(least, 1); /* the axis of a count starts at one */
        b->y0 = b->plot.y + height;
        b->upright =
            es_axis_make(least, b->range.high, true, b->y0, b->plot.y, most);
        b->low = log10(b->upright.low);
        b->y_scale = height / (log10(b->upright.high) - b->low);
        b->logarithmic = true;
    } else {
        set_linear(b, figure, most);
    }
    /* Label powers of ten as 10K or 1M if all of them are from 1 to 1T. */
    bool spoken =
        b->logarithmic && b->upright.low >= 1 && b->upright.high < 1e12;
    b->upright.labels = spoken ? ES_LABELS_COUNT : figure->y_labels;
}

/* --- x --------------------------------------------------------------------*/

/* Sets the x axis of a panel, with as many ticks at whole numbers as there is
 * space for labels. If all samples have the same step, it is in the middle of
 * the axis. */
static void set_across(es_curves_block *b)
{
    double range = b->last - b->first;
    double scale = (b->plot.width - 2 * INSET) / range;
    double start = b->plot.x + INSET, end = start + b->plot.width - 2 * INSET;
    if (!(range > 0 && isfinite(scale))) {
        double air = fmax(1, fabs(b->first) / 2);
        b->x0 = (start + end) / 2;
        b->x_scale = 0;
        b->across = (es_axis){.low = b->first - air,
                              .high = b->first + air,
                              .start = start,
                              .end = end,
                              .labels = ES_LABELS_COUNT,
                              .ticks = es_ticks_make(b->first, b->first, 1)};
        return;
    }
    es_axis *axis = &b->across;
    double fitting = fmin(b->plot.width / 30, range + 1);
    b->x0 = start;
    b->x_scale = scale;
    *axis = es_axis_make(b->first, b->last, false, start, end, 2);
    axis->labels = ES_LABELS_COUNT;
    for (int most = (int)fmax(fitting, 1); most > 0; most--) {
        axis->ticks = es_ticks_make(b->first, b->last, most);
        if (axis->ticks.n < 2)
            break;
        double apart = es_axis_place(axis, es_axis_tick(axis, 1)) -
                       es_axis_place(axis, es_axis_tick(axis, 0));
        if (es_axis_label_width(axis) + 10 <= apart)
            break;
    }
}

/* --- drawing --------------------------------------------------------------*/

static void draw_reference(const es_curves_sheet *sheet,
                           const es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    const es_canvas *canvas = &sheet->page.canvas;
    const es_box *plot = &b->plot;
    const double size = ES_SMALL_SIZE - 0.5;
    double right = plot->x + plot->width;
    if (!isfinite(figure->reference) ||
        (b->logarithmic && figure->reference < b->upright.low))
        return;
    double y = es_curves_y(b, figure->reference);
    if (figure->reference_text) {
        double width =
            es_text_width(figure->reference_text, size, ES_WEIGHT_NORMAL);
        width = fmin(width, plot->width - 4);
        es_picture_rect(canvas->picture, right - width - 4, y - 10, width + 4,
                        /* Cover the grid behind the text. */
                        10, canvas->colors->paper);
        es_draw_fitted(canvas->picture, right - 2, y - 3, size, ES_ALIGN_END,
                       ES_WEIGHT_NORMAL, canvas->colors->muted,
                       figure->reference_text, plot->width - 4);
    }
    es_picture_dashed(canvas->picture, plot->x, y, right, y, 0.75, 3,
                      canvas->colors->muted);
}

static es_status draw_block(const es_page *page, size_t i)
{
    const es_curves_sheet *sheet = page->chart;
    const es_curves *figure = sheet->figure;
    const es_curves_block *b = &sheet->blocks[i];
    const es_canvas *canvas = &page->canvas;
    const es_box *plot = &b->plot;
    bool labelled = figure->own_scales || es_page_is_first(page, i);
    es_draw_upright(canvas, plot, &b->upright, labelled, figure->y_text);
    /* Label the separate line for zeros. */
    if (labelled && b->logarithmic && b->range.zero)
        es_draw_label(canvas, plot->x - 5, es_curves_y(b, 0) + ES_SMALL_DROP,
                      ES_ALIGN_END, canvas->colors->ink, "0");
    draw_reference(sheet, b);
    es_draw_across(canvas, plot, &b->across,
                   figure->x_text ? figure->x_text : "step");
    if (b->first <= b->last)
        return es_curves_draw_lines(sheet, b);
    es_draw_name(canvas, plot->x + plot->width / 2, plot->y + plot->height / 2,
                 0, canvas->colors->muted, "no samples");
    return ES_OK;
}

/* --- layout ---------------------------------------------------------------*/

static void arrange(es_page *page)
{
    const es_curves_sheet *sheet = page->chart;
    if (sheet->below)
        page->below = 6 + es_curves_legend_height(sheet, page->plots.width) + 2;
}

/* Measures the labels to the left of the panels at the natural height, where
 * the number of ticks and the width of labels are largest. */
static void measure_labels(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    es_page *page = &sheet->page;
    double left = 0;
    for (size_t i = 0; i < page->n_panels; i++) {
        es_curves_block *b = &sheet->blocks[i];
        b->plot.height = page->plot_height;
        set_upright(sheet, b);
        left = fmax(left, es_upright_width(&b->upright, figure->y_text));
    }
    left = ceil(2 * left) / 2;
    for (size_t i = 0; i < page->n_panels; i++)
        page->panels[i] =
            (es_page_panel){.title = figure->panels[i].title,
                            .subtitle = figure->panels[i].subtitle,
                            .left = figure->own_scales ? left : 0};
    page->left = figure->own_scales ? 0 : left;
}

/* Places the plots and the legend. The legend moves below the panels if it
 * would leave them too little width. */
static es_status place(es_curves_sheet *sheet)
{
    es_page *page = &sheet->page;
    const es_box *plots = &page->plots;
    bool beside = sheet->legend_width > 0 && !sheet->below;
    /* The label of the last step may extend beyond the plot. */
    page->right = beside ? sheet->legend_width : 4;
    es_status status = es_page_lay_out(page);
    if (status == ES_EUSAGE && sheet->movable && !sheet->below) {
        sheet->below = true;
        page->right = 4;
        status = es_page_lay_out(page);
    }
    if (status < 0)
        return status;
    if (sheet->figure->style.frame)
        sheet->figure->style.frame->legend_below = sheet->below;
    if (sheet->below) {
        sheet->legend_x = plots->x;
        sheet->legend_y = plots->y + plots->height + ES_AXIS_FOOT + 6;
        sheet->legend_height = page->below - 8;
    } else {
        sheet->legend_x = plots->x + plots->width + ES_LEGEND_GAP;
        sheet->legend_y = plots->y - page->air;
        sheet->legend_height = plots->height + page->air;
    }
    /* Draw the legend as a list, unless the list would be higher than the
     * panels. */
    size_t n_lines = sheet->n_entries + (sheet->figure->line_text ? 1 : 0);
    sheet->listed = sheet->n_entries <= ES_LISTED_MOST &&
                    (double)n_lines * ES_LEGEND_LINE + 2 <=
                        sheet->legend_height + ES_AXIS_FOOT;
    return ES_OK;
}

es_status es_curves_lay_out(es_curves_sheet *out, const es_curves *figure)
{
    const bool many = figure->n_panels > 1;
    const bool small = figure->n_panels > PANELS_MOST;
    es_status status;
    *out = (es_curves_sheet){.figure = figure,
                             .page = {.name = "a figure of curves",
                                      .style = &figure->style,
                                      .chart = out,
                                      .plot_width = small  ? SMALL_WIDTH
                                                    : many ? MANY_WIDTH
                                                           : ONE_WIDTH,
                                      .plot_height = small  ? SMALL_HEIGHT
                                                     : many ? MANY_HEIGHT
                                                            : ONE_HEIGHT,
                                      .most_columns = small ? 6 : 0,
                                      .arrange = arrange,
                                      .draw = draw_block,
                                      .draw_legend = es_curves_draw_legend,
                                      .least_factor = LEAST_FACTOR,
                                      .foot = ES_AXIS_FOOT,
                                      .title_gap = 6,
                                      .note = figure->note}};
    if ((status = es_page_begin(&out->page, figure->n_panels)) < 0 ||
        (status = es_alloc(&out->blocks, figure->n_panels, sizeof *out->blocks,
                           "curves")) < 0 ||
        (status = measure_panels(out)) < 0)
        return status;
    measure_labels(out);
    es_curves_measure_legend(out);
    es_page *page = &out->page;
    if (out->nonfinite)
        es_page_add_key(page, ES_SWATCH_EDGE_ALARM, "NaN or infinite");
    char beyond[ES_LABEL_MAX];
    snprintf(beyond, sizeof beyond, "%.3g", out->beyond);
    es_label_typeset(beyond, sizeof beyond);
    snprintf(out->beyond_text, sizeof out->beyond_text, "off scale, up to %s",
             beyond);
    if (!isnan(out->beyond))
        es_page_add_key(page, ES_SWATCH_EDGE_MUTED, out->beyond_text);
    if (out->equal)
        es_page_add_key(page, ES_SWATCH_STRIPES,
                        "identical lines alternate dashes");
    if (out->beside)
        es_page_add_key(page, ES_SWATCH_DOTS, "identical samples side by side");
    if ((status = place(out)) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        out->blocks[i].plot = out->page.panels[i].plot;
        set_upright(out, &out->blocks[i]);
        set_across(&out->blocks[i]);
    }
    return ES_OK;
}

void es_curves_sheet_clear(es_curves_sheet *sheet)
{
    es_page_clear(&sheet->page);
    free(sheet->blocks);
    sheet->blocks = NULL;
}

es_status es_curves_draw(es_picture **out, const es_curves *figure)
{
    es_curves_sheet sheet;
    es_status status = es_curves_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_curves_sheet_clear(&sheet);
    return status;
}
