/* One table of sizes, one allocation, carved pointers. */
#include "hooks/trainer/model/model_internal.h"

#include "analyzer/base/checked.h"

#define ALIGNMENT 64

/* A pointer to set, and the bytes that it will point to. */
typedef struct slot {
    es_mem **at;
    size_t bytes;
} slot;

typedef struct plan {
    slot *slots;
    size_t n, capacity;
    bool overflow;
} plan;

/* `count` elements of `size` bytes in each of n_rows rows. */
static void take(plan *to, es_mem **at, size_t n_rows, size_t count,
                 size_t size)
{
    slot next = {.at = at};
    if (to->n == to->capacity || !es_size_mul(&next.bytes, n_rows, count) ||
        !es_size_mul(&next.bytes, next.bytes, size) ||
        !es_size_add(&next.bytes, next.bytes, ALIGNMENT - 1)) {
        to->overflow = true;
        return;
    }
    next.bytes = next.bytes / ALIGNMENT * ALIGNMENT;
    to->slots[to->n++] = next;
}

/* Slots of one layer, at most. */
#define LAYER_SLOTS 18
#define MODEL_SLOTS (18 + ES_N_ROW_STATISTICS)

static void plan_ffn(plan *to, const es_model *model, es_layer_memory *layer)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model, f4 = sizeof(float);
    const size_t act = model->ops->activation_size;
    /* Where only a sum goes on from it, that sum can take its place. */
    if (!es_model_is_parallel(model) || es_model_is_scaled(model))
        take(to, &layer->middle, n, d, act);
    if (config->arch.layer_norm) {
        take(to, &layer->u2, n, d, act);
        take(to, &layer->mean2, n, 1, f4);
        take(to, &layer->rstd2, n, 1, f4);
    }
    /* A linear FFN has one inner value, kept for the weight gradient. */
    if (config->arch.ffn != ES_FFN_FUSED)
        take(to, &layer->pre, n, (size_t)config->mlp_mult * d, act);
    if (es_model_is_scaled(model))
        take(to, &layer->f, n, d, act);
}

/* Beside parameters that are normalised, the weights. */
static void plan_weights(plan *to, es_model *model)
{
    const es_arch *arch = &model->config.arch;
    const size_t f4 = sizeof(float);
    size_t largest = 0;
    if (!(arch->weight_norm | arch->spectral_norm))
        return;
    for (int index = 0; index < model->config.n_layer; index++) {
        es_layer_memory *layer = &model->layers[index];
        take(to, &layer->sigma, ES_N_MATRICES, 3, f4);
        for (int i = 0; i < ES_N_MATRICES; i++) {
            const size_t n = es_model_normed_size(model, index, i);
            if (n > 0)
                take(to, &layer->weights[i], n, 1, f4);
            largest = n > largest ? n : largest;
        }
    }
    take(to, &model->dweight, largest, 1, f4);
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
    if (config->arch.layer_norm) {
        take(to, &layer->u1, n, d, act);
        take(to, &layer->mean1, n, 1, f4);
        take(to, &layer->rstd1, n, 1, f4);
    }
    take(to, &layer->qkv, n, 3 * d, act);
    take(to, &layer->saved, n, ES_N_SAVED * (size_t)config->n_head, f4);
    take(to, &layer->heads, n, d, act);
    if (es_model_has_ffn(model, index))
        plan_ffn(to, model, layer);
}

static void plan_rows(plan *to, es_model *model)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t heads = (size_t)config->n_layer * (size_t)config->n_head;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i,
                                    config->arch.attention))
            take(to, &model->rows.array[i], n, heads, sizeof(float));
}

static void plan_shared(plan *to, es_model *model)
{
    const es_model_config *config = &model->config;
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model, f4 = sizeof(float);
    const size_t md = (size_t)config->mlp_mult * d;
    const size_t act = model->ops->activation_size;
    take(to, &model->inputs, n, 2, sizeof(int32_t));
    if (es_model_config_final_norm(config)) {
        take(to, &model->normed, n, d, act);
        take(to, &model->mean, n, 1, f4);
        take(to, &model->rstd, n, 1, f4);
    }
    take(to, &model->logits, n, (size_t)es_model_logit_stride(model), act);
    take(to, &model->row_loss, n, 1, f4);
    take(to, &model->lse, n, 1, f4);
    if (config->arch.activation != ES_ACT_LINEAR)
        take(to, &model->wide, n, md, act);
    take(to, &model->dx, n, d, act);
    take(to, &model->du, n, d, act);
    if (es_model_is_scaled(model))
        take(to, &model->df, n, d, act);
    if (es_model_is_parallel(model))
        take(to, &model->dheads, n, d, act);
    if (config->arch.entropy_reg)
        take(to, &model->dentropy, n, (size_t)config->n_head, f4);
    take(to, &model->ereg, 1, 1, f4);
    take(to, &model->dwide, n, md > 3 * d ? md : 3 * d, act);
    plan_rows(to, model);
}

static es_status carve(es_model *model, const plan *from)
{
    size_t total = 0;
    for (size_t i = 0; i < from->n; i++)
        if (!es_size_add(&total, total, from->slots[i].bytes))
            return es_fail(ES_ENOMEM, "the activations' size overflows: make "
                                      "--batch or --ctx smaller");
    es_status status =
        model->ops->reserve(model->backend, &model->activations, total);
    if (status != ES_OK)
        return status;
    size_t at = 0;
    for (size_t i = 0; i < from->n; i++) {
        *from->slots[i].at = es_mem_at(model->activations, at);
        at += from->slots[i].bytes;
    }
    return ES_OK;
}

/* Where there is no LayerNorm its output is its input; where x + attention has
 * no place of its own it is made in that of the block's output. */
static void alias_identities(es_model *model)
{
    const int n_layer = model->config.n_layer;
    for (int i = 0; i < n_layer; i++) {
        es_layer_memory *layer = &model->layers[i];
        layer->middle = layer->middle ? layer->middle : layer[1].x;
        layer->u1 = layer->u1 ? layer->u1 : layer->x;
        layer->x2 = es_model_is_parallel(model) ? layer->x : layer->middle;
        layer->u2 = layer->u2 ? layer->u2 : layer->x2;
    }
    model->dheads = model->dheads ? model->dheads : model->du;
    if (!es_model_config_final_norm(&model->config))
        model->normed = model->layers[n_layer].x;
}

static es_status prepare(es_model *model)
{
    const es_model_config *config = &model->config;
    int width = config->mlp_mult > 3 ? config->mlp_mult : 3;
    width *= config->d_model;
    const es_extents largest = {.n_rows = es_model_n_rows(model),
                                .width =
                                    width > config->ctx ? width : config->ctx,
                                .n_ctx = config->ctx,
                                .n_head = config->n_head,
                                .head_width = config->d_model / config->n_head};
    return model->ops->prepare(model->backend, &largest);
}

es_status es_model_plan(es_model *model)
{
    const size_t n_layers = (size_t)model->config.n_layer + 1;
    plan all = {.capacity = n_layers * LAYER_SLOTS + MODEL_SLOTS};
    model->layers = calloc(n_layers, sizeof *model->layers);
    all.slots = es_resize(NULL, all.capacity, sizeof *all.slots);
    es_status status = ES_OK;
    if (!model->layers || !all.slots) {
        status = es_fail(ES_ENOMEM, "out of memory for the model's plan");
        goto done;
    }
    for (int i = 0; i <= model->config.n_layer; i++)
        plan_layer(&all, model, i);
    plan_weights(&all, model);
    plan_shared(&all, model);
    status = all.overflow
                 ? es_fail(ES_ENOMEM, "the activations' size overflows: make "
                                      "--batch or --ctx smaller")
                 : carve(model, &all);
    if (status == ES_OK)
        alias_identities(model);
    if (status == ES_OK)
        status = prepare(model);
done:
    free(all.slots);
    return status;
}
