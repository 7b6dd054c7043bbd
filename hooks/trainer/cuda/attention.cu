/**
 * Attention for every head width up to 256 and every type of activation: exact
 * float32 arithmetic on tiles in shared memory. The parity of fp32 and tf32
 * rests on it; bf16 and fp16 come here where attention_mma.cu cannot.
 *
 * A block has 256 threads, 16 by 16, and owns N rows of a head; thread (tx, ty)
 * has rows ty + 16 r of them and columns tx + 16 c of what they meet. Two
 * products serve all three kernels:
 *
 *     multiply  s[i][j]  = sum_c x[i][c] y[j][c]     q . k, dy . v
 *     gather    o[i][c] += sum_j p[i][j] y[j][c]     outputs, dq; dk, dv
 *
 * multiply sums in the order of c, whatever the tile: where a row is one weight
 * of 1, y is v, and dy . y is dy . v to the last bit.
 */
#include "hooks/trainer/cuda/attention.h"

enum { N_THREADS = 256, SIDE = 16 };

/* Rows of a tile for heads up to WIDTH wide. */
template <int WIDTH>
struct tile_of {
    enum {
        N = WIDTH <= 64 ? 64 : WIDTH <= 128 ? 32 : 16,
        R = N / SIDE,          /* rows, or columns, of a thread */
        C = WIDTH / SIDE,      /* columns of an output, of a thread */
        STRIDE = WIDTH + 4,    /* floats: rows in different banks */
        P_STRIDE = N + 4,      /* of a tile of weights */
        FLOATS = N * STRIDE,
        P_FLOATS = N * P_STRIDE
    };
};

/* Which head, and which of its rows a block owns. */
typedef struct owned {
    int head, first;
    int tx, ty;
} owned;

template <class A, int WIDTH>
__device__ __forceinline__ owned find_owned(const es_attention_call<A> *call,
                                            es_tile_owner owner)
{
    es_tile_place place =
        es_tile_place_of(blockIdx.x, call->n_batch * call->n_head, call->n_ctx,
                         tile_of<WIDTH>::N, owner);
    owned own = {place.head, place.first, (int)threadIdx.x % SIDE,
                 (int)threadIdx.x / SIDE};
    return own;
}

/* --- tiles ---------------------------------------------------------------- */

/* Rows first .. first + N - 1 of an array whose positions are `stride` apart;
 * zeros beyond its n_ctx rows and `width` columns. */
template <class A, int WIDTH>
__device__ void load_tile(float *out, const A *from, int stride, int first,
                          int n_ctx, int width)
{
    typedef tile_of<WIDTH> tile;
    for (int e = (int)threadIdx.x; e < tile::N * WIDTH; e += N_THREADS) {
        int row = e / WIDTH, c = e % WIDTH;
        bool inside = first + row < n_ctx && c < width;
        size_t at = (size_t)(first + row) * (size_t)stride + (size_t)c;
        out[row * tile::STRIDE + c] = inside ? es_float(from[at]) : 0;
    }
}

template <int WIDTH>
__device__ __forceinline__ void
multiply(float s[tile_of<WIDTH>::R][tile_of<WIDTH>::R], const float *x,
         const float *y, owned own)
{
    typedef tile_of<WIDTH> tile;
    for (int r = 0; r < tile::R; r++)
        for (int c = 0; c < tile::R; c++)
            s[r][c] = 0;
#pragma unroll 2
    for (int k = 0; k < WIDTH; k += 4) {
        float4 b[tile::R];
#pragma unroll
        for (int c = 0; c < tile::R; c++)
            b[c] = *(const float4 *)(const void *)&y[(own.tx + SIDE * c) *
                                                         tile::STRIDE +
                                                     k];
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            float4 a = *(const float4 *)(const void *)&x[(own.ty + SIDE * r) *
                                                             tile::STRIDE +
                                                         k];
#pragma unroll
            for (int c = 0; c < tile::R; c++) {
                s[r][c] = fmaf(a.x, b[c].x, s[r][c]);
                s[r][c] = fmaf(a.y, b[c].y, s[r][c]);
                s[r][c] = fmaf(a.z, b[c].z, s[r][c]);
                s[r][c] = fmaf(a.w, b[c].w, s[r][c]);
            }
        }
    }
}

/* Rows of x with the same rows of y; every thread of a row has it. */
template <int WIDTH>
__device__ void multiply_rows(float s[tile_of<WIDTH>::R], const float *x,
                              const float *y, owned own)
{
    typedef tile_of<WIDTH> tile;
    for (int r = 0; r < tile::R; r++) {
        const int row = (own.ty + SIDE * r) * tile::STRIDE;
        s[r] = 0;
        for (int k = 0; k < WIDTH; k++)
            s[r] = fmaf(x[row + k], y[row + k], s[r]);
    }
}

template <int WIDTH>
__device__ __forceinline__ void
gather_all(float out[tile_of<WIDTH>::R][tile_of<WIDTH>::C], const float *p,
           const float *y, owned own)
{
    typedef tile_of<WIDTH> tile;
#pragma unroll 4
    for (int j = 0; j < tile::N; j++) {
        float a[tile::R];
#pragma unroll
        for (int r = 0; r < tile::R; r++)
            a[r] = p[(own.ty + SIDE * r) * tile::P_STRIDE + j];
#pragma unroll
        for (int c = 0; c < tile::C; c++) {
            float b = y[j * tile::STRIDE + own.tx + SIDE * c];
#pragma unroll
            for (int r = 0; r < tile::R; r++)
                out[r][c] = fmaf(a[r], b, out[r][c]);
        }
    }
}

/* Leaves out what is masked, where 0 * NaN would be NaN. */
template <int WIDTH>
__device__ __forceinline__ void
gather_visible(float out[tile_of<WIDTH>::R][tile_of<WIDTH>::C], const float *p,
               const float *y, owned own, int other, es_tile_owner owner)
{
    typedef tile_of<WIDTH> tile;
    for (int j = 0; j < tile::N; j++)
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            const int row = own.ty + SIDE * r;
            const float a = p[row * tile::P_STRIDE + j];
            if (es_tile_visible(own.first + row, other + j, owner))
#pragma unroll
                for (int c = 0; c < tile::C; c++)
                    out[r][c] = fmaf(
                        a, y[j * tile::STRIDE + own.tx + SIDE * c], out[r][c]);
        }
}

template <int WIDTH>
__device__ __forceinline__ void
gather(float out[tile_of<WIDTH>::R][tile_of<WIDTH>::C], const float *p,
       const float *y, owned own, int other, es_tile_owner owner)
{
    typedef tile_of<WIDTH> tile;
    if (es_tile_mask_of(own.first, tile::N, other, tile::N, owner) ==
        ES_TILE_ALL)
        gather_all<WIDTH>(out, p, y, own);
    else
        gather_visible<WIDTH>(out, p, y, own, other, owner);
}

template <int WIDTH>
__device__ __forceinline__ void
keep_weights(float *p, const float a[tile_of<WIDTH>::R][tile_of<WIDTH>::R],
             owned own)
{
    typedef tile_of<WIDTH> tile;
#pragma unroll
    for (int r = 0; r < tile::R; r++)
#pragma unroll
        for (int c = 0; c < tile::R; c++)
            p[(own.ty + SIDE * r) * tile::P_STRIDE + own.tx + SIDE * c] =
                a[r][c];
}

/* Rows of an output, each times its factor. */
template <class A, int WIDTH>
__device__ void
write_rows(A *out, const float from[tile_of<WIDTH>::R][tile_of<WIDTH>::C],
           const float factor[tile_of<WIDTH>::R], int stride, owned own,
           int n_ctx, int width)
{
    typedef tile_of<WIDTH> tile;
#pragma unroll
    for (int r = 0; r < tile::R; r++) {
        const int row = own.first + own.ty + SIDE * r;
#pragma unroll
        for (int c = 0; c < tile::C; c++) {
            const int column = own.tx + SIDE * c;
            if (row < n_ctx && column < width)
                out[(size_t)row * (size_t)stride + (size_t)column] =
                    es_act_of<A>(from[r][c] * factor[r]);
        }
    }
}

template <int WIDTH>
__device__ __forceinline__ void
clear(float out[tile_of<WIDTH>::R][tile_of<WIDTH>::C])
{
    for (int r = 0; r < tile_of<WIDTH>::R; r++)
        for (int c = 0; c < tile_of<WIDTH>::C; c++)
            out[r][c] = 0;
}

/* Over the 16 threads of a row. */
__device__ __forceinline__ float row_sum(float x)
{
    for (int across = SIDE / 2; across > 0; across /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, across);
    return x;
}
__device__ __forceinline__ float row_largest(float x)
{
    for (int across = SIDE / 2; across > 0; across /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, across));
    return x;
}

/* --- forward -------------------------------------------------------------- */

/* Raw scores of a row become u, masked ones 0; returns what the row's outputs
 * so far are to be multiplied with. */
template <class A, int WIDTH, bool POWER>
__device__ __forceinline__ float
weigh_row(const es_attention_call<A> *call, float s[tile_of<WIDTH>::R],
          es_row *row, int query, int first_key, float scale2)
{
    typedef tile_of<WIDTH> tile;
    float m = -INFINITY, largest = -INFINITY, anchor, factor;
#pragma unroll
    for (int c = 0; c < tile::R; c++)
        if (first_key + SIDE * c <= query) {
            m = fmaxf(m, POWER ? fabsf(s[c]) : s[c]);
            largest = fmaxf(largest, s[c]);
        }
    factor = es_row_grow<POWER, true, false>(row, row_largest(m), scale2,
                                             call->power);
    row->largest = fmaxf(row->largest, largest);
    anchor = es_row_anchor<POWER>(row->m);
#pragma unroll
    for (int c = 0; c < tile::R; c++) {
        es_weight w =
            es_weigh<POWER, false>(s[c], anchor, scale2, call->power);
        bool visible = first_key + SIDE * c <= query;
        s[c] = visible ? w.u : 0;
        row->sum += s[c];
        if (visible)
            row->moment = fmaf(w.u, w.log, row->moment);
    }
    return factor;
}

template <class A, int WIDTH, bool POWER>
__device__ void end_rows(const es_attention_call<A> *call,
                         float factor[tile_of<WIDTH>::R],
                         es_row row[tile_of<WIDTH>::R],
                         const float scale[tile_of<WIDTH>::R], owned own)
{
    typedef tile_of<WIDTH> tile;
    for (int r = 0; r < tile::R; r++) {
        const int query = own.first + own.ty + SIDE * r;
        const size_t at =
            (size_t)own.head * (size_t)call->n_ctx + (size_t)query;
        es_row_end end;
        row[r].sum = row_sum(row[r].sum);
        row[r].moment = row_sum(row[r].moment);
        row[r].largest = row_largest(row[r].largest);
        end = es_row_close<POWER>(&row[r], scale[r], call->epsilon,
                                  call->power);
        factor[r] = end.saved.inverse;
        if (own.tx != 0 || query >= call->n_ctx)
            continue;
        ((es_saved_row *)(void *)call->saved)[at] = end.saved;
        if (call->measures)
            es_row_measure<A, POWER>(call, at, &row[r], &end);
    }
}

/* Rows beyond the last query attend like the last and are not written. */
template <class A, int WIDTH>
__device__ __forceinline__ void row_scales(const es_attention_call<A> *call,
                                           float scale[tile_of<WIDTH>::R],
                                           owned own)
{
    for (int r = 0; r < tile_of<WIDTH>::R; r++)
        scale[r] =
            es_attention_scale(call, own.head,
                               min(own.first + own.ty + SIDE * r,
                                   call->n_ctx - 1));
}

template <class A, int WIDTH, bool POWER>
__global__ void __launch_bounds__(N_THREADS, 1)
    attention_kernel(es_attention_call<A> call)
{
    typedef tile_of<WIDTH> tile;
    ES_SHARED(float, q);
    float *other = q + tile::FLOATS, *p = other + tile::FLOATS;
    const owned own = find_owned<A, WIDTH>(&call, ES_OWN_QUERIES);
    const es_tile_range keys = es_tile_others(own.first, tile::N, tile::N,
                                              call.n_ctx, ES_OWN_QUERIES);
    const A *from = call.qkv + es_attention_qkv_at(&call, own.head);
    const int stride = 3 * call.d_model, d = call.d_model;
    float out[tile::R][tile::C], s[tile::R][tile::R], scale[tile::R];
    es_row row[tile::R];
    clear<WIDTH>(out);
    row_scales<A, WIDTH>(&call, scale, own);
    for (int r = 0; r < tile::R; r++)
        es_row_open<POWER>(&row[r]);
    load_tile<A, WIDTH>(q, from, stride, own.first, call.n_ctx, call.width);
    for (int key = keys.begin; key < keys.end; key += tile::N) {
        load_tile<A, WIDTH>(other, from + d, stride, key, call.n_ctx,
                            call.width);
        __syncthreads();
        multiply<WIDTH>(s, q, other, own);
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            float factor;
            if (call.measures && key == 0 && own.tx == 0)
                es_row_keep_first(&call, own.head,
                                  own.first + own.ty + SIDE * r, s[r][0]);
            factor = weigh_row<A, WIDTH, POWER>(
                &call, s[r], &row[r], own.first + own.ty + SIDE * r,
                key + own.tx, scale[r] * ES_LOG2_E);
#pragma unroll
            for (int c = 0; c < tile::C; c++)
                out[r][c] *= factor;
        }
        keep_weights<WIDTH>(p, s, own);
        __syncthreads();
        load_tile<A, WIDTH>(other, from + 2 * d, stride, key, call.n_ctx,
                            call.width);
        __syncthreads();
        gather<WIDTH>(out, p, other, own, key, ES_OWN_QUERIES);
        __syncthreads();
    }
    end_rows<A, WIDTH, POWER>(&call, scale, row, scale, own);
    write_rows<A, WIDTH>(call.y + es_attention_y_at(&call, own.head), out,
                         scale, d, own, call.n_ctx, call.width);
}

/* --- backward: dq --------------------------------------------------------- */

/* What the block of dq has in shared memory. */
typedef struct query_tiles {
    float *q, *dy, *other, *p;
} query_tiles;

/* g into g, raw scores into s; the keys stay in `other`. */
template <class A, int WIDTH>
__device__ __forceinline__ void
score_keys(const es_attention_call<A> *call,
           float s[tile_of<WIDTH>::R][tile_of<WIDTH>::R],
           float g[tile_of<WIDTH>::R][tile_of<WIDTH>::R],
           const query_tiles *tiles, owned own, int key)
{
    const A *from = call->qkv + es_attention_qkv_at(call, own.head);
    const int d = call->d_model;
    __syncthreads();
    load_tile<A, WIDTH>(tiles->other, from + 2 * d, 3 * d, key, call->n_ctx,
                        call->width);
    __syncthreads();
    multiply<WIDTH>(g, tiles->dy, tiles->other, own);
    __syncthreads();
    load_tile<A, WIDTH>(tiles->other, from + d, 3 * d, key, call->n_ctx,
                        call->width);
    __syncthreads();
    multiply<WIDTH>(s, tiles->q, tiles->other, own);
}

/* The mean of g - w l anew from the weights. Under a small temperature a row is
 * almost one weight of 1: what rounding makes of its small g - <g> is
 * multiplied with 1/t. */
template <class A, int WIDTH>
__device__ void mean_gradients(const es_attention_call<A> *call,
                               es_row_gradient row[tile_of<WIDTH>::R],
                               const query_tiles *tiles, owned own,
                               es_tile_range keys)
{
    typedef tile_of<WIDTH> tile;
    float s[tile::R][tile::R], g[tile::R][tile::R], mean[tile::R] = {0};
    for (int key = keys.begin; key < keys.end; key += tile::N) {
        score_keys<A, WIDTH>(call, s, g, tiles, own, key);
#pragma unroll
        for (int r = 0; r < tile::R; r++)
#pragma unroll
            for (int c = 0; c < tile::R; c++) {
                es_weight w = es_weigh<false, false>(
                    s[r][c], row[r].anchor, row[r].scale2, 0);
                float reduced = g[r][c] - row[r].weight * w.log;
                if (key + own.tx + SIDE * c <= own.first + own.ty + SIDE * r)
                    mean[r] = fmaf(w.u * row[r].inverse, reduced, mean[r]);
            }
    }
    for (int r = 0; r < tile::R; r++)
        row[r].mean = row_sum(mean[r]);
}

/* Scores become their gradients, without the row's factor; returns sum dz l. */
template <class A, int WIDTH, bool POWER>
__device__ __forceinline__ float
gradient_of_keys(const es_attention_call<A> *call, const es_row_gradient *row,
                 float s[tile_of<WIDTH>::R], const float g[tile_of<WIDTH>::R],
                 int query, int first_key)
{
    float dot = 0;
#pragma unroll
    for (int c = 0; c < tile_of<WIDTH>::R; c++) {
        es_weight w = es_weigh<POWER, false>(s[c], row->anchor, row->scale2,
                                             call->power);
        float ds = w.slope * row->inverse *
                   (g[c] - row->weight * w.log - row->mean);
        bool visible = first_key + SIDE * c <= query;
        s[c] = visible ? ds : 0;
        if (visible)
            dot = fmaf(ds, w.log, dot);
    }
    return dot;
}

/* Gradients of the block's rows, with what g is compared with. */
template <class A, int WIDTH, bool POWER>
__device__ void open_gradients(const es_attention_call<A> *call,
                               es_row_gradient row[tile_of<WIDTH>::R],
                               const query_tiles *tiles, owned own,
                               es_tile_range keys)
{
    typedef tile_of<WIDTH> tile;
    float mean[tile::R];
    load_tile<A, WIDTH>(tiles->other, call->y + es_attention_y_at(call, own.head),
                        call->d_model, own.first, call->n_ctx, call->width);
    __syncthreads();
    multiply_rows<WIDTH>(mean, tiles->dy, tiles->other, own);
#pragma unroll
    for (int r = 0; r < tile::R; r++) {
        es_saved_row saved;
        row[r] = es_row_gradient_open<A, POWER>(
            call, own.head,
            min(own.first + own.ty + SIDE * r, call->n_ctx - 1), &saved);
        row[r].mean = mean[r] - row[r].weight * saved.center;
    }
    if (!POWER && call->temperature)
        mean_gradients<A, WIDTH>(call, row, tiles, own, keys);
}

/* Of every row what the kernel of dk and dv wants, and sum dz z. */
template <class A, int WIDTH>
__device__ void write_means(const es_attention_call<A> *call,
                            const es_row_gradient row[tile_of<WIDTH>::R],
                            const float dot[tile_of<WIDTH>::R], owned own)
{
    for (int r = 0; r < tile_of<WIDTH>::R; r++) {
        const int query = own.first + own.ty + SIDE * r;
        const size_t at =
            (size_t)own.head * (size_t)call->n_ctx + (size_t)query;
        const float sum = row_sum(dot[r]) * ES_LN_2;
        if (own.tx != 0 || query >= call->n_ctx)
            continue;
        call->means[at] = row[r].mean;
        if (call->dots)
            call->dots[at] = sum;
    }
}

template <class A, int WIDTH, bool POWER>
__global__ void __launch_bounds__(N_THREADS, 1)
    attention_dq_kernel(es_attention_call<A> call)
{
    typedef tile_of<WIDTH> tile;
    ES_SHARED(float, memory);
    const query_tiles tiles = {memory, memory + tile::FLOATS,
                               memory + 2 * tile::FLOATS,
                               memory + 3 * tile::FLOATS};
    const owned own = find_owned<A, WIDTH>(&call, ES_OWN_QUERIES);
    const es_tile_range keys = es_tile_others(own.first, tile::N, tile::N,
                                              call.n_ctx, ES_OWN_QUERIES);
    const size_t at = es_attention_qkv_at(&call, own.head);
    const int d = call.d_model;
    float out[tile::R][tile::C], s[tile::R][tile::R], g[tile::R][tile::R];
    float dot[tile::R] = {0}, factor[tile::R];
    es_row_gradient row[tile::R];
    clear<WIDTH>(out);
    load_tile<A, WIDTH>(tiles.q, call.qkv + at, 3 * d, own.first, call.n_ctx,
                        call.width);
    load_tile<A, WIDTH>(tiles.dy,
                        call.dy + es_attention_y_at(&call, own.head), d,
                        own.first, call.n_ctx, call.width);
    open_gradients<A, WIDTH, POWER>(&call, row, &tiles, own, keys);
    for (int key = keys.begin; key < keys.end; key += tile::N) {
        score_keys<A, WIDTH>(&call, s, g, &tiles, own, key);
#pragma unroll
        for (int r = 0; r < tile::R; r++)
            dot[r] += gradient_of_keys<A, WIDTH, POWER>(
                &call, &row[r], s[r], g[r], own.first + own.ty + SIDE * r,
                key + own.tx);
        keep_weights<WIDTH>(tiles.p, s, own);
        __syncthreads();
        gather<WIDTH>(out, tiles.p, tiles.other, own, key, ES_OWN_QUERIES);
    }
    for (int r = 0; r < tile::R; r++)
        factor[r] = row[r].factor;
    write_means<A, WIDTH>(&call, row, dot, own);
    write_rows<A, WIDTH>(call.dqkv + at, out, factor, 3 * d, own, call.n_ctx,
                         call.width);
}

/* --- backward: dk and dv -------------------------------------------------- */

/* What the block of dk and dv has in shared memory. */
typedef struct key_tiles {
    float *k, *v, *other, *p;
} key_tiles;

/* Of keys ty + 16 r and queries tx + 16 c: raw scores become gradients, g
 * becomes weights. */
template <class A, int WIDTH, bool POWER>
__device__ __forceinline__ void
gradient_of_queries(const es_attention_call<A> *call,
                    float s[tile_of<WIDTH>::R][tile_of<WIDTH>::R],
                    float g[tile_of<WIDTH>::R][tile_of<WIDTH>::R], owned own,
                    int first_query)
{
    typedef tile_of<WIDTH> tile;
#pragma unroll
    for (int c = 0; c < tile::R; c++) {
        const int query = first_query + own.tx + SIDE * c;
        const int inside = min(query, call->n_ctx - 1);
        es_saved_row saved;
        es_row_gradient row = es_row_gradient_open<A, POWER>(
            call, own.head, inside, &saved);
        row.mean = call->means[(size_t)own.head * (size_t)call->n_ctx +
                               (size_t)inside];
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            es_weight w = es_weigh<POWER, false>(s[r][c], row.anchor,
                                                 row.scale2, call->power);
            float ds = w.slope * row.inverse *
                       (g[r][c] - row.weight * w.log - row.mean);
            bool visible =
                query < call->n_ctx &&
                es_tile_visible(own.first + own.ty + SIDE * r, query,
                                ES_OWN_KEYS);
            g[r][c] = visible ? w.u * row.inverse : 0;
            s[r][c] = visible ? ds * row.factor : 0;
        }
    }
}

/* Adds what the queries of a tile give to dk and dv. */
template <class A, int WIDTH, bool POWER>
__device__ __forceinline__ void
add_queries(const es_attention_call<A> *call,
            float dk[tile_of<WIDTH>::R][tile_of<WIDTH>::C],
            float dv[tile_of<WIDTH>::R][tile_of<WIDTH>::C],
            const key_tiles *tiles, owned own, int query)
{
    typedef tile_of<WIDTH> tile;
    const A *q = call->qkv + es_attention_qkv_at(call, own.head);
    const A *dy = call->dy + es_attention_y_at(call, own.head);
    const int d = call->d_model;
    float s[tile::R][tile::R], g[tile::R][tile::R];
    __syncthreads();
    load_tile<A, WIDTH>(tiles->other, q, 3 * d, query, call->n_ctx,
                        call->width);
    __syncthreads();
    multiply<WIDTH>(s, tiles->k, tiles->other, own);
    __syncthreads();
    load_tile<A, WIDTH>(tiles->other, dy, d, query, call->n_ctx, call->width);
    __syncthreads();
    multiply<WIDTH>(g, tiles->v, tiles->other, own);
    gradient_of_queries<A, WIDTH, POWER>(call, s, g, own, query);
    keep_weights<WIDTH>(tiles->p, g, own);
    __syncthreads();
    gather<WIDTH>(dv, tiles->p, tiles->other, own, query, ES_OWN_KEYS);
    __syncthreads();
    keep_weights<WIDTH>(tiles->p, s, own);
    load_tile<A, WIDTH>(tiles->other, q, 3 * d, query, call->n_ctx,
                        call->width);
    __syncthreads();
    gather<WIDTH>(dk, tiles->p, tiles->other, own, query, ES_OWN_KEYS);
}

template <class A, int WIDTH, bool POWER>
__global__ void __launch_bounds__(N_THREADS, 1)
    attention_dkv_kernel(es_attention_call<A> call)
{
    typedef tile_of<WIDTH> tile;
    ES_SHARED(float, memory);
    const key_tiles tiles = {memory, memory + tile::FLOATS,
                             memory + 2 * tile::FLOATS,
                             memory + 3 * tile::FLOATS};
    const owned own = find_owned<A, WIDTH>(&call, ES_OWN_KEYS);
    const es_tile_range queries = es_tile_others(own.first, tile::N, tile::N,
                                                 call.n_ctx, ES_OWN_KEYS);
    const size_t at =
        es_attention_qkv_at(&call, own.head) + (size_t)call.d_model;
    const int d = call.d_model;
    float dk[tile::R][tile::C], dv[tile::R][tile::C], factor[tile::R];
    clear<WIDTH>(dk);
    clear<WIDTH>(dv);
    load_tile<A, WIDTH>(tiles.k, call.qkv + at, 3 * d, own.first, call.n_ctx,
                        call.width);
    load_tile<A, WIDTH>(tiles.v, call.qkv + at + d, 3 * d, own.first,
                        call.n_ctx, call.width);
    for (int query = queries.begin; query < queries.end; query += tile::N)
        add_queries<A, WIDTH, POWER>(&call, dk, dv, &tiles, own, query);
    for (int r = 0; r < tile::R; r++)
        factor[r] = 1;
    write_rows<A, WIDTH>(call.dqkv + at, dk, factor, 3 * d, own, call.n_ctx,
                         call.width);
    write_rows<A, WIDTH>(call.dqkv + at + d, dv, factor, 3 * d, own, call.n_ctx,
                         call.width);
}

/* --- launches ------------------------------------------------------------- */

template <int WIDTH>
static size_t shared_bytes(int n_tiles)
{
    return (size_t)(n_tiles * tile_of<WIDTH>::FLOATS +
                    tile_of<WIDTH>::P_FLOATS) *
           sizeof(float);
}

template <class A, int WIDTH>
static dim3 grid_of(const es_attention_call<A> *call)
{
    return dim3((unsigned)(call->n_batch * call->n_head *
                           es_tile_count(call->n_ctx, tile_of<WIDTH>::N)));
}

template <class A, int WIDTH, bool POWER>
static void forward(es_device *device, const es_attention_call<A> *call)
{
    es_launch(device, "attention", attention_kernel<A, WIDTH, POWER>,
              grid_of<A, WIDTH>(call), N_THREADS, shared_bytes<WIDTH>(2),
              *call);
}

template <class A, int WIDTH, bool POWER>
static void backward(es_device *device, const es_attention_call<A> *call)
{
    es_launch(device, "attention_dq", attention_dq_kernel<A, WIDTH, POWER>,
              grid_of<A, WIDTH>(call), N_THREADS, shared_bytes<WIDTH>(3),
              *call);
    es_launch(device, "attention_dkv", attention_dkv_kernel<A, WIDTH, POWER>,
              grid_of<A, WIDTH>(call), N_THREADS, shared_bytes<WIDTH>(3),
              *call);
}

template <class A, bool POWER>
static void forward_of_width(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->width <= 32)
        forward<A, 32, POWER>(device, call);
    else if (call->width <= 64)
        forward<A, 64, POWER>(device, call);
    else if (call->width <= 128)
        forward<A, 128, POWER>(device, call);
    else
        forward<A, 256, POWER>(device, call);
}

template <class A, bool POWER>
static void backward_of_width(es_device *device,
                              const es_attention_call<A> *call)
{
    if (call->width <= 32)
        backward<A, 32, POWER>(device, call);
    else if (call->width <= 64)
        backward<A, 64, POWER>(device, call);
    else if (call->width <= 128)
        backward<A, 128, POWER>(device, call);
    else
        backward<A, 256, POWER>(device, call);
}

template <class A>
void es_cuda_attention_plain(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->power)
        forward_of_width<A, true>(device, call);
    else
        forward_of_width<A, false>(device, call);
}

template <class A>
void es_cuda_attention_plain_backward(es_device *device,
                                      const es_attention_call<A> *call)
{
    if (call->power)
        backward_of_width<A, true>(device, call);
    else
        backward_of_width<A, false>(device, call);
}

#define INSTANTIATE(A)                                                         \
    template void es_cuda_attention_plain<A>(es_device *,                      \
                                             const es_attention_call<A> *);    \
    template void es_cuda_attention_plain_backward<A>(                         \
        es_device *, const es_attention_call<A> *);
INSTANTIATE(float)
INSTANTIATE(es_bf16)
INSTANTIATE(es_fp16)
