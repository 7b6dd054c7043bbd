/**
 * Determines which activations dropout sets to zero in a training pass. The
 * choice depends only on the seed, the number of the pass, the place in the
 * model and the index of the activation, and is the same on every back-end.
 * This header is included by C code and by CUDA kernels.
 */
#ifndef ES_DROPOUT_H
#define ES_DROPOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ES_DROPOUT_FUNCTION static __host__ __device__ __forceinline__
#else
#define ES_DROPOUT_FUNCTION static inline
#endif

/** Places in a model where dropout applies: one at the embedding and two in
 *  each layer. */
enum { ES_DROP_EMBEDDING, ES_DROP_ATTENTION, ES_DROP_FFN };

/** Parameters of dropout at one place in the model; if the dropout probability
 *  `rate` is 0, nothing is dropped. */
typedef struct es_dropout {
    float rate; /* in [0,1): fraction of activations that become 0; the others
                   are multiplied by 1/(1 - rate) */
    uint64_t seed;
    uint32_t place;  /* ES_DROP_... + 2 * layer */
    uint32_t offset; /* added to the pass number, which the operation reads from
                        memory */
    bool back;       /* true if the input is a gradient, which is not rounded */
} es_dropout;

/** Dropout at one place in one pass. The counter of the random generator
 *  Philox-4x32-10 consists of the index of a block of four activations, the
 *  place and the pass; an activation is dropped if its random word is below the
 *  threshold. */
typedef struct es_drop_mask {
    uint32_t key[2], pass[2], place, threshold;
    float scale;
} es_drop_mask;

ES_DROPOUT_FUNCTION es_drop_mask es_drop_mask_of(const es_dropout *how,
                                                 uint64_t pass)
{
    es_drop_mask mask;
    pass += how->offset;
    mask.key[0] = (uint32_t)how->seed ^ UINT32_C(0x64726f70);
    mask.key[1] = (uint32_t)(how->seed >> 32);
    mask.pass[0] = (uint32_t)pass;
    mask.pass[1] = (uint32_t)(pass >> 32);
    mask.place = how->place;
    mask.threshold = (uint32_t)((double)how->rate * 4294967296.0);
    mask.scale = 1 / (1 - how->rate);
    return mask;
}

/** Replaces the 128-bit counter c by 128 random bits (Philox-4x32-10: Salmon et
 *  al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
ES_DROPOUT_FUNCTION void es_philox(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    for (int i = 0; i < 10; i++) {
        const uint64_t first = UINT64_C(0xd2511f53) * c[0];
        const uint64_t second = UINT64_C(0xcd9e8d57) * c[2];
        c[0] = (uint32_t)(second >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)second;
        c[2] = (uint32_t)(first >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)first;
        key0 += UINT32_C(0x9e3779b9);
        key1 += UINT32_C(0xbb67ae85);
    }
}

/** Writes the factors of the elements 4 * block to 4 * block + 3: 0 for a
 *  dropped element, else mask->scale. */
ES_DROPOUT_FUNCTION void es_drop_factors(float out[4], const es_drop_mask *mask,
                                         uint64_t block)
{
    uint32_t c[4];
    c[0] = (uint32_t)block;
    c[1] = (uint32_t)(block >> 32) | mask->place << 16;
    c[2] = mask->pass[0];
    c[3] = mask->pass[1];
    es_philox(c, mask->key[0], mask->key[1]);
    for (int i = 0; i < 4; i++)
        out[i] = c[i] < mask->threshold ? 0 : mask->scale;
}

#endif
