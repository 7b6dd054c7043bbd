/* Loss or perplexity of all runs, in training and on held-out data. */
#include "cli/figures/cost.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "render/figures/curves.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE_LEAST = 4 }; /* samples below which a line would say too much */

/* A run's two lines. */
typedef struct pair {
    es_run_lines train, eval; /* one line each, or none */
    char label[ES_CAPTION_MAX];
} pair;

/* --- over tokens ----------------------------------------------------------*/

static void count_tokens(es_run_lines *lines, double a_step)
{
    for (size_t i = 0; i < lines->n; i++)
        lines->steps[i] = (int64_t)fmin((double)lines->steps[i] * a_step, 9e18);
}

/* --- reading --------------------------------------------------------------*/

/* A regulariser in the loss is no perplexity: its own part, where it was
 * recorded. */
static es_status read_phase(es_run_lines *out, const es_run_summary *run,
                            es_phase phase, bool perplexity)
{
    es_status status = ES_ENOTFOUND;
    if (perplexity)
        status = es_lines_read(out, run, "ce", phase, ES_REDUCE_MEAN);
    if (status == ES_ENOTFOUND)
        status = es_lines_read(out, run, "loss", phase, ES_REDUCE_MEAN);
    if (status != ES_OK)
        return status == ES_ENOTFOUND ? ES_OK : status;
    for (size_t i = 0; perplexity && i < out->n; i++)
        if (!es_is_missing(out->values[i]))
            out->values[i] = expf(out->values[i]);
    return ES_OK;
}

static es_status load(pair *p, const es_drawing *drawing, size_t i)
{
    const es_figure_options *options = drawing->options;
    const es_run_summary *run = drawing->runs[i];
    double tokens = 1;
    es_status status;
    snprintf(p->label, sizeof p->label, "%.60s", es_drawing_title(drawing, i));
    if ((status = read_phase(&p->train, run, ES_PHASE_TRAIN,
                             options->perplexity)) < 0 ||
        (status = read_phase(&p->eval, run, ES_PHASE_EVAL,
                             options->perplexity)) < 0 ||
        (options->tokens && (status = es_tokens_a_step(&tokens, run)) < 0))
        return status;
    count_tokens(&p->train, tokens);
    count_tokens(&p->eval, tokens);
    return ES_OK;
}

/* --- drawing --------------------------------------------------------------*/

static size_t gather(float *out, const es_run_lines *lines)
{
    size_t n = lines->n_lines ? lines->n : 0;
    if (n)
        memcpy(out, lines->values, n * sizeof *out);
    return n;
}

/*
 * What most values lie below: three times their range beyond them nothing is
 * shown, or a single huge loss would flatten all the others. From there on the
 * largest value decides. NaN: nothing is cut.
 */
static es_status choose_limit(double *out, const pair *pairs, size_t n)
{
    size_t n_values = 0, at = 0;
    es_distribution all;
    for (size_t i = 0; i < n; i++)
        n_values += pairs[i].train.n + pairs[i].eval.n;
    float *values = NULL;
    es_status status =
        es_alloc(&values, n_values, 2 * sizeof *values, "the loss");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        at += gather(values + at, &pairs[i].train);
        at += gather(values + at, &pairs[i].eval);
    }
    es_stats_distribution(&all, values + n_values, values, at);
    double low = es_stats_quantile(&all, 0.05);
    double high = es_stats_quantile(&all, 0.95);
    double limit = high + 3 * (high - low);
    *out = NAN;
    for (size_t i = all.n_finite; i-- > 0 && !isfinite(*out);)
        if ((double)all.sorted[i] <= limit && i + 1 < all.n_finite)
            *out = (double)all.sorted[i];
        else if ((double)all.sorted[i] <= limit)
            break; /* the largest of all */
    free(values);
    return ES_OK;
}

static es_curve curve_of(const es_run_lines *lines, size_t color, es_pen pen)
{
    return (es_curve){.x = lines->steps,
                      .values = lines->values,
                      .n = lines->n_lines ? lines->n : 0,
                      .pen = pen,
                      .color = color};
}

/* All training first: the evaluations lie above. (2n) curves. */
static void make_curves(es_curve *curves, const pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const pair *p = &pairs[i];
        es_curve *train = &curves[i], *eval = &curves[n + i];
        *train =
            curve_of(&p->train, i, p->eval.n ? ES_PEN_THIN : ES_PEN_NORMAL);
        *eval = curve_of(&p->eval, i,
                         p->eval.n < LINE_LEAST ? ES_PEN_MARKS : ES_PEN_STRONG);
        (p->eval.n ? eval : train)->label = p->label;
    }
}

static const char *note_of(const pair *pairs, size_t n)
{
    bool train = false, eval = false;
    for (size_t i = 0; i < n; i++) {
        train = train || pairs[i].train.n;
        eval = eval || pairs[i].eval.n;
    }
    return train && eval ? "thin: training; marks: held-out data"
           : train       ? "training"
                         : "held-out data";
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      const pair *pairs, es_curve *curves)
{
    const es_figure_options *options = drawing->options;
    es_curves_panel panel = {.curves = curves, .n_curves = 2 * drawing->n};
    es_curves figure = {.style = drawing->style,
                        .panels = &panel,
                        .n_panels = 1,
                        .y_text =
                            options->perplexity ? "perplexity" : "loss (nats)",
                        .logarithmic = options->logarithmic,
                        .x_text = options->tokens ? "tokens" : "step",
                        .colors = ES_CURVES_BY_CATEGORY,
                        .reference = NAN,
                        .note = note_of(pairs, drawing->n)};
    es_status status;
    if (!figure.logarithmic &&
        (status = choose_limit(&figure.limit, pairs, drawing->n)) < 0)
        return status;
    make_curves(curves, pairs, drawing->n);
    return es_curves_draw(out, &figure);
}

es_status es_draw_loss(es_picture **out, const es_drawing *drawing)
{
    size_t n = drawing->n;
    pair *pairs = NULL;
    es_curve *curves = NULL;
    es_status status;
    if ((status = es_alloc(&pairs, n, sizeof *pairs, "the loss")) < 0 ||
        (status = es_alloc(&curves, n, 2 * sizeof *curves, "the loss")) < 0)
        goto done;
    for (size_t i = 0; i < n; i++)
        if ((status = load(&pairs[i], drawing, i)) < 0)
            goto done;
    status = draw(out, drawing, pairs, curves);
done:
    for (size_t i = 0; pairs && i < n; i++) {
        es_lines_clear(&pairs[i].train);
        es_lines_clear(&pairs[i].eval);
    }
    free(pairs);
    free(curves);
    return status;
}
