/* Runs steps whose micro-batches are distributed over several ranks or added up
 * in a fixed order. Gradients and losses are summed before the update, which
 * every rank then computes from the same sums. This file computes the sums on
 * the host with es_transport; model_ranks_device.c uses the back-end, and
 * model_ranks_report.c joins measurements. */
#include "hooks/trainer/model/model_ranks.h"

#include "analyzer/base/checked.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of gradients that are copied to the host at a time, unless a fixed
 * order requires all gradients there. */
#define BUCKET ((size_t)1 << 20)

int es_model_n_shared(const es_model *model, int n_batches)
{
    return n_batches * es_ranks_world(model);
}

uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i)
{
    const es_ranks *ranks = model->ranks;
    const int rank = ranks ? es_transport_rank(ranks->transport) : 0;
    return plan->pass + (uint64_t)i * (uint64_t)es_ranks_world(model) +
           (uint64_t)rank;
}

es_status es_model_set_ranks(es_model *model, es_transport *transport,
                             bool fixed_order, char *note, size_t size)
{
    es_ranks *ranks = NULL;
    const size_t n = fixed_order ? es_ranks_n_gradients(model) : BUCKET;
    const size_t bytes = model->report.n_bytes;
    const size_t world = (size_t)es_transport_world(transport);
    const es_rank_ops *ops = fixed_order ? NULL : model->ops->ranks;
    const bool by_device = ops && (transport || ops->alone());
    snprintf(note, size, "%s", "");
    if (!transport && !fixed_order && !by_device)
        return ES_OK;
    es_status status = es_alloc(&ranks, 1, sizeof *ranks, "ranks");
    if (status != ES_OK)
        return status;
    model->ranks = ranks;
    ranks->transport = transport;
    ranks->fixed_order = fixed_order;
    if ((status = es_alloc(&ranks->part, BUCKET, sizeof(float),
                           "gradients of ranks")) != ES_OK ||
        (status = es_alloc(&ranks->totals, n, sizeof(float),
                           "gradients of ranks")) != ES_OK ||
        (status = es_alloc(&ranks->measured, 1, bytes, "ranks")) != ES_OK ||
        (status = es_alloc(&ranks->own, 1, bytes, "ranks")) != ES_OK)
        return status;
    if ((status = es_alloc(&ranks->all, world, bytes, "statistics of ranks")) !=
            ES_OK ||
        !by_device)
        return status;
    return es_ranks_join_devices(model, note, size);
}

void es_model_free_ranks(es_model *model)
{
    es_ranks *ranks = model->ranks;
    if (!ranks)
        return;
    free(ranks->part);
    free(ranks->totals);
    free(ranks->measured);
    free(ranks->own);
    free(ranks->all);
    free(ranks);
}

void es_model_share(es_model *model)
{
    if (model->ranks)
        model->ranks->is_shared = true;
}

/* --- gradients and losses ------------------------------------------------- */

/* Adds the gradients of all ranks. If `keeps`, adds them to totals (n), which
 * holds all n gradients; otherwise uses `totals` as a buffer for BUCKET
 * gradients at a time and writes each sum back to the back-end. */
static es_status add_gradients(es_model *model, bool keeps)
{
    const es_ranks *ranks = model->ranks;
    const es_ops *ops = model->ops;
    es_status status = ES_OK;
    size_t n;
    for (size_t first = 0;
         status == ES_OK && first < es_ranks_n_gradients(model); first += n) {
        const size_t left = es_ranks_n_gradients(model) - first;
        n = left < BUCKET ? left : BUCKET;
        float *total = ranks->totals + (keeps ? first : 0);
        es_mem *at = es_mem_at(model->gradients, first * sizeof *total);
        ops->load(model->backend, ranks->part, at, n * sizeof *total);
        if (!keeps)
            memset(total, 0, n * sizeof *total);
        status = es_transport_add(ranks->transport, total, ranks->part, n);
        if (status == ES_OK && !keeps)
            ops->store(model->backend, at, total, n * sizeof *total);
    }
    return status;
}

static es_status add_losses(es_model *model, double losses[2])
{
    double own[2];
    model->ops->load(model->backend, own, es_ranks_losses(model), sizeof own);
    return es_transport_add_double(model->ranks->transport, losses, own, 2);
}

/* Computes, for QK-Clip, the largest logit of each head over all ranks. A NaN
 * from one rank is ignored. */
static es_status join_logits(es_model *model)
{
    const es_report *report = &model->report;
    const size_t n =
        (size_t)model->config.n_layer * (size_t)model->config.n_head;
    float *all = (float *)(void *)model->ranks->all;
    if (!report->largest || !model->ranks->transport)
        return ES_OK;
    es_mem *at = es_model_reported(model, report->largest);
    model->ops->load(model->backend, report->largest, at, n * sizeof *all);
    es_status status = es_transport_gather(model->ranks->transport, all,
                                           report->largest, n * sizeof *all);
    for (size_t i = 0; status == ES_OK && i < n * (size_t)es_ranks_world(model);
         i++)
        report->largest[i % n] = fmaxf(report->largest[i % n], all[i]);
    if (status == ES_OK)
        model->ops->store(model->backend, at, report->largest, n * sizeof *all);
    return status;
}

es_status es_model_reduce(es_model *model)
{
    es_ranks *ranks = model->ranks;
    const es_ops *ops = model->ops;
    es_status status = ES_OK;
    if (!ranks)
        return ES_OK;
    if (ranks->by_device) {
        es_ranks_reduce_rest(model);
        return ES_OK;
    }
    if (ranks->fixed_order)
        ops->store(model->backend, model->gradients, ranks->totals,
                   es_ranks_n_gradients(model) * sizeof *ranks->totals);
    else {
        ranks->losses[0] = ranks->losses[1] = 0;
        if ((status = add_gradients(model, false)) == ES_OK)
            status = add_losses(model, ranks->losses);
    }
    if (status == ES_OK)
        status = join_logits(model);
    if (status == ES_OK)
        ops->store(model->backend, es_ranks_losses(model), ranks->losses,
                   sizeof ranks->losses);
    return status;
}

/* --- micro-batch by micro-batch ------------------------------------------ */

void es_model_begin_shared(es_model *model)
{
    if (!model->ranks)
        return;
    model->ranks->counts_all = false;
    model->ranks->has_sums = false;
    model->ranks->is_shared = false;
}

void es_model_begin_sums(es_model *model)
{
    es_ranks *ranks = model->ranks;
    if (!ranks || !ranks->fixed_order)
        return;
    ranks->has_sums = true;
    memset(ranks->totals, 0,
           es_ranks_n_gradients(model) * sizeof *ranks->totals);
    ranks->losses[0] = ranks->losses[1] = 0;
    memcpy(ranks->measured, model->report.tally, es_model_report_bytes(model));
}

es_status es_model_add_batch(es_model *model)
{
    static const double none[2] = {0, 0};
    es_ranks *ranks = model->ranks;
    const es_ops *ops = model->ops;
    const es_report *report = &model->report;
    const size_t n_bytes = es_model_report_bytes(model);
    es_status status;
    size_t n;
    if (!ranks || !ranks->fixed_order)
        return ES_OK;
    ops->load(model->backend, ranks->own, report->memory, n_bytes);
    if ((status = add_gradients(model, true)) != ES_OK ||
        (status = add_losses(model, ranks->losses)) != ES_OK ||
        (status = es_ranks_add_reports(model, ranks->measured, ranks->own,
                                       n_bytes, true)) != ES_OK)
        return status;
    /* Reset the back-end's sums to zero by storing the host's copy, in which
     * they are still zero. */
    const char *start = (const char *)report->tally;
    start += es_ranks_sums_from(model, n_bytes, &n);
    ops->store(model->backend, es_model_reported(model, start), start, n);
    ops->store(model->backend, es_ranks_losses(model), none, sizeof none);
    es_model_zero_gradients(model);
    return ES_OK;
}
