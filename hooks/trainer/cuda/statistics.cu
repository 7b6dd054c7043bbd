/* Computes the statistics of a training step: the entropy penalty, the
 * statistics of heads from row statistics, the statistics of activations, and
 * the mean loss. All sums are in double. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

/* --- the regulariser: a block for each head ------------------------------- */

typedef struct penalty_arguments {
    double *sums; /* sum of each head's penalties, of shape (H) */
    float *dentropy, *dtheta;
    const float *entropy, *theta;
    const es_control *control;
    es_penalty how;
    float scale;
} penalty_arguments;

/* Parameters of the head that a block processes. */
typedef struct head {
    int rows; /* number of rows of the head, B * T */
    double theta, largest, factor;
} head;

static __device__ head open_head(const penalty_arguments *a)
{
    const es_penalty *how = &a->how;
    const double loss_scale = a->control ? (double)a->control->loss_scale : 1;
    const double share = 1.0 / how->n_layer / how->n_head;
    head h = {how->n_batch * how->n_ctx, 0, log((double)how->n_ctx), 0};
    h.theta = (double)a->theta[blockIdx.x];
    h.factor = share * (double)how->lambda * (double)a->scale * loss_scale;
    return h;
}

/* Returns the offset of the i-th row of the head that the block processes. */
static __device__ size_t row_at(const es_penalty *how, int i)
{
    const int b = i / how->n_ctx, at = i - b * how->n_ctx;
    const size_t sequence = (size_t)b * (size_t)how->n_head + blockIdx.x;
    return sequence * (size_t)how->n_ctx + (size_t)at;
}

/* Returns the regulariser's penalty of an entropy e, and writes the derivative
 * to *slope. Deviations within the tolerance are not penalised, and neither is
 * NaN. */
static __device__ double penalise_entropy(double *slope, double e,
                                          const head *h, double gamma)
{
    const double deviation = e - h->theta * h->largest;
    const bool counts = fabs(deviation) > gamma * h->largest;
    *slope = counts ? 2 * deviation : 0;
    return counts ? deviation * deviation : 0;
}

/* Returns the sum of the penalties of the head's rows. A row whose entropy is
 * not finite is not penalised. */
static __device__ double penalise_rows(double *slopes,
                                       const penalty_arguments *a,
                                       const head *h, double *shared)
{
    double sum = 0, own = 0;
    for (int i = (int)threadIdx.x; i < h->rows; i += (int)blockDim.x) {
        const size_t at = row_at(&a->how, i);
        const double e = (double)a->entropy[at];
        double slope = 0;
        if (isfinite(e))
            sum += penalise_entropy(&slope, e, h, (double)a->how.gamma);
        own += slope;
        if (a->dentropy)
            a->dentropy[at] = (float)(h->factor * slope);
    }
    *slopes = es_block_sum(own, shared);
    return es_block_sum(sum, shared);
}

/* Returns the penalty of the head's mean entropy. Rows whose entropy is not
 * finite are excluded from the mean and get a gradient of 0. */
static __device__ double penalise_mean(double *slopes,
                                       const penalty_arguments *a,
                                       const head *h, double *shared)
{
    double sum = 0, n = 0;
    for (int i = (int)threadIdx.x; i < h->rows; i += (int)blockDim.x) {
        const double e = (double)a->entropy[row_at(&a->how, i)];
        sum += isfinite(e) ? e : 0;
        n += isfinite(e) ? 1 : 0;
    }
    sum = es_block_sum(sum, shared);
    n = es_block_sum(n, shared);
    const double result =
        penalise_entropy(slopes, sum / n, h, (double)a->how.gamma);
    const float each = (float)(h->factor * *slopes / n);
    for (int i = (int)threadIdx.x; a->dentropy && i < h->rows;
         i += (int)blockDim.x) {
        const size_t at = row_at(&a->how, i);
        a->dentropy[at] = isfinite(a->entropy[at]) ? each : 0;
    }
    return result;
}

static __global__ void entropy_penalty_kernel(penalty_arguments a)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const head h = open_head(&a);
    double slopes;
    const double sum = a.how.mean ? penalise_mean(&slopes, &a, &h, shared)
                                  : penalise_rows(&slopes, &a, &h, shared);
    if (threadIdx.x != 0)
        return;
    a.sums[blockIdx.x] = sum;
    if (a.dtheta)
        a.dtheta[blockIdx.x] -= (float)(h.factor * slopes * h.largest);
}

/* Adds up the penalties of all heads in the order of heads. */
static __global__ void add_penalties_kernel(float *loss, const double *sums,
                                            int n_head, int n_layer)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double sum = es_sum_pieces(sums, n_head, shared);
    if (threadIdx.x == 0)
        loss[0] += (float)(1.0 / n_layer / n_head * sum);
}

static void entropy_penalty(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control)
{
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    const penalty_arguments a = {es_at<double>(backend->scratch),
                                 es_at<float>(dentropy),
                                 es_at<float>(dtheta),
                                 es_at<float>(entropy),
                                 es_at<float>(penalty->theta),
                                 es_at<es_control>(control),
                                 *penalty,
                                 scale};
    /* Blocks are large, because there are few heads and each block processes
     * one head. */
    const int n_threads =
        es_row_threads(penalty->n_batch * penalty->n_ctx, 1, 1024);
    es_launch(backend->device, "entropy penalty", entropy_penalty_kernel,
              (unsigned)penalty->n_head, n_threads, shared, a);
    if (loss)
        es_launch(backend->device, "entropy penalty", add_penalties_kernel, 1,
                  32, shared, es_at<float>(loss), (const double *)a.sums,
                  penalty->n_head, penalty->n_layer);
}

/* --- rows of heads: a block for each head --------------------------------- */

/* The kernel below computes the same as es_head_sums_add_rows, but each thread
 * processes only a part of the rows. */

typedef struct measured {
    const float *rows[ES_N_ROW_STATISTICS];
} measured;

static __device__ void add_row(es_head_sums *share, const measured *m,
                               size_t at)
{
    const bool finite = isfinite(m->rows[ES_ROW_ENTROPY][at]);
    share->finite_rows += finite ? 1 : 0;
#pragma unroll
    for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
        const es_head_series series = (es_head_series)i;
        const float *x = m->rows[es_head_row(series)];
        share->values[i] =
            es_head_share_add(share->values[i], series, finite,
                              x ? (double)x[at] : es_head_share_start(series));
    }
}

/* Merges the results of the warp's lanes for a sequence. Every lane gets the
 * merged result. */
static __device__ void merge_lanes(es_head_sums *share)
{
    share->finite_rows = es_warp_sum(share->finite_rows);
#pragma unroll
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        share->values[i] =
            es_head_reduction_of((es_head_series)i) == ES_HEADS_LARGEST
                ? es_warp_max(share->values[i])
                : es_warp_sum(share->values[i]);
}

/* Merges the sums of all warps over the rows of a sequence, and computes the
 * series' values from the merged sums. */
static __device__ void end_sequence(es_head_sums *share,
                                    const es_head_sums *warps, int n_warps)
{
    for (int warp = 1; warp < n_warps; warp++) {
        share->finite_rows += warps[warp].finite_rows;
        for (int i = 0; i < ES_N_HEAD_SERIES; i++)
            share->values[i] = es_head_share_merge(
                share->values[i], warps[warp].values[i], (es_head_series)i);
    }
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        share->values[i] = es_head_share_end(
            share->values[i], (es_head_series)i, share->finite_rows);
}

static __device__ es_head_sums start_share(void)
{
    es_head_sums share;
    share.finite_rows = 0;
#pragma unroll
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        share.values[i] = es_head_share_start((es_head_series)i);
    return share;
}

/* Computes the sums of one head of one layer per block, for all layers and
 * heads (L,H). The block's threads form groups of n_group threads, and each
 * group processes one sequence at a time. The sums are added in a fixed order:
 * first the sequences of each group, then the groups. */
static __global__ void measure_rows_kernel(es_head_sums *sums, measured m,
                                           int n_batch, int n_head, int n_ctx,
                                           int n_group)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(es_head_sums, warps); /* results of n_warps warps; the
                                             * results of groups follow */
    const int n_groups = (int)blockDim.x / n_group;
    const int group = (int)threadIdx.x / n_group;
    const int own = (int)threadIdx.x % n_group;
    const int layer = (int)blockIdx.x / n_head;
    es_head_sums *groups = warps + blockDim.x / 32;
    if (own == 0)
        groups[group] = es_head_sums_start();
    for (int first = 0; first < n_batch; first += n_groups) {
        const int b = first + group;
        const size_t sequence =
            ((size_t)layer * (size_t)n_batch + (size_t)b) * (size_t)n_head +
            blockIdx.x % (unsigned)n_head;
        es_head_sums share = start_share();
        for (int i = own; b < n_batch && i < n_ctx; i += n_group)
            add_row(&share, &m, sequence * (size_t)n_ctx + (size_t)i);
        merge_lanes(&share);
        if (threadIdx.x % 32 == 0)
            warps[threadIdx.x / 32] = share;
        __syncthreads();
        if (own == 0 && b < n_batch) {
            end_sequence(&share, warps + threadIdx.x / 32, n_group / 32);
            es_head_sums_add(&groups[group], &share);
        }
        __syncthreads();
    }
    for (int i = 0; threadIdx.x == 0 && i < n_groups; i++)
        es_head_sums_add(&sums[blockIdx.x], &groups[i]);
}

static void measure_rows(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_layer, int n_batch,
                         int n_head, int n_ctx)
{
    constexpr int most = 512;
    measured m;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        m.rows[i] = es_at<float>((const es_mem *)rows->array[i]);
    const int n_group = es_row_threads(n_ctx, 1, most);
    const int fitting = most / n_group;
    const int n_groups = fitting < n_batch ? fitting : n_batch;
    es_launch(backend->device, "statistics of heads", measure_rows_kernel,
              (unsigned)(n_layer * n_head), n_groups * n_group,
              (size_t)(n_groups * n_group / 32 + n_groups) *
                  sizeof(es_head_sums),
              es_at<es_head_sums>(sums), m, n_batch, n_head, n_ctx, n_group);
}

/* --- activations ---------------------------------------------------------- */

template <int W, class A>
static ES_DEVICE void add_activations(es_layer_sums *to, const A *x)
{
    float v[W];
    es_load(v, x);
#pragma unroll
    for (int c = 0; c < W; c++) {
        to->nonfinite += isfinite(v[c]) ? 0 : 1;
        to->squares += (double)v[c] * (double)v[c];
    }
}

/* Each block of threads writes one element of `pieces`: the sum of squares and
 * the number of non-finite values of the activations that it has read. */
template <class A>
static __global__ void activation_stats_kernel(es_layer_sums *pieces,
                                               const A *x, es_split split)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    constexpr int lanes = es_lanes<A>;
    es_layer_sums own = {0, 0};
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads())
        add_activations<1>(&own, x + es_split_single(&split, i, lanes));
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads())
        add_activations<lanes>(&own, x + split.head + i * lanes);
    const double squares = es_block_sum(own.squares, shared);
    const uint64_t nonfinite =
        es_block_sum(own.nonfinite, (uint64_t *)(void *)shared);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = {nonfinite, squares};
}

static __global__ void add_layer_kernel(es_layer_sums *sums,
                                        const es_layer_sums *pieces, int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    es_layer_sums own = {0, 0};
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        own.nonfinite += pieces[i].nonfinite;
        own.squares += pieces[i].squares;
    }
    const double squares = es_block_sum(own.squares, shared);
    const uint64_t nonfinite =
        es_block_sum(own.nonfinite, (uint64_t *)(void *)shared);
    if (threadIdx.x == 0) {
        sums->squares += squares;
        sums->nonfinite += nonfinite;
    }
}

template <class A>
static void activation_stats(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n)
{
    const unsigned blocks = es_pieces(backend, n, ES_THREADS * es_lanes<A>, 4);
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    es_layer_sums *pieces = es_at<es_layer_sums>(backend->scratch);
    es_launch(backend->device, "statistics of activations",
              activation_stats_kernel<A>, blocks, ES_THREADS, shared, pieces,
              es_at<A>(x), es_split_of(n, es_at<A>(x)));
    es_launch(backend->device, "statistics of activations", add_layer_kernel, 1,
              ES_THREADS, shared, es_at<es_layer_sums>(sums),
              (const es_layer_sums *)pieces, (int)blocks);
}

/* --- the mean loss -------------------------------------------------------- */

static __global__ void add_mean_kernel(double *sum, const float *x, size_t n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    double own = 0;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        own += (double)x[i];
    own = es_block_sum(own, shared);
    if (threadIdx.x == 0)
        sum[0] += own / (double)n;
}

static void add_mean(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n)
{
    es_launch(backend->device, "mean loss", add_mean_kernel, 1, 1024,
              ES_MAX_WARPS * sizeof(double), es_at<double>(sum),
              es_at<float>(x), n);
}

template <class A>
void es_cuda_statistics_ops(es_ops *ops)
{
    ops->entropy_penalty = entropy_penalty;
    ops->measure_rows = measure_rows;
    ops->activation_stats = activation_stats<A>;
    ops->add_mean = add_mean;
}
ES_OF_ACTIVATIONS(es_cuda_statistics_ops)
