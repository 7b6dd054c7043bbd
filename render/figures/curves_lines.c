/*
 * Draws the lines of a line chart. A long line is reduced, for every half point
 * of width, to the span from its lowest to its highest value: stroking a path
 * through all samples would take a hundred times as long and look the same.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

#define COLUMN 0.5
#define PATH_MOST 2 /* maximum number of samples per column for a path */
#define DOT_RADIUS 1.5
#define SPARSE 14.0       /* minimum distance of samples drawn as dots */
#define DOTTED_MOST 16    /* maximum number of lines drawn with dots */
#define BESIDE_WIDTH 40.0 /* maximum width of dots side by side */
#define MARKED_EVERY 5    /* number of marks on a line with many samples */
#define STRIPE 6.0        /* dash length of coinciding lines, in points */
#define TINT 70           /* opacity of a single shaded area, from 0 to 255 */
#define MOVED_MOST 12     /* maximum number of places tried for a mark */
#define TREND_WIDTH 1.0
#define TREND_DASH 3.0
#define RING_RADIUS 2.6
#define RING_WIDTH 1.0
#define EDGE_HEIGHT 3.0
#define EDGE_WIDTH 1.5

/* The places of all marks in a panel. */
typedef struct marks {
    /* (n) positions (x, y); marks after the 1024th are not stored */
    double places[1024][2];
    size_t n;
} marks;

/* The state for drawing the lines of one panel. */
typedef struct plotter {
    es_picture *picture;
    const es_curves_sheet *sheet;
    const es_curves_block *block;
    size_t n_columns;
    double *pairs; /* (PATH_MOST * n_columns,2) points or spans of one line */
    double *wide;  /* (n_columns,2) spans, widened by the width of the pen */
    bool *marked;  /* (n_columns) true if the column gets a mark at the edge */
    marks *marks;  /* the marks that are already drawn */
} plotter;

/* The line that is being drawn. */
typedef struct pen {
    size_t index; /* index of the line in its panel */
    const es_curve *curve;
    es_color color;
    double line_width;
    bool sparse; /* true: every sample gets a dot or mark */
} pen;

static double sample_x(const plotter *p, const es_curve *curve, size_t i)
{
    return es_curves_x(p->block, (double)curve->x[i]);
}

static double sample_y(const plotter *p, const es_curve *curve, size_t i)
{
    return es_curves_y(p->block, (double)curve->values[i]);
}

/* Returns the column that contains x. If x is on the edge between two columns,
 * the left one is returned, so that the last sample is inside. */
static size_t column_of(const plotter *p, double x)
{
    double column = (x - p->block->plot.x) / COLUMN - 1e-6;
    if (!(column > 0))
        return 0;
    return column < (double)p->n_columns ? (size_t)column : p->n_columns - 1;
}

/* Returns true if sample i exists and is finite. Callers pass i - 1 even for
 * i = 0, which wraps around and is out of range. */
static bool is_there(const es_curve *curve, size_t i)
{
    return i < curve->n && isfinite(curve->values[i]);
}

/* Returns true if this line draws the mark at sample k. Lines that coincide
 * draw marks alternately. */
static bool has_turn(const plotter *p, const pen *line, size_t k)
{
    if (!p->sheet->equal || es_curve_is_lone(line->curve, k))
        return true;
    es_curves_equals equals =
        es_curves_equals_at(p->block->panel, line->index, k, false);
    return k % equals.n == equals.rank;
}

/* Returns the x at which the mark of sample k is drawn; x is its true position.
 * Coinciding isolated samples are drawn side by side within the plot. */
static double beside(const plotter *p, const pen *line, size_t k, double x,
                     double radius)
{
    const es_box *plot = &p->block->plot;
    es_curves_equals equals =
        es_curves_lone_equals_at(p->block->panel, line->index, k);
    if (!p->sheet->beside || equals.n < 2)
        return x;
    double most = fmin(BESIDE_WIDTH, plot->width - 2 * radius);
    double width = fmin((double)(equals.n - 1) * (2 * radius + 0.5), most);
    double first = fmin(fmax(x - width / 2, plot->x + radius),
                        plot->x + plot->width - radius - width);
    return first + width * (double)equals.rank / (double)(equals.n - 1);
}

/* Draws a dot at every sample of a sparse line, otherwise only at isolated
 * samples. Each column gets at most one dot, because more would overlap. */
static void draw_dots(const plotter *p, const pen *line)
{
    const es_curve *curve = line->curve;
    size_t last = SIZE_MAX;
    bool all = line->sparse && p->block->panel->n_curves <= DOTTED_MOST;
    for (size_t i = 0; i < curve->n; i++) {
        double x = sample_x(p, curve, i);
        if (!is_there(curve, i) || column_of(p, x) == last ||
            (!all && !es_curve_is_lone(curve, i)) || !has_turn(p, line, i))
            continue;
        last = column_of(p, x);
        es_picture_dot(p->picture, beside(p, line, i, x, DOT_RADIUS),
                       sample_y(p, curve, i), DOT_RADIUS, line->color);
    }
}

static bool is_covered(const marks *m, double x, double y)
{
    for (size_t i = 0; i < m->n; i++)
        if (hypot(m->places[i][0] - x, m->places[i][1] - y) <
            1.5 * ES_MARK_RADIUS)
            return true;
    return false;
}

/* Returns the y of a line at x, interpolated between samples; NaN inside
 * gaps. */
static double height_at(const plotter *p, const es_curve *curve, double x)
{
    for (size_t i = 0; i + 1 < curve->n; i++) {
        const double from = sample_x(p, curve, i);
        const double to = sample_x(p, curve, i + 1);
        if (!(from <= x && x <= to) || !is_there(curve, i) ||
            !is_there(curve, i + 1))
            continue;
        const double share = to > from ? (x - from) / (to - from) : 0;
        return sample_y(p, curve, i) +
               share * (sample_y(p, curve, i + 1) - sample_y(p, curve, i));
    }
    return NAN;
}

/* Draws the mark of a category. If it would cover another mark, it is moved
 * along its curve, or sideways if `curve` is NULL. */
static void put_mark(const plotter *p, const es_curve *curve, double x,
                     double y, size_t category, es_color color)
{
    const es_box *plot = &p->block->plot;
    marks *m = p->marks;
    double at = x, up = y;
    for (int i = 1; i < MOVED_MOST && is_covered(m, at, up); i++) {
        const double moved =
            x + (i % 2 ? -1 : 1) * ((i + 1) / 2) * (2 * ES_MARK_RADIUS + 0.5);
        const double height = curve ? height_at(p, curve, moved) : y;
        if (moved >= plot->x && moved <= plot->x + plot->width &&
            isfinite(height)) {
            at = moved;
            up = height;
        }
    }
    if (is_covered(m, at, up)) {
        at = x;
        up = y;
    }
    if (m->n < sizeof m->places / sizeof *m->places) {
        m->places[m->n][0] = at;
        m->places[m->n++][1] = up;
    }
    es_draw_mark(&p->sheet->page.canvas, at, up, category, color);
}

/* Returns true if another line coincides with this line along a whole segment
 * that begins or ends at sample k. */
static bool runs_along(const plotter *p, const pen *line, size_t k)
{
    const es_curves_panel *panel = p->block->panel;
    return es_curves_equals_at(panel, line->index, k, true).n > 1 ||
           (k > 0 &&
            es_curves_equals_at(panel, line->index, k - 1, true).n > 1);
}

/* Draws the marks of a line with a category: at every sample of a sparse line,
 * otherwise at a few staggered places, but at least at one. Lines that coincide
 * draw their marks alternately; lines that only cross draw all of their
 * marks. */
static void draw_category(const plotter *p, const pen *line)
{
    const es_curve *curve = line->curve;
    double every = p->block->plot.width / MARKED_EVERY;
    double turns = fmax((double)p->sheet->n_categories, MARKED_EVERY);
    double next =
        p->block->plot.x + every * ((double)curve->color + 0.5) / turns;
    size_t last = SIZE_MAX, n = 0;
    for (size_t i = 0; i < curve->n; i++) {
        double x = sample_x(p, curve, i);
        if (!is_there(curve, i))
            continue;
        last = i;
        if ((!line->sparse && x < next) ||
            (!has_turn(p, line, i) && runs_along(p, line, i)))
            continue;
        while (next <= x)
            next += every;
        put_mark(p, curve, beside(p, line, i, x, ES_MARK_RADIUS),
                 sample_y(p, curve, i), curve->color, line->color);
        n++;
    }
    if (n == 0 && last != SIZE_MAX && has_turn(p, line, last))
        put_mark(
            p, curve,
            beside(p, line, last, sample_x(p, curve, last), ES_MARK_RADIUS),
            sample_y(p, curve, last), curve->color, line->color);
}

/* Returns true if stroking the line as a path is cheap. The cost grows with the
 * number of samples and the vertical travel. A path looks smoother than spans
 * where the line is steep. */
static bool is_smooth(const plotter *p, const es_curve *curve)
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

/* Extends the span of a column to include y. */
static void include(const plotter *p, size_t column, double y)
{
    double *span = p->pairs + 2 * column;
    /* A NaN is an empty span; this condition is true for NaN too. */
    if (!(span[0] <= y))
        span[0] = y;
    if (!(span[1] >= y))
        span[1] = y;
}

/* Computes the span of a column that a round pen covers while it passes over
 * the column and its neighbours. */
static void widen(const plotter *p, size_t column, double radius)
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

/* Extends the spans of all columns to include a line, where `values` and, if
 * not NULL, `beside` are finite. If the line crosses from one column into the
 * next, both spans include the crossing, so that they touch. */
static void include_line(const plotter *p, const es_curve *curve,
                         const float *values, const float *beside)
{
    double last_x = 0, last_y = 0;
    size_t last = 0;
    bool down = false;
    for (size_t i = 0; i < curve->n; i++) {
        bool there = isfinite(values[i]) && (!beside || isfinite(beside[i]));
        double x = sample_x(p, curve, i);
        double y = there ? es_curves_y(p->block, (double)values[i]) : 0;
        size_t to = column_of(p, x);
        if (there)
            include(p, to, y);
        for (size_t column = last; there && down && column < to; column++) {
            double edge = p->block->plot.x + (double)(column + 1) * COLUMN;
            double crossing =
                last_y + (y - last_y) * es_fraction(edge, last_x, x);
            include(p, column, crossing);
            include(p, column + 1, crossing);
        }
        down = there;
        last = to;
        last_x = x;
        last_y = y;
    }
}

static void clear_spans(const plotter *p)
{
    for (size_t i = 0; i < 2 * p->n_columns; i++)
        p->pairs[i] = NAN;
}

static bool is_broken(const plotter *p, const es_curve *curve, size_t i)
{
    (void)p;
    return !isfinite(curve->values[i]) && !es_is_missing(curve->values[i]);
}

static bool is_beyond(const plotter *p, const es_curve *curve, size_t i)
{
    return isfinite(curve->values[i]) &&
           (double)curve->values[i] > p->sheet->figure->limit;
}

/* Marks the samples for which is_such returns true, along a horizontal edge at
 * y outside the plot. The interval between two consecutive marked samples is
 * marked too, and adjacent marks are merged. */
static void draw_edge(const plotter *p, double y, es_color color,
                      bool (*is_such)(const plotter *, const es_curve *,
                                      size_t))
{
    const es_curves_panel *panel = p->block->panel;
    const es_box *plot = &p->block->plot;
    memset(p->marked, 0, p->n_columns * sizeof *p->marked);
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        size_t last = 0;
        for (size_t i = 0; i < curve->n; i++) {
            if (!is_such(p, curve, i))
                continue;
            size_t column = column_of(p, sample_x(p, curve, i));
            bool on = i > 0 && is_such(p, curve, i - 1) && last < column;
            for (size_t at = on ? last : column; at <= column; at++)
                p->marked[at] = true;
            last = column;
        }
    }
    for (size_t from = 0, to; from < p->n_columns; from = to + 1) {
        for (to = from; to < p->n_columns && p->marked[to];)
            to++;
        if (to == from)
            continue;
        double width = fmax(EDGE_WIDTH, (double)(to - from) * COLUMN);
        double middle = plot->x + (double)(from + to) / 2 * COLUMN;
        double x = fmin(fmax(middle - width / 2, plot->x),
                        plot->x + plot->width - width);
        es_picture_rect(p->picture, x, y, width, EDGE_HEIGHT, color);
    }
}

static pen pen_of(const plotter *p, size_t i)
{
    const es_curves_panel *panel = p->block->panel;
    const es_curve *curve = &panel->curves[i];
    return (pen){.index = i,
                 .curve = curve,
                 .color = es_curve_color(p->sheet, curve, i),
                 .line_width = es_curve_width(curve, panel->n_curves),
                 .sparse = curve->pen == ES_PEN_MARKS ||
                           (double)curve->n * SPARSE <= p->block->plot.width};
}

/* Computes in p->wide the span that the pen covers in each column. */
static void span_line(const plotter *p, const pen *line)
{
    clear_spans(p);
    include_line(p, line->curve, line->curve->values, NULL);
    for (size_t column = 0; column < p->n_columns; column++)
        widen(p, column, line->line_width / 2);
}

static void draw_line(const plotter *p, const pen *line)
{
    const es_curve *curve = line->curve;
    if (is_smooth(p, curve)) {
        for (size_t k = 0; k < curve->n; k++) {
            bool there = is_there(curve, k);
            p->pairs[2 * k] = there ? sample_x(p, curve, k) : NAN;
            p->pairs[2 * k + 1] = there ? sample_y(p, curve, k) : NAN;
        }
        es_picture_polyline(p->picture, p->pairs, curve->n, line->line_width,
                            line->color);
        return;
    }
    span_line(p, line);
    es_picture_spans(p->picture, p->block->plot.x, COLUMN, p->wide,
                     p->n_columns, line->color);
}

/* Draws dashes where n lines coincide: each line draws every n-th dash. */
static void draw_stripes(const plotter *p, const pen *line)
{
    const es_curve *curve = line->curve;
    bool any = false;
    memset(p->marked, 0, p->n_columns * sizeof *p->marked);
    for (size_t k = 0; k + 1 < curve->n; k++) {
        es_curves_equals equals =
            es_curves_equals_at(p->block->panel, line->index, k, true);
        if (equals.n < 2)
            continue;
        size_t to = column_of(p, sample_x(p, curve, k + 1));
        for (size_t at = column_of(p, sample_x(p, curve, k)); at <= to; at++) {
            size_t stripe = (size_t)((double)at * COLUMN / STRIPE);
            p->marked[at] = stripe % equals.n == equals.rank;
            any = any || p->marked[at];
        }
    }
    if (!any)
        return;
    span_line(p, line);
    for (size_t column = 0; column < p->n_columns; column++)
        if (!p->marked[column])
            p->wide[2 * column] = p->wide[2 * column + 1] = NAN;
    es_picture_spans(p->picture, p->block->plot.x, COLUMN, p->wide,
                     p->n_columns, line->color);
}

/* Draws all lines, then the dashes where lines coincide, then the marks. */
static void draw_curves(const plotter *p)
{
    const size_t n = p->block->panel->n_curves;
    for (size_t i = 0; i < n; i++) {
        pen line = pen_of(p, i);
        if (line.curve->pen != ES_PEN_MARKS)
            draw_line(p, &line);
    }
    for (size_t i = 0; p->sheet->equal && i < n; i++) {
        pen line = pen_of(p, i);
        if (line.curve->pen != ES_PEN_MARKS)
            draw_stripes(p, &line);
    }
    for (size_t i = 0; i < n; i++) {
        pen line = pen_of(p, i);
        if (es_curve_is_marked(p->sheet, line.curve))
            draw_category(p, &line);
        else
            draw_dots(p, &line);
    }
}

static void draw_trend(const plotter *p, const es_curve *trend, es_color color)
{
    const size_t last = trend->n ? trend->n - 1 : 0;
    for (size_t i = 0, next; i < last; i = next) {
        /* On a linear scale, draw one straight dashed line; on a logarithmic
         * scale, draw every second segment of a curve. */
        next = p->block->logarithmic ? i + 1 : last;
        if (p->block->logarithmic && i % 2)
            continue;
        es_picture_dashed(p->picture, sample_x(p, trend, i),
                          sample_y(p, trend, i), sample_x(p, trend, next),
                          sample_y(p, trend, next), TREND_WIDTH,
                          p->block->logarithmic ? 1e6 : TREND_DASH, color);
    }
}

static void draw_rings(const plotter *p, const es_curve *curve, es_color color)
{
    for (size_t i = 0; i < curve->n; i++) {
        if (!isfinite(curve->spikes[i]))
            continue;
        double x = sample_x(p, curve, i);
        double y = es_curves_y(p->block, (double)curve->spikes[i]);
        es_picture_dot(p->picture, x, y, RING_RADIUS, color);
        es_picture_dot(p->picture, x, y, RING_RADIUS - RING_WIDTH,
                       p->sheet->page.canvas.colors->paper);
    }
}

/* Draws the trends and the rings, on top of all lines. */
static void draw_remarks(const plotter *p)
{
    const es_curves_panel *panel = p->block->panel;
    for (size_t i = 0; i < panel->n_curves; i++) {
        const es_curve *curve = &panel->curves[i];
        const es_color color = es_curve_color(p->sheet, curve, i);
        if (curve->trend)
            draw_trend(p, curve->trend, color);
        if (curve->spikes)
            draw_rings(p, curve, color);
    }
}

/* Shades the area between `low` and `high` of a line. */
static void draw_area(const plotter *p, const es_curve *curve, es_color color)
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

/* Draws areas and lines. They are clipped to the plot if values exceed the
 * limit of the y axis. */
static void draw_within(const plotter *p)
{
    const es_curves_panel *panel = p->block->panel;
    const es_box *plot = &p->block->plot;
    bool cut = !isnan(p->sheet->beyond);
    if (cut)
        es_picture_clip(p->picture, plot->x - 3, plot->y, plot->width + 6,
                        plot->height + 3);
    for (size_t i = 0; i < panel->n_curves; i++) {
        const es_curve *curve = &panel->curves[i];
        es_color color = es_curve_color(p->sheet, curve, i);
        draw_area(p, curve, color);
        if (curve->trend)
            draw_area(p, curve->trend, color);
    }
    draw_curves(p);
    draw_remarks(p);
    if (cut)
        es_picture_unclip(p->picture);
}

/* Draws the mark of each category at the lower edge, left of the first NaN or
 * infinite sample of its line, to show which line ends there. */
static void draw_ends(const plotter *p)
{
    const es_curves_panel *panel = p->block->panel;
    double y = p->block->plot.y + p->block->plot.height + 1 + EDGE_HEIGHT / 2;
    size_t n = p->sheet->n_categories;
    p->marks->n = 0;
    for (size_t color = 0; n > 1 && color < n; color++) {
        double first = NAN;
        for (size_t i = 0; i < panel->n_curves; i++) {
            const es_curve *curve = &panel->curves[i];
            size_t k = curve->color == color ? 0 : curve->n;
            while (k < curve->n && !is_broken(p, curve, k))
                k++;
            if (k < curve->n)
                first =
                    fmin(first, sample_x(p, curve, k)); /* fmin ignores NaN */
        }
        double x = first - ES_MARK_RADIUS - EDGE_WIDTH;
        if (!isnan(x))
            put_mark(p, NULL, x, y, color,
                     es_theme_category(p->sheet->figure->style.theme, color));
    }
}

es_status es_curves_draw_lines(const es_curves_sheet *sheet,
                               const es_curves_block *block)
{
    const es_box *plot = &block->plot;
    const es_colors *colors = sheet->page.canvas.colors;
    plotter p = {.picture = sheet->page.canvas.picture,
                 .sheet = sheet,
                 .block = block,
                 .n_columns = (size_t)ceil(plot->width / COLUMN)};
    es_status status;
    if ((status = es_alloc(&p.pairs, PATH_MOST * p.n_columns,
                           2 * sizeof *p.pairs, "curves")) < 0 ||
        (status = es_alloc(&p.wide, p.n_columns, 2 * sizeof *p.wide,
                           "curves")) < 0 ||
        (status = es_alloc(&p.marked, p.n_columns, sizeof *p.marked,
                           "curves")) < 0 ||
        (status = es_alloc(&p.marks, 1, sizeof *p.marks, "curves")) < 0)
        goto done;
    draw_within(&p);
    draw_edge(&p, plot->y + plot->height + 1, colors->alarm, is_broken);
    if (sheet->figure->colors == ES_CURVES_BY_CATEGORY)
        draw_ends(&p);
    if (!isnan(sheet->beyond))
        draw_edge(&p, plot->y - EDGE_HEIGHT - 1, colors->muted, is_beyond);
done:
    free(p.pairs);
    free(p.wide);
    free(p.marked);
    free(p.marks);
    return status;
}
