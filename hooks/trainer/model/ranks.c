/* Runs steps whose micro-batches are distributed over several ranks or added up
 * in a fixed order. Gradients and losses are summed before the update, which
 * every rank then computes from the same sums. The sums are computed on the
 * host with es_transport or, if possible, by the back-end, which reduces the
 * gradients of a layer as soon as they are complete, concurrently with the
 * backward pass of the layers below. Measurements are added up on the host. */
#include "hooks/trainer/model/ranks.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/ranges.h"
#include "hooks/trainer/ranks/transport.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of gradients that are copied to the host at a time, unless a fixed
 * order requires all gradients on the host. */
#define BUCKET ((size_t)1 << 20)

typedef struct es_ranks {
    es_transport *transport; /* NULL if there is no other rank */
    bool fixed_order;
    float *part;      /* BUCKET gradients of this rank, which are summed next */
    float *totals;    /* sums over the ranks: of these BUCKET gradients, or of
                         all gradients if the order of the sums is fixed */
    double losses[2]; /* this rank's sums of ce and ereg; used if the order of
                         the sums is fixed */
    char *measured;   /* measurements added up so far, in the layout of a
                         report; used if the order of the sums is fixed */
    char *all;        /* reports of all ranks; one per rank */
    char *own;        /* report of this rank */
    bool by_device; /* the back-end computes the sums of gradients and losses */
    /* true if the gradients are stored in memory in the order of the layers */
    bool is_ordered;
    /* Range of the gradients whose reduction has started; it grows from the
     * last layer towards the first. sent_end is 0 before the first
     * reduction. */
    size_t first, sent_end;
    bool has_sums; /* true if sums have been added since es_model_begin */
    /* true if all ranks contribute to the passes since es_model_begin */
    bool is_shared;
    /* true if n_passes already includes the passes of the other ranks */
    bool counts_all;
} es_ranks;

static int count_ranks(const es_model *model)
{
    return model->ranks ? es_transport_world(model->ranks->transport) : 1;
}

static size_t count_gradients(const es_model *model)
{
    return model->params.group[ES_GROUP_STATE];
}

/* Returns the address in the back-end's memory of the losses ce and ereg, which
 * are two adjacent doubles of the report. */
static es_mem *find_losses(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->ce);
}

/* --- sums by the back-end ------------------------------------------------- */

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
static es_status join_own_device(es_model *model,
                                 const char id[ES_RANK_ID_SIZE])
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

/* Makes the back-end compute the sums of gradients and losses from now on, if
 * the back-ends of all ranks can do so. Otherwise writes the reason to `note`,
 * as es_model_set_ranks describes. */
static es_status join_devices(es_model *model, char *note, size_t size)
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
    for (int r = 0; status == ES_OK && r < count_ranks(model); r++)
        if (!all[r].has_library)
            ranks->by_device = false;
    if (ranks->by_device)
        status = join_own_device(model, all[0].id);
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

/* Reduces the gradients whose reduction has not been started by any layer, and
 * the losses of the step. */
static void reduce_rest(es_model *model)
{
    es_ranks *ranks = model->ranks;
    const es_rank_ops *ops = model->ops->ranks;
    const es_report *report = &model->report;
    const size_t n_logits =
        (size_t)model->config.n_layer * (size_t)model->config.n_head;
    reduce_span(model, 0, ranks->first);
    reduce_span(model, ranks->sent_end, count_gradients(model));
    ranks->first = ranks->sent_end = 0;
    ops->reduce(model->backend, find_losses(model), 2, ES_REDUCE_SUM_DOUBLE);
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

/* --- ranks ---------------------------------------------------------------- */

es_status es_model_set_ranks(es_model *model, es_transport *transport,
                             bool fixed_order, char *note, size_t size)
{
    es_ranks *ranks = NULL;
    const size_t n = fixed_order ? count_gradients(model) : BUCKET;
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
                           "the gradients of all ranks")) != ES_OK ||
        (status = es_alloc(&ranks->totals, n, sizeof(float),
                           "the gradients of all ranks")) != ES_OK ||
        (status = es_alloc(&ranks->measured, 1, bytes, "ranks")) != ES_OK ||
        (status = es_alloc(&ranks->own, 1, bytes, "ranks")) != ES_OK)
        return status;
    if ((status = es_alloc(&ranks->all, world, bytes,
                           "the reports of all ranks")) != ES_OK ||
        !by_device)
        return status;
    return join_devices(model, note, size);
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

int es_model_n_shared(const es_model *model, int n_batches)
{
    return n_batches * count_ranks(model);
}

uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i)
{
    const es_ranks *ranks = model->ranks;
    const int rank = ranks ? es_transport_rank(ranks->transport) : 0;
    return plan->pass + (uint64_t)i * (uint64_t)count_ranks(model) +
           (uint64_t)rank;
}

void es_model_begin_shared(es_model *model)
{
    if (!model->ranks)
        return;
    model->ranks->counts_all = false;
    model->ranks->has_sums = false;
    model->ranks->is_shared = false;
}

void es_model_share(es_model *model)
{
    if (model->ranks)
        model->ranks->is_shared = true;
}

/* --- measurements --------------------------------------------------------- */

/* Pointers to the sums in a copy of the report that begins at `base`. */
typedef struct parts {
    es_peak *peaks;
    es_layer_sums *layers;
    es_head_sums *heads;
    es_head_details *head_details; /* NULL if the report has no details */
    es_layer_details *layer_details;
} parts;

static parts parts_at(const es_model *model, char *base)
{
    const es_report *report = &model->report;
    const char *tally = (const char *)report->tally;
    const bool has = report->head_details;
#define PART(member) (void *)(base + ((const char *)report->member - tally))
    return (parts){.peaks = PART(peaks),
                   .layers = PART(layers),
                   .heads = PART(heads),
                   .head_details = has ? PART(head_details) : NULL,
                   .layer_details = has ? PART(layer_details) : NULL};
#undef PART
}

static void add_peaks(const es_model *model, es_peak *to, const es_peak *more)
{
    for (size_t i = 0; i < es_model_n_peaks(model); i++) {
        to[i].sum += more[i].sum;
        if (!(more[i].largest <= to[i].largest) && !isnan(to[i].largest))
            to[i].largest = more[i].largest;
    }
}

/* Adds the sums of the report `more` to those of the report `to`. If `all` is
 * false, adds only the peaks (the largest |x| of operands). */
static void add_parts(const es_model *model, const parts *to, const parts *more,
                      bool all)
{
    const size_t n_layers = all ? (size_t)model->config.n_layer : 0;
    const size_t n_heads = n_layers * (size_t)model->config.n_head;
    add_peaks(model, to->peaks, more->peaks);
    for (size_t l = 0; l < n_layers; l++) {
        to->layers[l].nonfinite += more->layers[l].nonfinite;
        to->layers[l].squares += more->layers[l].squares;
    }
    for (size_t h = 0; h < n_heads; h++)
        es_head_sums_add(&to->heads[h], &more->heads[h]);
    for (size_t h = 0; to->head_details && h < n_heads; h++)
        es_head_details_add(&to->head_details[h], &more->head_details[h]);
    for (size_t l = 0; to->head_details && l < n_layers; l++)
        es_layer_details_add(&to->layer_details[l], &more->layer_details[l]);
}

/* Returns the offset of the sums in a copy of the report, and sets *n to their
 * size in bytes. If only the first n_bytes of the report are needed, the size
 * is limited to the sums among these bytes. */
static size_t find_sums(const es_model *model, size_t n_bytes, size_t *n)
{
    const es_report *report = &model->report;
    const char *tally = (const char *)report->tally;
    const size_t first = (size_t)((const char *)report->peaks - tally);
    const size_t end = (size_t)((const char *)report->parameters - tally);
    *n = (n_bytes < end ? n_bytes : end) - first;
    return first;
}

/* Adds the reports of all ranks in the order of the ranks. `own` (n_bytes) is
 * this rank's report and is overwritten. If `adds` is false, the first report
 * replaces the sums. Returns the errors of es_transport_gather. */
static es_status add_reports(es_model *model, char *sums, char *own,
                             size_t n_bytes, bool adds)
{
    const es_ranks *ranks = model->ranks;
    size_t n;
    const size_t first = find_sums(model, n_bytes, &n);
    const parts to = parts_at(model, sums), more = parts_at(model, own);
    es_status status =
        es_transport_gather(ranks->transport, ranks->all, own, n_bytes);
    if (status == ES_OK && !adds)
        memcpy(sums + first, ranks->all + first, n);
    for (int r = adds ? 0 : 1; status == ES_OK && r < count_ranks(model); r++) {
        memcpy(own, ranks->all + (size_t)r * n_bytes, n_bytes);
        add_parts(model, &to, &more, n_bytes > model->report.n_always);
    }
    return status;
}

es_status es_model_join_reports(es_model *model, size_t n_bytes)
{
    es_ranks *ranks = model->ranks;
    es_report *report = &model->report;
    const bool matters =
        report->measured || es_model_config_is_ranged(&model->config);
    es_status status = ES_OK;
    if (!ranks || !ranks->is_shared)
        return ES_OK;
    char *copy = (char *)report->tally;
    if (ranks->has_sums) {
        /* The report in `copy` has the sums of the last micro-batch only. Add
         * those of the other micro-batches, and keep the values that the update
         * has written. */
        const parts to = parts_at(model, copy);
        const parts sums = parts_at(model, ranks->measured);
        add_parts(model, &to, &sums, n_bytes > report->n_always);
    } else if (matters) {
        memcpy(ranks->own, copy, n_bytes);
        status = add_reports(model, copy, ranks->own, n_bytes, false);
    }
    if (!ranks->counts_all)
        report->n_passes *= count_ranks(model);
    ranks->counts_all = true;
    return status;
}

/* --- gradients and losses on the host ------------------------------------- */

/* Adds the gradients of all ranks. If `keeps` is true, adds them to totals (n),
 * which holds all n gradients; otherwise uses `totals` as a buffer for BUCKET
 * gradients at a time and writes each sum back to the back-end. */
static es_status add_gradients(es_model *model, bool keeps)
{
    const es_ranks *ranks = model->ranks;
    const es_ops *ops = model->ops;
    es_status status = ES_OK;
    size_t n;
    for (size_t first = 0; status == ES_OK && first < count_gradients(model);
         first += n) {
        const size_t left = count_gradients(model) - first;
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
    model->ops->load(model->backend, own, find_losses(model), sizeof own);
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
    for (size_t i = 0; status == ES_OK && i < n * (size_t)count_ranks(model);
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
        reduce_rest(model);
        return ES_OK;
    }
    if (ranks->fixed_order)
        ops->store(model->backend, model->gradients, ranks->totals,
                   count_gradients(model) * sizeof *ranks->totals);
    else {
        ranks->losses[0] = ranks->losses[1] = 0;
        if ((status = add_gradients(model, false)) == ES_OK)
            status = add_losses(model, ranks->losses);
    }
    if (status == ES_OK)
        status = join_logits(model);
    if (status == ES_OK)
        ops->store(model->backend, find_losses(model), ranks->losses,
                   sizeof ranks->losses);
    return status;
}

/* --- micro-batch by micro-batch ------------------------------------------- */

void es_model_begin_sums(es_model *model)
{
    es_ranks *ranks = model->ranks;
    if (!ranks || !ranks->fixed_order)
        return;
    ranks->has_sums = true;
    memset(ranks->totals, 0, count_gradients(model) * sizeof *ranks->totals);
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
        (status = add_reports(model, ranks->measured, ranks->own, n_bytes,
                              true)) != ES_OK)
        return status;
    /* Reset the back-end's sums to zero by storing the host's copy, in which
     * they are still zero. */
    const char *start = (const char *)report->tally;
    start += find_sums(model, n_bytes, &n);
    ops->store(model->backend, es_model_reported(model, start), start, n);
    ops->store(model->backend, find_losses(model), none, sizeof none);
    es_model_zero_gradients(model);
    return ES_OK;
}
