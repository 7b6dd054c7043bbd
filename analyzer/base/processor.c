/* Detects instruction sets and counts processors, for modules that have kernels
   for several instruction sets or start threads. Executes CPUID itself, because
   __builtin_cpu_supports always returns false under zig. */
#include "analyzer/base/processor.h"

#include <sched.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

/**
 * Returns true if this process may use AMX tiles, whose state Linux (5.16 or
 * later) grants only on request.
 */
static bool has_matrix_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    const unsigned tiles = 1u << 25 | 1u << 24 | 1u << 22;
    const unsigned bytes = 1u << 1, halves = 1u << 5;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & bytes) ||
        (d & tiles) != tiles || !__get_cpuid_count(7, 1, &a, &b, &c, &d) ||
        !(a & halves))
        return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

unsigned es_processor_instructions(void)
{
    unsigned has = 0;
#if defined(__x86_64__) || defined(__i386__)
    const unsigned wide = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    unsigned a, b, c, d, saved = 0, unused;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    has |= c & 1u << 20 ? ES_HAS_SSE42 : 0;
    has |= c & 1u << 1 ? ES_HAS_PCLMUL : 0;
    /* xgetbv returns one bit for each set of registers that the system saves:
     * AVX needs the bits 6, AVX-512 the bits 0xe6. */
    if (c & 1u << 27)
        __asm__("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
    const bool has_fma = c & 1u << 12;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (saved & 6) != 6)
        return has;
    has |= has_fma ? ES_HAS_FMA : 0;
    has |= b & 1u << 5 ? ES_HAS_AVX2 : 0;
    has |= c & 1u << 10 ? ES_HAS_VPCLMULQDQ : 0;
    if ((saved & 0xe6) == 0xe6 && (b & wide) == wide)
        has |= ES_HAS_AVX512;
#endif
    return has;
}

bool es_vectors_supported(es_vectors vectors)
{
    static const unsigned needs[] = {[ES_VECTORS_AVX2] =
                                         ES_HAS_AVX2 | ES_HAS_FMA,
                                     [ES_VECTORS_AVX512] = ES_HAS_AVX512,
                                     [ES_VECTORS_AMX] = ES_HAS_AVX512};
    if ((es_processor_instructions() & needs[vectors]) != needs[vectors])
        return false;
#if defined(__x86_64__)
    if (vectors == ES_VECTORS_AMX)
        return has_matrix_tiles();
#endif
    return vectors != ES_VECTORS_AMX;
}

int es_count_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) != 0 ? 1 : CPU_COUNT(&set);
}
