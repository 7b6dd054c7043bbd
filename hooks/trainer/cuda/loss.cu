/* Cross entropy: a block takes a row of logits, which is read once. A row may
 * begin anywhere, so each has its own single elements before and after its
 * packs. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

typedef struct loss {
    float *row_loss, *lse;
    const int32_t *targets;
    int n_rows, vocab, stride;
} loss;

/* Threads of a block: a pack each or more. */
#define MOST_THREADS 512

/* The largest so far, and the sum of exp(x - largest). A NaN is in the sum
 * alone. */
typedef struct online {
    float largest, sum;
} online;

/* exp(x - from); 0 for x = -inf, even from -inf: of what has no weight there
 * may be others with weight. */
static ES_DEVICE float weight_of(float x, float from)
{
    return es_exp(x - (from == -INFINITY ? 0.f : from));
}

static ES_DEVICE online merge(online a, online b)
{
    const float largest = fmaxf(a.largest, b.largest);
    const float of_a = a.sum * weight_of(a.largest, largest);
    const float of_b = b.sum * weight_of(b.largest, largest);
    return {largest, of_a + of_b};
}

template <int W>
static ES_DEVICE void add_logits(online *to, const float (&x)[W])
{
    float largest = to->largest, sum = 0;
#pragma unroll
    for (int c = 0; c < W; c++)
        largest = fmaxf(largest, x[c]);
#pragma unroll
    for (int c = 0; c < W; c++)
        sum += weight_of(x[c], largest);
    if (largest != to->largest)
        to->sum *= weight_of(to->largest, largest);
    to->sum += sum;
    to->largest = largest;
}

/* In every thread. */
static __device__ online merge_block(online own, online *shared)
{
    const int n_warps = (int)blockDim.x / 32;
    for (int step = 16; step > 0; step /= 2) {
        const float largest = __shfl_xor_sync(ES_ALL_LANES, own.largest, step);
        const float sum = __shfl_xor_sync(ES_ALL_LANES, own.sum, step);
        own = merge(own, {largest, sum});
    }
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = own;
    __syncthreads();
    own = shared[0];
    for (int warp = 1; warp < n_warps; warp++)
        own = merge(own, shared[warp]);
    __syncthreads();
    return own;
}

template <class A>
static __device__ online read_row(const A *row, int vocab)
{
    constexpr int lanes = es_lanes<A>;
    const es_split split =
        es_split_at((uintptr_t)(const void *)row, sizeof(A), (size_t)vocab);
    online own = {-INFINITY, 0};
    for (size_t i = threadIdx.x; i < split.head + split.tail; i += blockDim.x) {
        float x[1];
        es_load(x, row + es_split_single(&split, i, lanes));
        add_logits(&own, x);
    }
#pragma unroll 2
    for (size_t i = threadIdx.x; i < split.n_packs; i += blockDim.x) {
        float x[lanes];
        es_load(x, row + split.head + i * lanes);
        add_logits(&own, x);
    }
    return own;
}

template <class A>
static __global__ void cross_entropy_kernel(loss l, const A *logits)
{
    ES_SHARED(online, shared);
    for (int row = (int)blockIdx.x; row < l.n_rows; row += (int)gridDim.x) {
        const A *x = logits + (size_t)row * (size_t)l.stride;
        const online all = merge_block(read_row(x, l.vocab), shared);
        /* Nothing but -inf in a row: no weight is a number. */
        const float log_sum = all.largest == -INFINITY ? NAN : logf(all.sum);
        if (threadIdx.x != 0)
            continue;
        l.lse[row] = all.largest + log_sum;
        l.row_loss[row] = log_sum + (all.largest - es_float(x[l.targets[row]]));
    }
}

template <class A>
static void cross_entropy(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride)
{
    const loss l = {es_at<float>(row_loss),
                    es_at<float>(lse),
                    es_at<int32_t>(targets),
                    n_rows,
                    vocab,
                    stride};
    es_launch(backend->device, "cross entropy", cross_entropy_kernel<A>,
              es_blocks(backend, (size_t)n_rows, 1, 16),
              es_row_threads(vocab, es_lanes<A>, MOST_THREADS),
              ES_MAX_WARPS * sizeof(online), l, es_at<A>(logits));
}

/* --- the backward pass ---------------------------------------------------- */

/* What is the same along a row. */
typedef struct row_gradient {
    float lse, scale;
    int target;
} row_gradient;

/* W logits from `column` on. */
template <int W, class A>
static ES_DEVICE void differentiate(A *row, size_t column,
                                    const row_gradient *g)
{
    float x[W];
    es_load(x, row + column);
#pragma unroll
    for (int c = 0; c < W; c++) {
        const float own = (int)column + c == g->target ? 1.f : 0.f;
        x[c] = (es_exp(x[c] - g->lse) - own) * g->scale;
    }
    es_store(row + column, x);
}

template <class A>
static __global__ void cross_entropy_backward_kernel(A *logits, loss l,
                                                     float scale,
                                                     const es_control *control)
{
    constexpr int lanes = es_lanes<A>;
    const float factor = control ? scale * control->loss_scale : scale;
    for (int row = (int)blockIdx.x; row < l.n_rows; row += (int)gridDim.x) {
        A *x = logits + (size_t)row * (size_t)l.stride;
        const row_gradient g = {l.lse[row], factor, l.targets[row]};
        const es_split split =
            es_split_at((uintptr_t)(void *)x, sizeof(A), (size_t)l.vocab);
        for (size_t i = threadIdx.x; i < split.head + split.tail;
             i += blockDim.x)
            differentiate<1>(x, es_split_single(&split, i, lanes), &g);
        for (size_t i = threadIdx.x; i < split.n_packs; i += blockDim.x)
            differentiate<lanes>(x, split.head + i * lanes, &g);
    }
}

template <class A>
static void cross_entropy_backward(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride)
{
    /* lse is only read here. */
    const loss l = {NULL,
                    const_cast<float *>(es_at<float>(lse)),
                    es_at<int32_t>(targets),
                    n_rows,
                    vocab,
                    stride};
    es_launch(backend->device, "cross entropy's gradient",
              cross_entropy_backward_kernel<A>,
              es_blocks(backend, (size_t)n_rows, 1, 16),
              es_row_threads(vocab, es_lanes<A>, MOST_THREADS), 0,
              es_at<A>(logits), l, scale, es_at<es_control>(control));
}

template <class A>
void es_cuda_loss_ops(es_ops *ops)
{
    ops->cross_entropy = cross_entropy<A>;
    ops->cross_entropy_backward = cross_entropy_backward<A>;
}
ES_OF_ACTIVATIONS(es_cuda_loss_ops)
