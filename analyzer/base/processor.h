/** What the processor can do, and how many of them there are to run on. */
#ifndef ES_PROCESSOR_H
#define ES_PROCESSOR_H

#include <stdbool.h>

/** Instructions of x86 that the processor has and whose registers the system
 *  saves. AVX512 stands for F, BW, DQ and VL. */
enum {
    ES_HAS_SSE42 = 1 << 0,
    ES_HAS_PCLMUL = 1 << 1,
    ES_HAS_FMA = 1 << 2,
    ES_HAS_AVX2 = 1 << 3,
    ES_HAS_AVX512 = 1 << 4,
    ES_HAS_VPCLMULQDQ = 1 << 5
};

/** The bits ES_HAS_... of this machine; 0 where it is none of x86. */
unsigned es_processor_instructions(void);

/** What a set of vector kernels needs of the machine. */
typedef enum es_vectors {
    ES_VECTORS_PLAIN,  /* nothing: compilers make do with what there is */
    ES_VECTORS_AVX2,   /* and FMA */
    ES_VECTORS_AVX512, /* F, BW, DQ and VL */
    ES_VECTORS_AMX     /* tiles of bfloat16 and of bytes; AVX-512 with both */
} es_vectors;

/** For AMX this requests the system's permission, which the process keeps: its
 *  signal stacks have to be of AT_MINSIGSTKSZ from then on. */
bool es_vectors_supported(es_vectors vectors);

/** Processors that this process may run on; 1 where the system does not
 *  say. */
int es_count_processors(void);

#endif
