/*
 * Lines of any length. A long one becomes, per half point of width, the span
 * from its lowest to its highest value: stroking a path of its samples costs
 * a hundred times as much and shows no more.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

#define COLUMN 0.5
#define PATH_MOST 2 /* samples a column that may be a path */
#define DOT_RADIUS 1.5
#define SPARSE 14.0    /* points between samples that are distinct as dots */
#define DOTTED_MOST 16 /* lines of a panel that are */
#define MARKED_EVERY 5 /* this share of the width, else */
#define TINT 70        /* of the one area, of 255 */
#define EDGE_HEIGHT 3.0
#define EDGE_WIDTH 1.5

/* One panel being drawn. */
typedef struct canvas {
    es_picture *picture;
    const es_curves_sheet *sheet;
    const es_curves_block *block;
    size_t n_columns;
    double *pairs; /* (PATH_MOST * n_columns,2) of the line being drawn */
    double *wide;  /* (n_columns,2) its spans with the pen's width */
    bool *marked;  /* (n_columns) something here is to be said of */
} canvas;

/* The line being drawn. */
typedef struct pen {
    const es_curve *curve;
    es_color color;
    double line_width;
    bool sparse; /* every sample is to be seen */
} pen;

static double sample_x(const canvas *p, const es_curve *curve, size_t i)
{
    return es_curves_x(p->block, (double)curve->x[i]);
}

static double sample_y(const canvas *p, const es_curve *curve, size_t i)
{
    return es_curves_y(p->block, (double)curve->values[i]);
}

/* The last sample lies on an edge: it belongs to the column before. */
static size_t column_of(const canvas *p, double x)
{
    double column = (x - p->block->plot.x) / COLUMN - 1e-6;
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

/* At most one dot a column: more could not be distinguished. */
static void draw_dots(const canvas *p, const pen *line)
{
    size_t last = SIZE_MAX;
    bool all = line->sparse && p->block->panel->n_curves <= DOTTED_MOST;
    for (size_t i = 0; i < line->curve->n; i++) {
        if (!(all ? is_there(line->curve, i) : is_alone(line->curve, i)))
            continue;
        double x = sample_x(p, line->curve, i);
        if (column_of(p, x) == last)
            continue;
        last = column_of(p, x);
        es_picture_dot(p->picture, x, sample_y(p, line->curve, i), DOT_RADIUS,
                       line->color);
    }
}

static void draw_mark(const canvas *p, const pen *line, size_t i)
{
    es_draw_mark(p->picture, p->sheet->page.colors, sample_x(p, line->curve, i),
                 sample_y(p, line->curve, i), line->curve->color, line->color);
}

/* At every sample, or now and then along the line, the lines taking turns;
 * at least once. */
static void draw_category(const canvas *p, const pen *line)
{
    const es_curve *curve = line->curve;
    double every = p->block->plot.width / MARKED_EVERY;
    double turn = (double)(curve->color % MARKED_EVERY) + 0.5;
    double next = p->block->plot.x + every * turn / MARKED_EVERY;
    size_t last = SIZE_MAX, n = 0;
    for (size_t i = 0; i < curve->n; i++) {
        double x = sample_x(p, curve, i);
        if (!is_there(curve, i))
            continue;
        last = i;
        if (!line->sparse && x < next)
            continue;
        while (next <= x)
            next += every;
        draw_mark(p, line, i);
        n++;
    }
    if (n == 0 && last != SIZE_MAX)
        draw_mark(p, line, last);
}

/* Is a path of this line cheap to stroke? It costs by the samples and by the
 * way up and down, and looks smoother than spans where it is steep. */
static bool is_smooth(const canvas *p, const es_curve *curve)
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
    return travel < 3 * p->block->plot.height;
}

static void draw_path(const canvas *p, const pen *line)
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
static void include(const canvas *p, size_t column, double y)
{
    double *span = p->pairs + 2 * column;
    if (!(span[0] <= y)) /* NaN: the span is empty */
        span[0] = y;
    if (!(span[1] >= y))
        span[1] = y;
}

/* Where the straight line between two samples crosses from one column into
 * the next, both get the crossing, so that their spans touch. */
static void include_crossings(const canvas *p, double x0, double y0, double x1,
                              double y1)
{
    size_t from = column_of(p, x0), to = column_of(p, x1);
    for (size_t column = from; column < to; column++) {
        double edge = p->block->plot.x + (double)(column + 1) * COLUMN;
        double y = y0 + (y1 - y0) * es_fraction(edge, x0, x1);
        include(p, column, y);
        include(p, column + 1, y);
    }
}

/* A round pen: what it leaves in a column when it passes over this one and
 * its neighbours. */
static void widen(const canvas *p, size_t column, double radius)
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

static void clear_spans(const canvas *p)
{
    for (size_t i = 0; i < 2 * p->n_columns; i++)
        p->pairs[i] = NAN;
}

/* Widens the spans to hold a line; `beside` is another one that must be there
 * too. */
static void include_line(const canvas *p, const es_curve *curve,
                         const float *values, const float *beside)
{
    double last_x = 0, last_y = 0;
    size_t last = 0;
    bool down = false;
    for (size_t i = 0; i < curve->n; i++) {
        bool there = isfinite(values[i]) && (!beside || isfinite(beside[i]));
        double x = sample_x(p, curve, i);
        double y = there ? es_curves_y(p->block, (double)values[i]) : 0;
        size_t column = column_of(p, x);
        if (there)
            include(p, column, y);
        if (there && down && column != last)
            include_crossings(p, last_x, last_y, x, y);
        down = there;
        last = column;
        last_x = x;
        last_y = y;
    }
}

static void draw_spans(const canvas *p, const pen *line)
{
    clear_spans(p);
    include_line(p, line->curve, line->curve->values, NULL);
    for (size_t column = 0; column < p->n_columns; column++)
        widen(p, column, line->line_width / 2);
    es_picture_spans(p->picture, p->block->plot.x, COLUMN, p->wide,
                     p->n_columns, line->color);
}

static void draw_area(const canvas *p, const es_curve *curve, es_color color)
{
    if (!curve->low || !curve->high)
        return;
    clear_spans(p);
    include_line(p, curve, curve->low, curve->high);
    include_line(p, curve, curve->high, curve->low);
    color.a = (uint8_t)(TINT / sqrt((double)p->block->panel->n_curves));
    es_picture_spans(p->picture, p->block->plot.x, COLUMN, p->pairs,
                     p->n_columns, color);
}

static bool is_broken(const canvas *p, const es_curve *curve, size_t i)
{
    (void)p;
    return !isfinite(curve->values[i]) && !es_is_missing(curve->values[i]);
}

static bool is_beyond(const canvas *p, const es_curve *curve, size_t i)
{
    return isfinite(curve->values[i]) &&
           (double)curve->values[i] > p->sheet->figure->limit;
}

/* From one such sample to the next it is so all the way. */
static void note_edge(const canvas *p, const es_curve *curve,
                      bool (*is_such)(const canvas *, const es_curve *, size_t))
{
    size_t last = 0;
    for (size_t i = 0; i < curve->n; i++) {
        if (!is_such(p, curve, i))
            continue;
        size_t column = column_of(p, sample_x(p, curve, i));
        bool on = i > 0 && is_such(p, curve, i - 1) && last < column;
        for (size_t k = on ? last : column; k <= column; k++)
            p->marked[k] = true;
        last = column;
    }
}

/* Outside of the plot, where no line runs. Neighbouring marks become one;
 * forgets them. */
static void draw_edge(const canvas *p, double y, es_color color)
{
    const es_box *plot = &p->block->plot;
    for (size_t from = 0, to; from < p->n_columns; from = to + 1) {
        for (to = from; to < p->n_columns && p->marked[to];)
            p->marked[to++] = false;
        if (to == from)
            continue;
        double width = fmax(EDGE_WIDTH, (double)(to - from) * COLUMN);
        double middle = plot->x + (double)(from + to) / 2 * COLUMN;
        double x = fmin(fmax(middle - width / 2, plot->x),
                        plot->x + plot->width - width);
        es_picture_rect(p->picture, x, y, width, EDGE_HEIGHT, color);
    }
}

static void draw_curve(const canvas *p, size_t i)
{
    const es_curves_panel *panel = p->block->panel;
    const es_curve *curve = &panel->curves[i];
    pen line = {.curve = curve,
                .color = es_curve_color(p->sheet, curve, i),
                .line_width = es_curve_width(curve, panel->n_curves),
                .sparse = curve->pen == ES_PEN_MARKS ||
                          (double)curve->n * SPARSE <= p->block->plot.width};
    if (curve->pen != ES_PEN_MARKS) {
        if (is_smooth(p, curve))
            draw_path(p, &line);
        else
            draw_spans(p, &line);
    }
    if (es_curve_is_marked(p->sheet, curve))
        draw_category(p, &line);
    else
        draw_dots(p, &line);
}

/* What leaves the scale is cut where the plot ends. */
static void draw_within(const canvas *p)
{
    const es_curves_panel *panel = p->block->panel;
    const es_box *plot = &p->block->plot;
    bool cut = !isnan(p->sheet->beyond);
    if (cut)
        es_picture_clip(p->picture, plot->x - 3, plot->y, plot->width + 6,
                        plot->height + 3);
    for (size_t i = 0; i < panel->n_curves; i++)
        draw_area(p, &panel->curves[i],
                  es_curve_color(p->sheet, &panel->curves[i], i));
    for (size_t i = 0; i < panel->n_curves; i++)
        draw_curve(p, i);
    if (cut)
        es_picture_unclip(p->picture);
}

/* The first sample of category `color` that is not finite, on the page; NaN if
 * there is none. */
static double end_of(const canvas *p, size_t color)
{
    const es_curves_panel *panel = p->block->panel;
    double first = NAN;
    for (size_t i = 0; i < panel->n_curves; i++) {
        const es_curve *curve = &panel->curves[i];
        size_t k = curve->color == color ? 0 : curve->n;
        while (k < curve->n && !is_broken(p, curve, k))
            k++;
        if (k < curve->n)
            first = fmin(first, sample_x(p, curve, k)); /* not NaN's */
    }
    return first;
}

/* Whose values end where: the category's mark, before the mark of the end. */
static void draw_ends(const canvas *p)
{
    double y = p->block->plot.y + p->block->plot.height + 1 + EDGE_HEIGHT / 2;
    size_t n = p->sheet->n_categories;
    for (size_t color = 0; n > 1 && color < n; color++) {
        double x = end_of(p, color) - ES_MARK_RADIUS - EDGE_WIDTH;
        if (!isnan(x))
            es_draw_mark(
                p->picture, p->sheet->page.colors, x, y, color,
                es_theme_category(p->sheet->figure->style.theme, color));
    }
}

static void draw_edges(const canvas *p)
{
    const es_curves_panel *panel = p->block->panel;
    const es_box *plot = &p->block->plot;
    for (size_t i = 0; i < panel->n_curves; i++)
        note_edge(p, &panel->curves[i], is_broken);
    draw_edge(p, plot->y + plot->height + 1, p->sheet->page.colors->alarm);
    if (p->sheet->figure->colors == ES_CURVES_BY_CATEGORY)
        draw_ends(p);
    if (isnan(p->sheet->beyond))
        return;
    for (size_t i = 0; i < panel->n_curves; i++)
        note_edge(p, &panel->curves[i], is_beyond);
    draw_edge(p, plot->y - EDGE_HEIGHT - 1, p->sheet->page.colors->muted);
}

es_status es_curves_draw_lines(es_picture *picture,
                               const es_curves_sheet *sheet,
                               const es_curves_block *block)
{
    canvas p = {.picture = picture, .sheet = sheet, .block = block};
    es_status status;
    p.n_columns = (size_t)ceil(block->plot.width / COLUMN);
    if ((status = es_alloc(&p.pairs, PATH_MOST * p.n_columns,
                           2 * sizeof *p.pairs, "curves")) < 0 ||
        (status = es_alloc(&p.wide, p.n_columns, 2 * sizeof *p.wide,
                           "curves")) < 0 ||
        (status =
             es_alloc(&p.marked, p.n_columns, sizeof *p.marked, "curves")) < 0)
        goto done;
    draw_within(&p);
    draw_edges(&p);
done:
    free(p.pairs);
    free(p.wide);
    free(p.marked);
    return status;
}
