/* Adds up the measurements of all ranks, in the order of the ranks. */
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/model_ranks.h"

#include <math.h>
#include <string.h>

/* Pointers to the sums in a copy of the report that begins at `base`. */
typedef struct parts {
    es_peak *peaks;
    es_layer_sums *layers;
    es_head_sums *heads;
    es_head_details *head_details; /* NULL if there are no details */
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

/* Adds the sums of a report. If `all` is false, only adds the peaks. */
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

size_t es_ranks_sums_from(const es_model *model, size_t n_bytes, size_t *n)
{
    const es_report *report = &model->report;
    const char *tally = (const char *)report->tally;
    const size_t first = (size_t)((const char *)report->peaks - tally);
    const size_t end = (size_t)((const char *)report->parameters - tally);
    *n = (n_bytes < end ? n_bytes : end) - first;
    return first;
}

es_status es_ranks_add_reports(es_model *model, char *sums, char *own,
                               size_t n_bytes, bool adds)
{
    const es_ranks *ranks = model->ranks;
    size_t n;
    const size_t first = es_ranks_sums_from(model, n_bytes, &n);
    const parts to = parts_at(model, sums), more = parts_at(model, own);
    es_status status =
        es_transport_gather(ranks->transport, ranks->all, own, n_bytes);
    if (status == ES_OK && !adds)
        memcpy(sums + first, ranks->all + first, n);
    for (int r = adds ? 0 : 1; status == ES_OK && r < es_ranks_world(model);
         r++) {
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
        /* The loaded report only has the sums of the last micro-batch; add the
         * others, and keep the loaded values that the update has written. */
        const parts to = parts_at(model, copy);
        const parts sums = parts_at(model, ranks->measured);
        add_parts(model, &to, &sums, n_bytes > report->n_always);
    } else if (matters) {
        memcpy(ranks->own, copy, n_bytes);
        status = es_ranks_add_reports(model, copy, ranks->own, n_bytes, false);
    }
    if (!ranks->counts_all)
        report->n_passes *= es_ranks_world(model);
    ranks->counts_all = true;
    return status;
}
