/** Shared by the files that add up over ranks. */
#ifndef ES_MODEL_RANKS_H
#define ES_MODEL_RANKS_H

#include "hooks/trainer/model/model_internal.h"
#include "hooks/trainer/ranks/transport.h"

struct es_ranks {
    es_transport *transport; /* NULL: there is no other rank */
    bool fixed_order;
    float *part;      /* (BUCKET) gradients of this rank */
    float *totals;    /* (BUCKET) sums, or all gradients in a fixed order */
    double losses[2]; /* ce and ereg, in a fixed order */
    char *measured;   /* sums so far in a fixed order, as a copy of the
                         report */
    char *all;        /* (world) reports of the ranks */
    char *own;        /* report of this rank */
    bool by_device;   /* the back-end adds up gradients and losses */
    bool is_ordered;  /* gradients of layers are in the order of the layers */
    /* Range of the gradients whose reduction has started, from the last layer
     * down; 0: none. */
    size_t first, sent_end;
    bool has_sums;   /* sums have been added since es_model_begin */
    bool is_shared;  /* the passes since then are common to all ranks */
    bool counts_all; /* n_passes counts the passes of all ranks */
};

static inline int es_ranks_world(const es_model *model)
{
    return model->ranks ? es_transport_world(model->ranks->transport) : 1;
}

/** Number of gradients. */
static inline size_t es_ranks_n_gradients(const es_model *model)
{
    return model->params.group[ES_GROUP_STATE];
}

/** Returns ce and ereg, two adjacent doubles. */
static inline es_mem *es_ranks_losses(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->ce);
}

/* Functions of model_ranks_device.c. */

/** Lets the devices add up from now on, if those of all ranks can; else writes
 *  a note, as es_model_set_ranks. */
es_status es_ranks_join_devices(es_model *model, char *note,
                                size_t size) ES_MUST_USE;

/** Reduces the gradients that no layer has reduced, and the numbers of the
 *  step. */
void es_ranks_reduce_rest(es_model *model);

/* Functions of model_ranks_report.c. */

/** Returns the offset of the sums in a report's copy; *n: their size within
 *  n_bytes. */
size_t es_ranks_sums_from(const es_model *model, size_t n_bytes, size_t *n);

/** Adds the reports of all ranks in their order. `own` (n_bytes) is that of
 *  this rank and is overwritten. Without `adds`, the first report replaces the
 *  sums. As es_transport_gather. */
es_status es_ranks_add_reports(es_model *model, char *sums, char *own,
                               size_t n_bytes, bool adds) ES_MUST_USE;

#endif
