#include "render/figures/curves_internal.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the content wants, in points. */
#define ONE_WIDTH 340.0
#define ONE_HEIGHT 210.0
#define MANY_WIDTH 250.0
#define MANY_HEIGHT 165.0
#define LEAST_FACTOR 0.3 /* of that, when a size is asked for */

#define DARKEST 0.3 /* of a map, on a dark page */
#define AIR 0.07    /* above the values, as a share of their range */
#define MOST_TICKS 8
#define TICK_ROOM 18.0

#define INSET 4.0 /* the first and last sample are clear of the edges */
#define MOST_LISTED 16
#define LEGEND_MOST 110.0 /* width of its names */

const char *es_curve_name(const es_curves *figure, const es_curve *curve)
{
    const char *label = curve->label ? curve->label : "";
    size_t n = figure->line_text ? strlen(figure->line_text) : 0;
    if (n > 0 && strncmp(label, figure->line_text, n) == 0 && label[n] == ' ')
        return label + n + 1;
    return label;
}

es_color es_curve_color(const es_curves_sheet *sheet, size_t i)
{
    /* The end that is like the paper cannot be seen on it. */
    static const double ends[] = {[ES_COLORMAP_VIRIDIS] = 0.92,
                                  [ES_COLORMAP_CIVIDIS] = 0.9,
                                  [ES_COLORMAP_MAGMA] = 0.82};
    const es_figure_style *style = &sheet->figure->style;
    es_colormap map = style->colormap;
    double depth =
        sheet->n_named > 1 ? (double)i / ((double)sheet->n_named - 1) : 0.25;
    if (style->theme == ES_THEME_DARK)
        return es_colormap_at(map, DARKEST + (1 - DARKEST) * depth);
    return es_colormap_at(map, ends[map] * depth);
}

/* Least and largest finite value, and whether others are not finite. */
static void measure_values(es_curves_sheet *sheet, const es_curve *curve)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < curve->n; i++) {
        float value = curve->values[i];
        if (isfinite(value)) {
            low = value < low ? value : low;
            high = value > high ? value : high;
        } else if (!es_is_missing(value))
            sheet->nonfinite = true;
    }
    sheet->least = fmin(sheet->least, (double)low);
    sheet->most = fmax(sheet->most, (double)high);
}

/* Steps should increase; a file may say otherwise. */
static void measure_steps(es_curves_block *block, const es_curve *curve)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < curve->n; i++) {
        first = curve->steps[i] < first ? curve->steps[i] : first;
        last = curve->steps[i] > last ? curve->steps[i] : last;
    }
    if (curve->n == 0)
        return;
    block->first = fmin(block->first, (double)first);
    block->last = fmax(block->last, (double)last);
}

static void measure_panels(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    sheet->least = INFINITY;
    sheet->most = -INFINITY;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_curves_panel *panel = &figure->panels[i];
        es_curves_block *block = &sheet->blocks[i];
        *block = (es_curves_block){
            .panel = panel, .first = INFINITY, .last = -INFINITY};
        for (size_t k = 0; k < panel->n_curves; k++) {
            measure_values(sheet, &panel->curves[k]);
            measure_steps(block, &panel->curves[k]);
        }
        if (panel->n_curves > sheet->n_named) {
            sheet->named = panel->curves;
            sheet->n_named = panel->n_curves;
        }
        sheet->head = fmax(sheet->head, es_head(panel->title, panel->subtitle));
    }
}

/* From the values' range to what the axis has to show: with zero where that
 * is not far away, and never empty. */
static void choose_range(es_curves_sheet *sheet)
{
    double reference = sheet->figure->reference;
    bool referred = isfinite(reference);
    double low = sheet->least, high = sheet->most;
    if (referred) {
        low = fmin(low, reference);
        high = fmax(high, reference);
    }
    if (!(low <= high))
        low = high = 0; /* nothing finite */
    if (low >= 0 && (referred || low <= high / 2 || low == high))
        low = 0;
    if (high <= 0 && low == high)
        high = 0;
    if (low == high)
        high = 1;
    sheet->least = low;
    sheet->most = high;
}

/* The scale: the range with some air, a share of it, except beyond zero. */
static void set_scale(es_curves_sheet *sheet, double share)
{
    double low = sheet->least, high = sheet->most;
    double air = (high - low) * share;
    if (isfinite(high + air) && isfinite(low - air)) {
        high += high > 0 ? air : 0;
        low = low > 0 ? fmax(0, low - air) : low < 0 ? low - air : 0;
    }
    sheet->low = low;
    sheet->high = high;
    sheet->ticks = es_ticks_make(low, high, MOST_TICKS);
}

/* One step axis for all, unless one panel would not be readable on it. */
static void share_steps(es_curves_sheet *sheet)
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

static double widest_tick(const es_ticks *ticks)
{
    char text[ES_LABEL_MAX];
    double widest = 0;
    for (int i = 0; i < ticks->n; i++) {
        es_label_value(text, ticks, i);
        widest =
            fmax(widest, es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    return widest;
}

static void measure_legend(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    double widest = 0;
    bool any = false;
    for (size_t i = 0; i < sheet->n_named; i++) {
        const char *name = es_curve_name(figure, &sheet->named[i]);
        any = any || name[0];
        widest =
            fmax(widest, es_title_width(name, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
    }
    if (!any)
        return;
    widest = ES_LEGEND_SWATCH + 5 + fmin(widest, LEGEND_MOST);
    if (figure->line_text)
        widest =
            fmax(widest, fmin(LEGEND_MOST,
                              es_text_width(figure->line_text, ES_LABEL_SIZE,
                                            ES_WEIGHT_NORMAL)));
    sheet->legend_room = ES_LEGEND_GAP + widest;
}

/* A list, unless it is longer than the panels are high. */
static bool list_fits(const es_curves_sheet *sheet)
{
    size_t lines = sheet->n_named + (sheet->figure->line_text ? 1 : 0);
    return sheet->n_named <= MOST_LISTED &&
           (double)lines * ES_LEGEND_LINE + 2 <=
               sheet->legend_height + ES_STEP_FOOT;
}

static void measure(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    measure_panels(sheet);
    choose_range(sheet);
    set_scale(sheet, AIR);
    share_steps(sheet);
    measure_legend(sheet);
    sheet->label_room = widest_tick(&sheet->ticks) + 5 +
                        (figure->y_text ? ES_LABEL_SIZE + 5 : 0);
    sheet->top = figure->style.title ? ES_TITLE_SIZE + 9 : 0;
    sheet->footer = (sheet->nonfinite ? 15 : 0) + (figure->note ? 14 : 0);
}

static double place_across(void *user, double factor)
{
    es_curves_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double natural = n > 1 ? MANY_WIDTH : ONE_WIDTH;
    double width = floor(2 * factor * natural) / 2;
    double x = ceil(2 * (ES_MARGIN + sheet->label_room)) / 2;
    for (size_t column = 0; column < sheet->n_columns; column++) {
        for (size_t i = column; i < n; i += sheet->n_columns) {
            sheet->blocks[i].x = x;
            sheet->blocks[i].width = width;
        }
        x += width + (column + 1 < sheet->n_columns ? ES_GUTTER : 0);
    }
    sheet->legend_x = x + ES_LEGEND_GAP;
    /* The last step's label is wider than the plot where nothing follows. */
    double right = sheet->legend_room > 0 ? sheet->legend_room : 4;
    return x + right + ES_MARGIN;
}

static double place_down(void *user, double factor)
{
    es_curves_sheet *sheet = user;
    size_t n = sheet->figure->n_panels;
    double natural = n > 1 ? MANY_HEIGHT : ONE_HEIGHT;
    double height = floor(2 * factor * natural) / 2;
    double y = ES_MARGIN + sheet->top;
    sheet->legend_y = y + sheet->head;
    for (size_t row = 0; row < sheet->n_rows; row++) {
        y += sheet->head + (row == 0 && sheet->head == 0 ? 4 : 0);
        for (size_t i = row * sheet->n_columns;
             i < n && i < (row + 1) * sheet->n_columns; i++) {
            sheet->blocks[i].y = y;
            sheet->blocks[i].height = height;
        }
        y += height;
        sheet->legend_height = y - sheet->legend_y;
        y += ES_STEP_FOOT + (row + 1 < sheet->n_rows ? 12 : 0);
    }
    return y + sheet->footer + ES_MARGIN;
}

static es_status place(es_curves_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    const es_layout layout = {
        sheet,          place_across,         place_down,
        LEAST_FACTOR,   "a figure of curves", sheet->figure->n_panels,
        &sheet->n_rows, &sheet->n_columns};
    es_extent needed;
    es_status status = es_layout_fit(&needed, &layout, style);
    if (status != ES_OK)
        return status;
    sheet->listed = list_fits(sheet);
    sheet->width = style->width > 0 ? style->width : ceil(needed.width);
    sheet->height = style->height > 0 ? style->height : ceil(needed.height);
    return ES_OK;
}

/* A scale of 0 puts everything into the middle or, for values, onto the
 * lower edge: nothing overflows where a range is empty or denormal. */
static void map_to_page(const es_curves_sheet *sheet, es_curves_block *b)
{
    double range = b->last - b->first;
    double x_scale = (b->width - 2 * INSET) / range;
    double y_scale = b->height / (sheet->high - sheet->low);
    bool spread = range > 0 && isfinite(x_scale);
    b->x_scale = spread ? x_scale : 0;
    b->x0 = b->x + (spread ? INSET : b->width / 2);
    b->y_scale = isfinite(y_scale) ? y_scale : 0;
    b->y0 = b->y + b->height;
}

/* As many ticks as have room for their labels. */
static es_ticks step_ticks(const es_curves_block *b)
{
    es_ticks ticks = {0};
    for (int most = (int)(b->width / 30); most > 0; most--) {
        char text[ES_LABEL_MAX];
        double widest = 0;
        ticks = es_ticks_make(b->first, b->last, most);
        for (int i = 0; i < ticks.n; i++) {
            es_label_count(text, es_ticks_at(&ticks, i));
            widest = fmax(widest,
                          es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
        }
        double apart =
            es_curves_x(b, b->first + ticks.step) - es_curves_x(b, b->first);
        if (ticks.n < 2 || widest + 10 <= apart)
            break;
    }
    return ticks;
}

/* Now that the height is known: room for the reference's text above it, and
 * no more ticks than have room for their labels. */
static void settle_scale(es_curves_sheet *sheet)
{
    double height = sheet->blocks[0].height;
    double air = AIR;
    if (sheet->figure->reference_text)
        air = fmax(air, ES_REFERENCE_ROOM / (height - ES_REFERENCE_ROOM));
    set_scale(sheet, air);
    int room = (int)fmin(MOST_TICKS, height / TICK_ROOM);
    sheet->ticks = es_ticks_make(sheet->low, sheet->high, room > 2 ? room : 2);
}

es_status es_curves_lay_out(es_curves_sheet *out, const es_curves *figure)
{
    *out = (es_curves_sheet){.figure = figure,
                             .colors = es_theme_colors(figure->style.theme)};
    if (figure->n_panels == 0)
        return es_fail(ES_EUSAGE, "curves need at least one run");
    out->blocks = calloc(figure->n_panels, sizeof *out->blocks);
    if (!out->blocks)
        return es_fail(ES_ENOMEM, "curves: out of memory");
    measure(out);
    es_status status = place(out);
    if (status != ES_OK)
        return status;
    settle_scale(out);
    for (size_t i = 0; i < figure->n_panels; i++) {
        map_to_page(out, &out->blocks[i]);
        out->blocks[i].ticks = step_ticks(&out->blocks[i]);
    }
    return ES_OK;
}

void es_curves_sheet_clear(es_curves_sheet *sheet)
{
    free(sheet->blocks);
    sheet->blocks = NULL;
}
