/* The CPU's kernels that this processor can run. */
#include "tests/support/variants.h"

const es_cpu_kernels *const *es_variants(void)
{
    static const es_cpu_kernels *variants[4];
    size_t n = 0;
    variants[n++] = &es_cpu_kernels_plain;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        variants[n++] = &es_cpu_kernels_avx2;
    if (__builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        variants[n++] = &es_cpu_kernels_avx512;
    return variants;
}
