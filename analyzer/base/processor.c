/* For every module that has kernels for several instruction sets or
   starts threads. */
#include "analyzer/base/processor.h"

#include <sched.h>

bool es_vectors_supported(es_vectors vectors)
{
#if defined(__x86_64__) || defined(__i386__)
    if (vectors == ES_VECTORS_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (vectors == ES_VECTORS_AVX512)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return vectors == ES_VECTORS_PLAIN;
}

int es_count_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) != 0 ? 1 : CPU_COUNT(&set);
}
