/* Lists the parameter arrays of a model, in the order of a checkpoint. */
#include "tests/support/reference_internal.h"
#include "tests/support/test.h"

#include <stdarg.h>

enum { ARRAYS_OF_LAYER = 40 };

ES_PRINTF(4, 5)
static void add(es_ref_model *ref, int rows, int columns, const char *fmt, ...)
{
    va_list args;
    size_t i = ref->n_arrays++, n = (size_t)rows;
    va_start(args, fmt);
    vsnprintf(ref->names[i], sizeof ref->names[i], fmt, args);
    va_end(args);
    ref->dims[i][0] = rows;
    ref->dims[i][1] = columns;
    ref->sizes[i] = n * (columns ? (size_t)columns : 1);
    ref->values[i] = calloc(ref->sizes[i], sizeof *ref->values[i]);
}

static void add_norm(es_ref_model *ref, const char *place)
{
    add(ref, ref->config.d_model, 0, "%s.weight", place);
    add(ref, ref->config.d_model, 0, "%s.bias", place);
}

static void add_attention(es_ref_model *ref, int l)
{
    const es_model_config *config = &ref->config;
    const int d = config->d_model;
    add(ref, d, 3 * d, "h.%d.attn.c_attn.weight", l);
    if (config->bias != ES_BIAS_NONE)
        add(ref, 3 * d, 0, "h.%d.attn.c_attn.bias", l);
    add(ref, d, d, "h.%d.attn.c_proj.weight", l);
    if (config->bias == ES_BIAS_ALL)
        add(ref, d, 0, "h.%d.attn.c_proj.bias", l);
    if (config->arch.gate)
        add(ref, d, d, "h.%d.attn.c_gate.weight", l);
    if (config->arch.temperature)
        add(ref, config->n_head, config->ctx,
            config->arch.direct ? "h.%d.attn.t" : "h.%d.attn.log_t", l);
    if (config->arch.entropy_reg)
        add(ref, config->n_head, 0, "h.%d.attn.theta", l);
}

static void add_ffn(es_ref_model *ref, int l)
{
    const es_model_config *config = &ref->config;
    const es_layer_parts parts = es_arch_parts(&config->arch, l);
    const int d = config->d_model, inner = config->mlp_mult * d;
    const bool biased = config->bias == ES_BIAS_ALL;
    if (parts.ffn == ES_FFN_FUSED) {
        add(ref, d, d, "h.%d.mlp.w.weight", l);
    } else {
        add(ref, d, inner, "h.%d.mlp.c_fc.weight", l);
        if (biased)
            add(ref, inner, 0, "h.%d.mlp.c_fc.bias", l);
        add(ref, inner, d, "h.%d.mlp.c_proj.weight", l);
        if (biased)
            add(ref, d, 0, "h.%d.mlp.c_proj.bias", l);
    }
    if (parts.ffn != ES_FFN_TWO) {
        add(ref, 1, 0, "h.%d.mlp.alpha", l);
        add(ref, 1, 0, "h.%d.mlp.beta", l);
    }
    if (parts.activation == ES_ACT_LEAKY && parts.slope_kind == ES_SLOPE_LAYER)
        add(ref, 1, 0, "h.%d.mlp.slope", l);
}

static void add_g(es_ref_model *ref, int l, bool has_ffn)
{
    const es_layer_parts parts = es_arch_parts(&ref->config.arch, l);
    const int d = ref->config.d_model, inner = ref->config.mlp_mult * d;
    if (parts.weight_norm & (ES_NORM_QK | ES_NORM_V))
        add(ref, 3 * d, 0, "h.%d.attn.c_attn.g", l);
    if (parts.weight_norm & ES_NORM_O)
        add(ref, d, 0, "h.%d.attn.c_proj.g", l);
    if (!has_ffn || !(parts.weight_norm & ES_NORM_FFN))
        return;
    if (parts.ffn == ES_FFN_FUSED) {
        add(ref, d, 0, "h.%d.mlp.w.g", l);
    } else {
        add(ref, inner, 0, "h.%d.mlp.c_fc.g", l);
        add(ref, d, 0, "h.%d.mlp.c_proj.g", l);
    }
}

static void add_vectors(es_ref_model *ref, int l, const char *module, int n_in,
                        int n_out)
{
    add(ref, n_out, 0, "h.%d.%s.u", l, module);
    add(ref, n_in, 0, "h.%d.%s.v", l, module);
}

static void add_state(es_ref_model *ref, int l, bool has_ffn)
{
    const es_layer_parts parts = es_arch_parts(&ref->config.arch, l);
    const int d = ref->config.d_model, inner = ref->config.mlp_mult * d;
    if (parts.spectral_norm & (ES_NORM_QK | ES_NORM_V)) {
        add(ref, 3, d, "h.%d.attn.c_attn.u", l);
        add(ref, 3, d, "h.%d.attn.c_attn.v", l);
    }
    if (parts.spectral_norm & ES_NORM_O)
        add_vectors(ref, l, "attn.c_proj", d, d);
    if (!has_ffn || !(parts.spectral_norm & ES_NORM_FFN))
        return;
    if (parts.ffn == ES_FFN_FUSED) {
        add_vectors(ref, l, "mlp.w", d, d);
    } else {
        add_vectors(ref, l, "mlp.c_fc", d, inner);
        add_vectors(ref, l, "mlp.c_proj", inner, d);
    }
}

static void add_layer(es_ref_model *ref, int l)
{
    const es_arch *arch = &ref->config.arch;
    const bool has_norm = es_arch_parts(arch, l).norm;
    const bool has_ffn = es_arch_has_ffn(arch, l, ref->config.n_layer);
    char place[32];
    snprintf(place, sizeof place, "h.%d.ln_1", l);
    if (has_norm)
        add_norm(ref, place);
    snprintf(place, sizeof place, "h.%d.ln_2", l);
    if (has_norm && has_ffn)
        add_norm(ref, place);
    add_attention(ref, l);
    if (has_ffn)
        add_ffn(ref, l);
    add_g(ref, l, has_ffn);
    add_state(ref, l, has_ffn);
}

es_ref_model *es_ref_model_new(const es_model_config *config)
{
    const size_t most = (size_t)(config->n_layer + 1) * ARRAYS_OF_LAYER;
    const bool gpt2 = config->family == ES_FAMILY_GPT2;
    es_ref_model *ref = calloc(1, sizeof *ref);
    ref->config = *config;
    ref->names = calloc(most, sizeof *ref->names);
    ref->dims = calloc(most, sizeof *ref->dims);
    ref->sizes = calloc(most, sizeof *ref->sizes);
    ref->values = calloc(most, sizeof *ref->values);
    add(ref, config->vocab, config->d_model, "wte");
    if (gpt2)
        add(ref, config->ctx, config->d_model, "wpe");
    for (int l = 0; l < config->n_layer; l++)
        add_layer(ref, l);
    if (config->arch.slope_kind == ES_SLOPE_GLOBAL)
        add(ref, 1, 0, "slope");
    if (!gpt2)
        add(ref, config->vocab, config->d_model, "embed_out");
    if (config->final_norm == ES_FINAL_ON ||
        (config->final_norm == ES_FINAL_AUTO && config->arch.layer_norm))
        add_norm(ref, "ln_f");
    return ref;
}

static void copy_array(es_ref_model *ref, es_model *model, size_t i)
{
    const es_parameter parameter = es_model_parameter(model, i);
    AUTO_FREE float *from = calloc(parameter.n, sizeof *from);
    if (strcmp(parameter.name, ref->names[i]) != 0 ||
        parameter.n != ref->sizes[i])
        fail_msg("array %zu is %s with %zu numbers, not %s with %zu", i,
                 parameter.name, parameter.n, ref->names[i], ref->sizes[i]);
    es_assert_ok(es_model_get(model, i, from, parameter.n));
    for (size_t j = 0; j < parameter.n; j++)
        ref->values[i][j] = (double)from[j];
}

es_ref_model *es_ref_model_copy(es_model *model)
{
    es_ref_model *ref = es_ref_model_new(es_model_config_of(model));
    if (es_model_n_arrays(model) != ref->n_arrays)
        fail_msg("the model has %zu arrays, not %zu", es_model_n_arrays(model),
                 ref->n_arrays);
    for (size_t i = 0; i < ref->n_arrays; i++)
        copy_array(ref, model, i);
    return ref;
}

void es_ref_model_free(es_ref_model *ref)
{
    for (size_t i = 0; i < ref->n_arrays; i++)
        free(ref->values[i]);
    free(ref->values);
    free(ref->sizes);
    free(ref->dims);
    free(ref->names);
    free(ref);
}

double *es_ref_model_array(const es_ref_model *ref, const char *name)
{
    for (size_t i = 0; i < ref->n_arrays; i++)
        if (strcmp(ref->names[i], name) == 0)
            return ref->values[i];
    return NULL;
}

bool es_ref_is_state(const char *name)
{
    const size_t n = strlen(name);
    return strcmp(name + n - 2, ".u") == 0 || strcmp(name + n - 2, ".v") == 0;
}

void es_ref_model_round(es_ref_model *ref)
{
    for (size_t i = 0; i < ref->n_arrays; i++)
        for (size_t j = 0; j < ref->sizes[i]; j++)
            ref->values[i][j] = (double)(float)ref->values[i][j];
}

double *es_ref_of_layer(const es_ref_model *ref, int layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "h.%d.%s", layer, name);
    return es_ref_model_array(ref, full);
}
