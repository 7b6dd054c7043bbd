/**
 * Describes the code that the CPU back-end runs: the libraries for matrix
 * products, the kernels that these libraries chose for the processor, and the
 * program's own kernels. If a library has chosen kernels for an older
 * processor, for example because OPENBLAS_CORETYPE or ONEDNN_MAX_CPU_ISA is set
 * in the environment, training takes twice as long, and the library gives no
 * warning.
 */
#ifndef ES_CPU_ENGINE_H
#define ES_CPU_ENGINE_H

#include "analyzer/base/processor.h"
#include <stddef.h>

typedef struct es_cpu_engine {
    char products[128];  /* libraries, for example "OpenBLAS 0.3.21 SkylakeX,
                          * oneDNN 2.6.3 avx512_core" if both are used */
    const char *kernels; /* the program's kernels: "avx512", "avx2", "plain" */
    char note[256];      /* a one-line warning with a remedy, or "" */
} es_cpu_engine;

/** Describes the libraries and kernels that back-ends opened after this call
 *  will use; see es_products_used. */
void es_cpu_engine_find(es_cpu_engine *out);

/** The properties of a library of matrix products on which the warning of
 *  es_cpu_engine_judge depends. */
typedef struct es_cpu_library {
    const char *name;      /* such as "OpenBLAS" */
    const char *kernels;   /* the library's name for its kernels */
    const char *variable;  /* environment variable that selects kernels */
    const char *requested; /* the variable's value, or NULL if it is not set */
} es_cpu_library;

/**
 * Writes a warning to `note` if the library's kernels use narrower vectors than
 * the processor offers. Writes "" if the kernels are wide enough or unknown.
 *
 *   note       (size) written
 *   processor  widest vectors that the processor supports
 */
void es_cpu_engine_judge(char *note, size_t size, const es_cpu_library *library,
                         es_vectors processor);

#endif
