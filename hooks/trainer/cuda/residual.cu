/* Implements the forward and backward passes of y = beta * x + f / alpha for
 * scaled FFNs, of the gate, and of dropout. */
#include "hooks/trainer/cuda/reduce.h"

template <class A>
struct combine_arguments {
    A *y;
    const A *x, *f;
    const float *alpha, *beta;
    es_split split;
};

template <int W, class A>
static ES_DEVICE void combine_lanes(const combine_arguments<A> *a, size_t at,
                                    float by_x, float by_f)
{
    float x[W], f[W];
    es_load(x, a->x + at);
    es_load(f, a->f + at);
#pragma unroll
    for (int c = 0; c < W; c++)
        x[c] = by_x * x[c] + by_f * f[c];
    es_store(a->y + at, x);
}

template <class A>
static __global__ void combine_kernel(combine_arguments<A> a)
{
    es_begin_kernel();
    constexpr int lanes = es_lanes<A>;
    const es_split split = a.split;
    const float by_x = a.beta[0], by_f = 1 / a.alpha[0];
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads())
        combine_lanes<1>(&a, es_split_single(&split, i, lanes), by_x, by_f);
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads())
        combine_lanes<lanes>(&a, split.head + i * lanes, by_x, by_f);
}

template <class A>
static void combine(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n)
{
    const combine_arguments<A> a = {
        es_at<A>(y),
        es_at<A>(x),
        es_at<A>(f),
        es_at<float>(alpha),
        es_at<float>(beta),
        es_split_of(n, es_at<A>(x), es_at<A>(f), es_at<A>(y))};
    const unsigned blocks = es_blocks(backend, n, ES_THREADS * es_lanes<A>, 8);
    es_launch(backend->device, "combine", combine_kernel<A>, blocks, ES_THREADS,
              0, a);
}

/* --- the backward pass ---------------------------------------------------- */

/* The sums of dy * x and of dy * f that one thread computes. */
typedef struct along {
    double x, f;
} along;

template <class A>
struct combine_gradient {
    A *dx, *df;
    const A *dy, *x, *f;
    const float *alpha, *beta;
    double *pieces; /* the sum of dy * x of each block, followed by the sum of
                       dy * f of each block */
    es_split split;
};

/* Computes dx and df for W elements, and adds the elements' products to the
 * sums. Reads dy before writing dx, because both may be the same array. */
template <int W, class A>
static ES_DEVICE void combine_back(along *sum, const combine_gradient<A> *g,
                                   size_t at, float by_x, float by_f)
{
    float dy[W], x[W], f[W];
    es_load(dy, g->dy + at);
    es_load(x, g->x + at);
    es_load(f, g->f + at);
#pragma unroll
    for (int c = 0; c < W; c++) {
        sum->x += (double)dy[c] * (double)x[c];
        sum->f += (double)dy[c] * (double)f[c];
        x[c] = by_x * dy[c];
        f[c] = by_f * dy[c];
    }
    es_store(g->dx + at, x);
    es_store(g->df + at, f);
}

template <class A>
static __global__ void combine_backward_kernel(combine_gradient<A> g)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    constexpr int lanes = es_lanes<A>;
    const es_split split = g.split;
    const float by_x = g.beta[0], by_f = 1 / g.alpha[0];
    along sum = {0, 0};
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads())
        combine_back<1>(&sum, &g, es_split_single(&split, i, lanes), by_x,
                        by_f);
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads())
        combine_back<lanes>(&sum, &g, split.head + i * lanes, by_x, by_f);
    const double along_x = es_block_sum(sum.x, shared);
    const double along_f = es_block_sum(sum.f, shared);
    if (threadIdx.x == 0) {
        g.pieces[blockIdx.x] = along_x;
        g.pieces[gridDim.x + blockIdx.x] = along_f;
    }
}

static __global__ void add_scalars_kernel(float *dalpha, float *dbeta,
                                          const double *pieces, int n,
                                          const float *alpha)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double along_x = es_sum_pieces(pieces, n, shared);
    const double along_f = es_sum_pieces(pieces + n, n, shared);
    const double a = (double)alpha[0];
    if (threadIdx.x == 0) {
        dbeta[0] += (float)along_x;
        dalpha[0] -= (float)(along_f / (a * a));
    }
}

template <class A>
static void combine_backward(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n)
{
    const combine_gradient<A> g = {es_at<A>(dx),
                                   es_at<A>(df),
                                   es_at<A>(dy),
                                   es_at<A>(x),
                                   es_at<A>(f),
                                   es_at<float>(alpha),
                                   es_at<float>(beta),
                                   es_at<double>(backend->scratch),
                                   es_split_of(n, es_at<A>(dy), es_at<A>(x),
                                               es_at<A>(f), es_at<A>(dx),
                                               es_at<A>(df))};
    const unsigned blocks = es_pieces(backend, n, ES_THREADS * es_lanes<A>, 4);
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    es_launch(backend->device, "combine's gradient", combine_backward_kernel<A>,
              blocks, ES_THREADS, shared, g);
    es_launch(backend->device, "combine's gradient", add_scalars_kernel, 1,
              ES_THREADS, shared, es_at<float>(dalpha), es_at<float>(dbeta),
              (const double *)g.pieces, (int)blocks, g.alpha);
}

/* --- y = x sigmoid(gate) -------------------------------------------------- */

template <class A>
struct gate_arguments {
    A *y, *gate; /* in the backward pass, y points to dx, and the gate's
                  * gradient overwrites the gate */
    const A *x, *dy;
    es_split split;
};

/* Returns s = 1 / (1 + exp(-x)). Sets *rest to 1 - s, computed so that it is
 * accurate even if s is near 1. Uses exp(-|x|), which cannot overflow. */
static ES_DEVICE float sigmoid(float *rest, float x)
{
    const float small = es_exp(-fabsf(x)), large = 1 / (1 + small);
    const bool positive = x >= 0;
    *rest = positive ? small * large : large;
    return positive ? large : small * large;
}

template <int W, class A>
static ES_DEVICE void gate_lanes(const gate_arguments<A> *a, size_t at)
{
    float x[W], g[W], rest;
    es_load(x, a->x + at);
    es_load(g, a->gate + at);
#pragma unroll
    for (int c = 0; c < W; c++)
        x[c] *= sigmoid(&rest, g[c]);
    es_store(a->y + at, x);
}

/* Computes the gradients of W elements of x and of the gate's inputs. Reads dy
 * before writing dx, because both may be the same array. */
template <int W, class A>
static ES_DEVICE void gate_back(const gate_arguments<A> *a, size_t at)
{
    float x[W], g[W], dy[W], rest;
    es_load(x, a->x + at);
    es_load(g, a->gate + at);
    es_load(dy, a->dy + at);
#pragma unroll
    for (int c = 0; c < W; c++) {
        dy[c] *= sigmoid(&rest, g[c]);
        g[c] = dy[c] * x[c] * rest;
    }
    es_store(a->y + at, dy);
    es_store(a->gate + at, g);
}

template <bool BACK, class A>
static __global__ void gate_kernel(gate_arguments<A> a)
{
    es_begin_kernel();
    constexpr int lanes = es_lanes<A>;
    const es_split split = a.split;
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads()) {
        const size_t at = es_split_single(&split, i, lanes);
        if (BACK)
            gate_back<1>(&a, at);
        else
            gate_lanes<1>(&a, at);
    }
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads()) {
        const size_t at = split.head + i * lanes;
        if (BACK)
            gate_back<lanes>(&a, at);
        else
            gate_lanes<lanes>(&a, at);
    }
}

template <class A>
static void gate(es_backend *backend, es_mem *y, const es_mem *x,
                 const es_mem *gate, size_t n)
{
    const gate_arguments<A> a = {
        es_at<A>(y), (A *)es_at<A>(gate), es_at<A>(x), NULL,
        es_split_of(n, es_at<A>(x), es_at<A>(gate), es_at<A>(y))};
    const unsigned blocks = es_blocks(backend, n, ES_THREADS * es_lanes<A>, 8);
    es_launch(backend->device, "gate", gate_kernel<false, A>, blocks,
              ES_THREADS, 0, a);
}

template <class A>
static void gate_backward(es_backend *backend, es_mem *dx, es_mem *gate,
                          const es_mem *dy, const es_mem *x, size_t n)
{
    const gate_arguments<A> a = {es_at<A>(dx), es_at<A>(gate), es_at<A>(x),
                                 es_at<A>(dy),
                                 es_split_of(n, es_at<A>(dy), es_at<A>(x),
                                             es_at<A>(gate), es_at<A>(dx))};
    const unsigned blocks = es_blocks(backend, n, ES_THREADS * es_lanes<A>, 8);
    es_launch(backend->device, "gate's gradient", gate_kernel<true, A>, blocks,
              ES_THREADS, 0, a);
}

/* --- y = r + dropped x ---------------------------------------------------- */

template <class A>
struct dropout_arguments {
    A *y;
    const A *residual, *x;
    const uint64_t *pass;
    es_dropout how;
    size_t n;
};

/* Each thread processes blocks of four elements, because the random numbers of
 * four elements are computed together. */
template <class A>
static __global__ void dropout_kernel(dropout_arguments<A> a)
{
    es_begin_kernel();
    const es_drop_mask mask = es_drop_mask_of(&a.how, a.pass[0]);
    for (size_t i = es_thread(); 4 * i < a.n; i += es_all_threads()) {
        float factors[4];
        es_drop_factors(factors, &mask, i);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const size_t at = 4 * i + (size_t)c;
            float x[1], r[1] = {0};
            if (at >= a.n)
                break;
            es_load(x, a.x + at);
            if (a.residual)
                es_load(r, a.residual + at);
            x[0] = r[0] + factors[c] * x[0];
            es_store(a.y + at, x);
        }
    }
}

template <class A>
static void dropout(es_backend *backend, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_dropout *how, const es_mem *pass,
                    size_t n)
{
    const dropout_arguments<A> a = {
        es_at<A>(y), residual ? es_at<A>(residual) : NULL,
        es_at<A>(x), es_at<uint64_t>(pass),
        *how,        n};
    const unsigned blocks = es_blocks(backend, n, ES_THREADS * 4, 8);
    es_launch(backend->device, "dropout", dropout_kernel<A>, blocks, ES_THREADS,
              0, a);
}

template <class A>
void es_cuda_residual_ops(es_ops *ops)
{
    ops->combine = combine<A>;
    ops->combine_backward = combine_backward<A>;
    ops->gate = gate<A>;
    ops->gate_backward = gate_backward<A>;
    ops->dropout = dropout<A>;
}
ES_OF_ACTIVATIONS(es_cuda_residual_ops)
