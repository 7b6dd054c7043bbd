/* Builds and frees a model; gives the host access to its parameters, logits and
 * rows. */
#include "hooks/trainer/model/model_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/processor.h"
#include "hooks/trainer/model/loss_scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- building ------------------------------------------------------------- */

static es_status draw_parameters(es_model *model)
{
    /* The initial values do not depend on the number of threads. If a device
     * computes, drawing them can therefore use all processors of the host. */
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

static es_status build(es_model *model, int n_threads)
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
        (status = es_model_plan(model)) < 0 ||
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
    status = build(model, n_threads);
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

/* --- parameters ----------------------------------------------------------- */

const es_model_config *es_model_config_of(const es_model *model)
{
    return &model->config;
}

size_t es_model_n_parameters(const es_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->params.n; i++)
        n += model->params.table[i].n_trainable;
    return n;
}

size_t es_model_n_arrays(const es_model *model)
{
    return model->params.n;
}

es_parameter es_model_parameter(const es_model *model, size_t index)
{
    const es_param *param = &model->params.table[index];
    return (es_parameter){.name = param->name,
                          .layer = param->layer,
                          .n_dims = param->n_dims,
                          .dims = {param->dims[0], param->dims[1],
                                   param->dims[2], param->dims[3]},
                          .n = param->n,
                          .decays = param->group == ES_GROUP_DECAY,
                          .trainable = param->n_trainable > 0};
}

/** Checks access to array `index`, of which the caller expects n floats. `in`
 *  is the allocation (values, gradients or moments), or NULL if the model has
 *  none because it can only run forward. */
static es_status check_access(const es_model *model, const es_mem *in,
                              size_t index, size_t n)
{
    if (!in)
        return es_fail(ES_EARGUMENT, "the model can only run forward passes: "
                                     "it has no gradients and moments");
    if (index >= model->params.n)
        return es_fail(ES_EARGUMENT,
                       "array %zu does not exist: the model has %zu", index,
                       model->params.n);
    const es_param *param = &model->params.table[index];
    if (n != param->n)
        return es_fail(ES_EARGUMENT, "%s has %zu values: expected %zu",
                       param->name, param->n, n);
    return ES_OK;
}

/** Copies an array from `from` (values, gradients or moments) to the host. */
static es_status load(es_model *model, es_mem *from, size_t index,
                      float *values, size_t n)
{
    es_status status = check_access(model, from, index, n);
    if (status == ES_OK)
        model->ops->load(
            model->backend, values,
            es_mem_at(from, model->params.table[index].offset * sizeof *values),
            n * sizeof *values);
    return status;
}

static es_status store(es_model *model, es_mem *into, size_t index,
                       const float *values, size_t n)
{
    es_status status = check_access(model, into, index, n);
    if (status == ES_OK)
        model->ops->store(
            model->backend,
            es_mem_at(into, model->params.table[index].offset * sizeof *values),
            values, n * sizeof *values);
    return status;
}

es_status es_model_get(es_model *model, size_t index, float *values, size_t n)
{
    return load(model, model->values, index, values, n);
}

es_status es_model_set(es_model *model, size_t index, const float *values,
                       size_t n)
{
    model->weights_are_stale = model->copies_are_stale = true;
    return store(model, model->values, index, values, n);
}

es_status es_model_get_gradient(es_model *model, size_t index, float *values,
                                size_t n)
{
    const float scale = model->report.tally->control.loss_scale;
    es_status status = load(model, model->gradients, index, values, n);
    for (size_t i = 0; status == ES_OK && scale != 1 && i < n; i++)
        values[i] /= scale;
    return status;
}

es_status es_model_get_moment(es_model *model, es_moment moment, size_t index,
                              float *values, size_t n)
{
    return load(model,
                moment == ES_MOMENT_FIRST ? model->moment1 : model->moment2,
                index, values, n);
}

es_status es_model_set_moment(es_model *model, es_moment moment, size_t index,
                              const float *values, size_t n)
{
    return store(model,
                 moment == ES_MOMENT_FIRST ? model->moment1 : model->moment2,
                 index, values, n);
}

int64_t es_model_n_updates(const es_model *model)
{
    return model->n_updates;
}

void es_model_set_n_updates(es_model *model, int64_t n)
{
    model->n_updates = n;
}

bool es_model_scales_loss(const es_model *model)
{
    return model->ops->scales_loss;
}

void es_model_set_loss_scale(es_model *model, double scale)
{
    model->loss_scale = model->ops->scales_loss ? (float)scale : 1;
}

int es_model_n_threads(const es_model *model)
{
    return model->ops->n_threads(model->backend);
}

const char *es_model_device_name(const es_model *model)
{
    return model->ops->device_name ? model->ops->device_name(model->backend)
                                   : NULL;
}

const char *es_model_note(const es_model *model)
{
    return model->ops->note ? model->ops->note(model->backend) : "";
}

void es_model_zero_gradients(es_model *model)
{
    if (model->gradients)
        model->ops->zero(model->backend, model->gradients,
                         model->params.group[ES_N_GROUPS] * sizeof(float));
    model->overwrites = true;
}

/* --- observations -------------------------------------------------------- */

const float *es_model_rows(es_model *model, es_row_statistic statistic)
{
    const es_mem *from = model->rows.array[statistic];
    const size_t n = (size_t)es_model_n_rows(model) *
                     (size_t)model->config.n_layer *
                     (size_t)model->config.n_head; /* L B H T */
    float *out = from ? es_resize(model->host_rows, n, sizeof *out) : NULL;
    if (!out)
        return NULL;
    model->host_rows = out;
    model->ops->load(model->backend, out, from, n * sizeof *out);
    return out;
}
