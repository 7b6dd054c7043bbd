/**
 * Describes what computes in the CPU back-end: the libraries of matrix
 * products, the kernels that they chose for the processor, and the program's
 * own kernels. A library whose kernels use less than the processor offers
 * trains at half the speed without a message; OPENBLAS_CORETYPE or
 * ONEDNN_MAX_CPU_ISA in the environment may cause this.
 */
#ifndef ES_CPU_ENGINE_H
#define ES_CPU_ENGINE_H

#include "analyzer/base/processor.h"
#include <stddef.h>

typedef struct es_cpu_engine {
    char products[128];  /* such as "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3
                            avx512_core" if both are used */
    const char *kernels; /* own kernels: "avx512", "avx2", "plain" */
    char note[256];      /* one line with a remedy, or "" */
} es_cpu_engine;

/** Describes the back-ends that are opened now: see es_products_used. */
void es_cpu_engine_find(es_cpu_engine *out);

/** A library of products, as es_cpu_engine_judge sees it. */
typedef struct es_cpu_library {
    const char *name;      /* such as "OpenBLAS" */
    const char *kernels;   /* in the library's terms: "Haswell" */
    const char *variable;  /* environment variable: OPENBLAS_CORETYPE */
    const char *requested; /* the variable's value, or NULL */
} es_cpu_library;

/**
 * Writes the note: "" if the library's kernels use all of the processor's
 * vectors, or if this is unknown.
 *
 *   note       (size) written
 *   processor  widest vectors of the processor
 */
void es_cpu_engine_judge(char *note, size_t size, const es_cpu_library *library,
                         es_vectors processor);

#endif
