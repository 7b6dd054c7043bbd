/* Reads weights of ViT for image classification as saved by Hugging Face's
 * library, such as those of google/vit: derives sizes from the shapes, and
 * checks config.json. */
#include "hooks/trainer/files/weights_internal.h"

#include <limits.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const vit_ignored[] = {NULL};

/* Format of ViT (Dosovitskiy et al. 2021), with the names of google/vit's
 * published checkpoints. */
const struct es_weights_format es_weights_vit = {
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

/* Reads extent `dim` of an array that must have n_dims extents. */
static es_status find_extent(int *out, const es_weights *weights, int layer,
                             es_role role, int n_dims, int dim)
{
    const es_tensor *tensor = es_weights_tensor(weights, layer, role);
    if (!tensor || tensor->n_dims != n_dims || tensor->dims[dim] < 1 ||
        tensor->dims[dim] > INT_MAX)
        return es_fail(ES_EFORMAT,
                       "%s: %s is missing or does not have the shape of a ViT",
                       weights->path, tensor ? tensor->name : "an array");
    *out = (int)tensor->dims[dim];
    return ES_OK;
}

es_status es_weights_vit_sizes(es_weights *weights)
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
            find_extent(sizes[i].size, weights, sizes[i].layer, sizes[i].role,
                        sizes[i].n_dims, sizes[i].dim);
        if (status < 0)
            return status;
    }
    config->mlp_mult = 1;
    config->vocab = 0; /* the data determine the number of levels of a pixel */
    return ES_OK;
}

bool es_weights_vit_ignores(const es_weights *weights, const char *name)
{
    static const char pooler[] = "pooler.";
    const size_t n = strlen(weights->prefix);
    return strncmp(name, weights->prefix, n) == 0 &&
           strncmp(name + n, pooler, strlen(pooler)) == 0;
}

es_status es_weights_vit_config(es_weights *weights, const json_t *from,
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
