/* Lets the back-end compute sums over ranks. The gradients of a layer are
 * reduced as soon as they are complete, concurrently with the backward pass of
 * the layers below; all other sums follow afterwards. */
#include "hooks/trainer/model/model_ranks.h"

#include <stdio.h>

/* The first message that ranks exchange. If a rank does not have the library
 * for reductions, all ranks compute the sums on the host. */
typedef struct invitation {
    int has_library;
    char id[ES_RANK_ID_SIZE];
} invitation;

static bool is_ordered(const es_model *model)
{
    int layer = -1;
    for (size_t i = 0; i < model->params.n; i++) {
        const es_param *param = &model->params.table[i];
        if (param->group != ES_GROUP_DECAY || param->layer < 0)
            continue;
        if (param->layer < layer)
            return false;
        layer = param->layer;
    }
    return true;
}

static bool is_over(void *user)
{
    return es_transport_check(user) != ES_OK;
}

static es_rank_patience patience_of(const es_ranks *ranks)
{
    return (es_rank_patience){es_transport_timeout(ranks->transport), is_over,
                              ranks->transport};
}

/* Joins this rank's device with the devices of the other ranks. If another rank
 * has failed, returns that rank's error. */
static es_status meet(es_model *model, const char id[ES_RANK_ID_SIZE])
{
    es_transport *transport = model->ranks->transport;
    const es_rank_patience patience = patience_of(model->ranks);
    const es_status status = model->ops->ranks->join(
        model->backend, id, es_transport_rank(transport),
        es_transport_world(transport), &patience);
    const es_status other =
        status == ES_OK ? ES_OK : es_transport_check(transport);
    return other == ES_OK ? status : other;
}

es_status es_ranks_join_devices(es_model *model, char *note, size_t size)
{
    es_ranks *ranks = model->ranks;
    const es_rank_ops *ops = model->ops->ranks;
    const int rank = es_transport_rank(ranks->transport);
    invitation all[ES_MAX_RANKS], own = {.has_library = 0};
    es_status status = ES_OK;
    own.has_library = ops->find() == ES_OK;
    if (!own.has_library)
        snprintf(note, size, "gradients are exchanged through the host: %s",
                 es_message());
    if (own.has_library && rank == 0)
        status = ops->make_id(own.id);
    if (status == ES_OK)
        status = es_transport_gather(ranks->transport, all, &own, sizeof own);
    ranks->by_device = status == ES_OK;
    for (int r = 0; status == ES_OK && r < es_ranks_world(model); r++)
        if (!all[r].has_library)
            ranks->by_device = false;
    if (ranks->by_device)
        status = meet(model, all[0].id);
    ranks->is_ordered = is_ordered(model);
    return status == ES_OK ? es_transport_wait(ranks->transport) : status;
}

bool es_model_reduces_by_device(const es_model *model)
{
    return model->ranks && model->ranks->by_device;
}

static void reduce_span(const es_model *model, size_t first, size_t end)
{
    es_mem *from = es_mem_at(model->gradients, first * sizeof(float));
    if (end > first)
        model->ops->ranks->reduce(model->backend, from, end - first,
                                  ES_REDUCE_SUM);
}

/* Finds the range first .. end - 1 that the layer's matrices occupy among the
 * gradients. */
static bool find_span(const es_model *model, int layer, size_t *first,
                      size_t *end)
{
    const es_params *params = &model->params;
    *first = *end = 0;
    for (size_t i = 0; i < params->n; i++) {
        const es_param *param = &params->table[i];
        if (param->group != ES_GROUP_DECAY || param->layer != layer)
            continue;
        if (*end == 0)
            *first = param->offset;
        *end = param->offset + param->n;
    }
    return *end > 0;
}

void es_model_reduce_layer(const es_model *model, int layer)
{
    es_ranks *ranks = model->ranks;
    size_t first, end;
    if (!model->reduces || !ranks->is_ordered ||
        !find_span(model, layer, &first, &end))
        return;
    /* Reduce all gradients between this layer's first matrix and the part that
     * is already being reduced. */
    if (ranks->sent_end == 0)
        ranks->first = ranks->sent_end = end;
    reduce_span(model, first, ranks->first);
    ranks->first = first;
}

void es_ranks_reduce_rest(es_model *model)
{
    es_ranks *ranks = model->ranks;
    const es_rank_ops *ops = model->ops->ranks;
    const es_report *report = &model->report;
    const size_t n_logits =
        (size_t)model->config.n_layer * (size_t)model->config.n_head;
    reduce_span(model, 0, ranks->first);
    reduce_span(model, ranks->sent_end, es_ranks_n_gradients(model));
    ranks->first = ranks->sent_end = 0;
    ops->reduce(model->backend, es_ranks_losses(model), 2,
                ES_REDUCE_SUM_DOUBLE);
    if (report->largest)
        ops->reduce(model->backend, es_model_reported(model, report->largest),
                    n_logits, ES_REDUCE_LARGEST);
    ops->finish(model->backend);
}

es_status es_model_wait_ranks(es_model *model)
{
    const es_ranks *ranks = model->ranks;
    if (!es_model_reduces_by_device(model) || !ranks->is_shared)
        return ES_OK;
    const es_rank_patience patience = patience_of(ranks);
    model->ops->ranks->wait(model->backend, &patience);
    return es_transport_check(ranks->transport);
}
