/* Reads weights of BERT and RoBERTa as saved by Hugging Face's library. The
 * positions of RoBERTa begin after the padding position; the embedding of the
 * first token type is added to all positions. The layers that make predictions
 * from the last layer's output are not read. */
#include "hooks/trainer/files/weights_internal.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

es_status es_weights_bert_sizes(es_weights *weights)
{
    es_model_config *config = &weights->config;
    es_status status;
    config->mlp_mult = 1;
    config->final_norm = ES_FINAL_AUTO;
    config->forward_only = true;
    if ((status =
             es_weights_extent(&config->ctx, weights, -1, ES_ROLE_WPE, 0)) < 0)
        return status;
    return es_weights_extent(&config->d_ff, weights, 0, ES_ROLE_FC_WEIGHT, 0);
}

bool es_weights_bert_ignores(const es_weights *weights, const char *name)
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

/* Checks the properties in config.json that must have a certain value if they
 * are present. */
static es_status check_kind(const json_t *from, const char *path)
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

es_status es_weights_bert_config(es_weights *weights, const json_t *from,
                                 const char *path)
{
    const json_t *padding = json_object_get(from, "pad_token_id");
    const char *type = json_string_value(json_object_get(from, "model_type"));
    const bool is_roberta = type && strcmp(type, "roberta") == 0;
    es_model_config *config = &weights->config;
    if (!type || (!is_roberta && strcmp(type, "bert") != 0))
        return es_fail(ES_EFORMAT,
                       "%s: model_type is %s: expected bert or roberta", path,
                       type ? type : "not a string");
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
    weights->n_skipped = is_roberta ? config->padding + 1 : 0;
    config->ctx -= weights->n_skipped;
    return check_kind(from, path);
}

es_status es_weights_bert_positions(float *out, const es_weights *weights,
                                    const es_param *param)
{
    static const char name[] = "embeddings.token_type_embeddings.weight";
    char full[ES_PARAM_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", weights->prefix, name);
    const es_tensor *types = es_safetensors_find(weights->file, full);
    const es_tensor *from = es_weights_tensor(weights, -1, ES_ROLE_WPE);
    const size_t d = (size_t)weights->config.d_model;
    float row[1024];
    es_status status = es_safetensors_read(
        weights->file, from, out, (size_t)weights->n_skipped * d, param->n);
    if (status == ES_OK && (!types || types->n_dims != 2 ||
                            types->dims[0] < 1 || types->dims[1] != (int64_t)d))
        return es_fail(ES_EFORMAT, "%s: %s is missing or has the wrong width",
                       weights->path, full);
    for (size_t first = 0; status == ES_OK && first < d; first += COUNT(row)) {
        const size_t n = d - first < COUNT(row) ? d - first : COUNT(row);
        status = es_safetensors_read(weights->file, types, row, first, n);
        for (size_t i = 0; status == ES_OK && i < param->n / d; i++)
            for (size_t c = 0; c < n; c++)
                out[i * d + first + c] += row[c];
    }
    return status;
}
