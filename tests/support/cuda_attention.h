/** Runs attention of the CUDA back-end on the problems of attention_problem.h,
 *  for tests. */
#ifndef ES_TESTS_CUDA_ATTENTION_H
#define ES_TESTS_CUDA_ATTENTION_H

#include "tests/support/attention_problem.h"

/** A place where the CUDA back-end runs: the emulation on the host, or a
 *  device. */
typedef struct cuda_place {
    const char *file; /* file name of the library in the build folder */
    void *plugin;
    const es_ops *(*ops)(es_precision precision);
} cuda_place;

/**
 * Returns the available places (devices and the emulation on the host); the
 * last entry has a NULL file. The first call opens the places. If the variable
 * ENTROPY_TRAIN_CUDA is set, it names the library of the emulation on the host.
 * Omits a place that was not built or has no device, and prints this once.
 * Skips the test if no place is available.
 */
const cuda_place *cuda_places(void);
#define EACH_PLACE(place)                                                      \
    for (const cuda_place *place = cuda_places(); place->file; place++)

/** Options of one forward and backward pass of attention. */
typedef struct cuda_run {
    es_precision precision;
    bool unmeasured; /* true: compute no statistics */
    bool entropy;    /* the backward pass uses the gradients dentropy */
} cuda_run;

/**
 * Rounds q, k, v and dy of the problem to the precision, and runs attention
 * forward and backward. Outputs are first filled with an invalid bit pattern.
 * Fails the test if memory around an array has changed. Sets the problem's
 * `rounding`.
 */
void cuda_attention_run(attention_problem *p, const cuda_place *place,
                        cuda_run how);

#endif
