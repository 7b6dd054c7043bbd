#include "hooks/trainer/model/measure.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/model_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const es_head_series_names[ES_N_HEAD_SERIES] = {
    [ES_HEAD_ENTROPY] = "entropy",
    [ES_HEAD_ENTROPY_MIN] = "entropy_min",
    [ES_HEAD_ENTROPY_MAX] = "entropy_max",
    [ES_HEAD_NONFINITE_ROWS] = "nonfinite_rows",
    [ES_HEAD_NONFINITE_WEIGHTS] = "nonfinite_weights",
    [ES_HEAD_MAX_LOGIT] = "max_logit",
    [ES_HEAD_SINK] = "sink",
    [ES_HEAD_MISSING_MASS] = "missing_mass",
};

const char *const es_layer_series_names[ES_N_LAYER_SERIES] = {
    [ES_LAYER_NAN_ACTIVATIONS] = "nan_activations",
    [ES_LAYER_ACT_RMS] = "act_rms",
};

struct es_measure {
    size_t n_layers, n_heads; /* n_heads: of the whole model, L*H */
    double n_activations;     /* of a layer, in one micro-batch */
    bool has_missing;         /* weights need not sum to 1 */
    int n_batches;
    es_head_sums *heads;   /* (L,H) */
    es_layer_sums *layers; /* (L) */
    float *out;            /* (L,H): what is borrowed */
    es_model_config config;
    float *parameters; /* (series, L*H) */
};

es_status es_measure_new(es_measure **out, const es_model_config *config)
{
    *out = NULL;
    es_measure *measure = calloc(1, sizeof *measure);
    if (!measure)
        return es_fail(ES_ENOMEM, "out of memory for the measurements");
    size_t layers = (size_t)config->n_layer;
    size_t heads = layers * (size_t)config->n_head;
    measure->n_layers = layers;
    measure->n_heads = heads;
    measure->n_activations =
        (double)config->batch * config->ctx * config->d_model;
    measure->has_missing = config->arch.attention == ES_POWER_SOFTMAX;
    measure->heads = calloc(heads, sizeof *measure->heads);
    measure->layers = calloc(layers, sizeof *measure->layers);
    measure->out = calloc(heads, sizeof *measure->out);
    measure->config = *config;
    measure->parameters =
        es_resize(NULL, ES_N_PARAMETER_SERIES * heads, sizeof(float));
    if (!measure->heads || !measure->layers || !measure->out ||
        !measure->parameters) {
        es_measure_free(measure);
        return es_fail(ES_ENOMEM, "out of memory for %zu heads", heads);
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
        measure->heads[h] = (es_head_sums){
            .entropy_min = NAN, .entropy_max = NAN, .max_logit = NAN};
    memset(measure->layers, 0, measure->n_layers * sizeof *measure->layers);
}

static void add_head(es_head_sums *to, const es_head_sums *more)
{
    to->entropy += more->entropy;
    to->sink += more->sink;
    to->missing += more->missing;
    to->finite_rows += more->finite_rows;
    to->nonfinite_rows += more->nonfinite_rows;
    to->nonfinite_weights += more->nonfinite_weights;
    /* fmin and fmax pass over a NaN: there, nothing finite was seen. */
    to->entropy_min = fmin(to->entropy_min, more->entropy_min);
    to->entropy_max = fmax(to->entropy_max, more->entropy_max);
    to->max_logit = fmax(to->max_logit, more->max_logit);
}

static void keep_parameters(es_measure *measure, const es_model *model)
{
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++)
        if (es_parameter_series_exists(&measure->config,
                                       (es_parameter_series)i))
            es_parameter_series_read(measure->parameters +
                                         (size_t)i * measure->n_heads,
                                     model, (es_parameter_series)i);
}

void es_measure_add(es_measure *measure, const es_model *model)
{
    const es_report *report = &model->report;
    if (measure->n_batches == 0)
        keep_parameters(measure, model);
    for (size_t h = 0; h < measure->n_heads; h++)
        add_head(&measure->heads[h], &report->heads[h]);
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

static double head_value(const es_head_sums *sums, es_head_series series)
{
    double n = sums->finite_rows > 0 ? (double)sums->finite_rows : NAN;
    switch (series) {
    case ES_HEAD_ENTROPY:
        return sums->entropy / n;
    case ES_HEAD_ENTROPY_MIN:
        return sums->entropy_min;
    case ES_HEAD_ENTROPY_MAX:
        return sums->entropy_max;
    case ES_HEAD_NONFINITE_ROWS:
        return (double)sums->nonfinite_rows;
    case ES_HEAD_NONFINITE_WEIGHTS:
        return (double)sums->nonfinite_weights;
    case ES_HEAD_MAX_LOGIT:
        return sums->max_logit;
    case ES_HEAD_SINK:
        return sums->sink / n;
    case ES_HEAD_MISSING_MASS:
        return sums->missing / n;
    case ES_N_HEAD_SERIES:
        break;
    }
    return NAN;
}

const float *es_measure_heads(es_measure *measure, es_head_series series)
{
    const bool is_there =
        series != ES_HEAD_MISSING_MASS || measure->has_missing;
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->out[h] =
            is_there ? (float)head_value(&measure->heads[h], series) : NAN;
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
