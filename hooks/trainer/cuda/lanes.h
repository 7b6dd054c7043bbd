/**
 * Reads and writes memory in packs of 16 bytes, which is the largest access of
 * a thread, and converts elements to f32 and back.
 */
#ifndef ES_CUDA_LANES_H
#define ES_CUDA_LANES_H

#include "hooks/trainer/cuda/index.h"
#include "hooks/trainer/cuda/kernel.h"

#include <string.h>

/** Number of elements of type X in a pack of 16 bytes. */
template <class X>
constexpr int es_lanes = ES_PACK / (int)sizeof(X);

/** Returns true if all addresses are aligned to 16 bytes. NULL is treated as
 *  aligned. */
template <class... X>
static inline bool es_packs_fit(const X *...arrays)
{
    return (... && ((uintptr_t)(const void *)arrays % ES_PACK == 0));
}

/**
 * Loads W consecutive elements as f32. If W elements fill whole packs of 16
 * bytes, reads packs, which must be aligned; otherwise reads single elements.
 */
template <int W, class X>
ES_DEVICE void es_load(float (&out)[W], const X *from)
{
    if constexpr (W % es_lanes<X> == 0) {
#pragma unroll
        for (int k = 0; k < W; k += es_lanes<X>) {
            const uint4 pack = *(const uint4 *)(const void *)(from + k);
            X values[es_lanes<X>];
            memcpy((void *)values, &pack, sizeof pack);
#pragma unroll
            for (int c = 0; c < es_lanes<X>; c++)
                out[k + c] = es_float(values[c]);
        }
    } else {
#pragma unroll
        for (int c = 0; c < W; c++)
            out[c] = es_float(from[c]);
    }
}

/* Converts one f32 number, or two for a 16-bit type, from `in` to a 32-bit word
 * of type X, with a single conversion instruction. */
template <class X>
ES_DEVICE uint32_t es_word_of(const float *in);
template <>
ES_DEVICE uint32_t es_word_of<float>(const float *in)
{
    return __float_as_uint(in[0]);
}
template <>
ES_DEVICE uint32_t es_word_of<es_bf16>(const float *in)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(in[0], in[1]);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}
template <>
ES_DEVICE uint32_t es_word_of<es_fp16>(const float *in)
{
    const __half2 pair = __floats2half2_rn(in[0], in[1]);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}

/** Rounds W consecutive f32 numbers to the nearest elements of type X, and
 *  stores them in packs or one by one, like es_load. */
template <int W, class X>
ES_DEVICE void es_store(X *to, const float (&in)[W])
{
    if constexpr (W % es_lanes<X> == 0) {
        constexpr int step = es_lanes<X> / 4;
#pragma unroll
        for (int k = 0; k < W; k += es_lanes<X>) {
            const uint4 pack = {es_word_of<X>(in + k),
                                es_word_of<X>(in + k + step),
                                es_word_of<X>(in + k + 2 * step),
                                es_word_of<X>(in + k + 3 * step)};
            /* Without the intrinsic, the compiler may split the assignment into
             * four stores. */
            __stwb((uint4 *)(void *)(to + k), pack);
        }
    } else {
#pragma unroll
        for (int c = 0; c < W; c++)
            to[c] = es_act_of<X>(in[c]);
    }
}

/** Rounds f32 numbers to the nearest elements of type X and stores them. The
 *  elements fill half a pack, so `to` must be aligned to 8 bytes. */
template <class X>
ES_DEVICE void es_store_half(X *to, const float (&in)[es_lanes<X> / 2])
{
    const uint2 words = {es_word_of<X>(in),
                         es_word_of<X>(in + es_lanes<X> / 4)};
    __stwb((uint2 *)(void *)to, words);
}

/** Adds the W f32 numbers in `more` to the numbers in `to`. */
template <int W>
ES_DEVICE void es_add_lanes(float *to, const float (&more)[W])
{
    float sum[W];
    es_load(sum, to);
#pragma unroll
    for (int c = 0; c < W; c++)
        sum[c] += more[c];
    es_store(to, sum);
}

/** Divides the indices of several arrays of n elements into those processed
 *  singly and those processed in packs of 16 bytes. The elements of all arrays
 *  have the same size. If the arrays' addresses differ modulo 16, all elements
 *  are processed singly. */
template <class X, class... More>
static inline es_split es_split_of(size_t n, const X *first,
                                   const More *...more)
{
    const uintptr_t phase = (uintptr_t)(const void *)first % ES_PACK;
    const bool together =
        (... && ((uintptr_t)(const void *)more % ES_PACK == phase));
    static_assert((... && (sizeof(More) == sizeof(X))),
                  "all arrays must have elements of the same size");
    return together ? es_split_at(phase, sizeof(X), n) : es_split{n, 0, 0};
}

/** es_thread returns the number of the calling thread in a one-dimensional
 *  grid, and es_all_threads returns the number of threads in the grid. */
ES_DEVICE size_t es_thread()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
ES_DEVICE size_t es_all_threads()
{
    return (size_t)gridDim.x * blockDim.x;
}

#endif
