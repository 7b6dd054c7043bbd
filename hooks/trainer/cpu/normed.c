/* Computes weights from other weights: scales columns to a given length, g v /
 * |v| (WNorm), or divides a matrix by its largest singular value, m / sigma
 * (SNorm). Reading a matrix takes longer than the arithmetic, so threads split
 * the rows, read them in memory order, and sum in double. */
#include "hooks/trainer/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* The number of rows in a thread's range (slab) is a multiple of this number,
 * so that no two threads write to the same cache line. */
#define ROW_UNIT 16

/* Number of rows that are processed at a time, so that they are still in the
 * cache for the second of two sums. */
#define CHUNK 8

typedef struct job {
    const es_backend *backend;
    const es_columns *columns;
    float *out; /* output matrix */
    const float *m, *w, *dw;
    float *u, *v;
    float a, b;          /* factors of dw and of the outer product v u^T in the
                            gradient that is added to `out` */
    float *of_m, *of_dw; /* factors by which each of the n columns of m and of
                            dw is multiplied */
    bool add;
} job;

/* Returns the offset in floats of the first selected column in row i. */
static size_t row_at(const es_columns *columns, int i)
{
    return (size_t)i * (size_t)columns->stride + (size_t)columns->first;
}

static es_slab share_rows(const job *j, es_share share)
{
    return es_cpu_slab(share, j->columns->n_in, ROW_UNIT);
}

/* Returns the memory for the results of one thread: 2 n doubles in the thread's
 * scratch memory. The calling thread combines the results of all threads. */
static double *results_of(const es_backend *backend, int thread)
{
    const es_share share = {thread, backend->n_threads};
    return (double *)(void *)es_cpu_scratch(backend, share);
}

static double sum_results(const es_backend *backend, int at)
{
    double sum = 0;
    for (int thread = 0; thread < backend->n_threads; thread++)
        sum += results_of(backend, thread)[at];
    return sum;
}

/* Sets the pointers to the job's arrays of factors, which are stored after the
 * calling thread's results. */
static void place_factors(job *j)
{
    const size_t n = (size_t)j->columns->n;
    j->of_m = (float *)(void *)(results_of(j->backend, 0) + 2 * n);
    j->of_dw = j->of_m + n;
}

/* Computes the thread's rows of `out`: multiplies each column of m by the
 * column's factor in of_m. */
static void scale_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    const size_t at = row_at(columns, slab.first);
    j->backend->kernels->scale_columns(j->out + at, j->m + at, j->of_m, slab.n,
                                       columns->n, (size_t)columns->stride);
}

/* --- WNorm ---------------------------------------------------------------- */

/* Computes two sums over the thread's rows for each column: the sum of squares
 * of the weights m, and the dot product of m and its gradient dw. Stores them
 * as the thread's results. */
static void sum_columns_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_cpu_kernels *kernels = j->backend->kernels;
    const es_slab slab = share_rows(j, share);
    const size_t stride = (size_t)columns->stride;
    const int end = slab.first + slab.n;
    double *squares = results_of(j->backend, share.thread);
    double *along = squares + columns->n;
    memset(squares, 0, 2 * (size_t)columns->n * sizeof *squares);
    for (int first = slab.first; first < end; first += CHUNK) {
        const int n = end - first < CHUNK ? end - first : CHUNK;
        const size_t at = row_at(columns, first);
        kernels->add_column_products(squares, j->m + at, j->m + at, n,
                                     columns->n, stride);
        if (j->dw)
            kernels->add_column_products(along, j->m + at, j->dw + at, n,
                                         columns->n, stride);
    }
}

void es_cpu_weight_norm(es_backend *backend, es_mem *w, const es_mem *v,
                        const es_mem *g, const es_columns *columns)
{
    job j = {.backend = backend,
             .columns = columns,
             .out = es_cpu_floats(w),
             .m = es_cpu_read(v)};
    place_factors(&j);
    es_team_run(backend->team, sum_columns_part, &j);
    for (int k = 0; k < columns->n; k++)
        j.of_m[k] =
            (float)((double)es_cpu_read(g)[k] / sqrt(sum_results(backend, k)));
    es_team_run(backend->team, scale_part, &j);
}

static void weight_norm_backward_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    const size_t at = row_at(columns, slab.first);
    j->backend->kernels->add_scaled_columns(
        j->out + at, j->dw + at, j->of_dw, j->m + at, j->of_m, slab.n,
        columns->n, (size_t)columns->stride);
}

void es_cpu_weight_norm_backward(es_backend *backend, es_mem *dv, es_mem *dg,
                                 const es_mem *dw, const es_mem *v,
                                 const es_mem *g, const es_columns *columns)
{
    job j = {.backend = backend,
             .columns = columns,
             .out = es_cpu_floats(dv),
             .m = es_cpu_read(v),
             .dw = es_cpu_read(dw)};
    place_factors(&j);
    es_team_run(backend->team, sum_columns_part, &j);
    for (int k = 0; k < columns->n; k++) {
        const double squares = sum_results(backend, k), norm = sqrt(squares);
        const double along = sum_results(backend, columns->n + k);
        const double factor = (double)es_cpu_read(g)[k] / norm;
        es_cpu_floats(dg)[k] += (float)(along / norm);
        j.of_dw[k] = (float)factor;
        j.of_m[k] = (float)(-factor * (along / squares));
    }
    es_team_run(backend->team, weight_norm_backward_part, &j);
}

/* --- SNorm ---------------------------------------------------------------- */

/* Computes the thread's rows of v = m u. Stores as the thread's results the sum
 * of squares of these rows, and the rows' contribution to m^T v. */
static void iterate_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    double *to = results_of(j->backend, share.thread);
    memset(to, 0, ((size_t)columns->n + 1) * sizeof *to);
    to[0] = j->backend->kernels->multiply_twice(
        j->v + slab.first, to + 1, j->m + row_at(columns, slab.first), j->u,
        slab.n, columns->n, (size_t)columns->stride);
}

/* Makes one step of the power iteration for the largest singular value of m:
 * updates v and u. Returns sigma = v^T m u, which is the length of m^T v. */
static double iterate_power(job *j)
{
    const es_columns *columns = j->columns;
    es_team_run(j->backend->team, iterate_part, j);
    const double length = sqrt(sum_results(j->backend, 0));
    double squares = 0;
    for (int k = 0; k < columns->n; k++) {
        const double u = sum_results(j->backend, k + 1) / length;
        results_of(j->backend, 0)[k + 1] = u;
        squares += u * u;
    }
    for (int i = 0; i < columns->n_in; i++)
        j->v[i] = (float)((double)j->v[i] / length);
    for (int k = 0; k < columns->n; k++)
        j->u[k] = (float)(results_of(j->backend, 0)[k + 1] / sqrt(squares));
    return sqrt(squares);
}

/* Computes the contribution of the thread's rows to v^T m u for the matrix m,
 * or, if m is NULL, to the dot product of the weights w and their gradient
 * dw. */
static void product_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    double sum = 0;
    for (int i = slab.first; i < slab.first + slab.n; i++) {
        const size_t at = row_at(columns, i);
        const double row = j->backend->kernels->dot(
            j->m ? j->m + at : j->dw + at, j->m ? j->u : j->w + at,
            (size_t)columns->n);
        sum += j->m ? (double)j->v[i] * row : row;
    }
    results_of(j->backend, share.thread)[0] = sum;
}

void es_cpu_spectral_norm(es_backend *backend, es_mem *w, es_mem *sigma,
                          es_mem *u, es_mem *v, const es_mem *m,
                          const es_columns *columns, int n_iterations)
{
    job j = {.backend = backend,
             .columns = columns,
             .out = es_cpu_floats(w),
             .m = es_cpu_read(m),
             .u = es_cpu_floats(u),
             .v = es_cpu_floats(v)};
    double value = 0;
    if (n_iterations == 0) {
        es_team_run(backend->team, product_part, &j);
        value = sum_results(backend, 0);
    }
    for (int i = 0; i < n_iterations; i++)
        value = iterate_power(&j);
    es_cpu_floats(sigma)[0] = (float)value;
    place_factors(&j);
    for (int k = 0; k < columns->n; k++)
        j.of_m[k] = (float)(1 / value);
    es_team_run(backend->team, scale_part, &j);
}

static void spectral_norm_backward_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    const size_t at = row_at(columns, slab.first);
    j->backend->kernels->add_outer_product(j->out + at, j->dw + at, j->a, j->b,
                                           j->v + slab.first, j->u, slab.n,
                                           columns->n, (size_t)columns->stride);
}

void es_cpu_spectral_norm_backward(es_backend *backend, es_mem *dm,
                                   const es_mem *dw, const es_mem *w,
                                   const es_mem *sigma, const es_mem *u,
                                   const es_mem *v, const es_columns *columns)
{
    job j = {.backend = backend,
             .columns = columns,
             .out = es_cpu_floats(dm),
             .w = es_cpu_read(w),
             .dw = es_cpu_read(dw),
             .u = (float *)es_cpu_read(u), /* u is not written despite the
                                            * cast */
             .v = (float *)es_cpu_read(v)};
    const double inverse = 1 / (double)es_cpu_read(sigma)[0];
    es_team_run(backend->team, product_part, &j);
    j.a = (float)inverse;
    j.b = (float)(-inverse * sum_results(backend, 0));
    es_team_run(backend->team, spectral_norm_backward_part, &j);
}

/* --- columns without a norm ----------------------------------------------- */

static void copy_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_columns *columns = j->columns;
    const es_slab slab = share_rows(j, share);
    for (int i = slab.first; i < slab.first + slab.n; i++) {
        const size_t at = row_at(columns, i);
        if (j->add)
            j->backend->kernels->add_bias(j->out + at, j->m + at, 1,
                                          columns->n);
        else
            memcpy(j->out + at, j->m + at, (size_t)columns->n * sizeof *j->out);
    }
}

void es_cpu_copy_columns(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add)
{
    job j = {.backend = backend,
             .columns = columns,
             .out = es_cpu_floats(y),
             .m = es_cpu_read(x),
             .add = add};
    es_team_run(backend->team, copy_part, &j);
}

/* --- temperatures that are learnt directly -------------------------------- */

/* A layer has only one temperature for each head and position. These are too
 * few to be split among threads. */

/* Returns t, but at least the minimum temperature; NaN for NaN. */
static float usable_temperature(float t)
{
    return t < ES_LEAST_TEMPERATURE ? ES_LEAST_TEMPERATURE : t;
}

void es_cpu_temperature_logs(es_backend *backend, es_mem *log_t,
                             const es_mem *t, size_t n)
{
    (void)backend;
    for (size_t i = 0; i < n; i++)
        es_cpu_floats(log_t)[i] = logf(usable_temperature(es_cpu_read(t)[i]));
}

void es_cpu_temperature_logs_backward(es_backend *backend, es_mem *dt,
                                      const es_mem *dlog_t, const es_mem *t,
                                      size_t n)
{
    (void)backend;
    for (size_t i = 0; i < n; i++)
        es_cpu_floats(dt)[i] +=
            es_cpu_read(dlog_t)[i] / usable_temperature(es_cpu_read(t)[i]);
}
