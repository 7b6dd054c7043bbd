/* Implements cross-entropy. Each block processes one row of logits. If the loss
 * and its gradient are computed together, the row is read from memory only
 * once. A row may begin at any address, so it may have single elements before
 * and after its packs of 16 bytes. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

typedef struct loss {
    float *row_loss, *lse;
    const int32_t *targets;
    int n_rows, vocab, stride;
} loss;

/* Maximum number of threads of a block. Each thread reads one or more packs (16
 * bytes) of a row. */
#define MOST_THREADS 512

/* State of a sum over a row: the largest number so far, and the sum of exp(x -
 * largest). NaN makes the sum NaN, but is ignored in `largest`. */
typedef struct online {
    float largest, sum;
} online;

/* Returns exp(x - from), and 0 if x is -inf. `from` may also be -inf, if all
 * numbers so far are -inf. */
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

/* Merges the results of all threads of the block. All threads get the merged
 * result. */
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

/* Computes the calling thread's part of the sum over a row. Unless `kept` is
 * NULL, also stores the logits that the thread reads in packs of 16 bytes in
 * `kept`, an array in shared memory. */
template <class A>
static __device__ online read_row(const A *row, int vocab, uint4 *kept)
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
        const A *pack = row + split.head + i * lanes;
        if (kept) {
            kept[i] = *(const uint4 *)(const void *)pack;
            pack = (const A *)(const void *)&kept[i];
        }
        float x[lanes];
        es_load(x, pack);
        add_logits(&own, x);
    }
    return own;
}

/* Returns ln of the row's sum. The sum is relative to the row's largest number,
 * which the caller must add to the result. Returns NaN if all numbers of the
 * row are -inf, because their weights are undefined. */
static ES_DEVICE float log_sum_of(const online *all)
{
    return all->largest == -INFINITY ? NAN : logf(all->sum);
}

template <class A>
static __global__ void cross_entropy_kernel(loss l, const A *logits)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(online, shared);
    for (int row = (int)blockIdx.x; row < l.n_rows; row += (int)gridDim.x) {
        const A *x = logits + (size_t)row * (size_t)l.stride;
        const online all = merge_block(read_row<A>(x, l.vocab, NULL), shared);
        const float log_sum = log_sum_of(&all);
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

/* Values that the gradient of a row needs and that are the same for all
 * columns. */
typedef struct row_gradient {
    float lse, scale;
    int target;
} row_gradient;

/* Computes the gradient of W logits, which are read from `from`, and writes it
 * to `row`, from column `column` on. */
template <int W, class A>
static ES_DEVICE void write_gradient(A *row, size_t column, const A *from,
                                     const row_gradient *g)
{
    float x[W];
    es_load(x, from);
#pragma unroll
    for (int c = 0; c < W; c++) {
        const float own = (int)column + c == g->target ? 1.f : 0.f;
        x[c] = (es_exp(x[c] - g->lse) - own) * g->scale;
    }
    es_store(row + column, x);
}

/* Replaces a row's logits by their gradient. Reads the logits from `kept`,
 * where read_row has stored them in packs of 16 bytes, unless `kept` is
 * NULL. */
template <class A>
static __device__ void differentiate_row(A *row, int vocab, const uint4 *kept,
                                         const row_gradient *g)
{
    constexpr int lanes = es_lanes<A>;
    const es_split split =
        es_split_at((uintptr_t)(void *)row, sizeof(A), (size_t)vocab);
    for (size_t i = threadIdx.x; i < split.head + split.tail; i += blockDim.x) {
        const size_t column = es_split_single(&split, i, lanes);
        write_gradient<1>(row, column, row + column, g);
    }
    for (size_t i = threadIdx.x; i < split.n_packs; i += blockDim.x) {
        const size_t column = split.head + i * lanes;
        const A *from = kept ? (const A *)(const void *)&kept[i] : row + column;
        write_gradient<lanes>(row, column, from, g);
    }
}

template <class A>
static __global__ void cross_entropy_backward_kernel(A *logits, loss l,
                                                     float scale,
                                                     const es_control *control)
{
    es_begin_kernel();
    const float factor = control ? scale * control->loss_scale : scale;
    for (int row = (int)blockIdx.x; row < l.n_rows; row += (int)gridDim.x) {
        const row_gradient g = {l.lse[row], factor, l.targets[row]};
        differentiate_row<A>(logits + (size_t)row * (size_t)l.stride, l.vocab,
                             NULL, &g);
    }
}

template <class A>
static void cross_entropy_backward(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride)
{
    /* the kernel only reads lse */
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

/* --- loss and gradient at once -------------------------------------------- */

/* Computes the loss of a row and replaces the logits by their gradient. Each
 * thread reads the same logits twice; if `keeps` is true, it stores them in its
 * part of the shared memory in between. */
template <class A>
static __global__ void cross_entropy_both_kernel(A *logits, loss l, float scale,
                                                 const es_control *control,
                                                 bool keeps)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(online, shared);
    uint4 *kept =
        keeps ? (uint4 *)(void *)(shared + ES_MAX_WARPS) : (uint4 *)NULL;
    const float factor = control ? scale * control->loss_scale : scale;
    for (int row = (int)blockIdx.x; row < l.n_rows; row += (int)gridDim.x) {
        A *x = logits + (size_t)row * (size_t)l.stride;
        const int target = l.targets[row];
        /* The target's logit is read here, because after the first barrier
         * other threads overwrite the logits. */
        const float own = threadIdx.x == 0 ? es_float(x[target]) : 0;
        const online all = merge_block(read_row<A>(x, l.vocab, kept), shared);
        const float log_sum = log_sum_of(&all);
        const row_gradient g = {all.largest + log_sum, factor, target};
        if (threadIdx.x == 0)
            l.row_loss[row] = log_sum + (all.largest - own);
        differentiate_row<A>(x, l.vocab, kept, &g);
    }
}

template <class A>
static void cross_entropy_both(es_backend *backend, es_mem *row_loss,
                               es_mem *logits, const es_mem *targets,
                               float scale, const es_mem *control, int n_rows,
                               int vocab, int stride)
{
    const loss l = {es_at<float>(row_loss),
                    NULL,
                    es_at<int32_t>(targets),
                    n_rows,
                    vocab,
                    stride};
    const size_t merging = ES_MAX_WARPS * sizeof(online);
    const size_t row = (size_t)vocab / es_lanes<A> * ES_PACK;
    /* Shared memory of a block if two blocks share a multiprocessor; the driver
     * reserves 1 KiB for each block. */
    const size_t most =
        es_device_facts_of(backend->device)->shared_bytes / 2 - 1024;
    const bool keeps = merging + row <= most;
    es_launch(backend->device, "cross entropy and its gradient",
              cross_entropy_both_kernel<A>,
              es_blocks(backend, (size_t)n_rows, 1, 16),
              es_row_threads(vocab, es_lanes<A>, MOST_THREADS),
              merging + (keeps ? row : 0), es_at<A>(logits), l, scale,
              es_at<es_control>(control), keeps);
}

template <class A>
void es_cuda_loss_ops(es_ops *ops)
{
    ops->cross_entropy = cross_entropy<A>;
    ops->cross_entropy_backward = cross_entropy_backward<A>;
    ops->cross_entropy_both = cross_entropy_both<A>;
}
ES_OF_ACTIVATIONS(es_cuda_loss_ops)
