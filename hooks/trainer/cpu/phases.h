/** Where the time of a training step goes, by kinds of operations. */
#ifndef ES_CPU_PHASES_H
#define ES_CPU_PHASES_H

#include "hooks/trainer/model/ops.h"

typedef enum es_cpu_phase {
    ES_CPU_PRODUCTS, /* with biases, residuals and activations */
    ES_CPU_ATTENTION,
    ES_CPU_NORMS,   /* LayerNorm; weights of WNorm and SNorm */
    ES_CPU_LOSS,    /* cross-entropy; not the product of the vocabulary */
    ES_CPU_PENALTY, /* of entropies, and what is measured */
    ES_CPU_EMBEDDING,
    ES_CPU_UPDATE,  /* norm of the gradients and AdamW */
    ES_CPU_ZEROING, /* of gradients */
    ES_CPU_OTHER,   /* rotation, scaled residuals, copies */
    ES_CPU_WAITING, /* of all these: for other threads to finish */
    ES_N_CPU_PHASES
} es_cpu_phase;

extern const char *const es_cpu_phase_names[ES_N_CPU_PHASES];

/**
 * The operations of the CPU back-end `ops`, which has to stay, with a clock
 * around each of those that take time: some 50 ns a call. One table at a time
 * in a process, and one model on it.
 */
void es_cpu_phases_wrap(es_ops *out, const es_ops *ops);

/** Seconds (ES_N_CPU_PHASES) since the last call, or since es_cpu_phases_wrap.
 */
void es_cpu_phases_take(double *seconds);

#endif
