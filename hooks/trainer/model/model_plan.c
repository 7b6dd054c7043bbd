/* Allocates a model's memory: walks all arrays once to add up their sizes,
 * allocates one block, and walks them again to assign the pointers. */
#include "hooks/trainer/model/model_internal.h"

#include "analyzer/base/checked.h"

#define ALIGNMENT 64

/* A walk over all arrays: the position at which the next array begins in the
 * allocation. If `memory` is NULL, the walk only adds up the sizes. */
typedef struct plan {
    es_mem *memory;
    size_t at;
    bool overflow;
} plan;

/* Assigns an array of n_rows rows with `count` elements of `size` bytes each to
 * *out. */
static void take(plan *to, es_mem **out, size_t n_rows, size_t count,
                 size_t size)
{
    size_t bytes;
    *out = to->memory ? es_mem_at(to->memory, to->at) : NULL;
    if (!es_size_mul(&bytes, n_rows, count) ||
        !es_size_mul(&bytes, bytes, size) ||
        !es_size_add(&bytes, bytes, ALIGNMENT - 1) ||
        !es_size_add(&to->at, to->at, bytes / ALIGNMENT * ALIGNMENT))
        to->overflow = true;
}

/* Assigns the arrays for a norm's output and statistics. */
static void take_norm(plan *to, const es_model *model, es_mem **y,
                      es_mem **mean, es_mem **rstd)
{
    const size_t n = (size_t)es_model_n_rows(model);
    take(to, y, n, (size_t)model->config.d_model, model->ops->activation_size);
    if (!model->config.arch.rms_norm)
        take(to, mean, n, 1, sizeof(float));
    take(to, rstd, n, 1, sizeof(float));
}

static void plan_ffn(plan *to, const es_model *model, es_layer_memory *layer)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model;
    const size_t act = model->ops->activation_size;
    /* If no array is assigned to `middle`, it uses the memory of the sum that
     * is computed next. */
    if (!es_model_traits(model)->is_parallel || es_model_is_scaled(model))
        take(to, &layer->middle, n, d, act);
    /* In simplified blocks, the FFN uses the output of the attention's norm. */
    if (es_model_config_has_norm(config) &&
        !es_model_traits(model)->is_simplified)
        take_norm(to, model, &layer->u2, &layer->mean2, &layer->rstd2);
    /* A linear FFN keeps its inner values for the gradient of the weights. */
    if (config->arch.ffn != ES_FFN_FUSED)
        take(to, &layer->pre, n, (size_t)es_model_config_ffn_width(config),
             act);
    if (config->arch.activation == ES_ACT_SWIGLU)
        take(to, &layer->ffn_gate, n, (size_t)es_model_config_ffn_width(config),
             act);
    if (es_model_is_scaled(model) || es_model_traits(model)->is_post_norm)
        take(to, &layer->f, n, d, act);
}

/* Assigns the arrays for separate q, k and v, which are combined into qkv. */
static void plan_shared_heads(plan *to, const es_model *model,
                              es_layer_memory *layer)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t act = model->ops->activation_size;
    const int n_kv_head = es_model_config_kv_heads(config);
    const size_t keys = (size_t)es_model_config_key_width(config);
    take(to, &layer->q, n, (size_t)es_model_config_query_width(config), act);
    take(to, &layer->k, n, keys, act);
    take(to, &layer->v, n, keys, act);
    if (config->qk_norm)
        take(to, &layer->head_rstd, n, (size_t)(config->n_head + n_kv_head),
             sizeof(float));
}

static void plan_layer(plan *to, const es_model *model, int index)
{
    const es_model_config *config = &model->config;
    es_layer_memory *layer = &model->layers[index];
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model, f4 = sizeof(float);
    const size_t act = model->ops->activation_size;
    take(to, &layer->x, n, d, act);
    if (index == config->n_layer)
        return;
    const size_t heads = (size_t)es_model_config_query_width(config);
    const bool has_norm = es_model_value(model, index, ES_ROLE_LN_1_WEIGHT);
    /* A norm after the sub-block writes its output to u2, so only its
     * statistics need memory. */
    if (has_norm && es_model_traits(model)->is_post_norm) {
        take(to, &layer->mean1, n, 1, f4);
        take(to, &layer->rstd1, n, 1, f4);
    } else if (has_norm) {
        take_norm(to, model, &layer->u1, &layer->mean1, &layer->rstd1);
    }
    if (es_model_traits(model)->is_separate)
        plan_shared_heads(to, model, layer);
    take(to, &layer->qkv, n, 3 * heads, act);
    take(to, &layer->saved, n, ES_N_SAVED * (size_t)config->n_head, f4);
    take(to, &layer->heads, n, heads, act);
    if (config->arch.gate) {
        take(to, &layer->gate, n, d, act);
        take(to, &layer->gated, n, d, act);
    }
    if (es_model_has_ffn(model, index))
        plan_ffn(to, model, layer);
}

/* Returns true if the last norm is always RMSNorm, whatever norm the layers
 * have. */
static bool has_rms_norm(const es_model_config *config)
{
    return config->family == ES_FAMILY_LLAMA ||
           (config->family == ES_FAMILY_SAS && config->arch.rms_norm);
}

static void plan_shared(plan *to, es_model *model)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model, f4 = sizeof(float);
    const size_t md = (size_t)es_model_config_ffn_width(config);
    const size_t heads = (size_t)es_model_config_query_width(config);
    const size_t act = model->ops->activation_size;
    take(to, &model->inputs, (size_t)es_model_n_inputs(model), 2,
         sizeof(int32_t));
    if (es_model_traits(model)->has_images)
        take(to, &model->patches, n, (size_t)es_model_patch(model).n_in, act);
    if (es_model_traits(model)->is_post_norm)
        take_norm(to, model, &model->embedded, &model->mean_e, &model->rstd_e);
    if (es_model_traits(model)->has_head) {
        take(to, &model->head_pre, n, d, act);
        take(to, &model->head_post, n, d, act);
    }
    if (es_model_config_final_norm(config)) {
        take(to, &model->normed, n, d, act);
        if (!has_rms_norm(config))
            take(to, &model->mean, n, 1, f4);
        take(to, &model->rstd, n, 1, f4);
    }
    take(to, &model->logits, (size_t)es_model_loss_rows(model),
         (size_t)es_model_logit_stride(model), act);
    take(to, &model->row_loss, n, 1, f4);
    take(to, &model->lse, n, 1, f4);
    if (config->arch.activation != ES_ACT_LINEAR)
        take(to, &model->wide, n, md, act);
    take(to, &model->dx, n, d, act);
    take(to, &model->du, n, d, act);
    if (es_model_is_scaled(model) || config->dropout > 0)
        take(to, &model->df, n, d, act);
    if (config->dropout > 0)
        take(to, &model->kept, n, d, act);
    if (es_model_traits(model)->is_parallel ||
        es_model_traits(model)->is_simplified || heads != d)
        take(to, &model->dheads, n, heads, act);
    if (config->arch.entropy_reg)
        take(to, &model->dentropy, n, (size_t)config->n_head, f4);
    take(to, &model->ereg, 1, 1, f4);
    take(to, &model->dwide, n, md > 3 * heads ? md : 3 * heads, act);
    const bool has_details = es_model_has_details(model);
    if (has_details && es_model_traits(model)->is_parallel &&
        !es_model_is_scaled(model))
        take(to, &model->between, n, d, act);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i,
                                    config->arch.attention) &&
            (has_details ||
             !es_row_statistic_is_of_scores((es_row_statistic)i)))
            take(to, &model->rows.array[i], n,
                 (size_t)config->n_layer * (size_t)config->n_head, f4);
}

static void plan_all(plan *to, es_model *model)
{
    for (int i = 0; i <= model->config.n_layer; i++)
        plan_layer(to, model, i);
    /* A normalised weight needs memory in addition to its parameter. */
    const es_arch *arch = &model->config.arch;
    const size_t f4 = sizeof(float);
    size_t largest = 0;
    if (arch->weight_norm | arch->spectral_norm) {
        for (int index = 0; index < model->config.n_layer; index++) {
            es_layer_memory *layer = &model->layers[index];
            take(to, &layer->sigma, ES_N_MATRICES, 3, f4);
            for (int i = 0; i < ES_N_MATRICES; i++) {
                const size_t n =
                    es_model_normed_size(model, index, (es_matrix)i);
                if (n > 0)
                    take(to, &layer->weights[i], n, 1, f4);
                largest = n > largest ? n : largest;
            }
        }
        take(to, &model->dweight, largest, 1, f4);
    }
    plan_shared(to, model);
}

static es_status prepare(es_model *model)
{
    const es_model_config *config = &model->config;
    const int heads = 3 * es_model_config_query_width(config);
    int width = es_model_config_ffn_width(config);
    width = width > heads ? width : heads;
    width = width > config->d_model ? width : config->d_model;
    const int patch = es_model_patch(model).n_in;
    width = width > patch ? width : patch;
    const es_extents largest = {
        .n_rows = es_model_n_rows(model),
        .width = width > config->ctx ? width : config->ctx,
        .n_ctx = config->ctx,
        .n_head = config->n_head,
        .head_width = es_model_config_head_width(config),
        .sees_all = es_model_traits(model)->sees_all};
    return model->ops->prepare(model->backend, &largest);
}

es_status es_model_plan(es_model *model)
{
    plan sizes = {0};
    es_status status =
        es_alloc(&model->layers, (size_t)model->config.n_layer + 1,
                 sizeof *model->layers, "the model's plan");
    if (status < 0)
        return status;
    plan_all(&sizes, model);
    if (sizes.overflow)
        return es_fail(ES_ENOMEM, "the size of the activations overflows: give "
                                  "a smaller --batch or --ctx");
    if ((status = model->ops->reserve(model->backend, &model->activations,
                                      sizes.at)) < 0)
        return status;
    plan_all(&(plan){.memory = model->activations}, model);
    /* Arrays that were not assigned share the memory of other arrays. Without a
     * norm, its output u is its input x; without a gate, `gated` is `heads`;
     * `middle`, which is x + attention, uses the memory of the block's
     * output. */
    const int n_layer = model->config.n_layer;
    for (int i = 0; i < n_layer; i++) {
        es_layer_memory *layer = &model->layers[i];
        es_mem *const sum = model->between ? model->between : layer[1].x;
        layer->middle = layer->middle ? layer->middle : sum;
        layer->gated = layer->gated ? layer->gated : layer->heads;
        layer->u1 = layer->u1 ? layer->u1 : layer->x;
        layer->x2 = es_model_traits(model)->is_parallel     ? layer->x
                    : es_model_traits(model)->is_simplified ? layer->u1
                                                            : layer->middle;
        layer->u2 = layer->u2 ? layer->u2 : layer->x2;
    }
    model->dheads = model->dheads ? model->dheads : model->du;
    if (!es_model_config_final_norm(&model->config))
        model->normed = model->layers[n_layer].x;
    return prepare(model);
}
