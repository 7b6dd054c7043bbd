/* Draws the figure raster, which shows every layer and every head as a row of
 * colours over the steps. The samples of the series are read twice: the first
 * pass counts them and determines the columns, the second fills in the
 * columns. */
#include "render/figures/raster.h"

#include "analyzer/base/value.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>
#include <string.h>

/* Maximum number of values in a raster (16 MiB). */
#define MOST_CELLS ((size_t)1 << 22)

#define N_INTERVALS 8

/* The results of the first pass over the samples of a series. */
typedef struct survey {
    int64_t first, last, previous;
    size_t n; /* number of samples of the series */
    /* Candidates for the most frequent interval between consecutive samples,
     * and lower bounds of their counts (algorithm of Misra and Gries, 1982).
     * Every interval that makes up more than a ninth of all intervals is a
     * candidate. */
    uint64_t intervals[N_INTERVALS];
    size_t counts[N_INTERVALS]; /* 0 if free */
    uint64_t interval;          /* most frequent interval between samples, in
                                   steps; the smallest if several are equally
                                   frequent */
    /* (n_rows) sum of the finite values of each row. */
    double *sums;
    /* (n_rows) number of finite values of each row. */
    size_t *n_finite;
} survey;

/* The state of one pass over a series. */
typedef struct pass {
    es_drawing *drawing;
    es_steps *steps;
    survey *survey;
    float *line;         /* (n_rows) values of the current sample */
    uint64_t per_column; /* width of a column, as a multiple of the most
                            frequent interval between samples */
    /* (n_columns) step of the first sample in the column; -1 for a column
     * without a sample. */
    int64_t *starts;
} pass;

typedef void take(pass *p, int64_t step);

/* --- one sample -----------------------------------------------------------*/

float es_layer_of(const float *heads, size_t n)
{
    double sum = 0;
    size_t n_finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(heads[i]))
            continue;
        if (!isfinite(heads[i]))
            return NAN;
        sum += (double)heads[i];
        n_finite++;
    }
    return n_finite ? (float)(sum / (double)n_finite) : es_missing();
}

static void set_line(pass *p, const float *values)
{
    size_t n_layers = p->steps->n_layers, n_heads = p->steps->n_heads;
    if (!n_heads) {
        memcpy(p->line, values, n_layers * sizeof *values);
        return;
    }
    for (size_t l = 0; l < n_layers; l++)
        p->line[l] = es_layer_of(values + l * n_heads, n_heads);
    memcpy(p->line + n_layers, values, n_layers * n_heads * sizeof *values);
}

static void count_interval(survey *s, uint64_t interval)
{
    size_t free = N_INTERVALS;
    for (size_t i = 0; i < N_INTERVALS; i++) {
        if (s->counts[i] && s->intervals[i] == interval) {
            s->counts[i]++;
            return;
        }
        if (!s->counts[i])
            free = i;
    }
    if (free < N_INTERVALS) {
        s->intervals[free] = interval;
        s->counts[free] = 1;
        return;
    }
    for (size_t i = 0; i < N_INTERVALS; i++)
        s->counts[i]--;
}

static void look(pass *p, int64_t step)
{
    survey *s = p->survey;
    if (s->n++) {
        count_interval(s, (uint64_t)(step - s->previous));
    } else {
        s->first = step;
    }
    s->previous = s->last = step;
    for (size_t i = 0; i < p->steps->n_rows; i++)
        if (isfinite(p->line[i])) {
            s->sums[i] += (double)p->line[i];
            s->n_finite[i]++;
        }
}

static void put(pass *p, int64_t step)
{
    es_steps *steps = p->steps;
    uint64_t from_first = (uint64_t)(step - p->survey->first);
    uint64_t interval = p->survey->interval;
    size_t column = (size_t)((from_first / interval +
                              (from_first % interval > interval / 2)) /
                             p->per_column);
    if (column >= steps->n_columns)
        column = steps->n_columns - 1;
    steps->merged = steps->merged || p->starts[column] >= 0;
    if (p->starts[column] < 0)
        p->starts[column] = step;
    for (size_t i = 0; i < steps->n_rows; i++) {
        float *cell = &steps->values[i * steps->n_columns + column];
        if (es_raster_wins(p->line[i], *cell, (double)steps->levels[i]))
            *cell = p->line[i];
    }
}

/* --- all samples ----------------------------------------------------------*/

static es_status each(pass *p, es_reader *reader, const es_series *series,
                      const es_step_range *steps, take *handle)
{
    es_cursor *cursor = NULL;
    const float *values;
    int64_t step;
    es_status status = es_source_scan(&cursor, reader, series, steps);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        set_line(p, values);
        handle(p, step);
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

/* Returns the most frequent interval between samples, the smallest if several
 * are equally frequent; 1 for a single sample. */
static uint64_t usual_interval(const survey *s)
{
    size_t most = 0;
    uint64_t usual = 1;
    for (size_t i = 0; i < N_INTERVALS; i++) {
        if (s->counts[i] < most || !s->counts[i] ||
            (s->counts[i] == most && s->intervals[i] > usual))
            continue;
        most = s->counts[i];
        usual = s->intervals[i];
    }
    return usual;
}

/* Allocates the columns. A column covers one interval (the most frequent
 * interval between samples), or several if there would be too many columns. */
static es_status make_columns(pass *p)
{
    survey *s = p->survey;
    es_steps *steps = p->steps;
    uint64_t span = (uint64_t)(s->last - s->first);
    uint64_t most = MOST_CELLS / steps->n_rows;
    most = most < 1 ? 1 : most > ES_STEPS_MOST ? ES_STEPS_MOST : most;
    s->interval = usual_interval(s);
    uint64_t n =
        span / s->interval + (span % s->interval > s->interval / 2) + 1;
    p->per_column = (n + most - 1) / most;
    steps->n_columns = (size_t)((n + p->per_column - 1) / p->per_column);
    double interval = (double)s->interval;
    steps->left = (double)s->first - interval / 2;
    steps->right = steps->left +
                   interval * (double)p->per_column * (double)steps->n_columns;
    steps->first = (double)s->first;
    steps->last = (double)s->last;
    size_t n_cells = steps->n_rows * steps->n_columns;
    es_status status;
    if ((status = es_drawing_array(p->drawing, &steps->values, n_cells)) < 0 ||
        (status = es_drawing_array(p->drawing, &steps->levels, steps->n_rows)) <
            0 ||
        (status = es_drawing_array(p->drawing, &p->starts, steps->n_columns)) <
            0)
        return status;
    for (size_t i = 0; i < n_cells; i++)
        steps->values[i] = es_missing();
    for (size_t i = 0; i < steps->n_rows; i++)
        steps->levels[i] = (float)(s->sums[i] / (double)s->n_finite[i]);
    for (size_t i = 0; i < steps->n_columns; i++)
        p->starts[i] = -1;
    return ES_OK;
}

static size_t next_start(const pass *p, size_t from)
{
    while (from < p->steps->n_columns && p->starts[from] < 0)
        from++;
    return from;
}

/* Fills the empty columns between two samples with the earlier sample, if the
 * gap before or after is about as long: the run was then recorded less often in
 * this range. A single long gap remains missing. */
static void fill_gaps(pass *p)
{
    size_t n = p->steps->n_columns, before = 0;
    for (size_t at = next_start(p, 0), next; at < n; at = next) {
        next = next_start(p, at + 1);
        if (next >= n)
            break;
        size_t after = next_start(p, next + 1), gap = next - at;
        size_t usual = after < n ? after - next : 0;
        usual = before > usual ? before : usual;
        bool held = gap > 1 && 2 * gap <= 3 * usual;
        for (size_t row = 0; held && row < p->steps->n_rows; row++) {
            float *values = p->steps->values + row * n;
            for (size_t i = at + 1; i < next; i++)
                values[i] = values[at];
        }
        before = gap;
    }
}

static es_status read_series(pass *p, es_reader *reader,
                             const es_series *series)
{
    size_t n_rows = p->steps->n_rows;
    survey *found = p->survey;
    const es_step_range *steps = &p->drawing->options->steps;
    es_status status;
    if ((status = es_drawing_array(p->drawing, &p->line, n_rows)) < 0 ||
        (status = es_drawing_array(p->drawing, &found->sums, n_rows)) < 0 ||
        (status = es_drawing_array(p->drawing, &found->n_finite, n_rows)) < 0 ||
        (status = each(p, reader, series, steps, look)) < 0)
        return status;
    if (!found->n)
        return es_source_empty(reader, series, steps);
    const es_step_range seen = {true, found->first, found->last};
    if ((status = make_columns(p)) < 0 ||
        (status = each(p, reader, series, &seen, put)) < 0)
        return status;
    fill_gaps(p);
    return ES_OK;
}

es_status es_steps_read(es_steps *out, es_drawing *drawing,
                        const es_run_summary *run)
{
    es_reader *reader = NULL;
    es_series series;
    survey s = {0};
    *out = (es_steps){.n_layers = (size_t)run->n_layer};
    pass p = {.drawing = drawing, .steps = out, .survey = &s};
    es_status status;
    if ((status = es_source_open(&reader, run)) < 0 ||
        (status = es_reader_find(reader, run->number - 1, run->series,
                                 run->phase, &series)) < 0)
        goto done;
    if (series.shape == ES_SHAPE_HEAD)
        out->n_heads = (size_t)run->n_head;
    out->n_rows = out->n_layers * (1 + out->n_heads);
    status = read_series(&p, reader, &series);
done:
    es_damage_close(reader);
    return status;
}

/* --- the figure -----------------------------------------------------------*/

es_status es_fits_raster(const es_run_summary *run,
                         const es_figure_entry *figure)
{
    if (run->shape != ES_SHAPE_RUN)
        return ES_OK;
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value per run, but %s needs one per "
                   "layer or head",
                   run->path, run->series, figure->label);
}

static es_raster_panel panel_of(const es_drawing *drawing, size_t i,
                                const es_steps *s)
{
    es_raster_panel panel = {
        .title = es_drawing_title(drawing, i),
        .subtitle = drawing->runs[i]->phase == ES_PHASE_EVAL ? "eval" : NULL,
        .layers = {s->values, s->levels, s->n_layers},
        .n_columns = s->n_columns,
        .left = s->left,
        .right = s->right,
        .first = s->first,
        .last = s->last};
    if (s->n_heads)
        panel.heads =
            (es_raster_grid){s->values + s->n_layers * s->n_columns,
                             s->levels + s->n_layers, s->n_layers * s->n_heads};
    return panel;
}

/* Draws the raster. Unless the policy of --max fixes the top of the colour
 * scale, the colour scale ends at the largest value of all steps. */
es_status es_draw_raster(es_picture **out, es_drawing *drawing)
{
    es_max_policy policy = drawing->runs[0]->max.policy;
    es_range range = ES_RANGE_NONE;
    es_raster_panel *panels;
    double top = es_drawing_top(drawing);
    bool merged = false;
    es_status status = es_drawing_array(drawing, &panels, drawing->n);
    if (status < 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++) {
        es_steps steps;
        if ((status = es_steps_read(&steps, drawing, drawing->runs[i])) < 0)
            return status;
        es_range_add_all(&range, steps.values, steps.n_rows * steps.n_columns);
        panels[i] = panel_of(drawing, i, &steps);
        merged = merged || steps.merged;
    }
    if (policy == ES_MAX_OBSERVED || policy == ES_MAX_RUN)
        top = range.high >= range.low ? range.high : NAN;
    es_series_scale scale = es_drawing_scale(drawing, &range, top);
    return es_raster_draw(
        out,
        &(es_raster){.style = drawing->style,
                     .panels = panels,
                     .n_panels = drawing->n,
                     .low = scale.low,
                     .high = scale.high,
                     .logarithmic = scale.logarithmic,
                     .scale_text = drawing->axis,
                     .note = merged ? "A column of several samples shows their "
                                      "most extreme value, or NaN."
                                    : NULL});
}
