#include "render/figures/timeline.h"

#include "analyzer/base/value.h"
#include "render/figures/figure_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the content wants, in points. */
#define PLOT_WIDTH 330.0
#define PLOT_HEIGHT 46.0
#define PLOT_GAP 14.0 /* above each, for its name */
#define LANES_GAP 8.0 /* above the lanes */
#define LANE 13.0
#define BAR 9.0
#define LEFT 52.0
#define ORDER_ROOM 15.0
#define LEAST_FACTOR 0.3
#define COLUMN 0.5 /* width that a long series is reduced to */
#define TICKS 3

typedef struct block {
    const es_timeline_panel *panel;
    double x, y; /* of the first plot */
} block;

typedef struct sheet {
    const es_timeline *figure;
    const es_colors *colors;
    block *blocks;
    size_t n_rows, n_columns;
    double head, top;
    double plot_width, plot_height;
} sheet;

static es_color level_color(const sheet *s, es_timeline_level level)
{
    static const es_color warning[] = {{230, 159, 0, 255}, {240, 200, 90, 255}};
    static const es_color error[] = {{213, 94, 0, 255}, {235, 130, 50, 255}};
    es_theme theme = s->figure->style.theme;
    switch (level) {
    case ES_LEVEL_CRITICAL:
        return s->colors->alarm;
    case ES_LEVEL_ERROR:
        return error[theme];
    case ES_LEVEL_WARNING:
        return warning[theme];
    default:
        return s->colors->muted;
    }
}

/* --- where everything goes ------------------------------------------------*/

static double lanes_height(const sheet *s)
{
    return (double)(s->figure->n_lanes + 1) * LANE; /* the last: events */
}

static double plots_height(const sheet *s, const es_timeline_panel *panel)
{
    return (double)panel->n_plots * (s->plot_height + PLOT_GAP) + LANES_GAP;
}

static double across(void *user, double factor)
{
    sheet *s = user;
    double width = LEFT + factor * PLOT_WIDTH;
    s->plot_width = factor * PLOT_WIDTH;
    for (size_t i = 0; i < s->figure->n_panels; i++)
        s->blocks[i].x =
            ES_MARGIN + LEFT + (double)(i % s->n_columns) * (width + ES_GUTTER);
    return 2 * ES_MARGIN + (double)s->n_columns * (width + ES_GUTTER) -
           ES_GUTTER;
}

static double down(void *user, double factor)
{
    sheet *s = user;
    double y = ES_MARGIN + s->top, end = y;
    s->plot_height = factor * PLOT_HEIGHT;
    for (size_t i = 0; i < s->figure->n_panels; i++) {
        block *b = &s->blocks[i];
        if (i % s->n_columns == 0 && i > 0)
            y = end + 12;
        b->y = y + s->head;
        end = fmax(end, b->y + plots_height(s, b->panel) + lanes_height(s) +
                            ES_AXIS_FOOT + ORDER_ROOM);
    }
    return end + ES_MARGIN;
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
    double *points = malloc(4 * (plot->n + 1) * sizeof *points);
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
static void draw_nonfinite(es_picture *picture, const sheet *s,
                           const es_timeline_plot *plot, const es_axis *steps,
                           const es_box *box)
{
    for (size_t i = 0, to; i < plot->n; i = to + 1) {
        to = i;
        while (to < plot->n && !shown(plot, to) &&
               !es_is_missing(plot->values[to]))
            to++;
        if (to == i)
            continue;
        double x = es_axis_place(steps, (double)plot->steps[i]);
        double end = es_axis_place(steps, (double)plot->steps[to - 1]);
        es_picture_rect(picture, fmin(x, box->x + box->width - 1.5),
                        box->y + box->height - 4, fmax(1.5, end - x), 4,
                        s->colors->alarm);
    }
}

static void draw_plot(es_picture *picture, const sheet *s,
                      const es_timeline_plot *plot, const es_axis *steps,
                      const es_box *box)
{
    es_axis values = value_axis(plot, box);
    es_draw_upright(picture, s->colors, box, &values, true, NULL);
    draw_line(picture, plot, steps, &values, s->colors->ink);
    draw_nonfinite(picture, s, plot, steps, box);
    es_draw_fitted(picture, box->x, box->y - 4, ES_SMALL_SIZE, ES_ALIGN_START,
                   ES_WEIGHT_NORMAL, s->colors->muted, plot->text, box->width);
}

/* --- lanes ----------------------------------------------------------------*/

static void draw_lane(es_picture *picture, const sheet *s, const block *b,
                      double middle, const char *name)
{
    es_picture_line(picture, b->x, middle, b->x + s->plot_width, middle, 0.5,
                    s->colors->grid);
    es_draw_fitted(picture, b->x - 5, middle + 0.36 * ES_SMALL_SIZE,
                   ES_SMALL_SIZE, ES_ALIGN_END, ES_WEIGHT_NORMAL,
                   s->colors->ink, name, LEFT - 10);
}

/* A text on its bar, or after it, if that has room before `limit`. */
static void draw_bar_text(es_picture *picture, const sheet *s, const char *text,
                          double x, double end, double y, double limit,
                          es_color fill)
{
    double width = es_text_width(text, ES_SMALL_SIZE - 0.5, ES_WEIGHT_NORMAL);
    bool inside = width + 6 <= end - x;
    if (!inside && end + 4 + width > limit)
        return;
    es_picture_text(picture, inside ? x + 3 : end + 3,
                    y + 0.36 * (ES_SMALL_SIZE - 0.5), ES_SMALL_SIZE - 0.5,
                    ES_ALIGN_START, ES_WEIGHT_NORMAL, 0,
                    inside ? es_text_on(fill) : s->colors->ink, text);
}

static void draw_bars(es_picture *picture, const sheet *s, const block *b,
                      const es_axis *steps, double y)
{
    const es_timeline_panel *panel = b->panel;
    for (size_t i = 0; i < panel->n_bars; i++) {
        const es_timeline_bar *bar = &panel->bars[i];
        double middle = y + ((double)bar->lane + 0.5) * LANE;
        double x = es_axis_place(steps, bar->from);
        double end = fmax(es_axis_place(steps, bar->to), x + 2);
        double limit = b->x + s->plot_width;
        if (i + 1 < panel->n_bars && bar[1].lane == bar->lane)
            limit = es_axis_place(steps, bar[1].from) - 2;
        es_color fill = level_color(s, bar->level);
        es_picture_rect(picture, x, middle - BAR / 2, end - x, BAR, fill);
        if (bar->text)
            draw_bar_text(picture, s, bar->text, x, end, middle, limit, fill);
    }
}

/* A mark's text stands right of it, or left where the page ends, if the
 * marks beside leave room. */
static void draw_marks(es_picture *picture, const sheet *s, const block *b,
                       const es_axis *steps, double middle)
{
    const es_timeline_panel *panel = b->panel;
    double taken = b->x, size = ES_SMALL_SIZE - 0.5;
    for (size_t i = 0; i < panel->n_marks; i++) {
        const es_timeline_mark *mark = &panel->marks[i];
        double x = es_axis_place(steps, mark->step);
        double width = es_text_width(mark->text, size, ES_WEIGHT_NORMAL) + 6;
        double limit = i + 1 < panel->n_marks
                           ? es_axis_place(steps, mark[1].step) - 3
                           : b->x + s->plot_width;
        bool right = x + width <= limit, left = x - width >= taken;
        es_picture_dot(picture, x, middle, 2.5, level_color(s, mark->level));
        if (right || left)
            es_picture_text(picture, right ? x + 5 : x - 5,
                            middle + 0.36 * size, size,
                            right ? ES_ALIGN_START : ES_ALIGN_END,
                            ES_WEIGHT_NORMAL, 0, s->colors->ink, mark->text);
        taken = right ? x + width + 4 : x + 5;
    }
}

/* Through the plots and the lanes, not through the names between them. */
static void draw_onset(es_picture *picture, const sheet *s, const block *b,
                       double x, es_color color)
{
    double y = b->y;
    for (size_t i = 0; i < b->panel->n_plots; i++) {
        y += PLOT_GAP;
        es_picture_dashed(picture, x, y, x, y + s->plot_height, 0.6, 2, color);
        y += s->plot_height;
    }
    y += LANES_GAP;
    es_picture_dashed(picture, x, y, x, y + lanes_height(s), 0.6, 2, color);
}

static void draw_onsets(es_picture *picture, const sheet *s, const block *b,
                        const es_axis *steps)
{
    for (size_t i = 0; i < b->panel->n_bars; i++) {
        const es_timeline_bar *bar = &b->panel->bars[i];
        if (i > 0 && bar[-1].lane == bar->lane)
            continue; /* the first is what the others follow from */
        draw_onset(picture, s, b, es_axis_place(steps, bar->from),
                   level_color(s, bar->level));
    }
}

static void draw_block(es_picture *picture, const sheet *s, const block *b)
{
    const es_timeline_panel *panel = b->panel;
    double y = b->y;
    double lanes = b->y + plots_height(s, panel);
    double bottom = lanes + lanes_height(s);
    double whole = panel->last - panel->first + 1; /* no parts of a step */
    double most = fmin(fmin(8, s->plot_width / 40), whole);
    es_axis steps = es_axis_make(panel->first, panel->last, false, b->x,
                                 b->x + s->plot_width, (int)most);
    steps.labels = ES_LABELS_COUNT;
    es_draw_titles(picture, s->colors, b->x, b->y - 4, s->plot_width, s->head,
                   panel->title, panel->subtitle);
    draw_onsets(picture, s, b, &steps);
    for (size_t i = 0; i < panel->n_plots; i++) {
        const es_box box = {b->x, y + PLOT_GAP, s->plot_width, s->plot_height};
        draw_plot(picture, s, &panel->plots[i], &steps, &box);
        y += PLOT_GAP + s->plot_height;
    }
    for (size_t i = 0; i <= s->figure->n_lanes; i++)
        draw_lane(picture, s, b, lanes + ((double)i + 0.5) * LANE,
                  i < s->figure->n_lanes ? s->figure->lanes[i] : "events");
    draw_bars(picture, s, b, &steps, lanes);
    draw_marks(picture, s, b, &steps,
               lanes + ((double)s->figure->n_lanes + 0.5) * LANE);
    const es_box all = {b->x, b->y, s->plot_width, bottom - b->y};
    es_draw_across(picture, s->colors, &all, &steps, "step");
    if (panel->order)
        es_draw_fitted(picture, b->x + s->plot_width,
                       bottom + ES_AXIS_FOOT + 11, ES_SMALL_SIZE, ES_ALIGN_END,
                       ES_WEIGHT_NORMAL, s->colors->ink, panel->order,
                       s->plot_width + LEFT - 5);
}

/* --- the figure -----------------------------------------------------------*/

static void measure(sheet *s)
{
    const es_timeline *figure = s->figure;
    s->top = figure->style.title ? ES_TITLE_SIZE + 9 : 0;
    for (size_t i = 0; i < figure->n_panels; i++) {
        const es_timeline_panel *panel = &figure->panels[i];
        s->blocks[i].panel = panel;
        s->head = fmax(s->head, es_head(panel->title, panel->subtitle));
    }
}

static es_status draw(es_picture **out, sheet *s)
{
    es_figure_style style = s->figure->style;
    es_picture *picture = NULL;
    es_extent needed;
    if (!style.most_columns)
        style.most_columns = 2;
    const es_layout layout = {.sheet = s,
                              .across = across,
                              .down = down,
                              .least_factor = LEAST_FACTOR,
                              .what = "a timeline",
                              .n_panels = s->figure->n_panels,
                              .n_rows = &s->n_rows,
                              .n_columns = &s->n_columns};
    es_status status = es_layout_fit(&needed, &layout, &style);
    if (status == ES_OK)
        status = es_picture_new(
            &picture, style.width > 0 ? style.width : ceil(needed.width),
            style.height > 0 ? style.height : ceil(needed.height),
            s->colors->paper);
    if (status == ES_OK)
        es_draw_page_title(picture, s->colors, ES_MARGIN + LEFT,
                           needed.width - LEFT - 2 * ES_MARGIN, style.title);
    for (size_t i = 0; status == ES_OK && i < s->figure->n_panels; i++)
        draw_block(picture, s, &s->blocks[i]);
    return es_figure_finish(out, picture, &style, status);
}

es_status es_timeline_draw(es_picture **out, const es_timeline *figure)
{
    sheet s = {.figure = figure,
               .colors = es_theme_colors(figure->style.theme)};
    if (!figure->n_panels)
        return es_fail(ES_EUSAGE, "a timeline needs at least one run");
    s.blocks = calloc(figure->n_panels, sizeof *s.blocks);
    if (!s.blocks)
        return es_fail(ES_ENOMEM, "timeline: out of memory");
    measure(&s);
    es_status status = draw(out, &s);
    free(s.blocks);
    return status;
}
