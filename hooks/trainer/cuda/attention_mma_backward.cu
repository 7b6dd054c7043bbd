/**
 * Attention on tensor cores, backward: attention_mma.h says how.
 *
 * Two kernels, so that nothing is added to by two blocks and the same call
 * gives the same bits: one owns queries and makes dq, and what g is compared
 * with in every row; one owns keys and makes dk and dv. Scores and g are
 * computed by both: seven products where five would do.
 */
#include "hooks/trainer/cuda/attention_mma.h"

/* Shapes by the width of heads; see the README for what they cost. */
template <int WIDTH>
struct backward_shape {
    enum {
        M = WIDTH <= 64 ? 2 : 1,
        N = WIDTH <= 64 ? 32 : 16,     /* keys of a step, for dq */
        KEY_N = WIDTH <= 32 ? 32 : 16, /* queries of a step, for dk and dv */
        OWN = 16 * M * ES_MMA_WARPS,
        OWN_SIZE = OWN * WIDTH,
        OTHER_SIZE = ES_MMA_OTHERS * WIDTH,
        STAGE = 2 * OTHER_SIZE,
        SIZE = 2 * OWN_SIZE + 2 * STAGE /* two arrays, each way */
    };
};

/* Two arrays of tiles: the block's own or a stage of others. x goes into the
 * scores, y into g. */
template <class A>
struct tile_pair {
    const A *x, *y;
};

/* Starts the copy of rows of two arrays whose positions are far apart. */
template <class A, int WIDTH>
__device__ __forceinline__ void
fetch_pair(const es_attention_call<A> *call, A *tiles, int n_rows, const A *x,
           int x_stride, const A *y, int y_stride, int first)
{
    es_mma_fetch<A, WIDTH>(tiles, n_rows, x, x_stride, first, call->n_ctx,
                           call->width);
    es_mma_fetch<A, WIDTH>(tiles + n_rows * WIDTH, n_rows, y, y_stride, first,
                           call->n_ctx, call->width);
    es_cp_commit();
}

/* --- dq ------------------------------------------------------------------- */

/* Keys and values from `key` on. */
template <class A, int WIDTH>
__device__ __forceinline__ void fetch_keys(const es_attention_call<A> *call,
                                           A *stage, int head, int key)
{
    const int d = call->d_model;
    const A *k = call->qkv + es_attention_qkv_at(call, head) + d;
    fetch_pair<A, WIDTH>(call, stage, ES_MMA_OTHERS, k, 3 * d, k + d, 3 * d,
                         key);
}

/* What a warp of dq keeps of its rows. */
template <int WIDTH, int M>
struct rows_of_dq {
    float out[M][WIDTH / 8][4];
    es_row_gradient row[M][2];
    float sum[M][2]; /* of the mean, or of dz l */
};

/* <g> of the warp's rows, dy . y with y in `tile`: by the same instructions in
 * the same order as g itself, so that it is g to the last bit where a row is
 * one weight of 1 and y is v. */
template <class A, int WIDTH, int M>
__device__ __forceinline__ void multiply_rows(float mean[M][2], const A *dy,
                                              const A *tile)
{
    const int lane = es_mma_lane();
    const int from = lane / 4 * 4 + lane / 4 / 2;
#pragma unroll
    for (int m = 0; m < M; m++) {
        float s[1][2][4];
        const int row = es_mma_warp() * 16 * M + 16 * m;
        es_mma_multiply<A, WIDTH, 1, 16>(s, dy, row, tile, row);
        /* Row r with row r: of sums 0, 1 or 2, 3 of lane `from`. */
        const bool odd = lane / 4 % 2 != 0;
        mean[m][0] =
            __shfl_sync(0xffffffffu, odd ? s[0][0][1] : s[0][0][0], from);
        mean[m][1] =
            __shfl_sync(0xffffffffu, odd ? s[0][1][3] : s[0][1][2], from);
    }
}

template <class A, int WIDTH, int M, bool POWER>
__device__ __forceinline__ void
open_rows(const es_attention_call<A> *call, rows_of_dq<WIDTH, M> *rows,
          const A *dy, const A *y, int head, int own)
{
    float mean[M][2];
    multiply_rows<A, WIDTH, M>(mean, dy, y);
    es_mma_clear<WIDTH, M>(rows->out);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int query =
                own + 16 * m + es_tile_sum_row(es_mma_lane(), 2 * upper);
            es_saved_row saved;
            es_row_gradient *row = &rows->row[m][upper];
            *row = es_row_gradient_open<A, POWER>(
                call, head, min(query, call->n_ctx - 1), &saved);
            row->mean = mean[m][upper] - row->weight * saved.center;
            rows->sum[m][upper] = 0;
        }
}

/* MEAN: adds to the mean of g - w l, anew from the weights
 * (attention_fma_backward.cu says why); else scores become their gradients,
 * without the row's factor. */
template <bool POWER, bool MASKED, bool MEAN, int N>
__device__ __forceinline__ void
gradient_of_row(float s[N / 8][4], const float g[N / 8][4], int upper,
                const es_row_gradient *row, float *sum, int power, int query,
                int key)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            es_weight w =
                es_weigh<POWER, true>(s[n][i], row->anchor, row->scale2, power);
            bool visible = !MASKED || key + 8 * n + i % 2 <= query;
            float reduced = g[n][i] - row->weight * w.log;
            float ds =
                w.slope * row->inverse * (MEAN ? reduced : reduced - row->mean);
            if (visible)
                *sum = MEAN ? *sum + ds : fmaf(ds, w.log, *sum);
            s[n][i] = visible ? ds : 0;
        }
}

template <class A, int WIDTH, int M, int N, bool POWER, bool MASKED, bool MEAN>
__device__ __forceinline__ void dq_step(rows_of_dq<WIDTH, M> *rows,
                                        tile_pair<A> own, tile_pair<A> keys,
                                        int power, es_mma_spot spot)
{
    const int lane = es_mma_lane(), row = es_mma_warp() * 16 * M;
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N>(s, own.x, row, keys.x, spot.row);
    es_mma_multiply<A, WIDTH, M, N>(g, own.y, row, keys.y, spot.row);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
            gradient_of_row<POWER, MASKED, MEAN, N>(
                s[m], g[m], upper, &rows->row[m][upper], &rows->sum[m][upper],
                power, spot.own + 16 * m + es_tile_sum_row(lane, 2 * upper),
                spot.other + es_tile_sum_column(lane, 0));
    if (!MEAN)
        es_mma_gather<A, WIDTH, M, N, MASKED>(rows->out, s, keys.x, spot,
                                              ES_OWN_QUERIES);
}

/* The keys of a tile, from `key` on. */
template <class A, int WIDTH, int M, int N, bool POWER, bool MEAN>
__device__ __forceinline__ void dq_tile(rows_of_dq<WIDTH, M> *rows,
                                        tile_pair<A> own, tile_pair<A> keys,
                                        int power, int first, int key)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N) {
        es_mma_spot spot = {first, key + j, j};
        es_tile_mask mask =
            es_tile_mask_of(first, 16 * M, key + j, N, ES_OWN_QUERIES);
        if (mask == ES_TILE_ALL)
            dq_step<A, WIDTH, M, N, POWER, false, MEAN>(rows, own, keys, power,
                                                        spot);
        else if (mask == ES_TILE_SOME)
            dq_step<A, WIDTH, M, N, POWER, true, MEAN>(rows, own, keys, power,
                                                       spot);
    }
}

/* Once through all keys; those of the first tile are on their way, into the
 * first stage. */
template <class A, int WIDTH, int M, int N, bool POWER, bool MEAN>
__device__ __forceinline__ void
dq_pass(const es_attention_call<A> *call, rows_of_dq<WIDTH, M> *rows,
        tile_pair<A> own, A *stages, int head, int first, es_tile_range keys)
{
    enum { STAGE = backward_shape<WIDTH>::STAGE };
    for (int key = keys.begin; key < keys.end; key += ES_MMA_OTHERS) {
        A *k = stages + key / ES_MMA_OTHERS % 2 * STAGE;
        A *next = stages + (key / ES_MMA_OTHERS + 1) % 2 * STAGE;
        tile_pair<A> tiles = {k, k + STAGE / 2};
        if (key + ES_MMA_OTHERS < keys.end)
            fetch_keys<A, WIDTH>(call, next, head, key + ES_MMA_OTHERS);
        else
            es_cp_commit();
        es_cp_wait<1>();
        __syncthreads();
        dq_tile<A, WIDTH, M, N, POWER, MEAN>(rows, own, tiles, call->power,
                                             first, key);
        __syncthreads();
    }
}

/* What the kernel of dk and dv wants of every row, and sum dz z; factor of
 * dq. */
template <class A, int WIDTH, int M>
__device__ __forceinline__ void
close_rows(const es_attention_call<A> *call, float factor[M][2],
           rows_of_dq<WIDTH, M> *rows, int head, int own)
{
    const int lane = es_mma_lane();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int query = own + 16 * m + es_tile_sum_row(lane, 2 * upper);
            size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)query;
            float dot = es_mma_row_sum(rows->sum[m][upper]) * ES_LN_2;
            factor[m][upper] = rows->row[m][upper].factor;
            if (lane % 4 != 0 || query >= call->n_ctx)
                continue;
            call->means[at] = rows->row[m][upper].mean;
            if (call->dots)
                call->dots[at] = dot;
        }
}

/* After the pass of MEAN. */
template <int WIDTH, int M>
__device__ __forceinline__ void take_means(rows_of_dq<WIDTH, M> *rows)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            rows->row[m][upper].mean = es_mma_row_sum(rows->sum[m][upper]);
            rows->sum[m][upper] = 0;
        }
}

/* Queries, dy and, for a moment in place of the second stage, y. */
template <class A, int WIDTH>
__device__ __forceinline__ void fetch_queries(const es_attention_call<A> *call,
                                              A *own, A *y_tile,
                                              es_tile_place place)
{
    enum { OWN = backward_shape<WIDTH>::OWN };
    const int d = call->d_model;
    const size_t y_at = es_attention_y_at(call, place.head);
    es_mma_fetch<A, WIDTH>(y_tile, OWN, call->y + y_at, d, place.first,
                           call->n_ctx, call->width);
    fetch_pair<A, WIDTH>(call, own, OWN,
                         call->qkv + es_attention_qkv_at(call, place.head),
                         3 * d, call->dy + y_at, d, place.first);
}

/* TEMPERED: with temperatures. */
template <class A, int WIDTH, bool POWER, bool TEMPERED>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_dq_kernel(es_attention_call<A> call)
{
    typedef backward_shape<WIDTH> shape;
    enum { M = shape::M, N = shape::N };
    ES_SHARED(A, q);
    A *stages = q + 2 * shape::OWN_SIZE;
    const tile_pair<A> own = {q, q + shape::OWN_SIZE};
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_ctx, shape::OWN, ES_OWN_QUERIES);
    const es_tile_range keys = es_tile_others(
        place.first, shape::OWN, ES_MMA_OTHERS, call.n_ctx, ES_OWN_QUERIES);
    const int first = place.first + es_mma_warp() * 16 * M;
    rows_of_dq<WIDTH, M> rows;
    float factor[M][2];
    fetch_queries<A, WIDTH>(&call, q, stages + shape::STAGE, place);
    fetch_keys<A, WIDTH>(&call, stages, place.head, keys.begin);
    es_cp_wait<1>();
    __syncthreads();
    open_rows<A, WIDTH, M, POWER>(&call, &rows, own.y, stages + shape::STAGE,
                                  place.head, first);
    __syncthreads();
    if (TEMPERED) {
        dq_pass<A, WIDTH, M, N, POWER, true>(&call, &rows, own, stages,
                                             place.head, first, keys);
        take_means<WIDTH, M>(&rows);
        fetch_keys<A, WIDTH>(&call, stages, place.head, keys.begin);
    }
    dq_pass<A, WIDTH, M, N, POWER, false>(&call, &rows, own, stages, place.head,
                                          first, keys);
    close_rows<A, WIDTH, M>(&call, factor, &rows, place.head, first);
    es_mma_write<A, WIDTH, M>(
        call.dqkv + es_attention_qkv_at(&call, place.head), q, rows.out, factor,
        3 * call.d_model, place.first, call.n_ctx, call.width);
}

/* --- dk and dv ------------------------------------------------------------ */

/* Of the queries of a stage, in shared memory: two reads of a column. */
typedef struct query_rows {
    float4 weight[ES_MMA_OTHERS]; /* anchor, inverse, mean, w ln 2 */
    float2 scale[ES_MMA_OTHERS];  /* scale2, factor */
} query_rows;

/* Beyond the last query all is 0: no weight, no gradient. */
template <class A, bool POWER>
__device__ __forceinline__ void
load_query_rows(const es_attention_call<A> *call, query_rows *out, int head,
                int first)
{
    for (int i = (int)threadIdx.x; i < ES_MMA_OTHERS; i += ES_MMA_THREADS) {
        float4 weight = {0, 0, 0, 0};
        float2 scale = {0, 0};
        if (first + i < call->n_ctx) {
            es_saved_row saved;
            es_row_gradient row =
                es_row_gradient_open<A, POWER>(call, head, first + i, &saved);
            weight.x = row.anchor;
            weight.y = row.inverse;
            weight.z = call->means[(size_t)head * (size_t)call->n_ctx +
                                   (size_t)(first + i)];
            weight.w = row.weight;
            scale.x = row.scale2;
            scale.y = row.factor;
        }
        out->weight[i] = weight;
        out->scale[i] = scale;
    }
}

/* Queries and dy from `query` on, and what is known of their rows. */
template <class A, int WIDTH, bool POWER>
__device__ __forceinline__ void
fetch_queries_of(const es_attention_call<A> *call, A *stage, query_rows *rows,
                 int head, int query)
{
    const int d = call->d_model;
    fetch_pair<A, WIDTH>(call, stage, ES_MMA_OTHERS,
                         call->qkv + es_attention_qkv_at(call, head), 3 * d,
                         call->dy + es_attention_y_at(call, head), d, query);
    load_query_rows<A, POWER>(call, rows, head, query);
}

/* What a warp keeps of its keys. */
template <int WIDTH, int M>
struct rows_of_dkv {
    float dk[M][WIDTH / 8][4], dv[M][WIDTH / 8][4];
};

/* Of this warp's keys and N queries: scores become gradients of q . k, g
 * becomes weights. */
template <int M, int N, bool POWER, bool MASKED>
__device__ __forceinline__ void
gradient_of_keys(float s[M][N / 8][4], float g[M][N / 8][4],
                 const query_rows *queries, int power, es_mma_spot spot,
                 int n_ctx)
{
    const int lane = es_mma_lane();
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            const int column = 8 * n + es_tile_sum_column(lane, odd);
            const float4 row = queries->weight[spot.row + column];
            const float2 scale = queries->scale[spot.row + column];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = odd; i < 4; i += 2) {
                    const int key =
                        spot.own + 16 * m + es_tile_sum_row(lane, i);
                    const int query = spot.other + column;
                    bool visible = !MASKED || (query >= key && query < n_ctx);
                    es_weight w = es_weigh<POWER, true>(s[m][n][i], row.x,
                                                        scale.x, power);
                    float ds =
                        w.slope * row.y * (g[m][n][i] - row.w * w.log - row.z);
                    g[m][n][i] = visible ? w.u * row.y : 0;
                    s[m][n][i] = visible ? ds * scale.y : 0;
                }
        }
}

template <class A, int WIDTH, int M, int N, bool POWER, bool MASKED>
__device__ __forceinline__ void
dkv_step(rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own, tile_pair<A> queries,
         const query_rows *known, int power, es_mma_spot spot, int n_ctx)
{
    const int row = es_mma_warp() * 16 * M;
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N>(s, own.x, row, queries.x, spot.row);
    es_mma_multiply<A, WIDTH, M, N>(g, own.y, row, queries.y, spot.row);
    gradient_of_keys<M, N, POWER, MASKED>(s, g, known, power, spot, n_ctx);
    es_mma_gather<A, WIDTH, M, N, MASKED>(rows->dv, g, queries.y, spot,
                                          ES_OWN_KEYS);
    es_mma_gather<A, WIDTH, M, N, MASKED>(rows->dk, s, queries.x, spot,
                                          ES_OWN_KEYS);
}

/* The queries of a tile, from `query` on. Those beyond the last are masked,
 * too: with a key of infinity even their zeros would make NaN. */
template <class A, int WIDTH, int M, int N, bool POWER>
__device__ __forceinline__ void
dkv_tile(rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own, tile_pair<A> queries,
         const query_rows *known, int power, int first, int query, int n_ctx)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS && query + j < n_ctx; j += N) {
        es_mma_spot spot = {first, query + j, j};
        es_tile_mask mask =
            es_tile_mask_of(first, 16 * M, query + j, N, ES_OWN_KEYS);
        if (mask == ES_TILE_ALL && query + j + N <= n_ctx)
            dkv_step<A, WIDTH, M, N, POWER, false>(rows, own, queries, known,
                                                   power, spot, n_ctx);
        else if (mask != ES_TILE_NONE)
            dkv_step<A, WIDTH, M, N, POWER, true>(rows, own, queries, known,
                                                  power, spot, n_ctx);
    }
}

template <class A, int WIDTH, int M, int N, bool POWER>
__device__ __forceinline__ void
dkv_pass(const es_attention_call<A> *call, rows_of_dkv<WIDTH, M> *rows,
         tile_pair<A> own, A *stages, query_rows *known, int head, int first,
         es_tile_range queries)
{
    enum { STAGE = backward_shape<WIDTH>::STAGE };
    for (int query = queries.begin; query < queries.end;
         query += ES_MMA_OTHERS) {
        const int now = query / ES_MMA_OTHERS % 2;
        A *q = stages + now * STAGE;
        tile_pair<A> tiles = {q, q + STAGE / 2};
        if (query + ES_MMA_OTHERS < queries.end)
            fetch_queries_of<A, WIDTH, POWER>(call, stages + (1 - now) * STAGE,
                                              &known[1 - now], head,
                                              query + ES_MMA_OTHERS);
        else
            es_cp_commit();
        es_cp_wait<1>();
        __syncthreads();
        dkv_tile<A, WIDTH, M, N, POWER>(rows, own, tiles, &known[now],
                                        call->power, first, query, call->n_ctx);
        __syncthreads();
    }
}

template <class A, int WIDTH, bool POWER>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_dkv_kernel(es_attention_call<A> call)
{
    typedef backward_shape<WIDTH> shape;
    enum { M = shape::M, N = shape::KEY_N };
    ES_SHARED(A, k);
    A *stages = k + 2 * shape::OWN_SIZE;
    query_rows *known = (query_rows *)(void *)(stages + 2 * shape::STAGE);
    tile_pair<A> own = {k, k + shape::OWN_SIZE};
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_ctx, shape::OWN, ES_OWN_KEYS);
    const es_tile_range queries = es_tile_others(
        place.first, shape::OWN, ES_MMA_OTHERS, call.n_ctx, ES_OWN_KEYS);
    const int d = call.d_model;
    const size_t at =
        es_attention_qkv_at(&call, place.head) + (size_t)call.d_model;
    const int now = queries.begin / ES_MMA_OTHERS % 2;
    rows_of_dkv<WIDTH, M> rows;
    float factor[M][2];
    fetch_pair<A, WIDTH>(&call, k, shape::OWN, call.qkv + at, 3 * d,
                         call.qkv + at + d, 3 * d, place.first);
    fetch_queries_of<A, WIDTH, POWER>(&call, stages + now * shape::STAGE,
                                      &known[now], place.head, queries.begin);
    es_mma_clear<WIDTH, M>(rows.dk);
    es_mma_clear<WIDTH, M>(rows.dv);
    dkv_pass<A, WIDTH, M, N, POWER>(
        &call, &rows, own, stages, known, place.head,
        place.first + es_mma_warp() * 16 * M, queries);
    for (int m = 0; m < M; m++)
        factor[m][0] = factor[m][1] = 1;
    es_mma_write<A, WIDTH, M>(call.dqkv + at, k, rows.dk, factor, 3 * d,
                              place.first, call.n_ctx, call.width);
    es_mma_write<A, WIDTH, M>(call.dqkv + at + d, k + shape::OWN_SIZE, rows.dv,
                              factor, 3 * d, place.first, call.n_ctx,
                              call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, bool POWER, bool TEMPERED>
static bool backward(es_device *device, const es_attention_call<A> *call)
{
    typedef backward_shape<WIDTH> shape;
    const size_t tiles = shape::SIZE * sizeof(A);
    const size_t bytes = tiles + 2 * sizeof(query_rows);
    const dim3 grid((unsigned)(call->n_batch * call->n_head *
                               es_tile_count(call->n_ctx, shape::OWN)));
    if (bytes > es_device_facts_of(device)->shared_bytes)
        return false;
    es_launch(device, "attention_mma_dq",
              attention_mma_dq_kernel<A, WIDTH, POWER, TEMPERED>, grid,
              ES_MMA_THREADS, tiles, *call);
    es_launch(device, "attention_mma_dkv",
              attention_mma_dkv_kernel<A, WIDTH, POWER>, grid, ES_MMA_THREADS,
              bytes, *call);
    return true;
}

template <class A, int WIDTH>
static bool backward_of_kind(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->power)
        return backward<A, WIDTH, true, false>(device, call);
    return call->temperature ? backward<A, WIDTH, false, true>(device, call)
                             : backward<A, WIDTH, false, false>(device, call);
}

template <class A>
bool es_cuda_attention_mma_backward(es_device *device,
                                    const es_attention_call<A> *call)
{
    if (!es_mma_can(call))
        return false;
    if (call->width <= 32)
        return backward_of_kind<A, 32>(device, call);
    if (call->width <= 64)
        return backward_of_kind<A, 64>(device, call);
    return backward_of_kind<A, 128>(device, call);
}

template <>
bool es_cuda_attention_mma_backward<float>(es_device *device,
                                           const es_attention_call<float> *call)
{
    (void)device;
    (void)call;
    return false;
}

template bool
es_cuda_attention_mma_backward<es_bf16>(es_device *,
                                        const es_attention_call<es_bf16> *);
template bool
es_cuda_attention_mma_backward<es_fp16>(es_device *,
                                        const es_attention_call<es_fp16> *);
