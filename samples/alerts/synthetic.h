/**
 * Synthetic histories of the heads of a training run, made to be hard to judge.
 * Their true labels are known from the way they are made. `make alerts` and the
 * tests compare these labels with the flags.
 *
 * Levels are entropies as fractions of the ceiling ln(T!)/T. Healthy heads have
 * the levels of the published healthy models. Collapsed heads are below 0.035,
 * as in the published collapsed model. No head is between 0.035 and 0.055,
 * because its label would be unclear. A dip lasts at most two samples if it is
 * in a third of the layers, or one sample if it is in all layers; an upward
 * burst lasts at most seven samples.
 */
#ifndef ES_SAMPLES_SYNTHETIC_H
#define ES_SAMPLES_SYNTHETIC_H

#include "analyzer/flags/flags.h"
#include "store/writer.h"

/** The true labels of a history. */
typedef struct es_truth {
    bool nan;             /* some value is NaN or infinite */
    bool collapse;        /* at least half of the heads of a layer collapse */
    bool collapse_stands; /* the collapse lasts until the end */
    bool overload;        /* at least half of the heads have a high entropy at
                             the end */
    bool logits;          /* a logit is above 1000 at the end */
} es_truth;

/** A synthetic history with all its series. */
typedef struct es_synthetic {
    const char *kind;
    es_judge_run run;
    es_truth truth;
    size_t n_samples, n_entropy; /* n_entropy is L * H, or L if a sample has
                                    only layer means */
    int64_t *steps;              /* (n_samples) */
    float *entropy;              /* (n_samples,n_entropy) nats */
    float *max_logit;            /* (n_samples,L,H) */
    float *nonfinite_rows;       /* (n_samples,L,H) */
    float *nan_activations;      /* (n_samples,L) */
    float *loss;                 /* (n_samples) */
} es_synthetic;

#define ES_SYNTHETIC_N_KINDS 47

/** Makes history number `index` of a seed. The same arguments always give the
 *  same history. The history's kind is index modulo ES_SYNTHETIC_N_KINDS. The
 *  caller owns the result. Returns NULL if memory is short. */
es_synthetic *es_synthetic_new(uint64_t seed, size_t index);

void es_synthetic_free(es_synthetic *history); /* accepts NULL */

/** Adds the history to a file as a finished run, without series of counts that
 *  are all zero. Returns the writer's status. */
es_status es_synthetic_write(es_writer *writer, const es_synthetic *history,
                             const char *name) ES_MUST_USE;

/** Returns true if the history is healthy: a flag of severity error or above
 * would be a false alarm. */
bool es_truth_is_healthy(const es_truth *truth);

#endif
