/* Lists the kernel variants of the CPU back-end that this processor can run. */
#include "tests/support/variants.h"

#include "tests/support/arrays.h"
#include "tests/support/run_files.h"

es_backend *the_cpu;

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

void es_with_variants(void (*check)(void))
{
    const es_extents largest = {.n_rows = 300,
                                .width = 1300,
                                .n_ctx = 16,
                                .n_head = 2,
                                .head_width = 16};
    EACH_VARIANT(kernels)
    {
        es_assert_ok(es_cpu_ops.open(&the_cpu, 3));
        the_cpu->kernels = *kernels;
        es_assert_ok(es_cpu_ops.prepare(the_cpu, &largest));
        check();
        es_cpu_ops.close(the_cpu);
        es_test_release();
    }
}
