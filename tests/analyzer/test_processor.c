/* Compares the instruction sets that es_processor_instructions reports with the
   instruction sets that the compiler's library detects. */
#include "analyzer/base/processor.h"
#include "tests/support/test.h"

#if defined(__x86_64__)
TEST(instructions_are_those_that_the_compiler_finds)
{
    const unsigned has = es_processor_instructions();
#define SAME(bit, name)                                                        \
    assert_int_equal((has & (bit)) != 0, __builtin_cpu_supports(name) != 0)
    SAME(ES_HAS_SSE42, "sse4.2");
    SAME(ES_HAS_PCLMUL, "pclmul");
    SAME(ES_HAS_FMA, "fma");
    SAME(ES_HAS_AVX2, "avx2");
    SAME(ES_HAS_VPCLMULQDQ, "vpclmulqdq");
    const bool has_wide = __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
    assert_int_equal((has & ES_HAS_AVX512) != 0, has_wide);
}

TEST(vectors_need_all_their_instructions)
{
    const unsigned has = es_processor_instructions();
    const unsigned narrow = ES_HAS_AVX2 | ES_HAS_FMA;
    assert_true(es_vectors_supported(ES_VECTORS_PLAIN));
    assert_int_equal(es_vectors_supported(ES_VECTORS_AVX2),
                     (has & narrow) == narrow);
    assert_int_equal(es_vectors_supported(ES_VECTORS_AVX512),
                     (has & ES_HAS_AVX512) != 0);
    if (es_vectors_supported(ES_VECTORS_AMX))
        assert_true(has & ES_HAS_AVX512);
}
#endif

TEST(there_is_a_processor_to_run_on)
{
    assert_in_range(es_count_processors(), 1, 1 << 16);
}
