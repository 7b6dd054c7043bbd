/** Measures the time of a training step by kinds of operations. */
#ifndef ES_CPU_PHASES_H
#define ES_CPU_PHASES_H

#include "hooks/trainer/model/ops.h"

typedef enum es_cpu_phase {
    ES_CPU_PRODUCTS, /* with biases, residuals and activations */
    ES_CPU_ATTENTION,
    ES_CPU_NORMS,   /* LayerNorm; weights of WNorm and SNorm */
    ES_CPU_LOSS,    /* cross-entropy without the vocabulary's product */
    ES_CPU_PENALTY, /* entropy penalty and measurements */
    ES_CPU_EMBEDDING,
    ES_CPU_UPDATE,  /* gradient norm and AdamW */
    ES_CPU_ZEROING, /* zeroing of gradients */
    ES_CPU_OTHER,   /* rotation, scaled residuals, copies */
    ES_CPU_WAITING, /* part of all the above: waiting for other threads */
    ES_N_CPU_PHASES
} es_cpu_phase;

extern const char *const es_cpu_phase_names[ES_N_CPU_PHASES];

/**
 * Copies `ops`, the CPU back-end's operations, which must stay valid, and adds
 * a clock around each operation that takes time: about 50 ns a call. Only one
 * such table at a time in a process, and one model on it.
 */
void es_cpu_phases_wrap(es_ops *out, const es_ops *ops);

/** Returns the seconds (ES_N_CPU_PHASES) since the last call, or since
 *  es_cpu_phases_wrap. */
void es_cpu_phases_take(double *seconds);

#endif
