/* Reads weights of Llama, Qwen2 and Qwen3 as saved by Hugging Face's library:
 * derives sizes from the shapes, and reads the other settings from
 * config.json. */
#include "hooks/trainer/files/weights_internal.h"

#include "analyzer/base/text.h"

#include <math.h>
#include <string.h>

#define USUAL_BASE 10000.0
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- sizes from the shapes ----------------------------------------------- */

es_status es_weights_llama_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    config->arch = (es_arch){.rms_norm = true, .activation = ES_ACT_SWIGLU};
    config->mlp_mult = 1;
    config->bias =
        es_weights_tensor(weights, 0, ES_ROLE_PROJ_BIAS) ? ES_BIAS_ALL
        : es_weights_tensor(weights, 0, ES_ROLE_Q_BIAS)  ? ES_BIAS_QKV
                                                         : ES_BIAS_NONE;
    config->qk_norm = es_weights_tensor(weights, 0, ES_ROLE_Q_NORM) != NULL;
    config->tied = es_weights_tensor(weights, -1, ES_ROLE_EMBED_OUT) == NULL;
    return es_weights_extent(&config->d_ff, weights, 0, ES_ROLE_FC_WEIGHT, 0);
}

es_status es_weights_llama_heads(es_weights *weights)
{
    es_model_config *config = &weights->config;
    int queries, keys;
    es_status status;
    if ((status = es_weights_extent(&queries, weights, 0, ES_ROLE_Q_WEIGHT,
                                    0)) < 0 ||
        (status = es_weights_extent(&keys, weights, 0, ES_ROLE_K_WEIGHT, 0)) <
            0)
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

/* --- config.json --------------------------------------------------------- */

static es_status check_type(const json_t *from, const char *path)
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

es_status es_weights_llama_config(es_weights *weights, const json_t *from,
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
    if ((status = check_type(from, path)) < 0 ||
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
    /* These sizes are compared with the shapes when the shapes are known. */
    weights->config.n_kv_head = (int)fmin(heads, INT32_MAX);
    weights->config.d_head = (int)fmin(width, INT32_MAX);
    return ES_OK;
}
