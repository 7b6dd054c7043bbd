/** Runs attention of the CUDA back-end on the problems of attention_problem.h,
 *  for tests. */
#ifndef ES_TESTS_CUDA_ATTENTION_H
#define ES_TESTS_CUDA_ATTENTION_H

#include "tests/support/attention_problem.h"

/** A place where the back-end runs: the emulation on the host, or a device. */
typedef struct cuda_place {
    const char *file; /* file name of the library in the build folder */
    void *plugin;
    const es_ops *(*ops)(es_precision precision);
} cuda_place;

/** Returns the available places, ended by an entry with a NULL file. Opens them
 *  at first use; on the host opens the library that ENTROPY_TRAIN_CUDA names,
 *  if it is set. A place that was not built or has no device is omitted, and
 *  this is reported once. Skips the test if there is no place at all. */
const cuda_place *cuda_places(void);
#define EACH_PLACE(place)                                                      \
    for (const cuda_place *place = cuda_places(); place->file; place++)

/** Options of a run of attention. */
typedef struct cuda_run {
    es_precision precision;
    bool unmeasured; /* without statistics */
    bool entropy;    /* backward pass with dentropy */
} cuda_run;

/**
 * Rounds q, k, v and dy of the problem to the precision, and runs attention
 * forward and backward. Outputs are filled with poison before; fails the test
 * if memory around an array has changed. Sets the problem's `rounding`.
 */
void cuda_attention_run(attention_problem *p, const cuda_place *place,
                        cuda_run how);

#endif
