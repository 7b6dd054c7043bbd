/* Computes the loss from the logits, a block of rows at a time, because the
 * logits of a whole micro-batch (N x V) would usually be the largest array. In
 * a training step, the loss and gradient of each block are computed before the
 * next block. A separate forward pass only keeps the losses, and the backward
 * pass recomputes the logits. */
#include "hooks/trainer/model/model_internal.h"

#include "analyzer/base/checked.h"

#include <string.h>

int es_model_loss_rows(const es_model *model)
{
    const int n = es_model_n_rows(model);
    const int most =
        model->ops->loss_rows
            ? model->ops->loss_rows(es_model_config_n_outputs(&model->config))
            : n;
    return n < most ? n : most;
}

/* A block of consecutive rows of the last layer's output, with the arrays that
 * belong to the rows. */
typedef struct block {
    int n;
    /* (n,d) act: input of the output matrix, and the gradient of this input */
    es_mem *x, *dx;
    /* (n) target, loss and log-sum-exp of each row */
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
    const es_linear head = es_model_head(model);
    model->ops->linear(model->backend, model->logits, NULL, rows->x, &head,
                       rows->n);
}

/* Computes the losses of a block, and replaces its logits by their gradient. */
static void make_both(const es_model *model, const block *rows, float scale)
{
    const es_ops *ops = model->ops;
    const es_tally *tally = model->report.tally;
    make_logits(model, rows);
    ops->cross_entropy_both(model->backend, rows->row_loss, model->logits,
                            rows->targets, scale,
                            es_model_reported(model, &tally->control), rows->n,
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

void es_model_loss(const es_model *model)
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
    const es_tally *tally = model->report.tally;
    model->ops->cross_entropy_backward(
        model->backend, model->logits, rows->lse, rows->targets, scale,
        es_model_reported(model, &tally->control), rows->n,
        es_model_config_n_outputs(&model->config),
        es_model_logit_stride(model));
}

/* Runs the backward pass of a block. If `add`, adds to the gradient of the
 * weights; otherwise overwrites the gradient. */
static void go_back(const es_model *model, const block *rows, bool add)
{
    const es_linear head = es_model_head(model);
    model->ops->linear_backward_weight(
        model->backend, es_model_gradient(model, -1, es_model_head_role(model)),
        es_model_gradient(model, -1, ES_ROLE_LOGIT_BIAS), rows->x,
        model->logits, &head, rows->n, add);
    model->ops->linear_backward_input(model->backend, rows->dx, model->logits,
                                      &head, rows->n, false);
}

void es_model_loss_backward(const es_model *model, double scale, bool counts)
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
