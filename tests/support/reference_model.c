/* Computes the forward pass of the model in double, as specified in
   analyzer/README.md. */
#include "tests/support/reference_internal.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double *es_ref_doubles(int n)
{
    double *out = calloc((size_t)n, sizeof *out);
    if (!out)
        abort();
    return out;
}

/* --- results -------------------------------------------------------------- */

es_ref_result *es_ref_result_new(const es_model_config *config)
{
    const int n = config->batch * config->ctx;
    const int n_rows = n * config->n_head * config->n_layer;
    es_ref_result *result = calloc(1, sizeof *result);
    result->logits = es_ref_doubles(n * config->vocab);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        result->rows[i] = es_ref_doubles(n_rows);
    result->c = es_ref_doubles(n_rows);
    const int n_values = config->n_layer * n * config->d_model;
    result->qkv = es_ref_doubles(3 * n_values);
    result->x = es_ref_doubles(n_values);
    result->residual = es_ref_doubles(n_values);
    return result;
}

void es_ref_result_free(es_ref_result *result)
{
    free(result->logits);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        free(result->rows[i]);
    free(result->c);
    free(result->qkv);
    free(result->x);
    free(result->residual);
    free(result);
}

void es_ref_note(es_ref_result *result, double distance)
{
    result->clearance = fmin(result->clearance, distance);
}

void es_ref_add_range(es_ref_result *result, const es_ref_model *ref,
                      es_range_kind range, const double *x, int n)
{
    double largest = 0, second = 0;
    for (int i = 0; i < n; i++) {
        second = fmax(second, fmin(fabs(x[i]), largest));
        largest = fmax(largest, fabs(x[i]));
    }
    if (!(ref->config.range_weight[range] > 0))
        return;
    result->range += ref->config.range_weight[range] * largest;
    es_ref_note(result, n > 1 ? (largest - second) / largest : INFINITY);
}

/* --- parts of a block ----------------------------------------------------- */

/* Writes LayerNorm `name` of x to y, or copies x if the architecture has no
 * LayerNorm. */
static void norm(double *y, const double *x, const es_ref_model *ref,
                 es_ref_result *result, const char *place)
{
    const int n = ref->config.batch * ref->config.ctx;
    const int d = ref->config.d_model;
    char name[64];
    snprintf(name, sizeof name, "%s.weight", place);
    const double *w = es_ref_model_array(ref, name);
    snprintf(name, sizeof name, "%s.bias", place);
    const double *b = es_ref_model_array(ref, name);
    if (w)
        es_ref_add_range(result, ref, ES_RANGE_NORM, x, n * d);
    memmove(y, x, (size_t)(n * d) * sizeof *y);
    for (int i = 0; w && i < n; i++, y += d) {
        double mean = 0, variance = 0;
        for (int c = 0; c < d; c++)
            mean += y[c] / d;
        for (int c = 0; c < d; c++)
            variance += (y[c] - mean) * (y[c] - mean) / d;
        for (int c = 0; c < d; c++)
            y[c] = (y[c] - mean) / sqrt(variance + ref->config.ln_eps) * w[c] +
                   b[c];
        es_ref_note(result, sqrt(variance) / 100);
    }
}

static void layer_norm(double *y, const double *x, const es_ref_model *ref,
                       es_ref_result *result, int layer, const char *place)
{
    char name[32];
    snprintf(name, sizeof name, "h.%d.%s", layer, place);
    norm(y, x, ref, result, name);
}

static int width_after(const es_ref_model *ref, const char *module)
{
    const int d = ref->config.d_model;
    if (strcmp(module, "attn.c_attn") == 0)
        return 3 * d;
    return strcmp(module, "mlp.c_fc") == 0 ? ref->config.mlp_mult * d : d;
}

static int width_before(const es_ref_model *ref, const char *module)
{
    const int d = ref->config.d_model;
    return strcmp(module, "mlp.c_proj") == 0 ? ref->config.mlp_mult * d : d;
}

void es_ref_apply(double *y, const double *x, const es_ref_model *ref,
                  int layer, const char *module, int n)
{
    const int n_in = width_before(ref, module);
    const int n_out = width_after(ref, module);
    char name[64];
    snprintf(name, sizeof name, "%s.bias", module);
    const double *bias = es_ref_of_layer(ref, layer, name);
    double *w = es_ref_weight(ref, layer, module);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_out; j++) {
            double sum = bias ? bias[j] : 0;
            for (int c = 0; c < n_in; c++)
                sum += x[i * n_in + c] * w[c * n_out + j];
            y[i * n_out + j] = sum;
        }
    free(w);
}

/* Computes y (N,d): the heads' outputs of attention on the normalised input
 * N1(x), multiplied by the output matrix. */
static void attention(double *y, const double *x, const es_ref_model *ref,
                      es_ref_result *result, int layer)
{
    const int n = ref->config.batch * ref->config.ctx, d = ref->config.d_model;
    double *u = es_ref_doubles(n * d), *qkv = es_ref_doubles(3 * n * d);
    layer_norm(u, x, ref, result, layer, "ln_1");
    es_ref_apply(qkv, u, ref, layer, "attn.c_attn", n);
    if (ref->config.family == ES_FAMILY_PYTHIA)
        es_ref_rotate(qkv, ref);
    memcpy(result->qkv + layer * 3 * n * d, qkv,
           (size_t)(3 * n * d) * sizeof *qkv);
    double *gate = es_ref_doubles(n * d), *heads = es_ref_doubles(n * d);
    es_ref_attend(heads, result, qkv, ref, layer);
    if (ref->config.arch.gate) {
        es_ref_apply(gate, u, ref, layer, "attn.c_gate", n);
        for (int i = 0; i < n * d; i++)
            heads[i] *= 1 / (1 + exp(-gate[i]));
    }
    es_ref_apply(y, heads, ref, layer, "attn.c_proj", n);
    free(u);
    free(qkv);
    free(gate);
    free(heads);
}

static double slope_of(const es_ref_model *ref, int layer)
{
    const double *own = es_ref_of_layer(ref, layer, "mlp.slope");
    const double *shared = es_ref_model_array(ref, "slope");
    const es_layer_parts parts = es_arch_parts(&ref->config.arch, layer);
    return own                                   ? *own
           : parts.slope_kind == ES_SLOPE_GLOBAL ? *shared
                                                 : parts.slope;
}

static double activate(double u, es_activation kind, double slope,
                       es_ref_result *result)
{
    if (kind == ES_ACT_RELU || kind == ES_ACT_LEAKY)
        es_ref_note(result, fabs(u));
    return es_ref_act(u, kind, slope);
}

/* Writes f (N,d) = FFN(N2(x)). */
static void feed_forward(double *f, const double *x, const es_ref_model *ref,
                         es_ref_result *result, int layer)
{
    const es_model_config *config = &ref->config;
    const int n = config->batch * config->ctx, d = config->d_model;
    const int inner = config->mlp_mult * d;
    const es_layer_parts parts = es_arch_parts(&config->arch, layer);
    const es_activation kind = parts.activation;
    double *u = es_ref_doubles(n * d), *wide = es_ref_doubles(n * inner);
    layer_norm(u, x, ref, result, layer, "ln_2");
    if (parts.ffn == ES_FFN_FUSED) {
        es_ref_apply(f, u, ref, layer, "mlp.w", n);
    } else {
        es_ref_apply(wide, u, ref, layer, "mlp.c_fc", n);
        if (kind != ES_ACT_LINEAR)
            es_ref_add_range(result, ref, ES_RANGE_ACT, wide, n * inner);
        const double slope = slope_of(ref, layer);
        for (int i = 0; i < n * inner; i++)
            wide[i] = activate(wide[i], kind, slope, result);
        es_ref_apply(f, wide, ref, layer, "mlp.c_proj", n);
    }
    free(u);
    free(wide);
}

/* --- the whole model ------------------------------------------------------ */

/* Runs x (N,d) through one layer. */
static void block(double *x, const es_ref_model *ref, es_ref_result *result,
                  int layer)
{
    const es_model_config *config = &ref->config;
    const int n = config->batch * config->ctx * config->d_model;
    const double *alpha = es_ref_of_layer(ref, layer, "mlp.alpha");
    const double *beta = es_ref_of_layer(ref, layer, "mlp.beta");
    const bool parallel = config->family == ES_FAMILY_PYTHIA;
    double *after = es_ref_doubles(n), *f = es_ref_doubles(n);
    attention(after, x, ref, result, layer);
    for (int i = 0; i < n; i++)
        after[i] += x[i];
    const bool has_ffn = es_arch_has_ffn(&config->arch, layer, config->n_layer);
    if (has_ffn)
        feed_forward(f, parallel ? x : after, ref, result, layer);
    for (int i = 0; i < n; i++) {
        after[i] *= has_ffn && beta ? *beta : 1;
        result->residual[layer * n + i] = after[i];
        after[i] += has_ffn ? f[i] / (alpha ? *alpha : 1) : 0;
        result->x[layer * n + i] = after[i];
    }
    memcpy(x, after, (size_t)n * sizeof *x);
    free(after);
    free(f);
}

static void embed(double *x, const es_ref_model *ref, const int32_t *tokens)
{
    const int T = ref->config.ctx, d = ref->config.d_model;
    const double *wte = es_ref_model_array(ref, "wte");
    const double *wpe = es_ref_model_array(ref, "wpe");
    for (int i = 0; i < ref->config.batch * T; i++)
        for (int c = 0; c < d; c++)
            x[i * d + c] =
                wte[tokens[i] * d + c] + (wpe ? wpe[i % T * d + c] : 0);
}

static double cross_entropy(const double *logits, int target, int n)
{
    double largest = logits[0], sum = 0;
    for (int v = 0; v < n; v++)
        largest = fmax(largest, logits[v]);
    for (int v = 0; v < n; v++)
        sum += exp(logits[v] - largest);
    return log(sum) + largest - logits[target];
}

/* Normalises x (N,d) in place, writes the logits and returns the mean
 * cross-entropy. */
static double judge(double *x, const es_ref_model *ref, es_ref_result *result,
                    const int32_t *targets)
{
    const es_model_config *config = &ref->config;
    const int n = config->batch * config->ctx, d = config->d_model;
    const int V = config->vocab;
    const double *matrix = es_ref_model_array(
        ref, config->family == ES_FAMILY_PYTHIA ? "embed_out" : "wte");
    double ce = 0;
    norm(x, x, ref, result, "ln_f");
    for (int i = 0; i < n; i++) {
        double *row = result->logits + i * V;
        for (int v = 0; v < V; v++) {
            row[v] = 0;
            for (int c = 0; c < d; c++)
                row[v] += x[i * d + c] * matrix[v * d + c];
        }
        ce += cross_entropy(row, targets[i], V) / n;
    }
    /* A loss near 0 is treated like a point without derivative, because float32
     * loses the digits of 1 - p. */
    es_ref_note(result, ce / 100);
    return ce;
}

void es_ref_model_run(const es_ref_model *ref, es_ref_result *result,
                      const int32_t *tokens, const int32_t *targets)
{
    const es_model_config *config = &ref->config;
    double *x = es_ref_doubles(config->batch * config->ctx * config->d_model);
    result->clearance = INFINITY;
    result->range = 0;
    embed(x, ref, tokens);
    for (int layer = 0; layer < config->n_layer; layer++)
        block(x, ref, result, layer);
    result->ce = judge(x, ref, result, targets);
    result->ereg = config->arch.entropy_reg ? es_ref_penalty(ref, result) : 0;
    result->loss = result->ce + config->lambda * result->ereg + result->range;
    free(x);
}

double es_ref_model_difference(const es_ref_model *ref, es_ref_result *result,
                               const int32_t *tokens, const int32_t *targets,
                               double *const *at, const double *direction,
                               size_t n)
{
    const double step = 1e-6;
    const es_ref_result kept = *result;
    double *values = es_ref_doubles((int)n), loss[2];
    for (size_t i = 0; i < n; i++)
        values[i] = *at[i];
    result->c_is_given = true;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            *at[i] = values[i] + (side ? -step : step) * direction[i];
        es_ref_model_run(ref, result, tokens, targets);
        loss[side] = result->loss;
    }
    for (size_t i = 0; i < n; i++)
        *at[i] = values[i];
    free(values);
    *result = kept; /* restores the results that are scalars; the arrays of
                       results keep the values of the last pass */
    return (loss[0] - loss[1]) / (2 * step);
}

bool es_ref_model_is_frozen(const es_ref_model *ref, size_t index, size_t entry)
{
    const char *name = ref->names[index];
    const size_t n_q_and_k = 2 * (size_t)ref->config.d_model;
    if (es_ref_is_state(name))
        return true;
    return ref->config.bias == ES_BIAS_QK && strstr(name, "c_attn.bias") &&
           entry >= n_q_and_k;
}

double es_ref_model_gradient(const es_ref_model *ref, es_ref_result *result,
                             const int32_t *tokens, const int32_t *targets,
                             size_t index, size_t entry)
{
    double *at = &ref->values[index][entry];
    if (es_ref_model_is_frozen(ref, index, entry))
        return 0;
    return es_ref_model_difference(ref, result, tokens, targets, &at,
                                   &(double){1}, 1);
}
