/* Runs a forward pass by calling the back-end's operations in the model's
 * order. */
#include "hooks/trainer/model/model_internal.h"

es_mem *es_model_value(const es_model *model, int layer, es_role role)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    return param ? es_mem_at(model->values, param->offset * sizeof(float))
                 : NULL;
}

/* --- operands ------------------------------------------------------------ */

es_linear es_model_head(const es_model *model)
{
    const int n_out = es_model_config_n_outputs(&model->config);
    return (es_linear){.weight =
                           es_model_value(model, -1, es_model_head_role(model)),
                       .bias = es_model_value(model, -1, ES_ROLE_LOGIT_BIAS),
                       .n_in = model->config.d_model,
                       .n_out = n_out,
                       .n_bias_trained = n_out,
                       .transposed = true,
                       .y_stride = es_model_logit_stride(model)};
}

es_linear es_model_transform(const es_model *model)
{
    const int d = model->config.d_model;
    return (es_linear){.weight = es_model_value(model, -1, ES_ROLE_HEAD_WEIGHT),
                       .bias = es_model_value(model, -1, ES_ROLE_HEAD_BIAS),
                       .n_in = d,
                       .n_out = d,
                       .n_bias_trained = d,
                       .transposed = true};
}

es_image es_model_image(const es_model *model)
{
    es_image image = model->config.image;
    image.levels = model->config.vocab;
    return image;
}

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
    const es_mem *own = es_model_value(model, layer, ES_ROLE_SLOPE);
    const es_mem *shared = es_model_value(model, -1, ES_ROLE_GLOBAL_SLOPE);
    double slope;
    const es_activation kind =
        es_arch_activation(&model->config.arch, layer, &slope);
    return (es_act){
        .kind = kind, .slope = (float)slope, .learnt = own ? own : shared};
}

es_mem *es_model_post(const es_model *model, int layer)
{
    return es_model_act(model, layer).kind == ES_ACT_LINEAR
               ? model->layers[layer].pre
               : model->wide;
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
                          .log_t = es_model_value(model, layer, ES_ROLE_LOG_T),
                          .n_rotated = config->family == ES_FAMILY_LLAMA
                                           ? es_model_config_head_width(config)
                                           : 0,
                          .rope = config->rope};
}

es_sharing es_model_sharing(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    return (es_sharing){
        .n_rows = es_model_n_rows(model),
        .n_head = config->n_head,
        .n_kv_head = es_model_config_kv_heads(config),
        .width = es_model_config_head_width(config),
        .q_weight = es_model_value(model, layer, ES_ROLE_Q_NORM),
        .k_weight = es_model_value(model, layer, ES_ROLE_K_NORM),
        .epsilon = (float)config->ln_eps};
}

es_penalty es_model_penalty(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    return (es_penalty){.n_batch = config->batch,
                        .n_ctx = config->ctx,
                        .n_head = config->n_head,
                        .n_layer = config->n_layer,
                        .mean = config->ereg_reduce == ES_EREG_MEAN,
                        .gamma = (float)config->gamma,
                        .lambda = (float)config->lambda,
                        .theta = es_model_value(model, layer, ES_ROLE_THETA)};
}

/* --- dropout -------------------------------------------------------------- */

void es_model_drop(const es_model *model, es_mem *y, const es_mem *residual,
                   const es_mem *x, int place, bool back)
{
    const es_model_config *config = &model->config;
    const es_dropout how = {.rate = (float)config->dropout,
                            .seed = config->seed,
                            .place = (uint32_t)place,
                            .offset = model->offset,
                            .back = back};
    model->ops->dropout(model->backend, y, residual, x, &how,
                        es_model_reported(model, &model->report.tally->pass),
                        (size_t)es_model_n_rows(model) *
                            (size_t)config->d_model);
}

/* --- forward -------------------------------------------------------------- */

static void multiply(const es_model *model, es_mem *y, const es_mem *residual,
                     const es_mem *x, int layer, es_matrix matrix)
{
    const es_linear linear = es_model_linear(model, layer, matrix);
    model->ops->linear(model->backend, y, residual, x, &linear,
                       es_model_n_rows(model));
}

static void norm(const es_model *model, es_mem *y, es_mem *mean, es_mem *rstd,
                 const es_mem *x, int layer, es_role weight)
{
    es_mem *peak = weight == ES_ROLE_LN_E_WEIGHT
                       ? NULL
                       : es_model_sought_peak(model, layer,
                                              weight == ES_ROLE_LN_2_WEIGHT
                                                  ? ES_PEAK_NORM_2
                                                  : ES_PEAK_NORM_1);
    const bool is_done = es_model_norm_polynomial(model, y, x, layer, weight);
    if (peak && (is_done || !model->ops->finds_peaks))
        model->ops->find_peak(model->backend, peak, x,
                              (size_t)es_model_n_rows(model) *
                                  (size_t)model->config.d_model);
    if (is_done)
        return;
    if (!mean) {
        model->ops->rms_norm(model->backend, y, rstd, peak, x,
                             es_model_value(model, layer, weight),
                             es_model_n_rows(model), model->config.d_model,
                             (float)model->config.ln_eps);
        return;
    }
    model->ops->layer_norm(model->backend, y, mean, rstd, peak, x,
                           es_model_value(model, layer, weight),
                           es_model_value(model, layer, (es_role)(weight + 1)),
                           es_model_n_rows(model), model->config.d_model,
                           (float)model->config.ln_eps);
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

/* Computes q, k and v of all heads, in the layout that the attention operations
 * read. */
static void make_qkv(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    if (!es_model_traits(model)->is_separate) {
        multiply(model, at->qkv, NULL, at->u1, layer, ES_MATRIX_ATTN);
        return;
    }
    const es_sharing sharing = es_model_sharing(model, layer);
    multiply(model, at->q, NULL, at->u1, layer, ES_MATRIX_Q);
    multiply(model, at->k, NULL, at->u1, layer, ES_MATRIX_K);
    const bool has_values = !es_model_traits(model)->is_simplified;
    if (has_values)
        multiply(model, at->v, NULL, at->u1, layer, ES_MATRIX_V);
    model->ops->spread_heads(model->backend, at->qkv, at->head_rstd, at->q,
                             at->k, has_values ? at->v : at->u1, &sharing);
}

static void forward_attention(const es_model *model, int layer, bool measure)
{
    const es_layer_memory *at = &model->layers[layer];
    if (at->u1 != at->x)
        norm(model, at->u1, at->mean1, at->rstd1, at->x, layer,
             ES_ROLE_LN_1_WEIGHT);
    make_qkv(model, layer);
    /* The entropy regulariser needs the entropies in every step. */
    const es_attention attention = es_model_attention(model, layer);
    es_row_mem rows = es_model_layer_rows(model, layer);
    es_mem *entropy = rows.array[ES_ROW_ENTROPY];
    if (!measure)
        rows = (es_row_mem){.array = {[ES_ROW_ENTROPY] = entropy}};
    if (es_model_traits(model)->rotates)
        model->ops->rotate(model->backend, at->qkv, &attention, false);
    const bool wants_rows = measure || model->config.arch.entropy_reg;
    if (es_model_traits(model)->sees_all)
        model->ops->attention_whole(
            model->backend, at->heads, at->saved, wants_rows ? &rows : NULL,
            at->qkv, es_model_padded(model), model->config.padding, &attention);
    else if (!es_model_attention_polynomial(model, layer,
                                            wants_rows ? &rows : NULL))
        model->ops->attention(model->backend, at->heads, at->saved,
                              wants_rows ? &rows : NULL, at->qkv, &attention);
    if (measure && es_model_has_details(model))
        es_model_detail_attention(model, layer);
    es_model_find_score_peak(model, layer);
    if (model->config.arch.clip > 0)
        model->ops->largest_logits(
            model->backend,
            es_model_reported(model, model->report.largest +
                                         layer * model->config.n_head),
            at->saved, &attention);
    if (model->config.arch.gate) {
        multiply(model, at->gate, NULL, at->u1, layer, ES_MATRIX_GATE);
        model->ops->gate(model->backend, at->gated, at->heads, at->gate,
                         (size_t)es_model_n_rows(model) *
                             (size_t)model->config.d_model);
    }
    if (model->config.arch.entropy_reg) {
        const es_penalty penalty = es_model_penalty(model, layer);
        model->ops->entropy_penalty(model->backend, model->ereg, NULL, NULL,
                                    entropy, &penalty, 1, NULL);
    }
    if (es_model_traits(model)->is_simplified) {
        model->ops->shape_heads(model->backend, at->middle, at->heads, at->qkv,
                                es_model_value(model, layer, ES_ROLE_SHAPE),
                                &attention);
        return;
    }
    if (!model->drops) {
        multiply(model, at->middle, at->x, at->gated, layer, ES_MATRIX_PROJ);
    } else {
        multiply(model, model->kept, NULL, at->gated, layer, ES_MATRIX_PROJ);
        es_model_drop(model, at->middle, at->x, model->kept,
                      ES_DROP_ATTENTION + 2 * layer, false);
    }
    if (es_model_traits(model)->is_post_norm)
        norm(model, at->u2, at->mean1, at->rstd1, at->middle, layer,
             ES_ROLE_LN_1_WEIGHT);
}

/* Writes FFN(u2) to `out`; adds `residual` unless it is NULL. */
static void feed(const es_model *model, int layer, es_mem *out,
                 const es_mem *residual)
{
    const es_layer_memory *at = &model->layers[layer];
    if (model->config.arch.ffn == ES_FFN_FUSED) {
        multiply(model, out, residual, at->u2, layer, ES_MATRIX_FUSED);
        return;
    }
    const es_linear fc = es_model_linear(model, layer, ES_MATRIX_FC);
    const size_t n_wide = (size_t)es_model_n_rows(model) * (size_t)fc.n_out;
    es_act act = es_model_act(model, layer);
    es_mem *post = es_model_post(model, layer);
    if (at->ffn_gate) {
        multiply(model, at->ffn_gate, NULL, at->u2, layer, ES_MATRIX_FFN_GATE);
        multiply(model, at->pre, NULL, at->u2, layer, ES_MATRIX_FC);
        es_model_find_peak(model, layer, ES_PEAK_ACT, at->ffn_gate, n_wide);
        model->ops->swiglu(model->backend, post, at->ffn_gate, at->pre, n_wide);
    } else if (es_model_acts_by_polynomial(model, layer)) {
        multiply(model, at->pre, NULL, at->u2, layer, ES_MATRIX_FC);
        es_model_find_peak(model, layer, ES_PEAK_ACT, at->pre, n_wide);
        es_model_act_polynomial(model, post, at->pre, layer);
    } else {
        const bool is_sought = act.kind != ES_ACT_LINEAR;
        if (is_sought && model->ops->finds_peaks)
            act.peak = es_model_sought_peak(model, layer, ES_PEAK_ACT);
        model->ops->linear_act(model->backend, at->pre, post, at->u2, &fc, &act,
                               es_model_n_rows(model));
        if (is_sought && !model->ops->finds_peaks)
            es_model_find_peak(model, layer, ES_PEAK_ACT, at->pre, n_wide);
        es_model_act_polynomial(model, post, at->pre, layer);
    }
    multiply(model, out, residual, post, layer, ES_MATRIX_MLP_PROJ);
}

static void forward_ffn(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const int place = ES_DROP_FFN + 2 * layer;
    if (es_model_traits(model)->is_post_norm) {
        feed(model, layer, at->f, model->drops ? NULL : at->u2);
        if (model->drops)
            es_model_drop(model, at->f, at->u2, at->f, place, false);
        norm(model, at[1].x, at->mean2, at->rstd2, at->f, layer,
             ES_ROLE_LN_2_WEIGHT);
        return;
    }
    if (at->u2 != at->x2)
        norm(model, at->u2, at->mean2, at->rstd2, at->x2, layer,
             ES_ROLE_LN_2_WEIGHT);
    if (!es_model_is_scaled(model)) {
        feed(model, layer, model->drops ? model->kept : at[1].x,
             model->drops ? NULL : at->middle);
        if (model->drops)
            es_model_drop(model, at[1].x, at->middle, model->kept, place,
                          false);
        return;
    }
    feed(model, layer, at->f, NULL);
    if (model->drops)
        es_model_drop(model, at->f, NULL, at->f, place, false);
    model->ops->combine(model->backend, at[1].x, at->middle, at->f,
                        es_model_value(model, layer, ES_ROLE_ALPHA),
                        es_model_value(model, layer, ES_ROLE_BETA),
                        (size_t)es_model_n_rows(model) *
                            (size_t)model->config.d_model);
}

static void measure_layer(const es_model *model, int layer)
{
    if (es_model_has_details(model))
        es_model_detail_block(model, layer);
    else
        model->ops->activation_stats(
            model->backend,
            es_model_reported(model, &model->report.layers[layer]),
            model->layers[layer + 1].x,
            (size_t)es_model_n_rows(model) * (size_t)model->config.d_model);
}

/* Computes the first layer's input from tokens or patches. */
static void embed(const es_model *model, es_mem *x)
{
    const es_model_config *config = &model->config;
    es_mem *const sum = model->embedded ? model->embedded : x;
    if (model->patches) {
        const es_image image = es_model_image(model);
        const es_linear linear = es_model_patch(model);
        model->ops->cut_patches(model->backend, model->patches, model->tokens,
                                &image, config->batch, config->ctx);
        model->ops->linear(model->backend, x, NULL, model->patches, &linear,
                           es_model_n_rows(model));
        model->ops->place_patches(model->backend, x,
                                  es_model_value(model, -1, ES_ROLE_CLASS),
                                  es_model_value(model, -1, ES_ROLE_WPE),
                                  config->batch, config->ctx, config->d_model);
        return;
    }
    model->ops->embed(
        model->backend, sum, model->tokens,
        es_model_value(model, -1, ES_ROLE_WTE),
        es_model_positions(model, es_model_value(model, -1, ES_ROLE_WPE)),
        config->batch, config->ctx, config->d_model);
    if (sum != x)
        norm(model, x, model->mean_e, model->rstd_e, sum, -1,
             ES_ROLE_LN_E_WEIGHT);
}

static void forward_blocks(const es_model *model, bool measure)
{
    const es_model_config *config = &model->config;
    if (config->arch.entropy_reg)
        model->ops->zero(model->backend, model->ereg, sizeof(float));
    es_mem *x = model->layers[0].x;
    embed(model, x);
    if (model->drops)
        es_model_drop(model, x, NULL, x, ES_DROP_EMBEDDING, false);
    for (int layer = 0; layer < config->n_layer; layer++) {
        forward_attention(model, layer, measure);
        if (es_model_has_ffn(model, layer))
            forward_ffn(model, layer);
        if (measure)
            measure_layer(model, layer);
    }
    if (measure && !es_model_has_details(model))
        model->ops->measure_rows(model->backend,
                                 es_model_reported(model, model->report.heads),
                                 &model->rows, config->n_layer, config->batch,
                                 config->n_head, config->ctx);
}

/* Checks that each of n values is in the range least .. end - 1. */
static es_status check_each(const char *what, const int32_t *tokens, int n,
                            int32_t least, int end)
{
    for (int i = 0; i < n; i++)
        if (tokens[i] < least || tokens[i] >= end)
            return es_fail(
                ES_EFORMAT,
                "%s %d of the micro-batch is %d: outside the vocabulary of %d",
                what, i, (int)tokens[i], end);
    return ES_OK;
}

es_status es_model_config_check_tokens(const es_model_config *config,
                                       const int32_t *tokens,
                                       const int32_t *targets)
{
    const es_family_traits *traits = &es_families[config->family];
    const bool has_gaps = traits->masks || traits->has_images;
    es_status status = check_each(
        "token", tokens, config->batch * es_model_config_n_inputs(config), 0,
        config->vocab);
    if (status == ES_OK && targets)
        status = check_each("target", targets, config->batch * config->ctx,
                            has_gaps ? ES_NO_TARGET : 0,
                            es_model_config_n_outputs(config));
    return status;
}

int es_model_count_targets(const es_model *model, const int32_t *targets)
{
    const int n_rows = es_model_n_rows(model);
    int n = 0;
    for (int i = 0; i < n_rows; i++)
        n += targets[i] != ES_NO_TARGET;
    return n;
}

/* Computes the input of the output matrix from the last layer's output. */
static void forward_end(const es_model *model)
{
    const es_mem *x = model->layers[model->config.n_layer].x;
    if (model->head_post) {
        const es_linear linear = es_model_transform(model);
        const es_act act = {.kind = ES_ACT_GELU};
        model->ops->linear_act(model->backend, model->head_pre,
                               model->head_post, x, &linear, &act,
                               es_model_n_rows(model));
        x = model->head_post;
    }
    if (model->normed != x)
        norm(model, model->normed, model->mean, model->rstd, x, -1,
             ES_ROLE_LN_F_WEIGHT);
}

void es_model_run_pass(es_model *model, bool has_targets, bool training)
{
    es_model_make_weights(model, training);
    const bool measured = model->report.measured;
    model->drops = training && has_targets && model->config.dropout > 0;
    model->has_loss = has_targets && !model->defers_loss;
    const int sequence =
        (model->drops ? ES_SEQUENCE_DROPPING : ES_SEQUENCE_FORWARD) +
        model->has_loss + 2 * measured;
    if (!es_model_replays(model, sequence)) {
        forward_blocks(model, measured);
        forward_end(model);
        if (model->config.arch.entropy_reg)
            model->ops->add_mean(
                model->backend,
                es_model_reported(model, &model->report.tally->ereg),
                model->ereg, 1);
        if (model->has_loss)
            es_model_loss(model);
        es_model_launch(model);
    }
    model->report.n_passes++;
    model->report.has_losses = model->report.has_losses && has_targets;
    model->can_go_back = has_targets && !model->config.forward_only;
}

es_status es_model_pass(es_model *model, const int32_t *tokens,
                        const int32_t *targets, bool training)
{
    const size_t bytes = (size_t)es_model_n_inputs(model) * sizeof *tokens;
    const size_t n_tokens = (size_t)model->config.batch *
                            (size_t)es_model_config_n_inputs(&model->config);
    es_status status =
        es_model_config_check_tokens(&model->config, tokens, targets);
    if (status != ES_OK)
        return status;
    model->tokens = model->inputs;
    model->targets = es_mem_at(model->inputs, bytes);
    model->ops->store(model->backend, model->tokens, tokens,
                      n_tokens * sizeof *tokens);
    if (targets)
        model->ops->store(model->backend, model->targets, targets,
                          (size_t)es_model_n_rows(model) * sizeof *targets);
    model->n_targets = targets ? es_model_count_targets(model, targets) : 0;
    model->offset = 0;
    if (training && model->config.dropout > 0)
        model->ops->store(model->backend,
                          es_model_reported(model, &model->report.tally->pass),
                          &model->pass, sizeof model->pass);
    es_model_run_pass(model, targets != NULL, training);
    return ES_OK;
}

es_status es_model_forward(es_model *model, es_losses *out,
                           const int32_t *tokens, const int32_t *targets,
                           bool training, bool measure)
{
    es_outcome outcome = {.skipped = false};
    es_model_begin(model, measure, NULL, 0);
    es_status status = es_model_pass(model, tokens, targets, training);
    if (status == ES_OK)
        status = es_model_end(model, &outcome);
    *out = outcome.losses;
    return status;
}
