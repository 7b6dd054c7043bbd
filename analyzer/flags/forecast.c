/* Computes the forecast of forecast.h. Splits samples into trends of layers and
   of the run, weighs their features by the coefficients of a logistic model,
   and explains which feature contributes most. Nothing is allocated. */
#include "analyzer/flags/forecast.h"
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/flags/forecast_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST 1e-6 /* smallest argument of a logarithm */

static const char *const input_names[ES_N_FORECAST_INPUTS] = {
    [ES_FORECAST_ENTROPY] = "entropy",
    [ES_FORECAST_MAX_LOGIT] = "max_logit",
    [ES_FORECAST_ACT_RMS] = "act_rms",
    [ES_FORECAST_LOSS] = "loss",
    [ES_FORECAST_GRAD_NORM] = "grad_norm",
    [ES_FORECAST_LR] = "lr",
};

const char *es_forecast_input_name(es_forecast_input input)
{
    return input_names[input];
}

size_t es_forecast_size(const es_judge_run *run)
{
    size_t size;
    if (run->n_layers < 1 || run->n_heads < 1 ||
        !es_size_mul(&size, (size_t)run->n_layers, sizeof(es_layer_trends)) ||
        !es_size_add(&size, size, sizeof(es_forecast)))
        return 0;
    return size;
}

es_forecast *es_forecast_init(void *workspace, const es_judge_run *run)
{
    es_forecast *forecast = workspace;
    memset(workspace, 0, es_forecast_size(run));
    forecast->run = *run;
    forecast->n_layers = (size_t)run->n_layers;
    forecast->n_heads = (size_t)run->n_heads;
    forecast->ceiling = es_judge_run_ceiling(run);
    return forecast;
}

/* --- samples --------------------------------------------------------------*/

/* Summary of the finite values of a row. */
typedef struct row_measure {
    size_t n;
    double sum, least, largest;
} row_measure;

static row_measure measure(const float *x, size_t n)
{
    row_measure found = {.least = INFINITY, .largest = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        found.n++;
        found.sum += x[i];
        found.least = fmin(found.least, x[i]);
        found.largest = fmax(found.largest, x[i]);
    }
    return found;
}

static void add(es_forecast *forecast, es_forecast_signal signal, size_t layer,
                int64_t step, double y)
{
    es_trend *trend = signal < ES_N_LAYER_SIGNALS
                          ? &forecast->layers[layer].of[signal]
                          : &forecast->of_run[signal - ES_N_LAYER_SIGNALS];
    if (trend->n > 0 && step <= trend->end)
        return;
    es_trend_add(trend, step, y);
    if (!forecast->begun)
        forecast->begin = step;
    if (!forecast->begun || step > forecast->step)
        forecast->step = step;
    forecast->begun = true;
}

static double ln(double x)
{
    return log(fmax(x, LEAST));
}

/* Returns the ceiling of the run. If it is unknown, returns the largest mean so
   far, because heads start near the ceiling. */
static double entropy_scale(es_forecast *forecast, const float *values,
                            size_t n_columns)
{
    if (isfinite(es_judge_run_ceiling(&forecast->run)))
        return forecast->ceiling;
    for (size_t l = 0; l < forecast->n_layers; l++) {
        row_measure row = measure(values + l * n_columns, n_columns);
        if (row.n > 0)
            forecast->ceiling =
                fmax(forecast->ceiling, row.sum / (double)row.n);
    }
    return forecast->ceiling;
}

static void push_entropy(es_forecast *forecast, int64_t step,
                         const float *values, size_t n_columns)
{
    const es_judge_run *run = &forecast->run;
    const double common = entropy_scale(forecast, values, n_columns);
    for (size_t l = 0; l < forecast->n_layers; l++) {
        const double scale =
            run->ceilings ? es_judge_run_layer_ceiling(run, l) : common;
        const float *x = values + l * n_columns;
        const row_measure row = measure(x, n_columns);
        size_t n_low = 0;
        double logarithms = 0;
        if (row.n == 0 || !(scale > 0))
            continue;
        for (size_t h = 0; h < n_columns; h++) {
            n_low += isfinite(x[h]) && x[h] < scale / 4;
            logarithms += isfinite(x[h]) ? ln(x[h] / scale) : 0;
        }
        add(forecast, ES_SIGNAL_ENTROPY, l, step,
            ln(row.sum / (double)row.n / scale));
        add(forecast, ES_SIGNAL_TYPICAL, l, step, logarithms / (double)row.n);
        add(forecast, ES_SIGNAL_LEAST, l, step, ln(row.least / scale));
        add(forecast, ES_SIGNAL_LOW, l, step, (double)n_low / (double)row.n);
    }
}

static void push_layers(es_forecast *forecast, es_forecast_signal signal,
                        int64_t step, const float *values, size_t n_columns)
{
    for (size_t l = 0; l < forecast->n_layers; l++) {
        const row_measure row = measure(values + l * n_columns, n_columns);
        if (row.n > 0)
            add(forecast, signal, l, step,
                signal == ES_SIGNAL_LOGIT ? log1p(fmax(row.largest, 0))
                                          : ln(row.largest));
    }
}

void es_forecast_push(es_forecast *forecast, es_forecast_input input,
                      int64_t step, const float *values, size_t n)
{
    static const es_forecast_signal signals[ES_N_FORECAST_INPUTS] = {
        [ES_FORECAST_ENTROPY] = ES_SIGNAL_ENTROPY,
        [ES_FORECAST_MAX_LOGIT] = ES_SIGNAL_LOGIT,
        [ES_FORECAST_ACT_RMS] = ES_SIGNAL_ACT,
        [ES_FORECAST_LOSS] = ES_SIGNAL_LOSS,
        [ES_FORECAST_GRAD_NORM] = ES_SIGNAL_GRAD,
        [ES_FORECAST_LR] = ES_SIGNAL_LR,
    };
    const es_forecast_signal signal = signals[input];
    const size_t n_columns = n / forecast->n_layers;
    const bool heads = n == forecast->n_layers * forecast->n_heads;
    const bool layers = n == forecast->n_layers;
    if (signal >= ES_N_LAYER_SIGNALS) {
        if (n == 1 && isfinite(values[0]))
            add(forecast, signal, 0, step, ln(values[0]));
    } else if (signal == ES_SIGNAL_ENTROPY) {
        if (heads || layers)
            push_entropy(forecast, step, values, n_columns);
    } else if (signal == ES_SIGNAL_ACT ? layers : heads) {
        push_layers(forecast, signal, step, values, n_columns);
    }
}

/* --- the model ------------------------------------------------------------*/

/* Effect of a feature on the log odds: (value - mean) / scale * coefficient is
   added to them. */
typedef struct forecast_weight {
    const char *feature;
    double coefficient, mean, scale;
} forecast_weight;

#include "analyzer/flags/forecast_coefficients.inc.h"

#define N_WEIGHTS (sizeof forecast_weights / sizeof *forecast_weights)
#define FAR 4 /* limit of the distance from the mean, in units of `scale` */

void es_forecast_rule(es_rule *out, es_rule_action action)
{
    es_rule_default(out);
    memcpy(out->name, ES_FORECAST_SERIES, sizeof ES_FORECAST_SERIES);
    memcpy(out->series, ES_FORECAST_SERIES, sizeof ES_FORECAST_SERIES);
    out->aggregate = ES_RULE_RUN;
    out->comparison = ES_RULE_AT_LEAST;
    out->action = action;
    out->threshold = action == ES_RULE_STOP ? FORECAST_STOP : FORECAST_WARNING;
    out->samples = action == ES_RULE_STOP ? FORECAST_STOP_SAMPLES
                                          : FORECAST_WARNING_SAMPLES;
}

static size_t find_feature(const char *name)
{
    size_t i = 0;
    while (strcmp(es_forecast_feature_name(i), name) != 0)
        i++;
    return i;
}

/* Returns the amount that a feature adds to the log odds; 0 if the feature is
   unknown, as if it were at its mean. Sets *layer to the layer of the feature.
 */
static double contribution(int *layer, const es_forecast *forecast,
                           const forecast_weight *weight)
{
    double x =
        es_forecast_feature(layer, forecast, find_feature(weight->feature));
    if (isnan(x))
        return 0;
    x = (x - weight->mean) / weight->scale;
    return weight->coefficient * fmin(fmax(x, -FAR), FAR);
}

static bool is_known(const es_forecast *forecast)
{
    for (size_t l = 0; l < forecast->n_layers; l++) {
        const es_trend *of = forecast->layers[l].of;
        if (of[ES_SIGNAL_LOGIT].n >= ES_FORECAST_SAMPLES ||
            of[ES_SIGNAL_ENTROPY].n >= ES_FORECAST_SAMPLES)
            return true;
    }
    return false;
}

double es_forecast_probability(const es_forecast *forecast)
{
    double odds = FORECAST_BIAS;
    int layer;
    if (!is_known(forecast))
        return NAN;
    for (size_t i = 0; i < N_WEIGHTS; i++)
        odds += contribution(&layer, forecast, &forecast_weights[i]);
    return 1 / (1 + exp(-odds));
}

/* --- explanation ---------------------------------------------------------- */

/* Nouns for the explanation. A trend is mentioned if it has changed its value
   by at least a fifth since the run began. */
#define WORTH_A_WORD 0.2

static const char *const nouns[ES_N_SIGNALS] = {
    [ES_SIGNAL_LOGIT] = "max logit",
    [ES_SIGNAL_ENTROPY] = "entropy",
    [ES_SIGNAL_TYPICAL] = "typical entropy",
    [ES_SIGNAL_LEAST] = "least entropy",
    [ES_SIGNAL_LOW] = "share of low heads",
    [ES_SIGNAL_ACT] = "activations",
    [ES_SIGNAL_LOSS] = "loss",
    [ES_SIGNAL_GRAD] = "gradient norm",
    [ES_SIGNAL_LR] = "learning rate",
};

/* Converts the level of a trend, a logarithm or a share, to the value that it
   represents. */
static double value_of(es_forecast_signal signal, double level)
{
    switch (signal) {
    case ES_SIGNAL_LOGIT:
        return expm1(level);
    case ES_SIGNAL_LOW:
        return fmin(fmax(level, 0), 1);
    default:
        return exp(level);
    }
}

static void say_trend(es_text *to, const es_trend *trend,
                      es_forecast_signal signal, int layer)
{
    const double slope = es_trend_slope(trend);
    const double change = slope * (double)(trend->end - trend->begin);
    es_text_append(to, "%s", nouns[signal]);
    if (layer >= 0)
        es_text_append(to, " of layer %d", layer);
    if (signal != ES_SIGNAL_LOW && fabs(change) > WORTH_A_WORD)
        es_text_append(to, " %s every %.0f steps",
                       slope > 0 ? "doubles" : "halves",
                       fmax(log(2) / fabs(slope), 1));
    else
        es_text_append(to, " is %.3g%s",
                       value_of(signal, es_trend_level(trend)),
                       signal >= ES_SIGNAL_ENTROPY && signal <= ES_SIGNAL_LEAST
                           ? " of the ceiling"
                           : "");
}

/* Returns the step at which the entropy of the first layer collapses if its
   trend continues; infinite if no entropy falls. */
static double expected_collapse(const es_forecast *forecast)
{
    es_flag_rules rules;
    double step = INFINITY;
    es_flag_rules_default(&rules);
    for (size_t l = 0; l < forecast->n_layers; l++) {
        const es_trend *trend = &forecast->layers[l].of[ES_SIGNAL_ENTROPY];
        const double slope = es_trend_slope(trend);
        const double left = log(rules.collapse_head) - es_trend_level(trend);
        if (slope < 0 && left < 0)
            step = fmin(step, (double)trend->end + left / slope);
    }
    return step;
}

void es_forecast_explain(char out[ES_FORECAST_TEXT_MAX],
                         const es_forecast *forecast)
{
    es_text to = es_text_begin(out, ES_FORECAST_TEXT_MAX);
    const double elapsed = (double)(forecast->step - forecast->begin);
    const double planned = forecast->run.planned_steps > 0
                               ? (double)forecast->run.planned_steps
                               : (double)forecast->step + 2 * elapsed;
    double most = 0;
    size_t feature = 0;
    int layer = -1;
    for (size_t i = 0; i < N_WEIGHTS; i++) {
        int own;
        const size_t named = find_feature(forecast_weights[i].feature);
        const double x = contribution(&own, forecast, &forecast_weights[i]);
        if (es_forecast_signal_of(named) == ES_N_SIGNALS || !(x > most))
            continue;
        most = x;
        feature = named;
        layer = own;
    }
    if (!(most > 0))
        return;
    const es_forecast_signal signal = es_forecast_signal_of(feature);
    say_trend(&to, es_forecast_trend(forecast, signal, layer), signal, layer);
    const double step = expected_collapse(forecast);
    if (step < planned)
        es_text_append(&to, "; collapse expected near step %.0f", step);
}
