/* Makes one synthetic history from a seed and writes the history as a run file.
 */
#include "samples/alerts/synthetic_internal.h"

#include "analyzer/base/value.h"
#include "analyzer/heads/bands.h"
#include <stdio.h>
#include <stdlib.h>

bool es_truth_is_healthy(const es_truth *truth)
{
    return !truth->nan && !truth->collapse && !truth->overload &&
           !truth->logits;
}

static void draw_sizes(es_making *m, const es_synthetic_row *kind)
{
    static const int contexts[] = {32, 128, 128, 256, 1024};
    es_synthetic *out = m->history;
    bool any = kind->options & ANY_HEADS;
    m->n_heads = es_making_count(m, any ? 1 : 3, ES_SYNTHETIC_HEADS);
    if (kind->options & ONE_HEAD)
        m->n_heads = 1;
    m->n_layers = es_making_count(m, any ? 1 : 3, ES_SYNTHETIC_LAYERS);
    if (m->n_layers == m->n_heads && m->n_layers > 3)
        m->n_layers--;
    m->n_values = m->n_layers * m->n_heads;
    m->n = out->n_samples = es_making_count(m, kind->least, kind->most);
    out->n_entropy = m->n_values;
    out->run.n_layers = (int)m->n_layers;
    out->run.n_heads = (int)m->n_heads;
    out->run.ctx = contexts[es_making_below(m, 5)];
}

static bool allocate(es_synthetic *out, size_t n_values)
{
    size_t n = out->n_samples, n_layers = (size_t)out->run.n_layers;
    out->steps = calloc(n, sizeof *out->steps);
    out->entropy = calloc(n * n_values, sizeof(float));
    out->max_logit = calloc(n * n_values, sizeof(float));
    out->nonfinite_rows = calloc(n * n_values, sizeof(float));
    out->nan_activations = calloc(n * n_layers, sizeof(float));
    out->loss = calloc(n, sizeof(float));
    return out->steps && out->entropy && out->max_logit &&
           out->nonfinite_rows && out->nan_activations && out->loss;
}

/* Draws the samples' step numbers, with occasional gaps, and the planned number
   of steps, which may exceed the last step. */
static void draw_steps(es_making *m, int options)
{
    static const int64_t strides[] = {1, 5, 20, 100};
    es_synthetic *out = m->history;
    int64_t stride = strides[es_making_below(m, 4)], step = 0;
    for (size_t i = 0; i < m->n; i++) {
        out->steps[i] = step;
        step += stride * (es_making_below(m, 30) ? 1 : 3);
    }
    if (options & NO_PLAN)
        return;
    out->run.planned_steps = out->steps[m->n - 1] + 1;
    if (!(options & COMPLETE) && es_making_below(m, 2))
        out->run.planned_steps =
            (int64_t)((double)step * es_making_between(m, 1, 3));
}

static void fill_others(es_making *m)
{
    es_synthetic *out = m->history;
    for (size_t i = 0; i < m->n; i++) {
        double done = (double)i / (double)m->n;
        out->loss[i] =
            (float)(2.7 + 8 * exp(-6 * done) + 0.1 * es_making_normal(m));
        if (es_making_below(m, 20) == 0)
            out->loss[i] = es_missing();
    }
    for (size_t i = 0; i < m->n * m->n_values; i++)
        out->max_logit[i] = (float)es_making_between(m, 2, 40);
}

/* Converts entropies from fractions of the ceiling to nats. If the history
   records only layer means, also replaces the heads by their layer's mean. */
static void finish(es_making *m, int options)
{
    es_synthetic *out = m->history;
    double ceiling = es_ceiling(out->run.ctx);
    size_t n_rows = m->n * m->n_layers;
    for (size_t i = 0; i < m->n * m->n_values; i++)
        if (isfinite(m->x[i]))
            m->x[i] = (float)(m->x[i] * ceiling);
    for (size_t row = 0; options & MEANS && row < n_rows; row++) {
        double sum = 0;
        for (size_t h = 0; h < m->n_heads; h++)
            sum += m->x[row * m->n_heads + h];
        out->entropy[row] = (float)(sum / (double)m->n_heads);
    }
    if (options & MEANS)
        out->n_entropy = m->n_layers;
    if (options & NO_CTX)
        out->run.ctx = 0;
}

es_synthetic *es_synthetic_new(uint64_t seed, size_t index)
{
    const es_synthetic_row *kind =
        &es_synthetic_kinds[index % ES_SYNTHETIC_N_KINDS];
    es_synthetic *out = calloc(1, sizeof *out);
    es_making m = {.random = seed << 32 ^ index, .history = out};
    if (!out)
        return NULL;
    out->kind = kind->name;
    out->truth = (es_truth){.nan = kind->options & NONFINITE,
                            .collapse = kind->options & COLLAPSE,
                            .collapse_stands = kind->options & STANDS,
                            .overload = kind->options & OVERLOAD,
                            .logits = kind->options & LOGITS};
    draw_sizes(&m, kind);
    if (!allocate(out, m.n_values)) {
        es_synthetic_free(out);
        return NULL;
    }
    m.x = out->entropy;
    draw_steps(&m, kind->options);
    fill_others(&m);
    es_making_fill(&m, m.n < 20 ? 0 : es_making_between(&m, 0.02, 0.25));
    if (kind->shape)
        kind->shape(&m);
    finish(&m, kind->options);
    return out;
}

void es_synthetic_free(es_synthetic *history)
{
    if (!history)
        return;
    free(history->steps);
    free(history->entropy);
    free(history->max_logit);
    free(history->nonfinite_rows);
    free(history->nan_activations);
    free(history->loss);
    free(history);
}

static es_status write_series(es_writer *writer, int64_t run,
                              const es_synthetic *of, const char *name,
                              es_shape shape, const float *values, size_t n)
{
    int64_t id;
    bool any = false;
    for (size_t i = 0; i < of->n_samples * n && !any; i++)
        any = values[i] != 0;
    if (!any) /* like some recorders, omit counts that are all zero */
        return ES_OK;
    es_status status =
        es_writer_series(writer, &id, run, name, shape, ES_PHASE_TRAIN, NULL);
    for (size_t i = 0; i < of->n_samples && status == ES_OK; i++)
        status = es_writer_sample(writer, id, of->steps[i], values + i * n, n);
    return status;
}

static es_status write_all(es_writer *writer, int64_t run,
                           const es_synthetic *of)
{
    size_t n_layers = (size_t)of->run.n_layers;
    size_t n = n_layers * (size_t)of->run.n_heads;
    const struct {
        const char *name;
        es_shape shape;
        const float *values;
        size_t n;
    } series[] = {
        {"entropy", of->n_entropy == n ? ES_SHAPE_HEAD : ES_SHAPE_LAYER,
         of->entropy, of->n_entropy},
        {"max_logit", ES_SHAPE_HEAD, of->max_logit, n},
        {"nonfinite_rows", ES_SHAPE_HEAD, of->nonfinite_rows, n},
        {"nan_activations", ES_SHAPE_LAYER, of->nan_activations, n_layers},
        {"loss", ES_SHAPE_RUN, of->loss, 1},
    };
    es_status status = ES_OK;
    for (size_t i = 0; i < sizeof series / sizeof *series && !status; i++)
        status = write_series(writer, run, of, series[i].name, series[i].shape,
                              series[i].values, series[i].n);
    return status;
}

es_status es_synthetic_write(es_writer *writer, const es_synthetic *history,
                             const char *name)
{
    char config[64] = "{}";
    int64_t run;
    int64_t planned = history->run.planned_steps, ctx = history->run.ctx;
    if (planned > 0)
        snprintf(config, sizeof config, "{\"steps\":%lld}", (long long)planned);
    const es_run_info info = {
        .name = name,
        .config = config,
        .program = "entropy-scan import", /* imported runs are checked for flags
                                             even if they are short */
        .n_layer = history->run.n_layers,
        .n_head = history->run.n_heads,
        .ctx = ctx > 0 ? ctx : ES_UNKNOWN,
        .d_model = ES_UNKNOWN,
        .vocab = ES_UNKNOWN,
        .batch = ES_UNKNOWN,
        .seed = ES_UNKNOWN,
    };
    es_status status;
    if ((status = es_writer_begin(writer)) == ES_OK &&
        (status = es_writer_run(writer, &run, &info, 0)) == ES_OK &&
        (status = write_all(writer, run, history)) == ES_OK &&
        (status = es_writer_end_run(writer, run, ES_RUN_FINISHED)) == ES_OK)
        return es_writer_commit(writer);
    es_writer_rollback(writer);
    return status;
}
