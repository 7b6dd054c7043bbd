/* Adds up the reports of a step or an evaluation, and makes samples of them. */
#include "hooks/trainer/model/measure.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/model_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const es_layer_series_names[ES_N_LAYER_SERIES] = {
    [ES_LAYER_NAN_ACTIVATIONS] = "nan_activations",
    [ES_LAYER_ACT_RMS] = "act_rms",
};

struct es_measure {
    size_t n_layers, n_heads; /* n_heads: of the whole model, L*H */
    double n_activations;     /* of a layer, in one micro-batch */
    int n_batches;
    es_head_sums *heads;   /* (L,H) */
    es_layer_sums *layers; /* (L) */
    float *out;            /* (L,H): what is borrowed */
    es_model_config config;
    float *parameters; /* (series, L*H) */
};

es_status es_measure_new(es_measure **out, const es_model_config *config)
{
    es_measure *measure;
    *out = NULL;
    es_status status = es_alloc(&measure, 1, sizeof *measure, "measurements");
    if (status < 0)
        return status;
    size_t layers = (size_t)config->n_layer;
    size_t heads = layers * (size_t)config->n_head;
    measure->n_layers = layers;
    measure->n_heads = heads;
    measure->n_activations =
        (double)config->batch * config->ctx * config->d_model;
    measure->config = *config;
    if ((status = es_alloc(&measure->heads, heads, sizeof *measure->heads,
                           "heads")) < 0 ||
        (status = es_alloc(&measure->layers, layers, sizeof *measure->layers,
                           "layers")) < 0 ||
        (status = es_alloc(&measure->out, heads, sizeof *measure->out,
                           "heads")) < 0 ||
        (status = es_alloc(&measure->parameters, ES_N_PARAMETER_SERIES * heads,
                           sizeof *measure->parameters, "parameters")) < 0) {
        es_measure_free(measure);
        return status;
    }
    es_measure_reset(measure);
    *out = measure;
    return ES_OK;
}

void es_measure_free(es_measure *measure)
{
    if (!measure)
        return;
    free(measure->heads);
    free(measure->layers);
    free(measure->out);
    free(measure->parameters);
    free(measure);
}

void es_measure_reset(es_measure *measure)
{
    measure->n_batches = 0;
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->heads[h] = es_head_sums_start();
    memset(measure->layers, 0, measure->n_layers * sizeof *measure->layers);
}

void es_measure_add(es_measure *measure, const es_model *model)
{
    const es_report *report = &model->report;
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++) {
        const es_parameter_series series = (es_parameter_series)i;
        if (measure->n_batches == 0 &&
            es_parameter_series_exists(&measure->config, series))
            es_parameter_series_read(measure->parameters +
                                         (size_t)i * measure->n_heads,
                                     model, series);
    }
    for (size_t h = 0; h < measure->n_heads; h++)
        es_head_sums_add(&measure->heads[h], &report->heads[h]);
    for (size_t l = 0; l < measure->n_layers; l++) {
        measure->layers[l].nonfinite += report->layers[l].nonfinite;
        measure->layers[l].squares += report->layers[l].squares;
    }
    measure->n_batches += report->n_passes;
}

int es_measure_n_batches(const es_measure *measure)
{
    return measure->n_batches;
}

const float *es_measure_heads(es_measure *measure, es_head_series series)
{
    const bool exists =
        es_head_series_exists(series, measure->config.arch.attention);
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->out[h] =
            exists ? (float)es_head_value(&measure->heads[h], series) : NAN;
    return measure->out;
}

const float *es_measure_layers(es_measure *measure, es_layer_series series)
{
    const double n = measure->n_activations * measure->n_batches;
    for (size_t l = 0; l < measure->n_layers; l++)
        measure->out[l] = series == ES_LAYER_NAN_ACTIVATIONS
                              ? (float)measure->layers[l].nonfinite
                              : (float)sqrt(measure->layers[l].squares / n);
    return measure->out;
}

const float *es_measure_parameters(const es_measure *measure,
                                   es_parameter_series series)
{
    return measure->parameters + (size_t)series * measure->n_heads;
}

int es_measure_first_nan_layer(const es_measure *measure)
{
    for (size_t l = 0; l < measure->n_layers; l++)
        if (measure->layers[l].nonfinite > 0)
            return (int)l;
    return -1;
}
