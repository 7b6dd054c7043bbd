/* Where the labels of points stand, and the list of those that are numbers. */
#include "render/figures/scatter_internal.h"

#include <math.h>

#define AWAY 3.0 /* from the edge of a point to its label */
#define TEXT_HEIGHT (0.73 * ES_SCATTER_SIZE)
#define INDEX_DEPTH (0.3 * ES_SCATTER_SIZE) /* below the baseline */
#define APART 1.5                           /* between labels */
#define MOST_LABEL 150.0                    /* width */

#define ENTRY_LINE 10.0
#define ENTRY_GAP 12.0
#define NUMBER_ROOM 15.0

/* Where a label may stand. The front has points and its line above and to the
   right of it, and nothing on the other side. */
typedef struct side {
    int x, y;
} side;
enum { N_SIDES = 8 };
static const side of_others[N_SIDES] = {{1, 0},  {-1, 0}, {0, -1},  {0, 1},
                                        {1, -1}, {1, 1},  {-1, -1}, {-1, 1}};
static const side of_front[N_SIDES] = {{-1, 0},  {-1, 1}, {0, 1},  {1, 1},
                                       {-1, -1}, {1, -1}, {0, -1}, {1, 0}};

/* Distances of a label with a line to its point. */
static const double rings[] = {12, 20, 30, 42, 58, 76};
#define N_RINGS (sizeof rings / sizeof *rings)

static bool touch(const es_box *a, const es_box *b, double apart)
{
    return a->x < b->x + b->width + apart && b->x < a->x + a->width + apart &&
           a->y < b->y + b->height + apart && b->y < a->y + a->height + apart;
}

static bool is_within(const es_box *box, const es_box *plot)
{
    return box->x >= plot->x + 1 && box->y >= plot->y + 1 &&
           box->x + box->width <= plot->x + plot->width - 1 &&
           box->y + box->height <= plot->y + plot->height - 1;
}

static es_box dot_of(const es_scatter_mark *mark)
{
    return (es_box){mark->x - ES_POINT_RADIUS, mark->y - ES_POINT_RADIUS,
                    2 * ES_POINT_RADIUS, 2 * ES_POINT_RADIUS};
}

static bool is_free(const es_scatter_sheet *sheet, const es_box *box)
{
    if (!is_within(box, &sheet->page.plots))
        return false;
    for (size_t i = 0; i < sheet->figure->n; i++) {
        const es_scatter_mark *mark = &sheet->marks[i];
        const es_box dot = dot_of(mark);
        if (!mark->shown)
            continue;
        if (touch(box, &dot, 0.5))
            return false;
        if (mark->kind != ES_SCATTER_NONE && mark->text.width > 0 &&
            touch(box, &mark->text, APART))
            return false;
    }
    return true;
}

/* A box of a label `distance` from its point's middle. */
static es_box beside(const es_scatter_mark *mark, side corner, double width,
                     double distance)
{
    double x = mark->x + corner.x * distance;
    double y = mark->y + corner.y * distance;
    double height = TEXT_HEIGHT + INDEX_DEPTH;
    x -= corner.x > 0 ? 0 : corner.x < 0 ? width : width / 2;
    y -= corner.y > 0 ? 0 : corner.y < 0 ? height : height / 2;
    return (es_box){x, y, width, height};
}

static bool try_ring(es_scatter_sheet *sheet, es_scatter_mark *mark,
                     double width, double distance)
{
    bool front = sheet->figure->front && mark->on_front;
    for (size_t i = 0; i < N_SIDES; i++) {
        side to = front ? of_front[i] : of_others[i];
        /* A corner is farther away than a side. */
        double diagonal = to.x && to.y ? 0.75 : 1;
        es_box box = beside(mark, to, width, diagonal * distance);
        if (is_free(sheet, &box)) {
            mark->text = box;
            return true;
        }
    }
    return false;
}

/* Would the line from the point to its label cross another label or point? */
static bool is_clear(const es_scatter_sheet *sheet, const es_scatter_mark *mark)
{
    const es_box *text = &mark->text;
    double to_x = fmin(fmax(mark->x, text->x), text->x + text->width);
    double to_y = fmin(fmax(mark->y, text->y), text->y + text->height);
    for (size_t i = 0; i < sheet->figure->n; i++) {
        const es_scatter_mark *other = &sheet->marks[i];
        const es_box dot = dot_of(other);
        if (!other->shown || other == mark)
            continue;
        for (int step = 0; step <= 16; step++) {
            double t = step / 16.0;
            const es_box here = {mark->x + t * (to_x - mark->x),
                                 mark->y + t * (to_y - mark->y), 0, 0};
            bool labelled =
                other->kind != ES_SCATTER_NONE && other->text.width > 0;
            if (touch(&here, &dot, 0) ||
                (labelled && touch(&here, &other->text, 0)))
                return false;
        }
    }
    return true;
}

static bool place_away(es_scatter_sheet *sheet, es_scatter_mark *mark,
                       double width)
{
    for (size_t ring = 0; ring < N_RINGS; ring++)
        if (try_ring(sheet, mark, width, rings[ring]) && is_clear(sheet, mark))
            return true;
    mark->text = (es_box){0, 0, 0, 0};
    return false;
}

static void place_number(es_scatter_sheet *sheet, es_scatter_mark *mark,
                         int *n_numbers)
{
    char number[ES_LABEL_MAX];
    snprintf(number, sizeof number, "%d", *n_numbers + 1);
    double width = es_text_width(number, ES_SCATTER_SIZE, ES_WEIGHT_NORMAL);
    mark->kind = ES_SCATTER_NUMBERED;
    mark->number = 0;
    if (try_ring(sheet, mark, width, ES_POINT_RADIUS + AWAY) ||
        place_away(sheet, mark, width))
        mark->number = ++*n_numbers;
}

static void place_label(es_scatter_sheet *sheet, size_t i, int *n_numbers)
{
    es_scatter_mark *mark = &sheet->marks[i];
    double width = es_title_width(sheet->figure->points[i].label,
                                  ES_SCATTER_SIZE, ES_WEIGHT_NORMAL);
    bool long_one = width > fmin(MOST_LABEL, sheet->page.plots.width / 2);
    if (!long_one && try_ring(sheet, mark, width, ES_POINT_RADIUS + AWAY))
        mark->kind = ES_SCATTER_BESIDE;
    else if (!long_one && place_away(sheet, mark, width))
        mark->kind = ES_SCATTER_AWAY;
    else
        place_number(sheet, mark, n_numbers);
}

/* Those on the front come first: they have the best places. */
void es_scatter_place_labels(es_scatter_sheet *sheet)
{
    int n_numbers = 0;
    for (size_t i = 0; i < sheet->figure->n; i++) {
        sheet->marks[i].kind = ES_SCATTER_NONE;
        sheet->marks[i].text = (es_box){0, 0, 0, 0};
    }
    for (int front = 1; front >= 0; front--)
        for (size_t i = 0; i < sheet->figure->n; i++)
            if (sheet->marks[i].shown && sheet->marks[i].on_front == front &&
                sheet->figure->points[i].label)
                place_label(sheet, i, &n_numbers);
}

/* --- the list of numbers --------------------------------------------------*/

static void draw_entry(es_picture *picture, const es_scatter_sheet *sheet,
                       size_t i, double x, double y, double width)
{
    char number[ES_LABEL_MAX] = "-";
    if (sheet->marks[i].number)
        snprintf(number, sizeof number, "%d", sheet->marks[i].number);
    es_picture_text(picture, x + NUMBER_ROOM - 5, y, ES_SCATTER_SIZE,
                    ES_ALIGN_END, ES_WEIGHT_NORMAL, 0,
                    sheet->page.colors->muted, number);
    es_draw_fitted(picture, x + NUMBER_ROOM, y, ES_SCATTER_SIZE, ES_ALIGN_START,
                   ES_WEIGHT_NORMAL, sheet->page.colors->ink,
                   sheet->figure->points[i].label, width - NUMBER_ROOM + 0.5);
}

/* The mark with a number; those without one (0) are found by their place among
   all. The number of marks if there is none. */
static size_t find_number(const es_scatter_sheet *sheet, int number)
{
    size_t i = 0;
    while (i < sheet->figure->n &&
           !(sheet->marks[i].kind == ES_SCATTER_NUMBERED &&
             sheet->marks[i].number == number))
        i++;
    return i;
}

typedef struct flow {
    double x0, x, y, width;
    size_t n;
} flow;

static void add_entry(es_picture *picture, const es_scatter_sheet *sheet,
                      size_t i, flow *list)
{
    double width = es_title_width(sheet->figure->points[i].label,
                                  ES_SCATTER_SIZE, ES_WEIGHT_NORMAL);
    width = fmin(NUMBER_ROOM + width, list->width);
    if (list->x > list->x0 && list->x + width > list->x0 + list->width) {
        list->x = list->x0;
        list->y += ENTRY_LINE;
    }
    if (picture)
        draw_entry(picture, sheet, i, list->x, list->y + ENTRY_LINE - 2, width);
    list->x += width + ENTRY_GAP;
    list->n++;
}

double es_scatter_numbers(es_picture *picture, const es_scatter_sheet *sheet,
                          double x, double y, double width)
{
    flow list = {.x0 = x, .x = x, .y = y, .width = width};
    size_t n = sheet->figure->n, i;
    for (int number = 1; (i = find_number(sheet, number)) < n; number++)
        add_entry(picture, sheet, i, &list);
    for (i = 0; i < n; i++)
        if (sheet->marks[i].kind == ES_SCATTER_NUMBERED &&
            sheet->marks[i].number == 0)
            add_entry(picture, sheet, i, &list);
    return list.n ? list.y - y + ENTRY_LINE + 4 : 0;
}
