/** The heads of an existing model: held-out data forward, nothing trained. */
#ifndef ES_PROBE_H
#define ES_PROBE_H

#include "hooks/trainer/start.h"
#include "hooks/trainer/train.h"

/** A number over the micro-batches. */
typedef struct es_probe_spread {
    double mean;
    double deviation; /* standard deviation of one batch's; NaN of one batch */
} es_probe_spread;

/** Entropies in nats, means over batch and queries. */
typedef struct es_probe_layer {
    es_probe_spread entropy; /* mean over the heads with a finite entropy */
    double lowest, highest;  /* head; NaN if no head's is finite */
    /* All heads', as their rows are reduced: the largest, the sum of counts,
       or the mean over heads with a finite one; NaN likewise. */
    double series[ES_N_HEAD_SERIES];
    int nonfinite; /* heads that have no finite entropy */
} es_probe_layer;

/** A polynomial of the model: hooks/trainer/model/polynomial.h. */
typedef struct es_probe_site {
    int layer; /* n_layers: the last norm */
    es_site place;
    es_approximated kind;
    es_findings found;
    es_polynomial polynomial;
} es_probe_site;

typedef struct es_probe_result {
    int64_t n_batches; /* done: fewer than requested after a stop */
    es_start start;
    es_probe_spread ce; /* cross-entropy in nats */
    double accuracy;    /* of images */
    int n_layers;
    es_probe_layer *layers; /* (n_layers), then one of the whole model */
    /* Of --inference polynomial, whose are all the others then. */
    es_probe_spread exact; /* cross-entropy of exact inference */
    es_probe_site *sites;  /* (n_sites) */
    size_t n_sites;        /* 0: inference is exact */
    int *levels;           /* (n_layers), then the model's */
    es_settings settings;  /* resolved */
    es_status recorded;    /* as in es_train_result */
    char lost[ES_MESSAGE_MAX];
} es_probe_result;

/**
 * Probes the model in settings->init with settings->eval_batches micro-batches
 * of the data's held-out part: those of a training's evaluation, or, with
 * settings->random, at places drawn from the seed. Records loss, heads and
 * layers at `step`, phase eval, to settings->out unless it is ""; of more than
 * one batch also entropy_std and ce_std, the deviations.
 *
 *   watch  its on_warning and should_stop are called; NULL: none
 *
 * ES_OK: see the result. Otherwise as es_start_settings, es_trainer_new,
 * es_start_load and es_train_record_open. Free the result in every case.
 */
es_status es_probe(es_probe_result *result, const es_settings *settings,
                   const es_train_watch *watch) ES_MUST_USE;
void es_probe_free(es_probe_result *result);

/** The result as a table for people. */
void es_probe_print(FILE *out, const es_probe_result *result);

#endif
