/** Between the files that add up over ranks. */
#ifndef ES_MODEL_RANKS_H
#define ES_MODEL_RANKS_H

#include "hooks/trainer/model/model_internal.h"
#include "hooks/trainer/ranks/transport.h"

struct es_ranks {
    es_transport *transport; /* NULL: there is no other */
    bool fixed_order;
    float *part;      /* (BUCKET) gradients of this rank */
    float *totals;    /* (BUCKET), or all of them in a fixed order */
    double losses[2]; /* ce and ereg, of a fixed order */
    char *measured;   /* a report's copy: sums so far of a fixed order, */
    char *all;        /* (world) those of the ranks, */
    char *own;        /* and this one's */
    bool by_device;   /* gradients and losses are added up there */
    bool is_ordered;  /* those of layers lie in the order of these */
    /* Gradients that are on their way: from .. to, those of layers from the
       last one on; 0: none */
    size_t first, sent_end;
    bool has_sums;   /* since es_model_begin */
    bool is_shared;  /* passes since then are of all ranks */
    bool counts_all; /* n_passes does */
};

static inline int es_ranks_world(const es_model *model)
{
    return model->ranks ? es_transport_world(model->ranks->transport) : 1;
}

/** How many gradients there are. */
static inline size_t es_ranks_n_gradients(const es_model *model)
{
    return model->params.group[ES_GROUP_STATE];
}

/** ce and ereg, double, beside each other. */
static inline es_mem *es_ranks_losses(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->ce);
}

/* model_ranks_device.c */

/** Devices add up from now on, if those of all ranks can: else a note, as
 *  es_model_set_ranks. */
es_status es_ranks_join_devices(es_model *model, char *note,
                                size_t size) ES_MUST_USE;

/** What no layer has sent, and the numbers of the step. */
void es_ranks_reduce_rest(es_model *model);

/* model_ranks_report.c */

/** Bytes of a report's copy that sums begin at, and of n_bytes those that they
 *  take. */
size_t es_ranks_sums_from(const es_model *model, size_t n_bytes, size_t *n);

/** Adds what each rank has, in their order: `own` (n_bytes) is this one's, and
 *  lost. Without `adds` the first one's takes the place of what was there. As
 *  es_transport_gather. */
es_status es_ranks_add_reports(es_model *model, char *sums, char *own,
                               size_t n_bytes, bool adds) ES_MUST_USE;

#endif
