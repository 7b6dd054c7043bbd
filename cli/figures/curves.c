#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "cli/trace.h"

#include <string.h>

/* One run's lines, and the memory they lie in. */
typedef struct panel {
    size_t n_lines, n;              /* points of each line */
    int64_t *steps;                 /* (n) */
    float *values;                  /* (n_lines,n) */
    es_curve *curves;               /* (n_lines) */
    char (*labels)[ES_CAPTION_MAX]; /* (n_lines) */
} panel;

static void free_panel(panel *p)
{
    free(p->steps);
    free(p->values);
    free(p->curves);
    free(p->labels);
}

/* Mean of the finite heads of a layer; missing if all of them are. */
static float layer_mean(const float *heads, size_t n)
{
    double sum = 0;
    size_t n_finite = 0, n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        n_missing += es_is_missing(heads[i]);
        if (isfinite(heads[i])) {
            sum += (double)heads[i];
            n_finite++;
        }
    }
    if (n_finite)
        return (float)(sum / (double)n_finite);
    return n_missing == n ? es_missing() : NAN;
}

static es_status read_lines(es_trace *trace, es_cursor *cursor,
                            const es_run_summary *run)
{
    int64_t step;
    const float *values;
    es_status status;
    size_t n_lines = run->n_rows, n_columns = run->n_columns;
    float *means = es_resize(NULL, n_lines, sizeof *means);
    if (!means)
        return es_fail(ES_ENOMEM, "out of memory for %zu curves", n_lines);
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        for (size_t i = 0; i < n_lines; i++)
            means[i] = n_columns == 1
                           ? values[i]
                           : layer_mean(values + i * n_columns, n_columns);
        es_trace_push(trace, step, means);
    }
    free(means);
    return status == ES_DONE ? ES_OK : status;
}

static es_status read_run(es_trace *trace, const es_run_summary *run)
{
    es_reader *reader = NULL;
    es_cursor *cursor = NULL;
    es_series series;
    es_status status = es_reader_open(&reader, run->path);
    if (status == ES_OK)
        status = es_reader_find(reader, run->number - 1, run->series,
                                run->phase, &series);
    if (status == ES_OK && series.n_values != run->n_rows * run->n_columns)
        status = es_fail(ES_EIO, "%s: changed while it was read", run->path);
    if (status == ES_OK)
        status = es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST,
                                ES_STEP_LAST);
    if (status == ES_OK)
        status = read_lines(trace, cursor, run);
    es_cursor_close(cursor);
    es_reader_close(reader);
    return status;
}

static es_status unfold(panel *p, const es_trace *trace,
                        const es_run_summary *run)
{
    p->n_lines = run->n_rows;
    p->n = es_trace_n_points(trace);
    p->steps = es_resize(NULL, p->n, sizeof *p->steps);
    p->values = es_resize(NULL, p->n * p->n_lines, sizeof *p->values);
    p->curves = es_resize(NULL, p->n_lines, sizeof *p->curves);
    p->labels = es_resize(NULL, p->n_lines, sizeof *p->labels);
    if (!p->steps || !p->values || !p->curves || !p->labels)
        return es_fail(ES_ENOMEM, "out of memory for %zu curves", p->n_lines);
    es_trace_steps(trace, p->steps);
    for (size_t i = 0; i < p->n_lines; i++) {
        float *values = p->values + i * p->n;
        es_trace_line(trace, i, values);
        if (run->shape == ES_SHAPE_RUN)
            snprintf(p->labels[i], sizeof p->labels[i], "%.60s", run->series);
        else
            snprintf(p->labels[i], sizeof p->labels[i], "layer %zu", i);
        p->curves[i] = (es_curve){p->labels[i], p->steps, values, p->n};
    }
    return ES_OK;
}

static es_status load_panel(panel *p, const es_run_summary *run)
{
    es_trace *trace = NULL;
    es_status status = es_trace_new(&trace, run->n_rows);
    if (status == ES_OK)
        status = read_run(trace, run);
    if (status == ES_OK)
        status = unfold(p, trace, run);
    es_trace_free(trace);
    return status;
}

/* The ceiling bounds entropies; no line if the runs have different ones. */
static double common_ceiling(const es_drawing *drawing)
{
    double ceiling = drawing->runs[0]->ceiling;
    if (strncmp(drawing->runs[0]->series, "entropy", 7) != 0)
        return NAN;
    for (size_t i = 1; i < drawing->n; i++)
        if (!(drawing->runs[i]->ceiling == ceiling))
            return NAN;
    return ceiling;
}

static const char *subtitle_of(const es_run_summary *run)
{
    bool eval = run->phase == ES_PHASE_EVAL;
    if (run->shape == ES_SHAPE_HEAD)
        return eval ? "mean of each layer, eval" : "mean of each layer";
    return eval ? "eval" : NULL;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      const panel *panels, es_curves_panel *list)
{
    bool is_run = drawing->runs[0]->shape == ES_SHAPE_RUN;
    es_curves figure = {.style = drawing->style,
                        .panels = list,
                        .n_panels = drawing->n,
                        .y_text = drawing->axis,
                        .line_text = is_run ? NULL : "layer",
                        .reference = common_ceiling(drawing),
                        .reference_text = "ceiling ln(T!)/T"};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        list[i] = (es_curves_panel){
            .title = es_summary_title(run, drawing->runs, drawing->n),
            .subtitle = subtitle_of(run),
            .curves = panels[i].curves,
            .n_curves = panels[i].n_lines};
    }
    return es_curves_draw(out, &figure);
}

es_status es_scan_curves(es_picture **out, const es_drawing *drawing)
{
    panel *panels = calloc(drawing->n, sizeof *panels);
    es_curves_panel *list = calloc(drawing->n, sizeof *list);
    es_status status = ES_OK;
    if (!panels || !list)
        status = es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    for (size_t i = 0; status == ES_OK && i < drawing->n; i++)
        status = load_panel(&panels[i], drawing->runs[i]);
    if (status == ES_OK)
        status = draw(out, drawing, panels, list);
    for (size_t i = 0; panels && i < drawing->n; i++)
        free_panel(&panels[i]);
    free(panels);
    free(list);
    return status;
}
