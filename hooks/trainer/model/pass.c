/* Runs the passes of a model by calling the back-end's operations in the
 * model's order: forward, the loss, and backward.
 *
 * The loss is computed from the logits of a block of rows at a time, because
 * the logits of a whole micro-batch (N x V) would usually be the largest array.
 * In a training step, the loss and gradient of each block are computed before
 * the next block. A separate forward pass only keeps the losses, and the
 * backward pass recomputes the logits.
 *
 * In the backward pass, dx holds the gradient of the residual stream, to which
 * every sub-block adds. If the two sub-blocks (attention and FFN) are parallel,
 * both need the gradient of the block's output, so the attention's projection
 * is processed before the FFN adds to dx. */
#include "hooks/trainer/model/pass.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/polynomial.h"
#include "hooks/trainer/model/ranges.h"
#include "hooks/trainer/model/ranks.h"

#include <string.h>

/* --- operands ------------------------------------------------------------- */

/* Returns the part of wpe that begins with the position of the first token;
 * NULL if wpe is NULL. */
static es_mem *find_positions(const es_model *model, es_mem *wpe)
{
    const es_model_config *config = &model->config;
    return wpe ? es_mem_at(wpe, (size_t)es_model_config_n_skipped(config) *
                                    (size_t)config->d_model * sizeof(float))
               : NULL;
}

static es_linear describe_head(const es_model *model)
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

/* Describes the matrix and bias of the linear transform that RoBERTa's
 * masked-language-model head applies before its norm. */
static es_linear describe_transform(const es_model *model)
{
    const int d = model->config.d_model;
    return (es_linear){.weight = es_model_value(model, -1, ES_ROLE_HEAD_WEIGHT),
                       .bias = es_model_value(model, -1, ES_ROLE_HEAD_BIAS),
                       .n_in = d,
                       .n_out = d,
                       .n_bias_trained = d,
                       .transposed = true};
}

/* Returns the memory for the FFN's inner values after the activation: the
 * scratch array, or `pre`, the values before the activation, if there is no
 * activation. */
static es_mem *find_post(const es_model *model, int layer)
{
    return es_model_act(model, layer).kind == ES_ACT_LINEAR
               ? model->layers[layer].pre
               : model->wide;
}

static es_sharing describe_sharing(const es_model *model, int layer)
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

static es_penalty describe_penalty(const es_model *model, int layer)
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

/* Returns the memory of es_control, which contains the scale of the loss. */
static const es_mem *find_control(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->control);
}

/* --- micro-batches -------------------------------------------------------- */

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

/* --- loss ----------------------------------------------------------------- */

/* A block of consecutive rows of the last layer's output, with the arrays that
 * belong to the rows. */
typedef struct block {
    int n;
    /* input of the output matrix, and the gradient of this input; (n,d) each,
     * in the type of activations */
    es_mem *x, *dx;
    /* target, loss and log-sum-exp of each row; (n) each */
    es_mem *targets, *row_loss, *lse;
} block;

static block block_from(const es_model *model, int first)
{
    const size_t at = (size_t)first;
    const size_t width =
        (size_t)model->config.d_model * model->ops->activation_size;
    const int left = es_model_n_rows(model) - first;
    const int most = es_model_loss_rows(model);
    es_mem *dx =
        es_model_config_final_norm(&model->config) ? model->du : model->dx;
    return (block){.n = left < most ? left : most,
                   .x = es_mem_at(model->normed, at * width),
                   .dx = dx ? es_mem_at(dx, at * width) : NULL,
                   .targets = es_mem_at(model->targets, at * sizeof(int32_t)),
                   .row_loss = es_mem_at(model->row_loss, at * sizeof(float)),
                   .lse = es_mem_at(model->lse, at * sizeof(float))};
}

static void make_logits(const es_model *model, const block *rows)
{
    const es_linear head = describe_head(model);
    model->ops->linear(model->backend, model->logits, NULL, rows->x, &head,
                       rows->n);
}

/* Computes the losses of one block of rows, and replaces the block's logits by
 * their gradient. */
static void make_both(const es_model *model, const block *rows, float scale)
{
    const es_ops *ops = model->ops;
    make_logits(model, rows);
    ops->cross_entropy_both(model->backend, rows->row_loss, model->logits,
                            rows->targets, scale, find_control(model), rows->n,
                            es_model_config_n_outputs(&model->config),
                            es_model_logit_stride(model));
}

static void make_losses(const es_model *model, const block *rows)
{
    make_logits(model, rows);
    model->ops->cross_entropy(model->backend, rows->row_loss, rows->lse,
                              model->logits, rows->targets, rows->n,
                              es_model_config_n_outputs(&model->config),
                              es_model_logit_stride(model));
}

static void count_losses(const es_model *model)
{
    const es_tally *tally = model->report.tally;
    const size_t n = (size_t)es_model_n_rows(model);
    es_mem *sum = es_model_reported(model, &tally->ce);
    if ((size_t)model->n_targets == n)
        model->ops->add_mean(model->backend, sum, model->row_loss, n);
    else
        model->ops->add_share(model->backend, sum, model->row_loss, n,
                              model->n_targets);
}

/* Computes the loss of a pass and adds it to the sums of the report. */
static void compute_loss(const es_model *model)
{
    block rows;
    for (int i = 0; i < es_model_n_rows(model); i += rows.n) {
        rows = block_from(model, i);
        make_losses(model, &rows);
    }
    count_losses(model);
}

static void make_gradient(const es_model *model, const block *rows, float scale)
{
    model->ops->cross_entropy_backward(
        model->backend, model->logits, rows->lse, rows->targets, scale,
        find_control(model), rows->n, es_model_config_n_outputs(&model->config),
        es_model_logit_stride(model));
}

/* Runs the backward pass of the output matrix for one block of rows. If `add`
 * is true, adds to the gradient of the weights; otherwise overwrites the
 * gradient. */
static void go_back(const es_model *model, const block *rows, bool add)
{
    const es_linear head = describe_head(model);
    model->ops->linear_backward_weight(
        model->backend, es_model_gradient(model, -1, es_model_head_role(model)),
        es_model_gradient(model, -1, ES_ROLE_LOGIT_BIAS), rows->x,
        model->logits, &head, rows->n, add);
    model->ops->linear_backward_input(model->backend, rows->dx, model->logits,
                                      &head, rows->n, false);
}

/* Computes the gradient of the last norm's output in du, or, if the model has
 * no last norm, the gradient of the last layer's output in dx. Adds the
 * gradients of the output matrix. If `counts` is true, also computes the
 * loss. */
static void backward_loss(const es_model *model, double scale, bool counts)
{
    const int n = es_model_n_rows(model);
    const float each = (float)(scale / model->n_targets);
    block rows;
    for (int i = 0; i < n; i += rows.n) {
        rows = block_from(model, i);
        if (counts && model->ops->cross_entropy_both) {
            make_both(model, &rows, each);
        } else {
            if (counts)
                make_losses(model, &rows);
            else
                make_logits(model, &rows);
            make_gradient(model, &rows, each);
        }
        go_back(model, &rows, i > 0 || !model->overwrites);
    }
    if (counts)
        count_losses(model);
}

const float *es_model_logits(es_model *model)
{
    const int n = es_model_n_rows(model);
    const size_t width = (size_t)es_model_config_n_outputs(&model->config);
    const size_t stride = (size_t)es_model_logit_stride(model);
    float *out = es_resize(model->host_logits, (size_t)n * width, sizeof *out);
    if (!out)
        return NULL;
    model->host_logits = out;
    block rows;
    for (int i = 0; i < n; i += rows.n) {
        rows = block_from(model, i);
        make_logits(model, &rows);
        const float *from = model->ops->view(model->backend, model->logits,
                                             (size_t)rows.n * stride);
        if (!from)
            return NULL;
        for (int r = 0; r < rows.n; r++)
            memcpy(out + (size_t)(i + r) * width, from + (size_t)r * stride,
                   width * sizeof *out);
    }
    return out;
}

/* --- forward -------------------------------------------------------------- */

/* Computes y = residual + dropout(x). `back` is true if x is a gradient. */
static void drop_activations(const es_model *model, es_mem *y,
                             const es_mem *residual, const es_mem *x, int place,
                             bool back)
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

static void multiply_matrix(const es_model *model, es_mem *y,
                            const es_mem *residual, const es_mem *x, int layer,
                            es_matrix matrix)
{
    const es_linear linear = es_model_linear(model, layer, matrix);
    model->ops->linear(model->backend, y, residual, x, &linear,
                       es_model_n_rows(model));
}

static void apply_norm(const es_model *model, es_mem *y, es_mem *mean,
                       es_mem *rstd, const es_mem *x, int layer, es_role weight)
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

/* Computes q, k and v of all heads, in the layout that the attention operations
 * read. */
static void make_qkv(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    if (!es_model_traits(model)->is_separate) {
        multiply_matrix(model, at->qkv, NULL, at->u1, layer, ES_MATRIX_ATTN);
        return;
    }
    const es_sharing sharing = describe_sharing(model, layer);
    multiply_matrix(model, at->q, NULL, at->u1, layer, ES_MATRIX_Q);
    multiply_matrix(model, at->k, NULL, at->u1, layer, ES_MATRIX_K);
    const bool has_values = !es_model_traits(model)->is_simplified;
    if (has_values)
        multiply_matrix(model, at->v, NULL, at->u1, layer, ES_MATRIX_V);
    model->ops->spread_heads(model->backend, at->qkv, at->head_rstd, at->q,
                             at->k, has_values ? at->v : at->u1, &sharing);
}

static void forward_attention(const es_model *model, int layer, bool measure)
{
    const es_layer_memory *at = &model->layers[layer];
    if (at->u1 != at->x)
        apply_norm(model, at->u1, at->mean1, at->rstd1, at->x, layer,
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
        multiply_matrix(model, at->gate, NULL, at->u1, layer, ES_MATRIX_GATE);
        model->ops->gate(model->backend, at->gated, at->heads, at->gate,
                         (size_t)es_model_n_rows(model) *
                             (size_t)model->config.d_model);
    }
    if (model->config.arch.entropy_reg) {
        const es_penalty penalty = describe_penalty(model, layer);
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
        multiply_matrix(model, at->middle, at->x, at->gated, layer,
                        ES_MATRIX_PROJ);
    } else {
        multiply_matrix(model, model->kept, NULL, at->gated, layer,
                        ES_MATRIX_PROJ);
        drop_activations(model, at->middle, at->x, model->kept,
                         ES_DROP_ATTENTION + 2 * layer, false);
    }
    if (es_model_traits(model)->is_post_norm)
        apply_norm(model, at->u2, at->mean1, at->rstd1, at->middle, layer,
                   ES_ROLE_LN_1_WEIGHT);
}

/* Writes the output of the FFN, whose input is u2, to `out`; adds `residual`
 * unless it is NULL. */
static void feed_forward(const es_model *model, int layer, es_mem *out,
                         const es_mem *residual)
{
    const es_layer_memory *at = &model->layers[layer];
    if (es_model_value(model, layer, ES_ROLE_FUSED_WEIGHT)) {
        multiply_matrix(model, out, residual, at->u2, layer, ES_MATRIX_FUSED);
        return;
    }
    const es_linear fc = es_model_linear(model, layer, ES_MATRIX_FC);
    const size_t n_wide = (size_t)es_model_n_rows(model) * (size_t)fc.n_out;
    es_act act = es_model_act(model, layer);
    es_mem *post = find_post(model, layer);
    if (at->ffn_gate) {
        multiply_matrix(model, at->ffn_gate, NULL, at->u2, layer,
                        ES_MATRIX_FFN_GATE);
        multiply_matrix(model, at->pre, NULL, at->u2, layer, ES_MATRIX_FC);
        es_model_find_peak(model, layer, ES_PEAK_ACT, at->ffn_gate, n_wide);
        model->ops->swiglu(model->backend, post, at->ffn_gate, at->pre, n_wide);
    } else if (es_model_acts_by_polynomial(model, layer)) {
        multiply_matrix(model, at->pre, NULL, at->u2, layer, ES_MATRIX_FC);
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
    multiply_matrix(model, out, residual, post, layer, ES_MATRIX_MLP_PROJ);
}

static void forward_ffn(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const int place = ES_DROP_FFN + 2 * layer;
    if (es_model_traits(model)->is_post_norm) {
        feed_forward(model, layer, at->f, model->drops ? NULL : at->u2);
        if (model->drops)
            drop_activations(model, at->f, at->u2, at->f, place, false);
        apply_norm(model, at[1].x, at->mean2, at->rstd2, at->f, layer,
                   ES_ROLE_LN_2_WEIGHT);
        return;
    }
    if (at->u2 != at->x2)
        apply_norm(model, at->u2, at->mean2, at->rstd2, at->x2, layer,
                   ES_ROLE_LN_2_WEIGHT);
    if (!es_model_is_scaled(model, layer)) {
        feed_forward(model, layer, model->drops ? model->kept : at[1].x,
                     model->drops ? NULL : at->middle);
        if (model->drops)
            drop_activations(model, at[1].x, at->middle, model->kept, place,
                             false);
        return;
    }
    feed_forward(model, layer, at->f, NULL);
    if (model->drops)
        drop_activations(model, at->f, NULL, at->f, place, false);
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
static void embed_inputs(const es_model *model, es_mem *x)
{
    const es_model_config *config = &model->config;
    es_mem *const sum = model->embedded ? model->embedded : x;
    if (model->patches) {
        es_image image = config->image;
        image.levels = config->vocab;
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
        find_positions(model, es_model_value(model, -1, ES_ROLE_WPE)),
        config->batch, config->ctx, config->d_model);
    if (sum != x)
        apply_norm(model, x, model->mean_e, model->rstd_e, sum, -1,
                   ES_ROLE_LN_E_WEIGHT);
}

static void forward_blocks(const es_model *model, bool measure)
{
    const es_model_config *config = &model->config;
    if (config->arch.entropy_reg)
        model->ops->zero(model->backend, model->ereg, sizeof(float));
    es_mem *x = model->layers[0].x;
    embed_inputs(model, x);
    if (model->drops)
        drop_activations(model, x, NULL, x, ES_DROP_EMBEDDING, false);
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

/* Computes the input of the output matrix from the last layer's output. */
static void forward_end(const es_model *model)
{
    const es_mem *x = model->layers[model->config.n_layer].x;
    if (model->head_post) {
        const es_linear linear = describe_transform(model);
        const es_act act = {.kind = ES_ACT_GELU};
        model->ops->linear_act(model->backend, model->head_pre,
                               model->head_post, x, &linear, &act,
                               es_model_n_rows(model));
        x = model->head_post;
    }
    if (model->normed != x)
        apply_norm(model, model->normed, model->mean, model->rstd, x, -1,
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
            compute_loss(model);
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

/* --- backward ------------------------------------------------------------- */

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
static void copy_gradient(const es_model *model, es_mem *to, const es_mem *from)
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
    copy_gradient(model, model->du, model->dx);
    model->ops->zero(model->backend, model->dx,
                     (size_t)es_model_n_rows(model) *
                         (size_t)model->config.d_model *
                         model->ops->activation_size);
    norm_backward(model, model->du, x, mean, rstd, layer, weight);
}

/* Computes the gradients of the parameters of y = u * W + b from dy, the
 * gradient of y, and writes the gradient of u to `to` or, if `add` is true,
 * adds it to `to`. */
static void product_backward(const es_model *model, es_mem *to,
                             const es_mem *dy, int layer, es_matrix matrix,
                             const es_mem *u, bool add)
{
    const es_linear linear = es_model_linear(model, layer, matrix);
    es_model_weight_gradient(model, layer, matrix, u, dy);
    model->ops->linear_backward_input(model->backend, to, dy, &linear,
                                      es_model_n_rows(model), add);
}

/* Computes the gradients of `pre`, the input of the activation (in dwide), and
 * of SwiGLU's gate from df, the gradient of the FFN's output. Recomputes the
 * input of the FFN's last matrix. */
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
                                        own          ? own
                                        : act.learnt ? shared
                                                     : NULL,
                                        df, at->pre, &proj, &act, n_rows);
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

/* Runs the backward pass of the FFN from df, the gradient of its output. */
static void backward_ffn(const es_model *model, int layer, const es_mem *df)
{
    const es_layer_memory *at = &model->layers[layer];
    es_matrix first = ES_MATRIX_FUSED;
    if (!es_model_value(model, layer, ES_ROLE_FUSED_WEIGHT)) {
        es_mem *post = find_post(model, layer);
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

/* Converts dx from the gradient of the block's output to the gradient of the
 * residual stream before the FFN, and returns the gradient of the FFN's
 * output. */
static const es_mem *split_gradient(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const int place = ES_DROP_FFN + 2 * layer;
    if (!es_model_is_scaled(model, layer)) {
        if (model->drops)
            drop_activations(model, model->df, NULL, model->dx, place, true);
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
        drop_activations(model, model->df, NULL, model->df, place, true);
    return model->df;
}

/* Returns the gradient dL/de of the loss with respect to the layer's row
 * entropies, or NULL without the entropy regulariser; also computes the
 * gradient of theta. */
static const es_mem *entropy_gradient(const es_model *model, int layer,
                                      double scale)
{
    if (!model->config.arch.entropy_reg)
        return NULL;
    const es_penalty penalty = describe_penalty(model, layer);
    model->ops->entropy_penalty(
        model->backend, NULL, model->dentropy,
        es_model_gradient(model, layer, ES_ROLE_THETA),
        es_model_layer_rows(model, layer).array[ES_ROW_ENTROPY], &penalty,
        (float)scale, find_control(model));
    return model->dentropy;
}

/* Computes the gradient of the heads' outputs from dx, the gradient of the
 * residual stream after the attention. */
static void backward_projection(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_linear proj = es_model_linear(model, layer, ES_MATRIX_PROJ);
    const es_mem *dy = model->drops ? model->kept : model->dx;
    if (model->drops)
        drop_activations(model, model->kept, NULL, model->dx,
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
        const es_sharing sharing = describe_sharing(model, layer);
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
    const bool is_direct = model->config.arch.direct;
    const size_t n_t = (size_t)model->config.n_head * (size_t)model->config.ctx;
    es_mem *dlog_t = is_direct ? model->dlog_t
                               : es_model_gradient(model, layer, ES_ROLE_LOG_T);
    const es_mem *dentropy = entropy_gradient(model, layer, scale);
    if (is_direct)
        model->ops->zero(model->backend, dlog_t, n_t * sizeof(float));
    if (es_model_traits(model)->sees_all)
        model->ops->attention_whole_backward(
            model->backend, model->dwide, dlog_t, model->dheads, at->heads,
            dentropy, at->qkv, at->saved, es_model_padded(model),
            model->config.padding, &attention);
    else
        model->ops->attention_backward(model->backend, model->dwide, dlog_t,
                                       model->dheads, at->heads, dentropy,
                                       at->qkv, at->saved, &attention);
    if (is_direct)
        model->ops->temperature_logs_backward(
            model->backend, es_model_gradient(model, layer, ES_ROLE_T), dlog_t,
            es_model_value(model, layer, ES_ROLE_T), n_t);
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
    const es_sharing sharing = describe_sharing(model, layer);
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
    backward_loss(model, scale, !model->has_loss);
    if (model->normed != x)
        norm_backward(model, model->du, from, model->mean, model->rstd, -1,
                      ES_ROLE_LN_F_WEIGHT);
    if (!model->head_post)
        return;
    const es_linear linear = describe_transform(model);
    const es_act act = {.kind = ES_ACT_GELU};
    model->ops->act_backward(model->backend, model->dx, model->head_post,
                             model->head_pre, &act, n);
    model->ops->linear_backward_weight(
        model->backend, es_model_gradient(model, -1, ES_ROLE_HEAD_WEIGHT),
        es_model_gradient(model, -1, ES_ROLE_HEAD_BIAS), x, model->dx, &linear,
        es_model_n_rows(model), !model->overwrites);
    model->ops->linear_backward_input(model->backend, model->du, model->dx,
                                      &linear, es_model_n_rows(model), false);
    copy_gradient(model, model->dx, model->du);
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
        find_positions(model, es_model_gradient(model, -1, ES_ROLE_WPE)),
        model->tokens, model->dx, config->batch, config->ctx, config->d_model);
}

static void run_backward(const es_model *model, double scale)
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
        drop_activations(model, model->dx, NULL, model->dx, ES_DROP_EMBEDDING,
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
        run_backward(model, scale);
    else if (!es_model_replays(model, ES_SEQUENCE_BACKWARD + !model->has_loss +
                                          2 * model->overwrites)) {
        run_backward(model, scale);
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
