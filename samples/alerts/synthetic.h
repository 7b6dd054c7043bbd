/**
 * Synthetic histories of a training's heads, made to be nasty to judge and
 * labelled by how they were made: what is known of them is known from the
 * making, not from any rule. `make alerts` and the tests judge them.
 *
 * Levels are fractions of the ceiling ln(T!)/T. Healthy heads lie where those
 * of the published healthy models do; a collapsed head lies below 0.035, as
 * those of the published collapsed one; between 0.035 and 0.055 there are
 * none, for nobody could say what they are. A dip is at most two samples of a
 * third of the layers, or one of all; a burst upwards at most seven samples.
 */
#ifndef ES_SAMPLES_SYNTHETIC_H
#define ES_SAMPLES_SYNTHETIC_H

#include "analyzer/flags/flags.h"
#include "store/writer.h"

/** What is wrong, as it was made. */
typedef struct es_truth {
    bool nan;             /* something is NaN or infinite */
    bool collapse;        /* at least half of the heads of a layer died */
    bool collapse_stands; /* and did not recover */
    bool overload;        /* at least half of the heads, at the end */
    bool logits;          /* above 1000 at the end */
} es_truth;

/** All series are there. */
typedef struct es_synthetic {
    const char *kind;
    es_judge_run run;
    es_truth truth;
    size_t n_samples, n_entropy; /* values a step: L*H, or L means of layers */
    int64_t *steps;              /* (n_samples) */
    float *entropy;              /* (n_samples,n_entropy) nats */
    float *max_logit;            /* (n_samples,L,H) */
    float *nonfinite_rows;       /* (n_samples,L,H) */
    float *nan_activations;      /* (n_samples,L) */
    float *loss;                 /* (n_samples) */
} es_synthetic;

#define ES_SYNTHETIC_N_KINDS 47

/** History `index` of a seed; its kind is index modulo the kinds. The same on
 *  every call; owned by the caller. NULL: out of memory. */
es_synthetic *es_synthetic_new(uint64_t seed, size_t index);

void es_synthetic_free(es_synthetic *history); /* NULL is fine */

/** Adds it as a finished run to a file; counts that are all zero are left out.
 *  What the writer returns. */
es_status es_synthetic_write(es_writer *writer, const es_synthetic *history,
                             const char *name) ES_MUST_USE;

/** Nothing of severity error or above is right to say of it. */
bool es_truth_is_healthy(const es_truth *truth);

#endif
