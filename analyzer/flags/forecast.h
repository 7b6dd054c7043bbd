/**
 * Is a run on its way into a collapse or NaN? A logistic model of a few trends
 * gives a probability at each step, long before a flag has anything to say,
 * and words for what it goes by. Fitted by samples/forecast; how well it does
 * is in samples/results/forecast.md.
 */
#ifndef ES_FORECAST_H
#define ES_FORECAST_H

#include "analyzer/flags/rules.h"

/** The series that it goes by. None is needed; without entropy and max_logit
 *  nothing is said. */
typedef enum es_forecast_input {
    ES_FORECAST_ENTROPY,   /* (L,H) nats, or (L) means of layers */
    ES_FORECAST_MAX_LOGIT, /* (L,H) */
    ES_FORECAST_ACT_RMS,   /* (L) */
    ES_FORECAST_LOSS,      /* (1) */
    ES_FORECAST_GRAD_NORM, /* (1) */
    ES_FORECAST_LR,        /* (1) */
    ES_N_FORECAST_INPUTS
} es_forecast_input;

const char *es_forecast_input_name(es_forecast_input input); /* "max_logit" */

/** Samples of a series before anything is said. */
#define ES_FORECAST_SAMPLES 4

/** The series' name of the probability, for rules. */
#define ES_FORECAST_SERIES "forecast"

/** The rule "forecast", a warning: the probability at or above a threshold of
 *  the fit. One healthy run of twenty is warned of, one of a hundred where the
 *  action is to stop it. */
void es_forecast_rule(es_rule *out, es_rule_action action);

typedef struct es_forecast es_forecast;

/** Bytes of workspace, which depend on L alone; 0 if the sizes overflow or are
 *  < 1. */
size_t es_forecast_size(const es_judge_run *run);

/** Makes a forecast inside `workspace` (es_forecast_size(run) bytes, aligned
 *  for any type, the caller's). */
es_forecast *es_forecast_init(void *workspace, const es_judge_run *run);

/**
 * One sample. What is missing, NaN or infinite is no value; a sample without
 * any, of a size that the series cannot have, or of a step that is not after
 * the series' newest one is ignored.
 *
 * Each series is followed by a regression of its logarithm on the step, in
 * constant memory: a sample's weight falls as its age grows in proportion to
 * how long the run has lasted. One far off counts as one four times the usual
 * distance off, so that a spike is no trend.
 */
void es_forecast_push(es_forecast *forecast, es_forecast_input input,
                      int64_t step, const float *values, size_t n);

/** Of the samples so far: that the run ends in a collapse or NaN, as often as
 *  it did in the trainings that the model was fitted to. NaN: too little is
 *  known. */
double es_forecast_probability(const es_forecast *forecast);

#define ES_N_FORECAST_FEATURES 28

/** "logit_growth". */
const char *es_forecast_feature_name(size_t feature);

/** What the model is made of, out (28); NaN: not known. */
void es_forecast_features(double *out, const es_forecast *forecast);

#define ES_FORECAST_TEXT_MAX 160

/**
 * The reason in words, of what raises the probability most, and what follows
 * if it goes on: "max logit of layer 9 doubles every 14 steps; collapse
 * expected near step 240". "" where nothing raises it.
 */
void es_forecast_explain(char out[ES_FORECAST_TEXT_MAX],
                         const es_forecast *forecast);

#endif
