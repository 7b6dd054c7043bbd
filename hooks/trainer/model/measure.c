#include "hooks/trainer/model/measure.h"

#include "analyzer/base/checked.h"
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

/** Sums over the micro-batches so far; extremes are NaN before the first. */
typedef struct head_sums {
    double entropy, sink, missing; /* over finite rows */
    int64_t finite_rows, nonfinite_rows, nonfinite_weights;
    double entropy_min, entropy_max, max_logit;
} head_sums;

struct es_measure {
    size_t n_layers, n_heads; /* n_heads: of the whole model, L*H */
    int64_t rows_of_head;     /* B*T of one micro-batch */
    int n_batches;
    es_head_stats *stats;         /* (L,H) of one micro-batch */
    head_sums *heads;             /* (L,H) */
    float *batch_nan, *batch_rms; /* (L) of one micro-batch */
    double *nan_sum, *square_sum; /* (L) */
    float *out;                   /* (L,H): what is borrowed */
    es_model_config config;
    float *parameters; /* (series, L*H) */
    float *scratch;    /* (H,T) */
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
    measure->rows_of_head = (int64_t)config->batch * config->ctx;
    measure->stats = calloc(heads, sizeof *measure->stats);
    measure->heads = calloc(heads, sizeof *measure->heads);
    measure->batch_nan = calloc(layers, sizeof *measure->batch_nan);
    measure->batch_rms = calloc(layers, sizeof *measure->batch_rms);
    measure->nan_sum = calloc(layers, sizeof *measure->nan_sum);
    measure->square_sum = calloc(layers, sizeof *measure->square_sum);
    measure->out = calloc(heads, sizeof *measure->out);
    measure->config = *config;
    measure->parameters =
        es_resize(NULL, ES_N_PARAMETER_SERIES * heads, sizeof(float));
    measure->scratch = es_resize(
        NULL, (size_t)config->n_head * (size_t)config->ctx, sizeof(float));
    if (!measure->stats || !measure->heads || !measure->batch_nan ||
        !measure->batch_rms || !measure->nan_sum || !measure->square_sum ||
        !measure->out || !measure->parameters || !measure->scratch) {
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
    free(measure->stats);
    free(measure->heads);
    free(measure->batch_nan);
    free(measure->batch_rms);
    free(measure->nan_sum);
    free(measure->square_sum);
    free(measure->out);
    free(measure->parameters);
    free(measure->scratch);
    free(measure);
}

void es_measure_reset(es_measure *measure)
{
    measure->n_batches = 0;
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->heads[h] = (head_sums){
            .entropy_min = NAN, .entropy_max = NAN, .max_logit = NAN};
    memset(measure->nan_sum, 0, measure->n_layers * sizeof(double));
    memset(measure->square_sum, 0, measure->n_layers * sizeof(double));
}

static void add_head(head_sums *sums, const es_head_stats *stats, int64_t rows)
{
    int64_t finite = rows - stats->nonfinite_rows;
    if (finite > 0) {
        sums->entropy += (double)finite * stats->entropy;
        sums->sink += (double)finite * stats->sink;
        sums->missing += (double)finite * stats->missing;
        sums->finite_rows += finite;
    }
    sums->nonfinite_rows += stats->nonfinite_rows;
    sums->nonfinite_weights += stats->nonfinite_weights;
    /* fmin and fmax pass over a NaN: there, nothing finite was seen. */
    sums->entropy_min = fmin(sums->entropy_min, stats->entropy_min);
    sums->entropy_max = fmax(sums->entropy_max, stats->entropy_max);
    sums->max_logit = fmax(sums->max_logit, stats->max_logit);
}

/* They are the same in every micro-batch of a step. */
static void keep_parameters(es_measure *measure, es_model *model)
{
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++)
        if (es_parameter_series_exists(&measure->config,
                                       (es_parameter_series)i))
            es_parameter_series_read(
                measure->parameters + (size_t)i * measure->n_heads, model,
                (es_parameter_series)i, measure->scratch);
}

void es_measure_add(es_measure *measure, es_model *model)
{
    if (measure->n_batches == 0)
        keep_parameters(measure, model);
    es_model_head_stats(model, measure->stats);
    es_model_activation_stats(model, measure->batch_nan, measure->batch_rms);
    for (size_t h = 0; h < measure->n_heads; h++)
        add_head(&measure->heads[h], &measure->stats[h], measure->rows_of_head);
    for (size_t l = 0; l < measure->n_layers; l++) {
        double rms = measure->batch_rms[l];
        measure->nan_sum[l] += measure->batch_nan[l];
        measure->square_sum[l] += rms * rms;
    }
    measure->n_batches++;
}

int es_measure_n_batches(const es_measure *measure)
{
    return measure->n_batches;
}

static double head_value(const head_sums *sums, es_head_series series)
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
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->out[h] = (float)head_value(&measure->heads[h], series);
    return measure->out;
}

const float *es_measure_layers(es_measure *measure, es_layer_series series)
{
    for (size_t l = 0; l < measure->n_layers; l++)
        measure->out[l] =
            (float)(series == ES_LAYER_NAN_ACTIVATIONS
                        ? measure->nan_sum[l]
                        : sqrt(measure->square_sum[l] / measure->n_batches));
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
        if (measure->nan_sum[l] > 0)
            return (int)l;
    return -1;
}
