/** Declarations shared by the files of the forecast. */
#ifndef ES_FORECAST_INTERNAL_H
#define ES_FORECAST_INTERNAL_H

#include "analyzer/flags/forecast.h"

/**
 * The trend of the values of a series over the steps. All zero is the state
 * before the first sample.
 */
typedef struct es_trend {
    uint32_t n;
    int64_t begin, end;  /* steps of the first and the newest sample */
    double least;        /* smallest level of the trend so far */
    double weight, x, y; /* sum of the samples' weights; weighted means of
                            step and value */
    double xx, xy;       /* weighted sums of products of deviations from
                            these means */
    double noise;        /* mean distance of a value from its expected value */
} es_trend;

/** Adds a sample at a step after `end`; y is finite. */
void es_trend_add(es_trend *trend, int64_t step, double y);

/**
 * Returns the regression line's value at its newest step; NaN before the first
 * sample.
 */
double es_trend_level(const es_trend *trend);

/** Returns the slope per step; 0 before the third sample. */
double es_trend_slope(const es_trend *trend);

/**
 * The quantities whose trends are followed: logarithms, and shares of heads.
 */
typedef enum es_forecast_signal {
    ES_SIGNAL_LOGIT,   /* ln of 1 + the largest max_logit in a layer */
    ES_SIGNAL_ENTROPY, /* ln of a layer's mean entropy / ceiling */
    ES_SIGNAL_TYPICAL, /* mean over a layer's heads of ln of entropy /
                          ceiling */
    ES_SIGNAL_LEAST,   /* ln of the smallest entropy in a layer / ceiling */
    ES_SIGNAL_LOW,     /* share of a layer's heads below ceiling / 4 */
    ES_SIGNAL_ACT,     /* ln of act_rms of a layer */
    ES_N_LAYER_SIGNALS,
    ES_SIGNAL_LOSS = ES_N_LAYER_SIGNALS, /* ln loss */
    ES_SIGNAL_GRAD,                      /* ln of grad_norm */
    ES_SIGNAL_LR,                        /* ln lr */
    ES_N_SIGNALS
} es_forecast_signal;

typedef struct es_layer_trends {
    es_trend of[ES_N_LAYER_SIGNALS];
} es_layer_trends;

struct es_forecast {
    es_judge_run run;
    size_t n_layers, n_heads;
    double ceiling; /* in nats; the largest mean so far if the ceiling is
                       unknown */
    int64_t begin, step;
    bool begun;
    es_trend of_run[ES_N_SIGNALS - ES_N_LAYER_SIGNALS];
    es_layer_trends layers[]; /* (L) */
};

/**
 * Returns the value of a feature. Sets *layer to the layer that the value comes
 * from, or to -1.
 */
double es_forecast_feature(int *layer, const es_forecast *forecast,
                           size_t feature);

/** Returns the trend of a signal in a layer, or in the run. */
const es_trend *es_forecast_trend(const es_forecast *forecast,
                                  es_forecast_signal signal, int layer);

/**
 * Returns the signal that a feature is computed from; ES_N_SIGNALS if there is
 * none.
 */
es_forecast_signal es_forecast_signal_of(size_t feature);

#endif
