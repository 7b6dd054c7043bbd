/** Attention in float32, backward: attention_fma.h says how. */
#include "hooks/trainer/cuda/attention_fma.h"

/* --- dq ------------------------------------------------------------------- */

/* What the block of dq has in shared memory. */
typedef struct query_tiles {
    float *q, *dy, *other, *p;
} query_tiles;

/* g into g, raw scores into s; the keys stay in `other`. */
template <class T, class A>
static ES_DEVICE void score_keys(const es_attention_call<A> *call,
                                 float s[T::R][T::R], float g[T::R][T::R],
                                 const query_tiles *tiles, es_fma_owned own,
                                 int key)
{
    const A *from = call->qkv + es_attention_qkv_at(call, own.head);
    const int d = call->d_model;
    __syncthreads();
    T::load(tiles->other, from + 2 * d, 3 * d, key, call->n_ctx, call->width);
    __syncthreads();
    T::multiply(g, tiles->dy, tiles->other, own);
    __syncthreads();
    T::load(tiles->other, from + d, 3 * d, key, call->n_ctx, call->width);
    __syncthreads();
    T::multiply(s, tiles->q, tiles->other, own);
}

/* The mean of g - w l anew from the weights. Under a small temperature a row is
 * almost one weight of 1: what rounding makes of its small g - <g> is
 * multiplied with 1/t. */
template <class T, class A>
static __device__ void
mean_gradients(const es_attention_call<A> *call, es_row_gradient row[T::R],
               const query_tiles *tiles, es_fma_owned own, es_tile_range keys)
{
    float s[T::R][T::R], g[T::R][T::R], mean[T::R] = {0};
    for (int key = keys.begin; key < keys.end; key += T::N) {
        score_keys<T>(call, s, g, tiles, own, key);
#pragma unroll
        for (int r = 0; r < T::R; r++)
#pragma unroll
            for (int c = 0; c < T::R; c++) {
                es_weight w = es_softmax::weigh<false>(s[r][c], row[r].anchor,
                                                       row[r].scale2, 0);
                float reduced = g[r][c] - row[r].weight * w.log;
                if (key + own.tx + ES_FMA_SIDE * c <=
                    own.first + own.ty + ES_FMA_SIDE * r)
                    mean[r] = fmaf(w.u * row[r].inverse, reduced, mean[r]);
            }
    }
    for (int r = 0; r < T::R; r++)
        row[r].mean = es_fma_row_sum(mean[r]);
}

/* Scores become their gradients, without the row's factor; returns sum dz l. */
template <class T, class KIND, class A>
static ES_DEVICE float
gradient_of_keys(const es_attention_call<A> *call, const es_row_gradient *row,
                 float s[T::R], const float g[T::R], int query, int first_key)
{
    float dot = 0;
#pragma unroll
    for (int c = 0; c < T::R; c++) {
        es_weight w = KIND::template weigh<false>(s[c], row->anchor,
                                                  row->scale2, call->power);
        float ds =
            w.slope * row->inverse * (g[c] - row->weight * w.log - row->mean);
        bool visible = first_key + ES_FMA_SIDE * c <= query;
        s[c] = visible ? ds : 0;
        if (visible)
            dot = fmaf(ds, w.log, dot);
    }
    return dot;
}

/* Gradients of the block's rows, with what g is compared with. */
template <class T, class KIND, class A>
static __device__ void
open_gradients(const es_attention_call<A> *call, es_row_gradient row[T::R],
               const query_tiles *tiles, es_fma_owned own, es_tile_range keys)
{
    float mean[T::R];
    T::load(tiles->other, call->y + es_attention_y_at(call, own.head),
            call->d_model, own.first, call->n_ctx, call->width);
    __syncthreads();
    T::multiply_rows(mean, tiles->dy, tiles->other, own);
#pragma unroll
    for (int r = 0; r < T::R; r++) {
        es_saved_row saved;
        row[r] = es_row_gradient_open<A, KIND>(
            call, own.head,
            min(own.first + own.ty + ES_FMA_SIDE * r, call->n_ctx - 1), &saved);
        row[r].mean = mean[r] - row[r].weight * saved.center;
    }
    if (KIND::SUMS_TO_ONE && call->log_t)
        mean_gradients<T>(call, row, tiles, own, keys);
}

/* Of every row what the kernel of dk and dv wants, and sum dz z. */
template <class T, class A>
static __device__ void write_means(const es_attention_call<A> *call,
                                   const es_row_gradient row[T::R],
                                   const float dot[T::R], es_fma_owned own)
{
    for (int r = 0; r < T::R; r++) {
        const int query = own.first + own.ty + ES_FMA_SIDE * r;
        const size_t at =
            (size_t)own.head * (size_t)call->n_ctx + (size_t)query;
        const float sum = es_fma_row_sum(dot[r]) * ES_LN_2;
        if (own.tx != 0 || query >= call->n_ctx)
            continue;
        call->means[at] = row[r].mean;
        if (call->dots)
            call->dots[at] = sum;
    }
}

template <class A, int WIDTH, class KIND>
__global__ void __launch_bounds__(ES_FMA_THREADS, 1)
    attention_dq_kernel(es_attention_call<A> call)
{
    typedef es_fma<A, WIDTH> tile;
    ES_SHARED(float, memory);
    const query_tiles tiles = {memory, memory + tile::FLOATS,
                               memory + 2 * tile::FLOATS,
                               memory + 3 * tile::FLOATS};
    const es_fma_owned own = tile::find(&call, ES_OWN_QUERIES);
    const es_tile_range keys =
        es_tile_others(own.first, tile::N, tile::N, call.n_ctx, ES_OWN_QUERIES);
    const size_t at = es_attention_qkv_at(&call, own.head);
    const int d = call.d_model;
    float out[tile::R][tile::C], s[tile::R][tile::R], g[tile::R][tile::R];
    float dot[tile::R] = {0}, factor[tile::R];
    es_row_gradient row[tile::R];
    tile::clear(out);
    tile::load(tiles.q, call.qkv + at, 3 * d, own.first, call.n_ctx,
               call.width);
    tile::load(tiles.dy, call.dy + es_attention_y_at(&call, own.head), d,
               own.first, call.n_ctx, call.width);
    open_gradients<tile, KIND>(&call, row, &tiles, own, keys);
    for (int key = keys.begin; key < keys.end; key += tile::N) {
        score_keys<tile>(&call, s, g, &tiles, own, key);
#pragma unroll
        for (int r = 0; r < tile::R; r++)
            dot[r] += gradient_of_keys<tile, KIND>(
                &call, &row[r], s[r], g[r],
                own.first + own.ty + ES_FMA_SIDE * r, key + own.tx);
        tile::keep(tiles.p, s, own);
        __syncthreads();
        tile::gather(out, tiles.p, tiles.other, own, key, ES_OWN_QUERIES);
    }
    for (int r = 0; r < tile::R; r++)
        factor[r] = row[r].factor;
    write_means<tile>(&call, row, dot, own);
    tile::write(call.dqkv + at, out, factor, 3 * d, own, call.n_ctx,
                call.width);
}

/* --- dk and dv ------------------------------------------------------------ */

/* What the block of dk and dv has in shared memory. */
typedef struct key_tiles {
    float *k, *v, *other, *p;
} key_tiles;

/* Of keys ty + 16 r and queries tx + 16 c: raw scores become gradients, g
 * becomes weights. */
template <class T, class KIND, class A>
static ES_DEVICE void
gradient_of_queries(const es_attention_call<A> *call, float s[T::R][T::R],
                    float g[T::R][T::R], es_fma_owned own, int first_query)
{
#pragma unroll
    for (int c = 0; c < T::R; c++) {
        const int query = first_query + own.tx + ES_FMA_SIDE * c;
        const int inside = min(query, call->n_ctx - 1);
        es_saved_row saved;
        es_row_gradient row =
            es_row_gradient_open<A, KIND>(call, own.head, inside, &saved);
        row.mean = call->means[(size_t)own.head * (size_t)call->n_ctx +
                               (size_t)inside];
#pragma unroll
        for (int r = 0; r < T::R; r++) {
            es_weight w = KIND::template weigh<false>(s[r][c], row.anchor,
                                                      row.scale2, call->power);
            float ds = w.slope * row.inverse *
                       (g[r][c] - row.weight * w.log - row.mean);
            bool visible = query < call->n_ctx &&
                           es_tile_visible(own.first + own.ty + ES_FMA_SIDE * r,
                                           query, ES_OWN_KEYS);
            g[r][c] = visible ? w.u * row.inverse : 0;
            s[r][c] = visible ? ds * row.factor : 0;
        }
    }
}

/* Adds what the queries of a tile give to dk and dv. */
template <class T, class KIND, class A>
static ES_DEVICE void add_queries(const es_attention_call<A> *call,
                                  float dk[T::R][T::C], float dv[T::R][T::C],
                                  const key_tiles *tiles, es_fma_owned own,
                                  int query)
{
    const A *q = call->qkv + es_attention_qkv_at(call, own.head);
    const A *dy = call->dy + es_attention_y_at(call, own.head);
    const int d = call->d_model;
    float s[T::R][T::R], g[T::R][T::R];
    __syncthreads();
    T::load(tiles->other, q, 3 * d, query, call->n_ctx, call->width);
    __syncthreads();
    T::multiply(s, tiles->k, tiles->other, own);
    __syncthreads();
    T::load(tiles->other, dy, d, query, call->n_ctx, call->width);
    __syncthreads();
    T::multiply(g, tiles->v, tiles->other, own);
    gradient_of_queries<T, KIND>(call, s, g, own, query);
    T::keep(tiles->p, g, own);
    __syncthreads();
    T::gather(dv, tiles->p, tiles->other, own, query, ES_OWN_KEYS);
    __syncthreads();
    T::keep(tiles->p, s, own);
    T::load(tiles->other, q, 3 * d, query, call->n_ctx, call->width);
    __syncthreads();
    T::gather(dk, tiles->p, tiles->other, own, query, ES_OWN_KEYS);
}

template <class A, int WIDTH, class KIND>
__global__ void __launch_bounds__(ES_FMA_THREADS, 1)
    attention_dkv_kernel(es_attention_call<A> call)
{
    typedef es_fma<A, WIDTH> tile;
    ES_SHARED(float, memory);
    const key_tiles tiles = {memory, memory + tile::FLOATS,
                             memory + 2 * tile::FLOATS,
                             memory + 3 * tile::FLOATS};
    const es_fma_owned own = tile::find(&call, ES_OWN_KEYS);
    const es_tile_range queries =
        es_tile_others(own.first, tile::N, tile::N, call.n_ctx, ES_OWN_KEYS);
    const size_t at =
        es_attention_qkv_at(&call, own.head) + (size_t)call.d_model;
    const int d = call.d_model;
    float dk[tile::R][tile::C], dv[tile::R][tile::C], factor[tile::R];
    tile::clear(dk);
    tile::clear(dv);
    tile::load(tiles.k, call.qkv + at, 3 * d, own.first, call.n_ctx,
               call.width);
    tile::load(tiles.v, call.qkv + at + d, 3 * d, own.first, call.n_ctx,
               call.width);
    for (int query = queries.begin; query < queries.end; query += tile::N)
        add_queries<tile, KIND>(&call, dk, dv, &tiles, own, query);
    for (int r = 0; r < tile::R; r++)
        factor[r] = 1;
    tile::write(call.dqkv + at, dk, factor, 3 * d, own, call.n_ctx, call.width);
    tile::write(call.dqkv + at + d, dv, factor, 3 * d, own, call.n_ctx,
                call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, class KIND>
static void backward(es_device *device, const es_attention_call<A> *call)
{
    es_launch(device, "attention_dq", attention_dq_kernel<A, WIDTH, KIND>,
              es_fma<A, WIDTH>::grid(call), ES_FMA_THREADS,
              es_fma<A, WIDTH>::shared(3), *call);
    es_launch(device, "attention_dkv", attention_dkv_kernel<A, WIDTH, KIND>,
              es_fma<A, WIDTH>::grid(call), ES_FMA_THREADS,
              es_fma<A, WIDTH>::shared(3), *call);
}

template <class A, class KIND>
static void backward_of_width(es_device *device,
                              const es_attention_call<A> *call)
{
    if (call->width <= 32)
        backward<A, 32, KIND>(device, call);
    else if (call->width <= 64)
        backward<A, 64, KIND>(device, call);
    else if (call->width <= 128)
        backward<A, 128, KIND>(device, call);
    else
        backward<A, 256, KIND>(device, call);
}

template <class A>
void es_cuda_attention_fma_backward(es_device *device,
                                    const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        backward_of_width<A, es_power_softmax>(device, call);
    else
        backward_of_width<A, es_softmax>(device, call);
}

#define INSTANTIATE(A)                                                         \
    template void es_cuda_attention_fma_backward<A>(                           \
        es_device *, const es_attention_call<A> *);
INSTANTIATE(float)
INSTANTIATE(es_bf16)
INSTANTIATE(es_fp16)
