/** Attention on tensor cores, forward: attention_mma.h says how. */
#include "hooks/trainer/cuda/attention_mma.h"

/* Shapes by the width of heads; see the README for what they cost. */
template <int WIDTH>
struct forward_shape {
    enum {
        M = 2,
        N = WIDTH <= 32   ? 64
            : WIDTH <= 64 ? 32
                          : 16,
        OWN = 16 * M * ES_MMA_WARPS,
        OWN_SIZE = OWN * WIDTH,
        OTHER_SIZE = ES_MMA_OTHERS * WIDTH,
        SIZE = OWN_SIZE + 4 * OTHER_SIZE /* two stages of keys and values */
    };
};

/* Raw scores become u, masked ones 0, and the sums of the rows grow with them.
 * `key` is that of this lane's first column. */
template <bool POWER, bool MEASURE, bool MASKED, int N>
__device__ __forceinline__ void weigh_row(float s[N / 8][4], int upper,
                                          es_row *row, float scale2, int power,
                                          int query, int key)
{
    const float anchor = es_row_anchor<POWER>(row->m);
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            es_weight w = es_weigh<POWER, true>(s[n][i], anchor, scale2, power);
            bool visible = !MASKED || key + 8 * n + i % 2 <= query;
            s[n][i] = visible ? w.u : 0;
            row->sum += s[n][i];
            if (MEASURE && visible)
                row->moment = fmaf(w.u, w.log, row->moment);
        }
}

/* The largest score of this step. */
template <bool POWER, bool MEASURE, bool MASKED, int N>
__device__ __forceinline__ float largest_of_row(const float s[N / 8][4],
                                                int upper, es_row *row,
                                                int query, int key)
{
    float m = -INFINITY;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            bool visible = !MASKED || key + 8 * n + i % 2 <= query;
            float x = visible ? s[n][i] : -INFINITY;
            if (POWER && MEASURE)
                row->largest = fmaxf(row->largest, x);
            if (POWER)
                x = visible ? fabsf(x) : 0;
            m = fmaxf(m, x);
        }
    return es_mma_row_largest(m);
}

/* One step: scores to weights, and the outputs so far to the new largest. */
template <int WIDTH, int M, int N, bool POWER, bool MEASURE, bool MASKED>
__device__ __forceinline__ void
weigh_step(float out[M][WIDTH / 8][4], float s[M][N / 8][4], es_row row[M][2],
           const float scale2[M][2], int power, int own, int other)
{
    const int lane = es_mma_lane();
    const int key = other + es_tile_sum_column(lane, 0);
    float factor[M][2];
    bool grew = false;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int query = own + 16 * m + es_tile_sum_row(lane, 2 * upper);
            es_row *at = &row[m][upper];
            factor[m][upper] = es_row_grow<POWER, MEASURE, true>(
                at,
                largest_of_row<POWER, MEASURE, MASKED, N>(s[m], upper, at,
                                                          query, key),
                scale2[m][upper], power);
            grew |= factor[m][upper] != 1;
            weigh_row<POWER, MEASURE, MASKED, N>(
                s[m], upper, at, scale2[m][upper], power, query, key);
        }
    if (!__any_sync(0xffffffffu, grew))
        return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                out[m][n][i] *= factor[m][i / 2];
}

/* What a warp keeps of its rows. */
template <int WIDTH, int M>
struct rows_of_warp {
    float out[M][WIDTH / 8][4];
    es_row row[M][2];
    float scale2[M][2];
};

/* The scores of key 0, which the first lane of each row has. */
template <class A, int M, int N>
__device__ __forceinline__ void keep_first(const es_attention_call<A> *call,
                                           const float s[M][N / 8][4], int head,
                                           int own)
{
    const int lane = es_mma_lane();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
            if (lane % 4 == 0)
                es_row_keep_first(
                    call, head, own + 16 * m + es_tile_sum_row(lane, 2 * upper),
                    s[m][0][2 * upper]);
}

template <class A, int WIDTH, int M, int N, bool POWER, bool MEASURE,
          bool MASKED>
__device__ __forceinline__ void
attend_step(const es_attention_call<A> *call, rows_of_warp<WIDTH, M> *rows,
            const A *q, const A *k, const A *v, int head, es_mma_spot spot)
{
    float s[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N>(s, q, es_mma_warp() * 16 * M, k, spot.row);
    if (MEASURE && spot.other == 0)
        keep_first<A, M, N>(call, s, head, spot.own);
    weigh_step<WIDTH, M, N, POWER, MEASURE, MASKED>(rows->out, s, rows->row,
                                                    rows->scale2, call->power,
                                                    spot.own, spot.other);
    es_mma_gather<A, WIDTH, M, N, MASKED>(rows->out, s, v, spot,
                                          ES_OWN_QUERIES);
}

/* The keys of a tile, from `key` on. */
template <class A, int WIDTH, int M, int N, bool POWER, bool MEASURE>
__device__ __forceinline__ void
attend_tile(const es_attention_call<A> *call, rows_of_warp<WIDTH, M> *rows,
            const A *q, const A *k, const A *v, int head, int own, int key)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N) {
        es_mma_spot spot = {own, key + j, j};
        es_tile_mask mask =
            es_tile_mask_of(own, 16 * M, key + j, N, ES_OWN_QUERIES);
        if (mask == ES_TILE_ALL)
            attend_step<A, WIDTH, M, N, POWER, MEASURE, false>(call, rows, q, k,
                                                               v, head, spot);
        else if (mask == ES_TILE_SOME)
            attend_step<A, WIDTH, M, N, POWER, MEASURE, true>(call, rows, q, k,
                                                              v, head, spot);
    }
}

template <class A, int WIDTH, int M, bool POWER>
__device__ __forceinline__ void open_rows(const es_attention_call<A> *call,
                                          rows_of_warp<WIDTH, M> *rows,
                                          int head, int own)
{
    es_mma_clear<WIDTH, M>(rows->out);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int query =
                own + 16 * m + es_tile_sum_row(es_mma_lane(), 2 * upper);
            es_row_open<POWER>(&rows->row[m][upper]);
            rows->scale2[m][upper] =
                ES_LOG2_E *
                es_attention_scale(call, head, min(query, call->n_ctx - 1));
        }
}

/* 1 / D of each row into factor; what is kept of it. */
template <class A, int WIDTH, int M, bool POWER, bool MEASURE>
__device__ __forceinline__ void
close_rows(const es_attention_call<A> *call, float factor[M][2],
           rows_of_warp<WIDTH, M> *rows, int head, int own)
{
    const int lane = es_mma_lane();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int query = own + 16 * m + es_tile_sum_row(lane, 2 * upper);
            size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)query;
            es_row row = rows->row[m][upper];
            es_row_end end;
            row.sum = es_mma_row_sum(row.sum);
            row.moment = es_mma_row_sum(row.moment);
            if (POWER && MEASURE)
                row.largest = es_mma_row_largest(row.largest);
            end = es_row_close<POWER>(
                &row,
                es_attention_scale(call, head, min(query, call->n_ctx - 1)),
                call->epsilon, call->power);
            factor[m][upper] = end.saved.inverse;
            if (lane % 4 != 0 || query >= call->n_ctx)
                continue;
            ((es_saved_row *)(void *)call->saved)[at] = end.saved;
            if (MEASURE)
                es_row_measure<A, POWER>(call, at, &row, &end);
        }
}

/* Starts the copy of keys and values from `key` on. */
template <class A, int WIDTH>
__device__ __forceinline__ void fetch_keys(const es_attention_call<A> *call,
                                           A *stage, const A *from, int key)
{
    const int d = call->d_model;
    es_mma_fetch<A, WIDTH>(stage, ES_MMA_OTHERS, from + d, 3 * d, key,
                           call->n_ctx, call->width);
    es_mma_fetch<A, WIDTH>(stage + ES_MMA_OTHERS * WIDTH, ES_MMA_OTHERS,
                           from + 2 * d, 3 * d, key, call->n_ctx, call->width);
    es_cp_commit();
}

template <class A, int WIDTH, bool POWER, bool MEASURE>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_kernel(es_attention_call<A> call)
{
    typedef forward_shape<WIDTH> shape;
    enum { M = shape::M, N = shape::N, STAGE = 2 * shape::OTHER_SIZE };
    ES_SHARED(A, q);
    A *stages = q + shape::OWN_SIZE;
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_ctx, shape::OWN, ES_OWN_QUERIES);
    const es_tile_range keys = es_tile_others(
        place.first, shape::OWN, ES_MMA_OTHERS, call.n_ctx, ES_OWN_QUERIES);
    const A *from = call.qkv + es_attention_qkv_at(&call, place.head);
    const int own = place.first + es_mma_warp() * 16 * M;
    rows_of_warp<WIDTH, M> rows;
    float factor[M][2];
    es_mma_fetch<A, WIDTH>(q, shape::OWN, from, 3 * call.d_model, place.first,
                           call.n_ctx, call.width);
    fetch_keys<A, WIDTH>(&call, stages, from, keys.begin);
    open_rows<A, WIDTH, M, POWER>(&call, &rows, place.head, own);
    for (int key = keys.begin; key < keys.end; key += ES_MMA_OTHERS) {
        A *k = stages + key / ES_MMA_OTHERS % 2 * STAGE;
        A *next = stages + (key / ES_MMA_OTHERS + 1) % 2 * STAGE;
        if (key + ES_MMA_OTHERS < keys.end)
            fetch_keys<A, WIDTH>(&call, next, from, key + ES_MMA_OTHERS);
        else
            es_cp_commit();
        es_cp_wait<1>();
        __syncthreads();
        attend_tile<A, WIDTH, M, N, POWER, MEASURE>(
            &call, &rows, q, k, k + shape::OTHER_SIZE, place.head, own, key);
        __syncthreads();
    }
    close_rows<A, WIDTH, M, POWER, MEASURE>(&call, factor, &rows, place.head,
                                            own);
    es_mma_write<A, WIDTH, M>(call.y + es_attention_y_at(&call, place.head), q,
                              rows.out, factor, call.d_model, place.first,
                              call.n_ctx, call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, bool POWER, bool MEASURE>
static bool forward(es_device *device, const es_attention_call<A> *call)
{
    typedef forward_shape<WIDTH> shape;
    const size_t bytes = shape::SIZE * sizeof(A);
    if (bytes > es_device_facts_of(device)->shared_bytes)
        return false;
    es_launch(device, "attention_mma",
              attention_mma_kernel<A, WIDTH, POWER, MEASURE>,
              dim3((unsigned)(call->n_batch * call->n_head *
                              es_tile_count(call->n_ctx, shape::OWN))),
              ES_MMA_THREADS, bytes, *call);
    return true;
}

template <class A, int WIDTH>
static bool forward_of_kind(es_device *device, const es_attention_call<A> *call)
{
    if (call->power)
        return call->measures ? forward<A, WIDTH, true, true>(device, call)
                              : forward<A, WIDTH, true, false>(device, call);
    return call->measures ? forward<A, WIDTH, false, true>(device, call)
                          : forward<A, WIDTH, false, false>(device, call);
}

template <class A>
bool es_cuda_attention_mma(es_device *device, const es_attention_call<A> *call)
{
    if (!es_mma_can(call))
        return false;
    if (call->width <= 32)
        return forward_of_kind<A, 32>(device, call);
    if (call->width <= 64)
        return forward_of_kind<A, 64>(device, call);
    return forward_of_kind<A, 128>(device, call);
}

template <>
bool es_cuda_attention_mma<float>(es_device *device,
                                  const es_attention_call<float> *call)
{
    (void)device;
    (void)call;
    return false;
}

template bool
es_cuda_attention_mma<es_bf16>(es_device *, const es_attention_call<es_bf16> *);
template bool
es_cuda_attention_mma<es_fp16>(es_device *, const es_attention_call<es_fp16> *);
