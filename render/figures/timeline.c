/*
 * Draws timelines. The panel of a run has small plots over the steps, and below
 * them, on the same axis, a lane for each kind of flag and a lane for events.
 */
#include "render/figures/timeline.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "render/figures/page.h"

/* Sizes of the chart before scaling, in points. */
#define PLOT_WIDTH 330.0
#define PLOT_HEIGHT 46.0
#define PLOT_GAP 14.0 /* space above each plot, for its name */
#define LANES_GAP 8.0 /* space above the lanes of flags and events */
#define LANE 13.0
#define BAR 9.0
#define LEFT 52.0
#define ORDER_LINE 15.0
#define LEAST_FACTOR 0.3
#define COLUMN 0.5 /* column width of a series with many samples */
#define TICKS 3
#define LEAST_TICK 9.0 /* minimum height of a small plot per tick */

typedef struct timeline_sheet {
    es_page page;
    const es_timeline *figure;
    double plot_height; /* height of each small plot */
} timeline_sheet;

/* The state for drawing one panel. */
typedef struct timeline_block {
    const es_timeline_panel *panel;
    const timeline_sheet *sheet;
    const es_canvas *canvas;
    es_box plot; /* position and size of the small plots and the lanes below
                    them */
    es_axis steps;
} timeline_block;

static es_color level_color(const timeline_block *b, es_level level)
{
    return es_theme_level(b->sheet->figure->style.theme, level);
}

static double height_of(es_page *page, size_t i, double factor)
{
    timeline_sheet *s = page->chart;
    /* The last lane shows the events. */
    size_t n_lanes = s->figure->n_lanes + 1;
    s->plot_height = factor * PLOT_HEIGHT;
    return (double)s->figure->panels[i].n_plots * (s->plot_height + PLOT_GAP) +
           LANES_GAP + (double)n_lanes * LANE;
}

/* --- a plot ---------------------------------------------------------------*/

static bool shown(const es_timeline_plot *plot, size_t i)
{
    return isfinite(plot->values[i]);
}

/* Makes an axis with at most `most` ticks. If this gives fewer than two ticks,
 * which do not show a scale, up to `limit` ticks are allowed. */
static es_axis axis_of(double low, double high, bool logarithmic, double start,
                       double end, int most, int limit)
{
    es_axis axis = es_axis_make(low, high, logarithmic, start, end, most);
    while (axis.ticks.n < 2 && most < limit)
        axis = es_axis_make(low, high, logarithmic, start, end, ++most);
    return axis;
}

/* Makes the y axis of a small plot. If all values are whole numbers, all ticks
 * are whole numbers too. */
static es_axis value_axis(const es_timeline_plot *plot, const es_box *box)
{
    es_range range = ES_RANGE_NONE;
    double most = fmin(TICKS, box->height / 14);
    bool whole = true;
    for (size_t i = 0; i < plot->n; i++) {
        double value = (double)plot->values[i];
        if (!shown(plot, i) || (plot->logarithmic && !(value > 0)))
            continue;
        es_range_add(&range, value);
        whole = whole && floor(value) == value;
    }
    double low = range.low, high = range.high;
    int limit = (int)(box->height / LEAST_TICK);
    if (whole && high - low < TICKS) {
        most = fmin(most, fmax(high - low, 1) + 1);
        limit = (int)most;
    }
    if (!plot->logarithmic && low > 0 && low < high / 2)
        low = 0;
    return axis_of(low, high, plot->logarithmic, box->y + box->height, box->y,
                   (int)most, limit);
}

/* Draws a long series as the smallest and the largest value of each column, in
 * the order of their steps. An isolated value is drawn as a dot. */
static void draw_line(const timeline_block *b, const es_timeline_plot *plot,
                      const es_axis *values)
{
    es_picture *picture = b->canvas->picture;
    es_color color = b->canvas->colors->ink;
    double *points = es_resize(NULL, plot->n + 1, 4 * sizeof *points);
    size_t n = 0, from = 0, to;
    if (!points) {
        picture->failed = true;
        return;
    }
    for (; from < plot->n; from = to) {
        double x = es_axis_place(&b->steps, (double)plot->steps[from]);
        double column = floor(x / COLUMN);
        size_t least = from, most = from;
        bool there = shown(plot, from);
        for (to = from; to < plot->n && shown(plot, to) == there; to++) {
            double at = es_axis_place(&b->steps, (double)plot->steps[to]);
            if (floor(at / COLUMN) > column)
                break;
            least = plot->values[to] < plot->values[least] ? to : least;
            most = plot->values[to] > plot->values[most] ? to : most;
        }
        size_t ends[2] = {least < most ? least : most,
                          least < most ? most : least};
        for (size_t k = 0; k < (ends[0] == ends[1] ? 1 : 2); k++, n++) {
            double step = (double)plot->steps[ends[k]];
            double value = (double)plot->values[ends[k]];
            points[2 * n] = there ? es_axis_place(&b->steps, step) : NAN;
            points[2 * n + 1] = there ? es_axis_place(values, value) : NAN;
        }
        if (there && to - from == 1 && !(from > 0 && shown(plot, from - 1)) &&
            !(to < plot->n && shown(plot, to)))
            es_picture_dot(picture, points[2 * n - 2], points[2 * n - 1], 1.2,
                           color);
    }
    es_picture_polyline(picture, points, n, 1, color);
    free(points);
}

static void draw_plot(const timeline_block *b, const es_timeline_plot *plot,
                      const es_box *box)
{
    const es_colors *colors = b->canvas->colors;
    es_axis values = value_axis(plot, box);
    es_draw_upright(b->canvas, box, &values, true, NULL);
    draw_line(b, plot, &values);
    /* Mark NaN and infinity at the bottom; adjacent values share one mark. */
    for (size_t i = 0, to; i < plot->n; i = to + 1) {
        to = i;
        while (to < plot->n && !shown(plot, to) &&
               !es_is_missing(plot->values[to]))
            to++;
        if (to == i)
            continue;
        double x = es_axis_place(&b->steps, (double)plot->steps[i]);
        double end = es_axis_place(&b->steps, (double)plot->steps[to - 1]);
        es_picture_rect(b->canvas->picture, fmin(x, box->x + box->width - 1.5),
                        box->y + box->height - 4, fmax(1.5, end - x), 4,
                        colors->alarm);
    }
    es_draw_small(b->canvas, box->x, box->y - 4, ES_ALIGN_START, colors->muted,
                  plot->text, box->width);
}

/* --- lanes ----------------------------------------------------------------*/

/* Draws the flags of all lanes as bars. The text of a bar is on the bar, or
 * after the bar if it fits before the next one. */
static void draw_bars(const timeline_block *b, double y)
{
    const es_canvas *canvas = b->canvas;
    const es_timeline_panel *panel = b->panel;
    const double size = ES_SMALL_SIZE - 0.5;
    for (size_t i = 0; i < panel->n_bars; i++) {
        const es_timeline_bar *bar = &panel->bars[i];
        double middle = y + ((double)bar->lane + 0.5) * LANE;
        double x = es_axis_place(&b->steps, bar->from);
        double end = fmax(es_axis_place(&b->steps, bar->to), x + 2);
        double limit = b->plot.x + b->plot.width;
        if (i + 1 < panel->n_bars && bar[1].lane == bar->lane)
            limit = es_axis_place(&b->steps, bar[1].from) - 2;
        es_color fill = level_color(b, bar->level);
        es_picture_rect(canvas->picture, x, middle - BAR / 2, end - x, BAR,
                        fill);
        if (!bar->text)
            continue;
        double width = es_text_width(bar->text, size, ES_WEIGHT_NORMAL);
        bool inside = width + 6 <= end - x;
        if (inside || end + 4 + width <= limit)
            es_picture_text(
                canvas->picture, inside ? x + 3 : end + 3, middle + 0.36 * size,
                size, ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                inside ? es_text_on(fill) : canvas->colors->ink, bar->text);
    }
}

/* Draws the events. The text of an event is to the right or left of its mark,
 * if it fits between the neighbouring marks. */
static void draw_marks(const timeline_block *b, double middle)
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
        es_picture_dot(b->canvas->picture, x, middle, 2.5,
                       level_color(b, mark->level));
        if (right || left)
            es_picture_text(
                b->canvas->picture, right ? x + 5 : x - 5, middle + 0.36 * size,
                size, right ? ES_ALIGN_START : ES_ALIGN_END, ES_WEIGHT_NORMAL,
                0, b->canvas->colors->ink, mark->text);
        taken = right ? x + width + 4 : x + 5;
    }
}

/* Draws a vertical line at the step where a flag of each lane was first raised.
 * The line passes through the plots and lanes, but not through the names
 * between them. */
static void draw_onsets(const timeline_block *b)
{
    es_picture *picture = b->canvas->picture;
    double height = b->sheet->plot_height, bottom = b->plot.y + b->plot.height;
    for (size_t i = 0; i < b->panel->n_bars; i++) {
        const es_timeline_bar *bar = &b->panel->bars[i];
        double x = es_axis_place(&b->steps, bar->from), y = b->plot.y;
        es_color color = level_color(b, bar->level);
        if (i > 0 && bar[-1].lane == bar->lane)
            continue;
        for (size_t k = 0; k < b->panel->n_plots; k++) {
            y += PLOT_GAP;
            es_picture_dashed(picture, x, y, x, y + height, 0.6, 2, color);
            y += height;
        }
        es_picture_dashed(picture, x, y + LANES_GAP, x, bottom, 0.6, 2, color);
    }
}

static void draw_lanes(const timeline_block *b, double y)
{
    const es_timeline *figure = b->sheet->figure;
    const es_colors *colors = b->canvas->colors;
    for (size_t i = 0; i <= figure->n_lanes; i++) {
        double middle = y + ((double)i + 0.5) * LANE;
        es_picture_line(b->canvas->picture, b->plot.x, middle,
                        b->plot.x + b->plot.width, middle, 0.5, colors->grid);
        es_draw_small(b->canvas, b->plot.x - 5, middle + ES_SMALL_DROP,
                      ES_ALIGN_END, colors->ink,
                      i < figure->n_lanes ? figure->lanes[i] : "events",
                      LEFT - 10);
    }
    draw_bars(b, y);
    draw_marks(b, y + ((double)figure->n_lanes + 0.5) * LANE);
}

static es_status draw_panel(const es_page *page, size_t i)
{
    const timeline_sheet *s = page->chart;
    const es_timeline_panel *panel = &s->figure->panels[i];
    const es_box *plot = &page->panels[i].plot;
    /* ticks lie only at whole steps */
    double whole = panel->last - panel->first + 1;
    double most = fmin(fmin(8, plot->width / 40), whole);
    timeline_block b = {panel, s, &page->canvas, *plot,
                        axis_of(panel->first, panel->last, false, plot->x,
                                plot->x + plot->width, (int)most,
                                (int)fmin(whole, (int)most + 2))};
    double y = plot->y, bottom = y + plot->height;
    b.steps.labels = ES_LABELS_COUNT;
    draw_onsets(&b);
    for (size_t k = 0; k < panel->n_plots; k++) {
        const es_box box = {plot->x, y + PLOT_GAP, plot->width, s->plot_height};
        draw_plot(&b, &panel->plots[k], &box);
        y += PLOT_GAP + s->plot_height;
    }
    draw_lanes(&b, y + LANES_GAP);
    es_draw_across(b.canvas, plot, &b.steps, "step");
    if (panel->order)
        es_draw_small(b.canvas, plot->x + plot->width,
                      bottom + ES_AXIS_FOOT + 11, ES_ALIGN_END,
                      b.canvas->colors->ink, panel->order,
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
    if (status == ES_OK && (status = es_page_lay_out(&s.page)) == ES_OK)
        status = es_page_draw(out, &s.page);
    es_page_clear(&s.page);
    return status;
}
