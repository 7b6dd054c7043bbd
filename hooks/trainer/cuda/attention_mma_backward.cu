/**
 * Attention on tensor cores, backward: attention_mma.h says how.
 *
 * Two kernels, so that nothing is added to by two blocks and the same call
 * gives the same bits: one owns queries and makes dq, and what g is compared
 * with in every row; one owns keys and makes dk and dv. Scores and g are
 * computed by both: seven products where five would do.
 */
#include "hooks/trainer/cuda/attention_mma_gradient.h"

/* --- dq ------------------------------------------------------------------- */

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
ES_DEVICE void multiply_rows(float mean[M][2], const A *dy, const A *tile)
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

template <class A, int WIDTH, int M, class KIND>
ES_DEVICE void open_rows(const es_attention_call<A> *call,
                         rows_of_dq<WIDTH, M> *rows, const A *dy, const A *y,
                         int head, int own)
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
            float center;
            es_row_gradient *row = &rows->row[m][upper];
            *row = open_gradient<A, KIND>(call, head,
                                          min(query, call->n_ctx - 1), &center);
            row->mean = mean[m][upper] - row->weight * center;
            rows->sum[m][upper] = 0;
        }
}

/* What a pass of dq is for. */
typedef enum dq_task {
    DQ_ALONE,     /* scores become their gradients, without the row's factor */
    DQ_WITH_DOTS, /* and sum dz l grows */
    DQ_MEAN       /* the mean of g - w l, anew from the weights
                     (attention_fma_backward.cu says why) */
} dq_task;

template <class KIND, bool MASKED, dq_task TASK, int N>
ES_DEVICE void gradient_of_row(float s[N / 8][4], const float g[N / 8][4],
                               int upper, const es_row_gradient *row,
                               float *sum, int power, int query, int key)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            const es_weight w = KIND::weigh_again(
                s[n][i], row->anchor, row->scale2, row->inverse, power);
            bool visible = !MASKED || key + 8 * n + i % 2 <= query;
            float reduced = g[n][i] - row->weight * w.log;
            float ds = KIND::whole(w.slope, row->inverse) *
                       (TASK == DQ_MEAN ? reduced : reduced - row->mean);
            if (TASK == DQ_MEAN && visible)
                *sum += ds;
            if (TASK == DQ_WITH_DOTS && visible)
                *sum = fmaf(ds, w.log, *sum);
            s[n][i] = visible ? ds : 0;
        }
}

template <class A, int WIDTH, int M, int N, class KIND, bool MASKED,
          dq_task TASK>
ES_DEVICE void dq_step(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                       tile_pair<A> keys, int power, es_mma_spot spot)
{
    const int lane = es_mma_lane(), row = es_mma_warp() * 16 * M;
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N>(s, own.x, row, keys.x, spot.row);
    es_mma_multiply<A, WIDTH, M, N>(g, own.y, row, keys.y, spot.row);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
            gradient_of_row<KIND, MASKED, TASK, N>(
                s[m], g[m], upper, &rows->row[m][upper], &rows->sum[m][upper],
                power, spot.own + 16 * m + es_tile_sum_row(lane, 2 * upper),
                spot.other + es_tile_sum_column(lane, 0));
    if (TASK != DQ_MEAN)
        es_mma_gather<A, WIDTH, M, N, MASKED>(rows->out, s, keys.x, spot,
                                              ES_OWN_QUERIES);
}

/* The keys of a tile that all rows of the warp see, from `key` on. */
template <class A, int WIDTH, int M, int N, class KIND, dq_task TASK>
ES_DEVICE void dq_tile(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                       tile_pair<A> keys, int power, int first, int key)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N)
        dq_step<A, WIDTH, M, N, KIND, false, TASK>(rows, own, keys, power,
                                                   {first, key + j, j});
}

/* Any others: in steps of 16 keys, as most of a larger one would be masked. */
template <class A, int WIDTH, int M, class KIND, dq_task TASK>
ES_DEVICE void dq_masked_tile(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                              tile_pair<A> keys, int power, int first, int key)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS && key + j < first + 16 * M; j += 16)
        dq_step<A, WIDTH, M, 16, KIND, true, TASK>(rows, own, keys, power,
                                                   {first, key + j, j});
}

/* The keys after these start on their way, and these are there. */
template <class A, int WIDTH>
ES_DEVICE tile_pair<A> take_keys(const es_attention_call<A> *call, A *stages,
                                 source_pair<A> from, int key, int end)
{
    enum { STAGE = backward_shape<WIDTH>::STAGE };
    const int now = key / ES_MMA_OTHERS % 2;
    const A *k = stages + now * STAGE;
    if (key + ES_MMA_OTHERS < end)
        fetch_pair<A, WIDTH, ES_MMA_OTHERS>(call, stages + (1 - now) * STAGE,
                                            from, key + ES_MMA_OTHERS);
    else
        es_cp_commit();
    es_cp_wait<1>();
    __syncthreads();
    return {k, k + STAGE / 2};
}

/* Once through all keys; those of the first tile are on their way, into the
 * first stage. Two loops, so that registers of the second are none of the
 * first. */
template <class A, int WIDTH, int M, int N, class KIND, dq_task TASK>
ES_DEVICE void dq_pass(const es_attention_call<A> *call,
                       rows_of_dq<WIDTH, M> *rows, tile_pair<A> own, A *stages,
                       source_pair<A> from, int first, int own_first, int end)
{
    int key = 0;
    for (; key < own_first / ES_MMA_OTHERS * ES_MMA_OTHERS;
         key += ES_MMA_OTHERS) {
        const tile_pair<A> keys =
            take_keys<A, WIDTH>(call, stages, from, key, end);
        dq_tile<A, WIDTH, M, N, KIND, TASK>(rows, own, keys, call->power, first,
                                            key);
        __syncthreads();
    }
    for (; key < end; key += ES_MMA_OTHERS) {
        const tile_pair<A> keys =
            take_keys<A, WIDTH>(call, stages, from, key, end);
        dq_masked_tile<A, WIDTH, M, KIND, TASK>(rows, own, keys, call->power,
                                                first, key);
        __syncthreads();
    }
}

/* What the kernel of dk and dv wants of every row, and sum dz z; factor of
 * dq. */
template <class A, int WIDTH, int M>
ES_DEVICE void close_rows(const es_attention_call<A> *call, float factor[M][2],
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
ES_DEVICE void take_means(rows_of_dq<WIDTH, M> *rows)
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
ES_DEVICE void fetch_queries(const es_attention_call<A> *call, A *own,
                             A *y_tile, es_tile_place place)
{
    enum { OWN = backward_shape<WIDTH>::OWN };
    const int d = call->d_model;
    const A *y = call->y + es_attention_y_at(call, place.head) +
                 (size_t)place.first * (size_t)d;
    es_mma_fetch<A, WIDTH, OWN>(y_tile, es_mma_source<A, WIDTH>(y, d), d,
                                place.first, call->n_ctx, call->width);
    fetch_pair<A, WIDTH, OWN>(call, own, queries_of<A, WIDTH>(call, place.head),
                              place.first);
}

/* TEMPERED: with temperatures. */
template <class A, int WIDTH, class KIND, bool TEMPERED>
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
    const int end = min(place.first + shape::OWN, call.n_ctx);
    const int first = place.first + es_mma_warp() * 16 * M;
    rows_of_dq<WIDTH, M> rows;
    float factor[M][2];
    const source_pair<A> keys = keys_of<A, WIDTH>(&call, place.head);
    fetch_queries<A, WIDTH>(&call, q, stages + shape::STAGE, place);
    fetch_pair<A, WIDTH, ES_MMA_OTHERS>(&call, stages, keys, 0);
    es_cp_wait<1>();
    __syncthreads();
    open_rows<A, WIDTH, M, KIND>(&call, &rows, own.y, stages + shape::STAGE,
                                 place.head, first);
    __syncthreads();
    if (TEMPERED) {
        dq_pass<A, WIDTH, M, N, KIND, DQ_MEAN>(&call, &rows, own, stages, keys,
                                               first, place.first, end);
        take_means<WIDTH, M>(&rows);
        fetch_pair<A, WIDTH, ES_MMA_OTHERS>(&call, stages, keys, 0);
    }
    dq_pass<A, WIDTH, M, N, KIND, TEMPERED ? DQ_WITH_DOTS : DQ_ALONE>(
        &call, &rows, own, stages, keys, first, place.first, end);
    close_rows<A, WIDTH, M>(&call, factor, &rows, place.head, first);
    es_mma_write<A, WIDTH, M>(
        call.dqkv + es_attention_qkv_at(&call, place.head), q, rows.out, factor,
        3 * call.d_model, place.first, call.n_ctx, call.width);
}

/* --- dk and dv ------------------------------------------------------------ */

/* Of the queries of a stage, in shared memory: two reads of a column. */
typedef struct query_rows {
    float4 weight[ES_MMA_OTHERS]; /* of es_row_gradient: anchor, inverse, mean,
                                     weight */
    float2 scale[ES_MMA_OTHERS];  /* scale2, factor */
} query_rows;

/* Beyond the last query all is 0. */
template <class A, class KIND>
ES_DEVICE void load_query_rows(const es_attention_call<A> *call,
                               query_rows *out, int head, int first)
{
    const int i = (int)threadIdx.x;
    float4 weight = {0, 0, 0, 0};
    float2 scale = {0, 0};
    if (i >= ES_MMA_OTHERS)
        return;
    if (first + i < call->n_ctx) {
        float center;
        const es_row_gradient row =
            open_gradient<A, KIND>(call, head, first + i, &center);
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

/* Queries and dy from `query` on, and what is known of their rows. */
template <class A, int WIDTH, class KIND>
ES_DEVICE void fetch_queries_of(const es_attention_call<A> *call, A *stage,
                                query_rows *rows, source_pair<A> from, int head,
                                int query)
{
    fetch_pair<A, WIDTH, ES_MMA_OTHERS>(call, stage, from, query);
    load_query_rows<A, KIND>(call, rows, head, query);
}

/* What a warp keeps of its keys. */
template <int WIDTH, int M>
struct rows_of_dkv {
    float dk[M][WIDTH / 8][4], dv[M][WIDTH / 8][4];
};

/* Of this warp's keys and N queries: scores become gradients of q . k, without
 * a factor unless rows have their OWN_FACTOR, and g becomes weights. */
template <int M, int N, class KIND, bool OWN_FACTOR, bool MASKED>
ES_DEVICE void gradient_of_keys(float s[M][N / 8][4], float g[M][N / 8][4],
                                const query_rows *queries, int power,
                                float scale2, es_mma_spot spot, int n_ctx)
{
    const int lane = es_mma_lane();
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            const int column = 8 * n + es_tile_sum_column(lane, odd);
            const float4 row = queries->weight[spot.row + column];
            float2 scale = {scale2, 1};
            if (OWN_FACTOR)
                scale = queries->scale[spot.row + column];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = odd; i < 4; i += 2) {
                    const int key =
                        spot.own + 16 * m + es_tile_sum_row(lane, i);
                    const int query = spot.other + column;
                    bool visible = !MASKED || (query >= key && query < n_ctx);
                    const es_weight w = KIND::weigh_again(
                        s[m][n][i], row.x, scale.x, row.y, power);
                    float ds = KIND::whole(w.slope, row.y) *
                               (g[m][n][i] - row.w * w.log - row.z);
                    if (OWN_FACTOR)
                        ds *= scale.y;
                    g[m][n][i] = visible ? KIND::whole(w.u, row.y) : 0;
                    s[m][n][i] = visible ? ds : 0;
                }
        }
}

template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR,
          bool MASKED>
ES_DEVICE void dkv_step(const es_attention_call<A> *call,
                        rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                        tile_pair<A> queries, const query_rows *known,
                        es_mma_spot spot)
{
    const int row = es_mma_warp() * 16 * M;
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N>(s, own.x, row, queries.x, spot.row);
    es_mma_multiply<A, WIDTH, M, N>(g, own.y, row, queries.y, spot.row);
    gradient_of_keys<M, N, KIND, OWN_FACTOR, MASKED>(
        s, g, known, call->power, call->scale * ES_LOG2_E, spot, call->n_ctx);
    es_mma_gather<A, WIDTH, M, N, MASKED>(rows->dv, g, queries.y, spot,
                                          ES_OWN_KEYS);
    es_mma_gather<A, WIDTH, M, N, MASKED>(rows->dk, s, queries.x, spot,
                                          ES_OWN_KEYS);
}

/* The queries of a tile that see all keys of the block, from `query` on. */
template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_tile(const es_attention_call<A> *call,
                        rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                        tile_pair<A> queries, const query_rows *known,
                        int first, int query)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N)
        dkv_step<A, WIDTH, M, N, KIND, OWN_FACTOR, false>(
            call, rows, own, queries, known, {first, query + j, j});
}

/* Any others, in steps of 16, as most of a larger one would be masked. Those
 * beyond the last are masked, too: with a key of infinity even their zeros
 * would make NaN. */
template <class A, int WIDTH, int M, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_masked_tile(const es_attention_call<A> *call,
                               rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                               tile_pair<A> queries, const query_rows *known,
                               int first, int query)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS && query + j < call->n_ctx; j += 16)
        if (query + j + 15 >= first)
            dkv_step<A, WIDTH, M, 16, KIND, OWN_FACTOR, true>(
                call, rows, own, queries, known, {first, query + j, j});
}

/* Tile t of the queries that a block meets: one that is not whole comes first,
 * then they are in order, so that those with a mask are the first of all. */
typedef struct query_tiles {
    int begin, n, n_masked;
    bool has_rest;
} query_tiles;

template <int OWN>
ES_DEVICE query_tiles find_queries(int first, int n_ctx)
{
    query_tiles tiles;
    tiles.begin = first / ES_MMA_OTHERS * ES_MMA_OTHERS;
    tiles.n = es_tile_count(n_ctx - tiles.begin, ES_MMA_OTHERS);
    tiles.has_rest = n_ctx % ES_MMA_OTHERS != 0;
    tiles.n_masked =
        min(tiles.n, es_tile_count(OWN, ES_MMA_OTHERS) + tiles.has_rest);
    return tiles;
}

ES_DEVICE int query_of_tile(const query_tiles *tiles, int t)
{
    if (tiles->has_rest)
        t = t == 0 ? tiles->n - 1 : t - 1;
    return tiles->begin + t * ES_MMA_OTHERS;
}

/* Queries after these start on their way, and these are there. */
template <class A, int WIDTH, class KIND>
ES_DEVICE tile_pair<A> take_queries(const es_attention_call<A> *call, A *stages,
                                    query_rows *known, source_pair<A> from,
                                    int head, const query_tiles *tiles, int t)
{
    enum { STAGE = backward_shape<WIDTH>::STAGE };
    const A *q = stages + t % 2 * STAGE;
    const int next = (t + 1) % 2;
    if (t + 1 < tiles->n)
        fetch_queries_of<A, WIDTH, KIND>(call, stages + next * STAGE,
                                         &known[next], from, head,
                                         query_of_tile(tiles, t + 1));
    else
        es_cp_commit();
    es_cp_wait<1>();
    __syncthreads();
    return {q, q + STAGE / 2};
}

/* Two loops, so that registers of the first are none of the second. */
template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_pass(const es_attention_call<A> *call,
                        rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                        A *stages, query_rows *known, source_pair<A> from,
                        int head, int first, const query_tiles *tiles)
{
    int t = 0;
    for (; t < tiles->n_masked; t++) {
        const tile_pair<A> queries = take_queries<A, WIDTH, KIND>(
            call, stages, known, from, head, tiles, t);
        dkv_masked_tile<A, WIDTH, M, KIND, OWN_FACTOR>(call, rows, own, queries,
                                                       &known[t % 2], first,
                                                       query_of_tile(tiles, t));
        __syncthreads();
    }
    for (; t < tiles->n; t++) {
        const tile_pair<A> queries = take_queries<A, WIDTH, KIND>(
            call, stages, known, from, head, tiles, t);
        dkv_tile<A, WIDTH, M, N, KIND, OWN_FACTOR>(call, rows, own, queries,
                                                   &known[t % 2], first,
                                                   query_of_tile(tiles, t));
        __syncthreads();
    }
}

/* OWN_FACTOR: rows have factors of their own, as under temperatures. */
template <class A, int WIDTH, class KIND, bool OWN_FACTOR>
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
    const query_tiles tiles = find_queries<shape::OWN>(place.first, call.n_ctx);
    const int d = call.d_model;
    const size_t at =
        es_attention_qkv_at(&call, place.head) + (size_t)call.d_model;
    rows_of_dkv<WIDTH, M> rows;
    float factor[M][2], one[M][2];
    const source_pair<A> queries = queries_of<A, WIDTH>(&call, place.head);
    fetch_pair<A, WIDTH, shape::OWN>(
        &call, k, keys_of<A, WIDTH>(&call, place.head), place.first);
    fetch_queries_of<A, WIDTH, KIND>(&call, stages, known, queries, place.head,
                                     query_of_tile(&tiles, 0));
    es_mma_clear<WIDTH, M>(rows.dk);
    es_mma_clear<WIDTH, M>(rows.dv);
    dkv_pass<A, WIDTH, M, N, KIND, OWN_FACTOR>(
        &call, &rows, own, stages, known, queries, place.head,
        place.first + es_mma_warp() * 16 * M, &tiles);
    for (int m = 0; m < M; m++) {
        factor[m][0] = factor[m][1] = OWN_FACTOR ? 1 : call.scale;
        one[m][0] = one[m][1] = 1;
    }
    es_mma_write<A, WIDTH, M>(call.dqkv + at, k, rows.dk, factor, 3 * d,
                              place.first, call.n_ctx, call.width);
    es_mma_write<A, WIDTH, M>(call.dqkv + at + d, k + shape::OWN_SIZE, rows.dv,
                              one, 3 * d, place.first, call.n_ctx, call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, class KIND, bool TEMPERED>
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
              attention_mma_dq_kernel<A, WIDTH, KIND, TEMPERED>, grid,
              ES_MMA_THREADS, tiles, *call);
    es_launch(
        device, "attention_mma_dkv",
        attention_mma_dkv_kernel<A, WIDTH, KIND, (KIND::BY_SIZE || TEMPERED)>,
        grid, ES_MMA_THREADS, bytes, *call);
    return true;
}

template <class A, int WIDTH>
static bool backward_of_kind(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        return backward<A, WIDTH, es_power_softmax, false>(device, call);
    return call->log_t ? backward<A, WIDTH, es_softmax, true>(device, call)
                       : backward<A, WIDTH, es_softmax, false>(device, call);
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
