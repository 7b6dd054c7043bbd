/* Opens weights saved by other programs, and checkpoints of entropy-train, from
 * which a model can start: recognises the format, derives the sizes from the
 * shapes, and checks that every tensor of the file belongs to the model.
 * weights_config.c reads the settings that do not follow from the shapes. */
#include "hooks/trainer/files/weights_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/files/temperatures.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYER 1023
#define TENSOR_NAME_MAX 128
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- formats of other programs ------------------------------------------- */

/** Where the file stores one of the model's arrays; if `name` is NULL, the
 *  format has no such array. */
typedef struct tensor_place {
    const char *name; /* full name, or for arrays of a layer the part after the
                         layer's prefix */
    es_tensor_layout layout;
    bool bare; /* true if the name does not begin with `prefix` */
} tensor_place;

/** The format in which one library saves a model. */
struct es_weights_format {
    const char *maker;
    const char *prefix; /* optional prefix of all names */
    const char *layer;  /* text before the layer's number in names */
    es_family family;
    es_role key; /* role of an array that every file of this format has, by
                    which the format is recognised */
    es_activation activation;        /* activation if there is no config.json */
    tensor_place places[ES_N_ROLES]; /* where the file stores the array of
                                        each role */
    const char *const *ignored;      /* names of tensors to ignore in layers,
                                        because the model does not need them;
                                        NULL-terminated */
    /* names of tensors to ignore outside the layers; NULL-terminated */
    const char *const *ignored_bare;
};

#define NAMED(what)                                                            \
    {                                                                          \
        .name = what                                                           \
    }

static const char *const gpt2_ignored[] = {"attn.bias", "attn.masked_bias",
                                           NULL};
/* The output matrix is ignored because it equals wte; es_weights_load checks
 * this. */
static const char *const gpt2_ignored_bare[] = {"lm_head.weight", NULL};

/* Format of GPT-2 (Radford et al. 2019), with the names of the published
 * checkpoints. */
static const struct es_weights_format gpt2 = {
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

/* Format of GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023). */
static const struct es_weights_format neox = {
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

static const char *const llama_ignored[] = {"self_attn.rotary_emb.inv_freq",
                                            NULL};
/* lm_head.weight is ignored only if the output matrix is tied to the embedding;
 * es_weights_load checks that the two matrices are equal. */
static const char *const llama_ignored_bare[] = {"lm_head.weight", NULL};

#define SELF(what)                                                             \
    {                                                                          \
        .name = "self_attn." what                                              \
    }

/* Format of Llama (Touvron et al. 2023), with the biases of Qwen2 and the norms
 * of queries and keys of Qwen3. */
static const struct es_weights_format llama = {
    .maker = "Llama",
    .prefix = "model.",
    .layer = "layers.",
    .family = ES_FAMILY_LLAMA,
    .activation = ES_ACT_SWIGLU,
    .places = {[ES_ROLE_WTE] = NAMED("embed_tokens.weight"),
               [ES_ROLE_LN_1_WEIGHT] = NAMED("input_layernorm.weight"),
               [ES_ROLE_LN_2_WEIGHT] = NAMED("post_attention_layernorm.weight"),
               [ES_ROLE_Q_WEIGHT] = SELF("q_proj.weight"),
               [ES_ROLE_Q_BIAS] = SELF("q_proj.bias"),
               [ES_ROLE_K_WEIGHT] = SELF("k_proj.weight"),
               [ES_ROLE_K_BIAS] = SELF("k_proj.bias"),
               [ES_ROLE_V_WEIGHT] = SELF("v_proj.weight"),
               [ES_ROLE_V_BIAS] = SELF("v_proj.bias"),
               [ES_ROLE_Q_NORM] = SELF("q_norm.weight"),
               [ES_ROLE_K_NORM] = SELF("k_norm.weight"),
               [ES_ROLE_PROJ_WEIGHT] = SELF("o_proj.weight"),
               [ES_ROLE_PROJ_BIAS] = SELF("o_proj.bias"),
               [ES_ROLE_FFN_GATE_WEIGHT] = NAMED("mlp.gate_proj.weight"),
               [ES_ROLE_FFN_GATE_BIAS] = NAMED("mlp.gate_proj.bias"),
               [ES_ROLE_FC_WEIGHT] = NAMED("mlp.up_proj.weight"),
               [ES_ROLE_FC_BIAS] = NAMED("mlp.up_proj.bias"),
               [ES_ROLE_MLP_PROJ_WEIGHT] = NAMED("mlp.down_proj.weight"),
               [ES_ROLE_MLP_PROJ_BIAS] = NAMED("mlp.down_proj.bias"),
               [ES_ROLE_EMBED_OUT] = {.name = "lm_head.weight", .bare = true},
               [ES_ROLE_LN_F_WEIGHT] = NAMED("norm.weight")},
    .ignored = llama_ignored,
    .ignored_bare = llama_ignored_bare,
};

#define ATTENTION_SELF(what) NAMED("attention.self." what)

/* Names of the arrays that BERT and RoBERTa share. */
#define BERT_PLACES                                                            \
    [ES_ROLE_WTE] = NAMED("embeddings.word_embeddings.weight"),                \
    [ES_ROLE_WPE] = NAMED("embeddings.position_embeddings.weight"),            \
    [ES_ROLE_LN_E_WEIGHT] = NAMED("embeddings.LayerNorm.weight"),              \
    [ES_ROLE_LN_E_BIAS] = NAMED("embeddings.LayerNorm.bias"),                  \
    [ES_ROLE_Q_WEIGHT] = ATTENTION_SELF("query.weight"),                       \
    [ES_ROLE_Q_BIAS] = ATTENTION_SELF("query.bias"),                           \
    [ES_ROLE_K_WEIGHT] = ATTENTION_SELF("key.weight"),                         \
    [ES_ROLE_K_BIAS] = ATTENTION_SELF("key.bias"),                             \
    [ES_ROLE_V_WEIGHT] = ATTENTION_SELF("value.weight"),                       \
    [ES_ROLE_V_BIAS] = ATTENTION_SELF("value.bias"),                           \
    [ES_ROLE_PROJ_WEIGHT] = NAMED("attention.output.dense.weight"),            \
    [ES_ROLE_PROJ_BIAS] = NAMED("attention.output.dense.bias"),                \
    [ES_ROLE_LN_1_WEIGHT] = NAMED("attention.output.LayerNorm.weight"),        \
    [ES_ROLE_LN_1_BIAS] = NAMED("attention.output.LayerNorm.bias"),            \
    [ES_ROLE_FC_WEIGHT] = NAMED("intermediate.dense.weight"),                  \
    [ES_ROLE_FC_BIAS] = NAMED("intermediate.dense.bias"),                      \
    [ES_ROLE_MLP_PROJ_WEIGHT] = NAMED("output.dense.weight"),                  \
    [ES_ROLE_MLP_PROJ_BIAS] = NAMED("output.dense.bias"),                      \
    [ES_ROLE_LN_2_WEIGHT] = NAMED("output.LayerNorm.weight"),                  \
    [ES_ROLE_LN_2_BIAS] = NAMED("output.LayerNorm.bias")

/* Formats of BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019), which
 * differ only in the prefix of the names. */
#define BERT(name_of_it, prefix_of_it)                                         \
    {                                                                          \
        .maker = name_of_it, .prefix = prefix_of_it,                           \
        .layer = "encoder.layer.", .family = ES_FAMILY_BERT,                   \
        .activation = ES_ACT_GELU, .places = {BERT_PLACES},                    \
        .ignored = neox_ignored_bare, .ignored_bare = neox_ignored_bare        \
    }
static const struct es_weights_format bert = BERT("BERT", "bert.");
static const struct es_weights_format roberta = BERT("RoBERTa", "roberta.");

#define LM_HEAD(what)                                                          \
    {                                                                          \
        .name = "lm_head." what, .bare = true                                  \
    }

/* Format of RoBERTa with the layers that predict masked tokens. The output
 * matrix is the embedding. */
static const struct es_weights_format masked_roberta = {
    .maker = "RoBERTa",
    .prefix = "roberta.",
    .layer = "encoder.layer.",
    .family = ES_FAMILY_ROBERTA,
    .activation = ES_ACT_GELU,
    .places = {BERT_PLACES,
               [ES_ROLE_TYPE] =
                   NAMED("embeddings.token_type_embeddings.weight"),
               [ES_ROLE_HEAD_WEIGHT] = LM_HEAD("dense.weight"),
               [ES_ROLE_HEAD_BIAS] = LM_HEAD("dense.bias"),
               [ES_ROLE_LN_F_WEIGHT] = LM_HEAD("layer_norm.weight"),
               [ES_ROLE_LN_F_BIAS] = LM_HEAD("layer_norm.bias"),
               [ES_ROLE_LOGIT_BIAS] = LM_HEAD("bias")},
    .ignored = neox_ignored_bare,
    .ignored_bare = neox_ignored_bare,
};

static const char *const vit_ignored[] = {NULL};

/* Format of ViT (Dosovitskiy et al. 2021), with the names of google/vit's
 * published checkpoints. */
static const struct es_weights_format vit = {
    .maker = "ViT",
    .prefix = "vit.",
    .layer = "encoder.layer.",
    .family = ES_FAMILY_VIT,
    .key = ES_ROLE_CLASS,
    .activation = ES_ACT_GELU,
    .places = {[ES_ROLE_CLASS] = NAMED("embeddings.cls_token"),
               [ES_ROLE_WPE] = NAMED("embeddings.position_embeddings"),
               [ES_ROLE_PATCH_WEIGHT] =
                   NAMED("embeddings.patch_embeddings.projection.weight"),
               [ES_ROLE_PATCH_BIAS] =
                   NAMED("embeddings.patch_embeddings.projection.bias"),
               [ES_ROLE_LN_1_WEIGHT] = NAMED("layernorm_before.weight"),
               [ES_ROLE_LN_1_BIAS] = NAMED("layernorm_before.bias"),
               [ES_ROLE_Q_WEIGHT] = NAMED("attention.attention.query.weight"),
               [ES_ROLE_Q_BIAS] = NAMED("attention.attention.query.bias"),
               [ES_ROLE_K_WEIGHT] = NAMED("attention.attention.key.weight"),
               [ES_ROLE_K_BIAS] = NAMED("attention.attention.key.bias"),
               [ES_ROLE_V_WEIGHT] = NAMED("attention.attention.value.weight"),
               [ES_ROLE_V_BIAS] = NAMED("attention.attention.value.bias"),
               [ES_ROLE_PROJ_WEIGHT] = NAMED("attention.output.dense.weight"),
               [ES_ROLE_PROJ_BIAS] = NAMED("attention.output.dense.bias"),
               [ES_ROLE_LN_2_WEIGHT] = NAMED("layernorm_after.weight"),
               [ES_ROLE_LN_2_BIAS] = NAMED("layernorm_after.bias"),
               [ES_ROLE_FC_WEIGHT] = NAMED("intermediate.dense.weight"),
               [ES_ROLE_FC_BIAS] = NAMED("intermediate.dense.bias"),
               [ES_ROLE_MLP_PROJ_WEIGHT] = NAMED("output.dense.weight"),
               [ES_ROLE_MLP_PROJ_BIAS] = NAMED("output.dense.bias"),
               [ES_ROLE_LN_F_WEIGHT] = NAMED("layernorm.weight"),
               [ES_ROLE_LN_F_BIAS] = NAMED("layernorm.bias"),
               [ES_ROLE_EMBED_OUT] = {.name = "classifier.weight",
                                      .bare = true},
               [ES_ROLE_LOGIT_BIAS] = {.name = "classifier.bias",
                                       .bare = true}},
    .ignored = vit_ignored,
    .ignored_bare = vit_ignored,
};

/* --- names and layouts --------------------------------------------------- */

/** Writes the name that one of the model's arrays has in the file; "" if the
 *  format has no such array. */
static void name_in_file(char out[TENSOR_NAME_MAX], const es_weights *weights,
                         int layer, es_role role)
{
    if (!weights->format) {
        const es_param *param = es_params_find(&weights->params, layer, role);
        snprintf(out, TENSOR_NAME_MAX, "%s", param ? param->name : "");
        return;
    }
    const tensor_place *place = &weights->format->places[role];
    const char *prefix = place->bare ? "" : weights->prefix;
    if (!place->name)
        out[0] = 0;
    else if (layer < 0)
        snprintf(out, TENSOR_NAME_MAX, "%s%s", prefix, place->name);
    else
        snprintf(out, TENSOR_NAME_MAX, "%s%s%d.%s", prefix,
                 weights->format->layer, layer, place->name);
}

/** Returns the part of `text` after `prefix`, or NULL if `text` does not begin
 *  with it. */
static const char *skip_prefix(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/** Returns the part of a tensor's name after the prefix of a layer, or NULL.
 *  Sets *layer to the layer's number, 0 to MAX_LAYER. */
static const char *in_layer(int *layer, const es_weights *weights,
                            const char *name)
{
    const char *at = skip_prefix(name, weights->prefix);
    at = at ? skip_prefix(at, weights->format->layer) : NULL;
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

/* --- recognising the format ---------------------------------------------- */

/** Returns true if the file contains the array by which the format is
 *  recognised (format->key). Also determines whether names have the format's
 *  prefix. */
static bool is_format(es_weights *weights,
                      const struct es_weights_format *format)
{
    const char *const prefixes[] = {"", format->prefix};
    char name[TENSOR_NAME_MAX];
    weights->format = format;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", prefixes[i],
                 format->places[format->key].name);
        weights->prefix = prefixes[i];
        if (es_safetensors_find(weights->file, name))
            return true;
    }
    return false;
}

/** Finds the format. If `predicts`, RoBERTa's format includes the layers that
 *  predict masked tokens, unless the file has none of them. */
static es_status find_format(es_weights *weights, bool predicts)
{
    const char *head = masked_roberta.places[ES_ROLE_HEAD_WEIGHT].name;
    if (predicts && es_safetensors_find(weights->file, head) &&
        is_format(weights, &masked_roberta))
        return ES_OK;
    if (is_format(weights, &gpt2) || is_format(weights, &neox) ||
        is_format(weights, &llama) || is_format(weights, &bert) ||
        is_format(weights, &roberta) || is_format(weights, &vit))
        return ES_OK;
    return es_fail(
        ES_EFORMAT,
        "%s: neither a checkpoint of entropy-train nor weights of "
        "GPT-2 (%s), GPT-NeoX (%s), Llama (%s), BERT or RoBERTa (%s), ViT (%s)",
        weights->path, gpt2.places[ES_ROLE_WTE].name,
        neox.places[ES_ROLE_WTE].name, llama.places[ES_ROLE_WTE].name,
        bert.places[ES_ROLE_WTE].name, vit.places[ES_ROLE_CLASS].name);
}

/* --- sizes -------------------------------------------------------------- */

static es_status missing(const es_weights *weights, const char *name)
{
    return es_fail(ES_EFORMAT, "%s: tensor %s is missing", weights->path, name);
}

/** Returns the tensor of one of the model's arrays, or NULL. */
static const es_tensor *find_tensor(const es_weights *weights, int layer,
                                    es_role role)
{
    char name[TENSOR_NAME_MAX];
    name_in_file(name, weights, layer, role);
    return es_safetensors_find(weights->file, name);
}

/** Reads an extent of a matrix and checks that it fits an int. Returns ES_OK or
 *  ES_EFORMAT. */
static es_status read_extent(int *out, const es_weights *weights, int layer,
                             es_role role, int dim)
{
    char name[TENSOR_NAME_MAX];
    name_in_file(name, weights, layer, role);
    const es_tensor *tensor = es_safetensors_find(weights->file, name);
    if (!tensor)
        return missing(weights, name);
    if (tensor->n_dims != 2)
        return es_fail(ES_EFORMAT, "%s: %s has %d dimensions, not 2",
                       weights->path, name, tensor->n_dims);
    int64_t extent = tensor->dims[dim];
    if (extent < 1 || extent > INT_MAX)
        return es_fail(ES_EFORMAT,
                       "%s: %s has a dimension of invalid size %" PRId64,
                       weights->path, name, extent);
    *out = (int)extent;
    return ES_OK;
}

/** Derives the width of the feed-forward network as a multiple of the model
 *  width. */
static es_status find_mlp_mult(es_weights *weights)
{
    es_model_config *config = &weights->config;
    bool turned =
        es_weights_layout(weights, ES_ROLE_FC_WEIGHT) != ES_LAYOUT_SAME;
    int width;
    es_status status =
        read_extent(&width, weights, 0, ES_ROLE_FC_WEIGHT, turned ? 0 : 1);
    if (status < 0)
        return status;
    if (width % config->d_model)
        return es_fail(ES_EFORMAT,
                       "%s: the feed-forward width %d is not a multiple of the "
                       "model width %d",
                       weights->path, width, config->d_model);
    config->mlp_mult = width / config->d_model;
    return ES_OK;
}

/* Derives the sizes that do not depend on the number of heads. */
static es_status find_llama_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    config->arch = (es_arch){.rms_norm = true, .activation = ES_ACT_SWIGLU};
    config->mlp_mult = 1;
    config->bias = find_tensor(weights, 0, ES_ROLE_PROJ_BIAS) ? ES_BIAS_ALL
                   : find_tensor(weights, 0, ES_ROLE_Q_BIAS)  ? ES_BIAS_QKV
                                                              : ES_BIAS_NONE;
    config->qk_norm = find_tensor(weights, 0, ES_ROLE_Q_NORM) != NULL;
    config->tied = find_tensor(weights, -1, ES_ROLE_EMBED_OUT) == NULL;
    return read_extent(&config->d_ff, weights, 0, ES_ROLE_FC_WEIGHT, 0);
}

/* Derives the sizes that depend on the number of heads, and compares them with
 * config.json. */
static es_status find_llama_heads(es_weights *weights)
{
    es_model_config *config = &weights->config;
    int queries, keys;
    es_status status;
    if ((status = read_extent(&queries, weights, 0, ES_ROLE_Q_WEIGHT, 0)) < 0 ||
        (status = read_extent(&keys, weights, 0, ES_ROLE_K_WEIGHT, 0)) < 0)
        return status;
    const int width = queries / config->n_head;
    const int said_width = config->d_head, said = config->n_kv_head;
    if (queries % config->n_head || keys % width)
        return es_fail(ES_EFORMAT,
                       "%s: queries of width %d and keys of width %d cannot be "
                       "split into %d heads",
                       weights->path, queries, keys, config->n_head);
    config->d_head = queries == config->d_model ? 0 : width;
    config->n_kv_head = keys / width;
    if (said != 0 && said != config->n_kv_head)
        return es_fail(ES_EFORMAT,
                       "%s: num_key_value_heads in config.json is %d, but the "
                       "weights have %d",
                       weights->path, said, config->n_kv_head);
    if (said_width != 0 && said_width != width)
        return es_fail(
            ES_EFORMAT,
            "%s: head_dim in config.json is %d, but the weights have %d",
            weights->path, said_width, width);
    return ES_OK;
}

static es_status find_bert_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    es_status status;
    config->mlp_mult = 1;
    config->final_norm = ES_FINAL_AUTO;
    config->forward_only = config->family == ES_FAMILY_BERT;
    if ((status = read_extent(&config->ctx, weights, -1, ES_ROLE_WPE, 0)) < 0)
        return status;
    return read_extent(&config->d_ff, weights, 0, ES_ROLE_FC_WEIGHT, 0);
}

/* Reads extent `dim` of an array that must have n_dims extents. */
static es_status read_vit_extent(int *out, const es_weights *weights, int layer,
                                 es_role role, int n_dims, int dim)
{
    const es_tensor *tensor = find_tensor(weights, layer, role);
    if (!tensor || tensor->n_dims != n_dims || tensor->dims[dim] < 1 ||
        tensor->dims[dim] > INT_MAX)
        return es_fail(ES_EFORMAT,
                       "%s: %s is missing or does not have the shape of a ViT",
                       weights->path, tensor ? tensor->name : "an array");
    *out = (int)tensor->dims[dim];
    return ES_OK;
}

static es_status find_vit_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    es_image *image = &config->image;
    const struct {
        int *size;
        int layer;
        es_role role;
        int n_dims, dim;
    } sizes[] = {{&config->d_model, -1, ES_ROLE_WPE, 3, 2},
                 {&config->ctx, -1, ES_ROLE_WPE, 3, 1},
                 {&image->channels, -1, ES_ROLE_PATCH_WEIGHT, 4, 1},
                 {&image->patch, -1, ES_ROLE_PATCH_WEIGHT, 4, 2},
                 {&image->classes, -1, ES_ROLE_EMBED_OUT, 2, 0},
                 {&config->d_ff, 0, ES_ROLE_FC_WEIGHT, 2, 0}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        es_status status =
            read_vit_extent(sizes[i].size, weights, sizes[i].layer,
                            sizes[i].role, sizes[i].n_dims, sizes[i].dim);
        if (status < 0)
            return status;
    }
    config->mlp_mult = 1;
    config->vocab = 0; /* only the data determine how many levels a pixel has */
    return ES_OK;
}

static es_status find_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    es_model_config_default(config);
    config->arch = (es_arch){.layer_norm = true,
                             .activation = weights->format->activation};
    config->family = weights->format->family;
    config->bias = ES_BIAS_ALL;
    config->ctx = 0;
    int n = 0, layer;
    for (size_t i = 0; i < weights->file->n; i++) {
        const es_tensor *tensor = &weights->file->tensors[i];
        if (in_layer(&layer, weights, tensor->name) && layer >= n)
            n = layer + 1;
    }
    config->n_layer = n;
    es_status status;
    if (config->n_layer == 0)
        return es_fail(ES_EFORMAT,
                       "%s: no layers: no tensor name begins with %s0.",
                       weights->path, weights->format->layer);
    if (es_families[config->family].has_images)
        return find_vit_sizes(weights);
    if ((status = read_extent(&config->vocab, weights, -1, ES_ROLE_WTE, 0)) <
            0 ||
        (status = read_extent(&config->d_model, weights, -1, ES_ROLE_WTE, 1)) <
            0 ||
        (config->family == ES_FAMILY_GPT2 &&
         (status = read_extent(&config->ctx, weights, -1, ES_ROLE_WPE, 0)) < 0))
        return status;
    if (es_families[config->family].is_post_norm)
        return find_bert_sizes(weights);
    return config->family == ES_FAMILY_LLAMA ? find_llama_sizes(weights)
                                             : find_mlp_mult(weights);
}

/* --- checking every tensor ----------------------------------------------- */

/** Writes the shape that one of the model's arrays has in the file, and returns
 *  its number of extents. */
static int shape_in_file(int64_t dims[ES_PARAM_MAX_DIMS],
                         const es_weights *weights, const es_param *param)
{
    for (int i = 0; i < ES_PARAM_MAX_DIMS; i++)
        dims[i] = param->dims[i];
    if (param->role == ES_ROLE_WPE)
        dims[0] += weights->n_skipped;
    if (param->n_dims == 2 &&
        es_weights_layout(weights, param->role) != ES_LAYOUT_SAME) {
        dims[0] = param->dims[1];
        dims[1] = param->dims[0];
    }
    return param->n_dims;
}

static void print_shape(char *out, size_t size, const int64_t *dims, int n)
{
    es_text to = es_text_begin(out, size);
    for (int i = 0; i < n; i++)
        es_text_append(&to, i ? ",%" PRId64 : "%" PRId64, dims[i]);
}

static es_status check_tensor(const es_weights *weights, const es_param *param,
                              const es_tensor *tensor)
{
    int64_t dims[ES_PARAM_MAX_DIMS];
    int n_dims = shape_in_file(dims, weights, param);
    /* RoBERTa may have more token types; only the first is used. */
    if (weights->format && param->role == ES_ROLE_TYPE && tensor->n_dims == 2 &&
        tensor->dims[0] > 1)
        dims[0] = tensor->dims[0];
    bool same = tensor->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = tensor->dims[i] == dims[i];
    if (!same) {
        char have[128], want[64];
        print_shape(have, sizeof have, tensor->dims, tensor->n_dims);
        print_shape(want, sizeof want, dims, n_dims);
        return es_fail(ES_EFORMAT, "%s: %s has shape (%s): expected (%s)",
                       weights->path, tensor->name, have, want);
    }
    return es_safetensors_check_type(tensor, weights->path);
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Returns true for tensors of BERT and RoBERTa that belong to no array:
 * constants, the layers that make predictions from the last layer's output, and
 * the embeddings of token types, which weights_load.c adds to the positions. */
static bool is_outside_bert(const es_weights *weights, const char *name)
{
    static const char *const outside[] = {"cls.", "lm_head.", "classifier.",
                                          "qa_outputs."};
    static const char *const inside[] = {
        "pooler.", "embeddings.position_ids", "embeddings.token_type_ids",
        "embeddings.token_type_embeddings.weight"};
    const size_t n = strlen(weights->prefix);
    for (size_t i = 0; i < COUNT(outside); i++)
        if (strncmp(name, outside[i], strlen(outside[i])) == 0)
            return true;
    if (strncmp(name, weights->prefix, n) != 0)
        return false;
    for (size_t i = 0; i < COUNT(inside); i++)
        if (strncmp(name + n, inside[i], strlen(inside[i])) == 0)
            return true;
    return false;
}

/* Returns true for tensors of RoBERTa that belong to no array of family
 * roberta: those that is_outside_bert names, except for the token types and the
 * layers that predict masked tokens. es_weights_load checks the copies of the
 * output matrix and its bias. */
static bool is_outside_roberta(const es_weights *weights, const char *name)
{
    static const char *const copies[] = {"lm_head.decoder.weight",
                                         "lm_head.decoder.bias", NULL};
    const char *inside = skip_prefix(name, weights->prefix);
    if (skip_prefix(name, "lm_head."))
        return is_among(name, copies);
    return is_outside_bert(weights, name) &&
           !(inside && skip_prefix(inside, "embeddings.token_type_embeddings"));
}

/* Returns true for tensors of ViT that belong to no array. */
static bool is_outside_vit(const es_weights *weights, const char *name)
{
    static const char pooler[] = "pooler.";
    const size_t n = strlen(weights->prefix);
    return strncmp(name, weights->prefix, n) == 0 &&
           strncmp(name + n, pooler, strlen(pooler)) == 0;
}

static bool is_ignored(const es_weights *weights, const char *name)
{
    int layer;
    if (!weights->format)
        return es_checkpoint_is_moment(name);
    const char *rest = in_layer(&layer, weights, name);
    if (rest)
        return is_among(rest, weights->format->ignored);
    if (weights->format->family == ES_FAMILY_BERT)
        return is_outside_bert(weights, name);
    if (weights->format->family == ES_FAMILY_ROBERTA)
        return is_outside_roberta(weights, name);
    if (weights->format->family == ES_FAMILY_VIT)
        return is_outside_vit(weights, name);
    /* Llama's output matrix is a parameter of the model unless it is tied to
     * the embedding. */
    if (weights->config.family == ES_FAMILY_LLAMA && !weights->config.tied)
        return false;
    return is_among(name, weights->format->ignored_bare);
}

static bool is_used(const es_weights *weights, const es_tensor *tensor)
{
    for (size_t i = 0; i < weights->params.n; i++)
        if (weights->tensors[i] == tensor)
            return true;
    return false;
}

/** Refuses files with a tensor that belongs to no array of the model, because
 *  the original model probably uses this tensor and computes something else. */
static es_status refuse_others(const es_weights *weights)
{
    size_t n = weights->file->n, expected = weights->params.n;
    for (size_t i = 0; i < n; i++)
        expected += is_ignored(weights, weights->file->tensors[i].name);
    for (size_t i = 0; i < n && expected != n; i++) {
        const es_tensor *tensor = &weights->file->tensors[i];
        if (!is_ignored(weights, tensor->name) && !is_used(weights, tensor))
            return es_fail(ES_EFORMAT, "%s: unexpected tensor %s in a %s model",
                           weights->path, tensor->name, weights->maker);
    }
    return ES_OK;
}

/* --- prefixes of wrappers ------------------------------------------------ */

/* Removes the prefixes that torch.compile and similar wrappers add to the names
 * of the tensors. */
static es_status unwrap_names(es_weights *weights)
{
    es_safetensors *file = weights->file;
    size_t n = 0;
    for (size_t i = 0; i < file->n; i++)
        n += strlen(file->tensors[i].name) + 1;
    es_status status = es_alloc(&weights->names, n, 1, "names of tensors");
    char *to = weights->names;
    for (size_t i = 0; i < file->n && status == ES_OK; i++) {
        es_text_unwrap(to, file->tensors[i].name);
        file->tensors[i].name = to;
        to += strlen(to) + 1;
    }
    if (status == ES_OK) {
        free(file->by_name);
        file->by_name = NULL;
        status = es_safetensors_sort(file);
    }
    for (size_t i = 1; i < file->n && status == ES_OK; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return es_fail(ES_EFORMAT,
                           "%s: tensor %s exists twice, with and without the "
                           "prefix module. or _orig_mod.",
                           weights->path, file->by_name[i]->name);
    return status;
}

/* --- open and close ----------------------------------------------------- */

static es_status take_foreign(es_weights *weights, int n_head, bool predicts)
{
    es_status status;
    if ((status = unwrap_names(weights)) < 0 ||
        (status = find_format(weights, predicts)) < 0)
        return status;
    weights->maker = weights->format->maker;
    if ((status = find_sizes(weights)) < 0)
        return status;
    weights->config.n_head = n_head;
    status = es_weights_read_config(weights, n_head);
    if (status == ES_OK && weights->config.n_head <= 0)
        return es_fail(ES_EUSAGE,
                       "%s: the weights do not determine the number of heads, "
                       "and their folder has no config.json: give --n-head",
                       weights->path);
    if (status == ES_OK && predicts &&
        weights->config.family == ES_FAMILY_BERT &&
        strcmp(weights->maker, roberta.maker) == 0)
        return es_fail(ES_EUSAGE,
                       "%s: tensor %s is missing: without the layers lm_head, "
                       "RoBERTa cannot predict masked tokens (entropy-train "
                       "probe without --mask-token records its heads)",
                       weights->path,
                       masked_roberta.places[ES_ROLE_HEAD_WEIGHT].name);
    if (status == ES_OK && weights->config.family == ES_FAMILY_LLAMA)
        status = find_llama_heads(weights);
    return status;
}

static es_status take_own(es_weights *weights)
{
    es_checkpoint *checkpoint = NULL;
    es_status status = es_checkpoint_open(&checkpoint, weights->path);
    if (status < 0)
        return status;
    weights->prefix = "";
    weights->maker = "entropy-train";
    weights->config = checkpoint->settings.model;
    weights->step = checkpoint->state.step;
    es_checkpoint_close(checkpoint);
    return ES_OK;
}

static es_status take_model(es_weights *weights, int n_head, bool predicts)
{
    es_status status = es_checkpoint_is_ours(weights->file)
                           ? take_own(weights)
                           : take_foreign(weights, n_head, predicts);
    if (status < 0)
        return status;
    /* The shapes of rotary models do not limit the context; any value is
     * sufficient to list the arrays. */
    es_model_config config = weights->config;
    config.ctx = config.ctx == 0 ? 1 : config.ctx;
    /* For images, only the data determine the vocabulary, which is the number
     * of levels of a pixel; any valid value is sufficient here. */
    config.vocab = config.vocab == 0 ? 2 : config.vocab;
    config.batch = 1;
    if ((status = es_model_config_check(&config)) < 0 ||
        (status = es_params_list(&weights->params, &weights->config)) < 0)
        return status;
    /* Find the tensor of each array of the configuration. */
    status = es_alloc(&weights->tensors, weights->params.n,
                      sizeof *weights->tensors, "a list of tensors");
    if (status < 0)
        return status;
    for (size_t i = 0; i < weights->params.n; i++) {
        const es_param *param = &weights->params.table[i];
        char name[TENSOR_NAME_MAX];
        name_in_file(name, weights, param->layer, param->role);
        const es_tensor *tensor = es_safetensors_find(weights->file, name);
        char old[TENSOR_NAME_MAX];
        if (!tensor && es_temperatures_name(old, sizeof old, name))
            tensor = es_safetensors_find(weights->file, old);
        if ((status = tensor ? check_tensor(weights, param, tensor)
                             : missing(weights, name)) < 0)
            return status;
        weights->tensors[i] = tensor;
    }

    return refuse_others(weights);
}

/** Opens one file, or all files of an index. */
static es_status open_tensors(es_safetensors **out, const char *path)
{
    return es_text_ends(path, ".index.json")
               ? es_safetensors_open_index(out, path)
               : es_safetensors_open(out, path);
}

es_status es_weights_open(es_weights **out, const char *path, int n_head,
                          bool predicts)
{
    *out = NULL;
    es_status status = es_alloc(out, 1, sizeof **out, "weights");
    if (status < 0)
        return status;
    if ((status = es_copy_text(&(*out)->path, path)) < 0 ||
        (status = open_tensors(&(*out)->file, path)) < 0 ||
        (status = take_model(*out, n_head, predicts)) < 0) {
        es_weights_close(*out);
        *out = NULL;
    }
    return status;
}

void es_weights_close(es_weights *weights)
{
    if (!weights)
        return;
    es_safetensors_close(weights->file);
    es_params_free(&weights->params);
    free(weights->tensors);
    free(weights->names);
    free(weights->path);
    free(weights);
}
