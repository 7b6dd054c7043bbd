/*
 * Where everything of a figure of bars goes: the scale, the labels of the
 * groups on one line or two, and how the bars' texts are printed.
 */
#include "render/figures/bars_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>
#include <string.h>

/* What the content wants, in points. */
#define LEAST_WIDTH 200.0
#define MOST_WIDTH 900.0
#define ONE_HEIGHT 190.0
#define MANY_HEIGHT 160.0
#define WIDE_BAR 24.0   /* a few bars: their texts stand level */
#define NARROW_BAR 12.0 /* many */
#define FEW_BARS 24
#define STACK 34.0
#define LEAST_PLOT 130.0 /* width, when a size is requested */

#define BETWEEN 0.8      /* of a bar, between groups */
#define STACK_SHARE 0.74 /* of a group's width */
#define MOST_TICKS 7
#define TICK_HEIGHT 18.0
#define LARGEST_VALUE 7.0
#define LEAST_VALUE 5.0
#define LABEL_LINE 9.0

const es_bar *es_bars_at(const es_bars *figure, size_t panel, size_t group,
                         size_t series)
{
    return &figure->panels[panel].bars[group * figure->n_series + series];
}

const char *es_bar_text(const es_bar *bar, es_bars_print print)
{
    if (print == ES_BARS_NONE)
        return NULL;
    return print == ES_BARS_BRIEF && bar->brief ? bar->brief : bar->text;
}

es_box es_bars_place(const es_bars_sheet *sheet, size_t panel, size_t group,
                     size_t series)
{
    const es_bars *figure = sheet->figure;
    const es_box *plot = &sheet->page.panels[panel].plot;
    double left = plot->x + sheet->pitch * (double)group;
    double n = figure->stacked ? 1 : (double)figure->n_series;
    left += (sheet->pitch - n * sheet->bar) / 2;
    left += figure->stacked ? 0 : sheet->bar * (double)series;
    double thin = figure->stacked ? 0 : fmin(1.5, 0.12 * sheet->bar);
    return (es_box){left + thin / 2, plot->y, sheet->bar - thin, plot->height};
}

/* --- what there is to show ------------------------------------------------*/

static double largest(const es_bars *figure)
{
    double most = 0;
    for (size_t p = 0; p < figure->n_panels; p++)
        for (size_t g = 0; g < figure->n_groups; g++) {
            double sum = 0, one = 0;
            for (size_t s = 0; s < figure->n_series; s++) {
                double value = es_bars_at(figure, p, g, s)->value;
                if (!(isfinite(value) && value > 0))
                    continue;
                sum += value;
                one = fmax(one, value);
            }
            most = fmax(most, figure->stacked ? sum : one);
        }
    return isfinite(most) && most > 0 ? most : 1;
}

static double natural_bar(const es_bars *figure)
{
    if (figure->stacked)
        return STACK;
    return figure->n_groups * figure->n_series * figure->n_panels <= FEW_BARS
               ? WIDE_BAR
               : NARROW_BAR;
}

static double natural_width(const es_bars *figure)
{
    double bar = natural_bar(figure);
    double a_group = figure->stacked
                         ? bar / STACK_SHARE
                         : bar * ((double)figure->n_series + BETWEEN);
    return fmin(fmax(a_group * (double)figure->n_groups, LEAST_WIDTH),
                MOST_WIDTH);
}

/* The scale: no more ticks than fit, and above the largest bar
   space for a text. */
static void set_scale(es_bars_sheet *sheet, double height, double above)
{
    double high = sheet->figure->high;
    int most = (int)fmin(MOST_TICKS, height / TICK_HEIGHT);
    if (!(isfinite(high) && high > 0))
        high = sheet->most;
    high *= height / fmax(height - above, height / 2);
    sheet->axis = es_axis_make(0, high, false, height, 0, most);
    es_ticks *ticks = &sheet->axis.ticks;
    while (ticks->n > 1 && sheet->figure->limit > 0 &&
           es_ticks_at(ticks, ticks->n - 1) > sheet->figure->limit)
        ticks->n--;
}

/* --- labels of the groups -------------------------------------------------*/

static bool fits(const char *text, double width)
{
    return es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) <= width;
}

/* Bytes of the first of two lines: up to the last blank, or past the last
   comma, with which it fits, else the first; 0 if there is none. */
static size_t first_line(const char *text, double width)
{
    size_t best = 0;
    for (size_t n = 1; text[n]; n++) {
        if (text[n] != ' ' && (text[n - 1] != ',' || text[n] == ' '))
            continue;
        char *line = strndup(text, n);
        bool good = line && fits(line, width);
        free(line);
        if (best && !good)
            break;
        best = n;
    }
    return best;
}

static bool break_label(es_bars_label *out, const char *text, double width)
{
    size_t n = fits(text, width) ? 0 : first_line(text, width);
    char *line = n ? strndup(text, n) : NULL;
    if (n && !line)
        return false;
    out->lines[0] =
        es_text_fit(n ? line : text, width, ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    if (n)
        out->lines[1] = es_text_fit(text + n + (text[n] == ' '), width,
                                    ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    free(line);
    return out->lines[0] && (!n || out->lines[1]);
}

static es_status break_labels(es_bars_sheet *sheet)
{
    for (size_t i = 0; i < sheet->figure->n_groups; i++)
        if (!break_label(&sheet->labels[i], sheet->figure->groups[i],
                         sheet->pitch - 3))
            return es_fail(ES_ENOMEM, "bars: out of memory");
    return ES_OK;
}

static double foot(const es_bars_sheet *sheet)
{
    const es_bars *figure = sheet->figure;
    bool two = false;
    for (size_t i = 0; i < figure->n_groups; i++)
        two = two || (!fits(figure->groups[i], sheet->pitch - 3) &&
                      first_line(figure->groups[i], sheet->pitch - 3));
    return 5 + LABEL_LINE * (two ? 2 : 1) + (figure->group_text ? 12 : 0);
}

/* --- the page -------------------------------------------------------------*/

static double width_of(es_page *page, size_t i, double factor)
{
    es_bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    double width = floor(2 * factor * natural_width(figure)) / 2;
    (void)i;
    sheet->pitch = width / (double)figure->n_groups;
    sheet->bar = figure->stacked
                     ? sheet->pitch * STACK_SHARE
                     : sheet->pitch / ((double)figure->n_series + BETWEEN);
    return width;
}

static double height_of(es_page *page, size_t i, double factor)
{
    double natural = page->n_panels > 1 ? MANY_HEIGHT : ONE_HEIGHT;
    /* A width alone changes the height less: bars are compared by it. */
    double high = page->style->height > 0 ? factor : sqrt(factor);
    (void)i;
    return floor(2 * high * natural) / 2;
}

static void arrange(es_page *page)
{
    es_bars_sheet *sheet = page->chart;
    sheet->legend.width = page->plots.width;
    page->above = es_legend_height(&sheet->legend);
    page->foot = foot(sheet);
}

static void draw_legend(es_picture *picture, const es_page *page)
{
    const es_bars_sheet *sheet = page->chart;
    es_draw_legend(picture, &sheet->legend, page->plots.x,
                   page->plots.y - page->air - page->head - page->above);
}

/* --- the texts of the bars ------------------------------------------------*/

/* Widest text of all bars, at size 1. */
static double widest_text(const es_bars *figure, es_bars_print print)
{
    double widest = 0;
    size_t n = figure->n_groups * figure->n_series;
    for (size_t p = 0; p < figure->n_panels; p++)
        for (size_t i = 0; i < n; i++) {
            const char *text = es_bar_text(&figure->panels[p].bars[i], print);
            if (text)
                widest = fmax(widest, es_text_width(text, 1, ES_WEIGHT_NORMAL));
        }
    return widest;
}

/* The first way of printing in which every text has a legible size. */
static void choose_print(es_bars_sheet *sheet)
{
    double width = sheet->bar - 2;
    for (int print = ES_BARS_TEXT; print <= ES_BARS_BRIEF; print++) {
        double widest = widest_text(sheet->figure, (es_bars_print)print);
        sheet->print = (es_bars_print)print;
        sheet->value_size = fmin(LARGEST_VALUE, width / widest);
        if (sheet->value_size >= LEAST_VALUE)
            return;
    }
    sheet->value_size = fmin(LARGEST_VALUE - 0.5, (width + 2) / 0.95);
    sheet->print = sheet->value_size >= LEAST_VALUE && !sheet->figure->stacked
                       ? ES_BARS_TURNED
                       : ES_BARS_NONE;
}

static double text_height(const es_bars_sheet *sheet)
{
    const es_bars *figure = sheet->figure;
    if (figure->stacked)
        return figure->panels[0].totals ? LARGEST_VALUE + 2 * ES_BARS_GAP : 4;
    if (sheet->print == ES_BARS_NONE)
        return 4;
    if (sheet->print == ES_BARS_TURNED)
        return 2 * ES_BARS_GAP +
               sheet->value_size * widest_text(figure, ES_BARS_TURNED);
    return sheet->value_size + 2 * ES_BARS_GAP;
}

static es_status describe(es_bars_sheet *sheet)
{
    const es_bars *figure = sheet->figure;
    es_status status;
    if (!figure->n_groups || !figure->n_series)
        return es_fail(ES_EUSAGE, "bars need at least one group and series");
    if ((status = es_page_begin(&sheet->page, figure->n_panels)) < 0 ||
        (status = es_alloc(&sheet->labels, figure->n_groups,
                           sizeof *sheet->labels, "bars")) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        sheet->page.panels[i].title = figure->panels[i].title;
        sheet->page.panels[i].subtitle = figure->panels[i].subtitle;
    }
    sheet->most = largest(figure);
    set_scale(sheet, ONE_HEIGHT, 0);
    sheet->page.left =
        ceil(2 * es_upright_width(&sheet->axis, figure->y_text)) / 2;
    return ES_OK;
}

es_status es_bars_lay_out(es_bars_sheet *out, const es_bars *figure)
{
    es_status status;
    *out = (es_bars_sheet){
        .figure = figure,
        .legend = {.theme = figure->style.theme,
                   .names = figure->series,
                   .n = figure->n_series},
        .page = {.name = "a figure of bars",
                 .style = &figure->style,
                 .chart = out,
                 .width = width_of,
                 .height = height_of,
                 .arrange = arrange,
                 .draw = es_bars_draw_panel,
                 .draw_legend = draw_legend,
                 .least_factor = LEAST_PLOT / natural_width(figure),
                 .title_gap = 6,
                 .note = figure->note,
                 .long_note = true}};
    if ((status = describe(out)) < 0 ||
        (status = es_page_lay_out(&out->page)) < 0)
        return status;
    choose_print(out);
    set_scale(out, out->page.panels[0].plot.height, text_height(out));
    return break_labels(out);
}

void es_bars_sheet_clear(es_bars_sheet *sheet)
{
    for (size_t i = 0; sheet->labels && i < sheet->figure->n_groups; i++) {
        free(sheet->labels[i].lines[0]);
        free(sheet->labels[i].lines[1]);
    }
    free(sheet->labels);
    sheet->labels = NULL;
    es_page_clear(&sheet->page);
}
