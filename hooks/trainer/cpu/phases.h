/** Measures the time that each kind of operation takes in a training step. */
#ifndef ES_CPU_PHASES_H
#define ES_CPU_PHASES_H

#include "hooks/trainer/model/ops.h"

typedef enum es_cpu_phase {
    ES_CPU_PRODUCTS, /* matrix products with biases and activations */
    ES_CPU_ATTENTION,
    ES_CPU_NORMS,   /* LayerNorm; weights of WNorm and SNorm */
    ES_CPU_LOSS,    /* cross-entropy, without the product with the vocabulary */
    ES_CPU_PENALTY, /* entropy penalty and measurements */
    ES_CPU_EMBEDDING,
    ES_CPU_UPDATE,  /* gradient norm and AdamW */
    ES_CPU_ZEROING, /* zeroing of gradients */
    ES_CPU_OTHER,   /* rotation, scaled residuals, copies */
    ES_CPU_WAITING, /* waiting for other threads; part of all the above */
    ES_N_CPU_PHASES
} es_cpu_phase;

extern const char *const es_cpu_phase_names[ES_N_CPU_PHASES];

/**
 * Copies `ops`, the CPU back-end's operations, which must stay valid, and times
 * each operation that takes noticeable time, at a cost of about 50 ns per call.
 * A process may use only one such table at a time, with one model.
 */
void es_cpu_phases_wrap(es_ops *out, const es_ops *ops);

/** Writes to seconds (ES_N_CPU_PHASES) the time of each phase since the last
 *  call or es_cpu_phases_wrap. */
void es_cpu_phases_take(double *seconds);

#endif
