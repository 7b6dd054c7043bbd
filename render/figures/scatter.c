/*
 * Points with names, and the front that none of them beats. Labels that find
 * no place beside their points become numbers, which are listed below.
 */
#include "render/figures/scatter_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>

/* What the content wants, in points. */
#define WIDTH 380.0
#define HEIGHT 230.0
#define LEAST_FACTOR 0.28 /* when a size is requested */
#define INSET 12.0        /* of the points from the edges of the plot */
#define TICK_GAP_X 34.0
#define TICK_GAP_Y 22.0
#define MOST_TICKS 8

/* --- which points ---------------------------------------------------------*/

static bool is_shown(const es_scatter *figure, const es_point *point)
{
    return isfinite(point->x) && isfinite(point->y) &&
           (point->x > 0 || !figure->x_log) && (point->y > 0 || !figure->y_log);
}

static bool beats(const es_point *a, const es_point *b)
{
    return a->x <= b->x && a->y <= b->y && (a->x < b->x || a->y < b->y);
}

void es_scatter_front(bool *on_front, const es_scatter *figure)
{
    for (size_t i = 0; i < figure->n; i++) {
        const es_point *point = &figure->points[i];
        on_front[i] = is_shown(figure, point);
        for (size_t k = 0; k < figure->n && on_front[i]; k++)
            if (is_shown(figure, &figure->points[k]))
                on_front[i] = !beats(&figure->points[k], point);
    }
}

/* --- drawing --------------------------------------------------------------*/

/* The next mark of the front to the right of x, the lowest of them. */
static const es_scatter_mark *next_on_front(const es_scatter_sheet *sheet,
                                            double x)
{
    const es_scatter_mark *next = NULL;
    for (size_t i = 0; i < sheet->figure->n; i++) {
        const es_scatter_mark *mark = &sheet->marks[i];
        if (mark->on_front && mark->x > x && (!next || mark->x < next->x))
            next = mark;
    }
    return next;
}

/* Stairs: from a point on, nothing cheaper than the next is better than it. */
static void draw_front(es_picture *picture, const es_scatter_sheet *sheet)
{
    const es_box *plot = &sheet->page.plots;
    es_color color = es_theme_category(sheet->figure->style.theme, 0);
    const es_scatter_mark *mark = next_on_front(sheet, -INFINITY);
    if (!mark)
        return;
    es_picture_dashed(picture, mark->x, plot->y, mark->x, mark->y, 0.8, 2.5,
                      color);
    while (mark) {
        const es_scatter_mark *next = next_on_front(sheet, mark->x);
        double x = next ? next->x : plot->x + plot->width;
        es_picture_dashed(picture, mark->x, mark->y, x, mark->y, 0.8, 2.5,
                          color);
        if (next)
            es_picture_dashed(picture, x, mark->y, x, next->y, 0.8, 2.5, color);
        mark = next;
    }
}

static void draw_mark(es_picture *picture, const es_scatter_sheet *sheet,
                      const es_scatter_mark *mark)
{
    es_color color = es_theme_category(sheet->figure->style.theme, 0);
    bool stands_out = mark->on_front || !sheet->figure->front;
    es_picture_dot(picture, mark->x, mark->y, ES_POINT_RADIUS + 0.8,
                   sheet->page.colors->paper);
    es_picture_dot(picture, mark->x, mark->y, ES_POINT_RADIUS,
                   stands_out ? color : sheet->page.colors->muted);
    if (!stands_out) /* a ring */
        es_picture_dot(picture, mark->x, mark->y, ES_POINT_RADIUS - 1,
                       sheet->page.colors->paper);
}

static void draw_leader(es_picture *picture, const es_scatter_sheet *sheet,
                        const es_scatter_mark *mark)
{
    const es_box *text = &mark->text;
    double x = fmin(fmax(mark->x, text->x - 1), text->x + text->width + 1);
    double y = fmin(fmax(mark->y, text->y - 1), text->y + text->height + 1);
    if (text->width > 0 &&
        hypot(x - mark->x, y - mark->y) > ES_POINT_RADIUS + 6)
        es_picture_line(picture, mark->x, mark->y, x, y, 0.5,
                        sheet->page.colors->muted);
}

static void draw_label(es_picture *picture, const es_scatter_sheet *sheet,
                       size_t i)
{
    const es_scatter_mark *mark = &sheet->marks[i];
    char number[ES_LABEL_MAX];
    if (mark->kind == ES_SCATTER_NONE || mark->text.width <= 0)
        return;
    bool numbered = mark->kind == ES_SCATTER_NUMBERED;
    snprintf(number, sizeof number, "%d", mark->number);
    es_picture_rect(picture, mark->text.x - 0.5, mark->text.y - 0.5,
                    mark->text.width + 1, mark->text.height + 1,
                    sheet->page.colors->paper);
    es_draw_fitted(picture, mark->text.x, mark->text.y + 0.73 * ES_SCATTER_SIZE,
                   ES_SCATTER_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                   numbered ? sheet->page.colors->muted
                            : sheet->page.colors->ink,
                   numbered ? number : sheet->figure->points[i].label,
                   mark->text.width + 0.5);
}

static es_status draw_plot(es_picture *picture, const es_page *page, size_t i)
{
    const es_scatter_sheet *sheet = page->chart;
    const es_scatter *figure = sheet->figure;
    const es_box *plot = &page->panels[i].plot;
    es_draw_upright(picture, page->colors, plot, &sheet->y_axis, true,
                    figure->y_text);
    es_draw_across(picture, page->colors, plot, &sheet->x_axis, figure->x_text);
    if (sheet->n_shown == 0) {
        es_picture_text(picture, plot->x + plot->width / 2,
                        plot->y + plot->height / 2, ES_LABEL_SIZE,
                        ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                        page->colors->muted, "no finite values");
        return ES_OK;
    }
    if (figure->front)
        draw_front(picture, sheet);
    for (size_t k = 0; k < figure->n; k++)
        if (sheet->marks[k].kind != ES_SCATTER_NONE)
            draw_leader(picture, sheet, &sheet->marks[k]);
    for (size_t k = 0; k < figure->n; k++)
        draw_label(picture, sheet, k);
    for (int front = 0; front <= 1; front++)
        for (size_t k = 0; k < figure->n; k++)
            if (sheet->marks[k].shown && sheet->marks[k].on_front == front)
                draw_mark(picture, sheet, &sheet->marks[k]);
    return ES_OK;
}

/* --- layout ---------------------------------------------------------------*/

static es_box *plot_of(es_scatter_sheet *sheet)
{
    return &sheet->page.panels[0].plot;
}

/* An axis whose ends leave the points some air. */
static es_axis axis_for(double low, double high, bool logarithmic, double start,
                        double end, int most)
{
    double length = fabs(end - start);
    double air = INSET / fmax(length - 2 * INSET, INSET) * (high - low);
    if (!logarithmic && isfinite(air) && air > 0) {
        low = low >= 0 ? fmax(0, low - air) : low - air;
        high += air;
    }
    return es_axis_make(low, high, logarithmic, start, end, most);
}

static void set_axes(es_scatter_sheet *sheet)
{
    const es_scatter *figure = sheet->figure;
    const es_box *plot = plot_of(sheet);
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < figure->n; i++) {
        const es_point *point = &figure->points[i];
        if (!sheet->marks[i].shown)
            continue;
        left = fmin(left, point->x);
        right = fmax(right, point->x);
        low = fmin(low, point->y);
        high = fmax(high, point->y);
    }
    sheet->x_axis =
        axis_for(left, right, figure->x_log, plot->x, plot->x + plot->width,
                 (int)fmin(MOST_TICKS, plot->width / TICK_GAP_X));
    sheet->y_axis =
        axis_for(low, high, figure->y_log, plot->y + plot->height, plot->y,
                 (int)fmin(MOST_TICKS, plot->height / TICK_GAP_Y));
    if (figure->x_counts)
        sheet->x_axis.labels = ES_LABELS_COUNT;
}

static void place_marks(es_scatter_sheet *sheet)
{
    for (size_t i = 0; i < sheet->figure->n; i++) {
        es_scatter_mark *mark = &sheet->marks[i];
        if (!mark->shown)
            continue;
        mark->x = es_axis_place(&sheet->x_axis, sheet->figure->points[i].x);
        mark->y = es_axis_place(&sheet->y_axis, sheet->figure->points[i].y);
    }
}

/* A width alone changes the height less. */
static double height_of(es_page *page, size_t i, double factor)
{
    (void)i;
    return page->style->height > 0 ? factor * HEIGHT
                                   : HEIGHT * fmin(fmax(sqrt(factor), 0.6), 2);
}

/* Labels that become numbers take height, which makes others numbers: what
   they took once they keep, so this ends. */
static es_status place(es_scatter_sheet *sheet)
{
    es_page *page = &sheet->page;
    double numbers;
    *plot_of(sheet) = (es_box){0, 0, WIDTH, HEIGHT};
    set_axes(sheet); /* the widest labels are those of the most ticks */
    page->left =
        ceil(2 * es_upright_width(&sheet->y_axis, sheet->figure->y_text)) / 2;
    do {
        es_status status = es_page_lay_out(page);
        if (status < 0)
            return status;
        set_axes(sheet);
        place_marks(sheet);
        es_scatter_place_labels(sheet);
        numbers = es_scatter_numbers(NULL, sheet, 0, 0, page->plots.width);
    } while (numbers > page->below && (page->below = numbers, true));
    return ES_OK;
}

static void draw_numbers(es_picture *picture, const es_page *page)
{
    const es_box *plots = &page->plots;
    es_scatter_numbers(picture, page->chart, plots->x,
                       plots->y + plots->height + ES_AXIS_FOOT + 4,
                       plots->width);
}

es_status es_scatter_lay_out(es_scatter_sheet *out, const es_scatter *figure)
{
    es_status status;
    *out = (es_scatter_sheet){
        .figure = figure,
        .page = {.name = "a figure of points",
                 .style = &figure->style,
                 .chart = out,
                 .plot_width = WIDTH,
                 .height = height_of,
                 .draw = draw_plot,
                 .draw_legend = draw_numbers,
                 .least_factor = LEAST_FACTOR,
                 .right = 10, /* half of the last tick's label */
                 .foot = ES_AXIS_FOOT,
                 .title_gap = 6,
                 .note = figure->note,
                 .long_note = true}};
    if ((status = es_page_begin(&out->page, 1)) < 0 ||
        (status = es_alloc(&out->marks, figure->n, sizeof *out->marks,
                           "the points")) < 0 ||
        (status = es_alloc(&out->on_front, figure->n, sizeof *out->on_front,
                           "the points")) < 0)
        return status;
    es_scatter_front(out->on_front, figure);
    for (size_t i = 0; i < figure->n; i++) {
        out->marks[i].shown = is_shown(figure, &figure->points[i]);
        out->marks[i].on_front = out->on_front[i];
        out->n_shown += out->marks[i].shown;
    }
    out->page.panels[0].subtitle = figure->subtitle;
    return place(out);
}

void es_scatter_sheet_clear(es_scatter_sheet *sheet)
{
    es_page_clear(&sheet->page);
    free(sheet->marks);
    free(sheet->on_front);
    sheet->marks = NULL;
    sheet->on_front = NULL;
}

es_status es_scatter_draw(es_picture **out, const es_scatter *figure)
{
    es_scatter_sheet sheet;
    es_status status = es_scatter_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_scatter_sheet_clear(&sheet);
    return status;
}
