/* Manages the report: a block in the back-end's memory to which operations add
 * the sums of passes and updates, and which is copied to the host once per
 * step. */
#include "hooks/trainer/model/report.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/parameter_series.h"
#include "hooks/trainer/model/polynomial.h"
#include "hooks/trainer/model/ranges.h"
#include "hooks/trainer/model/ranks.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

es_status es_model_plan_report(es_model *model)
{
    const es_model_config *config = &model->config;
    const size_t n_layers = (size_t)config->n_layer;
    /* These sizes cannot overflow, because the arrays of activations have at
     * least as many elements. */
    const size_t n_heads = n_layers * (size_t)config->n_head;
    const bool clips = config->arch.clip > 0;
    /* Round up to a whole number of doubles, because doubles follow the
     * logits. */
    const size_t logits = clips ? (n_heads + 1) / 2 * 2 * sizeof(float) : 0;
    const size_t peaks = sizeof(es_tally) + 2 * logits;
    const size_t layers = peaks + es_model_n_peaks(model) * sizeof(es_peak);
    const size_t heads = layers + n_layers * sizeof(es_layer_sums);
    const size_t details = heads + n_heads * sizeof(es_head_sums);
    const bool has_details = es_model_has_details(model);
    const size_t layer_details =
        details + (has_details ? n_heads * sizeof(es_head_details) : 0);
    const size_t parameters =
        layer_details + (has_details ? n_layers * sizeof(es_layer_details) : 0);
    es_report *report = &model->report;
    size_t bytes;
    if (!es_size_mul(&bytes, es_model_n_reported(model), sizeof(float)) ||
        !es_size_add(&bytes, bytes, parameters))
        bytes = SIZE_MAX;
    char *copy = bytes < SIZE_MAX ? calloc(1, bytes) : NULL;
    if (!copy)
        return es_fail(ES_ENOMEM, "out of memory for the model's statistics");
    report->n_bytes = bytes;
    report->tally = (es_tally *)(void *)copy;
    report->n_always = layers;
    if (clips) {
        report->largest = (float *)(void *)(copy + sizeof(es_tally));
        report->factors = (float *)(void *)(copy + sizeof(es_tally) + logits);
    }
    report->peaks = (es_peak *)(void *)(copy + peaks);
    report->layers = (es_layer_sums *)(void *)(copy + layers);
    report->heads = (es_head_sums *)(void *)(copy + heads);
    report->parameters = (float *)(void *)(copy + parameters);
    if (has_details) {
        report->head_details = (es_head_details *)(void *)(copy + details);
        report->layer_details =
            (es_layer_details *)(void *)(copy + layer_details);
    }
    report->takes_all = true;
    report->tally->control.loss_scale = 1;
    return model->ops->reserve(model->backend, &report->memory, bytes);
}

/* --- begin ---------------------------------------------------------------- */

static es_control control_of(const es_model *model,
                             const es_train_config *train, double lr)
{
    const double step = (double)(model->n_updates + model->n_pending + 1);
    es_control control = {.loss_scale = model->loss_scale};
    if (train) {
        control.lr = (float)lr;
        control.correction1 = (float)(1 - pow(train->beta1, step));
        control.correction2 = (float)(1 - pow(train->beta2, step));
    }
    return control;
}

void es_model_begin_report(es_model *model, bool measure,
                           const es_train_config *train, double lr)
{
    const es_model_config *config = &model->config;
    const size_t n_layers = (size_t)config->n_layer;
    es_report *report = &model->report;
    *report->tally = (es_tally){.control = control_of(model, train, lr),
                                .pass = model->pass};
    memset(report->peaks, 0, es_model_n_peaks(model) * sizeof *report->peaks);
    for (size_t l = 0; l < n_layers; l++)
        report->layers[l] = (es_layer_sums){0};
    for (size_t h = 0; h < n_layers * (size_t)config->n_head; h++)
        report->heads[h] = es_head_sums_start();
    for (size_t h = 0; report->largest && h < n_layers * (size_t)config->n_head;
         h++) {
        report->largest[h] = -INFINITY;
        report->factors[h] = 1;
    }
    if (report->head_details) {
        memset(report->head_details, 0,
               n_layers * (size_t)config->n_head *
                   sizeof *report->head_details);
        memset(report->layer_details, 0,
               n_layers * sizeof *report->layer_details);
    }
    report->has_weights = report->has_step = report->has_update = false;
    report->n_passes = 0;
    es_model_begin_shared(model);
    report->measured = measure;
    report->has_losses = true;
    /* Keep the back-end's flag `skips`, because only the back-end knows whether
     * the step in progress is skipped. */
    const size_t kept = model->n_pending > 0 ? sizeof(float) : 0;
    static_assert(offsetof(es_tally, control.skips) == 0,
                  "skips must be the first float");
    model->ops->store(model->backend, es_mem_at(report->memory, kept),
                      (const char *)report->tally + kept,
                      es_model_report_bytes(model) - kept);
    es_model_begin_polynomials(model);
}

void es_model_begin(es_model *model, bool measure, const es_train_config *train,
                    double lr)
{
    es_model_begin_report(model, measure, train, lr);
    if (measure)
        es_model_report_parameters(model);
}

void es_model_begin_step(es_model *model, const es_train_config *train,
                         double lr)
{
    es_control *control = &model->report.tally->control;
    /* factor by which the current gradients are multiplied */
    const float loss_scale = control->loss_scale;
    *control = control_of(model, train, lr);
    control->loss_scale = loss_scale;
    model->ops->store(model->backend, es_model_reported(model, control),
                      control, sizeof *control);
}

/* --- end ------------------------------------------------------------------ */

static es_outcome outcome_of(const es_model *model)
{
    const es_report *report = &model->report;
    const es_tally *tally = report->tally;
    const double n = report->n_passes;
    es_outcome out = {
        .losses = {.ce = report->has_losses ? tally->ce / n : (double)NAN,
                   .ereg = tally->ereg / n,
                   .range = es_model_range_loss(model)},
        .grad_norm = sqrt(tally->squares) / (double)tally->control.loss_scale,
        .skipped = tally->control.skips != 0};
    out.losses.loss = out.losses.ce + model->config.lambda * out.losses.ereg +
                      out.losses.range;
    return out;
}

es_status es_model_status(es_model *model)
{
    return model->ops->status ? model->ops->status(model->backend) : ES_OK;
}

/* Ends the passes, and counts the step if its update was not skipped. */
static es_status end_passes(es_model *model, es_outcome *out, size_t n_bytes)
{
    es_report *report = &model->report;
    es_status status = es_model_wait_ranks(model);
    if (status == ES_OK) {
        model->ops->load(model->backend, report->tally, report->memory,
                         n_bytes);
        status = es_model_status(model);
    }
    if (status == ES_OK)
        status = es_model_join_reports(model, n_bytes);
    *out = outcome_of(model);
    model->n_updates += model->is_updating && !out->skipped;
    model->is_updating = false;
    return status;
}

es_status es_model_end(es_model *model, es_outcome *out)
{
    if (!model->is_updating)
        es_model_detail_weights(model);
    es_model_end_polynomials(model);
    return end_passes(model, out, es_model_report_bytes(model));
}

es_status es_model_end_step(es_model *model, es_outcome *out)
{
    const es_report *report = &model->report;
    return end_passes(model, out,
                      report->head_details ? es_model_report_bytes(model)
                                           : report->n_always);
}

/* --- reports that are fetched later -------------------------------------- */

bool es_model_fetches(const es_model *model)
{
    /* With several ranks, reports can only be joined when the reports of all
     * ranks have arrived. */
    return model->ops->fetch && !model->ranks && !es_model_has_details(model) &&
           !model->polynomials;
}

void es_model_fetch_report(es_model *model)
{
    const es_report *report = &model->report;
    const int place = model->next_place;
    const size_t n_bytes = es_model_report_bytes(model);
    model->pending[place] =
        (es_pending){n_bytes, report->n_passes, report->measured};
    model->ops->fetch(model->backend, place, report->memory, n_bytes);
    model->next_place = 1 - place;
    model->n_pending++;
    model->is_updating = false;
}

es_status es_model_end_fetched(es_model *model, es_outcome *out)
{
    es_report *report = &model->report;
    const int place = model->next_place ^ (model->n_pending & 1);
    const es_pending *pending = &model->pending[place];
    const void *bytes;
    es_status status = model->ops->fetched(model->backend, &bytes, place);
    if (bytes)
        memcpy(report->tally, bytes, pending->n_bytes);
    else
        /* Set every sum to NaN. */
        memset(report->tally, 0xff, pending->n_bytes);
    report->n_passes = pending->n_passes;
    report->measured = pending->measured;
    model->n_pending--;
    *out = outcome_of(model);
    model->n_updates += !out->skipped;
    return status;
}

/* --- observations -------------------------------------------------------- */

void es_model_heads(double *out, const es_model *model, es_head_series series)
{
    const es_model_config *config = &model->config;
    for (int i = 0; i < config->n_layer * config->n_head; i++)
        out[i] = es_head_value(&model->report.heads[i], series);
}

void es_model_activation_stats(const es_model *model, float *nan_activations,
                               float *act_rms)
{
    const es_report *report = &model->report;
    const double n = (double)es_model_n_rows(model) * model->config.d_model *
                     report->n_passes;
    for (int layer = 0; layer < model->config.n_layer; layer++) {
        nan_activations[layer] = (float)report->layers[layer].nonfinite;
        act_rms[layer] = (float)sqrt(report->layers[layer].squares / n);
    }
}
