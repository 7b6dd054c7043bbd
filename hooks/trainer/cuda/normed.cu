/* Computes normalised weights: WNorm scales each column v to the length g,
 * which gives g * v / |v|; SNorm divides a matrix m by its largest singular
 * value sigma. Sums are computed in double, first over groups of rows (slabs),
 * then over the groups. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

/* N_SLABS is the number of groups of rows (slabs) whose sums are computed
 * separately. N_THREADS is the number of threads of a block. */
#define N_SLABS 32
#define N_THREADS 64
#define PACK es_lanes<float>

/* Layout of the scratch memory: two sums for each slab (group of rows) and
 * column, (slabs,2,width); then the totals over all slabs, (2,width); then a
 * single number. */
typedef struct normed_layout {
    double *slabs, *sums, *one;
} normed_layout;

size_t es_cuda_normed_scratch(const es_extents *largest)
{
    const size_t width = (size_t)largest->width;
    return (2 * (N_SLABS + 1) * width + 1) * sizeof(double) +
           es_pieces_bytes(1);
}

static normed_layout lay_out(const es_backend *backend, const es_columns *c)
{
    const size_t width = (size_t)(c->n > c->n_in ? c->n : c->n_in);
    double *slabs = es_at<double>(backend->scratch);
    return {slabs, slabs + 2 * N_SLABS * width,
            slabs + 2 * (N_SLABS + 1) * width};
}

/* Returns the offset of the first selected column in row i. */
static __device__ size_t row_at(const es_columns *c, int i)
{
    return (size_t)i * (size_t)c->stride + (size_t)c->first;
}

/* Returns the number of columns that a thread processes: as many as a pack of
 * 16 bytes holds if the selected columns of all arrays begin and end at
 * multiples of a pack, otherwise 1. */
template <class... X>
static int choose_lanes(const es_columns *c, const X *...arrays)
{
    const int uneven = (c->first | c->stride | c->n) % PACK;
    return uneven == 0 && es_packs_fit(arrays...) ? PACK : 1;
}

/* Returns a grid in which blockIdx.x selects columns and blockIdx.y one of
 * n_slabs groups of rows, called slabs. Slab s consists of rows s, s + n_slabs,
 * s + 2 * n_slabs and so on. */
static dim3 column_grid(const es_columns *c, int lanes, unsigned n_slabs)
{
    const size_t columns = (size_t)N_THREADS * (size_t)lanes;
    return dim3((unsigned)es_ceil_div((size_t)c->n, columns), n_slabs);
}

/* Returns the first of the calling thread's W columns. */
template <int W>
static __device__ int own_column()
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x) * W;
}

/* --- columns -------------------------------------------------------------- */

/* For each slab of rows (see column_grid) and each column, computes the sum of
 * squares of x and the dot product of x and y, and writes both to slabs
 * (slabs,2,n). The dot product is 0 if y is NULL. */
template <int W>
static __global__ void column_products_kernel(double *slabs, const float *x,
                                              const float *y, es_columns c)
{
    es_begin_kernel();
    const int column = own_column<W>();
    double squares[W] = {0}, along[W] = {0};
    if (column >= c.n)
        return;
#pragma unroll 2
    for (int i = (int)blockIdx.y; i < c.n_in; i += N_SLABS) {
        const size_t at = row_at(&c, i) + (size_t)column;
        float of_x[W], of_y[W] = {0};
        es_load(of_x, x + at);
        if (y)
            es_load(of_y, y + at);
#pragma unroll
        for (int k = 0; k < W; k++) {
            squares[k] += (double)of_x[k] * (double)of_x[k];
            along[k] += (double)of_x[k] * (double)of_y[k];
        }
    }
    double *to = slabs + 2 * (int)blockIdx.y * c.n + column;
    for (int k = 0; k < W; k++) {
        to[k] = squares[k];
        to[c.n + k] = along[k];
    }
}

static __device__ double sum_slabs(const double *slabs, int n, int step)
{
    double sum = 0;
    for (int i = 0; i < N_SLABS; i++)
        sum += slabs[(size_t)i * (size_t)(step * n)];
    return sum;
}

/* factors (n) = g / |v|. */
static __global__ void norm_factors_kernel(float *factors, const double *slabs,
                                           const float *g, int n)
{
    es_begin_kernel();
    const int j = own_column<1>();
    if (j < n)
        factors[j] = (float)((double)g[j] / sqrt(sum_slabs(slabs + j, n, 2)));
}

/* Computes y = factor * x. If by_column is true, there are n factors, one per
 * column; otherwise there is a single factor. */
template <int W>
static __global__ void scale_columns_kernel(float *y, const float *x,
                                            const float *factors,
                                            bool by_column, es_columns c)
{
    es_begin_kernel();
    const int column = own_column<W>();
    if (column >= c.n)
        return;
    float factor[W];
    for (int k = 0; k < W; k++)
        factor[k] = factors[by_column ? column + k : 0];
    for (int i = (int)blockIdx.y; i < c.n_in; i += (int)gridDim.y) {
        const size_t at = row_at(&c, i) + (size_t)column;
        float values[W];
        es_load(values, x + at);
#pragma unroll
        for (int k = 0; k < W; k++)
            values[k] *= factor[k];
        es_store(y + at, values);
    }
}

/* Returns a grid like column_grid, for kernels that compute no sums. The number
 * of slabs (groups of rows) is chosen so that all multiprocessors are used. */
static dim3 row_grid(const es_backend *backend, const es_columns *c, int lanes)
{
    const size_t columns = column_grid(c, lanes, 1).x;
    const size_t n = (size_t)c->n_in * columns;
    const size_t blocks = es_blocks(backend, n, 2, 24);
    return column_grid(c, lanes, (unsigned)es_ceil_div(blocks, columns));
}

static void scale_columns(es_backend *backend, es_mem *y, const es_mem *x,
                          const float *factors, bool by_column,
                          const es_columns *c)
{
    const int lanes = choose_lanes(c, y, x);
    es_launch(backend->device, "normalised weights",
              lanes == 1 ? scale_columns_kernel<1> : scale_columns_kernel<PACK>,
              row_grid(backend, c, lanes), N_THREADS, 0, es_at<float>(y),
              es_at<float>(x), factors, by_column, *c);
}

static void sum_columns(es_backend *backend, double *slabs, const es_mem *x,
                        const es_mem *y, const es_columns *c)
{
    const int lanes = choose_lanes(c, x, y);
    es_launch(backend->device, "sums over columns of weights",
              lanes == 1 ? column_products_kernel<1>
                         : column_products_kernel<PACK>,
              column_grid(c, lanes, N_SLABS), N_THREADS, 0, slabs,
              es_at<float>(x), es_at<float>(y), *c);
}

/* --- WNorm ---------------------------------------------------------------- */

static void weight_norm(es_backend *backend, es_mem *w, const es_mem *v,
                        const es_mem *g, const es_columns *columns)
{
    const normed_layout l = lay_out(backend, columns);
    float *factors = (float *)(void *)l.sums;
    sum_columns(backend, l.slabs, v, NULL, columns);
    es_launch(backend->device, "column norms of weights", norm_factors_kernel,
              column_grid(columns, 1, 1), N_THREADS, 0, factors,
              (const double *)l.slabs, es_at<float>(g), columns->n);
    scale_columns(backend, w, v, factors, true, columns);
}

/* Computes the gradient of WNorm's g. Also writes two factors for each column
 * to `factors`, of shape (2,n): dw multiplied by the first plus v multiplied by
 * the second is the gradient of v. */
static __global__ void norm_gradient_kernel(float *factors, float *dg,
                                            const double *slabs, const float *g,
                                            int n)
{
    es_begin_kernel();
    const int j = own_column<1>();
    if (j >= n)
        return;
    const double squares = sum_slabs(slabs + j, n, 2), norm = sqrt(squares);
    const double along = sum_slabs(slabs + n + j, n, 2);
    const double factor = (double)g[j] / norm;
    dg[j] += (float)(along / norm);
    factors[j] = (float)factor;
    factors[n + j] = (float)(-factor * (along / squares));
}

template <int W>
static __global__ void
add_scaled_columns_kernel(float *dv, const float *dw, const float *v,
                          const float *factors, es_columns c)
{
    es_begin_kernel();
    const int column = own_column<W>();
    if (column >= c.n)
        return;
    float by_dw[W], by_v[W];
    for (int k = 0; k < W; k++) {
        by_dw[k] = factors[column + k];
        by_v[k] = factors[c.n + column + k];
    }
    for (int i = (int)blockIdx.y; i < c.n_in; i += (int)gridDim.y) {
        const size_t at = row_at(&c, i) + (size_t)column;
        float of_dw[W], of_v[W];
        es_load(of_dw, dw + at);
        es_load(of_v, v + at);
#pragma unroll
        for (int k = 0; k < W; k++)
            of_v[k] = by_dw[k] * of_dw[k] + by_v[k] * of_v[k];
        es_add_lanes(dv + at, of_v);
    }
}

static void weight_norm_backward(es_backend *backend, es_mem *dv, es_mem *dg,
                                 const es_mem *dw, const es_mem *v,
                                 const es_mem *g, const es_columns *columns)
{
    const normed_layout l = lay_out(backend, columns);
    float *factors = (float *)(void *)l.sums;
    sum_columns(backend, l.slabs, v, dw, columns);
    es_launch(backend->device, "column norms of weights", norm_gradient_kernel,
              column_grid(columns, 1, 1), N_THREADS, 0, factors,
              es_at<float>(dg), (const double *)l.slabs, es_at<float>(g),
              columns->n);
    const int lanes = choose_lanes(columns, dv, dw, v);
    es_launch(backend->device, "normalised weights' gradient",
              lanes == 1 ? add_scaled_columns_kernel<1>
                         : add_scaled_columns_kernel<PACK>,
              row_grid(backend, columns, lanes), N_THREADS, 0, es_at<float>(dv),
              es_at<float>(dw), es_at<float>(v), (const float *)factors,
              *columns);
}

/* --- SNorm ---------------------------------------------------------------- */

/* Computes the dot product of x (n) and `row` (n). The lanes of a warp share
 * the work, and every lane returns the result. */
static __device__ double row_product(const float *x, const float *row, int n)
{
    double sum = 0;
    for (int j = (int)threadIdx.x % 32; j < n; j += 32)
        sum += (double)x[j] * (double)row[j];
    return es_warp_sum(sum);
}

/* Computes out (n_in), the product of the matrix m and the vector u. Each warp
 * processes one row of m at a time. */
static __global__ void rows_along_kernel(double *out, const float *m,
                                         const float *u, es_columns c)
{
    es_begin_kernel();
    const int step = (int)(es_all_threads() / 32);
    for (int i = (int)(es_thread() / 32); i < c.n_in; i += step) {
        const double along = row_product(m + row_at(&c, i), u, c.n);
        if (threadIdx.x % 32 == 0)
            out[i] = along;
    }
}

/* Computes m^T y from the vector y = m u, which rows_along_kernel has computed.
 * For each slab of rows, writes its contribution to slabs (slabs,n). */
template <int W>
static __global__ void columns_along_kernel(double *slabs, const float *m,
                                            const double *along, es_columns c)
{
    es_begin_kernel();
    const int column = own_column<W>();
    double sum[W] = {0};
    if (column >= c.n)
        return;
#pragma unroll 2
    for (int i = (int)blockIdx.y; i < c.n_in; i += N_SLABS) {
        float of_m[W];
        es_load(of_m, m + row_at(&c, i) + (size_t)column);
#pragma unroll
        for (int k = 0; k < W; k++)
            sum[k] += along[i] * (double)of_m[k];
    }
    for (int k = 0; k < W; k++)
        slabs[(size_t)blockIdx.y * (size_t)c.n + (size_t)(column + k)] = sum[k];
}

static __global__ void add_slabs_kernel(double *out, const double *slabs, int n)
{
    es_begin_kernel();
    const int j = own_column<1>();
    if (j < n)
        out[j] = sum_slabs(slabs + j, n, 1);
}

/* Returns the length (2-norm) of x (n). All threads of the block share the
 * work. */
static __device__ double length_of(const double *x, int n, double *shared)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        sum += x[i] * x[i];
    return sqrt(es_block_sum(sum, shared));
}

/* Completes a step of the power iteration from m u and m^T m u. Computes the
 * unit vectors v = m u / |m u| and u = m^T m u / |m^T m u|, sigma = |m^T v|,
 * and 1 / sigma, by which the weights are multiplied. Runs in a single
 * block. */
static __global__ void unit_vectors_kernel(float *u, float *v, float *sigma,
                                           float *inverse,
                                           const double *rows_along,
                                           const double *columns_along,
                                           es_columns c)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double of_v = length_of(rows_along, c.n_in, shared);
    const double of_u = length_of(columns_along, c.n, shared);
    for (int i = (int)threadIdx.x; i < c.n_in; i += (int)blockDim.x)
        v[i] = (float)(rows_along[i] / of_v);
    for (int j = (int)threadIdx.x; j < c.n; j += (int)blockDim.x)
        u[j] = (float)(columns_along[j] / of_u);
    if (threadIdx.x == 0) {
        sigma[0] = (float)(of_u / of_v);
        inverse[0] = (float)(of_v / of_u);
    }
}

/* Computes sigma = v^T m u and 1 / sigma from m u. Runs in a single block. */
static __global__ void sigma_kernel(float *sigma, float *inverse,
                                    const double *rows_along, const float *v,
                                    int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    double sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        sum += (double)v[i] * rows_along[i];
    sum = es_block_sum(sum, shared);
    if (threadIdx.x == 0) {
        sigma[0] = (float)sum;
        inverse[0] = (float)(1 / sum);
    }
}

/* Computes w = m / sigma. Runs power iterations, each of which updates v, u and
 * sigma. If n_iterations is 0, computes sigma from the given v and u. */
static void spectral_norm(es_backend *backend, es_mem *w, es_mem *sigma,
                          es_mem *u, es_mem *v, const es_mem *m,
                          const es_columns *c, int n_iterations)
{
    const normed_layout l = lay_out(backend, c);
    es_device *device = backend->device;
    double *rows_along = l.sums, *columns_along = l.sums + c->n_in;
    float *inverse = (float *)(void *)l.one;
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    const int lanes = choose_lanes(c, m);
    const unsigned blocks =
        es_blocks(backend, (size_t)c->n_in, ES_THREADS / 32, 8);
    const auto multiply_rows = [&] {
        es_launch(device, "matrix times u", rows_along_kernel, blocks,
                  ES_THREADS, 0, rows_along, es_at<float>(m),
                  (const float *)es_at<float>(u), *c);
    };
    for (int i = 0; i < n_iterations; i++) {
        multiply_rows();
        es_launch(device, "transposed matrix times v",
                  lanes == 1 ? columns_along_kernel<1>
                             : columns_along_kernel<PACK>,
                  column_grid(c, lanes, N_SLABS), N_THREADS, 0, l.slabs,
                  es_at<float>(m), (const double *)rows_along, *c);
        es_launch(device, "transposed matrix times v", add_slabs_kernel,
                  column_grid(c, 1, 1), N_THREADS, 0, columns_along,
                  (const double *)l.slabs, c->n);
        es_launch(device, "power iteration", unit_vectors_kernel, 1, 1024,
                  shared, es_at<float>(u), es_at<float>(v), es_at<float>(sigma),
                  inverse, (const double *)rows_along,
                  (const double *)columns_along, *c);
    }
    if (n_iterations == 0) {
        multiply_rows();
        es_launch(device, "sigma", sigma_kernel, 1, ES_THREADS, shared,
                  es_at<float>(sigma), inverse, (const double *)rows_along,
                  (const float *)es_at<float>(v), c->n_in);
    }
    scale_columns(backend, w, m, inverse, false, c);
}

/* Computes the dot product of the matrices x and y; each block of threads
 * writes its contribution to one element of `pieces`. A warp processes one row
 * at a time. */
static __global__ void product_kernel(double *pieces, const float *x,
                                      const float *y, es_columns c)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const int step = (int)(es_all_threads() / 32);
    double sum = 0;
    for (int i = (int)(es_thread() / 32); i < c.n_in; i += step)
        sum += row_product(x + row_at(&c, i), y + row_at(&c, i), c.n);
    sum = es_block_sum(threadIdx.x % 32 == 0 ? sum : 0, shared);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = sum;
}

/* Writes two numbers to `factors`: dw multiplied by the first plus v u^T
 * multiplied by the second is the gradient of m. */
static __global__ void spectral_factors_kernel(float *factors,
                                               const double *pieces, int n,
                                               const float *sigma)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double along = es_sum_pieces(pieces, n, shared);
    const double inverse = 1 / (double)sigma[0];
    if (threadIdx.x == 0) {
        factors[0] = (float)inverse;
        factors[1] = (float)(-inverse * along);
    }
}

template <int W>
static __global__ void add_outer_kernel(float *dm, const float *dw,
                                        const float *factors, const float *u,
                                        const float *v, es_columns c)
{
    es_begin_kernel();
    const int column = own_column<W>();
    if (column >= c.n)
        return;
    const float by_dw = factors[0];
    float by_v[W];
    for (int k = 0; k < W; k++)
        by_v[k] = factors[1] * u[column + k];
    for (int i = (int)blockIdx.y; i < c.n_in; i += (int)gridDim.y) {
        const size_t at = row_at(&c, i) + (size_t)column;
        float more[W];
        es_load(more, dw + at);
#pragma unroll
        for (int k = 0; k < W; k++)
            more[k] = by_dw * more[k] + by_v[k] * v[i];
        es_add_lanes(dm + at, more);
    }
}

static void spectral_norm_backward(es_backend *backend, es_mem *dm,
                                   const es_mem *dw, const es_mem *w,
                                   const es_mem *sigma, const es_mem *u,
                                   const es_mem *v, const es_columns *columns)
{
    const normed_layout l = lay_out(backend, columns);
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    const unsigned blocks =
        es_pieces(backend, (size_t)columns->n_in, ES_THREADS / 32, 4);
    float *factors = (float *)(void *)l.one;
    es_launch(backend->device, "spectral norm's gradient", product_kernel,
              blocks, ES_THREADS, shared, l.one + 1, es_at<float>(dw),
              es_at<float>(w), *columns);
    es_launch(backend->device, "spectral norm's gradient",
              spectral_factors_kernel, 1, ES_THREADS, shared, factors,
              (const double *)(l.one + 1), (int)blocks, es_at<float>(sigma));
    const int lanes = choose_lanes(columns, dm, dw);
    es_launch(backend->device, "spectral norm's gradient",
              lanes == 1 ? add_outer_kernel<1> : add_outer_kernel<PACK>,
              row_grid(backend, columns, lanes), N_THREADS, 0, es_at<float>(dm),
              es_at<float>(dw), (const float *)factors, es_at<float>(u),
              es_at<float>(v), *columns);
}

/* --- columns without a norm ----------------------------------------------- */

template <int W>
static __global__ void copy_columns_kernel(float *y, const float *x,
                                           es_columns c, bool add)
{
    es_begin_kernel();
    const int column = own_column<W>();
    if (column >= c.n)
        return;
    for (int i = (int)blockIdx.y; i < c.n_in; i += (int)gridDim.y) {
        const size_t at = row_at(&c, i) + (size_t)column;
        float values[W];
        es_load(values, x + at);
        if (add)
            es_add_lanes(y + at, values);
        else
            es_store(y + at, values);
    }
}

static void copy_columns(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add)
{
    const int lanes = choose_lanes(columns, y, x);
    es_launch(backend->device, "copied columns of weights",
              lanes == 1 ? copy_columns_kernel<1> : copy_columns_kernel<PACK>,
              row_grid(backend, columns, lanes), N_THREADS, 0, es_at<float>(y),
              es_at<float>(x), *columns, add);
}

/* --- temperatures that are learnt directly -------------------------------- */

/* Returns t, but at least the minimum temperature; NaN for NaN. */
static __device__ float usable_temperature(float t)
{
    return t < ES_LEAST_TEMPERATURE ? ES_LEAST_TEMPERATURE : t;
}

static __global__ void temperature_logs_kernel(float *log_t, const float *t,
                                               size_t n)
{
    es_begin_kernel();
    for (size_t i = es_thread(); i < n; i += es_all_threads())
        log_t[i] = logf(usable_temperature(t[i]));
}

static void temperature_logs(es_backend *backend, es_mem *log_t,
                             const es_mem *t, size_t n)
{
    es_launch(backend->device, "temperatures", temperature_logs_kernel,
              es_blocks(backend, n, ES_THREADS, 1), ES_THREADS, 0,
              es_at<float>(log_t), es_at<float>(t), n);
}

static __global__ void temperature_logs_backward_kernel(float *dt,
                                                        const float *dlog_t,
                                                        const float *t,
                                                        size_t n)
{
    es_begin_kernel();
    for (size_t i = es_thread(); i < n; i += es_all_threads())
        dt[i] += dlog_t[i] / usable_temperature(t[i]);
}

static void temperature_logs_backward(es_backend *backend, es_mem *dt,
                                      const es_mem *dlog_t, const es_mem *t,
                                      size_t n)
{
    es_launch(backend->device, "temperatures' gradient",
              temperature_logs_backward_kernel,
              es_blocks(backend, n, ES_THREADS, 1), ES_THREADS, 0,
              es_at<float>(dt), es_at<float>(dlog_t), es_at<float>(t), n);
}

void es_cuda_normed_ops(es_ops *ops)
{
    ops->temperature_logs = temperature_logs;
    ops->temperature_logs_backward = temperature_logs_backward;
    ops->weight_norm = weight_norm;
    ops->weight_norm_backward = weight_norm_backward;
    ops->spectral_norm = spectral_norm;
    ops->spectral_norm_backward = spectral_norm_backward;
    ops->copy_columns = copy_columns;
}
