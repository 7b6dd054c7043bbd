/** Declares the data and functions that model_ranks.c, model_ranks_device.c and
 *  model_ranks_report.c share. */
#ifndef ES_MODEL_RANKS_H
#define ES_MODEL_RANKS_H

#include "hooks/trainer/model/model_internal.h"
#include "hooks/trainer/ranks/transport.h"

struct es_ranks {
    es_transport *transport; /* NULL if there is no other rank */
    bool fixed_order;
    float *part;      /* (BUCKET) gradients of this rank, one part at a time */
    float *totals;    /* (BUCKET) sums of the current part, or (n) sums of all
                         gradients with a fixed order */
    double losses[2]; /* with a fixed order: this rank's sums of ce and ereg */
    char *measured;   /* with a fixed order: the measurements so far, in the
                         layout of a report */
    char *all;        /* (world) reports of all ranks */
    char *own;        /* report of this rank */
    bool by_device; /* the back-end computes the sums of gradients and losses */
    /* the gradients in memory are in the order of the layers */
    bool is_ordered;
    /* Range of the gradients whose reduction has started; it grows from the
     * last layer towards the first. sent_end is 0 before the first
     * reduction. */
    size_t first, sent_end;
    bool has_sums; /* sums have been added since es_model_begin */
    /* the passes since es_model_begin are common to all ranks */
    bool is_shared;
    /* n_passes already includes the passes of the other ranks */
    bool counts_all;
};

static inline int es_ranks_world(const es_model *model)
{
    return model->ranks ? es_transport_world(model->ranks->transport) : 1;
}

/** Returns the number of gradients. */
static inline size_t es_ranks_n_gradients(const es_model *model)
{
    return model->params.group[ES_GROUP_STATE];
}

/** Returns the address in the back-end's memory of ce and ereg, which are two
 *  adjacent doubles of the tally. */
static inline es_mem *es_ranks_losses(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->ce);
}

/* Functions that model_ranks_device.c defines. */

/** Lets the back-end compute the sums from now on if the back-ends of all ranks
 *  can; otherwise writes the note of es_model_set_ranks. */
es_status es_ranks_join_devices(es_model *model, char *note,
                                size_t size) ES_MUST_USE;

/** Reduces the gradients whose reduction no layer has started, and the losses
 *  of the step. */
void es_ranks_reduce_rest(es_model *model);

/* Functions that model_ranks_report.c defines. */

/** Returns the offset of the sums in a copy of the report, and sets *n to their
 *  size in bytes. If only the first n_bytes of the report are needed, the size
 *  is limited to the sums among these bytes. */
size_t es_ranks_sums_from(const es_model *model, size_t n_bytes, size_t *n);

/** Adds the reports of all ranks in the order of the ranks. `own` (n_bytes) is
 *  this rank's report and is overwritten. If `adds` is false, the first report
 *  replaces the sums. Returns the errors of es_transport_gather. */
es_status es_ranks_add_reports(es_model *model, char *sums, char *own,
                               size_t n_bytes, bool adds) ES_MUST_USE;

#endif
