/* Reads the config.json that Hugging Face's library writes next to the weights:
 * the settings that do not follow from the shapes. Refuses models that this
 * program would compute differently. */
#include "hooks/trainer/files/weights_internal.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/files/json_file.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/** The names of a model size in config.json: in GPT-2 and in GPT-NeoX. */
typedef struct size_names {
    const char *gpt2, *neox;
} size_names;

static const size_names head_names = {"n_head", "num_attention_heads"};
static const size_names ctx_names = {"n_positions", "max_position_embeddings"};

static bool is_neox(const es_weights *weights)
{
    return weights->config.family == ES_FAMILY_PYTHIA;
}

/* Returns the name of the size in the family of the weights; Llama uses the
 * names of GPT-NeoX. */
static const char *name_of(const es_weights *weights, size_names names)
{
    return weights->config.family == ES_FAMILY_GPT2 ? names.gpt2 : names.neox;
}

/* --- the file ----------------------------------------------------------- */

/** Loads config.json; *out stays NULL if the file does not exist. */
static es_status load_config(json_t **out, const char *path)
{
    static const es_infile_limit limit = {1 << 20, "a configuration",
                                          ES_EFORMAT};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ES_OK;
    return es_json_load(out, path, &limit, true);
}

/* --- properties of several families -------------------------------------- */

/** Reads the size `key` if config.json has this key; otherwise *out is
 *  unchanged. */
static es_status take_size(int *out, const json_t *from, const char *key,
                           const char *path)
{
    const json_t *value = json_object_get(from, key);
    json_int_t number = json_integer_value(value);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_integer(value) || number < 1 || number > INT32_MAX)
        return es_fail(ES_EFORMAT, "%s: %s is not a valid size", path, key);
    *out = (int)number;
    return ES_OK;
}

/** Compares the sizes in config.json with those that the tensors' shapes
 *  determine. */
static es_status check_sizes(const es_weights *weights, const json_t *from,
                             const char *path)
{
    const es_model_config *config = &weights->config;
    const struct {
        size_names names;
        int value;
    } sizes[] = {
        {{"n_layer", "num_hidden_layers"}, config->n_layer},
        {{"n_embd", "hidden_size"}, config->d_model},
        {{"vocab_size", "vocab_size"}, config->vocab},
        {{"n_inner", "intermediate_size"}, es_model_config_ffn_width(config)},
        {ctx_names, config->ctx}, /* the number of positions for which the file
                                   * has embeddings */
    };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const char *key = name_of(weights, sizes[i].names);
        int said = sizes[i].value;
        es_status status = take_size(&said, from, key, path);
        if (status < 0)
            return status;
        /* A size of 0 is unknown. For example, the number of positions of a
         * rotary model does not appear in any shape. */
        if (said != sizes[i].value && sizes[i].value != 0)
            return es_fail(ES_EFORMAT, "%s: %s is %d, but the weights have %d",
                           path, key, said, sizes[i].value);
    }
    return ES_OK;
}

static es_status take_activation(es_weights *weights, const json_t *from,
                                 const char *path)
{
    static const struct {
        const char *name;
        es_activation activation;
    } known[] = {{"gelu", ES_ACT_GELU},
                 {"gelu_new", ES_ACT_GELU_TANH},
                 {"gelu_fast", ES_ACT_GELU_TANH},
                 {"gelu_pytorch_tanh", ES_ACT_GELU_TANH},
                 {"quick_gelu", ES_ACT_GELU_SIGMOID},
                 {"relu", ES_ACT_RELU}};
    const size_names keys = {"activation_function", "hidden_act"};
    const char *key = name_of(weights, keys);
    const json_t *value = json_object_get(from, key);
    const char *text = json_string_value(value);
    if (!value)
        return ES_OK;
    for (size_t i = 0; text && i < COUNT(known); i++) {
        if (strcmp(text, known[i].name) != 0)
            continue;
        weights->config.arch.activation = known[i].activation;
        return ES_OK;
    }
    return es_fail(ES_EFORMAT,
                   "%s: %s is %s: expected gelu, gelu_new, gelu_pytorch_tanh, "
                   "quick_gelu or relu",
                   path, key, text ? text : "not a string");
}

/** Reads LayerNorm's epsilon. Models that were trained without LayerNorm are
 *  saved with an epsilon of 1e12, with which LayerNorm is (x - mean) times
 *  1e-6; the weights absorb this factor. */
static es_status take_epsilon(es_weights *weights, const json_t *from,
                              const char *path)
{
    const size_names keys = {"layer_norm_epsilon", "layer_norm_eps"};
    const char *key = name_of(weights, keys);
    const json_t *value = json_object_get(from, key);
    const double epsilon = json_number_value(value);
    if (!value)
        return ES_OK;
    if (!json_is_number(value) || !(epsilon >= 0 && epsilon <= 1e30))
        return es_fail(ES_EFORMAT, "%s: %s is not a number from 0 to 1e30",
                       path, key);
    weights->config.ln_eps = epsilon;
    return ES_OK;
}

static es_status take_heads(es_weights *weights, int n_head, const json_t *from,
                            const char *path)
{
    const char *key = name_of(weights, head_names);
    int said = n_head;
    es_status status = take_size(&said, from, key, path);
    weights->config.n_head = said;
    if (status == ES_OK && n_head > 0 && said != n_head)
        return es_fail(ES_EUSAGE, "--n-head %d: %s has %d", n_head, path, said);
    return status;
}

/* --- GPT-2 and GPT-NeoX -------------------------------------------------- */

/** A property of config.json that must have a certain value if it is
 *  present. */
typedef struct rule {
    const char *key;
    enum { NUMBER, TRUTH, EMPTY } kind;
    double value; /* required number; if the kind is TRUTH, 0 (false) or 1
                   * (true) */
} rule;

static const rule gpt2_rules[] = {
    {"scale_attn_weights", TRUTH, 1},
    {"scale_attn_by_inverse_layer_idx", TRUTH, 0},
    {"add_cross_attention", TRUTH, 0},
    {"tie_word_embeddings", TRUTH, 1},
};
static const rule neox_rules[] = {
    {"rotary_pct", NUMBER, 0.25},  {"rotary_emb_base", NUMBER, 10000},
    {"rope_theta", NUMBER, 10000}, {"partial_rotary_factor", NUMBER, 0.25},
    {"rope_scaling", EMPTY, 0},    {"use_parallel_residual", TRUTH, 1},
    {"attention_bias", TRUTH, 1},  {"tie_word_embeddings", TRUTH, 0},
};

static es_status check_usual_type(const es_weights *weights, const json_t *from,
                                  const char *path)
{
    const char *want = is_neox(weights) ? "gpt_neox" : "gpt2";
    const json_t *type = json_object_get(from, "model_type");
    if (!type)
        return ES_OK;
    const char *have = json_string_value(type);
    if (!have || strcmp(have, want) != 0)
        return es_fail(ES_EFORMAT,
                       "%s: model_type is %s, but the weights are those of %s",
                       path, have ? have : "not a string", want);
    return ES_OK;
}

static bool rule_holds(const rule *wanted, const json_t *value)
{
    switch (wanted->kind) {
    case NUMBER:
        return json_is_number(value) &&
               fabs(json_number_value(value) - wanted->value) <=
                   1e-9 * wanted->value;
    case TRUTH:
        return json_is_boolean(value) &&
               json_is_true(value) == (wanted->value > 0);
    case EMPTY:
        return json_is_null(value);
    }
    return false;
}

/* Reads all properties except sizes from the config.json of GPT-2 or
 * GPT-NeoX. */
static es_status take_usual(es_weights *weights, const json_t *from,
                            const char *path)
{
    es_status status;
    const rule *rules = is_neox(weights) ? neox_rules : gpt2_rules;
    size_t n = is_neox(weights) ? COUNT(neox_rules) : COUNT(gpt2_rules);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(from, rules[i].key);
        char number[ES_FLOAT_TEXT_MAX];
        if (!value || rule_holds(&rules[i], value))
            continue;
        if (rules[i].kind == NUMBER)
            return es_fail(ES_EFORMAT,
                           "%s: %s is not %s: this program computes such a "
                           "model differently",
                           path, rules[i].key,
                           es_number_print(number, rules[i].value, 6));
        return es_fail(ES_EFORMAT,
                       "%s: %s is not %s: this kind of model is not supported",
                       path, rules[i].key,
                       rules[i].kind == EMPTY ? "null"
                       : rules[i].value > 0   ? "true"
                                              : "false");
    }
    status = take_activation(weights, from, path);
    return status < 0 ? status : take_epsilon(weights, from, path);
}

/* --- Llama, Qwen2 and Qwen3 ---------------------------------------------- */

#define USUAL_BASE 10000.0

static es_status check_llama_type(const json_t *from, const char *path)
{
    static const char *const known[] = {"llama", "qwen2", "qwen3"};
    const json_t *type = json_object_get(from, "model_type");
    const char *have = json_string_value(type);
    for (size_t i = 0; have && i < COUNT(known); i++)
        if (strcmp(have, known[i]) == 0)
            return ES_OK;
    if (!type)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: model_type is %s: expected llama, qwen2 or qwen3", path,
                   have ? have : "not a string");
}

/* Checks the properties that must be false if they are present. */
static es_status check_truths(const json_t *from, const char *path)
{
    static const char *const keys[] = {"use_sliding_window",
                                       "is_encoder_decoder"};
    for (size_t i = 0; i < COUNT(keys); i++) {
        const json_t *value = json_object_get(from, keys[i]);
        if (value && !json_is_null(value) && !json_is_false(value))
            return es_fail(
                ES_EFORMAT,
                "%s: %s is not false: this kind of model is not supported",
                path, keys[i]);
    }
    const bool attention =
        json_is_true(json_object_get(from, "attention_bias"));
    const json_t *mlp = json_object_get(from, "mlp_bias");
    if (attention != json_is_true(mlp))
        return es_fail(ES_EFORMAT,
                       "%s: attention_bias differs from mlp_bias: this kind of "
                       "model is not supported",
                       path);
    return ES_OK;
}

/* Checks the kind of attention of every layer, which newer config.json files
 * list. */
static es_status check_layers(const json_t *from, const char *path)
{
    const json_t *types = json_object_get(from, "layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type)
    {
        const char *name = json_string_value(type);
        if (!name || strcmp(name, "full_attention") != 0)
            return es_fail(
                ES_EFORMAT,
                "%s: layer_types contains %s: only full_attention is supported",
                path, name ? name : "not a string");
    }
    return ES_OK;
}

static es_status take_number(double *out, const json_t *from, const char *key,
                             double least, const char *path)
{
    const json_t *value = json_object_get(from, key);
    const double number = json_number_value(value);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_number(value) || !(number >= least && number <= 1e30))
        return es_fail(ES_EFORMAT, "%s: %s is not a valid number", path, key);
    *out = number;
    return ES_OK;
}

/* Reads the rotary scaling of Llama 3.1 and later. */
static es_status take_scaling(es_weights *weights, const json_t *from,
                              const char *path)
{
    es_rope *rope = &weights->config.rope;
    const struct {
        const char *key;
        double *number;
    } all[] = {{"factor", &rope->factor},
               {"low_freq_factor", &rope->low},
               {"high_freq_factor", &rope->high},
               {"original_max_position_embeddings", &rope->original}};
    for (size_t i = 0; i < COUNT(all); i++) {
        es_status status =
            take_number(all[i].number, from, all[i].key, 1e-9, path);
        if (status == ES_OK && !(*all[i].number > 0))
            status = es_fail(ES_EFORMAT,
                             "%s: rotary positions of type llama3 need %s",
                             path, all[i].key);
        if (status < 0)
            return status;
    }
    return ES_OK;
}

/* Reads rope_theta, which is a property of config.json or of rope_parameters,
 * and the older rope_scaling. */
static es_status take_rotation(es_weights *weights, const json_t *from,
                               const char *path)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    double base = USUAL_BASE;
    es_status status = take_number(&base, from, "rope_theta", 1, path);
    for (size_t i = 0; status == ES_OK && i < COUNT(keys); i++) {
        const json_t *value = json_object_get(from, keys[i]);
        const json_t *type = json_object_get(value, "rope_type");
        type = type ? type : json_object_get(value, "type");
        const char *name = type ? json_string_value(type) : "default";
        if (!value || json_is_null(value))
            continue;
        const bool is_scaled = name && strcmp(name, "llama3") == 0;
        if (!json_is_object(value) || !name ||
            (strcmp(name, "default") != 0 && !is_scaled))
            return es_fail(ES_EFORMAT,
                           "%s: %s has type %s: expected default or llama3",
                           path, keys[i], name ? name : "not a string");
        status = take_number(&base, value, "rope_theta", 1, path);
        if (status == ES_OK && is_scaled)
            status = take_scaling(weights, value, path);
    }
    weights->config.rope.base = fabs(base - USUAL_BASE) > 0 ? base : 0;
    return status;
}

static es_status take_tied(es_weights *weights, const json_t *from,
                           const char *path)
{
    const json_t *value = json_object_get(from, "tie_word_embeddings");
    bool *tied = &weights->config.tied;
    if (!value)
        return ES_OK;
    if (*tied && !json_is_true(value))
        return es_fail(ES_EFORMAT,
                       "%s: tie_word_embeddings is not true, but the weights "
                       "have no lm_head.weight",
                       path);
    *tied = json_is_true(value);
    return ES_OK;
}

static es_status take_llama(es_weights *weights, const json_t *from,
                            const char *path)
{
    const json_t *act = json_object_get(from, "hidden_act");
    const char *name = act ? json_string_value(act) : "silu";
    double heads = 0, width = 0;
    es_status status;
    if (!name || strcmp(name, "silu") != 0)
        return es_fail(ES_EFORMAT,
                       "%s: hidden_act is %s: only silu is supported", path,
                       name ? name : "not a string");
    weights->config.ln_eps = 1e-6; /* the default of Llama, Qwen2 and Qwen3 */
    if ((status = check_llama_type(from, path)) < 0 ||
        (status = check_truths(from, path)) < 0 ||
        (status = check_layers(from, path)) < 0 ||
        (status = take_number(&weights->config.ln_eps, from, "rms_norm_eps", 0,
                              path)) < 0 ||
        (status = take_rotation(weights, from, path)) < 0 ||
        (status = take_tied(weights, from, path)) < 0 ||
        (status = take_number(&heads, from, "num_key_value_heads", 1, path)) <
            0 ||
        (status = take_number(&width, from, "head_dim", 1, path)) < 0)
        return status;
    /* Both numbers are compared with the shapes of the tensors later, when the
     * shapes are known. */
    weights->config.n_kv_head = (int)fmin(heads, INT32_MAX);
    weights->config.d_head = (int)fmin(width, INT32_MAX);
    return ES_OK;
}

/* --- BERT and RoBERTa ---------------------------------------------------- */

/* Checks the properties in config.json that must have a certain value if they
 * are present. */
static es_status check_bert_kind(const json_t *from, const char *path)
{
    static const char *const absent[] = {"is_decoder", "add_cross_attention"};
    const json_t *kind = json_object_get(from, "position_embedding_type");
    const char *name = kind ? json_string_value(kind) : "absolute";
    if (!name || strcmp(name, "absolute") != 0)
        return es_fail(
            ES_EFORMAT,
            "%s: position_embedding_type is %s: only absolute is supported",
            path, name ? name : "not a string");
    for (size_t i = 0; i < COUNT(absent); i++)
        if (json_is_true(json_object_get(from, absent[i])))
            return es_fail(
                ES_EFORMAT,
                "%s: %s is not false: this kind of model is not supported",
                path, absent[i]);
    return ES_OK;
}

/* Reads the padding token. RoBERTa's positions begin after the id of the
 * padding token. The position array of family roberta also contains the
 * embeddings before them. */
static es_status take_bert(es_weights *weights, const json_t *from,
                           const char *path)
{
    const json_t *padding = json_object_get(from, "pad_token_id");
    const char *type = json_string_value(json_object_get(from, "model_type"));
    const bool is_roberta = type && strcmp(type, "roberta") == 0;
    es_model_config *config = &weights->config;
    const bool predicts = config->family == ES_FAMILY_ROBERTA;
    if (!type || (!is_roberta && (predicts || strcmp(type, "bert") != 0)))
        return es_fail(ES_EFORMAT, "%s: model_type is %s: expected %sroberta",
                       path, type ? type : "not a string",
                       predicts ? "" : "bert or ");
    weights->maker = is_roberta ? "RoBERTa" : "BERT";
    config->ln_eps = 1e-12; /* the default epsilon of BERT and RoBERTa */
    if (padding && !json_is_null(padding) &&
        (!json_is_integer(padding) || json_integer_value(padding) < 0 ||
         json_integer_value(padding) >= config->vocab))
        return es_fail(ES_EFORMAT, "%s: pad_token_id is not a token", path);
    config->padding =
        json_is_integer(padding) ? (int)json_integer_value(padding) : -1;
    if (is_roberta &&
        (config->padding < 0 || config->padding + 1 >= config->ctx))
        return es_fail(ES_EFORMAT,
                       "%s: pad_token_id is missing or too large: the "
                       "positions of RoBERTa start after it",
                       path);
    const int n_skipped = is_roberta ? config->padding + 1 : 0;
    weights->n_skipped = predicts ? 0 : n_skipped;
    config->ctx -= n_skipped;
    if (predicts && json_is_false(json_object_get(from, "tie_word_embeddings")))
        return es_fail(ES_EFORMAT,
                       "%s: tie_word_embeddings is false, but family roberta "
                       "cannot have a separate output matrix",
                       path);
    return check_bert_kind(from, path);
}

/* --- ViT ----------------------------------------------------------------- */

static es_status take_vit(es_weights *weights, const json_t *from,
                          const char *path)
{
    es_image *image = &weights->config.image;
    const char *type = json_string_value(json_object_get(from, "model_type"));
    const json_t *bias = json_object_get(from, "qkv_bias");
    const struct {
        const char *key;
        int *size;
    } sizes[] = {{"image_size", &image->size},
                 {"patch_size", &image->patch},
                 {"num_channels", &image->channels}};
    if (!type || strcmp(type, "vit") != 0)
        return es_fail(ES_EFORMAT, "%s: model_type is %s: expected vit", path,
                       type ? type : "not a string");
    if (bias && !json_is_true(bias))
        return es_fail(
            ES_EFORMAT,
            "%s: qkv_bias is not true: this kind of model is not supported",
            path);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const json_t *value = json_object_get(from, sizes[i].key);
        const json_int_t said = json_integer_value(value);
        if (!json_is_integer(value) || said < 1 || said > INT_MAX ||
            (*sizes[i].size != 0 && *sizes[i].size != said))
            return es_fail(ES_EFORMAT, "%s: %s does not match the weights",
                           path, sizes[i].key);
        *sizes[i].size = (int)said;
    }
    if (es_model_config_n_patches(image) != weights->config.ctx)
        return es_fail(ES_EFORMAT,
                       "%s: image_size %d: the weights have %d positions", path,
                       image->size, weights->config.ctx);
    return ES_OK;
}

/* --- all families -------------------------------------------------------- */

static es_status take_all(es_weights *weights, int n_head, const json_t *from,
                          const char *path)
{
    const es_family family = weights->config.family;
    const bool is_llama = family == ES_FAMILY_LLAMA;
    const bool is_encoder = es_families[family].sees_all;
    es_status status =
        is_llama || is_encoder ? ES_OK : check_usual_type(weights, from, path);
    if (status == ES_OK)
        status = check_sizes(weights, from, path);
    if (status == ES_OK)
        status = is_llama ? take_llama(weights, from, path)
                 : es_families[family].is_post_norm
                     ? take_bert(weights, from, path)
                 : family == ES_FAMILY_VIT ? take_vit(weights, from, path)
                                           : take_usual(weights, from, path);
    if (status == ES_OK && is_encoder &&
        (status = take_activation(weights, from, path)) == ES_OK)
        status = take_epsilon(weights, from, path);
    if (status < 0)
        return status;
    int *ctx = &weights->config.ctx;
    if (family != ES_FAMILY_GPT2 && !is_encoder &&
        (status = take_size(ctx, from, ctx_names.neox, path)) < 0)
        return status;
    return take_heads(weights, n_head, from, path);
}

es_status es_weights_read_config(es_weights *weights, int n_head)
{
    const char *slash = strrchr(weights->path, '/');
    int n = slash ? (int)(slash - weights->path + 1) : 0;
    char path[PATH_MAX];
    json_t *from = NULL;
    snprintf(path, sizeof path, "%.*sconfig.json", n, weights->path);
    es_status status = load_config(&from, path);
    if (status == ES_OK && from)
        status = take_all(weights, n_head, from, path);
    const es_family family = weights->config.family;
    if (status == ES_OK && !from &&
        (family == ES_FAMILY_LLAMA || es_families[family].sees_all))
        status = es_fail(ES_EUSAGE,
                         "%s: weights of %s need a config.json in the same "
                         "folder, which specifies how positions are used",
                         weights->path, weights->maker);
    json_decref(from);
    return status;
}
