/* Matrix products by OpenBLAS, one thread's rows at a time, with biases,
 * residuals and activations around them. */
#include "hooks/trainer/cpu/cpu.h"

#include <assert.h>
#include <cblas.h>

/* Rows of a slab come in multiples of this: it suits the tiles of BLAS. */
#define ROW_UNIT 16

/* One call of an operation of this file, for all threads; x goes in and y
 * comes out, in the backward pass dy goes in and dx comes out. */
typedef struct job {
    const es_backend *backend;
    const es_linear *linear;
    int n_rows;
    float *y, *dx;
    const float *x, *dy, *residual;
    float *pre, *post; /* before and after the activation */
    const es_act *act;
    float slope;
    bool add; /* to dx */
    float *dweight, *dbias;
} job;

/* As everywhere here: rows of y and dy lie one after another. */
static bool is_dense(const es_linear *linear)
{
    return linear->y_stride == 0 || linear->y_stride == linear->n_out;
}

static float slope_of(const es_act *act)
{
    return act->learnt ? es_cpu_read(act->learnt)[0] : act->slope;
}

/* --- forward -------------------------------------------------------------- */

/*
 * A slab of y (n,out) = residual + x W + b. What is added goes into y first:
 * BLAS would otherwise spend the same time on setting y to 0.
 */
static void multiply(float *y, const job *j, es_slab slab)
{
    const es_linear *linear = j->linear;
    const size_t first = (size_t)slab.first;
    assert(is_dense(linear));
    const size_t n_in = (size_t)linear->n_in, n_out = (size_t)linear->n_out;
    const float *bias = es_cpu_read(linear->bias);
    const float *residual = j->residual ? j->residual + first * n_out : NULL;
    if (residual || bias)
        j->backend->kernels->start_rows(y + first * n_out, residual, bias,
                                        slab.n, linear->n_out);
    cblas_sgemm(CblasRowMajor, CblasNoTrans,
                linear->transposed ? CblasTrans : CblasNoTrans, slab.n,
                linear->n_out, linear->n_in, 1, j->x + first * n_in,
                linear->n_in, es_cpu_read(linear->weight),
                linear->transposed ? linear->n_in : linear->n_out,
                residual || bias ? 1 : 0, y + first * n_out, linear->n_out);
    es_cpu_round(j->backend, y + first * n_out, (size_t)slab.n * n_out);
}

static void linear_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    if (slab.n > 0)
        multiply(j->y, j, slab);
}

void es_cpu_linear(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .y = es_cpu_floats(y),
             .x = es_cpu_read(x),
             .residual = es_cpu_read(residual)};
    es_team_run(backend->team, linear_part, &j);
}

static void linear_act_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    size_t n_out = (size_t)j->linear->n_out;
    size_t at = (size_t)slab.first * n_out;
    if (slab.n == 0)
        return;
    multiply(j->pre, j, slab);
    j->backend->kernels->act(j->post + at, j->pre + at, (size_t)slab.n * n_out,
                             j->act->kind, j->slope);
    es_cpu_round(j->backend, j->post + at, (size_t)slab.n * n_out);
}

void es_cpu_linear_act(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .y = es_cpu_floats(post),
             .x = es_cpu_read(x),
             .pre = es_cpu_floats(pre),
             .post = es_cpu_floats(post),
             .act = act,
             .slope = slope_of(act)};
    bool is_linear = act->kind == ES_ACT_LINEAR;
    es_team_run(backend->team, is_linear ? linear_part : linear_act_part, &j);
}

/* --- the input's gradient ------------------------------------------------- */

/* A slab of dx (n,in) = dy W^T, or added to it. */
static void multiply_back(const job *j, es_slab slab)
{
    const es_linear *linear = j->linear;
    const size_t first = (size_t)slab.first;
    assert(is_dense(linear));
    cblas_sgemm(
        CblasRowMajor, CblasNoTrans,
        linear->transposed ? CblasNoTrans : CblasTrans, slab.n, linear->n_in,
        linear->n_out, 1, j->dy + first * (size_t)linear->n_out, linear->n_out,
        es_cpu_read(linear->weight),
        linear->transposed ? linear->n_in : linear->n_out, j->add ? 1 : 0,
        j->dx + first * (size_t)linear->n_in, linear->n_in);
}

static void input_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    if (slab.n > 0)
        multiply_back(j, slab);
}

void es_cpu_linear_backward_input(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .dx = es_cpu_floats(dx),
             .dy = es_cpu_read(dy),
             .add = add};
    es_team_run(backend->team, input_part, &j);
}

/* Leaves the slab's part of the slope's gradient in the thread's scratch. */
static void act_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    size_t n_in = (size_t)j->linear->n_in, at = (size_t)slab.first * n_in;
    double sum = 0;
    if (slab.n > 0) {
        multiply_back(j, slab);
        sum = j->backend->kernels->act_backward(
            j->dx + at, j->post + at, j->pre + at, (size_t)slab.n * n_in,
            j->act->kind, j->slope);
        es_cpu_round(j->backend, j->post + at, (size_t)slab.n * n_in);
    }
    es_cpu_scratch(j->backend, share)[0] = (float)sum;
}

void es_cpu_linear_backward_act(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .dx = es_cpu_floats(dpre),
             .dy = es_cpu_read(dy),
             .pre = (float *)es_cpu_read(pre), /* only read */
             .post = es_cpu_floats(post),
             .act = act,
             .slope = slope_of(act)};
    bool is_linear = act->kind == ES_ACT_LINEAR;
    es_team_run(backend->team, is_linear ? input_part : act_part, &j);
    for (int t = 0; dslope && !is_linear && t < backend->n_threads; t++)
        es_cpu_floats(dslope)[0] +=
            backend->scratch[(size_t)t * backend->scratch_size];
}

/* --- the weight's gradient ------------------------------------------------ */

/* A slab of the rows of dW as it lies in memory: a^T b, a (N,n_a), b (N,n_b).
 */
static void multiply_weight(float *out, const float *a, int n_a, const float *b,
                            int n_b, int n_rows, es_slab slab)
{
    if (slab.n > 0)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, slab.n, n_b,
                    n_rows, 1, a + slab.first, n_a, b, n_b, 1,
                    out + (size_t)slab.first * (size_t)n_b, n_b);
}

static void weight_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_linear *linear = j->linear;
    assert(is_dense(linear));
    if (linear->transposed)
        multiply_weight(j->dweight, j->dy, linear->n_out, j->x, linear->n_in,
                        j->n_rows, es_cpu_slab(share, linear->n_out, ROW_UNIT));
    else
        multiply_weight(j->dweight, j->x, linear->n_in, j->dy, linear->n_out,
                        j->n_rows, es_cpu_slab(share, linear->n_in, ROW_UNIT));
    if (j->dbias) {
        es_slab slab = es_cpu_slab(share, linear->n_bias_trained, ROW_UNIT);
        j->backend->kernels->add_column_sums(j->dbias + slab.first,
                                             j->dy + slab.first, j->n_rows,
                                             slab.n, linear->n_out);
    }
}

void es_cpu_linear_backward_weight(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .x = es_cpu_read(x),
             .dy = es_cpu_read(dy),
             .dweight = es_cpu_floats(dweight),
             .dbias = es_cpu_floats(dbias)};
    es_team_run(backend->team, weight_part, &j);
}
