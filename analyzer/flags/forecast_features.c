/* Computes trends in constant memory and the features of the forecast's model.
   A table lists the features; each is a measure of one signal, reduced to the
   extreme over all layers. The model in forecast.c and the program that fits it
   both use this code. */
#include "analyzer/flags/forecast_internal.h"

#include <math.h>

/* --- a trend --------------------------------------------------------------*/

#define SHORTEST 8 /* the memory of a trend is at least this many samples */

/* Returns the factor by which the weights of older samples shrink. About the
   newest quarter of all samples determines a trend. */
static double decay(uint32_t n)
{
    double memory = n / 4.0;
    return 1 - 1 / (memory > SHORTEST ? memory : SHORTEST);
}

double es_trend_slope(const es_trend *trend)
{
    return trend->n > 2 && trend->xx > 0 ? trend->xy / trend->xx : 0;
}

static double line_at(const es_trend *trend, double step)
{
    return trend->y + es_trend_slope(trend) * (step - trend->x);
}

double es_trend_level(const es_trend *trend)
{
    return trend->n ? line_at(trend, (double)trend->end) : (double)NAN;
}

void es_trend_add(es_trend *trend, int64_t step, double y)
{
    const double x = (double)step, d = decay(trend->n);
    if (trend->n == 0) {
        *trend = (es_trend){.begin = step, .least = y, .x = x, .y = y};
    } else {
        const double expected = line_at(trend, x), far = 4 * trend->noise;
        double off = y - expected;
        if (trend->n >= SHORTEST && fabs(off) > far)
            y = expected + copysign(far + 1e-3, off);
        trend->noise =
            d * trend->noise + (1 - d) * fmin(fabs(off), 2 * far + 1);
    }
    const double kept = d * trend->weight, weight = kept + 1;
    const double dx = x - trend->x, dy = y - trend->y;
    trend->xx = d * trend->xx + kept / weight * dx * dx;
    trend->xy = d * trend->xy + kept / weight * dx * dy;
    trend->x += dx / weight;
    trend->y += dy / weight;
    trend->weight = weight;
    trend->end = step;
    trend->n += trend->n < UINT32_MAX;
    trend->least = fmin(trend->least, es_trend_level(trend));
}

/* --- features -------------------------------------------------------------*/

#define HORIZON 50 /* steps */
#define YOUTH 64   /* steps; the risk does not fall after them */

typedef enum measure {
    LEVEL,
    GROWTH, /* slope times the number of steps since the first sample: d ln y
               / d ln t */
    AHEAD,  /* level extrapolated by 50 steps, or by the length of a shorter
               run */
    RISE,   /* rise of the level above its smallest value so far */
    NOISE,
    REMAINING, /* remaining share of the planned steps; 1/2 if unknown */
    ELAPSED    /* ln of the number of steps so far, at most 64 */
} measure;

typedef struct feature_row {
    const char *name;
    es_forecast_signal signal;
    measure measure;
    int sign; /* which layer counts: 1 the largest, -1 the smallest value */
} feature_row;

static const feature_row rows[ES_N_FORECAST_FEATURES] = {
    {"logit", ES_SIGNAL_LOGIT, LEVEL, 1},
    {"logit_growth", ES_SIGNAL_LOGIT, GROWTH, 1},
    {"logit_ahead", ES_SIGNAL_LOGIT, AHEAD, 1},
    {"logit_noise", ES_SIGNAL_LOGIT, NOISE, 1},
    {"entropy", ES_SIGNAL_ENTROPY, LEVEL, -1},
    {"entropy_growth", ES_SIGNAL_ENTROPY, GROWTH, -1},
    {"entropy_ahead", ES_SIGNAL_ENTROPY, AHEAD, -1},
    {"entropy_noise", ES_SIGNAL_ENTROPY, NOISE, 1},
    {"typical", ES_SIGNAL_TYPICAL, LEVEL, -1},
    {"typical_ahead", ES_SIGNAL_TYPICAL, AHEAD, -1},
    {"least", ES_SIGNAL_LEAST, LEVEL, -1},
    {"least_ahead", ES_SIGNAL_LEAST, AHEAD, -1},
    {"low_heads", ES_SIGNAL_LOW, LEVEL, 1},
    {"low_heads_ahead", ES_SIGNAL_LOW, AHEAD, 1},
    {"act", ES_SIGNAL_ACT, LEVEL, 1},
    {"act_growth", ES_SIGNAL_ACT, GROWTH, 1},
    {"act_ahead", ES_SIGNAL_ACT, AHEAD, 1},
    {"loss", ES_SIGNAL_LOSS, LEVEL, 1},
    {"loss_growth", ES_SIGNAL_LOSS, GROWTH, 1},
    {"loss_rise", ES_SIGNAL_LOSS, RISE, 1},
    {"loss_noise", ES_SIGNAL_LOSS, NOISE, 1},
    {"grad", ES_SIGNAL_GRAD, LEVEL, 1},
    {"grad_growth", ES_SIGNAL_GRAD, GROWTH, 1},
    {"grad_ahead", ES_SIGNAL_GRAD, AHEAD, 1},
    {"grad_noise", ES_SIGNAL_GRAD, NOISE, 1},
    {"lr", ES_SIGNAL_LR, LEVEL, 1},
    {"remaining", ES_N_SIGNALS, REMAINING, 1},
    {"elapsed", ES_N_SIGNALS, ELAPSED, 1},
};

const char *es_forecast_feature_name(size_t feature)
{
    return rows[feature].name;
}

es_forecast_signal es_forecast_signal_of(size_t feature)
{
    return rows[feature].signal;
}

const es_trend *es_forecast_trend(const es_forecast *forecast,
                                  es_forecast_signal signal, int layer)
{
    return signal < ES_N_LAYER_SIGNALS
               ? &forecast->layers[layer].of[signal]
               : &forecast->of_run[signal - ES_N_LAYER_SIGNALS];
}

static double clamp(double x, double most)
{
    return fmin(fmax(x, -most), most);
}

static double of_trend(const es_trend *trend, measure what)
{
    if (trend->n == 0)
        return NAN;
    switch (what) {
    case GROWTH:
        return clamp(
            es_trend_slope(trend) * (double)(trend->end - trend->begin), 8);
    case AHEAD:
        return clamp(
            line_at(trend,
                    (double)trend->end +
                        fmin((double)(trend->end - trend->begin), HORIZON)),
            16);
    case RISE:
        return es_trend_level(trend) - trend->least;
    case NOISE:
        return log(trend->noise + 1e-4);
    default:
        return clamp(es_trend_level(trend), 16);
    }
}

static double of_steps(const es_forecast *forecast, measure what)
{
    const double planned = (double)forecast->run.planned_steps;
    if (what == ELAPSED)
        return log1p(fmin((double)(forecast->step - forecast->begin), YOUTH));
    return planned > 0 ? clamp(1 - (double)forecast->step / planned, 1) : 0.5;
}

double es_forecast_feature(int *layer, const es_forecast *forecast,
                           size_t feature)
{
    const feature_row *row = &rows[feature];
    double extreme = NAN;
    *layer = -1;
    if (row->signal == ES_N_SIGNALS)
        return of_steps(forecast, row->measure);
    if (row->signal >= ES_N_LAYER_SIGNALS)
        return of_trend(es_forecast_trend(forecast, row->signal, 0),
                        row->measure);
    for (size_t l = 0; l < forecast->n_layers; l++) {
        double x = of_trend(&forecast->layers[l].of[row->signal], row->measure);
        if (isnan(x) || row->sign * x <= row->sign * extreme)
            continue;
        extreme = x;
        *layer = (int)l;
    }
    return extreme;
}

void es_forecast_features(double *out, const es_forecast *forecast)
{
    int layer;
    for (size_t i = 0; i < ES_N_FORECAST_FEATURES; i++)
        out[i] = es_forecast_feature(&layer, forecast, i);
}
