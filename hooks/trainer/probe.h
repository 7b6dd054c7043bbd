/** Measures the attention heads of an existing model: runs held-out data
 *  forward without training. */
#ifndef ES_PROBE_H
#define ES_PROBE_H

#include "hooks/trainer/start.h"
#include "hooks/trainer/train.h"

/** Mean and standard deviation of a value over the micro-batches. */
typedef struct es_probe_spread {
    double mean;
    double deviation; /* NaN for a single micro-batch */
} es_probe_spread;

/** Results of one layer. Entropies are in nats, means over batch and
 *  queries. */
typedef struct es_probe_layer {
    es_probe_spread entropy; /* mean over the heads with a finite entropy */
    /* lowest and highest entropy of a head; NaN if no entropy is finite */
    double lowest, highest;
    /* Other series of the heads, each reduced to one value: the maximum, the
     * sum of counts, or the mean over heads with a finite value; NaN if no head
     * has a finite value. */
    double series[ES_N_HEAD_SERIES];
    int nonfinite; /* number of heads without a finite entropy */
} es_probe_layer;

/** Results of one polynomial of the model; see
 *  hooks/trainer/model/polynomial.h. */
typedef struct es_probe_site {
    int layer; /* layer of the polynomial; n_layers for the last norm */
    es_site place;
    es_approximated kind;
    es_findings found;
    es_polynomial polynomial;
} es_probe_site;

typedef struct es_probe_result {
    int64_t n_batches; /* number of completed micro-batches; less than requested
                          if the probe was stopped */
    es_start start;
    es_probe_spread ce; /* cross-entropy in nats */
    double accuracy;    /* share of images or tokens predicted correctly */
    int n_layers;
    es_probe_layer *layers; /* (n_layers + 1) one element per layer, then one
                               for the whole model */
    /* The next members are set with --inference polynomial only; the members
     * above then describe the evaluation with polynomials. */
    es_probe_spread exact; /* cross-entropy of exact inference */
    es_probe_site *sites;  /* (n_sites) */
    size_t n_sites;        /* number of polynomials; 0 for exact inference */
    int *levels; /* (n_layers + 1) number of multiplicative levels of encryption
                    that each layer needs, then the number for the whole
                    model */
    es_settings settings; /* given settings, completed by the settings of the
                             loaded model */
    es_status recorded;   /* ES_OK if the run file is complete */
    char lost[ES_MESSAGE_MAX];
} es_probe_result;

/**
 * Probes the model in settings->init with settings->eval_batches micro-batches
 * of the data's held-out part: the micro-batches of a training run's evaluation
 * or, with settings->random, micro-batches from random positions that depend on
 * the seed. Records loss, heads and layers at `step`, phase eval, in the file
 * settings->out, or does not record if settings->out is "". With more than one
 * micro-batch, also records the standard deviations entropy_std and ce_std.
 *
 *   watch  callbacks, of which on_warning and should_stop are called; may be
 *          NULL
 *
 * Returns ES_OK (see the result), or a status of es_start_settings,
 * es_trainer_new, es_start_load or es_train_record_open. The result must be
 * freed in every case.
 */
es_status es_probe(es_probe_result *result, const es_settings *settings,
                   const es_train_watch *watch) ES_MUST_USE;
void es_probe_free(es_probe_result *result);

/** Prints the result as a table. */
void es_probe_print(FILE *out, const es_probe_result *result);

#endif
