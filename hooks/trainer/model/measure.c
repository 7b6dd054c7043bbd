/* Adds up the statistics that the passes of a step or an evaluation report, and
 * converts the sums to samples. */
#include "hooks/trainer/model/measure.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "hooks/trainer/model/model_internal.h"
#include "hooks/trainer/model/ranges.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const es_layer_series_names[ES_N_LAYER_SERIES] = {
    [ES_LAYER_NAN_ACTIVATIONS] = "nan_activations",
    [ES_LAYER_ACT_RMS] = "act_rms",
};

struct es_measure {
    /* n_heads = L * H is the number of heads in the whole model */
    size_t n_layers, n_heads;
    double n_activations; /* number of activations per layer and micro-batch */
    int n_batches;
    es_head_sums *heads;   /* (L,H) */
    es_layer_sums *layers; /* (L) */
    float *out;            /* buffer (L,H) for the result of es_measure_heads */
    es_model_config config;
    float *parameters; /* values of the recorded series of parameters;
                        * (series,L*H) */
    float *members;    /* individual values of temperatures and gains;
                        * (n_members,L*H) */
    size_t n_members;
    bool has_members;
    es_head_details *head_details;   /* (L,H) */
    es_layer_details *layer_details; /* (L) */
    es_detail_sums details;          /* sum of the details added so far */
    float *ranges; /* (ES_N_RANGES,L) largest |input| of the layer's attention,
                    * activation and norms, over all added passes */
    bool has_range[ES_N_RANGES];
    /* Findings (ranges and errors) for each operation that a polynomial
     * replaces; NULL if inference is exact. */
    es_findings *findings;
    bool has_findings;
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
    measure->n_members = es_parameter_n_members(config);
    if ((status = es_alloc(&measure->heads, heads, sizeof *measure->heads,
                           "heads")) < 0 ||
        (status = es_alloc(&measure->layers, layers, sizeof *measure->layers,
                           "layers")) < 0 ||
        (status = es_alloc(&measure->out, heads, sizeof *measure->out,
                           "heads")) < 0 ||
        (status = es_alloc(&measure->parameters, ES_N_PARAMETER_SERIES * heads,
                           sizeof *measure->parameters, "parameters")) < 0 ||
        (status = es_alloc(&measure->members, measure->n_members * heads,
                           sizeof *measure->members, "parameters")) < 0 ||
        (status = es_alloc(&measure->head_details, heads,
                           sizeof *measure->head_details, "heads")) < 0 ||
        (status = es_alloc(&measure->layer_details, layers,
                           sizeof *measure->layer_details, "layers")) < 0 ||
        (status = es_alloc(&measure->ranges, ES_N_RANGES * layers,
                           sizeof *measure->ranges, "layers")) < 0 ||
        (config->inference != ES_INFERENCE_EXACT &&
         (status = es_alloc(&measure->findings, es_model_n_sites(config),
                            sizeof *measure->findings, "polynomials")) < 0)) {
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
    free(measure->members);
    free(measure->head_details);
    free(measure->layer_details);
    free(measure->ranges);
    free(measure->findings);
    free(measure);
}

void es_measure_reset(es_measure *measure)
{
    measure->n_batches = 0;
    measure->has_members = false;
    for (size_t h = 0; h < measure->n_heads; h++)
        measure->heads[h] = es_head_sums_start();
    memset(measure->layers, 0, measure->n_layers * sizeof *measure->layers);
    measure->details = (es_detail_sums){.heads = NULL};
    memset(measure->has_range, 0, sizeof measure->has_range);
    measure->has_findings = false;
}

/* Raises each layer's stored range to the model's range if that is larger. Once
 * a range is NaN or missing, it remains NaN or missing. */
static void add_ranges(es_measure *measure, const es_model *model)
{
    for (int r = 0; r < ES_N_RANGES; r++) {
        float *to = measure->ranges + (size_t)r * measure->n_layers;
        if (!es_model_has_range(model, (es_range_kind)r))
            continue;
        for (size_t l = 0; l < measure->n_layers; l++) {
            const float x = es_model_range(model, (es_range_kind)r, (int)l);
            if (!measure->has_range[r] || isnan(x) || x > to[l])
                to[l] = x;
        }
        measure->has_range[r] = true;
    }
}

static void add_findings(es_measure *measure, const es_findings *more)
{
    for (size_t i = 0; more && i < es_model_n_sites(&measure->config); i++)
        if (measure->has_findings)
            es_findings_merge(&measure->findings[i], &more[i]);
        else
            measure->findings[i] = more[i];
    measure->has_findings = measure->has_findings || more;
}

/* Adds details. The details of weights and of the step are taken from the first
 * call and ignored in later calls. */
static void add_details(es_measure *measure, const es_detail_sums *more)
{
    if (!more->heads)
        return;
    if (measure->n_batches == 0) {
        memcpy(measure->head_details, more->heads,
               measure->n_heads * sizeof *more->heads);
        memcpy(measure->layer_details, more->layers,
               measure->n_layers * sizeof *more->layers);
        measure->details = *more;
        return;
    }
    for (size_t h = 0; h < measure->n_heads; h++)
        es_head_details_add(&measure->head_details[h], &more->heads[h]);
    for (size_t l = 0; l < measure->n_layers; l++)
        es_layer_details_add(&measure->layer_details[l], &more->layers[l]);
}

void es_measure_add(es_measure *measure, const es_model *model)
{
    const es_report *report = &model->report;
    const es_detail_sums details = es_model_details(model);
    add_details(measure, &details);
    add_ranges(measure, model);
    if (measure->findings)
        add_findings(measure, es_model_findings(model));
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++) {
        const es_parameter_series series = (es_parameter_series)i;
        if (measure->n_batches == 0 &&
            es_parameter_series_exists(&measure->config, series))
            es_parameter_series_read(measure->parameters +
                                         (size_t)i * measure->n_heads,
                                     model, series);
    }
    if (measure->n_batches == 0 && details.has_inputs &&
        measure->n_members > 0) {
        es_parameter_members_read(measure->members, model);
        measure->has_members = true;
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

const float *es_measure_members(const es_measure *measure)
{
    return measure->has_members ? measure->members : NULL;
}

/* --- details -------------------------------------------------------------- */

bool es_measure_has_detail(const es_measure *measure, es_detail detail)
{
    const es_detail_sums *have = &measure->details;
    if (es_details[detail].source == ES_DETAIL_RANGE)
        return measure->has_range[detail - ES_DETAIL_RANGE_ATTN];
    if (es_details[detail].source == ES_DETAIL_POLYNOMIAL)
        return measure->has_findings;
    const bool has[] = {[ES_DETAIL_FORWARD] = true,
                        [ES_DETAIL_INPUTS] = have->has_inputs,
                        [ES_DETAIL_WEIGHTS] = have->has_weights,
                        [ES_DETAIL_STEP] = have->has_step,
                        [ES_DETAIL_UPDATE] = have->has_update};
    return have->heads && has[es_details[detail].source];
}

static double head_detail(const es_measure *measure, size_t head,
                          es_detail detail)
{
    const es_head_details *of = &measure->head_details[head];
    const double n_rows = (double)measure->config.batch * measure->config.ctx *
                          measure->n_batches;
    switch (detail) {
    case ES_DETAIL_ENTROPY_P05:
    case ES_DETAIL_ENTROPY_P50:
    case ES_DETAIL_ENTROPY_P95:
        return of->quantiles[detail - ES_DETAIL_ENTROPY_P05] / of->n_quantiles;
    case ES_DETAIL_Q_RMS:
    case ES_DETAIL_K_RMS:
    case ES_DETAIL_V_RMS:
        return sqrt(of->squares[detail - ES_DETAIL_Q_RMS] / n_rows);
    case ES_DETAIL_HEAD_GRAD_NORM:
        return sqrt(of->gradient[0] + of->gradient[1] + of->gradient[2] +
                    of->gradient[3]);
    case ES_DETAIL_QK_SIGMA:
        return sqrt(of->spectrum[0]);
    default:
        return of->spectrum[1] / of->spectrum[0];
    }
}

/* Returns the kurtosis: fourth central moment over the square of the variance;
 * NaN if the variance is negligible relative to the mean square. */
static double kurtosis(const double sums[4], double n)
{
    const double mean = sums[0] / n, square = sums[1] / n;
    const double variance = square - mean * mean;
    const double fourth = sums[3] / n - 4 * mean * (sums[2] / n) +
                          6 * mean * mean * square -
                          3 * mean * mean * mean * mean;
    return variance > 1e-12 * square ? fourth / (variance * variance)
                                     : (double)NAN;
}

static double layer_detail(const es_measure *measure, size_t layer,
                           es_detail detail)
{
    const es_layer_details *of = &measure->layer_details[layer];
    const double n = measure->n_activations * measure->n_batches;
    switch (detail) {
    case ES_DETAIL_ACT_MAX:
        return isfinite(of->sums[3]) ? of->largest : (double)NAN;
    case ES_DETAIL_ACT_KURTOSIS:
        return kurtosis(of->sums, n);
    case ES_DETAIL_FFN_RATIO:
        return sqrt(of->ffn[0] / of->ffn[1]);
    case ES_DETAIL_LAYER_GRAD_NORM:
        return sqrt(of->gradient);
    case ES_DETAIL_UPDATE_RATIO:
        return sqrt(of->update[0] / of->update[1]);
    default:
        return detail < ES_DETAIL_G_Q ? of->sigma[detail - ES_DETAIL_SIGMA_Q]
                                      : sqrt(of->g[detail - ES_DETAIL_G_Q]);
    }
}

/* Computes a detail, such as the largest error, from all polynomials in the
 * layer that approximate the kind of function to which the detail belongs.
 * Returns es_missing() if the layer has no such polynomial. */
static float polynomial_detail(const es_measure *measure, size_t layer,
                               es_detail detail)
{
    const es_model_config *config = &measure->config;
    const size_t end = (layer + 1) * ES_N_SITES;
    const bool is_last = end + 1 == es_model_n_sites(config);
    es_findings all = es_findings_start();
    for (size_t i = layer * ES_N_SITES; i < end + is_last; i++)
        if (es_site_kind(config, i) == es_detail_approximated(detail))
            es_findings_merge(&all, &measure->findings[i]);
    return all.n == 0                             ? es_missing()
           : detail < ES_DETAIL_APPROX_ERROR_ATTN ? (float)all.n_outside
           : isnan(all.error)                     ? NAN
                                                  : (float)all.error;
}

const float *es_measure_detail(es_measure *measure, es_detail detail)
{
    const es_model_config *config = &measure->config;
    const bool of_heads = es_detail_is_of_heads(detail);
    const size_t n = of_heads ? measure->n_heads : measure->n_layers;
    if (es_details[detail].source == ES_DETAIL_RANGE)
        return measure->ranges +
               (size_t)(detail - ES_DETAIL_RANGE_ATTN) * measure->n_layers;
    if (es_details[detail].source == ES_DETAIL_POLYNOMIAL) {
        for (size_t i = 0; i < n; i++)
            measure->out[i] = polynomial_detail(measure, i, detail);
        return measure->out;
    }
    for (size_t i = 0; i < n; i++) {
        const float value =
            (float)(of_heads ? head_detail(measure, i, detail)
                             : layer_detail(measure, i, detail));
        const bool is_there =
            of_heads || es_detail_is_of_layer(config, detail, (int)i);
        measure->out[i] = !is_there ? es_missing() : isnan(value) ? NAN : value;
    }
    return measure->out;
}

const es_findings *es_measure_findings(const es_measure *measure)
{
    return measure->has_findings ? measure->findings : NULL;
}

int es_measure_first_nan_layer(const es_measure *measure)
{
    for (size_t l = 0; l < measure->n_layers; l++)
        if (measure->layers[l].nonfinite > 0)
            return (int)l;
    return -1;
}
