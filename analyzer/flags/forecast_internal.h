/** What the files of the forecast share. */
#ifndef ES_FORECAST_INTERNAL_H
#define ES_FORECAST_INTERNAL_H

#include "analyzer/flags/forecast.h"

/** A series' values followed over the steps. All zero: nothing seen yet. */
typedef struct es_trend {
    uint32_t n;
    int64_t begin, end;  /* the first and the newest step */
    double least;        /* the smallest level */
    double weight, x, y; /* of the samples; their weighted means */
    double xx, xy;       /* and sums of products about these */
    double noise;        /* mean distance from what was expected */
} es_trend;

/** A sample after `end`; y finite. */
void es_trend_add(es_trend *trend, int64_t step, double y);

/** On the line, at its newest step; NaN before the first sample. */
double es_trend_level(const es_trend *trend);

/** Per step; 0 before the third sample. */
double es_trend_slope(const es_trend *trend);

/** What is followed: logarithms, and shares of heads. */
typedef enum es_forecast_signal {
    ES_SIGNAL_LOGIT,   /* ln of 1 + a layer's largest max_logit */
    ES_SIGNAL_ENTROPY, /* ln of a layer's mean entropy / ceiling */
    ES_SIGNAL_TYPICAL, /* mean of ln of a head's entropy / ceiling */
    ES_SIGNAL_LEAST,   /* ln of a layer's least entropy / ceiling */
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
    double ceiling; /* nats; where it is not known the largest mean so far */
    int64_t begin, step;
    bool begun;
    es_trend of_run[ES_N_SIGNALS - ES_N_LAYER_SIGNALS];
    es_layer_trends layers[]; /* (L) */
};

/** One feature: its value; *layer is the one that it is of, or -1. */
double es_forecast_feature(int *layer, const es_forecast *forecast,
                           size_t feature);

/** A signal's trend, of a layer or of the run. */
const es_trend *es_forecast_trend(const es_forecast *forecast,
                                  es_forecast_signal signal, int layer);

/** The signal that a feature is of; ES_N_SIGNALS: none. */
es_forecast_signal es_forecast_signal_of(size_t feature);

#endif
