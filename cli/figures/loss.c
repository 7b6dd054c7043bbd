/* Loss or perplexity of all runs, in training and on held-out data. */
#include "cli/figures/cost.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "render/figures/curves.h"

#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"

#include <math.h>
#include <string.h>

enum { LINE_LEAST = 4 }; /* samples below which a line would say too much */

/* A run's two lines. */
typedef struct pair {
    es_run_lines train, eval; /* one line each, or none */
    char label[ES_CAPTION_MAX];
} pair;

/* --- reading --------------------------------------------------------------*/

/* A regulariser in the loss is no perplexity: its own part, where it was
 * recorded. a_step: what a step counts for on the axis. */
static es_status read_phase(es_run_lines *out, es_drawing *drawing, size_t i,
                            es_phase phase, double a_step)
{
    const es_run_summary *run = drawing->runs[i];
    bool perplexity = drawing->options->perplexity;
    es_lines_query query = {
        .series = "ce", .phase = phase, .reduction = ES_REDUCE_MEAN};
    es_status status = ES_ENOTFOUND;
    if (perplexity)
        status = es_lines_read(out, drawing, run, &query);
    query.series = "loss";
    if (status == ES_ENOTFOUND)
        status = es_lines_read(out, drawing, run, &query);
    for (size_t k = 0; status == ES_OK && k < out->n; k++) {
        out->steps[k] = (int64_t)fmin((double)out->steps[k] * a_step, 9e18);
        if (perplexity && !es_is_missing(out->values[k]))
            out->values[k] = expf(out->values[k]);
    }
    return status == ES_ENOTFOUND ? ES_OK : status;
}

/* --- drawing --------------------------------------------------------------*/

/*
 * What most values lie below: three times their range beyond them nothing is
 * shown, or a single huge loss would flatten all the others. From there on the
 * largest value decides. NaN: nothing is cut.
 */
static es_status choose_limit(double *out, es_drawing *drawing,
                              const pair *pairs)
{
    size_t n_values = 0;
    es_distribution all;
    float *values;
    for (size_t i = 0; i < drawing->n; i++)
        n_values += pairs[i].train.n + pairs[i].eval.n;
    es_status status = es_drawing_array(drawing, &values, n_values * 2);
    if (status < 0)
        return status;
    float *end = values;
    for (size_t i = 0; i < 2 * drawing->n; i++) {
        const pair *p = &pairs[i / 2];
        const es_run_lines *lines = i % 2 ? &p->eval : &p->train;
        if (lines->n)
            memcpy(end, lines->values, lines->n * sizeof *end);
        end += lines->n;
    }
    es_stats_distribution(&all, values + n_values, values, n_values);
    double low = es_stats_quantile(&all, 0.05);
    double high = es_stats_quantile(&all, 0.95);
    double limit = high + 3 * (high - low);
    size_t i = all.n_finite;
    while (i > 0 && !((double)all.sorted[i - 1] <= limit))
        i--;
    *out = i > 0 && i < all.n_finite ? (double)all.sorted[i - 1] : NAN;
    return ES_OK;
}

static es_curve curve_of(const es_run_lines *lines, size_t color, es_pen pen)
{
    return (es_curve){.x = lines->steps,
                      .values = lines->values,
                      .n = lines->n,
                      .pen = pen,
                      .color = color};
}

es_status es_draw_loss(es_picture **out, es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    size_t n = drawing->n;
    bool trained = false, evaluated = false;
    pair *pairs;
    es_curve *curves; /* all training first: the evaluations lie above */
    es_status status;
    if ((status = es_drawing_array(drawing, &pairs, n)) < 0 ||
        (status = es_drawing_array(drawing, &curves, n * 2)) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        pair *p = &pairs[i];
        double a_step = 1;
        if ((options->tokens &&
             (status = es_tokens_a_step(&a_step, drawing->runs[i])) < 0) ||
            (status = read_phase(&p->train, drawing, i, ES_PHASE_TRAIN,
                                 a_step)) < 0 ||
            (status = read_phase(&p->eval, drawing, i, ES_PHASE_EVAL, a_step)) <
                0)
            return status;
        snprintf(p->label, sizeof p->label, "%.60s",
                 es_drawing_title(drawing, i));
        curves[i] =
            curve_of(&p->train, i, p->eval.n ? ES_PEN_THIN : ES_PEN_NORMAL);
        curves[n + i] = curve_of(
            &p->eval, i, p->eval.n < LINE_LEAST ? ES_PEN_MARKS : ES_PEN_STRONG);
        curves[p->eval.n ? n + i : i].label = p->label;
        trained = trained || p->train.n;
        evaluated = evaluated || p->eval.n;
    }
    es_curves_panel panel = {.curves = curves, .n_curves = 2 * n};
    es_curves figure = {
        .style = drawing->style,
        .panels = &panel,
        .n_panels = 1,
        .y_text = options->perplexity ? "perplexity" : "loss (nats)",
        .logarithmic = options->logarithmic,
        .x_text = options->tokens ? "tokens" : "step",
        .colors = ES_CURVES_BY_CATEGORY,
        .reference = NAN,
        .note = trained && evaluated ? "thin: training; marks: held-out data"
                : trained            ? "training"
                                     : "held-out data"};
    if (!figure.logarithmic &&
        (status = choose_limit(&figure.limit, drawing, pairs)) < 0)
        return status;
    return es_curves_draw(out, &figure);
}
