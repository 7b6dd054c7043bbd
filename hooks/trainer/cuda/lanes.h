/**
 * Access to memory in packs of 16 bytes, converted to f32: the widest access of
 * a thread.
 */
#ifndef ES_CUDA_LANES_H
#define ES_CUDA_LANES_H

#include "hooks/trainer/cuda/index.h"
#include "hooks/trainer/cuda/kernel.h"

#include <string.h>

/** Number of elements in a pack. */
template <class X>
constexpr int es_lanes = ES_PACK / (int)sizeof(X);

/** Returns true if all addresses are aligned to 16 bytes. NULL counts as
 *  aligned. */
template <class... X>
static inline bool es_packs_fit(const X *...arrays)
{
    return (... && ((uintptr_t)(const void *)arrays % ES_PACK == 0));
}

/**
 * Loads W consecutive elements as f32, as whole packs (aligned to 16 bytes) or
 * single elements, depending on W.
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

/* Converts f32 from `in` on to four bytes of X, with one conversion. */
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

/** The inverse of es_load, rounded to the nearest. */
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
            /* A plain assignment may become four stores. */
            __stwb((uint4 *)(void *)(to + k), pack);
        }
    } else {
#pragma unroll
        for (int c = 0; c < W; c++)
            to[c] = es_act_of<X>(in[c]);
    }
}

/** Stores half a pack, rounded to the nearest; `to` is aligned to 8 bytes. */
template <class X>
ES_DEVICE void es_store_half(X *to, const float (&in)[es_lanes<X> / 2])
{
    const uint2 words = {es_word_of<X>(in),
                         es_word_of<X>(in + es_lanes<X> / 4)};
    __stwb((uint2 *)(void *)to, words);
}

/** to += more for W elements of f32. */
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

/** Splits several arrays of n elements of the same size alike: packs only if
 *  all of them have the same alignment. */
template <class X, class... More>
static inline es_split es_split_of(size_t n, const X *first,
                                   const More *...more)
{
    const uintptr_t phase = (uintptr_t)(const void *)first % ES_PACK;
    const bool together =
        (... && ((uintptr_t)(const void *)more % ES_PACK == phase));
    static_assert((... && (sizeof(More) == sizeof(X))), "one size");
    return together ? es_split_at(phase, sizeof(X), n) : es_split{n, 0, 0};
}

/** Return the number of the calling thread in a one-dimensional grid, and the
 *  number of threads. */
ES_DEVICE size_t es_thread()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
ES_DEVICE size_t es_all_threads()
{
    return (size_t)gridDim.x * blockDim.x;
}

#endif
