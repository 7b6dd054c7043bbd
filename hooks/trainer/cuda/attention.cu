/** Attention as operations of the back-end: which kernels do it, and what all
 *  of them need afterwards. */
#include "hooks/trainer/cuda/attention.h"

enum { N_THREADS = 256, WARP = 32 };

/* Of means and dots each. */
static size_t scratch_part(int n_rows, int n_head)
{
    return (size_t)n_rows * (size_t)n_head * sizeof(float);
}

size_t es_cuda_attention_scratch(const es_extents *largest)
{
    return 2 * scratch_part(largest->n_rows, largest->n_head);
}

/* --- rows that are not finite --------------------------------------------- */

/* Sums over a row, by its definition. */
typedef struct row_sums {
    double largest, sum, moment, first;
    bool finite;
} row_sums;

__device__ static double sum_lanes(double x)
{
    for (int across = WARP / 2; across > 0; across /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, across);
    return x;
}

/* NaN beats all, as it is not less. */
__device__ static double largest_lane(double x)
{
    for (int across = WARP / 2; across > 0; across /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, x, across);
        x = other > x || isnan(other) ? other : x;
    }
    return x;
}

template <class A>
__device__ static double score(const es_attention_call<A> *call, int head,
                               int row, int key)
{
    const size_t at = es_attention_qkv_at(call, head);
    const size_t stride = 3 * (size_t)call->d_model;
    const A *q = call->qkv + at + (size_t)row * stride;
    const A *k = call->qkv + at + (size_t)key * stride + call->d_model;
    float sum = 0;
    for (int c = 0; c < call->width; c++)
        sum = fmaf(es_float(q[c]), es_float(k[c]), sum);
    return (double)(sum * es_attention_scale(call, head, row));
}

/* By all lanes together, each its keys. */
template <class A>
__device__ static row_sums sum_row(const es_attention_call<A> *call, int head,
                                   int row, int lane)
{
    row_sums sums = {-(double)INFINITY, 0, 0, 0, true};
    for (int j = lane; j <= row; j += WARP) {
        double s = score(call, head, row, j);
        sums.finite = sums.finite && isfinite(s);
        if (s > sums.largest || isnan(s))
            sums.largest = s;
    }
    sums.largest = largest_lane(sums.largest);
    sums.finite = __all_sync(0xffffffffu, sums.finite) != 0;
    for (int j = lane; j <= row; j += WARP) {
        double x = score(call, head, row, j) - sums.largest, p = exp(x);
        sums.sum += p;
        sums.moment += p > 0 ? p * x : 0;
        if (j == 0)
            sums.first = p;
    }
    sums.sum = sum_lanes(sums.sum);
    sums.moment = sum_lanes(sums.moment);
    return sums;
}

__device__ static void mend_value(float *array, size_t at, bool finite,
                                  double value)
{
    if (array)
        array[at] = finite ? (float)value : NAN;
}

template <class A>
__device__ static void mend_softmax(const es_attention_call<A> *call, int head,
                                    int row, int lane)
{
    const size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    const row_sums sums = sum_row(call, head, row, lane);
    const double log_sum = log(sums.sum);
    int n = 0;
    for (int j = lane; !sums.finite && j <= row; j += WARP)
        if (!isfinite(exp(score(call, head, row, j) - sums.largest) / sums.sum))
            n++;
    for (int across = WARP / 2; across > 0; across /= 2)
        n += __shfl_xor_sync(0xffffffffu, n, across);
    if (lane != 0)
        return;
    mend_value(call->entropy, at, sums.finite,
               log_sum - sums.moment / sums.sum);
    mend_value(call->lse, at, sums.finite, sums.largest + log_sum);
    mend_value(call->max_logit, at, sums.finite, sums.largest);
    mend_value(call->sink, at, sums.finite, sums.first / sums.sum);
    mend_value(call->missing, at, sums.finite, 0);
    if (call->nonfinite)
        call->nonfinite[at] = n;
}

/* Each weight holds the largest score and the sum of all: where one is not
 * finite none is. */
template <class A>
__device__ static void mark_power(const es_attention_call<A> *call, size_t at,
                                  int row)
{
    mend_value(call->entropy, at, false, 0);
    mend_value(call->max_logit, at, false, 0);
    mend_value(call->sink, at, false, 0);
    mend_value(call->missing, at, false, 0);
    if (call->nonfinite)
        call->nonfinite[at] = row + 1;
}

/* A warp looks at 32 rows and does those of them again, together, whose sums
 * were not finite. */
template <class A>
__global__ void __launch_bounds__(N_THREADS)
    attention_mend_kernel(es_attention_call<A> call)
{
    const es_saved_row *saved = (const es_saved_row *)(const void *)call.saved;
    const size_t n_rows =
        (size_t)call.n_batch * (size_t)call.n_head * (size_t)call.n_ctx;
    const int lane = (int)threadIdx.x % WARP;
    const size_t first =
        (size_t)blockIdx.x * N_THREADS + threadIdx.x / WARP * WARP;
    const size_t at = first + (size_t)lane;
    bool bad = at < n_rows &&
               !(isfinite(saved[at].inverse) && isfinite(saved[at].center));
    unsigned all = __ballot_sync(0xffffffffu, bad);
    for (int i = 0; all != 0 && i < WARP; i++) {
        const size_t which = first + (size_t)i;
        const int row = (int)(which % (size_t)call.n_ctx);
        if (!(all >> i & 1))
            continue;
        if (call.power == 0)
            mend_softmax(&call, (int)(which / (size_t)call.n_ctx), row, lane);
        else if (lane == 0)
            mark_power(&call, which, row);
    }
}

/* --- temperatures --------------------------------------------------------- */

/* dt = -(1/t) sum over the batch of sum_j dz_j z_j; 0 below the floor. */
template <class A>
__global__ void __launch_bounds__(N_THREADS)
    attention_dt_kernel(es_attention_call<A> call)
{
    const int n = call.n_head * call.n_ctx;
    const int i = (int)(blockIdx.x * N_THREADS + threadIdx.x);
    float sum = 0, t;
    if (i >= n)
        return;
    for (int b = 0; b < call.n_batch; b++)
        sum += call.dots[(size_t)b * (size_t)n + (size_t)i];
    t = call.temperature[i];
    if (!(t <= ES_MIN_TEMPERATURE))
        call.dt[i] -= sum / t;
}

/* --- the operations ------------------------------------------------------- */

static dim3 blocks_for(size_t n)
{
    return dim3((unsigned)((n + N_THREADS - 1) / N_THREADS));
}

template <class A>
static es_attention_call<A> call_of(const es_mem *qkv, const es_mem *saved,
                                    const es_mem *y,
                                    const es_attention *attention)
{
    es_attention_call<A> call = {};
    call.n_batch = attention->n_batch;
    call.n_ctx = attention->n_ctx;
    call.n_head = attention->n_head;
    call.d_model = attention->d_model;
    call.width = attention->d_model / attention->n_head;
    call.power = attention->kind == ES_POWER_SOFTMAX ? attention->power : 0;
    call.epsilon = attention->epsilon;
    call.scale = 1 / sqrtf((float)call.width);
    call.temperature = call.power == 0 && attention->temperature
                           ? es_at<float>(attention->temperature)
                           : NULL;
    call.qkv = es_at<A>(qkv);
    call.saved = (float *)es_at<float>(saved);
    call.y = (A *)es_at<A>(y);
    return call;
}

template <class A>
static void add_statistics(es_attention_call<A> *call, const es_row_mem *rows)
{
    call->measures = true;
    call->entropy = es_at<float>(rows->entropy);
    call->lse = es_at<float>(rows->lse);
    call->max_logit = es_at<float>(rows->max_logit);
    call->sink = es_at<float>(rows->sink);
    call->missing = es_at<float>(rows->missing);
    call->nonfinite = es_at<int32_t>(rows->nonfinite);
}

template <class A>
void es_cuda_attention(es_backend *backend, es_mem *y, es_mem *saved,
                       const es_row_mem *rows, const es_mem *qkv,
                       const es_attention *attention)
{
    es_attention_call<A> call = call_of<A>(qkv, saved, y, attention);
    const size_t n_rows =
        (size_t)call.n_batch * (size_t)call.n_head * (size_t)call.n_ctx;
    if (rows)
        add_statistics(&call, rows);
    if (!es_cuda_attention_mma(backend->device, &call))
        es_cuda_attention_fma(backend->device, &call);
    if (rows)
        es_launch(backend->device, "attention_mend", attention_mend_kernel<A>,
                  blocks_for(n_rows), N_THREADS, 0, call);
}

template <class A>
void es_cuda_attention_backward(es_backend *backend, es_mem *dqkv, es_mem *dt,
                                const es_mem *dy, const es_mem *y,
                                const es_mem *dentropy, const es_mem *qkv,
                                const es_mem *saved,
                                const es_attention *attention)
{
    es_attention_call<A> call = call_of<A>(qkv, saved, y, attention);
    const size_t part = scratch_part(call.n_batch * call.n_ctx, call.n_head);
    call.dy = es_at<A>(dy);
    call.dentropy = dentropy ? es_at<float>(dentropy) : NULL;
    call.dqkv = es_at<A>(dqkv);
    call.means = es_at<float>(backend->scratch);
    if (dt && call.temperature) {
        call.dt = es_at<float>(dt);
        call.dots = es_at<float>(es_mem_at(backend->scratch, part));
    }
    if (!es_cuda_attention_mma_backward(backend->device, &call))
        es_cuda_attention_fma_backward(backend->device, &call);
    if (call.dt)
        es_launch(backend->device, "attention_dt", attention_dt_kernel<A>,
                  blocks_for((size_t)call.n_head * (size_t)call.n_ctx),
                  N_THREADS, 0, call);
}

#define INSTANTIATE(A)                                                         \
    template void es_cuda_attention<A>(es_backend *, es_mem *, es_mem *,       \
                                       const es_row_mem *, const es_mem *,     \
                                       const es_attention *);                  \
    template void es_cuda_attention_backward<A>(                               \
        es_backend *, es_mem *, es_mem *, const es_mem *, const es_mem *,      \
        const es_mem *, const es_mem *, const es_mem *, const es_attention *);
INSTANTIATE(float)
INSTANTIATE(es_bf16)
INSTANTIATE(es_fp16)
