/*
 * Draws bar charts: chooses the scale, draws the bars with their texts, and
 * draws the labels of groups and the legend.
 */
#include "render/figures/bars.h"

#include "analyzer/base/checked.h"
#include "render/figures/page.h"

/* Sizes of the parts of a chart before scaling, in points. */
#define LEAST_WIDTH 200.0
#define MOST_WIDTH 900.0
#define ONE_HEIGHT 190.0
#define MANY_HEIGHT 160.0
#define WIDE_BAR 24.0   /* width of a bar if there are at most FEW_BARS */
#define NARROW_BAR 12.0 /* width of a bar if there are more than FEW_BARS */
#define FEW_BARS 24
#define STACK 34.0
#define LEAST_PLOT 130.0 /* minimum plot width if a page size is requested */

#define BETWEEN 0.8      /* gap between groups, in bar widths */
#define STACK_SHARE 0.74 /* width of a stack, relative to its group */
/* Width of a stack, relative to its group, if texts are drawn next to it or
 * next to a stack of another figure on the page. */
#define LABELLED_SHARE 0.6
/* Space for a text to the right of the last stack. */
#define BESIDE_MARGIN 12.0
#define MOST_TICKS 7
#define TICK_HEIGHT 18.0
#define TEXT_GAP 3.0 /* gap between a bar and its text */
#define LARGEST_VALUE 7.0
#define LEAST_VALUE 5.0
#define LABEL_LINE 9.0
#define MOST_TURNED 110.0 /* maximum height of rotated labels */

/* How the texts of all bars are printed: in full, briefly, rotated, or not at
 * all. */
typedef enum printing { WHOLE, BRIEF, TURNED, NONE } printing;

/* The label of a group, on one or two horizontal lines or on one rotated line.
   The strings are owned; the second may be NULL. */
typedef struct group_label {
    char *lines[2];
} group_label;

typedef struct bars_sheet {
    es_page page;
    const es_bars *figure;
    double most;         /* value of the largest bar or stack in the figure */
    es_axis axis;        /* y axis of a plot whose top is at y = 0 */
    group_label *labels; /* (n_groups) */
    double pitch;        /* distance between the left edges of groups */
    /* Distance between the left edges of bars in a group. */
    double bar;
    bool beside; /* true if a segment of a stack is not high enough for its
                    text, which is then drawn to the right of the stack */
    bool turned; /* true if group labels are rotated because they would not
                    fit otherwise */
    printing print;
    double value_size; /* font size of the texts on bars */
} bars_sheet;

static const es_bar *bar_at(const es_bars *figure, size_t panel, size_t group,
                            size_t series)
{
    return &figure->panels[panel].bars[group * figure->n_series + series];
}

/* Returns the text of a bar that is printed in the given way; may be NULL. */
static const char *text_of(const es_bar *bar, printing print)
{
    if (print == NONE)
        return NULL;
    return print == BRIEF && bar->brief ? bar->brief : bar->text;
}

/* Returns the rectangle of a bar's full column, as high as the plot. In stacks,
 * all series have the same column. */
static es_box place_of(const bars_sheet *sheet, size_t panel, size_t group,
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

/* --- patterns -------------------------------------------------------------*/

typedef enum pattern { PLAIN, LEVEL, UPRIGHT, DIAGONAL, CROSSED } pattern;

/* Adjacent series differ in lightness. Series of the same lightness have
 * different line patterns. */
static const uint8_t patterns[] = {PLAIN,   PLAIN,    PLAIN,    LEVEL,
                                   UPRIGHT, DIAGONAL, LEVEL,    CROSSED,
                                   LEVEL,   DIAGONAL, DIAGONAL, UPRIGHT};

#define SPACING 3.5
#define LINE 0.7

static pattern pattern_of(size_t series)
{
    return (pattern)patterns[series % (sizeof patterns / sizeof *patterns)];
}

void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area)
{
    es_color fill = es_theme_category(theme, series);
    es_color line = es_theme_colors(theme)->paper;
    pattern lines = pattern_of(series);
    double right = area->x + area->width, bottom = area->y + area->height;
    if (lines == DIAGONAL) {
        es_picture_hatch(picture, area->x, area->y, area->width, area->height,
                         fill, line);
        return;
    }
    es_picture_rect(picture, area->x, area->y, area->width, area->height, fill);
    if (lines == LEVEL || lines == CROSSED)
        for (double y = bottom - SPACING / 2; y > area->y + LINE; y -= SPACING)
            es_picture_line(picture, area->x, y, right, y, LINE, line);
    int n = (int)fmax(1, floor(area->width / SPACING));
    for (int i = 0; (lines == UPRIGHT || lines == CROSSED) && i < n; i++) {
        double x = area->x + (i + 0.5) * area->width / n;
        es_picture_line(picture, x, area->y, x, bottom, LINE, line);
    }
}

/* --- legend ---------------------------------------------------------------*/

#define SWATCH_WIDTH 12.0
#define SWATCH_HEIGHT 7.5
#define NAME_GAP 4.0
#define ENTRY_GAP 12.0
#define ENTRY_LINE 12.0
#define LEGEND_FOOT 6.0

/*
 * Lays out the legend above the panels: swatches with the names of the series,
 * on as many lines as needed. A name that is longer than a line is cut. Draws
 * the legend if the page has a picture. Returns the legend's height, which is 0
 * if all names are empty.
 */
static double lay_legend(const es_page *page)
{
    const bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    const double x0 = page->plots.x, most = page->plots.width;
    double y0 = page->plots.y - page->air - page->head - page->above;
    double x = x0, down = 0;
    bool needed = false;
    for (size_t i = 0; i < figure->n_series; i++)
        needed = needed || figure->series[i][0];
    for (size_t i = 0; needed && i < figure->n_series; i++) {
        const char *name = figure->series[i];
        double width = fmin(
            most, SWATCH_WIDTH + NAME_GAP +
                      es_title_width(name, ES_SMALL_SIZE, ES_WEIGHT_NORMAL));
        if (x > x0 && x + width > x0 + most) {
            x = x0;
            down += ENTRY_LINE;
        }
        const es_box swatch = {x, y0 + down, SWATCH_WIDTH, SWATCH_HEIGHT};
        if (page->canvas.picture) {
            es_draw_pattern(page->canvas.picture, figure->style.theme, i,
                            &swatch);
            es_draw_run_name(page->canvas.picture, x + SWATCH_WIDTH + NAME_GAP,
                             swatch.y + SWATCH_HEIGHT - 1, ES_SMALL_SIZE,
                             ES_WEIGHT_NORMAL, page->canvas.colors->ink, name,
                             most - SWATCH_WIDTH - NAME_GAP + 0.5);
        }
        x += width + ENTRY_GAP;
    }
    return needed ? down + ENTRY_LINE + LEGEND_FOOT : 0;
}

static void draw_legend(const es_page *page)
{
    lay_legend(page);
}

/* --- bars -----------------------------------------------------------------*/

/* Returns the height in points of a value above the bottom of the plot. */
static double height_at(const bars_sheet *sheet, double value)
{
    return sheet->axis.start - es_axis_place(&sheet->axis, value);
}

static void draw_text_above(const bars_sheet *sheet, const es_box *bar,
                            const char *text)
{
    const es_canvas *canvas = &sheet->page.canvas;
    double size = sheet->value_size, middle = bar->x + bar->width / 2;
    double width = es_text_width(text, size, ES_WEIGHT_NORMAL);
    bool turned = sheet->print == TURNED;
    double across = turned ? size : width, up = turned ? width : size;
    /* Cover the grid line behind the number. */
    es_picture_rect(canvas->picture, middle - across / 2,
                    bar->y - TEXT_GAP - up, across, up + 1,
                    canvas->colors->paper);
    es_picture_text(canvas->picture, turned ? middle + 0.36 * size : middle,
                    bar->y - TEXT_GAP, size,
                    turned ? ES_ALIGN_START : ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL,
                    turned ? 90 : 0, canvas->colors->ink, text);
}

/* The space for texts to the right of a stack: from the upper end of the stack
 * down to the upper edge of the previous text. */
typedef struct beside {
    double top, bottom;
} beside;

/* Draws, to the right of the stack, the text of a segment that is not high
 * enough to contain it. Leaves the text out if it does not fit next to its
 * segment. */
static void draw_text_beside(const bars_sheet *sheet, const char *text,
                             const es_box *area, beside *space)
{
    double x = area->x + area->width + 1.5;
    double width =
        fmin(sheet->pitch - sheet->bar - 3, sheet->page.width_points - 2 - x);
    double size = fmin(sheet->value_size,
                       width / es_text_width(text, 1, ES_WEIGHT_NORMAL));
    double middle = area->y + area->height / 2 + 0.36 * size;
    double highest = fmax(space->top + 0.75 * size, middle - size);
    double y = fmin(fmax(middle, highest), space->bottom);
    if (size < LEAST_VALUE || y < highest)
        return;
    space->bottom = y - size;
    es_picture_text(sheet->page.canvas.picture, x, y, size, ES_ALIGN_START,
                    ES_WEIGHT_NORMAL, 0, sheet->page.canvas.colors->ink, text);
}

static void draw_text_inside(const bars_sheet *sheet, const es_bar *bar,
                             const es_box *area, size_t series, beside *space)
{
    es_picture *picture = sheet->page.canvas.picture;
    es_color fill = es_theme_category(sheet->figure->style.theme, series);
    const char *text = text_of(bar, sheet->print), *detail = bar->detail;
    double size = sheet->value_size, line = size + 2;
    double x = area->x + area->width / 2;
    if (!text)
        return;
    if (area->height < line + 1) {
        draw_text_beside(sheet, detail ? detail : text, area, space);
        return;
    }
    if (area->height < 2 * line + 1 ||
        (detail && es_text_width(detail, size, ES_WEIGHT_NORMAL) > area->width))
        detail = NULL;
    double y = area->y + area->height / 2 + 0.36 * size;
    y -= detail ? line / 2 : 0;
    /* Cover the line pattern behind the text. */
    if (pattern_of(series) != PLAIN)
        es_picture_rect(picture, area->x + 0.5, y - size, area->width - 1,
                        (detail ? 2 : 1) * line, fill);
    es_picture_text(picture, x, y, size, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                    es_text_on(fill), text);
    if (detail)
        es_picture_text(picture, x, y + line, size, ES_ALIGN_MIDDLE,
                        ES_WEIGHT_NORMAL, 0, es_text_on(fill), detail);
}

static void draw_group(const bars_sheet *sheet, size_t panel, size_t group)
{
    const es_bars *figure = sheet->figure;
    const es_canvas *canvas = &sheet->page.canvas;
    const char *const *totals = figure->panels[panel].totals;
    es_box area = place_of(sheet, panel, group, 0);
    double bottom = area.y + area.height, sum = 0, top = bottom;
    beside space = {bottom, bottom - 1};
    for (size_t s = 0; s < figure->n_series; s++) {
        double value = bar_at(figure, panel, group, s)->value;
        if (isfinite(value) && value > 0)
            space.top -= height_at(sheet, value);
    }
    for (size_t s = 0; s < figure->n_series; s++) {
        const es_bar *bar = bar_at(figure, panel, group, s);
        bool there = isfinite(bar->value);
        if (figure->stacked && !(there && bar->value > 0))
            continue;
        if (figure->stacked) {
            sum += bar->value;
            area.height = top - (bottom - height_at(sheet, sum));
            area.y = top = top - area.height;
        } else {
            area = place_of(sheet, panel, group, s);
            area.height = there ? height_at(sheet, bar->value) : 0;
            area.y = bottom - area.height;
        }
        es_draw_pattern(canvas->picture, figure->style.theme, s, &area);
        if (figure->stacked)
            draw_text_inside(sheet, bar, &area, s, &space);
        else if (text_of(bar, sheet->print))
            draw_text_above(sheet, &area, text_of(bar, sheet->print));
    }
    if (figure->stacked && totals && totals[group] && sheet->print != NONE)
        es_draw_fitted(canvas->picture, area.x + area.width / 2, top - TEXT_GAP,
                       sheet->value_size, ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL,
                       canvas->colors->ink, totals[group], sheet->pitch - 1);
}

/* Draws a group's label below the group, centred at x. */
static void draw_group_label(const bars_sheet *sheet, const group_label *label,
                             double x, double bottom)
{
    const es_canvas *canvas = &sheet->page.canvas;
    if (sheet->turned) {
        es_picture_text(canvas->picture, x + ES_SMALL_DROP, bottom + 5,
                        ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL, 90,
                        canvas->colors->ink, label->lines[0]);
        return;
    }
    for (int k = 0; k < 2; k++)
        if (label->lines[k])
            es_draw_label(canvas, x, bottom + 10.5 + LABEL_LINE * k,
                          ES_ALIGN_MIDDLE, canvas->colors->ink,
                          label->lines[k]);
}

static es_status draw_panel(const es_page *page, size_t i)
{
    const bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    const es_canvas *canvas = &page->canvas;
    const es_box *plot = &page->panels[i].plot;
    es_axis axis = sheet->axis;
    double bottom = plot->y + plot->height;
    axis.start += plot->y;
    axis.end += plot->y;
    es_draw_upright(canvas, plot, &axis, es_page_is_first(page, i),
                    figure->y_text);
    for (size_t g = 0; g < figure->n_groups; g++)
        draw_group(sheet, i, g);
    es_picture_line(canvas->picture, plot->x, bottom, plot->x + plot->width,
                    bottom, 0.5, canvas->colors->muted);
    for (size_t g = 0; g < figure->n_groups; g++)
        draw_group_label(sheet, &sheet->labels[g],
                         plot->x + sheet->pitch * ((double)g + 0.5), bottom);
    if (figure->group_text)
        es_draw_fitted(canvas->picture, plot->x + plot->width / 2,
                       bottom + page->foot - 2, ES_LABEL_SIZE, ES_ALIGN_MIDDLE,
                       ES_WEIGHT_NORMAL, canvas->colors->ink,
                       figure->group_text, plot->width);
    return ES_OK;
}

/* --- the scale -------------------------------------------------------------*/

static double largest(const es_bars *figure)
{
    double most = 0;
    for (size_t p = 0; p < figure->n_panels; p++)
        for (size_t g = 0; g < figure->n_groups; g++) {
            double sum = 0, one = 0;
            for (size_t s = 0; s < figure->n_series; s++) {
                double value = bar_at(figure, p, g, s)->value;
                if (!(isfinite(value) && value > 0))
                    continue;
                sum += value;
                one = fmax(one, value);
            }
            most = fmax(most, figure->stacked ? sum : one);
        }
    return isfinite(most) && most > 0 ? most : 1;
}

/* Returns true if, before scaling, a segment of a stacked bar is not high
 * enough for its text. */
static bool has_low_parts(const es_bars *figure, double most)
{
    double height = figure->n_panels > 1 ? MANY_HEIGHT : ONE_HEIGHT;
    double least = most * (LARGEST_VALUE + 3) / height;
    for (size_t p = 0; figure->stacked && p < figure->n_panels; p++)
        for (size_t i = 0; i < figure->n_groups * figure->n_series; i++) {
            const es_bar *bar = &figure->panels[p].bars[i];
            if (bar->text && bar->value > 0 && bar->value < least)
                return true;
        }
    return false;
}

static double natural_width(const es_bars *figure)
{
    size_t n_bars = figure->n_groups * figure->n_series * figure->n_panels;
    double bar = n_bars <= FEW_BARS ? WIDE_BAR : NARROW_BAR;
    double a_group = figure->stacked
                         ? STACK / STACK_SHARE
                         : bar * ((double)figure->n_series + BETWEEN);
    return fmin(fmax(a_group * (double)figure->n_groups, LEAST_WIDTH),
                MOST_WIDTH);
}

/* Sets the y axis of a plot of the given height, with as many ticks as fit.
   Above the largest bar, `above` points stay free for its text. */
static void set_scale(bars_sheet *sheet, double height, double above)
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

/* Returns the length in bytes of the first line if a text is broken into two
   lines. The text breaks before a space or after a comma or plus sign: at the
   last such position that fits into `width`, otherwise at the first one.
   Returns 0 if the text fits into one line or cannot be broken. */
static size_t first_line(const char *text, double width)
{
    size_t best = 0;
    bool one = !*text || fits(text, width);
    for (size_t n = 1; !one && text[n]; n++) {
        const bool mark = text[n - 1] == ',' || text[n - 1] == '+';
        if (text[n] != ' ' && !mark)
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

static double widest_label(const es_bars *figure)
{
    double widest = 0;
    for (size_t i = 0; i < figure->n_groups; i++)
        widest = fmax(widest, es_text_width(figure->groups[i], ES_SMALL_SIZE,
                                            ES_WEIGHT_NORMAL));
    return fmin(widest, MOST_TURNED);
}

/* Returns true if a label would not fit even on two lines. */
static bool is_cut(const char *text, double width)
{
    size_t n = first_line(text, width);
    char *line = strndup(text, n ? n : strlen(text));
    bool cut = line && (!fits(line, width) || (n && !fits(text + n, width)));
    free(line);
    return cut;
}

/* --- the page -------------------------------------------------------------*/

static double width_of(es_page *page, size_t i, double factor)
{
    bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    double width = floor(2 * factor * natural_width(figure)) / 2;
    (void)i;
    sheet->pitch = width / (double)figure->n_groups;
    sheet->bar = figure->stacked
                     ? sheet->pitch * (sheet->beside || page->style->frame
                                           ? LABELLED_SHARE
                                           : STACK_SHARE)
                     : sheet->pitch / ((double)figure->n_series + BETWEEN);
    return width;
}

static double height_of(es_page *page, size_t i, double factor)
{
    double natural = page->n_panels > 1 ? MANY_HEIGHT : ONE_HEIGHT;
    /* If only the width is requested, the height is scaled by the square root
     * of the factor, because low bars are hard to compare. */
    double high = page->style->height > 0 ? factor : sqrt(factor);
    (void)i;
    return floor(2 * high * natural) / 2;
}

static void arrange(es_page *page)
{
    bars_sheet *sheet = page->chart;
    const es_bars *figure = sheet->figure;
    bool two = false;
    sheet->turned = false;
    for (size_t i = 0; i < figure->n_groups; i++) {
        two = two || first_line(figure->groups[i], sheet->pitch - 3);
        sheet->turned =
            sheet->turned || (is_cut(figure->groups[i], sheet->pitch - 3) &&
                              sheet->pitch > ES_SMALL_SIZE);
    }
    page->above = lay_legend(page);
    page->foot = 5 + (sheet->turned ? widest_label(figure) + 4
                                    : LABEL_LINE * (two ? 2 : 1));
    page->foot += figure->group_text ? 12 : 0;
}

/* --- the texts of the bars ------------------------------------------------*/

/* Returns the width of the widest text on any bar, at font size 1. */
static double widest_text(const es_bars *figure, printing print)
{
    double widest = 0;
    size_t n = figure->n_groups * figure->n_series;
    for (size_t p = 0; p < figure->n_panels; p++)
        for (size_t i = 0; i < n; i++) {
            const char *text = text_of(&figure->panels[p].bars[i], print);
            if (text)
                widest = fmax(widest, es_text_width(text, 1, ES_WEIGHT_NORMAL));
        }
    return widest;
}

/* Chooses how the texts of the bars are printed: in full if they are then
 * legible, otherwise briefly, otherwise rotated (unless bars are stacked),
 * otherwise not at all. */
static void choose_print(bars_sheet *sheet)
{
    double width = sheet->bar - 2;
    for (int print = WHOLE; print <= BRIEF; print++) {
        sheet->print = (printing)print;
        sheet->value_size = fmin(
            LARGEST_VALUE, width / widest_text(sheet->figure, sheet->print));
        if (sheet->value_size >= LEAST_VALUE)
            return;
    }
    sheet->value_size = fmin(LARGEST_VALUE - 0.5, (width + 2) / 0.95);
    sheet->print = sheet->value_size >= LEAST_VALUE && !sheet->figure->stacked
                       ? TURNED
                       : NONE;
}

static double text_height(const bars_sheet *sheet)
{
    const es_bars *figure = sheet->figure;
    if (figure->stacked)
        return figure->panels[0].totals ? LARGEST_VALUE + 2 * TEXT_GAP : 4;
    if (sheet->print == NONE)
        return 4;
    if (sheet->print == TURNED)
        return 2 * TEXT_GAP + sheet->value_size * widest_text(figure, TURNED);
    return sheet->value_size + 2 * TEXT_GAP;
}

static es_status write_group_label(group_label *out, const bars_sheet *sheet,
                                   const char *text)
{
    const double width = sheet->turned ? MOST_TURNED : sheet->pitch - 3;
    const size_t n = sheet->turned ? 0 : first_line(text, width);
    char *line = strndup(text, n ? n : strlen(text));
    if (line && sheet->turned)
        out->lines[0] =
            es_text_fit_ends(line, width, ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    else if (line)
        out->lines[0] =
            es_text_fit(line, width, ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    free(line);
    if (n)
        out->lines[1] = es_text_fit(text + n + (text[n] == ' '), width,
                                    ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
    return out->lines[0] && (!n || out->lines[1])
               ? ES_OK
               : es_fail(ES_ENOMEM, "bars: out of memory");
}

static es_status lay_out(bars_sheet *sheet)
{
    const es_bars *figure = sheet->figure;
    es_page *page = &sheet->page;
    es_status status;
    if ((status = es_page_begin(page, figure->n_panels)) < 0 ||
        (status = es_alloc(&sheet->labels, figure->n_groups,
                           sizeof *sheet->labels, "bars")) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        page->panels[i].title = figure->panels[i].title;
        page->panels[i].subtitle = figure->panels[i].subtitle;
    }
    sheet->most = largest(figure);
    sheet->beside = has_low_parts(figure, sheet->most);
    page->right =
        sheet->beside && !(page->style->width > 0) ? BESIDE_MARGIN : 0;
    set_scale(sheet, ONE_HEIGHT, 0);
    page->left = ceil(2 * es_upright_width(&sheet->axis, figure->y_text)) / 2;
    if ((status = es_page_lay_out(page)) < 0)
        return status;
    choose_print(sheet);
    set_scale(sheet, page->panels[0].plot.height, text_height(sheet));
    for (size_t i = 0; i < figure->n_groups; i++)
        if ((status = write_group_label(&sheet->labels[i], sheet,
                                        figure->groups[i])) < 0)
            return status;
    return ES_OK;
}

es_status es_bars_draw(es_picture **out, const es_bars *figure)
{
    bars_sheet sheet = {
        .figure = figure,
        .page = {.name = "a figure of bars",
                 .style = &figure->style,
                 .chart = &sheet,
                 .width = width_of,
                 .height = height_of,
                 .arrange = arrange,
                 .draw = draw_panel,
                 .draw_legend = draw_legend,
                 .least_factor = LEAST_PLOT / natural_width(figure),
                 .title_gap = 6,
                 .note = figure->note,
                 .long_note = true}};
    es_status status;
    if (!figure->n_groups || !figure->n_series)
        return es_fail(
            ES_EUSAGE,
            "a figure of bars needs at least one group and one series");
    if ((status = lay_out(&sheet)) == ES_OK)
        status = es_page_draw(out, &sheet.page);
    for (size_t i = 0; sheet.labels && i < figure->n_groups; i++) {
        free(sheet.labels[i].lines[0]);
        free(sheet.labels[i].lines[1]);
    }
    free(sheet.labels);
    es_page_clear(&sheet.page);
    return status;
}
