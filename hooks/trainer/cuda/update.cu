/* Implements the update of a training step: the norm of the gradient, clipping,
 * and AdamW. AdamW also updates the copies of the weights in the precision that
 * matrix products use. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

/* --- sum of squares ------------------------------------------------------- */

template <int W>
static ES_DEVICE double squares_of(const float *x)
{
    float v[W];
    double sum = 0;
    es_load(v, x);
#pragma unroll
    for (int c = 0; c < W; c++)
        sum += (double)v[c] * (double)v[c];
    return sum;
}

static __global__ void sum_squares_kernel(double *pieces, const float *x,
                                          es_split split)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    constexpr int lanes = es_lanes<float>;
    double sum = 0;
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads())
        sum += squares_of<1>(x + es_split_single(&split, i, lanes));
#pragma unroll 4
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads())
        sum += squares_of<lanes>(x + split.head + i * lanes);
    sum = es_block_sum(sum, shared);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = sum;
}

static __global__ void add_pieces_kernel(double *out, const double *pieces,
                                         int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double sum = es_sum_pieces(pieces, n, shared);
    if (threadIdx.x == 0)
        out[0] = sum;
}

static void sum_squares(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n)
{
    const unsigned blocks =
        es_pieces(backend, n, ES_THREADS * es_lanes<float>, 4);
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    double *pieces = es_at<double>(backend->scratch);
    es_launch(backend->device, "sum of squares", sum_squares_kernel, blocks,
              ES_THREADS, shared, pieces, es_at<float>(x),
              es_split_of(n, es_at<float>(x)));
    es_launch(backend->device, "sum of squares", add_pieces_kernel, 1,
              ES_THREADS, shared, es_at<double>(out), (const double *)pieces,
              (int)blocks);
}

/* --- clipping ------------------------------------------------------------- */

/* Computes grad_scale. Sets `skips` if the gradient's norm or the loss is not
 * finite and the step may be skipped. The loss is not checked if it is NULL. */
static __global__ void clip_kernel(es_control *control, const double *squares,
                                   const double *loss, float max_norm,
                                   bool may_skip)
{
    es_begin_kernel();
    const double loss_scale = (double)control->loss_scale;
    const double norm = sqrt(squares[0]) / loss_scale;
    const bool clips =
        isfinite(norm) && max_norm > 0 && norm > (double)max_norm;
    const bool is_finite = isfinite(norm) && (!loss || isfinite(loss[0]));
    const double factor = clips ? (double)max_norm / norm : 1;
    if (threadIdx.x != 0)
        return;
    control->grad_scale = (float)(factor / loss_scale);
    if (may_skip && !is_finite)
        control->skips = 1;
}

static void clip(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip)
{
    es_launch(backend->device, "clip", clip_kernel, 1, 32, 0,
              es_at<es_control>(control), es_at<double>(squares),
              es_at<double>(loss), max_norm, may_skip);
}

/* --- AdamW ---------------------------------------------------------------- */

typedef struct adamw_arguments {
    float *param, *moment1, *moment2;
    const float *grad;
    const es_control *control;
    es_adamw how;
    es_split split;
} adamw_arguments;

/* Writes W updated parameters to their copy in the precision that matrix
 * products use. */
template <class A, int W>
static ES_DEVICE void store_copy(A *copy, const float (&p)[W])
{
    if constexpr (2 * W == es_lanes<A>)
        es_store_half(copy, p);
    else
        es_store(copy, p);
}

/* Factors of AdamW's update that are the same for all parameters. */
typedef struct adamw_rates {
    float scale, keep, rate, root;
} adamw_rates;

template <int W, class A>
static ES_DEVICE void update_params(const adamw_arguments *a, A *copy,
                                    const adamw_rates *rates, size_t at)
{
    const float beta1 = a->how.beta1, beta2 = a->how.beta2;
    float p[W], m[W], v[W], g[W];
    es_load(g, a->grad + at);
    es_load(m, a->moment1 + at);
    es_load(v, a->moment2 + at);
    es_load(p, a->param + at);
#pragma unroll
    for (int c = 0; c < W; c++) {
        g[c] *= rates->scale;
        m[c] = beta1 * m[c] + (1 - beta1) * g[c];
        v[c] = beta2 * v[c] + (1 - beta2) * g[c] * g[c];
        p[c] = p[c] * rates->keep -
               rates->rate * m[c] / (sqrtf(v[c]) * rates->root + a->how.eps);
    }
    es_store(a->moment1 + at, m);
    es_store(a->moment2 + at, v);
    es_store(a->param + at, p);
    if (copy)
        store_copy(copy + at, p);
}

/* Applies AdamW to n parameters. `copy` is their copy in the precision that
 * matrix products use, or NULL. */
template <class A>
static __global__ void adamw_kernel(adamw_arguments a, A *copy)
{
    es_begin_kernel();
    constexpr int lanes = es_lanes<float>;
    const es_control control = *a.control;
    const es_split split = a.split;
    const adamw_rates rates = {control.grad_scale, 1 - control.lr * a.how.decay,
                               control.lr / control.correction1,
                               1 / sqrtf(control.correction2)};
    if (control.skips != 0)
        return;
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads())
        update_params<1>(&a, copy, &rates, es_split_single(&split, i, lanes));
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads())
        update_params<lanes>(&a, copy, &rates, split.head + i * lanes);
}

/* Returns the copy of `param` in the precision that matrix products use, or
 * NULL if there is none. */
template <class A>
static A *copy_of(const es_backend *backend, const es_mem *param)
{
    bool is_copy;
    const es_mem *found = es_cuda_weights(backend, param, &is_copy);
    /* the back-end owns the copies, so it may write to them */
    return is_copy ? es_at<A>(const_cast<es_mem *>(found)) : NULL;
}

template <class A>
static void adamw(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control)
{
    A *copy = copy_of<A>(backend, param);
    adamw_arguments a = {es_at<float>(param),
                         es_at<float>(moment1),
                         es_at<float>(moment2),
                         es_at<float>(grad),
                         es_at<es_control>(control),
                         *how,
                         es_split_of(n, es_at<float>(grad), es_at<float>(param),
                                     es_at<float>(moment1),
                                     es_at<float>(moment2))};
    const unsigned blocks =
        es_blocks(backend, n, ES_THREADS * es_lanes<float>, 8);
    if ((uintptr_t)(copy + a.split.head) % (ES_PACK / 2) != 0)
        a.split = {n, 0, 0};
    es_launch(backend->device, "AdamW", adamw_kernel<A>, blocks, ES_THREADS, 0,
              a, copy);
}

template <class A>
void es_cuda_update_ops(es_ops *ops)
{
    ops->sum_squares = sum_squares;
    ops->clip = clip;
    ops->adamw = adamw<A>;
}
ES_OF_ACTIVATIONS(es_cuda_update_ops)
