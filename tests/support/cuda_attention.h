/** Attention of the CUDA back-end on the problems of attention_problem.h. */
#ifndef ES_TESTS_CUDA_ATTENTION_H
#define ES_TESTS_CUDA_ATTENTION_H

#include "tests/support/attention_problem.h"

/** A place to run it: the kernels on the host, or on a device. */
typedef struct cuda_place {
    const char *file; /* of the build folder */
    void *plugin;
    const es_ops *(*ops)(es_precision precision);
} cuda_place;

/** All that there are, a NULL file at the end; opened at first use; on the host
 *  the library that ENTROPY_TRAIN_CUDA names, if it names one. A place
 *  that was not built or has no device is left out, which is reported once;
 * where there is none at all the test is skipped. */
const cuda_place *cuda_places(void);
#define EACH_PLACE(place)                                                      \
    for (const cuda_place *place = cuda_places(); place->file; place++)

/** What is done, apart from the problem itself. */
typedef struct cuda_run {
    es_precision precision;
    bool unmeasured; /* without statistics */
    bool entropy;    /* backward, from dentropy too */
} cuda_run;

/**
 * Rounds q, k, v and dy of the problem to the precision, then attention
 * forward and backward, its outputs poisoned before; fails the test where
 * anything around them has changed. Sets the problem's `rounding`.
 */
void cuda_attention_run(attention_problem *p, const cuda_place *place,
                        cuda_run how);

#endif
