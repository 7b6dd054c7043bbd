/* Applies Pythia's rotary position embedding. The first r dimensions of each
 * head's q and k are rotated in pairs (c, c + r/2): at position i, pair c is
 * rotated by the angle i * base^(-2c/r). A block processes a few rows at a
 * time, and computes the sines and cosines of these rows once, in double, for
 * all heads. */
#include "hooks/trainer/cuda/reduce.h"

#include <math.h>

#define BASE 10000.0

/* Number of rows that a block processes at a time. */
#define N_ROWS 4

typedef struct rotation {
    int n_rows, n_ctx, n_head, d_model;
    int n_pairs; /* r / 2 */
    bool back;
} rotation;

/* Returns the number of rotated dimensions: a quarter of a head's width,
 * rounded down to an even number, at least 2. */
static int count_rotated(int head_width)
{
    const int quarter = head_width / 4 / 2 * 2;
    return quarter > 2 ? quarter : 2;
}

/* Fills `turns` (rows,2,pairs) with the cosines and then the sines of each
 * row's angles. For the backward pass, negates the sines. */
static __device__ void fill_turns(float *turns, const rotation *r, int first)
{
    const int n = N_ROWS * r->n_pairs;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const int row = i / r->n_pairs, c = i - row * r->n_pairs;
        const double position = (first + row) % r->n_ctx;
        const double angle = position * pow(BASE, -(double)c / r->n_pairs);
        float *to = turns + 2 * row * r->n_pairs + c;
        to[0] = (float)cos(angle);
        to[r->n_pairs] = (float)(r->back ? -sin(angle) : sin(angle));
    }
}

/* Rotates W pairs of dimensions of one head at one position. */
template <int W, class A>
static ES_DEVICE void rotate_pairs(A *x, const float *turns, int n_pairs)
{
    float a[W], b[W], left[W], right[W];
    es_load(a, x);
    es_load(b, x + n_pairs);
#pragma unroll
    for (int c = 0; c < W; c++) {
        const float cosine = turns[c], sine = turns[n_pairs + c];
        left[c] = a[c] * cosine - b[c] * sine;
        right[c] = b[c] * cosine + a[c] * sine;
    }
    es_store(x, left);
    es_store(x + n_pairs, right);
}

/* Rotates q and k of all heads in N_ROWS rows. A row stores q of all heads,
 * then k of all heads. */
template <class A, int W>
static __device__ void turn_rows(A *qkv, const float *turns, const rotation *r,
                                 int first)
{
    const int packs = r->n_pairs / W, of_row = 2 * r->n_head * packs;
    const int width = r->d_model / r->n_head;
    for (int i = (int)threadIdx.x; i < N_ROWS * of_row; i += (int)blockDim.x) {
        const int row = i / of_row, head = (i - row * of_row) / packs;
        const int c = i % packs * W;
        if (first + row >= r->n_rows)
            continue;
        A *x = qkv + (size_t)(first + row) * 3 * (size_t)r->d_model +
               (size_t)head * (size_t)width + (size_t)c;
        rotate_pairs<W>(x, turns + 2 * row * r->n_pairs + c, r->n_pairs);
    }
}

template <class A, int W>
static __global__ void rotate_kernel(A *qkv, rotation r)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, turns);
    const int step = N_ROWS * (int)gridDim.x;
    for (int first = N_ROWS * (int)blockIdx.x; first < r.n_rows;
         first += step) {
        fill_turns(turns, &r, first);
        __syncthreads();
        turn_rows<A, W>(qkv, turns, &r, first);
        __syncthreads();
    }
}

template <class A>
static void rotate(es_backend *backend, es_mem *qkv, const es_attention *a,
                   bool back)
{
    constexpr int lanes = es_lanes<A>;
    const int width = a->d_model / a->n_head;
    const rotation r = {
        a->n_batch * a->n_ctx,    a->n_ctx, a->n_head, a->d_model,
        count_rotated(width) / 2, back};
    const bool fits =
        r.n_pairs % lanes == 0 && width % lanes == 0 && es_packs_fit(qkv);
    es_launch(backend->device, "rotate",
              fits ? rotate_kernel<A, lanes> : rotate_kernel<A, 1>,
              es_blocks(backend, (size_t)r.n_rows, N_ROWS, 16), ES_THREADS / 2,
              2 * N_ROWS * (size_t)r.n_pairs * sizeof(float), es_at<A>(qkv), r);
}

template <class A>
void es_cuda_rotate_ops(es_ops *ops)
{
    ops->rotate = rotate<A>;
}
ES_OF_ACTIVATIONS(es_cuda_rotate_ops)
