/*
 * Draws line charts: measures the values, places panels and axes, and draws the
 * lines. A long line is reduced, for every half point of width, to the span
 * from its lowest to its highest value: stroking a path through all samples
 * would take a hundred times as long and look the same. Lines that coincide are
 * drawn with alternating dashes and marks. The colours, marks and legend are in
 * curves_legend.c.
 */
#include "render/figures/curves_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

/* Sizes of the chart before scaling, in points. */
#define ONE_WIDTH 340.0
#define ONE_HEIGHT 210.0
#define MANY_WIDTH 250.0
#define MANY_HEIGHT 165.0
/* With more panels than this, all panels are small, six per row. */
#define PANELS_MOST 12
#define SMALL_WIDTH 150.0
#define SMALL_HEIGHT 95.0
#define LEAST_FACTOR 0.3 /* minimum scale if a page size is requested */

#define AIR 0.07 /* space above the values, relative to their range */
#define MOST_TICKS 8
#define TICK_HEIGHT 15.0
#define INSET 4.0 /* gap between the plot's edges and the samples */

/* Sizes of lines, in points unless stated otherwise. */
#define COLUMN 0.5
/* A line with more samples per column than this is not drawn as a path. */
#define PATH_MOST 2
#define DOT_RADIUS 1.5
/* Minimum mean distance of samples that all get dots or marks. */
#define SPARSE 14.0
/* Maximum number of lines in a panel whose samples all get dots. */
#define DOTTED_MOST 16
#define BESIDE_WIDTH 40.0 /* maximum total width of dots drawn side by side */
/* Number of marks across the plot on a line with many samples. */
#define MARKED_EVERY 5
#define STRIPE 6.0 /* dash length of coinciding lines, in points */
#define TINT 70    /* opacity of a single shaded area, from 0 to 255 */
#define TREND_WIDTH 1.0
#define TREND_DASH 3.0
#define RING_RADIUS 2.6
#define RING_WIDTH 1.0
#define EDGE_HEIGHT 3.0
#define EDGE_WIDTH 1.5
#define ARROW_AIR 11.0 /* height of the arrows above a plot */
#define ARROW_WIDTH 4.0
#define ARROW_HEIGHT 7.0

/* --- values ---------------------------------------------------------------*/

static const es_range nothing = ES_RANGE_NONE;

/* Returns the upper limit of a panel's y axis; INFINITY if it has none. */
static double limit_of(const es_curves *figure, const es_curves_panel *panel)
{
    if (!figure->limits)
        return INFINITY;
    const double limit = figure->limits[panel - figure->panels];
    return isfinite(limit) ? limit : INFINITY;
}

static void measure_values(es_curves_sheet *sheet, es_curves_block *block,
                           const es_curve *curve, const float *values)
{
    const double limit = limit_of(sheet->figure, block->panel);
    for (size_t i = 0; values && i < curve->n; i++) {
        double value = (double)values[i];
        if (isfinite(value) && value <= limit) {
            es_range_add(&block->range, value);
        } else if (isfinite(value)) {
            sheet->beyond = true;
        } else if (values == curve->values && !es_is_missing(values[i])) {
            sheet->nonfinite = true;
        }
    }
}

/* Searches all steps, because the steps in a file may not be sorted. */
static void measure_steps(es_curves_block *block, const es_curve *curve)
{
    for (size_t i = 0; i < curve->n; i++) {
        block->first = fmin(block->first, (double)curve->x[i]);
        block->last = fmax(block->last, (double)curve->x[i]);
    }
}

static void measure_curve(es_curves_sheet *sheet, es_curves_block *block,
                          const es_curve *curve)
{
    measure_values(sheet, block, curve, curve->values);
    measure_values(sheet, block, curve, curve->low);
    measure_values(sheet, block, curve, curve->high);
    measure_values(sheet, block, curve, curve->spikes);
    measure_steps(block, curve);
}

static void measure_panel(es_curves_sheet *sheet, es_curves_block *block)
{
    const es_curves_panel *panel = block->panel;
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        if (curve->color >= sheet->n_categories)
            sheet->n_categories = curve->color + 1;
        measure_curve(sheet, block, curve);
        if (curve->trend)
            measure_curve(sheet, block, curve->trend);
    }
    if (panel->n_curves > sheet->n_named) {
        sheet->named = panel->curves;
        sheet->n_named = panel->n_curves;
    }
}

/* --- equal lines ----------------------------------------------------------*/

enum { COMPARED_MOST = 48 };

/* The lines of a panel that coincide with a given line at one sample or between
 * two samples. */
typedef struct equals {
    size_t n;    /* number of lines that coincide, including this line */
    size_t rank; /* index of the given line among the coinciding lines */
} equals;

static bool are_equal(const es_curve *a, const es_curve *b, size_t k)
{
    return k < a->n && k < b->n && a->x[k] == b->x[k] &&
           isfinite(a->values[k]) && a->values[k] == b->values[k];
}

/* Counts the lines that have the same pen and the same finite value as curve i
 * at sample k, and, if `onwards`, also at sample k + 1. In a panel with more
 * than 48 lines, every line counts as distinct. */
static equals count_equals(const es_curves_panel *panel, size_t i, size_t k,
                           bool onwards)
{
    const es_curve *curve = &panel->curves[i];
    equals found = {1, 0};
    if (panel->n_curves > COMPARED_MOST)
        return found;
    for (size_t j = 0; j < panel->n_curves; j++) {
        const es_curve *other = &panel->curves[j];
        if (j == i || other->pen != curve->pen || !are_equal(curve, other, k) ||
            (onwards && !are_equal(curve, other, k + 1)))
            continue;
        found.n++;
        found.rank += j < i;
    }
    return found;
}

/* Returns true if the samples before and after sample k are missing or not
 * finite. */
static bool is_lone(const es_curve *curve, size_t k)
{
    return (k == 0 || !isfinite(curve->values[k - 1])) &&
           (k + 1 >= curve->n || !isfinite(curve->values[k + 1]));
}

/* Counts the curves that have the same isolated sample as curve i at sample k.
 * In panels with many lines every line counts as distinct, as in
 * count_equals. */
static equals count_lone_equals(const es_curves_panel *panel, size_t i,
                                size_t k)
{
    const es_curve *curve = &panel->curves[i];
    equals found = {1, 0};
    if (panel->n_curves > COMPARED_MOST || !is_lone(curve, k))
        return found;
    for (size_t j = 0; j < panel->n_curves; j++) {
        const es_curve *other = &panel->curves[j];
        if (j == i || !are_equal(curve, other, k) || !is_lone(other, k))
            continue;
        found.n++;
        found.rank += j < i;
    }
    return found;
}

/* Sets sheet->equal if two lines of the panel coincide somewhere, and
 * sheet->beside if two isolated samples do. */
static void find_equals(es_curves_sheet *sheet, const es_curves_panel *panel)
{
    for (size_t i = 0; i < panel->n_curves; i++)
        for (size_t k = 0; k < panel->curves[i].n; k++) {
            if (!sheet->equal)
                sheet->equal = count_equals(panel, i, k, true).n > 1;
            if (!sheet->beside)
                sheet->beside = count_lone_equals(panel, i, k).n > 1;
        }
}

/* --- ranges ---------------------------------------------------------------*/

static void share_range(es_curves_sheet *sheet)
{
    es_range all = nothing;
    size_t n = sheet->figure->n_panels;
    for (size_t i = 0; i < n; i++) {
        const es_range *range = &sheet->blocks[i].range;
        all.low = fmin(all.low, range->low);
        all.high = fmax(all.high, range->high);
        all.least_positive = fmin(all.least_positive, range->least_positive);
        all.zero = all.zero || range->zero;
    }
    for (size_t i = 0; i < n; i++)
        sheet->blocks[i].range = all;
}

/* Extends the range of the values to the range of the y axis. The axis is never
 * empty. It includes zero unless zero is far from the values or the axis has a
 * limit. */
static void choose_range(es_curves_block *block, const es_curves *figure)
{
    es_range *range = &block->range;
    double reference = figure->reference;
    bool referred = isfinite(reference);
    bool counted = figure->y_labels == ES_LABELS_COUNT;
    double low = range->low, high = range->high;
    if (referred) {
        low = fmin(low, reference);
        high = fmax(high, reference);
    }
    if (!(low <= high))
        low = high = 0; /* the panel has no finite value */
    if (low >= 0 &&
        (referred || counted || low == high ||
         (low <= high / 2 && isinf(limit_of(figure, block->panel)))))
        low = 0;
    if (high <= 0 && low == high)
        high = 0;
    if (low == high)
        high = 1;
    range->low = low;
    range->high = high;
}

/* Gives all panels the same x axis, unless a panel would then be unreadable. */
static void share_x(es_curves_sheet *sheet)
{
    double first = INFINITY, last = -INFINITY, shortest = INFINITY;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        const es_curves_block *b = &sheet->blocks[i];
        if (b->first > b->last)
            continue;
        first = fmin(first, b->first);
        last = fmax(last, b->last);
        shortest = fmin(shortest, b->last - b->first);
    }
    if (shortest < (last - first) / 4)
        return;
    for (size_t i = 0; i < sheet->figure->n_panels; i++) {
        if (sheet->blocks[i].first > sheet->blocks[i].last)
            continue;
        sheet->blocks[i].first = first;
        sheet->blocks[i].last = last;
    }
}

/* Finds the ranges of x and of the values in all panels. */
static es_status measure_panels(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    double least = INFINITY;
    for (size_t i = 0; i < figure->n_panels; i++) {
        sheet->blocks[i] = (es_curves_block){.panel = &figure->panels[i],
                                             .first = INFINITY,
                                             .last = -INFINITY,
                                             .range = nothing};
        measure_panel(sheet, &sheet->blocks[i]);
        least = fmin(least, sheet->blocks[i].range.low);
        find_equals(sheet, &figure->panels[i]);
    }
    char number[ES_FLOAT_TEXT_MAX];
    if (figure->logarithmic && least < 0)
        return es_fail(ES_EUSAGE,
                       "a logarithmic scale cannot show %s: omit --log",
                       es_number_print(number, least, 4));
    if (!figure->own_scales)
        share_range(sheet);
    for (size_t i = 0; i < figure->n_panels; i++)
        choose_range(&sheet->blocks[i], figure);
    share_x(sheet);
    return ES_OK;
}

/* --- y --------------------------------------------------------------------*/

/* Sets a linear y scale with some space above and below the range. The space
 * does not extend across zero. */
static void set_linear(es_curves_block *b, const es_curves *figure, int most)
{
    double low = b->range.low, high = b->range.high;
    double height = b->plot.height, bottom = b->plot.y + height, share = AIR;
    if (figure->reference_text && height > 2 * ES_REFERENCE_HEIGHT)
        share =
            fmax(share, ES_REFERENCE_HEIGHT / (height - ES_REFERENCE_HEIGHT));
    double air = (high - low) * share;
    if (isfinite(high + air) && isfinite(low - air)) {
        high += high > 0 ? air : 0;
        low = low > 0 ? fmax(0, low - air) : low < 0 ? low - air : 0;
    }
    /* The scale is infinite if the range is denormal. The scale 0 is used
     * instead, which puts all values on the lower edge. */
    double scale = height / (high - low);
    if (figure->y_labels == ES_LABELS_COUNT)
        most = (int)fmin(most, floor(high) - ceil(low) + 1);
    b->low = low;
    b->y0 = bottom;
    b->y_scale = isfinite(scale) ? scale : 0;
    b->upright = es_axis_make(low, high, false, bottom, b->plot.y, most);
}

/* Sets the y scale of a panel after its plot has been placed. */
static void set_upright(const es_curves_sheet *sheet, es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    bool zeros = figure->logarithmic && b->range.zero;
    double least = b->range.least_positive;
    double height = b->plot.height - (zeros ? ES_ZERO_HEIGHT : 0);
    /* Use at most as many ticks as there is space for labels. */
    int most = (int)fmax(2, fmin(MOST_TICKS, height / TICK_HEIGHT));
    if (figure->logarithmic) {
        if (figure->y_labels == ES_LABELS_COUNT)
            least = fmin(least, 1); /* the axis of a count starts at one */
        b->y0 = b->plot.y + height;
        b->upright =
            es_axis_make(least, b->range.high, true, b->y0, b->plot.y, most);
        b->low = log10(b->upright.low);
        b->y_scale = height / (log10(b->upright.high) - b->low);
        b->logarithmic = true;
    } else {
        set_linear(b, figure, most);
    }
    /* Label powers of ten as 10K or 1M if all of them are from 1 to 1T. */
    bool spoken =
        b->logarithmic && b->upright.low >= 1 && b->upright.high < 1e12;
    b->upright.labels = spoken ? ES_LABELS_COUNT : figure->y_labels;
}

/* --- x --------------------------------------------------------------------*/

/* Sets the x axis of a panel, with as many ticks at whole numbers as there is
 * space for labels. If all samples have the same step, this step is in the
 * middle of the axis. */
static void set_across(es_curves_block *b)
{
    double range = b->last - b->first;
    double scale = (b->plot.width - 2 * INSET) / range;
    double start = b->plot.x + INSET, end = start + b->plot.width - 2 * INSET;
    if (!(range > 0 && isfinite(scale))) {
        double air = fmax(1, fabs(b->first) / 2);
        b->x0 = (start + end) / 2;
        b->x_scale = 0;
        b->across = (es_axis){.low = b->first - air,
                              .high = b->first + air,
                              .start = start,
                              .end = end,
                              .labels = ES_LABELS_COUNT,
                              .ticks = es_ticks_make(b->first, b->first, 1)};
        return;
    }
    es_axis *axis = &b->across;
    double fitting = fmin(b->plot.width / 30, range + 1);
    b->x0 = start;
    b->x_scale = scale;
    *axis = es_axis_make(b->first, b->last, false, start, end, 2);
    axis->labels = ES_LABELS_COUNT;
    for (int most = (int)fmax(fitting, 1); most > 0; most--) {
        axis->ticks = es_ticks_make(b->first, b->last, most);
        if (axis->ticks.n < 2)
            break;
        double apart = es_axis_place(axis, es_axis_tick(axis, 1)) -
                       es_axis_place(axis, es_axis_tick(axis, 0));
        if (es_axis_label_width(axis) + 10 <= apart)
            break;
    }
}

/* --- lines ----------------------------------------------------------------*/

/* The positions of all marks in a panel. */
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
    double *pairs; /* (PATH_MOST * n_columns,2) points of one line, or for each
                      column the interval of y that the line fills */
    double *wide;  /* (n_columns,2) the same intervals, widened by the width of
                      the pen */
    bool *marked;  /* (n_columns) true if the column has a mark for NaN or
                      infinity at the lower edge */
    marks *marks;  /* the marks that are already drawn */
} plotter;

/* The line that is being drawn. */
typedef struct pen {
    size_t index; /* index of the line in its panel */
    const es_curve *curve;
    es_color color;
    double line_width;
    bool sparse; /* true if every sample gets a dot or mark */
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
    if (!p->sheet->equal || is_lone(line->curve, k))
        return true;
    equals equal = count_equals(p->block->panel, line->index, k, false);
    return k % equal.n == equal.rank;
}

/* Returns the x at which the mark of sample k is drawn; x is its true position.
 * Coinciding isolated samples are drawn side by side within the plot. */
static double x_beside(const plotter *p, const pen *line, size_t k, double x,
                       double radius)
{
    const es_box *plot = &p->block->plot;
    equals equal = count_lone_equals(p->block->panel, line->index, k);
    if (!p->sheet->beside || equal.n < 2)
        return x;
    double most = fmin(BESIDE_WIDTH, plot->width - 2 * radius);
    double width = fmin((double)(equal.n - 1) * (2 * radius + 0.5), most);
    double first = fmin(fmax(x - width / 2, plot->x + radius),
                        plot->x + plot->width - radius - width);
    return first + width * (double)equal.rank / (double)(equal.n - 1);
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
            (!all && !is_lone(curve, i)) || !has_turn(p, line, i))
            continue;
        last = column_of(p, x);
        es_picture_dot(p->picture, x_beside(p, line, i, x, DOT_RADIUS),
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

/* Draws the mark of a category, hollow if it would cover another mark. */
static void put_mark(const plotter *p, double x, double y, size_t category,
                     es_color color)
{
    marks *m = p->marks;
    es_draw_mark(&p->sheet->page.canvas, x, y, category, color,
                 is_covered(m, x, y));
    if (m->n < sizeof m->places / sizeof *m->places) {
        m->places[m->n][0] = x;
        m->places[m->n++][1] = y;
    }
}

/* Returns true if another line coincides with this line along a whole segment
 * that begins or ends at sample k. */
static bool runs_along(const plotter *p, const pen *line, size_t k)
{
    const es_curves_panel *panel = p->block->panel;
    return count_equals(panel, line->index, k, true).n > 1 ||
           (k > 0 && count_equals(panel, line->index, k - 1, true).n > 1);
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
        put_mark(p, x_beside(p, line, i, x, ES_MARK_RADIUS),
                 sample_y(p, curve, i), curve->color, line->color);
        n++;
    }
    if (n == 0 && last != SIZE_MAX && has_turn(p, line, last))
        put_mark(
            p,
            x_beside(p, line, last, sample_x(p, curve, last), ES_MARK_RADIUS),
            sample_y(p, curve, last), curve->color, line->color);
}

/* Returns true if stroking the line as a path is cheap. The cost grows with the
 * number of samples and the vertical travel. Where the line is steep, a path
 * looks smoother than a filled interval per column. */
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

/* Extends the span of a column, the interval of y to be filled there, to
 * include y. */
static void include(const plotter *p, size_t column, double y)
{
    double *span = p->pairs + 2 * column;
    /* NaN stands for an empty interval. A comparison with NaN is false, so this
     * condition is then true. */
    if (!(span[0] <= y))
        span[0] = y;
    if (!(span[1] >= y))
        span[1] = y;
}

/* Computes the interval of y that a round pen covers in a column while it
 * passes over the column and its neighbours. */
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

/* Extends the spans (the intervals of y that are filled in each column) to
 * include a line, where `values` and, if not NULL, `beside` are finite. If the
 * line crosses from one column into the next, both spans include the crossing,
 * so that they touch. */
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

static bool is_broken(const es_curve *curve, size_t i)
{
    return !isfinite(curve->values[i]) && !es_is_missing(curve->values[i]);
}

/* Marks NaN and infinite samples below the plot. The interval between two
 * consecutive ones is marked too, and adjacent marks are merged. */
static void draw_edge(const plotter *p)
{
    const es_curves_panel *panel = p->block->panel;
    const es_box *plot = &p->block->plot;
    memset(p->marked, 0, p->n_columns * sizeof *p->marked);
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        size_t last = 0;
        for (size_t i = 0; i < curve->n; i++) {
            if (!is_broken(curve, i))
                continue;
            size_t column = column_of(p, sample_x(p, curve, i));
            bool on = i > 0 && is_broken(curve, i - 1) && last < column;
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
        es_picture_rect(p->picture, x, plot->y + plot->height + 1, width,
                        EDGE_HEIGHT, p->sheet->page.canvas.colors->alarm);
    }
}

/* --- values above the plot ------------------------------------------------*/

/* Returns the largest value that is drawn for sample i: by the line, its shaded
 * area or its ring; NaN if there is none. */
static double peak_of(const es_curve *curve, size_t i)
{
    const float *const all[] = {curve->values, curve->high, curve->spikes};
    double peak = NAN;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k] && isfinite(all[k][i]))
            peak = fmax(peak, (double)all[k][i]); /* fmax ignores NaN */
    return peak;
}

/* Finds the highest sample wherever a line leaves the plot at the top. Sets
 * p->pairs[column] to the largest of these values in the column; NaN if it has
 * no such value. */
static void find_peaks(const plotter *p)
{
    const es_curves_panel *panel = p->block->panel;
    clear_spans(p);
    for (size_t k = 0; k < panel->n_curves; k++) {
        const es_curve *curve = &panel->curves[k];
        for (size_t i = 0, next; i < curve->n; i = next + 1) {
            double peak = NAN;
            size_t column = 0;
            for (next = i; next < curve->n; next++) {
                double value = peak_of(curve, next);
                if (!(es_curves_y(p->block, value) < p->block->plot.y))
                    break;
                if (!(value <= peak)) {
                    peak = value;
                    column = column_of(p, sample_x(p, curve, next));
                }
            }
            if (!isnan(peak))
                p->pairs[column] = fmax(peak, p->pairs[column]);
        }
    }
}

/* An arrow above the plot at x, and the text of a value next to it. Together
 * they extend from `left` to `right`. */
typedef struct arrow {
    double x, value, left, right;
    char text[ES_LABEL_MAX];
} arrow;

static arrow arrow_of(const plotter *p, size_t column)
{
    const es_box *plot = &p->block->plot;
    arrow a = {.x = plot->x + ((double)column + 0.5) * COLUMN,
               .value = p->pairs[column]};
    snprintf(a.text, sizeof a.text,
             a.value >= 1000 && a.value < 1e6 ? "%.0f" : "%.3g", a.value);
    es_label_typeset(a.text, sizeof a.text);
    double width = ARROW_WIDTH +
                   es_text_width(a.text, ES_SMALL_SIZE - 0.5, ES_WEIGHT_NORMAL);
    bool flipped = a.x + width > plot->x + plot->width;
    a.left = a.x - (flipped ? width : ARROW_WIDTH);
    a.right = a.x + (flipped ? ARROW_WIDTH : width);
    return a;
}

static void draw_arrow(const plotter *p, const arrow *a)
{
    es_color color = p->sheet->page.canvas.colors->muted;
    double bottom = p->block->plot.y - 1, top = bottom - ARROW_HEIGHT;
    const double head[] = {a->x - ARROW_WIDTH / 2, top + 2.5, a->x, top,
                           a->x + ARROW_WIDTH / 2, top + 2.5};
    bool flipped = a->x - a->left > ARROW_WIDTH;
    es_picture_line(p->picture, a->x, bottom, a->x, top, 0.75, color);
    es_picture_polyline(p->picture, head, 3, 0.75, color);
    es_picture_text(p->picture,
                    a->x + (flipped ? -ARROW_WIDTH : ARROW_WIDTH) * 0.9,
                    bottom - 1, ES_SMALL_SIZE - 0.5,
                    flipped ? ES_ALIGN_END : ES_ALIGN_START, ES_WEIGHT_NORMAL,
                    0, color, a->text);
}

/* Draws an arrow and the value at each peak of a line above the plot. Of arrows
 * that would overlap, only the one with the largest value is drawn. */
static void draw_arrows(const plotter *p)
{
    arrow last = {.right = -INFINITY};
    find_peaks(p);
    for (size_t column = 0; column < p->n_columns; column++) {
        if (isnan(p->pairs[column]))
            continue;
        arrow next = arrow_of(p, column);
        if (next.left > last.right && isfinite(last.right))
            draw_arrow(p, &last);
        if (next.left > last.right || next.value > last.value)
            last = next;
    }
    if (isfinite(last.right))
        draw_arrow(p, &last);
}

static pen pen_of(const plotter *p, size_t i)
{
    const es_curves_panel *panel = p->block->panel;
    const es_curve *curve = &panel->curves[i];
    return (pen){.index = i,
                 .curve = curve,
                 .color = es_curve_color(p->sheet, curve, i),
                 .line_width = es_curve_width(curve, panel->n_curves),
                 .sparse = (double)curve->n * SPARSE <= p->block->plot.width};
}

/* Stores in p->wide the interval of y that the pen covers in each column. */
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
        es_picture_dashed_polyline(
            p->picture, p->pairs, curve->n, line->line_width,
            curve->pen == ES_PEN_DASHED ? ES_DASH : 0, line->color);
        return;
    }
    span_line(p, line);
    for (size_t at = 0; curve->pen == ES_PEN_DASHED && at < p->n_columns; at++)
        if ((size_t)((double)at * COLUMN / ES_DASH) % 2)
            p->wide[2 * at] = p->wide[2 * at + 1] = NAN;
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
        equals equal = count_equals(p->block->panel, line->index, k, true);
        if (equal.n < 2)
            continue;
        size_t to = column_of(p, sample_x(p, curve, k + 1));
        for (size_t at = column_of(p, sample_x(p, curve, k)); at <= to; at++) {
            size_t stripe = (size_t)((double)at * COLUMN / STRIPE);
            p->marked[at] = stripe % equal.n == equal.rank;
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
        draw_line(p, &line);
    }
    for (size_t i = 0; p->sheet->equal && i < n; i++) {
        pen line = pen_of(p, i);
        if (line.curve->pen != ES_PEN_DASHED)
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

/* Draws the trend lines and the rings around outliers, on top of all curves. */
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
    bool cut = p->sheet->beyond;
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
            while (k < curve->n && !is_broken(curve, k))
                k++;
            if (k < curve->n)
                first =
                    fmin(first, sample_x(p, curve, k)); /* fmin ignores NaN */
        }
        double x = first - ES_MARK_RADIUS - EDGE_WIDTH;
        if (!isnan(x))
            put_mark(p, x, y, color,
                     es_theme_category(p->sheet->figure->style.theme, color));
    }
}

/* Draws the lines of a panel, and marks their NaN and infinite values. Returns
 * ES_OK or ES_ENOMEM. */
static es_status draw_lines(const es_curves_sheet *sheet,
                            const es_curves_block *block)
{
    plotter p = {.picture = sheet->page.canvas.picture,
                 .sheet = sheet,
                 .block = block,
                 .n_columns = (size_t)ceil(block->plot.width / COLUMN)};
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
    draw_edge(&p);
    if (sheet->figure->colors == ES_CURVES_BY_CATEGORY)
        draw_ends(&p);
    if (sheet->beyond)
        draw_arrows(&p);
done:
    free(p.pairs);
    free(p.wide);
    free(p.marked);
    free(p.marks);
    return status;
}

/* --- panels ---------------------------------------------------------------*/

static void draw_reference(const es_curves_sheet *sheet,
                           const es_curves_block *b)
{
    const es_curves *figure = sheet->figure;
    const es_canvas *canvas = &sheet->page.canvas;
    const es_box *plot = &b->plot;
    const double size = ES_SMALL_SIZE - 0.5;
    double right = plot->x + plot->width;
    if (!isfinite(figure->reference) ||
        (b->logarithmic && figure->reference < b->upright.low))
        return;
    double y = es_curves_y(b, figure->reference);
    if (figure->reference_text) {
        double width =
            es_text_width(figure->reference_text, size, ES_WEIGHT_NORMAL);
        width = fmin(width, plot->width - 4);
        es_picture_rect(canvas->picture, right - width - 4, y - 10, width + 4,
                        /* Cover the grid behind the text. */
                        10, canvas->colors->paper);
        es_draw_fitted(canvas->picture, right - 2, y - 3, size, ES_ALIGN_END,
                       ES_WEIGHT_NORMAL, canvas->colors->muted,
                       figure->reference_text, plot->width - 4);
    }
    es_picture_dashed(canvas->picture, plot->x, y, right, y, 0.75, 3,
                      canvas->colors->muted);
}

static es_status draw_block(const es_page *page, size_t i)
{
    const es_curves_sheet *sheet = page->chart;
    const es_curves *figure = sheet->figure;
    const es_curves_block *b = &sheet->blocks[i];
    const es_canvas *canvas = &page->canvas;
    const es_box *plot = &b->plot;
    bool labelled = figure->own_scales || es_page_is_first(page, i);
    es_draw_upright(canvas, plot, &b->upright, labelled, figure->y_text);
    /* Label the separate line for zeros. */
    if (labelled && b->logarithmic && b->range.zero)
        es_draw_label(canvas, plot->x - 5, es_curves_y(b, 0) + ES_SMALL_DROP,
                      ES_ALIGN_END, canvas->colors->ink, "0");
    draw_reference(sheet, b);
    es_draw_across(canvas, plot, &b->across,
                   figure->x_text ? figure->x_text : "step");
    if (b->first <= b->last)
        return draw_lines(sheet, b);
    es_draw_name(canvas, plot->x + plot->width / 2, plot->y + plot->height / 2,
                 0, canvas->colors->muted, "no samples");
    return ES_OK;
}

/* --- layout ---------------------------------------------------------------*/

static void arrange(es_page *page)
{
    const es_curves_sheet *sheet = page->chart;
    if (sheet->below)
        page->below = 6 + es_curves_legend_height(sheet, page->plots.width) + 2;
}

/* Measures the labels to the left of the panels at the natural height, where
 * the number of ticks and the width of labels are largest. */
static void measure_labels(es_curves_sheet *sheet)
{
    const es_curves *figure = sheet->figure;
    es_page *page = &sheet->page;
    double left = 0;
    for (size_t i = 0; i < page->n_panels; i++) {
        es_curves_block *b = &sheet->blocks[i];
        b->plot.height = page->plot_height;
        set_upright(sheet, b);
        left = fmax(left, es_upright_width(&b->upright, figure->y_text));
    }
    left = ceil(2 * left) / 2;
    for (size_t i = 0; i < page->n_panels; i++)
        page->panels[i] =
            (es_page_panel){.title = figure->panels[i].title,
                            .subtitle = figure->panels[i].subtitle,
                            .left = figure->own_scales ? left : 0};
    page->left = figure->own_scales ? 0 : left;
}

/* Places the plots and the legend. The legend moves below the panels if it
 * would leave them too little width. */
static es_status place(es_curves_sheet *sheet)
{
    es_page *page = &sheet->page;
    const es_box *plots = &page->plots;
    bool beside = sheet->legend_width > 0 && !sheet->below;
    /* The label of the last step may extend beyond the plot. */
    page->right = beside ? sheet->legend_width : 4;
    es_status status = es_page_lay_out(page);
    if (status == ES_EUSAGE && sheet->movable && !sheet->below) {
        sheet->below = true;
        page->right = 4;
        status = es_page_lay_out(page);
    }
    if (status < 0)
        return status;
    if (sheet->figure->style.frame)
        sheet->figure->style.frame->legend_below = sheet->below;
    if (sheet->below) {
        sheet->legend_x = plots->x;
        sheet->legend_y = plots->y + plots->height + ES_AXIS_FOOT + 6;
        sheet->legend_height = page->below - 8;
    } else {
        sheet->legend_x = plots->x + plots->width + ES_LEGEND_GAP;
        sheet->legend_y = plots->y - page->air;
        sheet->legend_height = plots->height + page->air;
    }
    /* Draw the legend as a list, unless the list would be higher than the
     * panels. */
    size_t n_lines = sheet->n_entries + (sheet->figure->line_text ? 1 : 0);
    sheet->listed = sheet->n_entries <= ES_LISTED_MOST &&
                    (double)n_lines * ES_LEGEND_LINE + 2 <=
                        sheet->legend_height + ES_AXIS_FOOT;
    return ES_OK;
}

es_status es_curves_lay_out(es_curves_sheet *out, const es_curves *figure)
{
    const bool many = figure->n_panels > 1;
    const bool small = figure->n_panels > PANELS_MOST;
    es_status status;
    *out = (es_curves_sheet){.figure = figure,
                             .page = {.name = "a figure of curves",
                                      .style = &figure->style,
                                      .chart = out,
                                      .plot_width = small  ? SMALL_WIDTH
                                                    : many ? MANY_WIDTH
                                                           : ONE_WIDTH,
                                      .plot_height = small  ? SMALL_HEIGHT
                                                     : many ? MANY_HEIGHT
                                                            : ONE_HEIGHT,
                                      .most_columns = small ? 6 : 0,
                                      .arrange = arrange,
                                      .draw = draw_block,
                                      .draw_legend = es_curves_draw_legend,
                                      .least_factor = LEAST_FACTOR,
                                      .composite_height = MANY_HEIGHT,
                                      .foot = ES_AXIS_FOOT,
                                      .title_gap = 6,
                                      .note = figure->note}};
    if ((status = es_page_begin(&out->page, figure->n_panels)) < 0 ||
        (status = es_alloc(&out->blocks, figure->n_panels, sizeof *out->blocks,
                           "curves")) < 0 ||
        (status = measure_panels(out)) < 0)
        return status;
    measure_labels(out);
    es_curves_measure_legend(out);
    es_page *page = &out->page;
    if (out->nonfinite)
        es_page_add_key(page, ES_SWATCH_EDGE_ALARM, "NaN or infinite");
    if (out->beside)
        es_page_add_key(page, ES_SWATCH_DOTS, "identical points are offset");
    if (out->beyond) {
        page->air = ARROW_AIR;
        page->title_gap += ARROW_AIR;
    }
    if ((status = place(out)) < 0)
        return status;
    for (size_t i = 0; i < figure->n_panels; i++) {
        out->blocks[i].plot = out->page.panels[i].plot;
        set_upright(out, &out->blocks[i]);
        set_across(&out->blocks[i]);
    }
    return ES_OK;
}

void es_curves_sheet_clear(es_curves_sheet *sheet)
{
    es_page_clear(&sheet->page);
    free(sheet->blocks);
    sheet->blocks = NULL;
}

es_status es_curves_draw(es_picture **out, const es_curves *figure)
{
    es_curves_sheet sheet;
    es_status status = es_curves_lay_out(&sheet, figure);
    if (status == ES_OK)
        status = es_page_draw(out, &sheet.page);
    es_curves_sheet_clear(&sheet);
    return status;
}
