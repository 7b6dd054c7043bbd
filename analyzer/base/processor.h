/**
 * Reports which instructions the processor has, and on how many processors this
 * process may run.
 */
#ifndef ES_PROCESSOR_H
#define ES_PROCESSOR_H

#include <stdbool.h>

/**
 * Bits for x86 instruction sets that the processor has and whose registers the
 * system saves. ES_HAS_AVX512 stands for AVX-512 F, BW, DQ and VL.
 */
enum {
    ES_HAS_SSE42 = 1 << 0,
    ES_HAS_PCLMUL = 1 << 1,
    ES_HAS_FMA = 1 << 2,
    ES_HAS_AVX2 = 1 << 3,
    ES_HAS_AVX512 = 1 << 4,
    ES_HAS_VPCLMULQDQ = 1 << 5
};

/** Returns the bits ES_HAS_... of this machine; 0 unless it is an x86. */
unsigned es_processor_instructions(void);

/** Instruction sets for which the vector kernels are compiled. */
typedef enum es_vectors {
    ES_VECTORS_PLAIN,  /* plain C, needs no special instructions */
    ES_VECTORS_AVX2,   /* AVX2 and FMA */
    ES_VECTORS_AVX512, /* AVX-512 F, BW, DQ and VL */
    ES_VECTORS_AMX     /* AMX for bfloat16 and signed bytes, and AVX-512 with
                          the instructions for these types */
} es_vectors;

/**
 * Returns true if the machine has the instructions. For AMX, also requests the
 * system's permission, which the process keeps; from then on the signal stacks
 * of the process must have AT_MINSIGSTKSZ bytes.
 */
bool es_vectors_supported(es_vectors vectors);

/**
 * Returns the number of processors that this process may run on; 1 if the
 * system does not report the number.
 */
int es_count_processors(void);

#endif
