/* Implements LayerNorm with one warp per row. A row is read several times, but
 * only the first read goes to memory; later reads find the row in the cache. */
#include "hooks/trainer/cuda/reduce.h"

typedef struct norm_forward {
    float *mean, *rstd;
    const float *weight, *bias;
    int n_rows, width;
    float epsilon;
} norm_forward;

/* first_row returns the first row that a warp processes, and row_step the
 * distance to the warp's next row. */
static __device__ int first_row()
{
    return (int)(es_thread() / 32);
}
static __device__ int row_step()
{
    return (int)(es_all_threads() / 32);
}

/* Returns the sum over the warp's row of x, or of (x - from)^2 if `power` is
 * 2. */
template <int power, int W, class A>
static __device__ float row_sum(const A *x, int width, float from)
{
    float sum = 0;
    for (int j = (int)threadIdx.x % 32 * W; j < width; j += 32 * W) {
        float v[W];
        es_load(v, x + j);
#pragma unroll
        for (int c = 0; c < W; c++)
            sum += power == 1 ? v[c] : (v[c] - from) * (v[c] - from);
    }
    return es_warp_sum(sum);
}

template <class A, int W>
static __device__ void normalise_row(A *y, const A *x, const norm_forward *n,
                                     float mean, float rstd)
{
    for (int j = (int)threadIdx.x % 32 * W; j < n->width; j += 32 * W) {
        float v[W], weight[W], bias[W];
        es_load(v, x + j);
        es_load(weight, n->weight + j);
        es_load(bias, n->bias + j);
#pragma unroll
        for (int c = 0; c < W; c++)
            v[c] = (v[c] - mean) * rstd * weight[c] + bias[c];
        es_store(y + j, v);
    }
}

template <class A, int W>
static __global__ void layer_norm_kernel(A *y, const A *x, norm_forward n)
{
    es_begin_kernel();
    const float width = (float)n.width;
    for (int row = first_row(); row < n.n_rows; row += row_step()) {
        const size_t at = (size_t)row * (size_t)n.width;
        const float mean = row_sum<1, W>(x + at, n.width, 0.f) / width;
        const float variance = row_sum<2, W>(x + at, n.width, mean) / width;
        const float rstd = 1 / sqrtf(variance + n.epsilon);
        normalise_row<A, W>(y + at, x + at, &n, mean, rstd);
        if (threadIdx.x % 32 == 0) {
            n.mean[row] = mean;
            n.rstd[row] = rstd;
        }
    }
}

template <class A>
static void layer_norm(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, es_mem *, const es_mem *x,
                       const es_mem *weight, const es_mem *bias, int n_rows,
                       int width, float epsilon)
{
    const norm_forward n = {es_at<float>(mean),
                            es_at<float>(rstd),
                            es_at<float>(weight),
                            es_at<float>(bias),
                            n_rows,
                            width,
                            epsilon};
    const bool fits =
        width % es_lanes<A> == 0 && es_packs_fit(y, x, weight, bias);
    es_launch(backend->device, "layer norm",
              fits ? layer_norm_kernel<A, es_lanes<A>>
                   : layer_norm_kernel<A, 1>,
              es_blocks(backend, (size_t)n_rows, ES_THREADS / 32, 8),
              ES_THREADS, 0, es_at<A>(y), es_at<A>(x), n);
}

/* --- the backward pass ------------------------------------------------------
 *
 * Each warp sums the columns of dweight and dbias over its rows in shared
 * memory, each block sums over its warps in scratch, and a second kernel over
 * the blocks. */

typedef struct norm_backward {
    float *partial; /* (blocks,2*width) each thread block's sums for dweight,
                       followed by its sums for dbias */
    const float *mean, *rstd, *weight;
    int n_rows, width;
} norm_backward;

/* A lane's packs (vector loads) of one row of dx, dy and x. If N > 0, the N
 * packs of each array are read at once and stay in registers. If N is 0, the
 * row may have any width, and packs are read when they are needed. */
template <class A, int W, int N>
struct row_packs {
    A *dx;
    const A *dy, *x;
    uint4 of_dx[N > 0 ? N : 1], of_dy[N > 0 ? N : 1], of_x[N > 0 ? N : 1];
};

/* Returns the first column of the k-th vector load (pack) of the lane. */
template <int W>
static ES_DEVICE int pack_at(int k)
{
    return (k * 32 + (int)threadIdx.x % 32) * W;
}

template <class A, int W, int N>
static ES_DEVICE void read_packs(row_packs<A, W, N> *row, int width)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int j = pack_at<W>(k);
        if (j >= width)
            continue;
        row->of_dy[k] = *(const uint4 *)(const void *)(row->dy + j);
        row->of_x[k] = *(const uint4 *)(const void *)(row->x + j);
        row->of_dx[k] = *(const uint4 *)(const void *)(row->dx + j);
    }
}

/* Loads this lane's k-th vectors (packs) of dy and of x, which begin at column
 * j. */
template <class A, int W, int N>
static ES_DEVICE void take_pack(float (&d)[W], float (&v)[W],
                                const row_packs<A, W, N> *row, int k, int j)
{
    if constexpr (N > 0) {
        es_load(d, (const A *)(const void *)&row->of_dy[k]);
        es_load(v, (const A *)(const void *)&row->of_x[k]);
    } else {
        es_load(d, row->dy + j);
        es_load(v, row->x + j);
    }
}

/* Computes two means over the row: of g = dy * weight, and of g times the
 * normalised x. */
template <class A, int W, int N>
static ES_DEVICE void row_means(float *mean_g, float *mean_gx,
                                const row_packs<A, W, N> *row,
                                const norm_backward *n, float mean, float rstd)
{
    const float width = (float)n->width;
    float sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; N > 0 ? k < N : pack_at<W>(k) < n->width; k++) {
        const int j = pack_at<W>(k);
        float d[W], v[W], weight[W];
        if (j >= n->width)
            continue;
        take_pack(d, v, row, k, j);
        es_load(weight, n->weight + j);
#pragma unroll
        for (int c = 0; c < W; c++) {
            sum += d[c] * weight[c];
            dot += d[c] * weight[c] * (v[c] - mean);
        }
    }
    *mean_g = es_warp_sum(sum) / width;
    *mean_gx = es_warp_sum(dot) * rstd / width;
}

/* Computes the backward pass of one row: adds to dx, and to the lane's column
 * sums for dweight and dbias. */
template <class A, int W, int N>
static ES_DEVICE void row_back(row_packs<A, W, N> *row, float *sums,
                               const norm_backward *n, float mean, float rstd)
{
    const int lane = (int)threadIdx.x % 32;
    const int n_slots = es_n_slots(n->width, W);
    float mean_g, mean_gx;
    read_packs(row, n->width);
    row_means(&mean_g, &mean_gx, row, n, mean, rstd);
#pragma unroll
    for (int k = 0; N > 0 ? k < N : pack_at<W>(k) < n->width; k++) {
        const int j = pack_at<W>(k);
        float d[W], v[W], weight[W], out[W];
        if (j >= n->width)
            continue;
        take_pack(d, v, row, k, j);
        es_load(weight, n->weight + j);
        if constexpr (N > 0)
            es_load(out, (const A *)(const void *)&row->of_dx[k]);
        else
            es_load(out, row->dx + j);
#pragma unroll
        for (int c = 0; c < W; c++) {
            const float normal = (v[c] - mean) * rstd;
            float *own = sums + es_slot(lane, k, c, W);
            out[c] += rstd * (d[c] * weight[c] - mean_g - normal * mean_gx);
            own[0] += d[c] * normal;
            own[n_slots] += d[c];
        }
        es_store(row->dx + j, out);
    }
}

template <class A, int W, int N>
static __global__ void layer_norm_backward_kernel(A *dx, const A *dy,
                                                  const A *x, norm_backward n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, all);
    const int n_warps = (int)blockDim.x / 32, n_slots = es_n_slots(n.width, W);
    float *own = all + (int)threadIdx.x / 32 * 2 * n_slots;
    for (int i = (int)threadIdx.x % 32; i < 2 * n_slots; i += 32)
        own[i] = 0;
    __syncwarp();
    for (int row = first_row(); row < n.n_rows; row += row_step()) {
        const size_t at = (size_t)row * (size_t)n.width;
        row_packs<A, W, N> packs = {dx + at, dy + at, x + at, {}, {}, {}};
        row_back(&packs, own, &n, n.mean[row], n.rstd[row]);
    }
    __syncthreads();
    float *to = n.partial + (size_t)blockIdx.x * 2 * (size_t)n.width;
    for (int i = (int)threadIdx.x; i < 2 * n.width; i += (int)blockDim.x) {
        const int which = i / n.width, column = i - which * n.width;
        const int slot = which * n_slots + es_slot_of_column(column, W);
        float sum = all[slot];
        for (int warp = 1; warp < n_warps; warp++)
            sum += all[warp * 2 * n_slots + slot];
        to[i] = sum;
    }
}

/* N_COLUMNS is the number of columns that a block of add_columns_kernel
 * processes, and N_SHARES the number of threads per column. */
#define N_COLUMNS 32
#define N_SHARES 16

/* Adds the column sums of `partial` (n_pieces,2*n) to dweight (n) and dbias
 * (n): the first n sums to dweight, the others to dbias. */
static __global__ void add_columns_kernel(float *dweight, float *dbias,
                                          const float *partial, int n_pieces,
                                          int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, sums);
    const int lane = (int)threadIdx.x % N_COLUMNS;
    const int share = (int)threadIdx.x / N_COLUMNS;
    const int column = (int)blockIdx.x * N_COLUMNS + lane;
    float sum = 0;
#pragma unroll 8
    for (int i = share; column < 2 * n && i < n_pieces; i += N_SHARES)
        sum += partial[(size_t)i * 2 * (size_t)n + (size_t)column];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (share != 0 || column >= 2 * n)
        return;
    for (int i = 1; i < N_SHARES; i++)
        sum += sums[i * N_COLUMNS + lane];
    float *to = column < n ? dweight + column : dbias + (column - n);
    to[0] += sum;
}

/* Returns the number of warps of a block, chosen so that the warps' sums fit in
 * 48 KiB of shared memory and several blocks share a multiprocessor. The result
 * is at least 1. */
static int count_warps(int n_slots)
{
    const size_t bytes = 2 * (size_t)n_slots * sizeof(float);
    const size_t n = ((size_t)48 << 10) / bytes;
    return (int)(n < 1 ? 1 : n < ES_THREADS / 32 ? n : ES_THREADS / 32);
}

/* Returns the kernel for rows of this width. Rows of at most 4 vector loads
 * (packs) per lane are kept in registers. */
template <class A>
static void (*norm_backward_of(int width, bool fits))(A *, const A *, const A *,
                                                      norm_backward)
{
    constexpr int W = es_lanes<A>;
    if (!fits)
        return layer_norm_backward_kernel<A, 1, 0>;
    switch (es_ceil_div((size_t)width, 32 * W)) {
    case 1:
        return layer_norm_backward_kernel<A, W, 1>;
    case 2:
        return layer_norm_backward_kernel<A, W, 2>;
    case 3:
        return layer_norm_backward_kernel<A, W, 3>;
    case 4:
        return layer_norm_backward_kernel<A, W, 4>;
    default:
        return layer_norm_backward_kernel<A, W, 0>;
    }
}

template <class A>
static void layer_norm_backward(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width)
{
    const norm_backward n = {es_at<float>(backend->scratch),
                             es_at<float>(mean),
                             es_at<float>(rstd),
                             es_at<float>(weight),
                             n_rows,
                             width};
    const bool fits =
        width % es_lanes<A> == 0 && es_packs_fit(dx, dy, x, weight);
    const int n_slots = es_n_slots(width, fits ? es_lanes<A> : 1);
    const int n_warps = count_warps(n_slots);
    const unsigned blocks =
        es_pieces(backend, (size_t)n_rows, (size_t)n_warps, 2);
    es_launch(backend->device, "layer norm's gradient",
              norm_backward_of<A>(width, fits), blocks, 32 * n_warps,
              (size_t)n_warps * 2 * (size_t)n_slots * sizeof(float),
              es_at<A>(dx), es_at<A>(dy), es_at<A>(x), n);
    es_launch(backend->device, "column sums", add_columns_kernel,
              (unsigned)es_ceil_div(2 * (size_t)width, N_COLUMNS),
              N_COLUMNS * N_SHARES, N_COLUMNS * N_SHARES * sizeof(float),
              es_at<float>(dweight), es_at<float>(dbias),
              (const float *)n.partial, (int)blocks, width);
}

/* Returns the number of bytes of scratch memory that this file needs. The same
 * memory suffices for the other files in this folder that process rows or
 * compute sums. */
size_t es_cuda_rows_scratch(const es_extents *largest)
{
    const size_t norm =
        ES_MAX_PIECES * 2 * (size_t)largest->width * sizeof(float);
    const size_t bytes[] = {norm, es_cuda_embed_scratch(largest),
                            (size_t)largest->n_head * sizeof(double),
                            es_pieces_bytes(2)};
    size_t most = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}

template <class A>
void es_cuda_norm_ops(es_ops *ops)
{
    ops->layer_norm = layer_norm<A>;
    ops->layer_norm_backward = layer_norm_backward<A>;
}
ES_OF_ACTIVATIONS(es_cuda_norm_ops)
