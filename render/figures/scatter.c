/*
 * Draws scatter plots: points with labels, and their Pareto front. If a label
 * has no space near its point, the point gets a number and the label is listed
 * below the plot.
 */
#include "render/figures/scatter.h"

#include "analyzer/base/checked.h"
#include "render/figures/page.h"

/* Sizes of the chart before scaling, in points. */
#define WIDTH 380.0
#define HEIGHT 230.0
/* Minimum scale factor of the chart if a page size is requested. */
#define LEAST_FACTOR 0.28
#define INSET 12.0 /* gap between the points and the edges of the plot */
#define TICK_GAP_X 34.0
#define TICK_GAP_Y 22.0
#define MOST_TICKS 8

#define RADIUS 2.8
#define CAP 1.8   /* half the length of the cap at an interval's end */
#define SIZE 7.0  /* font size of labels */
#define AWAY 3.0  /* gap between the edge of a point and its label */
#define CLEAR 4.5 /* minimum distance of a label from other points */
#define TEXT_HEIGHT (0.73 * SIZE)
#define INDEX_DEPTH (0.3 * SIZE) /* depth of characters below the baseline */
#define APART 1.5                /* minimum gap between labels */
#define MOST_LABEL 150.0         /* maximum width of a label */

#define ENTRY_LINE 10.0
#define ENTRY_GAP 12.0
#define NUMBER_WIDTH 15.0

/* One point of the plot, as placed on the page. */
typedef struct point_mark {
    double x, y;
    double low, high; /* x positions of the ends of the point's interval */
    bool shown, on_front;
    bool placed; /* true if a position was found for the label or number */
    /* The point has a number and its label is listed below the plot. */
    bool numbered;
    /* Number of the point, from 1; 0 if not even a number fits. */
    int number;
    es_box text; /* position and size of the label or number */
} point_mark;

typedef struct scatter_sheet {
    es_page page;
    const es_scatter *figure;
    point_mark *marks; /* (n) */
    bool *on_front;    /* (n) */
    size_t n_shown;
    int n_numbers;
    bool over;    /* true if labels may cover the interval lines of points */
    double clear; /* minimum distance of labels from other points */
    es_axis x_axis, y_axis;
} scatter_sheet;

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

/* --- places of labels -----------------------------------------------------*/

/* A direction from a point to its label. Labels of points on the front prefer
   the lower left, because the front's line and the other points are above and
   to the right. */
typedef struct side {
    int x, y;
} side;
enum { N_SIDES = 8 };
static const side of_others[N_SIDES] = {{1, 0},  {-1, 0}, {0, -1},  {0, 1},
                                        {1, -1}, {1, 1},  {-1, -1}, {-1, 1}};
static const side of_front[N_SIDES] = {{-1, 0},  {-1, 1}, {0, 1},  {1, 1},
                                       {-1, -1}, {1, -1}, {0, -1}, {1, 0}};

/* Distances at which a label is tried if a line connects it to its point. */
static const double rings[] = {12, 20, 30, 42, 58, 76};
#define N_RINGS (sizeof rings / sizeof *rings)
/* At the first N_CLEAR of these distances, labels keep the distance CLEAR from
 * other points. */
#define N_CLEAR 3

static bool touch(const es_box *a, const es_box *b, double apart)
{
    return a->x < b->x + b->width + apart && b->x < a->x + a->width + apart &&
           a->y < b->y + b->height + apart && b->y < a->y + a->height + apart;
}

static es_box dot_of(const point_mark *mark)
{
    return (es_box){mark->x - RADIUS, mark->y - RADIUS, 2 * RADIUS, 2 * RADIUS};
}

static bool has_interval(const point_mark *mark)
{
    return mark->shown && mark->high > mark->low;
}

static es_box interval_of(const point_mark *mark)
{
    return (es_box){mark->low, mark->y - CAP, mark->high - mark->low, 2 * CAP};
}

static bool has_text(const point_mark *mark)
{
    return mark->placed && mark->text.width > 0;
}

static bool is_free(const scatter_sheet *sheet, const point_mark *own,
                    const es_box *box)
{
    const es_box *plot = &sheet->page.plots;
    bool found = box->x >= plot->x + 1 && box->y >= plot->y + 1 &&
                 box->x + box->width <= plot->x + plot->width - 1 &&
                 box->y + box->height <= plot->y + plot->height - 1;
    for (size_t i = 0; found && i < sheet->figure->n; i++) {
        const point_mark *mark = &sheet->marks[i];
        const es_box dot = dot_of(mark), interval = interval_of(mark);
        found = !mark->shown ||
                !(touch(box, &dot, mark == own ? 0.5 : sheet->clear) ||
                  (!sheet->over && has_interval(mark) &&
                   touch(box, &interval, 0)) ||
                  (has_text(mark) && touch(box, &mark->text, APART)));
    }
    return found;
}

/* Tries to place a label at `distance` from the centre of its point, on the
 * first side that is free. */
static bool try_ring(const scatter_sheet *sheet, point_mark *mark, double width,
                     double distance)
{
    bool front = sheet->figure->front && mark->on_front;
    for (size_t i = 0; i < N_SIDES; i++) {
        side to = front ? of_front[i] : of_others[i];
        /* A diagonal label is moved along both axes, so use less of `distance`
         * in each. */
        double away = (to.x && to.y ? 0.75 : 1) * distance;
        es_box box = {mark->x + to.x * away, mark->y + to.y * away, width,
                      TEXT_HEIGHT + INDEX_DEPTH};
        box.x -= to.x > 0 ? 0 : to.x < 0 ? width : width / 2;
        box.y -= to.y > 0 ? 0 : to.y < 0 ? box.height : box.height / 2;
        if (is_free(sheet, mark, &box)) {
            mark->text = box;
            return true;
        }
    }
    return false;
}

/* Returns true if the line from the point to its label crosses no other label
 * or point. */
static bool is_clear(const scatter_sheet *sheet, const point_mark *mark)
{
    const es_box *text = &mark->text;
    double to_x = fmin(fmax(mark->x, text->x), text->x + text->width);
    double to_y = fmin(fmax(mark->y, text->y), text->y + text->height);
    for (size_t i = 0; i < sheet->figure->n; i++) {
        const point_mark *other = &sheet->marks[i];
        const es_box dot = dot_of(other);
        if (!other->shown || other == mark)
            continue;
        for (int step = 0; step <= 16; step++) {
            double t = step / 16.0;
            const es_box here = {mark->x + t * (to_x - mark->x),
                                 mark->y + t * (to_y - mark->y), 0, 0};
            if (touch(&here, &dot, 0) ||
                (has_text(other) && touch(&here, &other->text, 0)))
                return false;
        }
    }
    return true;
}

/* Places a label next to its point, or farther away with a connecting line. If
 * no such position is free, the label may be near another point, and as a last
 * resort cover an interval. */
static bool place_text(scatter_sheet *sheet, point_mark *mark, double width)
{
    for (int way = 0; way < 4; way++) {
        const bool near = way % 2;
        sheet->over = way / 2;
        sheet->clear = near ? 0.5 : CLEAR;
        if (try_ring(sheet, mark, width, RADIUS + AWAY))
            return true;
        for (size_t ring = 0; ring < (near ? N_RINGS : N_CLEAR); ring++)
            if (try_ring(sheet, mark, width, rings[ring]) &&
                is_clear(sheet, mark))
                return true;
    }
    mark->text = (es_box){0, 0, 0, 0};
    return false;
}

static void place_label(scatter_sheet *sheet, size_t i)
{
    point_mark *mark = &sheet->marks[i];
    char number[ES_LABEL_MAX];
    double width =
        es_title_width(sheet->figure->points[i].label, SIZE, ES_WEIGHT_NORMAL);
    bool is_long = width > fmin(MOST_LABEL, sheet->page.plots.width / 2);
    mark->numbered = is_long || !place_text(sheet, mark, width);
    mark->placed = true;
    if (!mark->numbered)
        return;
    snprintf(number, sizeof number, "%d", sheet->n_numbers + 1);
    width = es_text_width(number, SIZE, ES_WEIGHT_NORMAL);
    mark->number = place_text(sheet, mark, width) ? ++sheet->n_numbers : 0;
}

/* Places the labels of all points within the plot. Labels of points on the
 * front are placed first, because the best positions are still free then. */
static void place_labels(scatter_sheet *sheet)
{
    sheet->n_numbers = 0;
    for (size_t i = 0; i < sheet->figure->n; i++) {
        sheet->marks[i].placed = sheet->marks[i].numbered = false;
        sheet->marks[i].text = (es_box){0, 0, 0, 0};
    }
    for (int front = 1; front >= 0; front--)
        for (size_t i = 0; i < sheet->figure->n; i++)
            if (sheet->marks[i].shown && sheet->marks[i].on_front == front &&
                sheet->figure->points[i].label)
                place_label(sheet, i);
}

/* Lays out the list of numbered labels below the plot, followed by the labels
 * of points on which not even a number fits. Draws the list unless the page has
 * no picture, because it is only being measured. Returns its height. */
static double lay_numbers(const es_page *page)
{
    const scatter_sheet *sheet = page->chart;
    const es_canvas *canvas = &page->canvas;
    const es_box *plots = &page->plots;
    double x = 0, down = 0;
    size_t n = 0;
    for (int last = sheet->n_numbers, number = 1; number <= last + 1; number++)
        for (size_t i = 0; i < sheet->figure->n; i++) {
            const point_mark *mark = &sheet->marks[i];
            const char *label = sheet->figure->points[i].label;
            char text[ES_LABEL_MAX] = "-";
            if (!mark->numbered ||
                mark->number != (number <= last ? number : 0))
                continue;
            double width = fmin(
                NUMBER_WIDTH + es_title_width(label, SIZE, ES_WEIGHT_NORMAL),
                plots->width);
            if (x > 0 && x + width > plots->width) {
                x = 0;
                down += ENTRY_LINE;
            }
            double left = plots->x + x + NUMBER_WIDTH;
            double y = plots->y + plots->height + ES_AXIS_FOOT + 4 + down +
                       ENTRY_LINE - 2;
            if (mark->number)
                snprintf(text, sizeof text, "%d", mark->number);
            if (canvas->picture) {
                es_picture_text(canvas->picture, left - 5, y, SIZE,
                                ES_ALIGN_END, ES_WEIGHT_NORMAL, 0,
                                canvas->colors->muted, text);
                es_draw_fitted(canvas->picture, left, y, SIZE, ES_ALIGN_START,
                               ES_WEIGHT_NORMAL, canvas->colors->ink, label,
                               width - NUMBER_WIDTH + 0.5);
            }
            x += width + ENTRY_GAP;
            n++;
        }
    return n ? down + ENTRY_LINE + 4 : 0;
}

static void draw_numbers(const es_page *page)
{
    lay_numbers(page);
}

/* --- drawing --------------------------------------------------------------*/

/* Returns the next point on the front to the right of x, or NULL. */
static const point_mark *next_on_front(const scatter_sheet *sheet, double x)
{
    const point_mark *next = NULL;
    for (size_t i = 0; i < sheet->figure->n; i++) {
        const point_mark *mark = &sheet->marks[i];
        if (mark->on_front && mark->x > x && (!next || mark->x < next->x))
            next = mark;
    }
    return next;
}

/* Draws the Pareto front as steps: no point lies below the line. */
static void draw_front(const scatter_sheet *sheet, es_color color)
{
    es_picture *picture = sheet->page.canvas.picture;
    const es_box *plot = &sheet->page.plots;
    const point_mark *mark = next_on_front(sheet, -INFINITY), *next;
    if (mark)
        es_picture_dashed(picture, mark->x, plot->y, mark->x, mark->y, 0.8, 2.5,
                          color);
    for (; mark; mark = next) {
        next = next_on_front(sheet, mark->x);
        double x = next ? next->x : plot->x + plot->width;
        es_picture_dashed(picture, mark->x, mark->y, x, mark->y, 0.8, 2.5,
                          color);
        if (next)
            es_picture_dashed(picture, x, mark->y, x, next->y, 0.8, 2.5, color);
    }
}

static void draw_label(const es_canvas *canvas, const point_mark *mark,
                       const char *label)
{
    const es_colors *colors = canvas->colors;
    const es_box *text = &mark->text;
    char number[ES_LABEL_MAX];
    if (!has_text(mark))
        return;
    snprintf(number, sizeof number, "%d", mark->number);
    es_picture_rect(canvas->picture, text->x - 0.5, text->y - 0.5,
                    text->width + 1, text->height + 1, colors->paper);
    es_draw_fitted(canvas->picture, text->x, text->y + 0.73 * SIZE, SIZE,
                   ES_ALIGN_START, ES_WEIGHT_NORMAL,
                   mark->numbered ? colors->muted : colors->ink,
                   mark->numbered ? number : label, text->width + 0.5);
}

static void draw_interval(const es_canvas *canvas, const point_mark *mark)
{
    const double ends[] = {mark->low, mark->high};
    if (!has_interval(mark))
        return;
    es_picture_line(canvas->picture, mark->low, mark->y, mark->high, mark->y,
                    0.8, canvas->colors->muted);
    for (int i = 0; i < 2; i++)
        es_picture_line(canvas->picture, ends[i], mark->y - CAP, ends[i],
                        mark->y + CAP, 0.8, canvas->colors->muted);
}

static void draw_mark(const es_canvas *canvas, const point_mark *mark,
                      bool stands_out, es_color color)
{
    es_color paper = canvas->colors->paper;
    es_picture_dot(canvas->picture, mark->x, mark->y, RADIUS + 0.8, paper);
    es_picture_dot(canvas->picture, mark->x, mark->y, RADIUS,
                   stands_out ? color : canvas->colors->muted);
    if (!stands_out) /* draw a ring */
        es_picture_dot(canvas->picture, mark->x, mark->y, RADIUS - 1, paper);
}

static es_status draw_plot(const es_page *page, size_t i)
{
    const scatter_sheet *sheet = page->chart;
    const es_scatter *figure = sheet->figure;
    const es_canvas *canvas = &page->canvas;
    const es_box *plot = &page->panels[i].plot;
    es_color color = es_theme_category(figure->style.theme, 0);
    es_draw_upright(canvas, plot, &sheet->y_axis, true, figure->y_text);
    es_draw_across(canvas, plot, &sheet->x_axis, figure->x_text);
    if (sheet->n_shown == 0) {
        es_draw_name(canvas, plot->x + plot->width / 2,
                     plot->y + plot->height / 2, 0, canvas->colors->muted,
                     "no finite values");
        return ES_OK;
    }
    if (figure->front)
        draw_front(sheet, color);
    for (size_t k = 0; k < figure->n; k++)
        draw_interval(canvas, &sheet->marks[k]);
    for (size_t k = 0; k < figure->n; k++) {
        const point_mark *mark = &sheet->marks[k];
        const es_box *text = &mark->text;
        double x = fmin(fmax(mark->x, text->x - 1), text->x + text->width + 1);
        double y = fmin(fmax(mark->y, text->y - 1), text->y + text->height + 1);
        if (has_text(mark) && hypot(x - mark->x, y - mark->y) > RADIUS + 6)
            es_picture_line(canvas->picture, mark->x, mark->y, x, y, 0.5,
                            canvas->colors->muted);
    }
    for (size_t k = 0; k < figure->n; k++)
        draw_label(canvas, &sheet->marks[k], figure->points[k].label);
    for (int front = 0; front <= 1; front++)
        for (size_t k = 0; k < figure->n; k++)
            if (sheet->marks[k].shown && sheet->marks[k].on_front == front)
                draw_mark(canvas, &sheet->marks[k], front || !figure->front,
                          color);
    return ES_OK;
}

/* --- layout ---------------------------------------------------------------*/

/* Makes an axis that leaves a gap between its ends and the points. */
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

static void set_axes(scatter_sheet *sheet)
{
    const es_scatter *figure = sheet->figure;
    const es_box *plot = &sheet->page.panels[0].plot;
    es_range x = ES_RANGE_NONE, y = ES_RANGE_NONE;
    for (size_t i = 0; i < figure->n; i++)
        if (sheet->marks[i].shown) {
            es_range_add(&x, figure->points[i].x);
            if (figure->points[i].low < figure->points[i].high) {
                es_range_add(&x, figure->points[i].low);
                es_range_add(&x, figure->points[i].high);
            }
            es_range_add(&y, figure->points[i].y);
        }
    sheet->x_axis =
        axis_for(x.low, x.high, figure->x_log, plot->x, plot->x + plot->width,
                 (int)fmin(MOST_TICKS, plot->width / TICK_GAP_X));
    sheet->y_axis =
        axis_for(y.low, y.high, figure->y_log, plot->y + plot->height, plot->y,
                 (int)fmin(MOST_TICKS, plot->height / TICK_GAP_Y));
    if (figure->x_counts)
        sheet->x_axis.labels = ES_LABELS_COUNT;
    for (size_t i = 0; i < figure->n; i++) {
        point_mark *mark = &sheet->marks[i];
        if (!mark->shown)
            continue;
        mark->x = es_axis_place(&sheet->x_axis, figure->points[i].x);
        mark->y = es_axis_place(&sheet->y_axis, figure->points[i].y);
        mark->low = es_axis_place(&sheet->x_axis, figure->points[i].low);
        mark->high = es_axis_place(&sheet->x_axis, figure->points[i].high);
    }
}

/* If only the width of the page is requested, the height changes by a smaller
 * factor than the width. */
static double height_of(es_page *page, size_t i, double factor)
{
    (void)i;
    return page->style->height > 0 ? factor * HEIGHT
                                   : HEIGHT * fmin(fmax(sqrt(factor), 0.6), 2);
}

/* Lays out the page until it no longer changes. Labels that become numbers need
   height below the plot, so the plot becomes smaller and more labels may become
   numbers. The loop ends because this height never decreases. */
static es_status lay_out(scatter_sheet *sheet)
{
    const es_scatter *figure = sheet->figure;
    es_page *page = &sheet->page;
    double numbers;
    es_status status;
    if ((status = es_page_begin(page, 1)) < 0 ||
        (status = es_alloc(&sheet->marks, figure->n, sizeof *sheet->marks,
                           "the points")) < 0 ||
        (status = es_alloc(&sheet->on_front, figure->n, sizeof(bool),
                           "the points")) < 0)
        return status;
    es_scatter_front(sheet->on_front, figure);
    for (size_t i = 0; i < figure->n; i++) {
        sheet->marks[i].shown = is_shown(figure, &figure->points[i]);
        sheet->marks[i].on_front = sheet->on_front[i];
        sheet->n_shown += sheet->marks[i].shown;
    }
    page->panels[0].subtitle = figure->subtitle;
    page->panels[0].plot = (es_box){0, 0, WIDTH, HEIGHT};
    set_axes(sheet); /* labels are widest if the number of ticks is largest */
    page->left = ceil(2 * es_upright_width(&sheet->y_axis, figure->y_text)) / 2;
    do {
        if ((status = es_page_lay_out(page)) < 0)
            return status;
        set_axes(sheet);
        place_labels(sheet);
        numbers = lay_numbers(page);
    } while (numbers > page->below && (page->below = numbers, true));
    return ES_OK;
}

es_status es_scatter_draw(es_picture **out, const es_scatter *figure)
{
    scatter_sheet sheet = {
        .figure = figure,
        .page = {.name = "a scatter plot",
                 .style = &figure->style,
                 .chart = &sheet,
                 .plot_width = WIDTH,
                 .height = height_of,
                 .draw = draw_plot,
                 .draw_legend = draw_numbers,
                 .least_factor = LEAST_FACTOR,
                 .right = 10, /* space for half of the last tick's label */
                 .foot = ES_AXIS_FOOT,
                 .title_gap = 6,
                 .note = figure->note,
                 .long_note = true}};
    es_status status = lay_out(&sheet);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_page_clear(&sheet.page);
    free(sheet.marks);
    free(sheet.on_front);
    return status;
}
