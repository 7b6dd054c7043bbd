/*
 * Lines of any length. A long one becomes, per half point of width, the span
 * from its lowest to its highest value: stroking a path of its samples costs
 * a hundred times as much and shows no more.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <math.h>

#define COLUMN 0.5
#define PATH_MOST 2 /* samples a column that may be a path */
#define DOT_RADIUS 1.5
#define MARK_HEIGHT 3.0
#define MARK_WIDTH 1.5

/* One panel being drawn. */
typedef struct plot {
    es_picture *picture;
    const es_curves_sheet *sheet;
    const es_curves_block *block;
    size_t n_columns;
    double *pairs; /* (PATH_MOST * n_columns,2) of the line being drawn */
    double *wide;  /* (n_columns,2) its spans with the pen's width */
    bool *marked;  /* (n_columns) something here is not finite */
} plot;

/* The line being drawn. */
typedef struct pen {
    const es_curve *curve;
    es_color color;
    double line_width;
} pen;

static double sample_x(const plot *p, const es_curve *curve, size_t i)
{
    return es_curves_x(p->block, (double)curve->steps[i]);
}

static double sample_y(const plot *p, const es_curve *curve, size_t i)
{
    return es_curves_y(p->sheet, p->block, (double)curve->values[i]);
}

/* The last sample lies on an edge: it belongs to the column before. */
static size_t column_of(const plot *p, double x)
{
    double column = (x - p->block->x) / COLUMN - 1e-6;
    if (!(column > 0))
        return 0;
    return column < (double)p->n_columns ? (size_t)column : p->n_columns - 1;
}

static bool is_there(const es_curve *curve, size_t i)
{
    return i < curve->n && isfinite(curve->values[i]);
}

/* i - 1 wraps around for the first, and is then not there. */
static bool is_alone(const es_curve *curve, size_t i)
{
    return is_there(curve, i) && !is_there(curve, i - 1) &&
           !is_there(curve, i + 1);
}

/* At most one dot a column: more could not be told apart. */
static void draw_dots(const plot *p, const pen *line)
{
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < line->curve->n; i++) {
        if (!is_alone(line->curve, i))
            continue;
        double x = sample_x(p, line->curve, i);
        if (column_of(p, x) == last)
            continue;
        last = column_of(p, x);
        es_picture_dot(p->picture, x, sample_y(p, line->curve, i), DOT_RADIUS,
                       line->color);
    }
}

/* Is a path of this line cheap to stroke? It costs by the samples and by the
 * way up and down, and looks smoother than spans where it is steep. */
static bool is_smooth(const plot *p, const es_curve *curve)
{
    double travel = 0, last = NAN;
    if (curve->n < p->n_columns / 4)
        return true;
    if (curve->n > PATH_MOST * p->n_columns)
        return false;
    for (size_t i = 0; i < curve->n; i++) {
        double y = is_there(curve, i) ? sample_y(p, curve, i) : NAN;
        if (!isnan(y - last))
            travel += fabs(y - last);
        last = y;
    }
    return travel < 3 * p->block->height;
}

static void draw_path(const plot *p, const pen *line)
{
    const es_curve *curve = line->curve;
    for (size_t i = 0; i < curve->n; i++) {
        bool there = is_there(curve, i);
        p->pairs[2 * i] = there ? sample_x(p, curve, i) : NAN;
        p->pairs[2 * i + 1] = there ? sample_y(p, curve, i) : NAN;
    }
    es_picture_polyline(p->picture, p->pairs, curve->n, line->line_width,
                        line->color);
}

/* Widens a column's span to hold y. */
static void include(const plot *p, size_t column, double y)
{
    double *span = p->pairs + 2 * column;
    if (!(span[0] <= y)) /* NaN: the span is empty */
        span[0] = y;
    if (!(span[1] >= y))
        span[1] = y;
}

/* Where the straight line between two samples crosses from one column into
 * the next, both get the crossing, so that their spans touch. */
static void include_crossings(const plot *p, double x0, double y0, double x1,
                              double y1)
{
    size_t from = column_of(p, x0), to = column_of(p, x1);
    for (size_t column = from; column < to; column++) {
        double edge = p->block->x + (double)(column + 1) * COLUMN;
        double y = y0 + (y1 - y0) * es_fraction(edge, x0, x1);
        include(p, column, y);
        include(p, column + 1, y);
    }
}

/* A round pen: what it leaves in a column when it passes over this one and
 * its neighbours. */
static void widen(const plot *p, size_t column, double radius)
{
    double reach =
        radius > COLUMN ? sqrt(radius * radius - COLUMN * COLUMN) : 0;
    double *wide = p->wide + 2 * column;
    wide[0] = p->pairs[2 * column] - radius;
    wide[1] = p->pairs[2 * column + 1] + radius;
    for (size_t near = column ? column - 1 : 0;
         reach > 0 && near <= column + 1 && near < p->n_columns; near++) {
        double top = p->pairs[2 * near] - reach;
        double bottom = p->pairs[2 * near + 1] + reach;
        if (!isnan(top) && !(wide[0] <= top))
            wide[0] = top;
        if (!isnan(bottom) && !(wide[1] >= bottom))
            wide[1] = bottom;
    }
}

static void draw_spans(const plot *p, const pen *line)
{
    const es_curve *curve = line->curve;
    double last_x = 0, last_y = 0;
    for (size_t i = 0; i < 2 * p->n_columns; i++)
        p->pairs[i] = NAN;
    for (size_t i = 0; i < curve->n; i++) {
        if (!is_there(curve, i))
            continue;
        double x = sample_x(p, curve, i), y = sample_y(p, curve, i);
        include(p, column_of(p, x), y);
        if (is_there(curve, i - 1))
            include_crossings(p, last_x, last_y, x, y);
        last_x = x;
        last_y = y;
    }
    for (size_t column = 0; column < p->n_columns; column++)
        widen(p, column, line->line_width / 2);
    es_picture_spans(p->picture, p->block->x, COLUMN, p->wide, p->n_columns,
                     line->color);
}

static bool is_marked(const es_curve *curve, size_t i)
{
    return i < curve->n && !isfinite(curve->values[i]) &&
           !es_is_missing(curve->values[i]);
}

/* From one bad sample to the next it is bad all the way. */
static void mark_nonfinite(const plot *p, const es_curve *curve)
{
    size_t last = 0;
    for (size_t i = 0; i < curve->n; i++) {
        if (!is_marked(curve, i))
            continue;
        size_t column = column_of(p, sample_x(p, curve, i));
        size_t from = is_marked(curve, i - 1) && last < column ? last : column;
        for (size_t k = from; k <= column; k++)
            p->marked[k] = true;
        last = column;
    }
}

/* Below the axis, where no line runs. Neighbouring marks become one. */
static void draw_marks(const plot *p)
{
    const es_curves_block *b = p->block;
    for (size_t from = 0, to; from < p->n_columns; from = to + 1) {
        for (to = from; to < p->n_columns && p->marked[to];)
            to++;
        if (to == from)
            continue;
        double width = fmax(MARK_WIDTH, (double)(to - from) * COLUMN);
        double middle = b->x + (double)(from + to) / 2 * COLUMN;
        double x =
            fmin(fmax(middle - width / 2, b->x), b->x + b->width - width);
        es_picture_rect(p->picture, x, b->y + b->height + 1, width, MARK_HEIGHT,
                        p->sheet->colors->alarm);
    }
}

static void draw_curve(const plot *p, size_t i)
{
    const es_curves_panel *panel = p->block->panel;
    pen line = {.curve = &panel->curves[i],
                .color = es_curve_color(p->sheet, i),
                .line_width = panel->n_curves > 16 ? 0.8 : 1.2};
    if (is_smooth(p, line.curve))
        draw_path(p, &line);
    else
        draw_spans(p, &line);
    draw_dots(p, &line);
    mark_nonfinite(p, line.curve);
}

es_status es_curves_draw_lines(es_picture *picture,
                               const es_curves_sheet *sheet,
                               const es_curves_block *block)
{
    plot p = {.picture = picture, .sheet = sheet, .block = block};
    es_status status = ES_OK;
    p.n_columns = (size_t)ceil(block->width / COLUMN);
    p.pairs = es_resize(NULL, PATH_MOST * p.n_columns, 2 * sizeof *p.pairs);
    p.wide = es_resize(NULL, p.n_columns, 2 * sizeof *p.wide);
    p.marked = calloc(p.n_columns, sizeof *p.marked);
    if (p.pairs && p.wide && p.marked) {
        for (size_t i = 0; i < block->panel->n_curves; i++)
            draw_curve(&p, i);
        draw_marks(&p);
    } else
        status = es_fail(ES_ENOMEM, "curves: out of memory");
    free(p.pairs);
    free(p.wide);
    free(p.marked);
    return status;
}
