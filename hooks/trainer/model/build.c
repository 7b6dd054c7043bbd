/* Builds and frees a model. Its activations are one allocation: a walk over all
 * arrays adds up their sizes, and a second walk assigns the pointers. */
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/loss_scale.h"
#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/polynomial.h"
#include "hooks/trainer/model/ranks.h"
#include "hooks/trainer/model/report.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/processor.h"

#include <stdlib.h>

/* --- memory --------------------------------------------------------------- */

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
static void take_array(plan *to, es_mem **out, size_t n_rows, size_t count,
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
    take_array(to, y, n, (size_t)model->config.d_model,
               model->ops->activation_size);
    if (!model->config.arch.rms_norm)
        take_array(to, mean, n, 1, sizeof(float));
    take_array(to, rstd, n, 1, sizeof(float));
}

static void plan_ffn(plan *to, const es_model *model, int index)
{
    const es_model_config *config = &model->config;
    es_layer_memory *layer = &model->layers[index];
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model;
    const size_t act = model->ops->activation_size;
    const bool is_scaled = es_model_is_scaled(model, index);
    /* Only layers for which this condition is true need a separate array for
     * `middle` (x plus attention). In other layers `middle` shares the memory
     * of the sum that is computed next. */
    if (!es_model_traits(model)->is_parallel || is_scaled)
        take_array(to, &layer->middle, n, d, act);
    /* Simplified blocks have no norm before the FFN, which uses the output of
     * the attention's norm instead. */
    if (es_model_value(model, index, ES_ROLE_LN_2_WEIGHT))
        take_norm(to, model, &layer->u2, &layer->mean2, &layer->rstd2);
    /* A linear FFN keeps its inner values for the gradient of the weights. */
    if (es_model_value(model, index, ES_ROLE_FC_WEIGHT))
        take_array(to, &layer->pre, n,
                   (size_t)es_model_config_ffn_width(config), act);
    if (es_model_value(model, index, ES_ROLE_FFN_GATE_WEIGHT))
        take_array(to, &layer->ffn_gate, n,
                   (size_t)es_model_config_ffn_width(config), act);
    if (is_scaled || es_model_traits(model)->is_post_norm)
        take_array(to, &layer->f, n, d, act);
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
    take_array(to, &layer->q, n, (size_t)es_model_config_query_width(config),
               act);
    take_array(to, &layer->k, n, keys, act);
    take_array(to, &layer->v, n, keys, act);
    if (config->qk_norm)
        take_array(to, &layer->head_rstd, n,
                   (size_t)(config->n_head + n_kv_head), sizeof(float));
}

static void plan_layer(plan *to, const es_model *model, int index)
{
    const es_model_config *config = &model->config;
    es_layer_memory *layer = &model->layers[index];
    const size_t n = (size_t)es_model_n_rows(model);
    const size_t d = (size_t)config->d_model, f4 = sizeof(float);
    const size_t act = model->ops->activation_size;
    take_array(to, &layer->x, n, d, act);
    if (index == config->n_layer)
        return;
    const size_t heads = (size_t)es_model_config_query_width(config);
    const bool has_norm = es_model_value(model, index, ES_ROLE_LN_1_WEIGHT);
    /* If the norm follows attention (post-norm), its output goes to the array
     * u2, so only its statistics need memory here. */
    if (has_norm && es_model_traits(model)->is_post_norm) {
        take_array(to, &layer->mean1, n, 1, f4);
        take_array(to, &layer->rstd1, n, 1, f4);
    } else if (has_norm) {
        take_norm(to, model, &layer->u1, &layer->mean1, &layer->rstd1);
    }
    if (es_model_traits(model)->is_separate)
        plan_shared_heads(to, model, layer);
    take_array(to, &layer->qkv, n, 3 * heads, act);
    if (config->arch.direct)
        take_array(to, &layer->log_t, (size_t)config->n_head,
                   (size_t)config->ctx, f4);
    take_array(to, &layer->saved, n, ES_N_SAVED * (size_t)config->n_head, f4);
    take_array(to, &layer->heads, n, heads, act);
    if (config->arch.gate) {
        take_array(to, &layer->gate, n, d, act);
        take_array(to, &layer->gated, n, d, act);
    }
    if (es_model_has_ffn(model, index))
        plan_ffn(to, model, index);
}

/* Counts the layers whose FFN has alpha and beta or, if `scaled` is false, the
 * layers whose FFN has neither. */
static int count_ffns(const es_model *model, bool scaled)
{
    int n = 0;
    for (int layer = 0; layer < model->config.n_layer; layer++)
        n += es_model_has_ffn(model, layer) &&
             es_model_is_scaled(model, layer) == scaled;
    return n;
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
    take_array(to, &model->inputs, (size_t)es_model_n_inputs(model), 2,
               sizeof(int32_t));
    if (es_model_traits(model)->has_images)
        take_array(to, &model->patches, n, (size_t)es_model_patch(model).n_in,
                   act);
    if (es_model_traits(model)->is_post_norm)
        take_norm(to, model, &model->embedded, &model->mean_e, &model->rstd_e);
    if (es_model_traits(model)->has_head) {
        take_array(to, &model->head_pre, n, d, act);
        take_array(to, &model->head_post, n, d, act);
    }
    if (es_model_config_final_norm(config)) {
        take_array(to, &model->normed, n, d, act);
        if (!has_rms_norm(config))
            take_array(to, &model->mean, n, 1, f4);
        take_array(to, &model->rstd, n, 1, f4);
    }
    take_array(to, &model->logits, (size_t)es_model_loss_rows(model),
               (size_t)es_model_logit_stride(model), act);
    take_array(to, &model->row_loss, n, 1, f4);
    take_array(to, &model->lse, n, 1, f4);
    if (config->arch.activation != ES_ACT_LINEAR)
        take_array(to, &model->wide, n, md, act);
    take_array(to, &model->dx, n, d, act);
    take_array(to, &model->du, n, d, act);
    if (count_ffns(model, true) > 0 || config->dropout > 0)
        take_array(to, &model->df, n, d, act);
    if (config->dropout > 0)
        take_array(to, &model->kept, n, d, act);
    if (es_model_traits(model)->is_parallel ||
        es_model_traits(model)->is_simplified || heads != d)
        take_array(to, &model->dheads, n, heads, act);
    if (config->arch.direct)
        take_array(to, &model->dlog_t, (size_t)config->n_head,
                   (size_t)config->ctx, f4);
    if (config->arch.entropy_reg)
        take_array(to, &model->dentropy, n, (size_t)config->n_head, f4);
    take_array(to, &model->ereg, 1, 1, f4);
    take_array(to, &model->dwide, n, md > 3 * heads ? md : 3 * heads, act);
    const bool has_details = es_model_has_details(model);
    if (has_details && es_model_traits(model)->is_parallel &&
        count_ffns(model, false) > 0)
        take_array(to, &model->between, n, d, act);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i,
                                    config->arch.attention) &&
            (has_details ||
             !es_row_statistic_is_of_scores((es_row_statistic)i)))
            take_array(to, &model->rows.array[i], n,
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
            take_array(to, &layer->sigma, ES_N_MATRICES, 3, f4);
            for (int i = 0; i < ES_N_MATRICES; i++) {
                const size_t n =
                    es_model_normed_size(model, index, (es_matrix)i);
                if (n > 0)
                    take_array(to, &layer->weights[i], n, 1, f4);
                largest = n > largest ? n : largest;
            }
        }
        take_array(to, &model->dweight, largest, 1, f4);
    }
    plan_shared(to, model);
}

static es_status prepare_backend(es_model *model)
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

/* Allocates all memory except that of the parameters, and divides it into
 * arrays. */
static es_status plan_memory(es_model *model)
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
        es_mem *const sum = model->between && es_model_has_ffn(model, i)
                                ? model->between
                                : layer[1].x;
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
    return prepare_backend(model);
}

/* --- building ------------------------------------------------------------- */

static es_status draw_parameters(es_model *model)
{
    /* The initial values do not depend on the number of threads. If a GPU
     * trains the model, all processors of the host can therefore draw them. */
    const int n_threads = model->ops->device_name
                              ? es_count_processors()
                              : model->ops->n_threads(model->backend);
    for (size_t i = 0; i < model->params.n; i++) {
        const es_param *param = &model->params.table[i];
        float *values = NULL;
        es_status status =
            es_grow(&values, param->n, sizeof *values, param->name);
        if (status < 0)
            return status;
        es_param_draw(values, param, &model->config, n_threads);
        model->ops->store(
            model->backend,
            es_mem_at(model->values, param->offset * sizeof *values), values,
            param->n * sizeof *values);
        free(values);
    }
    return ES_OK;
}

static es_status build_model(es_model *model, int n_threads)
{
    es_status status = model->ops->open(&model->backend, n_threads);
    if (status < 0)
        return status;
    if (model->config.emulate == ES_EMULATE_FP16)
        model->ops->emulate_fp16(model->backend);
    if ((status = es_params_list(&model->params, &model->config)) < 0)
        return status;
    es_mem **const all[] = {&model->values, &model->gradients, &model->moment1,
                            &model->moment2};
    size_t n = model->config.forward_only ? 1 : sizeof all / sizeof *all;
    const size_t bytes = model->params.group[ES_N_GROUPS] * sizeof(float);
    for (size_t i = 0; i < n; i++)
        if ((status = model->ops->reserve(model->backend, all[i], bytes)) < 0)
            return status;
    if ((status = draw_parameters(model)) < 0 ||
        (status = plan_memory(model)) < 0 ||
        (status = es_model_plan_report(model)) < 0 ||
        (status = es_model_plan_polynomials(model)) < 0 ||
        (status = es_model_keep_weights(model)) < 0)
        return status;
    return es_model_start_norms(model);
}

es_status es_model_check(const es_model_config *config, const es_ops *ops)
{
    es_status status;
    if ((status = es_model_config_check(config)) < 0)
        return status;
    if (config->emulate == ES_EMULATE_FP16 &&
        ops->activation_size != sizeof(float))
        return es_fail(
            ES_EUSAGE,
            "--emulate fp16 rounds float32 values: use --precision fp32");
    if (config->inference == ES_INFERENCE_POLYNOMIAL &&
        ops->activation_size != sizeof(float))
        return es_fail(ES_EUSAGE, "--inference polynomial computes in float32: "
                                  "use --precision fp32");
    const es_arch *arch = &config->arch;
    const struct {
        bool wanted, there;
        const char *part;
    } parts[] = {
        {config->family == ES_FAMILY_PYTHIA, ops->rotate, "--family pythia"},
        {config->family == ES_FAMILY_LLAMA,
         ops->rotate && ops->spread_heads && ops->rms_norm && ops->swiglu,
         "--family llama"},
        {config->family == ES_FAMILY_BERT,
         ops->spread_heads && ops->attention_whole, "--family bert"},
        {config->family == ES_FAMILY_ROBERTA,
         ops->spread_heads && ops->attention_whole_backward && ops->add_share &&
             ops->act_backward && ops->add_gradient,
         "--family roberta"},
        {config->family == ES_FAMILY_VIT,
         ops->spread_heads && ops->attention_whole_backward && ops->add_share &&
             ops->cut_patches && ops->place_patches_backward,
         "--family vit"},
        {config->family == ES_FAMILY_SAS,
         ops->spread_heads && ops->shape_heads && ops->rms_norm,
         "--family sas"},
        {config->emulate == ES_EMULATE_FP16, ops->emulate_fp16,
         "--emulate fp16"},
        {config->dropout > 0, ops->dropout, "--dropout"},
        {config->range_weight[ES_RANGE_ATTN] > 0, ops->find_score_peak,
         "--range-attn"},
        {config->range_weight[ES_RANGE_ACT] > 0, ops->find_peak, "--range-act"},
        {config->range_weight[ES_RANGE_NORM] > 0, ops->find_peak,
         "--range-norm"},
        {arch->weight_norm != 0, ops->weight_norm, "WNorm"},
        {arch->spectral_norm != 0, ops->spectral_norm, "SNorm"},
        {arch->direct, ops->temperature_logs, "SM(t,direct)"},
        {arch->gate, ops->gate, "SM(gate)"},
        {arch->clip > 0, ops->scale_heads, "SM(clip)"},
        {config->inference == ES_INFERENCE_POLYNOMIAL, ops->polynomial,
         "--inference polynomial"},
        {arch->power_plain, ops->weighs_plain_scores, "PSM(p,plain)"},
        {arch->attention == ES_SCALED_RELU, ops->weighs_plain_scores, "RA"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].wanted && !parts[i].there)
            return es_fail(ES_EUSAGE, "%s: not supported by back-end %s",
                           parts[i].part, ops->name);
    return ES_OK;
}

es_status es_model_new(es_model **out, const es_model_config *config,
                       const es_ops *ops, int n_threads)
{
    *out = NULL;
    es_model *model;
    es_status status;
    if ((status = es_model_check(config, ops)) < 0 ||
        (status = es_alloc(&model, 1, sizeof *model, "the model")) < 0)
        return status;
    model->config = *config;
    model->ops = ops;
    model->loss_scale = ops->scales_loss ? (float)ES_LOSS_SCALE_START : 1;
    status = build_model(model, n_threads);
    if (status == ES_OK)
        *out = model;
    else
        es_model_free(model);
    return status;
}

void es_model_free(es_model *model)
{
    if (!model)
        return;
    es_mem *const all[] = {model->values,      model->gradients,
                           model->moment1,     model->moment2,
                           model->activations, model->report.memory,
                           model->step_inputs};
    for (size_t i = 0; model->backend && i < sizeof all / sizeof *all; i++)
        model->ops->release(model->backend, all[i]);
    if (model->backend)
        es_model_free_polynomials(model);
    model->ops->close(model->backend);
    es_params_free(&model->params);
    es_model_free_ranks(model);
    free(model->layers);
    free(model->host_rows);
    free(model->host_logits);
    free(model->host_inputs);
    free(model->report.tally);
    free(model);
}
