/* The table of synthetic histories and how one of them is made by a seed. */
#include "samples/alerts/synthetic_internal.h"

#include "analyzer/base/value.h"
#include "analyzer/flags/bands.h"
#include <stdlib.h>

enum option {
    NO_CTX = 1,
    NO_PLAN = 2,
    MEANS = 4, /* a layer is one value, its mean */
    ONE_HEAD = 8,
    COMPLETE = 16, /* the run reached its plan, if it has one */
    ANY_HEADS = 32 /* three at least, else */
};

static const struct kind {
    const char *name;
    es_making_shape *shape;
    size_t least, most; /* samples */
    int options;
} kinds[] = {
    {"healthy", es_make_steady, 3, 300, ANY_HEADS},
    {"healthy, one sample or two", es_make_steady, 1, 2, ANY_HEADS},
    {"healthy, one head", es_make_dips, 40, 300, ONE_HEAD},
    {"healthy, means of layers", es_make_dips, 40, 300, MEANS},
    {"healthy, no ctx", es_make_low_dips, 40, 300, NO_CTX},
    {"dips", es_make_dips, 40, 300, ANY_HEADS},
    {"bursts to the ceiling", es_make_bursts, 40, 300, 0},
    {"warm-up at the ceiling", es_make_warm_up, 40, 300, 0},
    {"warm-up, no plan known", es_make_warm_up, 40, 300, NO_PLAN},
    {"a low layer from the start", es_make_low_layer, 20, 300, 0},
    {"a low layer with dips", es_make_low_dips, 40, 300, 0},
    {"slow fall to a low level", es_make_slow_fall, 40, 300, 0},
    {"sudden specialisation", es_make_phases, 40, 300, 0},
    {"waves", es_make_waves, 40, 300, ANY_HEADS},
    {"missing samples", es_make_gaps, 40, 300, 0},
    {"some heads measured", es_make_some_heads, 40, 300, 0},
    {"heads measured in turn", es_make_in_turn, 40, 300, 0},
    {"large logits, below 1000", es_make_logits_mild, 20, 200, 0},

    {"collapse", es_make_sudden, 30, 300, 0},
    {"collapse, one head", es_make_sudden, 30, 300, ONE_HEAD},
    {"collapse of exactly half", es_make_half, 30, 300, ANY_HEADS},
    {"collapse of all layers", es_make_all_dead, 30, 300, ANY_HEADS},
    {"slow decay to a collapse", es_make_decay, 60, 300, 0},
    {"collapse that flickers", es_make_jitter, 60, 300, 0},
    {"collapse of a low layer", es_make_dead_low_layer, 30, 300, 0},
    {"collapse from the start", es_make_from_start, 3, 200, ANY_HEADS},
    {"collapse, one sample or two", es_make_from_start, 1, 2, ANY_HEADS},
    {"collapse in the last samples", es_make_at_end, 20, 300, 0},
    {"late recovery", es_make_recovery, 60, 300, 0},
    {"collapse, missing samples", es_make_gaps_dead, 120, 300, 0},
    {"collapse, heads in turn", es_make_turn_dead, 120, 300, 0},
    {"collapse, no ctx", es_make_all_dead, 40, 300, NO_CTX},
    {"collapse, means of layers", es_make_all_dead, 40, 300, MEANS},
    {"collapse, then NaN", es_make_dead_then_nan, 30, 200, 0},

    {"NaN of one head once", es_make_nan_head, 3, 300, ANY_HEADS},
    {"NaN bursts", es_make_nan_burst, 30, 300, ANY_HEADS},
    {"NaN or infinite loss", es_make_nan_loss, 3, 300, ANY_HEADS},
    {"NaN rows counted", es_make_nan_rows, 3, 300, ANY_HEADS},
    {"NaN activations counted", es_make_nan_activations, 3, 300, ANY_HEADS},
    {"infinite logit", es_make_nan_logit, 3, 300, ANY_HEADS},
    {"NaN in the last sample", es_make_nan_end, 1, 200, ANY_HEADS},
    {"NaN from the first sample", es_make_nan_start, 1, 200, ANY_HEADS},
    {"NaN among missing values", es_make_nan_gaps, 30, 300, 0},

    {"overload", es_make_overload, 2, 300, COMPLETE},
    {"overload, no plan known", es_make_overload, 30, 300, NO_PLAN},
    {"overload that comes late", es_make_overload_late, 60, 300, 0},
    {"logits above 1000", es_make_logits, 20, 200, 0},
};

size_t es_synthetic_n_kinds(void)
{
    return sizeof kinds / sizeof *kinds;
}

const char *es_synthetic_kind(size_t kind)
{
    return kinds[kind].name;
}

bool es_truth_is_healthy(const es_truth *truth)
{
    return !truth->nan && !truth->collapse && !truth->overload &&
           !truth->logits;
}

static void draw_sizes(es_making *m, const struct kind *kind)
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

/* Strides with a gap now and then; a plan that was kept, or not yet. */
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

/* Fractions become nats, and where only they are recorded, means. */
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
    const struct kind *kind = &kinds[index % es_synthetic_n_kinds()];
    es_synthetic *out = calloc(1, sizeof *out);
    es_making m = {.random = seed << 32 ^ index, .history = out};
    if (!out)
        return NULL;
    out->kind = kind->name;
    out->truth.collapse_step = out->truth.nan_step = -1;
    draw_sizes(&m, kind);
    if (!allocate(out, m.n_values)) {
        es_synthetic_free(out);
        return NULL;
    }
    m.x = out->entropy;
    draw_steps(&m, kind->options);
    fill_others(&m);
    es_making_fill(&m, m.n < 20 ? 0 : es_making_between(&m, 0.02, 0.25));
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
