/** Shared by the files of the forecast. */
#ifndef ES_FORECAST_INTERNAL_H
#define ES_FORECAST_INTERNAL_H

#include "analyzer/flags/forecast.h"

/** The trend of a series' values over the steps. All zero: no sample seen. */
typedef struct es_trend {
    uint32_t n;
    int64_t begin, end;  /* steps of the first and the newest sample */
    double least;        /* the smallest level so far */
    double weight, x, y; /* sum of the samples' weights; weighted means */
    double xx, xy;       /* weighted sums of products about these means */
    double noise;        /* mean distance from the expected value */
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

/** The quantities that are followed: logarithms, and shares of heads. */
typedef enum es_forecast_signal {
    ES_SIGNAL_LOGIT,   /* ln of 1 + a layer's largest max_logit */
    ES_SIGNAL_ENTROPY, /* ln of a layer's mean entropy / ceiling */
    ES_SIGNAL_TYPICAL, /* mean of ln of the heads' entropy / ceiling */
    ES_SIGNAL_LEAST,   /* ln of a layer's smallest entropy / ceiling */
    ES_SIGNAL_LOW,     /* share of a layer's heads below ceiling / 4 */
    ES_SIGNAL_ACT,     /* ln of a layer's act_rms */
    ES_N_LAYER_SIGNALS,
    ES_SIGNAL_LOSS = ES_N_LAYER_SIGNALS, /* ln loss */
    ES_SIGNAL_GRAD,                      /* ln grad_norm */
    ES_SIGNAL_LR,                        /* ln lr */
    ES_N_SIGNALS
} es_forecast_signal;

typedef struct es_layer_trends {
    es_trend of[ES_N_LAYER_SIGNALS];
} es_layer_trends;

struct es_forecast {
    es_judge_run run;
    size_t n_layers, n_heads;
    double ceiling; /* nats; the largest mean so far if the ceiling is
                       unknown */
    int64_t begin, step;
    bool begun;
    es_trend of_run[ES_N_SIGNALS - ES_N_LAYER_SIGNALS];
    es_layer_trends layers[]; /* (L) */
};

/**
 * Returns a feature's value. *layer receives the layer that it comes from, or
 * -1.
 */
double es_forecast_feature(int *layer, const es_forecast *forecast,
                           size_t feature);

/** Returns the trend of a signal of a layer, or of the run. */
const es_trend *es_forecast_trend(const es_forecast *forecast,
                                  es_forecast_signal signal, int layer);

/** Returns the signal of a feature; ES_N_SIGNALS if it has none. */
es_forecast_signal es_forecast_signal_of(size_t feature);

#endif
