/* Finds the arrays of a model and describes the operands of operations; runs
 * captured sequences of operations. */
#include "hooks/trainer/model/operations.h"

es_mem *es_model_value(const es_model *model, int layer, es_role role)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    return param ? es_mem_at(model->values, param->offset * sizeof(float))
                 : NULL;
}

es_mem *es_model_gradient(const es_model *model, int layer, es_role role)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    return param ? es_mem_at(model->gradients, param->offset * sizeof(float))
                 : NULL;
}

es_row_mem es_model_layer_rows(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    size_t at = (size_t)layer * (size_t)es_model_n_rows(model) *
                (size_t)config->n_head * sizeof(float);
    es_row_mem rows = model->rows;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (rows.array[i])
            rows.array[i] = es_mem_at(rows.array[i], at);
    return rows;
}

es_mem *es_model_reported(const es_model *model, const void *part)
{
    const char *begin = (const char *)model->report.tally;
    return es_mem_at(model->report.memory,
                     (size_t)((const char *)part - begin));
}

size_t es_model_report_bytes(const es_model *model)
{
    const es_report *report = &model->report;
    return report->measured ? report->n_bytes : report->n_always;
}

int es_model_loss_rows(const es_model *model)
{
    const int n = es_model_n_rows(model);
    const int most =
        model->ops->loss_rows
            ? model->ops->loss_rows(es_model_config_n_outputs(&model->config))
            : n;
    return n < most ? n : most;
}

/* --- operands ------------------------------------------------------------- */

es_linear es_model_patch(const es_model *model)
{
    const es_image *image = &model->config.image;
    const int d = model->config.d_model;
    return (es_linear){.weight =
                           es_model_value(model, -1, ES_ROLE_PATCH_WEIGHT),
                       .bias = es_model_value(model, -1, ES_ROLE_PATCH_BIAS),
                       .n_in = image->channels * image->patch * image->patch,
                       .n_out = d,
                       .n_bias_trained = d,
                       .transposed = true};
}

es_act es_model_act(const es_model *model, int layer)
{
    const es_layer_parts parts = es_arch_parts(&model->config.arch, layer);
    const bool is_shared = parts.slope_kind == ES_SLOPE_GLOBAL;
    return (es_act){.kind = parts.activation,
                    .slope = (float)parts.slope,
                    .learnt = es_model_value(model, is_shared ? -1 : layer,
                                             is_shared ? ES_ROLE_GLOBAL_SLOPE
                                                       : ES_ROLE_SLOPE)};
}

es_attention es_model_attention(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    return (es_attention){.n_batch = config->batch,
                          .n_ctx = config->ctx,
                          .n_head = config->n_head,
                          .d_model = es_model_config_query_width(config),
                          .kind = config->arch.attention,
                          .power = config->arch.power,
                          .epsilon = (float)config->arch.power_epsilon,
                          .plain = config->arch.power_plain,
                          .length = config->arch.length,
                          .log_t =
                              config->arch.direct
                                  ? model->layers[layer].log_t
                                  : es_model_value(model, layer, ES_ROLE_LOG_T),
                          .n_rotated = config->family == ES_FAMILY_LLAMA
                                           ? es_model_config_head_width(config)
                                           : 0,
                          .rope = config->rope};
}

es_adamw es_model_adamw(const es_train_config *train, es_param_group group)
{
    const double decays[ES_N_GROUPS] = {
        [ES_GROUP_DECAY] = train->weight_decay,
        [ES_GROUP_SLOPE] = train->slope_decay ? train->weight_decay : 0};
    return (es_adamw){.beta1 = (float)train->beta1,
                      .beta2 = (float)train->beta2,
                      .eps = (float)train->eps,
                      .decay = (float)decays[group]};
}

/* --- captured sequences --------------------------------------------------- */

bool es_model_replays(const es_model *model, int sequence)
{
    return !model->is_in_step && model->ops->replay &&
           model->ops->replay(model->backend, sequence);
}

void es_model_launch(const es_model *model)
{
    if (!model->is_in_step && model->ops->launch)
        model->ops->launch(model->backend);
}
