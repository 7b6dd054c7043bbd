/** Measures the heads of an existing model: runs held-out data forward without
 *  training. */
#ifndef ES_PROBE_H
#define ES_PROBE_H

#include "hooks/trainer/start.h"
#include "hooks/trainer/train.h"

/** Mean and standard deviation of a number over the micro-batches. */
typedef struct es_probe_spread {
    double mean;
    double deviation; /* standard deviation over the batches; NaN for a single
                         batch */
} es_probe_spread;

/** Entropies in nats, means over batch and queries. */
typedef struct es_probe_layer {
    es_probe_spread entropy; /* mean over heads with a finite entropy */
    double lowest, highest;  /* of its heads; NaN if all are non-finite */
    /* Series of all heads, reduced like their rows: the largest value, the sum
     * of counts, or the mean over heads with a finite value; NaN if no head has
     * one. */
    double series[ES_N_HEAD_SERIES];
    int nonfinite; /* number of heads without a finite entropy */
} es_probe_layer;

/** One polynomial of the model: see hooks/trainer/model/polynomial.h. */
typedef struct es_probe_site {
    int layer; /* its layer; n_layers for the last norm */
    es_site place;
    es_approximated kind;
    es_findings found;
    es_polynomial polynomial;
} es_probe_site;

typedef struct es_probe_result {
    int64_t n_batches; /* completed; fewer than requested after a stop */
    es_start start;
    es_probe_spread ce; /* cross-entropy in nats */
    double accuracy;    /* accuracy on images */
    int n_layers;
    es_probe_layer *layers; /* (n_layers), then a row for the whole model */
    /* For --inference polynomial, to which all other members then refer. */
    es_probe_spread exact; /* cross-entropy of exact inference */
    es_probe_site *sites;  /* (n_sites) */
    size_t n_sites;        /* 0 for exact inference */
    int *levels;           /* (n_layers) levels, then the model's */
    es_settings settings;  /* resolved: includes the model's own */
    es_status recorded;    /* as in es_train_result */
    char lost[ES_MESSAGE_MAX];
} es_probe_result;

/**
 * Probes the model in settings->init with settings->eval_batches micro-batches
 * of the data's held-out part: those of a training's evaluation or, with
 * settings->random, at places drawn from the seed. Records loss, heads and
 * layers at `step`, phase eval, to settings->out unless it is ""; with more
 * than one batch also the deviations entropy_std and ce_std.
 *
 *   watch  its on_warning and should_stop are called; may be NULL
 *
 * Returns ES_OK (see the result), or a status of es_start_settings,
 * es_trainer_new, es_start_load or es_train_record_open. Free the result in
 * every case.
 */
es_status es_probe(es_probe_result *result, const es_settings *settings,
                   const es_train_watch *watch) ES_MUST_USE;
void es_probe_free(es_probe_result *result);

/** Prints the result as a table. */
void es_probe_print(FILE *out, const es_probe_result *result);

#endif
