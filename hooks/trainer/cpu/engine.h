/**
 * What computes in the CPU back-end: the library of the matrix products with
 * the kernels that it chose for the processor, and the set of our own. A
 * library whose kernels are for less than the processor has trains at half the
 * speed and says nothing: OPENBLAS_CORETYPE in the environment does that.
 */
#ifndef ES_CPU_ENGINE_H
#define ES_CPU_ENGINE_H

#include "analyzer/base/processor.h"
#include <stddef.h>

typedef struct es_cpu_engine {
    char products[64];   /* "OpenBLAS 0.3.21 SkylakeX" */
    const char *kernels; /* ours: "avx512", "avx2", "plain" */
    char note[256];      /* one line with the remedy, or "" */
} es_cpu_engine;

void es_cpu_engine_find(es_cpu_engine *out);

/**
 * The note: "" where `core`'s kernels use what the processor has, or where
 * nobody knows.
 *
 *   note       (size) written
 *   core       as openblas_get_corename names it: "Haswell"
 *   processor  the widest that it has
 *   requested  OPENBLAS_CORETYPE of the environment, or NULL
 */
void es_cpu_engine_judge(char *note, size_t size, const char *core,
                         es_vectors processor, const char *requested);

#endif
