/* Draws the figure loss: loss or perplexity of all runs over the steps, both on
 * training and on held-out data. */
#include "cli/figures/cost.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "render/figures/curves.h"

#include "analyzer/base/value.h"
#include "analyzer/statistics/stats.h"

#include <math.h>
#include <string.h>

/* The training line and the evaluation line of a run. */
typedef struct pair {
    /* Both contain a single line, which has no points (n = 0) if the phase was
     * not recorded. */
    es_group_lines train, eval;
    float *spikes; /* values of `train` at spikes, missing elsewhere; NULL
                      without --spikes */
    char label[ES_GROUP_TEXT_MAX];
} pair;

/* --- reading --------------------------------------------------------------*/

/* Reads the line of one phase, train or eval. Perplexity is computed from the
 * series ce if it was recorded, because a loss may include a regulariser.
 * `a_step` converts steps to units of the x axis: 1, or the number of tokens
 * per step. */
static es_status read_phase(es_group_lines *out, es_drawing *drawing, size_t i,
                            es_phase phase, double a_step)
{
    bool perplexity = drawing->options->perplexity;
    es_lines_query query = {
        .series = "ce", .phase = phase, .reduction = ES_REDUCE_MEAN};
    es_status status = ES_ENOTFOUND;
    if (perplexity)
        status = es_group_lines_read(out, drawing, i, &query, true);
    query.series = "loss";
    if (status == ES_ENOTFOUND)
        status = es_group_lines_read(out, drawing, i, &query, perplexity);
    for (size_t k = 0; status == ES_OK && k < out->mean.n; k++)
        out->mean.steps[k] =
            (int64_t)fmin((double)out->mean.steps[k] * a_step, 9e18);
    return status == ES_ENOTFOUND ? ES_OK : status;
}

/* --- drawing --------------------------------------------------------------*/

/* A line that rises to more than 1.5 times its first value diverges. */
#define RISE 1.5

/* The values of a line that the y axis should show. */
typedef struct tail {
    double high; /* largest value that is not an outlier; NaN if there is
                    none */
    bool rises;  /* true if `high` is far above the line's first value */
} tail;

/*
 * Finds the largest finite value of a line from step `from` on (of the upper
 * bounds if seeds are merged). Outliers are ignored, because they would flatten
 * all other values. An outlier is more than 3 * d above the 95% quantile, where
 * d is the distance between the 5% and the 95% quantile.
 */
static es_status measure_tail(tail *out, es_drawing *drawing,
                              const es_group_lines *lines, double from)
{
    const es_run_lines *line = &lines->mean;
    const float *values =
        lines->high.values ? lines->high.values : line->values;
    es_distribution all;
    float *sorted;
    es_status status = es_drawing_array(drawing, &sorted, line->n + 1);
    *out = (tail){.high = NAN};
    if (status < 0)
        return status;
    size_t first = 0, start = 0;
    while (first < line->n && !isfinite(values[first]))
        first++;
    while (start < line->n && !((double)line->steps[start] >= from))
        start++;
    es_stats_distribution(&all, sorted, values + start, line->n - start);
    double low = es_stats_quantile(&all, 0.05);
    double high = es_stats_quantile(&all, 0.95);
    size_t n = all.n_finite;
    while (n > 0 && !((double)sorted[n - 1] <= high + 3 * (high - low)))
        n--;
    if (n == 0)
        return ES_OK;
    out->high = (double)sorted[n - 1];
    out->rises = out->high > RISE * (double)values[first];
    return ES_OK;
}

/* Considers the run up to its last finite value, and returns the step at which
 * the last two thirds of it begin. */
static double last_thirds(const pair *p)
{
    double first = INFINITY, last = -INFINITY;
    for (int k = 0; k < 2; k++) {
        const es_run_lines *line = k ? &p->eval.mean : &p->train.mean;
        for (size_t i = 0; i < line->n; i++) {
            if (!isfinite(line->values[i]))
                continue;
            first = fmin(first, (double)line->steps[i]);
            last = fmax(last, (double)line->steps[i]);
        }
    }
    return first + (last - first) / 3;
}

/* Chooses the upper limit of the y axis: the largest value in the last two
 * thirds of each run. Runs that diverge are ignored unless all runs diverge.
 * *out is NaN if there is no such value. */
static es_status choose_limit(double *out, es_drawing *drawing,
                              const pair *pairs)
{
    double limits[] = {NAN, NAN}; /* limit for runs that do not diverge, and
                                     limit for runs that diverge */
    for (size_t i = 0; i < drawing->n; i++) {
        double from = last_thirds(&pairs[i]);
        tail train, eval;
        es_status status = measure_tail(&train, drawing, &pairs[i].train, from);
        if (status < 0 ||
            (status = measure_tail(&eval, drawing, &pairs[i].eval, from)) < 0)
            return status;
        bool diverges = train.rises || eval.rises;
        limits[diverges] = fmax(limits[diverges], fmax(train.high, eval.high));
    }
    *out = isnan(limits[0]) ? limits[1] : limits[0];
    return ES_OK;
}

static es_curve curve_of(const es_group_lines *lines, size_t color, es_pen pen)
{
    return (es_curve){.x = lines->mean.steps,
                      .values = lines->mean.values,
                      .n = lines->mean.n,
                      .pen = pen,
                      .color = color};
}

es_status es_draw_loss(es_picture **out, es_drawing *drawing)
{
    const es_figure_options *options = drawing->options;
    size_t n = drawing->n;
    bool trained = false, evaluated = false, ranges = false;
    pair *pairs;
    /* The array begins with the training lines, so that evaluations are drawn
     * on top of them. */
    es_curve *curves;
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
            (status = es_lines_spikes(&p->spikes, &p->train.mean, drawing)) <
                0 ||
            (status = es_lines_smooth(&p->train.mean, drawing)) < 0 ||
            (status = read_phase(&p->eval, drawing, i, ES_PHASE_EVAL, a_step)) <
                0)
            return status;
        size_t shown = p->eval.mean.n ? n + i : i;
        const es_group_lines *named = p->eval.mean.n ? &p->eval : &p->train;
        curves[i] = curve_of(&p->train, i,
                             p->eval.mean.n ? ES_PEN_THIN : ES_PEN_NORMAL);
        curves[i].spikes = p->spikes;
        curves[n + i] = curve_of(&p->eval, i, ES_PEN_DASHED);
        /* The label also counts runs whose training loss ended in NaN although
         * their evaluations are finite. */
        es_group_lines said = *named;
        if (p->train.n_nonfinite > said.n_nonfinite)
            said.n_nonfinite = p->train.n_nonfinite;
        curves[shown].label = es_group_label(p->label, drawing, i, &said);
        curves[shown].low = named->low.values;
        curves[shown].high = named->high.values;
        ranges = ranges || named->low.values;
        trained = trained || p->train.mean.n;
        evaluated = evaluated || p->eval.mean.n;
    }
    if (!trained && !evaluated)
        return es_fail(
            ES_ENOTFOUND, "no loss was recorded from step %lld to %lld",
            (long long)options->steps.first, (long long)options->steps.last);
    char note[256];
    es_curves_panel panel = {.curves = curves, .n_curves = 2 * n};
    es_curves figure = {.style = drawing->style,
                        .panels = &panel,
                        .n_panels = 1,
                        .y_text =
                            options->perplexity ? "perplexity" : "loss (nats)",
                        .logarithmic = options->logarithmic,
                        .x_text = options->tokens ? "tokens" : "step",
                        .colors = ES_CURVES_BY_CATEGORY,
                        .reference = NAN,
                        .note = note};
    char smoothed[64] = "";
    if (options->smooth > 0 && trained)
        snprintf(smoothed, sizeof smoothed,
                 "; training smoothed, window of %lld samples",
                 (long long)options->smooth);
    char ringed[64] = "";
    if (options->spikes > 0 && trained)
        snprintf(ringed, sizeof ringed,
                 "; rings: training spikes, window of %lld samples",
                 (long long)options->spikes);
    snprintf(note, sizeof note, "%s%s%s%s",
             trained && evaluated ? "solid: training; dashed: held-out data"
             : trained            ? "training"
                                  : "held-out data",
             smoothed, ringed,
             !ranges ? ""
             : trained && evaluated
                 ? "; mean over seeds, shaded: range on held-out data"
                 : "; mean and range over seeds");
    if (!figure.logarithmic && !options->full && !options->steps.given &&
        (status = choose_limit(&figure.limit, drawing, pairs)) < 0)
        return status;
    return es_curves_draw(out, &figure);
}
