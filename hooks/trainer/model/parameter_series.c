#include "hooks/trainer/model/parameter_series.h"

#include "analyzer/base/value.h"
#include "hooks/trainer/model/model_internal.h"

const char *const es_parameter_series_names[ES_N_PARAMETER_SERIES] = {
    [ES_PARAMETER_THETA] = "theta", [ES_PARAMETER_T_MEAN] = "t_mean",
    [ES_PARAMETER_T_MIN] = "t_min", [ES_PARAMETER_T_MAX] = "t_max",
    [ES_PARAMETER_ALPHA] = "alpha", [ES_PARAMETER_BETA] = "beta",
    [ES_PARAMETER_SLOPE] = "slope",
};

/* spec/model.md, section 3: t is used as max(t, 1e-4). */
static const float least_temperature = 1e-4f;

bool es_parameter_series_exists(const es_model_config *config,
                                es_parameter_series series)
{
    const es_arch *arch = &config->arch;
    switch (series) {
    case ES_PARAMETER_THETA:
        return arch->entropy_reg;
    case ES_PARAMETER_T_MEAN:
    case ES_PARAMETER_T_MIN:
    case ES_PARAMETER_T_MAX:
        return arch->temperature;
    case ES_PARAMETER_ALPHA:
    case ES_PARAMETER_BETA:
        return arch->ffn != ES_FFN_TWO;
    case ES_PARAMETER_SLOPE:
        return arch->activation == ES_ACT_LEAKY &&
               arch->slope_kind != ES_SLOPE_FIXED;
    case ES_N_PARAMETER_SERIES:
        break;
    }
    return false;
}

size_t es_parameter_series_length(const es_model_config *config,
                                  es_parameter_series series)
{
    const size_t n_layers = (size_t)config->n_layer;
    return series < ES_PARAMETER_ALPHA ? n_layers * (size_t)config->n_head
                                       : n_layers;
}

static es_role role_of(const es_model_config *config,
                       es_parameter_series series)
{
    switch (series) {
    case ES_PARAMETER_THETA:
        return ES_ROLE_THETA;
    case ES_PARAMETER_ALPHA:
        return ES_ROLE_ALPHA;
    case ES_PARAMETER_BETA:
        return ES_ROLE_BETA;
    case ES_PARAMETER_SLOPE:
        return config->arch.slope_kind == ES_SLOPE_GLOBAL ? ES_ROLE_GLOBAL_SLOPE
                                                          : ES_ROLE_SLOPE;
    default:
        return ES_ROLE_T;
    }
}

/* What training made of it must not read as "not measured". */
static float plain(float value)
{
    return isnan(value) ? NAN : value;
}

/* The head's temperatures t (T) in one number. */
static float summarise(const float *t, int n, es_parameter_series series)
{
    double sum = 0;
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (isnan(t[i]))
            return NAN;
        float used = t[i] < least_temperature ? least_temperature : t[i];
        sum += (double)used;
        low = used < low ? used : low;
        high = used > high ? used : high;
    }
    if (series == ES_PARAMETER_T_MEAN)
        return (float)(sum / n);
    return series == ES_PARAMETER_T_MIN ? low : high;
}

/* One layer's values out of the parameter's n. */
static void reduce(float *out, const float *from, size_t n,
                   const es_model_config *config, es_parameter_series series)
{
    const bool is_temperature =
        series >= ES_PARAMETER_T_MEAN && series <= ES_PARAMETER_T_MAX;
    if (is_temperature)
        for (int h = 0; h < config->n_head; h++)
            out[h] = summarise(from + h * config->ctx, config->ctx, series);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = plain(from[i]);
}

void es_parameter_series_read(float *out, es_model *model,
                              es_parameter_series series, float *scratch)
{
    const es_model_config *config = &model->config;
    const es_role role = role_of(config, series);
    const size_t each =
        es_parameter_series_length(config, series) / (size_t)config->n_layer;
    for (int layer = 0; layer < config->n_layer; layer++, out += each) {
        const es_param *param = es_params_find(
            &model->params, role == ES_ROLE_GLOBAL_SLOPE ? -1 : layer, role);
        for (size_t i = 0; !param && i < each; i++)
            out[i] = es_missing();
        if (!param)
            continue;
        /* Its own length: that cannot fail. */
        es_model_get(model, (size_t)(param - model->params.table), scratch,
                     param->n);
        reduce(out, scratch, param->n, config, series);
    }
}
