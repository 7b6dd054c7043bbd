/** What the processor can do, and how many of them there are to run on. */
#ifndef ES_PROCESSOR_H
#define ES_PROCESSOR_H

#include <stdbool.h>

/** What a set of vector kernels needs of the machine. */
typedef enum es_vectors {
    ES_VECTORS_PLAIN,  /* nothing: compilers make do with what there is */
    ES_VECTORS_AVX2,   /* and FMA */
    ES_VECTORS_AVX512, /* F, BW, DQ and VL */
    ES_VECTORS_AMX     /* tiles of bfloat16; AVX-512 and its bfloat16 */
} es_vectors;

/** For AMX this requests the system's permission, which the process keeps: its
 *  signal stacks have to be of AT_MINSIGSTKSZ from then on. */
bool es_vectors_supported(es_vectors vectors);

/** Processors that this process may run on; 1 where the system does not
 *  say. */
int es_count_processors(void);

#endif
