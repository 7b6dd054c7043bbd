/* Runs the backward pass. dx holds the gradient of the residual stream, to
 * which every sub-block adds. If sub-blocks are parallel, both need the
 * gradient of the block's output, so the attention's projection is processed
 * before the FFN adds to dx. */
#include "hooks/trainer/model/model_internal.h"

#include <string.h>

es_mem *es_model_gradient(const es_model *model, int layer, es_role role)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    return param ? es_mem_at(model->gradients, param->offset * sizeof(float))
                 : NULL;
}

static void norm_backward(const es_model *model, const es_mem *dy,
                          const es_mem *x, const es_mem *mean,
                          const es_mem *rstd, int layer, es_role weight)
{
    if (weight != ES_ROLE_LN_E_WEIGHT)
        es_model_pull_peak(model, layer,
                           weight == ES_ROLE_LN_2_WEIGHT ? ES_PEAK_NORM_2
                                                         : ES_PEAK_NORM_1,
                           model->dx);
    if (!mean) {
        model->ops->rms_norm_backward(
            model->backend, model->dx, es_model_gradient(model, layer, weight),
            dy, x, rstd, es_model_value(model, layer, weight),
            es_model_n_rows(model), model->config.d_model);
        return;
    }
    model->ops->layer_norm_backward(
        model->backend, model->dx, es_model_gradient(model, layer, weight),
        es_model_gradient(model, layer, (es_role)(weight + 1)), dy, x, mean,
        rstd, es_model_value(model, layer, weight), es_model_n_rows(model),
        model->config.d_model);
}

/* Copies one gradient (N,d) over another. */
static void move(const es_model *model, es_mem *to, const es_mem *from)
{
    const size_t n =
        (size_t)es_model_n_rows(model) * (size_t)model->config.d_model;
    model->ops->zero(model->backend, to, n * model->ops->activation_size);
    model->ops->add_gradient(model->backend, to, from, n);
}

/* Converts dx from the gradient of a norm's output to the gradient of the
 * norm's input x. */
static void norm_in_place(const es_model *model, const es_mem *x,
                          const es_mem *mean, const es_mem *rstd, int layer,
                          es_role weight)
{
    move(model, model->du, model->dx);
    model->ops->zero(model->backend, model->dx,
                     (size_t)es_model_n_rows(model) *
                         (size_t)model->config.d_model *
                         model->ops->activation_size);
    norm_backward(model, model->du, x, mean, rstd, layer, weight);
}

/* Computes the gradients of the parameters of y = u W + b from dy, the gradient
 * of y, and writes the gradient of u to `to` or, if `add`, adds it. */
static void product_backward(const es_model *model, es_mem *to,
                             const es_mem *dy, int layer, es_matrix matrix,
                             const es_mem *u, bool add)
{
    const es_linear linear = es_model_linear(model, layer, matrix);
    es_model_weight_gradient(model, layer, matrix, u, dy);
    model->ops->linear_backward_input(model->backend, to, dy, &linear,
                                      es_model_n_rows(model), add);
}

/* Computes from df, the gradient of the FFN's output, the gradients of `pre`
 * (in dwide) and of SwiGLU's gate, and recomputes the input of the FFN's last
 * matrix. */
static void backward_activation(const es_model *model, int layer, es_mem *post,
                                const es_mem *df)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_linear proj = es_model_linear(model, layer, ES_MATRIX_MLP_PROJ);
    const es_act act = es_model_act(model, layer);
    const int n_rows = es_model_n_rows(model);
    es_mem *own = es_model_gradient(model, layer, ES_ROLE_SLOPE);
    es_mem *shared = es_model_gradient(model, -1, ES_ROLE_GLOBAL_SLOPE);
    if (!at->ffn_gate) {
        model->ops->linear_backward_act(model->backend, model->dwide, post,
                                        own ? own : shared, df, at->pre, &proj,
                                        &act, n_rows);
        if (act.kind != ES_ACT_LINEAR)
            es_model_pull_peak(model, layer, ES_PEAK_ACT, model->dwide);
        return;
    }
    model->ops->linear_backward_input(model->backend, model->dwide, df, &proj,
                                      n_rows, false);
    model->ops->swiglu_backward(model->backend, model->dwide, at->ffn_gate,
                                post, at->pre,
                                (size_t)n_rows * (size_t)proj.n_in);
    es_model_pull_peak(model, layer, ES_PEAK_ACT, at->ffn_gate);
}

/* Runs the backward pass of FFN(u2) from df, the gradient of its output. */
static void backward_ffn(const es_model *model, int layer, const es_mem *df)
{
    const es_layer_memory *at = &model->layers[layer];
    es_matrix first = ES_MATRIX_FUSED;
    if (model->config.arch.ffn != ES_FFN_FUSED) {
        es_mem *post = es_model_post(model, layer);
        backward_activation(model, layer, post, df);
        es_model_weight_gradient(model, layer, ES_MATRIX_MLP_PROJ, post, df);
        df = model->dwide;
        first = ES_MATRIX_FC;
    }
    const bool has_norm = at->rstd2 && !es_model_traits(model)->is_post_norm;
    es_mem *to = has_norm ? model->du : model->dx;
    product_backward(model, to, df, layer, first, at->u2, !has_norm);
    if (at->ffn_gate)
        product_backward(model, to, at->ffn_gate, layer, ES_MATRIX_FFN_GATE,
                         at->u2, true);
    if (has_norm)
        norm_backward(model, model->du, at->x2, at->mean2, at->rstd2, layer,
                      ES_ROLE_LN_2_WEIGHT);
}

/* Converts dx from the gradient of the block's output to the gradient of
 * `middle`, and returns the gradient of the FFN's output. */
static const es_mem *split_gradient(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const int place = ES_DROP_FFN + 2 * layer;
    if (!es_model_is_scaled(model)) {
        if (model->drops)
            es_model_drop(model, model->df, NULL, model->dx, place, true);
        return model->drops ? model->df : model->dx;
    }
    model->ops->combine_backward(
        model->backend, model->dx, model->df,
        es_model_gradient(model, layer, ES_ROLE_ALPHA),
        es_model_gradient(model, layer, ES_ROLE_BETA), model->dx, at->middle,
        at->f, es_model_value(model, layer, ES_ROLE_ALPHA),
        es_model_value(model, layer, ES_ROLE_BETA),
        (size_t)es_model_n_rows(model) * (size_t)model->config.d_model);
    if (model->drops)
        es_model_drop(model, model->df, NULL, model->df, place, true);
    return model->df;
}

/* Returns the memory of es_control, which contains the scale of the loss. */
static const es_mem *control(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->control);
}

/* Returns the gradient dL/de of the loss with respect to the layer's row
 * entropies, or NULL without the entropy regulariser; also computes the
 * gradient of theta. */
static const es_mem *entropy_gradient(const es_model *model, int layer,
                                      double scale)
{
    if (!model->config.arch.entropy_reg)
        return NULL;
    const es_penalty penalty = es_model_penalty(model, layer);
    model->ops->entropy_penalty(
        model->backend, NULL, model->dentropy,
        es_model_gradient(model, layer, ES_ROLE_THETA),
        es_model_layer_rows(model, layer).array[ES_ROW_ENTROPY], &penalty,
        (float)scale, control(model));
    return model->dentropy;
}

/* Computes the gradient of the heads' outputs from dx, the gradient of
 * `middle`. */
static void backward_projection(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_linear proj = es_model_linear(model, layer, ES_MATRIX_PROJ);
    const es_mem *dy = model->drops ? model->kept : model->dx;
    if (model->drops)
        es_model_drop(model, model->kept, NULL, model->dx,
                      ES_DROP_ATTENTION + 2 * layer, true);
    es_model_weight_gradient(model, layer, ES_MATRIX_PROJ, at->gated, dy);
    model->ops->linear_backward_input(model->backend, model->dheads, dy, &proj,
                                      es_model_n_rows(model), false);
}

/* Adds the part of the gradient of x that comes through the gate and through q,
 * k and v, whose gradients are in dwide. */
static void backward_inputs(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const bool has_norm = at->rstd1 && !es_model_traits(model)->is_post_norm;
    es_mem *to = has_norm ? model->du : model->dx;
    if (es_model_traits(model)->is_separate) {
        const es_sharing sharing = es_model_sharing(model, layer);
        model->ops->gather_heads(
            model->backend, at->q, at->k, at->v,
            es_model_gradient(model, layer, ES_ROLE_Q_NORM),
            es_model_gradient(model, layer, ES_ROLE_K_NORM), model->dwide,
            at->head_rstd, &sharing);
        product_backward(model, to, at->q, layer, ES_MATRIX_Q, at->u1,
                         !has_norm);
        product_backward(model, to, at->k, layer, ES_MATRIX_K, at->u1, true);
        product_backward(model, to, at->v, layer, ES_MATRIX_V, at->u1, true);
    } else {
        product_backward(model, to, model->dwide, layer, ES_MATRIX_ATTN, at->u1,
                         !has_norm);
    }
    if (at->gate)
        product_backward(model, to, at->gate, layer, ES_MATRIX_GATE, at->u1,
                         true);
    if (has_norm)
        norm_backward(model, to, at->x, at->mean1, at->rstd1, layer,
                      ES_ROLE_LN_1_WEIGHT);
}

/* Computes the gradients of q, k and v from the gradient of the heads'
 * outputs. */
static void backward_attention(const es_model *model, int layer, double scale)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_attention attention = es_model_attention(model, layer);
    es_mem *dlog_t = es_model_gradient(model, layer, ES_ROLE_LOG_T);
    const es_mem *dentropy = entropy_gradient(model, layer, scale);
    if (es_model_traits(model)->sees_all)
        model->ops->attention_whole_backward(
            model->backend, model->dwide, dlog_t, model->dheads, at->heads,
            dentropy, at->qkv, at->saved, es_model_padded(model),
            model->config.padding, &attention);
    else
        model->ops->attention_backward(model->backend, model->dwide, dlog_t,
                                       model->dheads, at->heads, dentropy,
                                       at->qkv, at->saved, &attention);
    es_model_pull_score_peak(model, layer, model->dwide);
    if (es_model_traits(model)->rotates)
        model->ops->rotate(model->backend, model->dwide, &attention, true);
}

/* Runs the backward pass of a simplified block: converts dx from the gradient
 * of the block's output to the gradient of the input that both sub-blocks
 * share. */
static void backward_simplified(const es_model *model, int layer, double scale)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_attention attention = es_model_attention(model, layer);
    const bool has_ffn = es_model_has_ffn(model, layer);
    const es_mem *df = has_ffn ? split_gradient(model, layer) : NULL;
    const size_t n =
        (size_t)es_model_n_rows(model) * (size_t)model->config.d_model;
    const es_sharing sharing = es_model_sharing(model, layer);
    model->ops->shape_heads_backward(
        model->backend, model->dheads, model->dx,
        es_model_gradient(model, layer, ES_ROLE_SHAPE), at->heads, at->qkv,
        es_model_value(model, layer, ES_ROLE_SHAPE), &attention);
    if (has_ffn)
        backward_ffn(model, layer, df);
    backward_attention(model, layer, scale);
    model->ops->gather_heads(model->backend, at->q, at->k, at->v, NULL, NULL,
                             model->dwide, NULL, &sharing);
    product_backward(model, model->dx, at->q, layer, ES_MATRIX_Q, at->u1, true);
    product_backward(model, model->dx, at->k, layer, ES_MATRIX_K, at->u1, true);
    model->ops->add_gradient(model->backend, model->dx, at->v, n);
    if (at->rstd1)
        norm_in_place(model, at->x, at->mean1, at->rstd1, layer,
                      ES_ROLE_LN_1_WEIGHT);
}

static void backward_block(const es_model *model, int layer, double scale)
{
    const bool parallel = es_model_traits(model)->is_parallel;
    const bool is_post_norm = es_model_traits(model)->is_post_norm;
    const bool has_ffn = es_model_has_ffn(model, layer);
    const es_layer_memory *at = &model->layers[layer];
    if (is_post_norm)
        norm_in_place(model, at->f, at->mean2, at->rstd2, layer,
                      ES_ROLE_LN_2_WEIGHT);
    const es_mem *df = has_ffn ? split_gradient(model, layer) : NULL;
    if (parallel)
        backward_projection(model, layer);
    if (has_ffn)
        backward_ffn(model, layer, df);
    if (is_post_norm)
        norm_in_place(model, at->middle, at->mean1, at->rstd1, layer,
                      ES_ROLE_LN_1_WEIGHT);
    if (!parallel)
        backward_projection(model, layer);
    if (at->gate)
        model->ops->gate_backward(
            model->backend, model->dheads, at->gate, model->dheads, at->heads,
            (size_t)es_model_n_rows(model) * (size_t)model->config.d_model);
    backward_attention(model, layer, scale);
    backward_inputs(model, layer);
}

/* Runs the backward pass from the logits to the last layer's output. */
static void backward_end(const es_model *model, double scale)
{
    const es_mem *x = model->layers[model->config.n_layer].x;
    const es_mem *from = model->head_post ? model->head_post : x;
    const size_t n =
        (size_t)es_model_n_rows(model) * (size_t)model->config.d_model;
    if (model->normed != x)
        model->ops->zero(model->backend, model->dx,
                         n * model->ops->activation_size);
    es_model_loss_backward(model, scale, !model->has_loss);
    if (model->normed != x)
        norm_backward(model, model->du, from, model->mean, model->rstd, -1,
                      ES_ROLE_LN_F_WEIGHT);
    if (!model->head_post)
        return;
    const es_linear linear = es_model_transform(model);
    const es_act act = {.kind = ES_ACT_GELU};
    model->ops->act_backward(model->backend, model->dx, model->head_post,
                             model->head_pre, &act, n);
    model->ops->linear_backward_weight(
        model->backend, es_model_gradient(model, -1, ES_ROLE_HEAD_WEIGHT),
        es_model_gradient(model, -1, ES_ROLE_HEAD_BIAS), x, model->dx, &linear,
        es_model_n_rows(model), !model->overwrites);
    model->ops->linear_backward_input(model->backend, model->du, model->dx,
                                      &linear, es_model_n_rows(model), false);
    move(model, model->dx, model->du);
}

/* Computes the gradients of the embeddings from the gradient of the first
 * layer's input. */
static void embed_backward(const es_model *model)
{
    const es_model_config *config = &model->config;
    if (model->patches) {
        const es_linear linear = es_model_patch(model);
        model->ops->place_patches_backward(
            model->backend, model->dx,
            es_model_gradient(model, -1, ES_ROLE_CLASS),
            es_model_gradient(model, -1, ES_ROLE_WPE), config->batch,
            config->ctx, config->d_model);
        model->ops->linear_backward_weight(
            model->backend, es_model_gradient(model, -1, ES_ROLE_PATCH_WEIGHT),
            es_model_gradient(model, -1, ES_ROLE_PATCH_BIAS), model->patches,
            model->dx, &linear, es_model_n_rows(model), !model->overwrites);
        return;
    }
    if (model->embedded)
        norm_in_place(model, model->embedded, model->mean_e, model->rstd_e, -1,
                      ES_ROLE_LN_E_WEIGHT);
    model->ops->embed_backward(
        model->backend, es_model_gradient(model, -1, ES_ROLE_WTE),
        es_model_positions(model, es_model_gradient(model, -1, ES_ROLE_WPE)),
        model->tokens, model->dx, config->batch, config->ctx, config->d_model);
}

static void backward(const es_model *model, double scale)
{
    const es_model_config *config = &model->config;
    backward_end(model, scale);
    for (int layer = config->n_layer - 1; layer >= 0; layer--)
        if (es_model_traits(model)->is_simplified)
            backward_simplified(model, layer, scale);
        else {
            backward_block(model, layer, scale);
            es_model_reduce_layer(model, layer);
        }
    if (model->drops)
        es_model_drop(model, model->dx, NULL, model->dx, ES_DROP_EMBEDDING,
                      true);
    embed_backward(model);
}

bool es_model_captures_scale(es_model *model, double scale)
{
    if (!model->has_captured_scale)
        model->captured_scale = scale;
    model->has_captured_scale = true;
    return memcmp(&scale, &model->captured_scale, sizeof scale) == 0;
}

void es_model_run_backward(es_model *model, double scale)
{
    model->can_go_back = false;
    model->gradient_scale = scale;
    if (!es_model_captures_scale(model, scale) ||
        model->drops != (model->config.dropout > 0))
        backward(model, scale);
    else if (!es_model_replays(model, ES_SEQUENCE_BACKWARD + !model->has_loss +
                                          2 * model->overwrites)) {
        backward(model, scale);
        es_model_launch(model);
    }
    model->overwrites = false;
}

es_status es_model_backward(es_model *model, double scale)
{
    if (!model->can_go_back)
        return es_fail(ES_EARGUMENT, "backward pass: needs a forward pass with "
                                     "targets immediately before it");
    es_model_run_backward(model, scale);
    return ES_OK;
}
