/* Copies the recorded parameters into the report, and converts them to samples
 * of series. */
#include "hooks/trainer/model/parameter_series.h"

#include "analyzer/base/value.h"
#include "analyzer/heads/details.h"
#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>
#include <stdio.h>
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
    const bool scaled = !arch->no_ffn && (arch->ffn != ES_FFN_TWO ||
                                          config->family == ES_FAMILY_SAS);
    const bool exists[ES_N_PARAMETER_SERIES] = {
        [ES_PARAMETER_THETA] = arch->entropy_reg,
        [ES_PARAMETER_T_MEAN] = arch->temperature,
        [ES_PARAMETER_T_MIN] = arch->temperature,
        [ES_PARAMETER_T_MAX] = arch->temperature,
        [ES_PARAMETER_QK_CLIP] = arch->clip > 0 && !config->forward_only,
        [ES_PARAMETER_ALPHA] = scaled,
        [ES_PARAMETER_BETA] = scaled,
        [ES_PARAMETER_SLOPE] = arch->slope_kind != ES_SLOPE_FIXED};
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
    const es_role role = roles[series];
    if (role == ES_ROLE_LOG_T && config->arch.direct)
        return ES_ROLE_T;
    return role == ES_ROLE_SLOPE && is_shared ? ES_ROLE_GLOBAL_SLOPE : role;
}

static bool is_of_temperatures(es_role role)
{
    return role == ES_ROLE_LOG_T || role == ES_ROLE_T;
}

/* Replaces every NaN by C's constant NAN, because readers could otherwise
 * mistake it for es_missing(), which is a NaN with another bit pattern. */
static float plain_nan(float value)
{
    return isnan(value) ? NAN : value;
}

/* Converts a parameter's value to the value that its series records: a
 * temperature instead of its logarithm, and C's constant NAN instead of any
 * other NaN. */
static float recorded_value(es_role role, float value)
{
    return plain_nan(role == ES_ROLE_LOG_T ? expf(value) : value);
}

/* Computes the value of a series (mean, minimum or maximum of a head's
 * temperatures) from the head's n parameter values. */
static float summarise_temperatures(const float *values, int n, es_role role,
                                    es_parameter_series series)
{
    double sum = 0;
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        const float t = recorded_value(role, values[i]);
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

/* The parameters whose values the report contains, one entry for each kind. The
 * entries for WNorm's g follow these entries. */
static const es_parameter_series sources[] = {
    ES_PARAMETER_THETA, ES_PARAMETER_T_MEAN, ES_PARAMETER_ALPHA,
    ES_PARAMETER_BETA, ES_PARAMETER_SLOPE};
#define N_SINGLE (sizeof sources / sizeof *sources)
#define N_SOURCES (N_SINGLE + ES_N_NORMED)

typedef struct source {
    es_role role; /* role of the parameter; 0 in entries for WNorm's gain g,
                     whose role differs between layers */
    int normed;   /* number of the matrix that g normalises (see
                     es_model_normed); -1 in entries for other parameters */
    bool exists, is_whole;
    size_t n; /* number of floats per layer, in the layer that has the most */
} source;

static source source_of_g(const es_model_config *config, int i)
{
    source out = {.normed = i, .n = 0};
    for (int layer = 0; layer < config->n_layer; layer++) {
        const es_normed of = es_model_normed(&config->arch, layer, i);
        const int width = of.matrix == ES_MATRIX_FC ? config->mlp_mult : 1;
        const size_t n = (size_t)width * (size_t)config->d_model;
        if (!es_model_has_weight_norm(config, layer, i))
            continue;
        out.exists = out.is_whole = config->record >= ES_SERIES_ALL;
        out.n = n > out.n ? n : out.n;
    }
    return out;
}

static source source_of(const es_model_config *config, size_t i)
{
    if (i >= N_SINGLE)
        return source_of_g(config, (int)(i - N_SINGLE));
    const size_t n_head = (size_t)config->n_head;
    const es_role role = role_of(config, sources[i]);
    const bool has_rows = is_of_temperatures(role);
    return (source){.role = role,
                    .normed = -1,
                    .exists = es_parameter_series_exists(config, sources[i]),
                    .is_whole = has_rows && config->record >= ES_SERIES_ALL,
                    .n = has_rows                ? n_head * (size_t)config->ctx
                         : role == ES_ROLE_THETA ? n_head
                                                 : 1};
}

/* Returns the offset at which the report stores the values of entry i of
 * `sources`. For i = N_SOURCES, returns the total size of all values. */
static size_t source_at(const es_model_config *config, size_t i)
{
    size_t at = 0;
    for (size_t k = 0; k < i; k++) {
        const source from = source_of(config, k);
        at += from.exists ? from.n * (size_t)config->n_layer : 0;
    }
    return at;
}

/* Returns the parameter of the layer, or of the model if the parameter belongs
 * to no layer. Sets *n to the parameter's number of floats, which is at most
 * of->n. Returns NULL if the layer lacks the part to which the parameter
 * belongs. */
static es_mem *value_of(const es_model *model, int layer, const source *of,
                        size_t *n)
{
    const es_arch *arch = &model->config.arch;
    *n = of->n;
    if (of->normed < 0 && of->role != ES_ROLE_GLOBAL_SLOPE)
        return es_model_value(model, layer, of->role);
    if (of->normed < 0)
        return es_arch_parts(arch, layer).slope_kind == ES_SLOPE_GLOBAL
                   ? es_model_value(model, -1, of->role)
                   : NULL;
    if (!es_model_has_weight_norm(&model->config, layer, of->normed))
        return NULL;
    const es_normed normed = es_model_normed(arch, layer, of->normed);
    const es_param *g = es_params_find(&model->params, layer, normed.g);
    *n = normed.matrix == ES_MATRIX_ATTN ? g->n / 3 : g->n;
    return es_mem_at(es_model_value(model, layer, normed.g),
                     (size_t)normed.part * *n * sizeof(float));
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
        const source of = source_of(config, i);
        const int rows = is_of_temperatures(of.role) ? config->n_head : 1;
        const float *to = model->report.parameters + source_at(config, i);
        if (!of.exists)
            continue;
        for (int layer = 0; layer < config->n_layer; layer++, to += of.n) {
            size_t n;
            es_mem *from = value_of(model, layer, &of, &n);
            const int width = (int)n / rows;
            const es_columns all = {.n_in = rows, .stride = width, .n = width};
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
    size_t number = 0;
    while (role_of(config, sources[number]) != role)
        number++;
    const source of = source_of(config, number);
    const size_t each = of.n;
    size_t n;
    const float *from = model->report.parameters + source_at(config, number);
    for (int layer = 0; layer < config->n_layer; layer++, from += each) {
        const bool is_there = value_of(model, layer, &of, &n);
        if (is_of_temperatures(role))
            for (int h = 0; h < config->n_head; h++)
                *out++ = summarise_temperatures(from + h * config->ctx,
                                                config->ctx, role, series);
        else
            for (size_t i = 0; i < each; i++)
                *out++ = is_there ? plain_nan(from[i]) : es_missing();
    }
}

/* --- individual values --------------------------------------------------- */

static size_t members_of(const es_model_config *config, size_t i)
{
    const source of = source_of(config, i);
    return of.exists && of.is_whole ? of.n / (size_t)config->n_head : 0;
}

size_t es_parameter_n_members(const es_model_config *config)
{
    size_t n = 0;
    for (size_t i = 0; i < N_SOURCES; i++)
        n += members_of(config, i);
    return n <= ES_PARAMETER_MEMBERS_MAX ? n : 0;
}

void es_parameter_member_name(char out[ES_PARAMETER_MEMBER_SIZE],
                              const es_model_config *config, size_t member)
{
    size_t i = 0;
    for (size_t n; (n = members_of(config, i)) <= member; i++)
        member -= n;
    snprintf(out, ES_PARAMETER_MEMBER_SIZE, "%s.%zu",
             i < N_SINGLE ? "t" : es_details[ES_DETAIL_G_Q + i - N_SINGLE].name,
             member);
}

void es_parameter_members_read(float *out, const es_model *model)
{
    const es_model_config *config = &model->config;
    const size_t n_head = (size_t)config->n_head;
    for (size_t i = 0; i < N_SOURCES; i++) {
        const source of = source_of(config, i);
        const size_t n = members_of(config, i);
        for (size_t k = 0; k < n; k++) {
            const float *from =
                model->report.parameters + source_at(config, i) + k;
            for (int layer = 0; layer < config->n_layer; layer++, from += of.n)
                for (size_t h = 0; h < n_head; h++) {
                    size_t n_here;
                    const bool has = value_of(model, layer, &of, &n_here);
                    n_here /= n_head;
                    *out++ = has && k < n_here
                                 ? recorded_value(of.role, from[h * n_here])
                                 : es_missing();
                }
        }
    }
}
