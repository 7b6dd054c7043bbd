/* Gives the host access to the parameters, the gradients, the optimiser's state
 * and the row statistics of a model. */
#include "hooks/trainer/model/model_internal.h"

#include "analyzer/base/checked.h"

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
static es_status load_array(es_model *model, es_mem *from, size_t index,
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

static es_status store_array(es_model *model, es_mem *into, size_t index,
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
    return load_array(model, model->values, index, values, n);
}

es_status es_model_set(es_model *model, size_t index, const float *values,
                       size_t n)
{
    model->weights_are_stale = model->copies_are_stale = true;
    return store_array(model, model->values, index, values, n);
}

es_status es_model_get_gradient(es_model *model, size_t index, float *values,
                                size_t n)
{
    const float scale = model->report.tally->control.loss_scale;
    es_status status = load_array(model, model->gradients, index, values, n);
    for (size_t i = 0; status == ES_OK && scale != 1 && i < n; i++)
        values[i] /= scale;
    return status;
}

es_status es_model_get_moment(es_model *model, es_moment moment, size_t index,
                              float *values, size_t n)
{
    return load_array(
        model, moment == ES_MOMENT_FIRST ? model->moment1 : model->moment2,
        index, values, n);
}

es_status es_model_set_moment(es_model *model, es_moment moment, size_t index,
                              const float *values, size_t n)
{
    return store_array(
        model, moment == ES_MOMENT_FIRST ? model->moment1 : model->moment2,
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
