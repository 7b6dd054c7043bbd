/**
 * Implements the backward pass of attention on tensor cores. attention_mma.h
 * explains the tiles.
 *
 * There are two kernels, so that two blocks never add to the same number, and
 * repeating a call gives the same bits. In the first kernel, a block owns
 * queries; it computes dq and <g>, the weighted mean of g = dy . v over each
 * row. In the second kernel, a block owns keys, and computes dk and dv. Because
 * both kernels compute scores and g, there are seven products instead of five.
 */
#include "hooks/trainer/cuda/attention_mma_gradient.h"

/* --- dq ------------------------------------------------------------------- */

/* State of a warp's rows in the kernel that computes dq. */
template <int WIDTH, int M>
struct rows_of_dq {
    float out[M][WIDTH / 8][4];
    es_row_gradient row[M][2];
    /* In the pass DQ_MEAN, sums over keys of g - w * l; in later passes, sums
     * of dz * l. attention.h defines these symbols. */
    float sum[M][2];
};

/* Computes <g> (see attention.h) of the warp's rows as dy . y, where `tile`
 * holds y. Uses the same instructions in the same order as the computation of
 * g, so that <g> equals g to the last bit if a row has a single weight of 1 and
 * y is therefore v. */
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
        /* Row i of dy needs only its product with row i of the tile, which is
         * on the diagonal of the 16 by 16 products. Lane `from` holds this
         * product: as its sum 0 or 1 for the first 8 rows, and as its sum 2 or
         * 3 for the last 8 rows. */
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

/* Result that one pass of the dq kernel over the keys computes. */
typedef enum dq_task {
    DQ_ALONE,     /* gradients of scores, not yet multiplied by the row's
                   * factor */
    DQ_WITH_DOTS, /* gradients of scores, and the sum of dz * l, where dz is the
                   * gradient of a score and l is log2 u */
    DQ_MEAN       /* mean of g - w * l (attention.h defines g, w and l);
                   * mean_of_row in attention_exact.cu explains why this pass is
                   * needed */
} dq_task;

template <class KIND, bool DIAGONAL, dq_task TASK, int N>
ES_DEVICE void gradient_of_row(float s[N / 8][4], const float g[N / 8][4],
                               int m, int upper, const es_row_gradient *row,
                               float *sum, int power)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            const es_weight w = KIND::weigh_again(
                s[n][i], row->anchor, row->scale2, row->inverse, power);
            const bool visible = sees<ES_OWN_QUERIES, DIAGONAL>(m, n, i);
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

/* Processes N keys of a tile, starting at row `at` of the tile. */
template <class A, int WIDTH, int M, int N, class KIND, dq_task TASK,
          bool DIAGONAL = false>
ES_DEVICE void dq_step(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                       tile_pair<A> keys, int power, int at)
{
    const int row = es_mma_warp() * 16 * M;
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N, ES_OWN_QUERIES, DIAGONAL>(s, own.x, row,
                                                              keys.x, at);
    es_mma_multiply<A, WIDTH, M, N, ES_OWN_QUERIES, DIAGONAL>(g, own.y, row,
                                                              keys.y, at);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
            gradient_of_row<KIND, DIAGONAL, TASK, N>(
                s[m], g[m], m, upper, &rows->row[m][upper],
                &rows->sum[m][upper], power);
    if (TASK != DQ_MEAN)
        es_mma_gather<A, WIDTH, M, N, ES_OWN_QUERIES, DIAGONAL>(rows->out, s,
                                                                keys.x, at);
}

/* Processes a tile whose keys are visible to all rows of the block. */
template <class A, int WIDTH, int M, int N, class KIND, dq_task TASK>
ES_DEVICE void dq_tile(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                       tile_pair<A> keys, int power)
{
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N)
        dq_step<A, WIDTH, M, N, KIND, TASK>(rows, own, keys, power, j);
}

/* Processes a tile that starts at key `key` and may contain the warp's
 * diagonal. As many keys as the warp has rows are processed at a time, so that
 * only one group of keys contains the diagonal, and all earlier groups are
 * fully visible. */
template <class A, int WIDTH, int M, class KIND, dq_task TASK>
ES_DEVICE void dq_last_tile(rows_of_dq<WIDTH, M> *rows, tile_pair<A> own,
                            tile_pair<A> keys, int power, int first, int key)
{
    enum { N = 16 * M };
    int j = 0;
#pragma unroll 1
    for (; j < ES_MMA_OTHERS && key + j < first; j += N)
        dq_step<A, WIDTH, M, N, KIND, TASK>(rows, own, keys, power, j);
    if (key + j == first && j < ES_MMA_OTHERS)
        dq_step<A, WIDTH, M, N, KIND, TASK, true>(rows, own, keys, power, j);
}

/* Starts copying the next keys and values, and waits until the current keys and
 * values have been copied. Returns their two tiles. */
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

/* Processes all keys once. The caller has already started copying the first
 * tile to the first of two buffers. The code has two loops, so that the first
 * loop does not reserve the registers that the second loop needs. */
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
        dq_tile<A, WIDTH, M, N, KIND, TASK>(rows, own, keys, call->power);
        __syncthreads();
    }
    for (; key < end; key += ES_MMA_OTHERS) {
        const tile_pair<A> keys =
            take_keys<A, WIDTH>(call, stages, from, key, end);
        if (first < end)
            dq_last_tile<A, WIDTH, M, KIND, TASK>(rows, own, keys, call->power,
                                                  first, key);
        __syncthreads();
    }
}

/* Saves the means, which the kernel for dk and dv needs, and each row's sum of
 * z * dL/dz over its scores z. Sets `factor` to the number by which each row of
 * dq must still be multiplied. */
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

/* Sets the mean of each row to the result of the pass DQ_MEAN. */
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

/* Starts copying queries and dy to the block's own tiles, and y to y_tile, a
 * buffer that later holds tiles of keys and values. */
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

/* The kernel for dq. TEMPERED is true if attention has temperatures. */
template <class A, int WIDTH, class KIND, bool TEMPERED>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_dq_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    typedef backward_shape<WIDTH> shape;
    enum { M = shape::M, N = shape::N };
    ES_DYNAMIC_SHARED(A, q);
    A *stages = q + 2 * shape::OWN_SIZE;
    const tile_pair<A> own = {q, q + shape::OWN_SIZE};
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_ctx, shape::OWN, ES_OWN_QUERIES);
    const int end = min(place.first + shape::OWN, call.n_ctx);
    const int first = place.first + es_mma_warp() * 16 * M;
    rows_of_dq<WIDTH, M> rows;
    float factor[M][2];
    const float more[M] = {0};
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
    es_mma_flag<A, WIDTH, M, false>(&call, rows.out, factor, more, place.head,
                                    first);
    es_mma_write<A, WIDTH, M>(
        call.dqkv + es_attention_qkv_at(&call, place.head), q, rows.out, factor,
        3 * call.d_model, place.first, call.n_ctx, call.width);
}

/* --- dk and dv ------------------------------------------------------------ */

/* A warp's results for the keys that it owns. */
template <int WIDTH, int M>
struct rows_of_dkv {
    float dk[M][WIDTH / 8][4], dv[M][WIDTH / 8][4];
};

/* Turns the scores s of this warp's keys and N queries into gradients of q . k,
 * and turns g (see attention.h) into weights. With OWN_FACTOR, multiplies the
 * gradients by the factor of each row; otherwise the caller multiplies dk by
 * the factor that all rows share. */
template <int M, int N, class KIND, bool OWN_FACTOR, bool DIAGONAL>
ES_DEVICE void gradient_of_keys(float s[M][N / 8][4], float g[M][N / 8][4],
                                const query_rows *queries, int power,
                                float scale2, int at)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            const int query =
                at + 8 * n + es_tile_sum_column(es_mma_lane(), odd);
            const float4 row = queries->weight[query];
            float2 scale = {scale2, 1};
            if (OWN_FACTOR)
                scale = queries->scale[query];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = odd; i < 4; i += 2) {
                    const bool visible = sees<ES_OWN_KEYS, DIAGONAL>(m, n, i);
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

/* Processes N queries, starting at row `at` of a tile, with 16 * M keys,
 * starting at row `row` of the block. Adds to dk and dv of these keys. */
template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR,
          bool DIAGONAL = false>
ES_DEVICE void dkv_step(const es_attention_call<A> *call,
                        float dk[M][WIDTH / 8][4], float dv[M][WIDTH / 8][4],
                        tile_pair<A> own, int row, tile_pair<A> queries,
                        const query_rows *known, int at)
{
    float s[M][N / 8][4], g[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N, ES_OWN_KEYS, DIAGONAL>(s, own.x, row,
                                                           queries.x, at);
    es_mma_multiply<A, WIDTH, M, N, ES_OWN_KEYS, DIAGONAL>(g, own.y, row,
                                                           queries.y, at);
    gradient_of_keys<M, N, KIND, OWN_FACTOR, DIAGONAL>(
        s, g, known, call->power, call->scale * ES_LOG2_E, at);
    es_mma_gather<A, WIDTH, M, N, ES_OWN_KEYS, DIAGONAL>(dv, g, queries.y, at);
    es_mma_gather<A, WIDTH, M, N, ES_OWN_KEYS, DIAGONAL>(dk, s, queries.x, at);
}

/* Processes queries j .. n - 1 of a tile. All of these queries see all keys of
 * the warp. */
template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_tile(const es_attention_call<A> *call,
                        rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                        tile_pair<A> queries, const query_rows *known, int j,
                        int n)
{
#pragma unroll 1
    for (; j < n; j += N)
        dkv_step<A, WIDTH, M, N, KIND, OWN_FACTOR>(call, rows->dk, rows->dv,
                                                   own, es_mma_warp() * 16 * M,
                                                   queries, known, j);
}

/* Processes the 16 * M queries on the warp's diagonal, starting at query j of
 * the tile. Computes only the visible blocks of 16 by 16, because there are not
 * enough registers for larger blocks. */
template <class A, int WIDTH, int M, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_diagonal(const es_attention_call<A> *call,
                            rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                            tile_pair<A> queries, const query_rows *known,
                            int j)
{
    const int row = es_mma_warp() * 16 * M;
    dkv_step<A, WIDTH, 1, 16, KIND, OWN_FACTOR, true>(
        call, rows->dk, rows->dv, own, row, queries, known, j);
    if (M == 1)
        return;
    dkv_step<A, WIDTH, 1, 16, KIND, OWN_FACTOR>(call, rows->dk, rows->dv, own,
                                                row, queries, known, j + 16);
    dkv_step<A, WIDTH, 1, 16, KIND, OWN_FACTOR, true>(
        call, rows->dk + M - 1, rows->dv + M - 1, own, row + 16, queries, known,
        j + 16);
}

/* Processes a tile that starts at query `query` and that contains the diagonal
 * of at least one warp of the block. The diagonal of the calling warp starts at
 * position `first`. */
template <class A, int WIDTH, int M, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_first_tile(const es_attention_call<A> *call,
                              rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                              tile_pair<A> queries, const query_rows *known,
                              int first, int query)
{
    enum { N = backward_shape<WIDTH>::KEY_END };
    int j = first - query;
    if (j >= 0 && j < ES_MMA_OTHERS)
        dkv_diagonal<A, WIDTH, M, KIND, OWN_FACTOR>(call, rows, own, queries,
                                                    known, j);
    j = j < 0 ? 0 : j + 16 * M;
    dkv_tile<A, WIDTH, M, N, KIND, OWN_FACTOR>(
        call, rows, own, queries, known, j,
        min(ES_MMA_OTHERS, call->n_ctx - query));
}

/* Starts copying the queries after the tile at `query`, and waits until the
 * tile's own queries and dy have been copied. Returns their two tiles. */
template <class A, int WIDTH, class KIND>
ES_DEVICE tile_pair<A> take_queries(const es_attention_call<A> *call, A *stages,
                                    query_rows *known, source_pair<A> from,
                                    int head, int query)
{
    enum { STAGE = backward_shape<WIDTH>::STAGE };
    const int now = query / ES_MMA_OTHERS % 2;
    const A *q = stages + now * STAGE;
    if (query + ES_MMA_OTHERS < call->n_ctx)
        fetch_queries_of<A, WIDTH, KIND>(call, stages + (1 - now) * STAGE,
                                         &known[1 - now], from, head,
                                         query + ES_MMA_OTHERS);
    else
        es_cp_commit();
    es_cp_wait<1>();
    __syncthreads();
    return {q, q + STAGE / 2};
}

/* Processes all queries that see the block's keys. The code has two loops, so
 * that the second loop does not reserve the registers that the first loop
 * needs. */
template <class A, int WIDTH, int M, int N, class KIND, bool OWN_FACTOR>
ES_DEVICE void dkv_pass(const es_attention_call<A> *call,
                        rows_of_dkv<WIDTH, M> *rows, tile_pair<A> own,
                        A *stages, query_rows *known, source_pair<A> from,
                        int head, int block_first, int first)
{
    const int apart =
        min(block_first + backward_shape<WIDTH>::OWN, call->n_ctx);
    int query = block_first;
    for (; query < apart; query += ES_MMA_OTHERS) {
        const tile_pair<A> queries = take_queries<A, WIDTH, KIND>(
            call, stages, known, from, head, query);
        dkv_first_tile<A, WIDTH, M, KIND, OWN_FACTOR>(
            call, rows, own, queries, &known[query / ES_MMA_OTHERS % 2], first,
            query);
        __syncthreads();
    }
    for (; query < call->n_ctx; query += ES_MMA_OTHERS) {
        const tile_pair<A> queries = take_queries<A, WIDTH, KIND>(
            call, stages, known, from, head, query);
        dkv_tile<A, WIDTH, M, N, KIND, OWN_FACTOR>(
            call, rows, own, queries, &known[query / ES_MMA_OTHERS % 2], 0,
            ES_MMA_OTHERS);
        __syncthreads();
    }
}

/* Writes dk, multiplied by `factor`, and dv. The results pass through shared
 * memory, where they overwrite the block's tiles, from the address `k` on. */
template <class A, int WIDTH, int M>
ES_DEVICE void write_keys(const es_attention_call<A> *call,
                          const rows_of_dkv<WIDTH, M> *rows, A *k, float factor,
                          es_tile_place place)
{
    const int first = place.first + es_mma_warp() * 16 * M;
    const int stride = 3 * call->d_model;
    A *dk = call->dqkv + es_attention_qkv_at(call, place.head) + call->d_model;
    const float more[M] = {0};
    float factors[M][2], ones[M][2];
    for (int m = 0; m < M; m++) {
        factors[m][0] = factors[m][1] = factor;
        ones[m][0] = ones[m][1] = 1;
    }
    es_mma_flag<A, WIDTH, M, true>(call, rows->dk, factors, more, place.head,
                                   first);
    es_mma_flag<A, WIDTH, M, true>(call, rows->dv, ones, more, place.head,
                                   first);
    es_mma_write<A, WIDTH, M>(dk, k, rows->dk, factors, stride, place.first,
                              call->n_ctx, call->width);
    es_mma_write<A, WIDTH, M>(
        dk + call->d_model, k + backward_shape<WIDTH>::OWN_SIZE, rows->dv, ones,
        stride, place.first, call->n_ctx, call->width);
}

template <int WIDTH>
ES_DEVICE es_tile_place keys_of_block(int n_ctx)
{
    return es_tile_place_of(es_mma_block_anew(), n_ctx,
                            backward_shape<WIDTH>::OWN, ES_OWN_KEYS);
}

/* The kernel for dk and dv. OWN_FACTOR is true if each row has a separate
 * factor, as with temperatures and PowerSoftmax. */
template <class A, int WIDTH, class KIND, bool OWN_FACTOR>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_dkv_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    typedef backward_shape<WIDTH> shape;
    enum { M = shape::M, N = shape::KEY_N };
    ES_DYNAMIC_SHARED(A, k);
    A *stages = k + 2 * shape::OWN_SIZE;
    query_rows *known = (query_rows *)(void *)(stages + 2 * shape::STAGE);
    tile_pair<A> own = {k, k + shape::OWN_SIZE};
    es_tile_place place = keys_of_block<WIDTH>(call.n_ctx);
    rows_of_dkv<WIDTH, M> rows;
    const source_pair<A> queries = queries_of<A, WIDTH>(&call, place.head);
    const int stage = place.first / ES_MMA_OTHERS % 2;
    fetch_pair<A, WIDTH, shape::OWN>(
        &call, k, keys_of<A, WIDTH>(&call, place.head), place.first);
    fetch_queries_of<A, WIDTH, KIND>(&call, stages + stage * shape::STAGE,
                                     known + stage, queries, place.head,
                                     place.first);
    es_mma_clear<WIDTH, M>(rows.dk);
    es_mma_clear<WIDTH, M>(rows.dv);
    dkv_pass<A, WIDTH, M, N, KIND, OWN_FACTOR>(
        &call, &rows, own, stages, known, queries, place.head, place.first,
        place.first + es_mma_warp() * 16 * M);
    /* `place` is computed again, because keeping its value during the loops
     * would occupy registers. */
    place = keys_of_block<WIDTH>(call.n_ctx);
    write_keys<A, WIDTH, M>(&call, &rows, k, OWN_FACTOR ? 1 : call.scale,
                            place);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, class KIND, bool TEMPERED>
static bool launch_backward(es_device *device, const es_attention_call<A> *call)
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
        return launch_backward<A, WIDTH, es_power_softmax, false>(device, call);
    return call->log_t
               ? launch_backward<A, WIDTH, es_softmax, true>(device, call)
               : launch_backward<A, WIDTH, es_softmax, false>(device, call);
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
