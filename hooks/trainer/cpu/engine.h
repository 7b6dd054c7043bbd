/**
 * What computes in the CPU back-end: the libraries of the matrix products with
 * the kernels that they chose for the processor, and the set of our own. A
 * library whose kernels are for less than the processor has trains at half the
 * speed and says nothing: OPENBLAS_CORETYPE in the environment does that, and
 * ONEDNN_MAX_CPU_ISA.
 */
#ifndef ES_CPU_ENGINE_H
#define ES_CPU_ENGINE_H

#include "analyzer/base/processor.h"
#include <stddef.h>

typedef struct es_cpu_engine {
    char products[128];  /* "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3 avx512_core"
                            where both take part */
    const char *kernels; /* ours: "avx512", "avx2", "plain" */
    char note[256];      /* one line with the remedy, or "" */
} es_cpu_engine;

/** Of the back-ends that are opened now: es_products_used. */
void es_cpu_engine_find(es_cpu_engine *out);

/** A library of products, for the note. */
typedef struct es_cpu_library {
    const char *name;      /* "OpenBLAS" */
    const char *kernels;   /* as the library names them: "Haswell" */
    const char *variable;  /* of the environment: OPENBLAS_CORETYPE */
    const char *requested; /* what that says, or NULL */
} es_cpu_library;

/**
 * The note: "" where the library's kernels use what the processor has, or where
 * nobody knows.
 *
 *   note       (size) written
 *   processor  the widest that it has
 */
void es_cpu_engine_judge(char *note, size_t size, const es_cpu_library *library,
                         es_vectors processor);

#endif
