/* For every module that has kernels for several instruction sets or
   starts threads. */
#include "analyzer/base/processor.h"

#include <sched.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/** Tiles are state that Linux (5.16) gives to a process that requests it. */
static bool has_matrix_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    const unsigned tiles = 1u << 24 | 1u << 22, halves = 1u << 5;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles) != tiles ||
        !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & halves))
        return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

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
#if defined(__x86_64__)
    if (vectors == ES_VECTORS_AMX)
        return es_vectors_supported(ES_VECTORS_AVX512) && has_matrix_tiles();
#endif
    return vectors == ES_VECTORS_PLAIN;
}

int es_count_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) != 0 ? 1 : CPU_COUNT(&set);
}
