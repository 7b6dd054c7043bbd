/** Runs tests with each variant of the CPU's kernels. */
#ifndef ES_TESTS_VARIANTS_H
#define ES_TESTS_VARIANTS_H

#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/test.h"

/** Returns the variants that this machine can run, the plain one first,
 *  NULL-terminated. */
const es_cpu_kernels *const *es_variants(void);

#define EACH_VARIANT(kernels)                                                  \
    for (const es_cpu_kernels *const *kernels = es_variants(); *kernels;       \
         kernels++)

/** A back-end of three threads with the kernels of one variant, for operations
 *  of up to 300 rows, two heads of 16 x 16, and a width of 1300. */
extern es_backend *the_cpu;

/** Calls the check with each variant as the_cpu; frees the arrays of a test
 *  after each. */
void es_with_variants(void (*check)(void));

/** Like TEST, run with each variant in turn. */
#define VARIANT_TEST(name)                                                     \
    static void name##_once(void);                                             \
    TEST(name)                                                                 \
    {                                                                          \
        es_with_variants(name##_once);                                         \
    }                                                                          \
    static void name##_once(void)

#endif
