/* Finds the largest inputs in the forward pass (the ranges that polynomials
 * must cover), adds the gradients of range losses, and sums the losses. */
#include "hooks/trainer/model/ranges.h"

#include "analyzer/base/value.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>

/* The kind of range to which the input of each operation (es_peak_place)
 * belongs. */
static const es_range_kind ranges[] = {[ES_PEAK_ATTN] = ES_RANGE_ATTN,
                                       [ES_PEAK_ACT] = ES_RANGE_ACT,
                                       [ES_PEAK_NORM_1] = ES_RANGE_NORM,
                                       [ES_PEAK_NORM_2] = ES_RANGE_NORM};

size_t es_model_n_peaks(const es_model *model)
{
    /* one more element, for the last norm */
    return (size_t)model->config.n_layer * ES_N_PEAKS + 1;
}

static es_peak *peak_of(const es_model *model, int layer, es_peak_place place)
{
    const int at = layer < 0 ? model->config.n_layer * ES_N_PEAKS
                             : layer * ES_N_PEAKS + (int)place;
    return &model->report.peaks[at];
}

bool es_model_has_range(const es_model *model, es_range_kind range)
{
    const es_model_config *config = &model->config;
    return model->ops->find_peak && es_model_config_has_input(config, range) &&
           (es_model_config_is_ranged(config) ||
            config->inference == ES_INFERENCE_POLYNOMIAL ||
            config->record >= ES_SERIES_STANDARD);
}

/* Returns true if the current pass must find ranges of this kind. */
static bool is_sought(const es_model *model, es_range_kind range)
{
    return es_model_has_range(model, range) &&
           (model->report.measured || model->config.range_weight[range] > 0);
}

es_mem *es_model_sought_peak(const es_model *model, int layer,
                             es_peak_place place)
{
    return is_sought(model, ranges[place])
               ? es_model_reported(model, peak_of(model, layer, place))
               : NULL;
}

void es_model_find_peak(const es_model *model, int layer, es_peak_place place,
                        const es_mem *x, size_t n)
{
    es_mem *const peak = es_model_sought_peak(model, layer, place);
    if (peak)
        model->ops->find_peak(model->backend, peak, x, n);
}

void es_model_find_score_peak(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    const es_attention attention = es_model_attention(model, layer);
    const es_sight sight = {.all = es_model_traits(model)->sees_all,
                            .tokens = es_model_padded(model),
                            .padding = model->config.padding};
    if (is_sought(model, ES_RANGE_ATTN))
        model->ops->find_score_peak(
            model->backend,
            es_model_reported(model, peak_of(model, layer, ES_PEAK_ATTN)),
            at->qkv, at->saved, &attention, &sight);
}

/* --- backward ------------------------------------------------------------- */

static const es_mem *find_control(const es_model *model)
{
    return es_model_reported(model, &model->report.tally->control);
}

void es_model_pull_peak(const es_model *model, int layer, es_peak_place place,
                        es_mem *dx)
{
    const double weight = model->config.range_weight[ranges[place]];
    if (weight > 0)
        model->ops->pull_peak(
            model->backend, dx,
            es_model_reported(model, peak_of(model, layer, place)),
            (float)(weight * model->gradient_scale), find_control(model));
}

void es_model_pull_score_peak(const es_model *model, int layer, es_mem *dqkv)
{
    const double weight = model->config.range_weight[ES_RANGE_ATTN];
    const es_attention attention = es_model_attention(model, layer);
    if (weight > 0)
        model->ops->pull_score_peak(
            model->backend, dqkv, model->layers[layer].qkv,
            es_model_reported(model, peak_of(model, layer, ES_PEAK_ATTN)),
            &attention, (float)(weight * model->gradient_scale),
            find_control(model));
}

/* --- results ------------------------------------------------------------- */

double es_model_range_loss(const es_model *model)
{
    const es_model_config *config = &model->config;
    double sum = 0;
    for (size_t i = 0; i < es_model_n_peaks(model); i++) {
        const size_t place = i % ES_N_PEAKS;
        const es_range_kind range = i / ES_N_PEAKS < (size_t)config->n_layer
                                        ? ranges[place]
                                        : ES_RANGE_NORM;
        if (config->range_weight[range] > 0)
            sum += config->range_weight[range] * model->report.peaks[i].sum;
    }
    return sum / model->report.n_passes;
}

/* Returns the larger of two numbers, or NaN if either is NaN. */
static float larger_or_nan(float x, float y)
{
    return isnan(x) || x > y ? x : y;
}

/* Returns the largest input of an operation. If it is NaN, returns the ordinary
 * NaN, which differs from es_missing(). */
static float largest_of(const es_model *model, int layer, es_peak_place place)
{
    const float x = peak_of(model, layer, place)->largest;
    return isnan(x) ? NAN : x;
}

float es_model_range(const es_model *model, es_range_kind range, int layer)
{
    const bool has_ffn = es_model_has_ffn(model, layer);
    const bool is_last = layer == model->config.n_layer - 1;
    if (range == ES_RANGE_ATTN)
        return largest_of(model, layer, ES_PEAK_ATTN);
    if (range == ES_RANGE_ACT)
        return has_ffn && es_model_act(model, layer).kind != ES_ACT_LINEAR
                   ? largest_of(model, layer, ES_PEAK_ACT)
                   : es_missing();
    const bool has_norm = es_model_value(model, layer, ES_ROLE_LN_1_WEIGHT);
    const bool ends = is_last && es_model_config_final_norm(&model->config);
    const float own = larger_or_nan(largest_of(model, layer, ES_PEAK_NORM_1),
                                    largest_of(model, layer, ES_PEAK_NORM_2));
    if (!has_norm && !ends)
        return es_missing();
    return ends ? larger_or_nan(own, largest_of(model, -1, ES_PEAK_NORM_1))
                : own;
}
