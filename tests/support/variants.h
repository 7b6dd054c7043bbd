/** Runs tests with each variant of the CPU back-end's kernels. */
#ifndef ES_TESTS_VARIANTS_H
#define ES_TESTS_VARIANTS_H

#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/test.h"

/** Returns the kernel variants that this machine can run, as a NULL-terminated
 *  list; the first variant is the plain one. */
const es_cpu_kernels *const *es_variants(void);

#define EACH_VARIANT(kernels)                                                  \
    for (const es_cpu_kernels *const *kernels = es_variants(); *kernels;       \
         kernels++)

/** A back-end with three threads and the kernels of the current variant, for
 *  operations of up to 300 rows, two heads of 16 x 16, and a width of 1300. */
extern es_backend *the_cpu;

/** Calls `check` once for each variant, with the_cpu set to a back-end with
 *  this variant; frees the test's arrays after each call. */
void es_with_variants(void (*check)(void));

/** Like TEST, but runs the test once for each variant. */
#define VARIANT_TEST(name)                                                     \
    static void name##_once(void);                                             \
    TEST(name)                                                                 \
    {                                                                          \
        es_with_variants(name##_once);                                         \
    }                                                                          \
    static void name##_once(void)

#endif
