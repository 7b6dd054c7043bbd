/* Copies the few parameters that are series into the report, and reads them
 * there as samples. */
#include "hooks/trainer/model/parameter_series.h"

#include "analyzer/base/value.h"
#include "hooks/trainer/model/model_internal.h"

#include <math.h>
#include <string.h>

const char *const es_parameter_series_names[ES_N_PARAMETER_SERIES] = {
    [ES_PARAMETER_THETA] = "theta",     [ES_PARAMETER_T_MEAN] = "t_mean",
    [ES_PARAMETER_T_MIN] = "t_min",     [ES_PARAMETER_T_MAX] = "t_max",
    [ES_PARAMETER_QK_CLIP] = "qk_clip", [ES_PARAMETER_ALPHA] = "alpha",
    [ES_PARAMETER_BETA] = "beta",       [ES_PARAMETER_SLOPE] = "slope",
};

bool es_parameter_series_exists(const es_model_config *config,
                                es_parameter_series series)
{
    const es_arch *arch = &config->arch;
    const bool scaled = arch->ffn != ES_FFN_TWO;
    const bool exists[ES_N_PARAMETER_SERIES] = {
        [ES_PARAMETER_THETA] = arch->entropy_reg,
        [ES_PARAMETER_T_MEAN] = arch->temperature,
        [ES_PARAMETER_T_MIN] = arch->temperature,
        [ES_PARAMETER_T_MAX] = arch->temperature,
        [ES_PARAMETER_QK_CLIP] = arch->clip > 0 && !config->forward_only,
        [ES_PARAMETER_ALPHA] = scaled,
        [ES_PARAMETER_BETA] = scaled,
        [ES_PARAMETER_SLOPE] = arch->activation == ES_ACT_LEAKY &&
                               arch->slope_kind != ES_SLOPE_FIXED};
    return exists[series];
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
    static const es_role roles[ES_N_PARAMETER_SERIES] = {
        [ES_PARAMETER_THETA] = ES_ROLE_THETA,
        [ES_PARAMETER_T_MEAN] = ES_ROLE_LOG_T,
        [ES_PARAMETER_T_MIN] = ES_ROLE_LOG_T,
        [ES_PARAMETER_T_MAX] = ES_ROLE_LOG_T,
        [ES_PARAMETER_ALPHA] = ES_ROLE_ALPHA,
        [ES_PARAMETER_BETA] = ES_ROLE_BETA,
        [ES_PARAMETER_SLOPE] = ES_ROLE_SLOPE};
    const bool is_shared = config->arch.slope_kind == ES_SLOPE_GLOBAL;
    return series == ES_PARAMETER_SLOPE && is_shared ? ES_ROLE_GLOBAL_SLOPE
                                                     : roles[series];
}

/* What training made of it must not read as "not measured". */
static float plain(float value)
{
    return isnan(value) ? NAN : value;
}

/* The head's temperatures, from their logarithms (T), in one number. */
static float summarise(const float *log_t, int n, es_parameter_series series)
{
    double sum = 0;
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        const float t = expf(log_t[i]);
        if (isnan(t))
            return NAN;
        sum += (double)t;
        low = t < low ? t : low;
        high = t > high ? t : high;
    }
    if (series == ES_PARAMETER_T_MEAN)
        return (float)(sum / n);
    return series == ES_PARAMETER_T_MIN ? low : high;
}

/* --- in the report ------------------------------------------------------ */

/* One for each parameter that series are made of. */
static const es_parameter_series sources[] = {
    ES_PARAMETER_THETA, ES_PARAMETER_T_MEAN, ES_PARAMETER_ALPHA,
    ES_PARAMETER_BETA, ES_PARAMETER_SLOPE};
#define N_SOURCES (sizeof sources / sizeof *sources)

/* Numbers of one layer. */
static size_t source_size(const es_model_config *config, es_role role)
{
    const size_t n_head = (size_t)config->n_head;
    if (role == ES_ROLE_LOG_T)
        return n_head * (size_t)config->ctx;
    return role == ES_ROLE_THETA ? n_head : 1;
}

/* Where the numbers of source i begin; of N_SOURCES: where all end. */
static size_t source_at(const es_model_config *config, size_t i)
{
    size_t at = 0;
    for (size_t k = 0; k < i; k++)
        if (es_parameter_series_exists(config, sources[k]))
            at += source_size(config, role_of(config, sources[k])) *
                  (size_t)config->n_layer;
    return at;
}

static size_t source_of(const es_model_config *config,
                        es_parameter_series series)
{
    size_t i = 0;
    while (role_of(config, sources[i]) != role_of(config, series))
        i++;
    return i;
}

/* The layer's, or the model's; NULL: its FFN is removed. */
static es_mem *value_of(const es_model *model, int layer, es_role role)
{
    return es_model_value(model, role == ES_ROLE_GLOBAL_SLOPE ? -1 : layer,
                          role);
}

size_t es_model_n_reported(const es_model *model)
{
    return source_at(&model->config, N_SOURCES);
}

void es_model_report_parameters(const es_model *model)
{
    const es_model_config *config = &model->config;
    if (es_model_n_reported(model) == 0 ||
        es_model_replays(model, ES_SEQUENCE_PARAMETERS))
        return;
    for (size_t i = 0; i < N_SOURCES; i++) {
        const es_role role = role_of(config, sources[i]);
        const size_t each = source_size(config, role);
        const int rows = role == ES_ROLE_LOG_T ? config->n_head : 1;
        const es_columns all = {
            .n_in = rows, .stride = (int)each / rows, .n = (int)each / rows};
        const float *to = model->report.parameters + source_at(config, i);
        if (!es_parameter_series_exists(config, sources[i]))
            continue;
        for (int layer = 0; layer < config->n_layer; layer++, to += each) {
            const es_mem *from = value_of(model, layer, role);
            if (from)
                model->ops->copy_columns(model->backend,
                                         es_model_reported(model, to), from,
                                         &all, false);
        }
    }
    es_model_launch(model);
}

/* --- as series ---------------------------------------------------------- */

void es_parameter_series_read(float *out, const es_model *model,
                              es_parameter_series series)
{
    const es_model_config *config = &model->config;
    if (series == ES_PARAMETER_QK_CLIP) {
        memcpy(out, model->report.factors,
               es_parameter_series_length(config, series) * sizeof *out);
        return;
    }
    const es_role role = role_of(config, series);
    const size_t each = source_size(config, role);
    const float *from =
        model->report.parameters + source_at(config, source_of(config, series));
    for (int layer = 0; layer < config->n_layer; layer++, from += each) {
        const bool is_there = value_of(model, layer, role);
        if (role == ES_ROLE_LOG_T)
            for (int h = 0; h < config->n_head; h++)
                *out++ = summarise(from + h * config->ctx, config->ctx, series);
        else
            for (size_t i = 0; i < each; i++)
                *out++ = is_there ? plain(from[i]) : es_missing();
    }
}
