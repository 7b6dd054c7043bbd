/* What others call our arrays, and how they lay them out. */
#include "hooks/trainer/files/weights_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_LAYER 1023

static const char *const gpt2_ignored[] = {"attn.bias", "attn.masked_bias",
                                           NULL};
/* The output matrix is wte itself; es_weights_load sees that it is. */
static const char *const gpt2_ignored_bare[] = {"lm_head.weight", NULL};

/* Radford et al. 2019; names of the published checkpoints. */
const es_weights_format es_weights_gpt2 = {
    .maker = "GPT-2",
    .prefix = "transformer.",
    .layer = "h.",
    .family = ES_FAMILY_GPT2,
    .activation = ES_ACT_GELU_TANH,
    .places = {[ES_ROLE_WTE] = {.name = "wte.weight"},
               [ES_ROLE_WPE] = {.name = "wpe.weight"},
               [ES_ROLE_LN_1_WEIGHT] = {.name = "ln_1.weight"},
               [ES_ROLE_LN_1_BIAS] = {.name = "ln_1.bias"},
               [ES_ROLE_LN_2_WEIGHT] = {.name = "ln_2.weight"},
               [ES_ROLE_LN_2_BIAS] = {.name = "ln_2.bias"},
               [ES_ROLE_ATTN_WEIGHT] = {.name = "attn.c_attn.weight"},
               [ES_ROLE_ATTN_BIAS] = {.name = "attn.c_attn.bias"},
               [ES_ROLE_PROJ_WEIGHT] = {.name = "attn.c_proj.weight"},
               [ES_ROLE_PROJ_BIAS] = {.name = "attn.c_proj.bias"},
               [ES_ROLE_FC_WEIGHT] = {.name = "mlp.c_fc.weight"},
               [ES_ROLE_FC_BIAS] = {.name = "mlp.c_fc.bias"},
               [ES_ROLE_MLP_PROJ_WEIGHT] = {.name = "mlp.c_proj.weight"},
               [ES_ROLE_MLP_PROJ_BIAS] = {.name = "mlp.c_proj.bias"},
               [ES_ROLE_LN_F_WEIGHT] = {.name = "ln_f.weight"},
               [ES_ROLE_LN_F_BIAS] = {.name = "ln_f.bias"}},
    .ignored = gpt2_ignored,
    .ignored_bare = gpt2_ignored_bare,
};

static const char *const neox_ignored[] = {
    "attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq",
    NULL};
static const char *const neox_ignored_bare[] = {NULL};

#define ATTENTION(what) "attention." what
#define TRANSPOSED(what)                                                       \
    {                                                                          \
        .name = what, .layout = ES_LAYOUT_TRANSPOSED                           \
    }
#define BY_HEAD(what)                                                          \
    {                                                                          \
        .name = what, .layout = ES_LAYOUT_BY_HEAD                              \
    }

/* Black et al. 2022; Biderman et al. 2023 (Pythia). */
const es_weights_format es_weights_neox = {
    .maker = "GPT-NeoX",
    .prefix = "gpt_neox.",
    .layer = "layers.",
    .family = ES_FAMILY_PYTHIA,
    .activation = ES_ACT_GELU,
    .places =
        {[ES_ROLE_WTE] = {.name = "embed_in.weight"},
         [ES_ROLE_LN_1_WEIGHT] = {.name = "input_layernorm.weight"},
         [ES_ROLE_LN_1_BIAS] = {.name = "input_layernorm.bias"},
         [ES_ROLE_LN_2_WEIGHT] = {.name = "post_attention_layernorm.weight"},
         [ES_ROLE_LN_2_BIAS] = {.name = "post_attention_layernorm.bias"},
         [ES_ROLE_ATTN_WEIGHT] = BY_HEAD(ATTENTION("query_key_value.weight")),
         [ES_ROLE_ATTN_BIAS] = BY_HEAD(ATTENTION("query_key_value.bias")),
         [ES_ROLE_PROJ_WEIGHT] = TRANSPOSED(ATTENTION("dense.weight")),
         [ES_ROLE_PROJ_BIAS] = {.name = ATTENTION("dense.bias")},
         [ES_ROLE_FC_WEIGHT] = TRANSPOSED("mlp.dense_h_to_4h.weight"),
         [ES_ROLE_FC_BIAS] = {.name = "mlp.dense_h_to_4h.bias"},
         [ES_ROLE_MLP_PROJ_WEIGHT] = TRANSPOSED("mlp.dense_4h_to_h.weight"),
         [ES_ROLE_MLP_PROJ_BIAS] = {.name = "mlp.dense_4h_to_h.bias"},
         [ES_ROLE_EMBED_OUT] = {.name = "embed_out.weight", .bare = true},
         [ES_ROLE_LN_F_WEIGHT] = {.name = "final_layer_norm.weight"},
         [ES_ROLE_LN_F_BIAS] = {.name = "final_layer_norm.bias"}},
    .ignored = neox_ignored,
    .ignored_bare = neox_ignored_bare,
};

bool es_weights_name(char out[ES_TENSOR_NAME_MAX], const es_weights *weights,
                     int layer, es_role role)
{
    if (!weights->format) {
        const es_param *param = es_params_find(&weights->params, layer, role);
        snprintf(out, ES_TENSOR_NAME_MAX, "%s", param ? param->name : "");
        return param != NULL;
    }
    const es_tensor_place *place = &weights->format->places[role];
    const char *prefix = place->bare ? "" : weights->prefix;
    if (!place->name)
        return false;
    if (layer < 0)
        snprintf(out, ES_TENSOR_NAME_MAX, "%s%s", prefix, place->name);
    else
        snprintf(out, ES_TENSOR_NAME_MAX, "%s%s%d.%s", prefix,
                 weights->format->layer, layer, place->name);
    return true;
}

/** What follows `prefix` in `text`, or NULL. */
static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

const char *es_weights_in_layer(int *layer, const es_weights *weights,
                                const char *name)
{
    const char *at = after(name, weights->prefix);
    at = at ? after(at, weights->format->layer) : NULL;
    if (!at || *at < '0' || *at > '9' || (*at == '0' && at[1] != '.'))
        return NULL;
    *layer = 0;
    for (; *at >= '0' && *at <= '9' && *layer <= MAX_LAYER; at++)
        *layer = 10 * *layer + (*at - '0');
    return *at == '.' && *layer <= MAX_LAYER ? at + 1 : NULL;
}

es_tensor_layout es_weights_layout(const es_weights *weights, es_role role)
{
    return weights->format ? weights->format->places[role].layout
                           : ES_LAYOUT_SAME;
}
