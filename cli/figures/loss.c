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

enum {
    LINE_LEAST = 4
}; /* minimum number of samples that are drawn as a line;
      fewer are drawn as markers */

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

/*
 * Chooses the upper limit of the y axis so that a single huge loss does not
 * flatten all other values. With d as the distance between the 5% and the 95%
 * quantile, the limit is the largest value that is at most 3 d above the 95%
 * quantile. Sets *out to NaN if no value is higher, so that no limit is needed.
 */
static es_status choose_limit(double *out, es_drawing *drawing,
                              const pair *pairs)
{
    size_t n_values = 0;
    es_distribution all;
    float *values;
    for (size_t i = 0; i < drawing->n; i++)
        n_values += pairs[i].train.mean.n + pairs[i].eval.mean.n;
    es_status status = es_drawing_array(drawing, &values, n_values * 2);
    if (status < 0)
        return status;
    float *end = values;
    for (size_t i = 0; i < 2 * drawing->n; i++) {
        const pair *p = &pairs[i / 2];
        const es_run_lines *lines = i % 2 ? &p->eval.mean : &p->train.mean;
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
        curves[n + i] = curve_of(&p->eval, i,
                                 p->eval.mean.n < LINE_LEAST ? ES_PEN_MARKS
                                                             : ES_PEN_STRONG);
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
             trained && evaluated
                 ? "thin lines: training; markers: held-out data"
             : trained ? "training"
                       : "held-out data",
             smoothed, ringed,
             !ranges ? ""
             : trained && evaluated
                 ? "; mean over seeds, shaded: range on held-out data"
                 : "; mean and range over seeds");
    if (!figure.logarithmic &&
        (status = choose_limit(&figure.limit, drawing, pairs)) < 0)
        return status;
    return es_curves_draw(out, &figure);
}
