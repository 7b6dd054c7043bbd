/* Weights that others saved, and our own checkpoints, as the start of a model:
   whose file it is, which sizes its shapes give, and that every tensor in it is
   one that such a model has. */
#include "hooks/trainer/files/weights.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/files/weights_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- whose file it is ------------------------------------------------------
 */

/** True if the file has the format's embedding; finds the prefix in use. */
static bool is_format(es_weights *weights, const es_weights_format *format)
{
    const char *const prefixes[] = {"", format->prefix};
    char name[ES_TENSOR_NAME_MAX];
    weights->format = format;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", prefixes[i],
                 format->places[ES_ROLE_WTE].name);
        weights->prefix = prefixes[i];
        if (es_safetensors_find(weights->file, name))
            return true;
    }
    return false;
}

static es_status find_format(es_weights *weights)
{
    if (is_format(weights, &es_weights_gpt2) ||
        is_format(weights, &es_weights_neox))
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: neither a checkpoint of entropy-train nor weights of "
                   "GPT-2 (%s) or GPT-NeoX (%s)",
                   weights->path, es_weights_gpt2.places[ES_ROLE_WTE].name,
                   es_weights_neox.places[ES_ROLE_WTE].name);
}

/* --- sizes -----------------------------------------------------------------
 */

static es_status missing(const es_weights *weights, const char *name)
{
    return es_fail(ES_EFORMAT, "%s: tensor %s is missing", weights->path, name);
}

/** An extent of a matrix, which any int can hold. */
static es_status find_extent(int *out, const es_weights *weights, int layer,
                             es_role role, int dim)
{
    char name[ES_TENSOR_NAME_MAX];
    es_weights_name(name, weights, layer, role);
    const es_tensor *tensor = es_safetensors_find(weights->file, name);
    if (!tensor)
        return missing(weights, name);
    if (tensor->n_dims != 2)
        return es_fail(ES_EFORMAT, "%s: %s has %d dimensions, not 2",
                       weights->path, name, tensor->n_dims);
    int64_t extent = tensor->dims[dim];
    if (extent < 1 || extent > INT_MAX)
        return es_fail(ES_EFORMAT, "%s: %s has an extent of %" PRId64,
                       weights->path, name, extent);
    *out = (int)extent;
    return ES_OK;
}

static int count_layers(const es_weights *weights)
{
    int n = 0, layer;
    for (size_t i = 0; i < es_safetensors_count(weights->file); i++) {
        const es_tensor *tensor = es_safetensors_at(weights->file, i);
        if (es_weights_in_layer(&layer, weights, tensor->name) && layer >= n)
            n = layer + 1;
    }
    return n;
}

/** Width of the network inside an FFN, in model widths. */
static es_status find_mlp_mult(es_weights *weights)
{
    es_model_config *config = &weights->config;
    bool turned =
        es_weights_layout(weights, ES_ROLE_FC_WEIGHT) != ES_LAYOUT_SAME;
    int width;
    es_status status =
        find_extent(&width, weights, 0, ES_ROLE_FC_WEIGHT, turned ? 0 : 1);
    if (status < 0)
        return status;
    if (width % config->d_model)
        return es_fail(ES_EFORMAT,
                       "%s: the feed-forward width %d is no multiple of the "
                       "model's %d",
                       weights->path, width, config->d_model);
    config->mlp_mult = width / config->d_model;
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
    config->n_layer = count_layers(weights);
    es_status status;
    if (config->n_layer == 0)
        return es_fail(ES_EFORMAT, "%s: no tensor of a layer (%s0. ...)",
                       weights->path, weights->format->layer);
    if ((status = find_extent(&config->vocab, weights, -1, ES_ROLE_WTE, 0)) <
            0 ||
        (status = find_extent(&config->d_model, weights, -1, ES_ROLE_WTE, 1)) <
            0 ||
        (config->family == ES_FAMILY_GPT2 &&
         (status = find_extent(&config->ctx, weights, -1, ES_ROLE_WPE, 0)) < 0))
        return status;
    return find_mlp_mult(weights);
}

/* --- every tensor ----------------------------------------------------------
 */

/** The shape that one of our arrays has in the file; its number of extents. */
static int shape_in_file(int64_t dims[2], const es_weights *weights,
                         const es_param *param)
{
    dims[0] = param->dims[0];
    dims[1] = param->dims[1];
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
    int64_t dims[2];
    int n_dims = shape_in_file(dims, weights, param);
    bool same = tensor->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = tensor->dims[i] == dims[i];
    if (!same) {
        char have[128], want[64];
        print_shape(have, sizeof have, tensor->dims, tensor->n_dims);
        print_shape(want, sizeof want, dims, n_dims);
        return es_fail(ES_EFORMAT, "%s: %s has the shape (%s), not (%s)",
                       weights->path, tensor->name, have, want);
    }
    if (tensor->type == ES_TENSOR_I64 || tensor->type == ES_TENSOR_OTHER)
        return es_fail(ES_EFORMAT, "%s: %s holds no floating-point numbers",
                       weights->path, tensor->name);
    return ES_OK;
}

/** Finds the tensors of all arrays of the configuration. */
static es_status find_tensors(es_weights *weights)
{
    es_status status = es_alloc(&weights->tensors, weights->params.n,
                                sizeof *weights->tensors, "its tensors");
    if (status < 0)
        return status;
    for (size_t i = 0; i < weights->params.n; i++) {
        const es_param *param = &weights->params.table[i];
        char name[ES_TENSOR_NAME_MAX];
        es_weights_name(name, weights, param->layer, param->role);
        const es_tensor *tensor = es_safetensors_find(weights->file, name);
        status = tensor ? check_tensor(weights, param, tensor)
                        : missing(weights, name);
        if (status < 0)
            return status;
        weights->tensors[i] = tensor;
    }
    return ES_OK;
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_ignored(const es_weights *weights, const char *name)
{
    int layer;
    if (!weights->format)
        return es_checkpoint_is_moment(name);
    const char *rest = es_weights_in_layer(&layer, weights, name);
    if (rest)
        return is_among(rest, weights->format->ignored);
    return is_among(name, weights->format->ignored_bare);
}

static bool is_used(const es_weights *weights, const es_tensor *tensor)
{
    for (size_t i = 0; i < weights->params.n; i++)
        if (weights->tensors[i] == tensor)
            return true;
    return false;
}

/** A tensor that no array of ours is filled from changes what the model
 *  computes. */
static es_status refuse_others(const es_weights *weights)
{
    size_t n = es_safetensors_count(weights->file);
    size_t expected = weights->params.n;
    for (size_t i = 0; i < n; i++)
        expected +=
            is_ignored(weights, es_safetensors_at(weights->file, i)->name);
    for (size_t i = 0; i < n && expected != n; i++) {
        const es_tensor *tensor = es_safetensors_at(weights->file, i);
        if (!is_ignored(weights, tensor->name) && !is_used(weights, tensor))
            return es_fail(ES_EFORMAT, "%s: tensor %s: a %s model has none",
                           weights->path, tensor->name,
                           es_weights_maker(weights));
    }
    return ES_OK;
}

/* --- open and close --------------------------------------------------------
 */

static es_status need_heads(const es_weights *weights)
{
    if (weights->config.n_head > 0)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s: weights do not say how many heads they have, and no "
                   "config.json is beside them: give --n-head",
                   weights->path);
}

/** Rotary models have no longest context; any one does to list the arrays. */
static es_status check_config(const es_weights *weights)
{
    es_model_config config = weights->config;
    if (config.ctx == 0)
        config.ctx = 1;
    config.batch = 1;
    return es_model_config_check(&config);
}

static es_status take_foreign(es_weights *weights, int n_head)
{
    es_status status;
    if ((status = find_format(weights)) < 0 ||
        (status = find_sizes(weights)) < 0)
        return status;
    weights->config.n_head = n_head;
    status = es_weights_read_config(weights, n_head);
    return status < 0 ? status : need_heads(weights);
}

static es_status take_own(es_weights *weights)
{
    es_checkpoint *checkpoint = NULL;
    es_status status = es_checkpoint_open(&checkpoint, weights->path);
    if (status < 0)
        return status;
    weights->prefix = "";
    weights->config = es_checkpoint_settings(checkpoint)->model;
    weights->step = es_checkpoint_state_of(checkpoint)->step;
    es_checkpoint_close(checkpoint);
    return ES_OK;
}

static es_status take_model(es_weights *weights, int n_head)
{
    es_status status = es_checkpoint_is_ours(weights->file)
                           ? take_own(weights)
                           : take_foreign(weights, n_head);
    if (status < 0 || (status = check_config(weights)) < 0 ||
        (status = es_params_list(&weights->params, &weights->config)) < 0 ||
        (status = find_tensors(weights)) < 0)
        return status;
    return refuse_others(weights);
}

es_status es_weights_open(es_weights **out, const char *path, int n_head)
{
    *out = NULL;
    if (es_text_ends(path, ".index.json"))
        return es_fail(ES_EFORMAT,
                       "%s: weights in several files cannot be read: write "
                       "them as one (save_pretrained with a max_shard_size "
                       "above their size)",
                       path);
    es_status status = es_alloc(out, 1, sizeof **out, "weights");
    if (status < 0)
        return status;
    if ((status = es_copy_text(&(*out)->path, path)) < 0 ||
        (status = es_safetensors_open(&(*out)->file, path)) < 0 ||
        (status = take_model(*out, n_head)) < 0) {
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
    free(weights->path);
    free(weights);
}

const char *es_weights_maker(const es_weights *weights)
{
    return weights->format ? weights->format->maker : "entropy-train";
}

const es_model_config *es_weights_config(const es_weights *weights)
{
    return &weights->config;
}

int64_t es_weights_step(const es_weights *weights)
{
    return weights->step;
}
