/**
 * Computes sums in a fixed order: the lanes of a warp are added in pairs, and
 * warps and blocks in the order of their numbers. Floats are never added
 * atomically, because the order of atomic additions, and therefore the bits of
 * the sum, would vary.
 */
#ifndef ES_CUDA_REDUCE_H
#define ES_CUDA_REDUCE_H

#include "hooks/trainer/cuda/cuda.h"
#include "hooks/trainer/cuda/lanes.h"

#define ES_ALL_LANES 0xffffffffu

/** Number of threads of a block that copies or converts memory. */
constexpr int ES_THREADS = 256;
/** ES_MAX_PIECES is the maximum number of blocks that each compute a part of a
 *  sum. ES_MAX_WARPS is the maximum number of warps in a block. */
constexpr unsigned ES_MAX_PIECES = 1024;
constexpr int ES_MAX_WARPS = 32;

/** Returns the number of blocks of a grid for n_items items, of which a block
 *  processes per_block at a time. The result is at least 1 and at most `waves`
 *  blocks per multiprocessor, since a block may process several portions of
 *  items. */
static inline unsigned es_blocks(const es_backend *backend, size_t n_items,
                                 size_t per_block, int waves)
{
    const es_device_facts *facts = es_device_facts_of(backend->device);
    const size_t most = (size_t)facts->n_processors * (size_t)waves;
    const size_t n = es_ceil_div(n_items, per_block);
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

/** Same as es_blocks, but at most ES_MAX_PIECES, for kernels in which each
 *  block computes a part of a sum. */
static inline unsigned es_pieces(const es_backend *backend, size_t n_items,
                                 size_t per_block, int waves)
{
    const unsigned n = es_blocks(backend, n_items, per_block, waves);
    return n < ES_MAX_PIECES ? n : ES_MAX_PIECES;
}

/** Returns the number of threads of a block that processes `width` elements
 *  with `lanes` elements per thread. The result is a multiple of 32 and at most
 *  `most`. */
static inline int es_row_threads(int width, int lanes, int most)
{
    const int n = (int)es_ceil_div((size_t)width, (size_t)(32 * lanes)) * 32;
    return n < most ? n : most;
}

/** Returns the sum of x over the lanes of the warp. Every lane gets the
 *  result. */
template <class X>
ES_DEVICE X es_warp_sum(X x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(ES_ALL_LANES, x, step);
    return x;
}

/** Returns the largest x of the lanes of the warp, ignoring NaN. Every lane
 *  gets the result. */
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

/** Returns the sum of x over the threads of the block. Every thread gets the
 *  result. shared (ES_MAX_WARPS) is working memory, which the caller may use
 *  before and after the call. */
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

/** Returns the sum of the n partial sums in `pieces`. Every thread of the block
 *  gets the result. */
template <class X>
ES_DEVICE X es_sum_pieces(const X *pieces, int n, X *shared)
{
    X sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        sum += pieces[i];
    return es_block_sum(sum, shared);
}

/** Returns exp(x), with one more instruction than the hardware's 2^x. The
 *  relative error is below 4e-7 for |x| < 10, and below 1e-5 near x = -90,
 *  where the result is negligible. Returns 0 for x below -87.4. */
ES_DEVICE float es_exp(float x)
{
    return es_fast_exp2(x * 1.44269504f);
}

/** Returns the size of the scratch memory in bytes for n sums of doubles, each
 *  of which is computed in up to ES_MAX_PIECES parts. */
static inline size_t es_pieces_bytes(size_t n)
{
    return ES_MAX_PIECES * n * sizeof(double);
}

#endif
