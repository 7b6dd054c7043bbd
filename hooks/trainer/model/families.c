/* Defines the properties of each model family, and computes the sizes that
 * follow from a configuration, such as the width of a head. */
#include "hooks/trainer/model/config.h"

const char *const es_family_names[ES_N_FAMILIES + 1] = {
    [ES_FAMILY_GPT2] = "gpt2",   [ES_FAMILY_PYTHIA] = "pythia",
    [ES_FAMILY_LLAMA] = "llama", [ES_FAMILY_BERT] = "bert",
    [ES_FAMILY_SAS] = "sas",     [ES_FAMILY_ROBERTA] = "roberta",
    [ES_FAMILY_VIT] = "vit"};

const es_family_traits es_families[ES_N_FAMILIES] = {
    [ES_FAMILY_GPT2] = {.layer = "h.", .bias = ES_BIAS_QK, .is_tied = true},
    [ES_FAMILY_PYTHIA] = {.layer = "h.",
                          .bias = ES_BIAS_QK,
                          .is_parallel = true,
                          .rotates = true},
    [ES_FAMILY_LLAMA] = {.layer = "model.layers.",
                         .bias = ES_BIAS_NONE,
                         .rotates = true,
                         .is_separate = true,
                         .is_of_transformers = true},
    [ES_FAMILY_BERT] = {.layer = "encoder.layer.",
                        .bias = ES_BIAS_ALL,
                        .is_separate = true,
                        .is_post_norm = true,
                        .sees_all = true,
                        .is_tied = true,
                        .is_of_transformers = true},
    [ES_FAMILY_SAS] = {.layer = "h.",
                       .bias = ES_BIAS_QK,
                       .is_separate = true,
                       .is_simplified = true,
                       .is_tied = true},
    [ES_FAMILY_ROBERTA] = {.layer = "roberta.encoder.layer.",
                           .bias = ES_BIAS_ALL,
                           .is_separate = true,
                           .is_post_norm = true,
                           .sees_all = true,
                           .is_tied = true,
                           .has_head = true,
                           .masks = true,
                           .is_of_transformers = true},
    [ES_FAMILY_VIT] = {.layer = "vit.encoder.layer.",
                       .bias = ES_BIAS_ALL,
                       .is_separate = true,
                       .sees_all = true,
                       .has_images = true,
                       .is_of_transformers = true}};

const char *const es_bias_names[ES_N_BIASES + 1] = {[ES_BIAS_ALL] = "all",
                                                    [ES_BIAS_QK] = "qk",
                                                    [ES_BIAS_NONE] = "none",
                                                    [ES_BIAS_QKV] = "qkv"};

int es_model_config_kv_heads(const es_model_config *config)
{
    return config->n_kv_head ? config->n_kv_head : config->n_head;
}

int es_model_config_head_width(const es_model_config *config)
{
    return config->d_head ? config->d_head : config->d_model / config->n_head;
}

int es_model_config_query_width(const es_model_config *config)
{
    return config->n_head * es_model_config_head_width(config);
}

int es_model_config_key_width(const es_model_config *config)
{
    return es_model_config_kv_heads(config) *
           es_model_config_head_width(config);
}

int es_model_config_ffn_width(const es_model_config *config)
{
    return config->d_ff ? config->d_ff : config->mlp_mult * config->d_model;
}

int es_model_config_n_skipped(const es_model_config *config)
{
    return config->family == ES_FAMILY_ROBERTA ? config->padding + 1 : 0;
}

int es_model_config_n_inputs(const es_model_config *config)
{
    const es_image *image = &config->image;
    return es_families[config->family].has_images
               ? image->channels * image->size * image->size
               : config->ctx;
}

int es_model_config_n_outputs(const es_model_config *config)
{
    return es_families[config->family].has_images ? config->image.classes
                                                  : config->vocab;
}

int es_model_config_n_patches(const es_image *image)
{
    const int side = image->patch > 0 ? image->size / image->patch : 0;
    return side > 0 && image->size % image->patch == 0 && side <= ES_MAX_IMAGE
               ? side * side + 1
               : 0;
}

bool es_model_config_has_loss(const es_model_config *config)
{
    return config->family != ES_FAMILY_BERT;
}

bool es_model_config_has_norm(const es_model_config *config)
{
    return config->arch.layer_norm || config->arch.rms_norm;
}

bool es_model_config_has_input(const es_model_config *config,
                               es_range_kind range)
{
    bool has_act = false;
    for (int layer = 0; layer < config->n_layer; layer++)
        has_act = has_act || es_arch_parts(&config->arch, layer).activation !=
                                 ES_ACT_LINEAR;
    switch (range) {
    case ES_RANGE_ATTN:
        return config->arch.attention == ES_POWER_SOFTMAX;
    case ES_RANGE_ACT:
        return has_act;
    default:
        return es_model_config_has_norm(config);
    }
}

bool es_model_config_is_ranged(const es_model_config *config)
{
    return config->range_weight[ES_RANGE_ATTN] > 0 ||
           config->range_weight[ES_RANGE_ACT] > 0 ||
           config->range_weight[ES_RANGE_NORM] > 0;
}
