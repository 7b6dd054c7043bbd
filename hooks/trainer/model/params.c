/* Every parameter of a configuration: name, shape, place and start. */
#include "hooks/trainer/model/params.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Floats in 64 bytes: a cache line and the widest vector. */
#define ALIGNMENT 16

typedef bool condition(const es_model_config *config, int layer);

/* --- when there is such an array ------------------------------------------ */

static bool always(const es_model_config *config, int layer)
{
    (void)config;
    (void)layer;
    return true;
}

static bool is_gpt2(const es_model_config *config, int layer)
{
    (void)layer;
    return config->family == ES_FAMILY_GPT2;
}

static bool is_pythia(const es_model_config *config, int layer)
{
    return !is_gpt2(config, layer);
}

static bool has_norm(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.layer_norm;
}

static bool has_ffn(const es_model_config *config, int layer)
{
    return layer < config->n_layer - config->arch.n_removed;
}

static bool has_ffn_norm(const es_model_config *config, int layer)
{
    return has_norm(config, layer) && has_ffn(config, layer);
}

static bool has_final_norm(const es_model_config *config, int layer)
{
    (void)layer;
    return es_model_config_final_norm(config);
}

static bool has_qk_bias(const es_model_config *config, int layer)
{
    (void)layer;
    return config->bias != ES_BIAS_NONE;
}

static bool has_all_biases(const es_model_config *config, int layer)
{
    (void)layer;
    return config->bias == ES_BIAS_ALL;
}

static bool has_t(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.temperature;
}

static bool has_theta(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.entropy_reg;
}

static bool has_two(const es_model_config *config, int layer)
{
    return config->arch.ffn != ES_FFN_FUSED && has_ffn(config, layer);
}

static bool has_two_biases(const es_model_config *config, int layer)
{
    return has_two(config, layer) && has_all_biases(config, layer);
}

static bool has_fused(const es_model_config *config, int layer)
{
    return config->arch.ffn == ES_FFN_FUSED && has_ffn(config, layer);
}

static bool has_scales(const es_model_config *config, int layer)
{
    return config->arch.ffn != ES_FFN_TWO && has_ffn(config, layer);
}

static bool has_slope(const es_model_config *config, es_slope_kind kind)
{
    return config->arch.activation == ES_ACT_LEAKY &&
           config->arch.slope_kind == kind;
}

static bool has_layer_slope(const es_model_config *config, int layer)
{
    return has_slope(config, ES_SLOPE_LAYER) && has_ffn(config, layer);
}

static bool has_global_slope(const es_model_config *config, int layer)
{
    (void)layer;
    return has_slope(config, ES_SLOPE_GLOBAL);
}

static bool has_attn_g(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.weight_norm & ES_NORM_QK;
}

static bool has_proj_g(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.weight_norm & ES_NORM_O;
}

static bool has_two_g(const es_model_config *config, int layer)
{
    return (config->arch.weight_norm & ES_NORM_FFN) && has_two(config, layer);
}

static bool has_fused_g(const es_model_config *config, int layer)
{
    return (config->arch.weight_norm & ES_NORM_FFN) && has_fused(config, layer);
}

static bool has_attn_u(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.spectral_norm & ES_NORM_QK;
}

static bool has_proj_u(const es_model_config *config, int layer)
{
    (void)layer;
    return config->arch.spectral_norm & ES_NORM_O;
}

static bool has_two_u(const es_model_config *config, int layer)
{
    return (config->arch.spectral_norm & ES_NORM_FFN) && has_two(config, layer);
}

static bool has_fused_u(const es_model_config *config, int layer)
{
    return (config->arch.spectral_norm & ES_NORM_FFN) &&
           has_fused(config, layer);
}

/* --- the table ------------------------------------------------------------ */

/* Shapes, one letter an extent: V, T, H; d; m = md; 3 = 3d; k = 3 (the groups
 * q, k, v); 1. */
typedef struct row {
    const char *name; /* inside a layer: what follows "h.L." */
    const char *shape;
    condition *when;
    es_init init;
} row;

static const row rows[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {"wte", "Vd", always, ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {"wpe", "Td", is_gpt2, ES_INIT_NORMAL},
    [ES_ROLE_LN_1_WEIGHT] = {"ln_1.weight", "d", has_norm, ES_INIT_ONE},
    [ES_ROLE_LN_1_BIAS] = {"ln_1.bias", "d", has_norm, ES_INIT_ZERO},
    [ES_ROLE_LN_2_WEIGHT] = {"ln_2.weight", "d", has_ffn_norm, ES_INIT_ONE},
    [ES_ROLE_LN_2_BIAS] = {"ln_2.bias", "d", has_ffn_norm, ES_INIT_ZERO},
    [ES_ROLE_ATTN_WEIGHT] = {"attn.c_attn.weight", "d3", always,
                             ES_INIT_NORMAL},
    [ES_ROLE_ATTN_BIAS] = {"attn.c_attn.bias", "3", has_qk_bias, ES_INIT_ZERO},
    [ES_ROLE_PROJ_WEIGHT] = {"attn.c_proj.weight", "dd", always,
                             ES_INIT_NORMAL},
    [ES_ROLE_PROJ_BIAS] = {"attn.c_proj.bias", "d", has_all_biases,
                           ES_INIT_ZERO},
    [ES_ROLE_T] = {"attn.t", "HT", has_t, ES_INIT_T},
    [ES_ROLE_THETA] = {"attn.theta", "H", has_theta, ES_INIT_THETA},
    [ES_ROLE_FC_WEIGHT] = {"mlp.c_fc.weight", "dm", has_two, ES_INIT_NORMAL},
    [ES_ROLE_FC_BIAS] = {"mlp.c_fc.bias", "m", has_two_biases, ES_INIT_ZERO},
    [ES_ROLE_MLP_PROJ_WEIGHT] = {"mlp.c_proj.weight", "md", has_two,
                                 ES_INIT_NORMAL},
    [ES_ROLE_MLP_PROJ_BIAS] = {"mlp.c_proj.bias", "d", has_two_biases,
                               ES_INIT_ZERO},
    [ES_ROLE_FUSED_WEIGHT] = {"mlp.w.weight", "dd", has_fused, ES_INIT_NORMAL},
    [ES_ROLE_ALPHA] = {"mlp.alpha", "1", has_scales, ES_INIT_ONE},
    [ES_ROLE_BETA] = {"mlp.beta", "1", has_scales, ES_INIT_ONE},
    [ES_ROLE_SLOPE] = {"mlp.slope", "1", has_layer_slope, ES_INIT_SLOPE},
    [ES_ROLE_ATTN_G] = {"attn.c_attn.g", "3", has_attn_g, ES_INIT_NORMS},
    [ES_ROLE_PROJ_G] = {"attn.c_proj.g", "d", has_proj_g, ES_INIT_NORMS},
    [ES_ROLE_FC_G] = {"mlp.c_fc.g", "m", has_two_g, ES_INIT_NORMS},
    [ES_ROLE_MLP_PROJ_G] = {"mlp.c_proj.g", "d", has_two_g, ES_INIT_NORMS},
    [ES_ROLE_FUSED_G] = {"mlp.w.g", "d", has_fused_g, ES_INIT_NORMS},
    [ES_ROLE_ATTN_U] = {"attn.c_attn.u", "kd", has_attn_u, ES_INIT_POWER},
    [ES_ROLE_ATTN_V] = {"attn.c_attn.v", "kd", has_attn_u, ES_INIT_POWER},
    [ES_ROLE_PROJ_U] = {"attn.c_proj.u", "d", has_proj_u, ES_INIT_POWER},
    [ES_ROLE_PROJ_V] = {"attn.c_proj.v", "d", has_proj_u, ES_INIT_POWER},
    [ES_ROLE_FC_U] = {"mlp.c_fc.u", "m", has_two_u, ES_INIT_POWER},
    [ES_ROLE_FC_V] = {"mlp.c_fc.v", "d", has_two_u, ES_INIT_POWER},
    [ES_ROLE_MLP_PROJ_U] = {"mlp.c_proj.u", "d", has_two_u, ES_INIT_POWER},
    [ES_ROLE_MLP_PROJ_V] = {"mlp.c_proj.v", "m", has_two_u, ES_INIT_POWER},
    [ES_ROLE_FUSED_U] = {"mlp.w.u", "d", has_fused_u, ES_INIT_POWER},
    [ES_ROLE_FUSED_V] = {"mlp.w.v", "d", has_fused_u, ES_INIT_POWER},
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", has_global_slope, ES_INIT_SLOPE},
    [ES_ROLE_EMBED_OUT] = {"embed_out", "Vd", is_pythia, ES_INIT_NORMAL},
    [ES_ROLE_LN_F_WEIGHT] = {"ln_f.weight", "d", has_final_norm, ES_INIT_ONE},
    [ES_ROLE_LN_F_BIAS] = {"ln_f.bias", "d", has_final_norm, ES_INIT_ZERO},
};

bool es_model_config_final_norm(const es_model_config *config)
{
    if (config->final_norm == ES_FINAL_AUTO)
        return config->arch.layer_norm;
    return config->final_norm == ES_FINAL_ON;
}

static int extent(char letter, const es_model_config *config)
{
    switch (letter) {
    case 'V':
        return config->vocab;
    case 'T':
        return config->ctx;
    case 'H':
        return config->n_head;
    case 'd':
        return config->d_model;
    case 'm':
        return config->mlp_mult * config->d_model;
    case '3':
        return 3 * config->d_model;
    case 'k':
        return 3;
    default:
        return 1;
    }
}

/* Only leading entries are ever trained alone: q and k stand before v. */
static size_t count_trainable(const es_param *param,
                              const es_model_config *config)
{
    size_t q_and_k = 2 * (size_t)config->d_model;
    if (param->group == ES_GROUP_STATE)
        return 0;
    if (param->role == ES_ROLE_ATTN_BIAS && config->bias == ES_BIAS_QK)
        return q_and_k;
    if (param->role == ES_ROLE_ATTN_G &&
        !(config->arch.weight_norm & ES_NORM_V))
        return q_and_k;
    return param->n;
}

static es_param_group group_of(es_init init)
{
    switch (init) {
    case ES_INIT_NORMAL:
        return ES_GROUP_DECAY;
    case ES_INIT_SLOPE:
        return ES_GROUP_SLOPE;
    case ES_INIT_POWER:
        return ES_GROUP_STATE;
    default:
        return ES_GROUP_PLAIN;
    }
}

static void add(es_params *params, const es_model_config *config, es_role role,
                int layer)
{
    const row *from = &rows[role];
    es_param *param = &params->table[params->n];
    *param = (es_param){.role = role,
                        .layer = layer,
                        .n_dims = (int)strlen(from->shape),
                        .dims = {1, 1},
                        .n = 1,
                        .group = group_of(from->init),
                        .init = from->init};
    if (layer < 0)
        snprintf(param->name, sizeof param->name, "%s", from->name);
    else
        snprintf(param->name, sizeof param->name, "h.%d.%s", layer, from->name);
    for (int i = 0; i < param->n_dims; i++) {
        param->dims[i] = extent(from->shape[i], config);
        param->n *= (size_t)param->dims[i];
    }
    param->n_trainable = count_trainable(param, config);
    params->at[layer < 0 ? config->n_layer : layer][role] = (int)params->n++;
}

static void add_range(es_params *params, const es_model_config *config,
                      es_role first, es_role last, int layer)
{
    for (int role = (int)first; role <= (int)last; role++)
        if (rows[role].when(config, layer))
            add(params, config, (es_role)role, layer);
}

/* Gives every array its place; false if the sizes overflow. */
static bool place(es_params *params)
{
    size_t end = 0;
    for (int group = 0; group < ES_N_GROUPS; group++) {
        params->group[group] = end;
        for (size_t i = 0; i < params->n; i++) {
            es_param *param = &params->table[i];
            if ((int)param->group != group)
                continue;
            param->offset = end;
            /* One array's size is bounded by es_model_config_check. */
            size_t padded = (param->n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            if (!es_size_add(&end, end, padded))
                return false;
        }
    }
    params->group[ES_N_GROUPS] = end;
    return true;
}

es_status es_params_list(es_params *out, const es_model_config *config)
{
    size_t n_rows = (size_t)config->n_layer + 1;
    *out = (es_params){.n_layer = config->n_layer};
    out->table = es_resize(NULL, n_rows * ES_N_ROLES, sizeof *out->table);
    out->at = es_resize(NULL, n_rows, sizeof *out->at);
    if (!out->table || !out->at)
        return es_fail(ES_ENOMEM, "out of memory for the parameter table");
    memset(out->at, 0xff, n_rows * sizeof *out->at);
    add_range(out, config, ES_ROLE_WTE, ES_ROLE_WPE, -1);
    for (int layer = 0; layer < config->n_layer; layer++)
        add_range(out, config, ES_ROLE_LN_1_WEIGHT, ES_ROLE_FUSED_V, layer);
    add_range(out, config, ES_ROLE_GLOBAL_SLOPE, ES_ROLE_LN_F_BIAS, -1);
    if (!place(out))
        return es_fail(ES_ENOMEM, "the model's size overflows: make "
                                  "--d-model, --vocab or --n-layer smaller");
    return ES_OK;
}

void es_params_free(es_params *params)
{
    free(params->table);
    free(params->at);
    *params = (es_params){0};
}

const es_param *es_params_find(const es_params *params, int layer, es_role role)
{
    int index = params->at[layer < 0 ? params->n_layer : layer][role];
    return index < 0 ? NULL : &params->table[index];
}

/* --- the start ------------------------------------------------------------ */

static void fill(float *out, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)value;
}

/* Rows of length `width`, each made a unit vector. */
static void normalise_rows(float *out, size_t n, size_t width)
{
    for (size_t first = 0; first < n; first += width) {
        double sum = 0;
        for (size_t i = 0; i < width; i++)
            sum += (double)out[first + i] * (double)out[first + i];
        for (size_t i = 0; i < width; i++)
            out[first + i] = (float)((double)out[first + i] / sqrt(sum));
    }
}

void es_param_draw(float *out, const es_param *param,
                   const es_model_config *config, int n_threads)
{
    uint64_t stream = es_random_stream(param->name);
    switch (param->init) {
    case ES_INIT_ZERO:
        fill(out, param->n, 0);
        break;
    case ES_INIT_ONE:
    case ES_INIT_NORMS:
        fill(out, param->n, 1);
        break;
    case ES_INIT_NORMAL:
        es_random_normal(out, param->n, 0.02, config->seed, stream, n_threads);
        break;
    case ES_INIT_T:
        fill(out, param->n, config->t_init);
        break;
    case ES_INIT_THETA:
        fill(out, param->n, config->theta_init);
        break;
    case ES_INIT_SLOPE:
        fill(out, param->n, config->arch.slope);
        break;
    case ES_INIT_POWER:
        es_random_normal(out, param->n, 1, config->seed, stream, n_threads);
        normalise_rows(out, param->n, (size_t)param->dims[param->n_dims - 1]);
        break;
    }
}
