/* Implements the linear operations: each thread computes the matrix products of
 * its rows, and applies biases, residuals and activations. The products come
 * from the library that es_products_used returns. */
#include "hooks/trainer/cpu/activations.h"

#include <assert.h>

/* The number of rows in a thread's range (slab) is a multiple of this number,
 * which suits the tiles of the product libraries. */
#define ROW_UNIT 16

/* Arguments of an operation in this file, shared by all threads. x is the input
 * and y the output of the linear map; in the backward pass dy is given and dx
 * is computed. */
typedef struct job {
    const es_backend *backend;
    const es_linear *linear;
    int n_rows;
    size_t n; /* number of elements; only used by es_cpu_act_backward */
    es_mem *y, *dx;
    const es_mem *x, *dy, *residual;
    es_mem *pre, *post; /* values before and after the activation */
    const es_act *act;
    float slope;
    bool add; /* true to add to dx or dweight, false to overwrite them */
    float *dweight, *dbias;
} job;

/* Returns true if the rows of y and dy are contiguous, which all operations
 * here assume. */
static bool is_dense(const es_linear *linear)
{
    return linear->y_stride == 0 || linear->y_stride == linear->n_out;
}

static float slope_of(const es_act *act)
{
    return act->learnt ? es_cpu_read(act->learnt)[0] : act->slope;
}

/* Returns a pointer to element n of an activation; NULL stays NULL. */
static es_mem *act_at(const job *j, const es_mem *x, size_t n)
{
    return x ? es_mem_at((es_mem *)x, n * es_cpu_act_size(j->backend)) : NULL;
}

/* Computes, on the calling thread, the product c = residual + a * b that `call`
 * describes. Fills in the number types and the scratch memory of `call`. */
static void run_product(const job *j, es_share share, es_product_call *call)
{
    const es_backend *backend = j->backend;
    if (backend->bf16) {
        call->shape.in = ES_NUMBER_BF16;
        call->scratch =
            backend->sums + (size_t)share.thread * ES_PRODUCT_SCRATCH;
    }
    call->kernels = backend->kernels;
    backend->products->multiply(call);
}

/* Returns the number type in which products write activations. */
static es_number_type act_type(const job *j)
{
    return j->backend->bf16 ? ES_NUMBER_BF16 : ES_NUMBER_F32;
}

/* Returns the weight, or its bf16 copy if activations are bf16. */
static const void *read_weight(const job *j)
{
    if (!j->backend->bf16)
        return j->linear->weight;
    const es_bfloat *copy = es_cpu_copy_of(j->backend, j->linear->weight);
    assert(copy); /* not NULL, because the model registers all weights */
    return copy;
}

/* --- forward -------------------------------------------------------------- */

/* Computes y (n,out) = residual + x * W + b for a range of rows (`slab`). */
static void multiply_slab(es_mem *y, const job *j, es_share share, es_slab slab)
{
    const es_linear *linear = j->linear;
    const size_t first = (size_t)slab.first;
    assert(is_dense(linear));
    const size_t n_in = (size_t)linear->n_in, n_out = (size_t)linear->n_out;
    es_product_call call = {
        .shape = {.m = slab.n,
                  .n = linear->n_out,
                  .k = linear->n_in,
                  .b_transposed = linear->transposed,
                  .a_stride = linear->n_in,
                  .b_stride = linear->transposed ? linear->n_in : linear->n_out,
                  .c_stride = linear->n_out,
                  .out = act_type(j)},
        .c = act_at(j, y, first * n_out),
        .residual = act_at(j, j->residual, first * n_out),
        .bias = es_cpu_read(linear->bias),
        .a = act_at(j, j->x, first * n_in),
        .b = read_weight(j)};
    run_product(j, share, &call);
    es_cpu_round(j->backend, es_cpu_floats(y) + first * n_out,
                 (size_t)slab.n * n_out);
}

static void linear_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    if (slab.n > 0)
        multiply_slab(j->y, j, share, slab);
}

void es_cpu_linear(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .y = y,
             .x = x,
             .residual = residual};
    es_team_run(backend->team, linear_part, &j);
}

static void linear_act_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    const es_backend *backend = j->backend;
    const size_t n_out = (size_t)j->linear->n_out;
    const size_t first = (size_t)slab.first * n_out;
    const size_t end = first + (size_t)slab.n * n_out;
    es_cpu_start_peak(backend, share);
    if (slab.n == 0)
        return;
    multiply_slab(j->pre, j, share, slab);
    for (size_t at = first, n; at < end; at += n) {
        n = end - at < ES_CPU_CHUNK ? end - at : ES_CPU_CHUNK;
        float *post = es_cpu_place(backend, share, 0, j->post, at);
        const float *pre = es_cpu_open(backend, share, 1, j->pre, at, n);
        backend->kernels->act(post, pre, n, j->act->kind, j->slope);
        if (j->act->peak)
            es_cpu_see_peak(backend, share, pre, at, n);
        es_cpu_close(backend, j->post, at, post, n);
    }
}

void es_cpu_linear_act(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .y = post,
             .x = x,
             .pre = pre,
             .post = post,
             .act = act,
             .slope = slope_of(act)};
    bool is_linear = act->kind == ES_ACT_LINEAR;
    es_team_run(backend->team, is_linear ? linear_part : linear_act_part, &j);
    if (act->peak && !is_linear)
        es_cpu_keep_peak(backend, act->peak, pre);
}

/* --- the input's gradient ------------------------------------------------- */

/* Computes dx (n,in) = dy * W^T for a range of rows (`slab`), or adds dy * W^T
 * to dx. */
static void multiply_back(const job *j, es_share share, es_slab slab)
{
    const es_linear *linear = j->linear;
    const size_t first = (size_t)slab.first;
    assert(is_dense(linear));
    es_mem *dx = act_at(j, j->dx, first * (size_t)linear->n_in);
    es_product_call call = {
        .shape = {.m = slab.n,
                  .n = linear->n_in,
                  .k = linear->n_out,
                  .b_transposed = !linear->transposed,
                  .a_stride = linear->n_out,
                  .b_stride = linear->transposed ? linear->n_in : linear->n_out,
                  .c_stride = linear->n_in,
                  .out = act_type(j)},
        .c = dx,
        .residual = j->add ? dx : NULL,
        .a = act_at(j, j->dy, first * (size_t)linear->n_out),
        .b = read_weight(j)};
    run_product(j, share, &call);
}

static void input_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    if (slab.n > 0)
        multiply_back(j, share, slab);
}

void es_cpu_linear_backward_input(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .dx = dx,
             .dy = dy,
             .add = add};
    es_team_run(backend->team, input_part, &j);
}

/* Multiplies dx by the activation's derivative and computes post, for elements
 * first .. end - 1. Returns the contribution of these elements to the gradient
 * of the activation's slope. */
static double activate_backward(const job *j, es_share share, size_t first,
                                size_t end)
{
    const es_backend *backend = j->backend;
    double sum = 0;
    for (size_t at = first, n; at < end; at += n) {
        n = es_cpu_piece(backend, end - at);
        float *d = es_cpu_change(backend, share, 0, j->dx, at, n);
        float *post = es_cpu_place(backend, share, 1, j->post, at);
        sum += backend->kernels->act_backward(
            d, post, es_cpu_open(backend, share, 2, j->pre, at, n), n,
            j->act->kind, j->slope);
        es_cpu_close_gradient(backend, j->dx, at, d, n);
        es_cpu_close(backend, j->post, at, post, n);
    }
    return sum;
}

/* Computes the thread's rows of the gradient with respect to the activation's
 * input. Writes the thread's contribution to the gradient of the slope to the
 * thread's scratch memory. */
static void act_part(void *argument, es_share share)
{
    const job *j = argument;
    es_slab slab = es_cpu_slab(share, j->n_rows, ROW_UNIT);
    const size_t n_in = (size_t)j->linear->n_in;
    const size_t first = (size_t)slab.first * n_in;
    if (slab.n > 0)
        multiply_back(j, share, slab);
    es_cpu_scratch(j->backend, share)[0] = (float)activate_backward(
        j, share, first, first + (size_t)slab.n * n_in);
}

void es_cpu_linear_backward_act(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .dx = dpre,
             .dy = dy,
             .pre = (es_mem *)pre, /* the cast removes const, but pre is not
                                      written */
             .post = post,
             .act = act,
             .slope = slope_of(act)};
    bool is_linear = act->kind == ES_ACT_LINEAR;
    es_team_run(backend->team, is_linear ? input_part : act_part, &j);
    for (int t = 0; dslope && !is_linear && t < backend->n_threads; t++)
        es_cpu_floats(dslope)[0] +=
            backend->scratch[(size_t)t * backend->scratch_size];
}

static void activation_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 16);
    activate_backward(j, share, first, end);
}

void es_cpu_act_backward(es_backend *backend, es_mem *d, es_mem *post,
                         const es_mem *pre, const es_act *act, size_t n)
{
    job j = {.backend = backend,
             .n = n,
             .dx = d,
             .pre = (es_mem *)pre, /* the cast removes const, but pre is not
                                      written */
             .post = post,
             .act = act,
             .slope = slope_of(act)};
    es_team_run(backend->team, activation_part, &j);
}

/* --- the weight's gradient ------------------------------------------------ */

/* Computes a range of rows (`slab`) of dW = a^T * b, in the layout in which the
 * weight is stored, or adds them to dW. a is (N,n_a) and b is (N,n_b), where N
 * is the number of tokens. */
static void multiply_weight(const job *j, es_share share, const es_mem *a,
                            int n_a, const es_mem *b, int n_b, es_slab slab)
{
    float *out = j->dweight + (size_t)slab.first * (size_t)n_b;
    es_product_call call = {.shape = {.m = slab.n,
                                      .n = n_b,
                                      .k = j->n_rows,
                                      .a_transposed = true,
                                      .a_stride = n_a,
                                      .b_stride = n_b,
                                      .c_stride = n_b},
                            .c = out,
                            .residual = j->add ? out : NULL,
                            .a = act_at(j, a, (size_t)slab.first),
                            .b = b};
    if (slab.n > 0)
        run_product(j, share, &call);
}

/* Adds the sums of dy over all rows to dbias, for the thread's range of columns
 * (`slab`). */
static void add_bias_gradient(const job *j, es_share share, es_slab slab)
{
    const es_backend *backend = j->backend;
    const int width = j->linear->n_out, n = slab.n;
    float *to = j->dbias + slab.first;
    if (!backend->bf16)
        backend->kernels->add_column_sums(to, es_cpu_read(j->dy) + slab.first,
                                          j->n_rows, n, width);
    if (!backend->bf16 || n == 0)
        return;
    ES_CPU_EACH_CHUNK(rows, backend, ((es_slab){0, j->n_rows}), n)
    {
        float *panel = es_cpu_panel(backend, share, 0);
        for (int i = 0; i < rows.n; i++)
            backend->kernels->widen(
                panel + (size_t)i * (size_t)n,
                es_cpu_halves(j->dy) +
                    (size_t)(rows.first + i) * (size_t)width + slab.first,
                (size_t)n);
        backend->kernels->add_column_sums(to, panel, rows.n, n, n);
    }
}

static void weight_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_linear *linear = j->linear;
    assert(is_dense(linear));
    if (linear->transposed)
        multiply_weight(j, share, j->dy, linear->n_out, j->x, linear->n_in,
                        es_cpu_slab(share, linear->n_out, ROW_UNIT));
    else
        multiply_weight(j, share, j->x, linear->n_in, j->dy, linear->n_out,
                        es_cpu_slab(share, linear->n_in, ROW_UNIT));
    if (j->dbias)
        add_bias_gradient(j, share,
                          es_cpu_slab(share, linear->n_bias_trained, ROW_UNIT));
}

void es_cpu_linear_backward_weight(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows, bool add)
{
    job j = {.backend = backend,
             .linear = linear,
             .n_rows = n_rows,
             .add = add,
             .x = x,
             .dy = dy,
             .dweight = es_cpu_floats(dweight),
             .dbias = es_cpu_floats(dbias)};
    es_team_run(backend->team, weight_part, &j);
}
