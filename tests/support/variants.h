/** The CPU's kernels, one variant after the other. */
#ifndef ES_TESTS_VARIANTS_H
#define ES_TESTS_VARIANTS_H

#include "hooks/trainer/cpu/cpu.h"

/** Each variant that this machine can run, the plain one first, NULL at the
 *  end. */
const es_cpu_kernels *const *es_variants(void);

#define EACH_VARIANT(kernels)                                                  \
    for (const es_cpu_kernels *const *kernels = es_variants(); *kernels;       \
         kernels++)

#endif
