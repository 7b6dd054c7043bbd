/*
 * Lays out the overview of runs: a table with texts and small plots, whose rows
 * are drawn by overview_row.c. Texts are measured once at their natural size,
 * and cut on a narrower page.
 */
#include "render/figures/overview_internal.h"

#include "analyzer/base/checked.h"

#include <string.h>

/* Sizes of the chart before scaling, in points. */
#define ROW 10.0
#define LEAST_ROW 7.0
#define GAP 12.0 /* between columns */
#define TEXT_MOST 130.0
#define DOT_WIDTH 84.0
#define HEADS_WIDTH 80.0
/* Width of the bars of heads if there are no other plots. */
#define WIDE_WIDTH 300.0
#define LAYER_WIDTH 8.0
#define LEAST_LAYERS 56.0
#define MOST_LAYERS 144.0
#define TIME_WIDTH 110.0
#define LEAST_FACTOR 0.01
/* If the factor of the page width is smaller than this, the height of the rows
 * is less than ROW. */
#define FLAT_FACTOR 0.02
#define HEADER 15.0
#define TICKS 15.0      /* height of the ticks below the table */
#define LEGEND_TOP 15.0 /* gap between the ticks and the legend */
#define LEAST_TEXT 0.6  /* minimum font size, relative to the natural size */
/* The status column is drawn only if the widths are scaled by at least this
 * factor. */
#define STATUS_FACTOR 0.5
/* Values are printed only if the widths are scaled by at least this factor. */
#define NUMBER_FACTOR 0.25
#define LEAST_COLUMN 0.5 /* minimum relative width of a text column */

/* --- texts ----------------------------------------------------------------*/

/* Returns the number of decimals that shows four digits of the largest value.
 * Returns -1 if the smallest value would then be printed as 0 or the numbers
 * would be too long. */
static int decimals_of(const es_range *range)
{
    const double most = fmax(fabs(range->low), fabs(range->high));
    if (!(most > 0) || most >= 1e6 || most < 1e-3 ||
        range->least_positive * 1000 < most)
        return -1;
    return (int)fmax(0, 3 - floor(log10(most)));
}

static void widen(double *width, const char *text, es_font_weight weight)
{
    if (text)
        *width =
            fmax(*width,
                 fmin(TEXT_MOST, es_title_width(text, ES_SMALL_SIZE, weight)));
}

static void measure_texts(es_overview_sheet *s)
{
    const es_overview *f = s->figure;
    double *widths = s->text_widths, *others = widths + f->n_columns;
    char value[ES_LABEL_MAX];
    for (size_t k = 0; k < f->n_columns; k++)
        widen(&widths[k], f->columns[k].title, ES_WEIGHT_BOLD);
    widen(&others[1], "flag", ES_WEIGHT_BOLD);
    widen(&others[2], "status", ES_WEIGHT_BOLD);
    for (size_t i = 0; i < f->n_rows; i++) {
        const es_overview_row *row = &f->rows[i];
        for (size_t k = 0; k < f->n_columns; k++)
            widen(&widths[k], row->texts[k], ES_WEIGHT_NORMAL);
        es_overview_print(value, s, row->value);
        widen(&others[0], value, ES_WEIGHT_NORMAL);
        widen(&others[1], row->flag.text, ES_WEIGHT_NORMAL);
        widen(&others[2], row->status.text, ES_WEIGHT_NORMAL);
    }
    for (size_t k = 0; k < f->n_columns + 3; k++)
        widths[k] += 1; /* one point more, so that rounding cuts no text */
}

/* --- scales ---------------------------------------------------------------*/

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static es_status find_most(es_overview_sheet *s)
{
    const es_overview *f = s->figure;
    double *values;
    size_t n = 0;
    es_status status =
        es_alloc(&values, f->n_rows, sizeof *values, "an overview");
    if (status < 0)
        return status;
    for (size_t i = 0; i < f->n_rows; i++)
        if (isfinite(f->rows[i].value))
            values[n++] = (double)f->rows[i].value;
    qsort(values, n, sizeof *values, by_size);
    s->most = n > 3 && values[0] > 0 ? 10 * values[3 * (n - 1) / 4] : INFINITY;
    free(values);
    return ES_OK;
}

static void measure_rows(es_overview_sheet *s)
{
    const es_overview *f = s->figure;
    es_range *range = &s->range;
    *range = (es_range)ES_RANGE_NONE;
    for (size_t i = 0; i < f->n_rows; i++) {
        const es_overview_row *row = &f->rows[i];
        if ((double)row->value <= s->most)
            es_range_add(range, (double)row->value);
        if (row->low < row->high) {
            es_range_add(range, fmin(row->low, s->most));
            es_range_add(range, fmin(row->high, s->most));
        }
        if (row->n_layers > s->most_layers)
            s->most_layers = row->n_layers;
        size_t n_beside = 0;
        for (int k = 0; k < ES_OVERVIEW_SHARES; k++)
            n_beside += es_overview_is_beside(row->shares[k], WIDE_WIDTH);
        if (n_beside > s->most_beside)
            s->most_beside = n_beside;
        s->last_step = fmax(s->last_step, row->last); /* fmax ignores NaN */
        s->last_step = fmax(s->last_step, row->planned);
        for (size_t k = 0; k < row->n_flags; k++) {
            s->last_step = fmax(s->last_step, row->flags[k].to);
            s->has_info = s->has_info || row->flags[k].level == ES_LEVEL_INFO;
        }
        es_page_look_at(&s->page, row->layers, row->n_layers);
    }
}

static es_axis axis_on(const es_overview_span *at, double inset, double low,
                       double high, bool decades)
{
    const double start = at->x + inset, end = at->x + at->width - inset;
    const int most = (int)fmax(2, at->width / 28);
    es_axis axis = es_axis_make(low, high, decades, start, end, most);
    /* Add ticks, because values cannot be compared if there is only one
       tick. */
    for (int i = 1; i < 4 && axis.ticks.n <= 1 && !decades; i++)
        axis = es_axis_make(low, high, false, start, end, most + i);
    return axis;
}

static void make_axes(es_overview_sheet *s)
{
    const es_range *range = &s->range;
    const bool decades = range->low > 0 && range->high > 20 * range->low;
    s->steps =
        axis_on(&s->time, 0, 0, s->last_step > 0 ? s->last_step : 1, false);
    s->steps.labels = ES_LABELS_COUNT;
    double inset = 3;
    for (int i = 0; i < 2; i++) { /* keep the labels within the column */
        s->values = axis_on(&s->dots, inset, range->low, range->high, decades);
        if (decades && range->low >= 1)
            s->values.labels = ES_LABELS_COUNT;
        inset = fmax(inset, es_axis_label_width(&s->values) / 2 - s->gap / 3);
        inset = fmin(inset, 0.4 * s->dots.width);
    }
}

/* --- layout ---------------------------------------------------------------*/

/* Places a column at *x, and moves *x to the right of the column and its
 * gap. */
static void place(es_overview_span *out, double *x, double width, double gap)
{
    *out = (es_overview_span){*x, width};
    *x += width + gap;
}

/* Places all columns from x = 0 on, and returns the right end of the last. On a
 * narrow page, first the font becomes smaller, then redundant columns are left
 * out, then texts are cut. */
static double place_columns(es_overview_sheet *s, double factor)
{
    const size_t n = s->figure->n_columns;
    const double texts = fmin(1, LEAST_TEXT + (1 - LEAST_TEXT) * factor);
    const double layers = LAYER_WIDTH * (double)s->most_layers;
    const double column =
        fmin(1, LEAST_COLUMN + (1 - LEAST_COLUMN) * factor / NUMBER_FACTOR);
    double x = 0;
    s->letters = texts * ES_SMALL_SIZE;
    s->gap = GAP * fmin(1, 0.5 + 0.5 * factor);
    for (size_t k = 0; k < n; k++)
        place(&s->texts[k], &x,
              (s->figure->columns[k].number ? 1 : column) * texts *
                  s->text_widths[k],
              s->gap);
    if (s->figure->heads_only) {
        place(&s->heads, &x, factor * WIDE_WIDTH, 0);
        place(&s->beside, &x,
              fmin(1, factor) * ES_BESIDE_WIDTH * (double)s->most_beside, 0);
        return x;
    }
    place(&s->texts[n], &x,
          factor < NUMBER_FACTOR ? 0 : texts * s->text_widths[n], s->gap / 2);
    place(&s->dots, &x, factor * DOT_WIDTH, s->gap);
    place(&s->heads, &x, factor * HEADS_WIDTH, s->gap);
    place(&s->layers, &x,
          factor * fmin(fmax(layers, LEAST_LAYERS), MOST_LAYERS), s->gap);
    place(&s->time, &x, factor * TIME_WIDTH, s->gap);
    place(&s->texts[n + 1], &x, texts * s->text_widths[n + 1], 0);
    if (factor < STATUS_FACTOR) {
        s->texts[n + 2] = (es_overview_span){x, 0};
        return x;
    }
    x += s->gap;
    place(&s->texts[n + 2], &x, texts * s->text_widths[n + 2], 0);
    return x;
}

static double width_of(es_page *page, size_t i, double factor)
{
    (void)i;
    return place_columns(page->chart, factor);
}

static size_t lines_of(const es_overview *figure)
{
    return figure->n_rows + (figure->n_more > 0);
}

static double height_of(es_page *page, size_t i, double factor)
{
    const es_overview_sheet *s = page->chart;
    const double whole = ROW * (double)lines_of(s->figure);
    (void)i;
    if (factor < FLAT_FACTOR)
        return fmin(whole, fmax(2 * ROW, whole * pow(factor / FLAT_FACTOR, 6)));
    return whole * fmax(factor, 1);
}

/* Chooses the number of rows that are legible at this height. If rows are left
 * out, a line below the table reports their number. */
static void choose_rows(es_overview_sheet *s, double height)
{
    const size_t n = lines_of(s->figure);
    const size_t most = (size_t)fmax(1, floor(height / LEAST_ROW + 1e-6));
    s->n_shown = s->figure->n_rows;
    if (n > most)
        s->n_shown = most - 1;
    s->row = height / (double)(n > most ? most : n);
}

/* --- around the rows ------------------------------------------------------*/

/* Draws the title above a text column. */
static void draw_title(const es_overview_sheet *s, const es_overview_span *at,
                       double y, bool right, const char *text)
{
    if (at->width > 0)
        es_draw_fitted(s->page.canvas.picture,
                       right ? at->x + at->width : at->x, y, s->letters,
                       right ? ES_ALIGN_END : ES_ALIGN_START, ES_WEIGHT_BOLD,
                       s->page.canvas.colors->ink, text,
                       at->width + (right ? 0 : s->gap - 3));
}

/* Draws the title above a column of plots. If the title does not fit, only its
 * first word is drawn; "perplexity" becomes "ppl" if it does not fit. */
static void draw_name(const es_overview_sheet *s, const es_overview_span *at,
                      double y, const char *text)
{
    const double width = at->width + s->gap - 3;
    char brief[64];
    snprintf(brief, sizeof brief, "%.*s", (int)strcspn(text, ":( "), text);
    if (es_title_width(text, s->letters, ES_WEIGHT_BOLD) > width)
        text = brief;
    if (strcmp(text, "perplexity") == 0 &&
        es_title_width(text, s->letters, ES_WEIGHT_BOLD) > width)
        text = "ppl";
    es_draw_fitted(s->page.canvas.picture, at->x, y, s->letters, ES_ALIGN_START,
                   ES_WEIGHT_BOLD, s->page.canvas.colors->ink, text, width);
}

static void draw_titles(const es_overview_sheet *s, double y)
{
    const es_overview *f = s->figure;
    for (size_t k = 0; k < f->n_columns; k++)
        draw_title(s, &s->texts[k], y, f->columns[k].number,
                   f->columns[k].title);
    draw_name(s, &s->heads, y, f->heads_text);
    if (f->heads_only)
        return;
    draw_name(s, &s->dots, y, f->value_text);
    draw_name(s, &s->layers, y, f->layers_text);
    draw_name(s, &s->time, y, "flags over steps");
    draw_title(s, &s->texts[f->n_columns + 1], y, false, "flag");
    draw_title(s, &s->texts[f->n_columns + 2], y, false, "status");
}

static void draw_ends(const es_overview_sheet *s, double left, double right,
                      double y, const char *first, const char *last)
{
    const es_canvas *canvas = &s->page.canvas;
    const double width = es_text_width(first, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) +
                         es_text_width(last, ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    if (right - left < width / 2)
        return;
    es_draw_label(canvas, left, y, ES_ALIGN_START, canvas->colors->ink, first);
    if (right - left > width + 4)
        es_draw_label(canvas, right, y, ES_ALIGN_END, canvas->colors->ink,
                      last);
}

static es_box box_of(const es_box *plot, const es_overview_span *at)
{
    return (es_box){at->x, plot->y, at->width, plot->height};
}

static void draw_scales(const es_overview_sheet *s, const es_box *plot)
{
    const es_box values = box_of(plot, &s->dots);
    const es_box steps = box_of(plot, &s->time);
    const double y = plot->y + plot->height + 10.5;
    char last[ES_LABEL_MAX];
    draw_ends(s, s->heads.x, s->heads.x + s->heads.width, y, "0", "100%");
    if (s->figure->heads_only)
        return;
    if (s->dots.width > es_axis_label_width(&s->values))
        es_draw_across(&s->page.canvas, &values, &s->values, NULL);
    if (s->time.width > es_axis_label_width(&s->steps))
        es_draw_across(&s->page.canvas, &steps, &s->steps, NULL);
    if (!s->most_layers)
        return;
    snprintf(last, sizeof last, "%zu", s->most_layers - 1);
    draw_ends(s, s->layers.x, s->layers.x + s->layers.width, y, "0",
              s->most_layers > 1 ? last : "");
}

static es_status draw_panel(const es_page *page, size_t i)
{
    es_overview_sheet *s = page->chart;
    const es_overview *f = s->figure;
    const es_box *plot = &page->panels[i].plot;
    const es_colors *colors = page->canvas.colors;
    char more[128];
    double y = plot->y;
    choose_rows(s, plot->height);
    draw_titles(s, plot->y - 5);
    for (size_t k = 0; k < s->n_shown; k++, y += s->row) {
        es_picture_line(page->canvas.picture, plot->x, y, plot->x + plot->width,
                        y, 0.3, colors->grid);
        es_overview_draw_row(s, &f->rows[k], y + s->row / 2);
    }
    es_picture_line(page->canvas.picture, plot->x, y, plot->x + plot->width, y,
                    0.3, colors->grid);
    const size_t n_more = f->n_rows - s->n_shown + f->n_more;
    if (n_more) {
        const es_overview_span all = {plot->x, plot->width};
        snprintf(more, sizeof more, "and %zu more %s%s", n_more, f->row_word,
                 n_more == 1 ? "" : "s");
        es_overview_put(s, &all, y + s->row / 2, false, colors->muted, more);
    }
    draw_scales(s, plot);
    return ES_OK;
}

/* --- the figure -----------------------------------------------------------*/

static void arrange(es_page *page)
{
    page->below = es_overview_legend(page->chart, 0) + 6;
}

static void draw_legend(const es_page *page)
{
    es_overview_legend(page->chart,
                       page->plots.y + page->plots.height + TICKS + LEGEND_TOP);
}

static es_status lay_out(es_overview_sheet *s)
{
    const es_overview *f = s->figure;
    es_status status;
    if (!f->n_rows)
        return es_fail(ES_EUSAGE, "an overview needs at least one run");
    if ((status = es_page_begin(&s->page, 1)) < 0 ||
        (status = es_alloc(&s->text_widths, f->n_columns + 3,
                           sizeof *s->text_widths, "an overview")) < 0 ||
        (status = es_alloc(&s->texts, f->n_columns + 3, sizeof *s->texts,
                           "an overview")) < 0)
        return status;
    if ((status = find_most(s)) < 0)
        return status;
    measure_rows(s);
    s->decimals = decimals_of(&s->range);
    measure_texts(s);
    es_overview_name_ramp(s);
    if ((status = es_page_lay_out(&s->page)) < 0)
        return status;
    const es_box *plot = &s->page.panels[0].plot;
    const double dx = plot->x;
    for (size_t k = 0; k < f->n_columns + 3; k++)
        s->texts[k].x += dx;
    s->dots.x += dx;
    s->heads.x += dx;
    s->beside.x += dx;
    s->layers.x += dx;
    s->time.x += dx;
    make_axes(s);
    return ES_OK;
}

es_status es_overview_draw(es_picture **out, const es_overview *figure)
{
    es_overview_sheet s = {.figure = figure,
                           .scale = {figure->low, figure->high,
                                     figure->logarithmic,
                                     figure->style.colormap},
                           .page = {.name = "an overview",
                                    .style = &figure->style,
                                    .chart = &s,
                                    .width = width_of,
                                    .height = height_of,
                                    .arrange = arrange,
                                    .draw = draw_panel,
                                    .draw_legend = draw_legend,
                                    .least_factor = LEAST_FACTOR,
                                    .air = HEADER,
                                    .foot = TICKS,
                                    .note = figure->note}};
    es_status status = lay_out(&s);
    if (status == ES_OK)
        status = es_page_draw(out, &s.page);
    es_page_clear(&s.page);
    free(s.text_widths);
    free(s.texts);
    return status;
}
