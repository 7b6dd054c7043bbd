/**
 * Forecasts whether a run will end in a collapse or NaN. A logistic model of a
 * few trends gives a probability at each step, long before a flag is raised,
 * and an explanation in words. The code in samples/forecast fits the model;
 * samples/results/forecast.md reports its accuracy.
 */
#ifndef ES_FORECAST_H
#define ES_FORECAST_H

#include "analyzer/flags/rules.h"

/**
 * The series that the forecast uses. All are optional, but without both entropy
 * and max_logit the probability is NaN.
 */
typedef enum es_forecast_input {
    ES_FORECAST_ENTROPY,   /* (L,H) entropies in nats, or (L) means of layers */
    ES_FORECAST_MAX_LOGIT, /* (L,H) */
    ES_FORECAST_ACT_RMS,   /* (L) */
    ES_FORECAST_LOSS,      /* (1) */
    ES_FORECAST_GRAD_NORM, /* (1) */
    ES_FORECAST_LR,        /* (1) */
    ES_N_FORECAST_INPUTS
} es_forecast_input;

const char *es_forecast_input_name(es_forecast_input input); /* "max_logit" */

/**
 * Number of samples of a series that are needed before a probability is given.
 */
#define ES_FORECAST_SAMPLES 4

/** Name of the series of probabilities, for rules. */
#define ES_FORECAST_SERIES "forecast"

/**
 * Creates the rule "forecast", a warning if the probability reaches a threshold
 * from the fit. One healthy run in twenty gets the warning; one in a hundred if
 * `action` is to stop the run, because the threshold is then higher.
 */
void es_forecast_rule(es_rule *out, es_rule_action action);

typedef struct es_forecast es_forecast;

/**
 * Returns the number of bytes of workspace, which depends only on L; 0 if a
 * size is < 1 or the total overflows.
 */
size_t es_forecast_size(const es_judge_run *run);

/**
 * Creates a forecast inside `workspace`, which has es_forecast_size(run) bytes,
 * is aligned for any type and belongs to the caller.
 */
es_forecast *es_forecast_init(void *workspace, const es_judge_run *run);

/**
 * Adds one sample. Values that are missing, NaN or infinite are skipped. A
 * sample is ignored if no value remains, if it has a number of values that the
 * series cannot have, or if its step is not after the newest step of the
 * series.
 *
 * The trend of each series is a linear regression of its logarithm on the step,
 * in constant memory; a sample's weight falls with its age relative to the
 * length of the run. An outlier counts as a value at four times the usual
 * distance, so that a spike does not become a trend.
 */
void es_forecast_push(es_forecast *forecast, es_forecast_input input,
                      int64_t step, const float *values, size_t n);

/**
 * Returns the probability, given the samples so far, that the run ends in a
 * collapse or NaN. The probability is calibrated on the training runs that the
 * model was fitted to. NaN if there are too few samples.
 */
double es_forecast_probability(const es_forecast *forecast);

#define ES_N_FORECAST_FEATURES 28

/** Returns the name of a feature, such as "logit_growth". */
const char *es_forecast_feature_name(size_t feature);

/** Computes the features of the model, out (28); unknown features are NaN. */
void es_forecast_features(double *out, const es_forecast *forecast);

#define ES_FORECAST_TEXT_MAX 160

/**
 * Writes the trend that raises the probability most and its expected
 * consequence: "max logit of layer 9 doubles every 14 steps; collapse expected
 * near step 240". "" if nothing raises the probability.
 */
void es_forecast_explain(char out[ES_FORECAST_TEXT_MAX],
                         const es_forecast *forecast);

#endif
