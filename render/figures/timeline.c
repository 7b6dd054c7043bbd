/*
 * Timelines: of each run small plots over the steps, and below them a lane for
 * each kind of flag and one for events, on the same axis.
 */
#include "render/figures/timeline.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "render/figures/page.h"
#include <math.h>
#include <string.h>

/* What the content wants, in points. */
#define PLOT_WIDTH 330.0
#define PLOT_HEIGHT 46.0
#define PLOT_GAP 14.0 /* above each, for its name */
#define LANES_GAP 8.0 /* above the lanes */
#define LANE 13.0
#define BAR 9.0
#define LEFT 52.0
#define ORDER_LINE 15.0
#define LEAST_FACTOR 0.3
#define COLUMN 0.5 /* width that a long series is reduced to */
#define TICKS 3

typedef struct timeline_sheet {
    es_page page;
    const es_timeline *figure;
    double plot_height; /* of each small plot */
} timeline_sheet;

/* One panel being drawn. */
typedef struct timeline_block {
    const es_timeline_panel *panel;
    const timeline_sheet *sheet;
    const es_colors *colors;
    es_box plot; /* all of it: small plots, then lanes */
    es_axis steps;
} timeline_block;

static es_color level_color(const timeline_sheet *s, es_timeline_level level)
{
    static const es_color warning[] = {{230, 159, 0, 255}, {240, 200, 90, 255}};
    static const es_color error[] = {{213, 94, 0, 255}, {235, 130, 50, 255}};
    es_theme theme = s->figure->style.theme;
    switch (level) {
    case ES_LEVEL_CRITICAL:
        return s->page.colors->alarm;
    case ES_LEVEL_ERROR:
        return error[theme];
    case ES_LEVEL_WARNING:
        return warning[theme];
    default:
        return s->page.colors->muted;
    }
}

/* --- where everything goes ------------------------------------------------*/

static double lanes_height(const timeline_sheet *s)
{
    return (double)(s->figure->n_lanes + 1) * LANE; /* the last: events */
}

static double height_of(es_page *page, size_t i, double factor)
{
    timeline_sheet *s = page->chart;
    s->plot_height = factor * PLOT_HEIGHT;
    return (double)s->figure->panels[i].n_plots * (s->plot_height + PLOT_GAP) +
           LANES_GAP + lanes_height(s);
}

/* --- a plot ---------------------------------------------------------------*/

static bool shown(const es_timeline_plot *plot, size_t i)
{
    return isfinite(plot->values[i]);
}

/* A line needs a neighbour. */
static bool is_alone(const es_timeline_plot *plot, size_t i)
{
    return !(i > 0 && shown(plot, i - 1)) &&
           !(i + 1 < plot->n && shown(plot, i + 1));
}

/* Of whole numbers no parts. */
static es_axis value_axis(const es_timeline_plot *plot, const es_box *box)
{
    double low = INFINITY, high = -INFINITY;
    double most = fmin(TICKS, box->height / 14);
    bool whole = true;
    for (size_t i = 0; i < plot->n; i++) {
        double value = (double)plot->values[i];
        if (!shown(plot, i) || (plot->logarithmic && !(value > 0)))
            continue;
        low = fmin(low, value);
        high = fmax(high, value);
        whole = whole && floor(value) == value;
    }
    if (whole && high - low < TICKS)
        most = fmin(most, fmax(high - low, 1) + 1);
    if (!plot->logarithmic && low > 0 && low < high / 2)
        low = 0;
    return es_axis_make(low, high, plot->logarithmic, box->y + box->height,
                        box->y, (int)most);
}

/* The smallest and the largest value of each column of the page, in the order
 * in which they came. */
static void draw_line(es_picture *picture, const es_timeline_plot *plot,
                      const es_axis *steps, const es_axis *values,
                      es_color color)
{
    double *points = es_resize(NULL, plot->n + 1, 4 * sizeof *points);
    size_t n = 0, from = 0;
    if (!points) {
        picture->failed = true;
        return;
    }
    while (from < plot->n) {
        double x = es_axis_place(steps, (double)plot->steps[from]);
        double column = floor(x / COLUMN);
        size_t least = from, most = from, to = from;
        bool there = shown(plot, from);
        for (; to < plot->n && shown(plot, to) == there; to++) {
            double at = es_axis_place(steps, (double)plot->steps[to]);
            if (floor(at / COLUMN) > column)
                break;
            least = plot->values[to] < plot->values[least] ? to : least;
            most = plot->values[to] > plot->values[most] ? to : most;
        }
        size_t ends[2] = {least < most ? least : most,
                          least < most ? most : least};
        for (size_t k = 0; k < (ends[0] == ends[1] ? 1 : 2); k++, n++) {
            double value = (double)plot->values[ends[k]];
            points[2 * n] =
                there ? es_axis_place(steps, (double)plot->steps[ends[k]])
                      : NAN;
            points[2 * n + 1] = there ? es_axis_place(values, value) : NAN;
        }
        if (there && to - from == 1 && is_alone(plot, from))
            es_picture_dot(picture, points[2 * n - 2], points[2 * n - 1], 1.2,
                           color);
        from = to;
    }
    es_picture_polyline(picture, points, n, 1, color);
    free(points);
}

/* What is not finite, at the foot: neighbours are one mark. */
static void draw_nonfinite(es_picture *picture, const timeline_block *b,
                           const es_timeline_plot *plot, const es_box *box)
{
    for (size_t i = 0, to; i < plot->n; i = to + 1) {
        to = i;
        while (to < plot->n && !shown(plot, to) &&
               !es_is_missing(plot->values[to]))
            to++;
        if (to == i)
            continue;
        double x = es_axis_place(&b->steps, (double)plot->steps[i]);
        double end = es_axis_place(&b->steps, (double)plot->steps[to - 1]);
        es_picture_rect(picture, fmin(x, box->x + box->width - 1.5),
                        box->y + box->height - 4, fmax(1.5, end - x), 4,
                        b->colors->alarm);
    }
}

static void draw_plot(es_picture *picture, const timeline_block *b,
                      const es_timeline_plot *plot, const es_box *box)
{
    es_axis values = value_axis(plot, box);
    es_draw_upright(picture, b->colors, box, &values, true, NULL);
    draw_line(picture, plot, &b->steps, &values, b->colors->ink);
    draw_nonfinite(picture, b, plot, box);
    es_draw_fitted(picture, box->x, box->y - 4, ES_SMALL_SIZE, ES_ALIGN_START,
                   ES_WEIGHT_NORMAL, b->colors->muted, plot->text, box->width);
}

/* --- lanes ----------------------------------------------------------------*/

static void draw_lane(es_picture *picture, const timeline_block *b,
                      double middle, const char *name)
{
    es_picture_line(picture, b->plot.x, middle, b->plot.x + b->plot.width,
                    middle, 0.5, b->colors->grid);
    es_draw_fitted(picture, b->plot.x - 5, middle + 0.36 * ES_SMALL_SIZE,
                   ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL,
                   b->colors->ink, name, LEFT - 10);
}

/* A text on its bar, or after it, if it fits before `limit`. */
static void draw_bar_text(es_picture *picture, const es_colors *colors,
                          const char *text, double x, double end, double y,
                          double limit, es_color fill)
{
    double width = es_text_width(text, ES_SMALL_SIZE - 0.5, ES_WEIGHT_NORMAL);
    bool inside = width + 6 <= end - x;
    if (!inside && end + 4 + width > limit)
        return;
    es_picture_text(picture, inside ? x + 3 : end + 3,
                    y + 0.36 * (ES_SMALL_SIZE - 0.5), ES_SMALL_SIZE - 0.5,
                    ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                    inside ? es_text_on(fill) : colors->ink, text);
}

static void draw_bars(es_picture *picture, const timeline_block *b, double y)
{
    const es_timeline_panel *panel = b->panel;
    for (size_t i = 0; i < panel->n_bars; i++) {
        const es_timeline_bar *bar = &panel->bars[i];
        double middle = y + ((double)bar->lane + 0.5) * LANE;
        double x = es_axis_place(&b->steps, bar->from);
        double end = fmax(es_axis_place(&b->steps, bar->to), x + 2);
        double limit = b->plot.x + b->plot.width;
        if (i + 1 < panel->n_bars && bar[1].lane == bar->lane)
            limit = es_axis_place(&b->steps, bar[1].from) - 2;
        es_color fill = level_color(b->sheet, bar->level);
        es_picture_rect(picture, x, middle - BAR / 2, end - x, BAR, fill);
        if (bar->text)
            draw_bar_text(picture, b->colors, bar->text, x, end, middle, limit,
                          fill);
    }
}

/* A mark's text stands right of it, or left where the page ends, if the
 * marks beside it leave space. */
static void draw_marks(es_picture *picture, const timeline_block *b,
                       double middle)
{
    const es_timeline_panel *panel = b->panel;
    double taken = b->plot.x, size = ES_SMALL_SIZE - 0.5;
    for (size_t i = 0; i < panel->n_marks; i++) {
        const es_timeline_mark *mark = &panel->marks[i];
        double x = es_axis_place(&b->steps, mark->step);
        double width = es_text_width(mark->text, size, ES_WEIGHT_NORMAL) + 6;
        double limit = i + 1 < panel->n_marks
                           ? es_axis_place(&b->steps, mark[1].step) - 3
                           : b->plot.x + b->plot.width;
        bool right = x + width <= limit, left = x - width >= taken;
        es_picture_dot(picture, x, middle, 2.5,
                       level_color(b->sheet, mark->level));
        if (right || left)
            es_picture_text(picture, right ? x + 5 : x - 5,
                            middle + 0.36 * size, size,
                            right ? ES_ALIGN_START : ES_ALIGN_END,
                            ES_WEIGHT_NORMAL, 0, b->colors->ink, mark->text);
        taken = right ? x + width + 4 : x + 5;
    }
}

/* Through the plots and the lanes, not through the names between them. */
static void draw_onset(es_picture *picture, const timeline_block *b, double x,
                       es_color color)
{
    double y = b->plot.y, height = b->sheet->plot_height;
    for (size_t i = 0; i < b->panel->n_plots; i++) {
        y += PLOT_GAP;
        es_picture_dashed(picture, x, y, x, y + height, 0.6, 2, color);
        y += height;
    }
    y += LANES_GAP;
    es_picture_dashed(picture, x, y, x, b->plot.y + b->plot.height, 0.6, 2,
                      color);
}

static void draw_onsets(es_picture *picture, const timeline_block *b)
{
    for (size_t i = 0; i < b->panel->n_bars; i++) {
        const es_timeline_bar *bar = &b->panel->bars[i];
        if (i > 0 && bar[-1].lane == bar->lane)
            continue; /* the first is what the others follow from */
        draw_onset(picture, b, es_axis_place(&b->steps, bar->from),
                   level_color(b->sheet, bar->level));
    }
}

static void draw_lanes(es_picture *picture, const timeline_block *b, double y)
{
    const es_timeline *figure = b->sheet->figure;
    for (size_t i = 0; i <= figure->n_lanes; i++)
        draw_lane(picture, b, y + ((double)i + 0.5) * LANE,
                  i < figure->n_lanes ? figure->lanes[i] : "events");
    draw_bars(picture, b, y);
    draw_marks(picture, b, y + ((double)figure->n_lanes + 0.5) * LANE);
}

static es_axis step_axis(const es_timeline_panel *panel, const es_box *plot)
{
    double whole = panel->last - panel->first + 1; /* no parts of a step */
    double most = fmin(fmin(8, plot->width / 40), whole);
    es_axis steps = es_axis_make(panel->first, panel->last, false, plot->x,
                                 plot->x + plot->width, (int)most);
    steps.labels = ES_LABELS_COUNT;
    return steps;
}

static es_status draw_panel(es_picture *picture, const es_page *page, size_t i)
{
    const timeline_sheet *s = page->chart;
    const es_timeline_panel *panel = &s->figure->panels[i];
    const es_box *plot = &page->panels[i].plot;
    const timeline_block b = {panel, s, page->colors, *plot,
                              step_axis(panel, plot)};
    double y = plot->y, bottom = y + plot->height;
    draw_onsets(picture, &b);
    for (size_t k = 0; k < panel->n_plots; k++) {
        const es_box box = {plot->x, y + PLOT_GAP, plot->width, s->plot_height};
        draw_plot(picture, &b, &panel->plots[k], &box);
        y += PLOT_GAP + s->plot_height;
    }
    draw_lanes(picture, &b, y + LANES_GAP);
    es_draw_across(picture, page->colors, plot, &b.steps, "step");
    if (panel->order)
        es_draw_fitted(picture, plot->x + plot->width,
                       bottom + ES_AXIS_FOOT + 11, ES_SMALL_SIZE, ES_ALIGN_END,
                       ES_WEIGHT_NORMAL, page->colors->ink, panel->order,
                       plot->width + LEFT - 5);
    return ES_OK;
}

es_status es_timeline_draw(es_picture **out, const es_timeline *figure)
{
    timeline_sheet s = {.figure = figure,
                        .page = {.name = "a timeline",
                                 .style = &figure->style,
                                 .chart = &s,
                                 .plot_width = PLOT_WIDTH,
                                 .height = height_of,
                                 .draw = draw_panel,
                                 .least_factor = LEAST_FACTOR,
                                 .most_columns = 2,
                                 .foot = ES_AXIS_FOOT + ORDER_LINE,
                                 .title_gap = 4}};
    es_status status = es_page_begin(&s.page, figure->n_panels);
    for (size_t i = 0; status == ES_OK && i < figure->n_panels; i++)
        s.page.panels[i] =
            (es_page_panel){.title = figure->panels[i].title,
                            .subtitle = figure->panels[i].subtitle,
                            .left = LEFT};
    if (status == ES_OK)
        status = es_page_lay_out(&s.page);
    if (status == ES_OK)
        status = es_page_draw(out, &s.page);
    es_page_clear(&s.page);
    return status;
}
