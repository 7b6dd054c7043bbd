#include "render/figures/scatter_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>
#include <string.h>

/* What the content wants, in points. */
#define WIDTH 380.0
#define HEIGHT 230.0
#define LEAST_WIDTH 110.0
#define LEAST_HEIGHT 60.0
#define INSET 12.0 /* of the points from the edges of the plot */
#define TICK_ROOM_X 34.0
#define TICK_ROOM_Y 22.0
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

/* --- layout ---------------------------------------------------------------*/

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
    const es_box *plot = &sheet->plot;
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
                 (int)fmin(MOST_TICKS, plot->width / TICK_ROOM_X));
    sheet->y_axis =
        axis_for(low, high, figure->y_log, plot->y + plot->height, plot->y,
                 (int)fmin(MOST_TICKS, plot->height / TICK_ROOM_Y));
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

/* A plot of a width and height, and what follows from them. */
static void arrange(es_scatter_sheet *sheet, double width, double height)
{
    const es_scatter *figure = sheet->figure;
    sheet->plot = (es_box){ES_MARGIN + sheet->label_room,
                           ES_MARGIN + sheet->top, width, height};
    set_axes(sheet);
    sheet->label_room = es_upright_room(&sheet->y_axis, figure->y_text);
    sheet->plot.x = ceil(2 * (ES_MARGIN + sheet->label_room)) / 2;
    set_axes(sheet);
    place_marks(sheet);
    es_scatter_place_labels(sheet);
    size_t n_lines = es_note_lines(figure->note, width);
    sheet->number_height = es_scatter_numbers(NULL, sheet, 0, 0, width);
    sheet->footer = sheet->number_height +
                    (n_lines ? 8 + ES_NOTE_LINE * (double)n_lines : 0);
}

static double height_around(const es_scatter_sheet *sheet)
{
    return ES_MARGIN + sheet->top + ES_AXIS_FOOT + sheet->footer + ES_MARGIN;
}

/* Room right of the plot for half of the last tick's label. */
#define RIGHT_ROOM 10.0

static double width_around(const es_scatter_sheet *sheet)
{
    return sheet->plot.x + RIGHT_ROOM + ES_MARGIN;
}

static es_status too_small(const es_scatter_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    double width = ceil(width_around(sheet) + LEAST_WIDTH);
    double height = ceil(height_around(sheet) + LEAST_HEIGHT);
    return es_fail(ES_EUSAGE,
                   "points of %.0fx%.0f points have no room for their content: "
                   "ask for at least %.0fx%.0f",
                   style->width > 0 ? style->width : width,
                   style->height > 0 ? style->height : height, width, height);
}

/* The plot's share of the size asked for; false if that is too little. */
static bool share_size(const es_scatter_sheet *sheet, double *width,
                       double *height)
{
    const es_figure_style *style = &sheet->figure->style;
    if (style->width > 0) {
        *width = style->width - width_around(sheet);
        *height = HEIGHT * fmin(fmax(sqrt(*width / WIDTH), 0.6), 2);
    }
    if (style->height > 0)
        *height = style->height - height_around(sheet);
    return *width >= LEAST_WIDTH && *height >= LEAST_HEIGHT;
}

static es_status place(es_scatter_sheet *sheet)
{
    const es_figure_style *style = &sheet->figure->style;
    double width = WIDTH, height = HEIGHT, footer;
    arrange(sheet, width, height);
    /* Labels that become numbers take height, which makes others numbers: what
       they took once they keep, so this ends. */
    do {
        footer = sheet->footer;
        if (!share_size(sheet, &width, &height))
            return too_small(sheet);
        arrange(sheet, width, height);
        sheet->footer = fmax(sheet->footer, footer);
    } while (sheet->footer > footer);
    sheet->width = style->width > 0
                       ? style->width
                       : ceil(sheet->plot.width + width_around(sheet));
    sheet->height = style->height > 0
                        ? style->height
                        : ceil(sheet->plot.height + height_around(sheet));
    return ES_OK;
}

es_status es_scatter_lay_out(es_scatter_sheet *out, const es_scatter *figure)
{
    size_t n = figure->n ? figure->n : 1;
    *out = (es_scatter_sheet){.figure = figure,
                              .colors = es_theme_colors(figure->style.theme)};
    out->marks = calloc(n, sizeof *out->marks);
    out->on_front = calloc(n, sizeof *out->on_front);
    if (!out->marks || !out->on_front)
        return es_fail(ES_ENOMEM, "points: out of memory");
    es_scatter_front(out->on_front, figure);
    for (size_t i = 0; i < figure->n; i++) {
        out->marks[i].shown = is_shown(figure, &figure->points[i]);
        out->marks[i].on_front = out->on_front[i];
        out->n_shown += out->marks[i].shown;
    }
    out->top = (figure->style.title ? ES_TITLE_SIZE + 9 : 0) +
               es_head(NULL, figure->subtitle) + 4;
    return place(out);
}

void es_scatter_sheet_clear(es_scatter_sheet *sheet)
{
    free(sheet->marks);
    free(sheet->on_front);
    sheet->marks = NULL;
    sheet->on_front = NULL;
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
    const es_box *plot = &sheet->plot;
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
                   sheet->colors->paper);
    es_picture_dot(picture, mark->x, mark->y, ES_POINT_RADIUS,
                   stands_out ? color : sheet->colors->muted);
    if (!stands_out) /* a ring */
        es_picture_dot(picture, mark->x, mark->y, ES_POINT_RADIUS - 1,
                       sheet->colors->paper);
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
                        sheet->colors->muted);
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
                    sheet->colors->paper);
    es_draw_fitted(picture, mark->text.x, mark->text.y + 0.73 * ES_SCATTER_SIZE,
                   ES_SCATTER_SIZE, ES_ALIGN_START, ES_WEIGHT_NORMAL,
                   numbered ? sheet->colors->muted : sheet->colors->ink,
                   numbered ? number : sheet->figure->points[i].label,
                   mark->text.width + 0.5);
}

static void draw_plot(es_picture *picture, const es_scatter_sheet *sheet)
{
    const es_scatter *figure = sheet->figure;
    const es_box *plot = &sheet->plot;
    es_draw_upright(picture, sheet->colors, plot, &sheet->y_axis, true,
                    figure->y_text);
    es_draw_across(picture, sheet->colors, plot, &sheet->x_axis,
                   figure->x_text);
    if (sheet->n_shown == 0) {
        es_picture_text(picture, plot->x + plot->width / 2,
                        plot->y + plot->height / 2, ES_LABEL_SIZE,
                        ES_ALIGN_MIDDLE, ES_WEIGHT_NORMAL, 0,
                        sheet->colors->muted, "no finite values");
        return;
    }
    if (figure->front)
        draw_front(picture, sheet);
    for (size_t i = 0; i < figure->n; i++)
        if (sheet->marks[i].kind != ES_SCATTER_NONE)
            draw_leader(picture, sheet, &sheet->marks[i]);
    for (size_t i = 0; i < figure->n; i++)
        draw_label(picture, sheet, i);
    for (int front = 0; front <= 1; front++)
        for (size_t i = 0; i < figure->n; i++)
            if (sheet->marks[i].shown && sheet->marks[i].on_front == front)
                draw_mark(picture, sheet, &sheet->marks[i]);
}

static void draw_sheet(es_picture *picture, const es_scatter_sheet *sheet)
{
    const es_scatter *figure = sheet->figure;
    const es_box *plot = &sheet->plot;
    double y = plot->y + plot->height + ES_AXIS_FOOT + 4;
    es_draw_page_title(picture, sheet->colors, plot->x, plot->width,
                       figure->style.title);
    es_draw_titles(picture, sheet->colors, plot->x, plot->y - 6, plot->width,
                   es_head(NULL, figure->subtitle), NULL, figure->subtitle);
    draw_plot(picture, sheet);
    es_scatter_numbers(picture, sheet, plot->x, y, plot->width);
    es_draw_note(picture, sheet->colors->muted, plot->x,
                 y + sheet->number_height + ES_NOTE_LINE, plot->width,
                 figure->note);
}

es_status es_scatter_draw(es_picture **out, const es_scatter *figure)
{
    es_scatter_sheet sheet;
    es_picture *picture = NULL;
    es_status status = es_scatter_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_picture_new(&picture, sheet.width, sheet.height,
                                sheet.colors->paper);
    if (status == ES_OK)
        draw_sheet(picture, &sheet);
    status = es_figure_finish(out, picture, &figure->style, status);
    es_scatter_sheet_clear(&sheet);
    return status;
}
