/**
 * Sums that always add in the same order: lanes by halves, warps and blocks by
 * their number. No atomic addition of floats anywhere: its order changes bits.
 */
#ifndef ES_CUDA_REDUCE_H
#define ES_CUDA_REDUCE_H

#include "hooks/trainer/cuda/cuda.h"
#include "hooks/trainer/cuda/lanes.h"

#define ES_ALL_LANES 0xffffffffu

/** Threads of a block that moves bytes. */
constexpr int ES_THREADS = 256;
/** Blocks that leave a sum each, at most; and warps of a block. */
constexpr unsigned ES_MAX_PIECES = 1024;
constexpr int ES_MAX_WARPS = 32;

/** Blocks of a grid over n_items, a thread or a warp or a block each as
 *  `per_block` says: no more than `waves` of them for each processor, as a
 *  kernel strides over the rest. At least 1. */
static inline unsigned es_blocks(const es_backend *backend, size_t n_items,
                                 size_t per_block, int waves)
{
    const es_device_facts *facts = es_device_facts_of(backend->device);
    const size_t most = (size_t)facts->n_processors * (size_t)waves;
    const size_t n = es_ceil_div(n_items, per_block);
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

/** Blocks that leave a sum each: no more than ES_MAX_PIECES. */
static inline unsigned es_pieces(const es_backend *backend, size_t n_items,
                                 size_t per_block, int waves)
{
    const unsigned n = es_blocks(backend, n_items, per_block, waves);
    return n < ES_MAX_PIECES ? n : ES_MAX_PIECES;
}

/** Threads of a block over `width` elements, `lanes` a thread. */
static inline int es_row_threads(int width, int lanes, int most)
{
    const int n = (int)es_ceil_div((size_t)width, (size_t)(32 * lanes)) * 32;
    return n < most ? n : most;
}

/** Sum over the lanes, in every lane. */
template <class X>
ES_DEVICE X es_warp_sum(X x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(ES_ALL_LANES, x, step);
    return x;
}

/** Largest over the lanes that is a number, in every lane. */
template <class X>
ES_DEVICE X es_warp_max(X x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const X other = __shfl_xor_sync(ES_ALL_LANES, x, step);
        x = x > other || other != other ? x : other;
    }
    return x;
}

/** Sum over the block, in every thread. shared (ES_MAX_WARPS) is free before
 *  and after. */
template <class X>
ES_DEVICE X es_block_sum(X x, X *shared)
{
    const int n_warps = (int)blockDim.x / 32;
    x = es_warp_sum(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    X sum = shared[0];
    for (int warp = 1; warp < n_warps; warp++)
        sum += shared[warp];
    __syncthreads();
    return sum;
}

/** Sum of pieces (n), in every thread of the block. */
template <class X>
ES_DEVICE X es_sum_pieces(const X *pieces, int n, X *shared)
{
    X sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        sum += pieces[i];
    return es_block_sum(sum, shared);
}

/** exp(x), relative error below 4e-7 for |x| < 10, 1e-5 at -90, where it is
 *  as good as nothing; 0 from -87.4 on. One instruction more than the
 *  hardware's 2^x. */
ES_DEVICE float es_exp(float x)
{
    return es_fast_exp2(x * 1.44269504f);
}

/** Bytes of scratch for a sum of `n` doubles in pieces. */
static inline size_t es_pieces_bytes(size_t n)
{
    return ES_MAX_PIECES * n * sizeof(double);
}

#endif
