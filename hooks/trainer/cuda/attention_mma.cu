/** Implements the forward pass of attention on tensor cores. attention_mma.h
 *  explains the tiles. */
#include "hooks/trainer/cuda/attention_mma.h"
#include "hooks/trainer/cuda/attention_statistics.h"

/* Sizes of tiles for each head width. README.md in this folder reports their
 * cost in instructions, registers and shared memory. */
template <int WIDTH>
struct forward_shape {
    enum {
        M = 2,
        OWN = 16 * M * ES_MMA_WARPS,
        OWN_SIZE = OWN * WIDTH,
        OTHER_SIZE = ES_MMA_OTHERS * WIDTH,
        /* space for the block's query rows and for two buffers, each of which
         * holds a tile of keys and a tile of values */
        SIZE = OWN_SIZE + 4 * OTHER_SIZE
    };
};

/* Values of the query rows of a thread block, in shared memory. There are not
 * enough registers to keep these values while products are computed, and each
 * value is needed only for a part of each iteration. Four lanes share a row;
 * the first of them writes the values that all four read. Each lane has
 * separate sums over its columns: the lane's sums for row 16 * m + 8 * upper +
 * lane / 4 of its warp are at index [2 * m + upper], in a different bank for
 * each lane.
 *
 * Weights, sums and outputs are relative to the row's anchor. For PowerSoftmax
 * the anchor is 1 / m, where m is the row's largest absolute score; for softmax
 * it is a score such that the logarithm of any weight of the row is at most
 * ES_SLACK. */
template <int WIDTH>
struct kept_rows {
    enum { OWN = forward_shape<WIDTH>::OWN };
    float sums[ES_N_ROW_SUMS][4][ES_MMA_THREADS];
    float scale2[OWN]; /* factor that turns raw scores into
                        * logarithms to base 2 */
    float anchor[OWN];
    float m[OWN];       /* PowerSoftmax: 1 / anchor */
    float largest[OWN]; /* largest raw score; used only by the first of the
                         * row's four lanes */
    float first[OWN];   /* raw score of each row for key 0 */
};

/* Returns the index, within the thread block, of this lane's first row. The
 * lane's row with the indices (m, upper) is 16 * m + 8 * upper rows below the
 * first row. */
template <int M>
ES_DEVICE int first_row(void)
{
    return es_mma_warp() * 16 * M + es_tile_sum_row(es_mma_lane(), 0);
}

/* Moves the anchors of rows, which are the scores to which weights are relative
 * (attention_kinds.h). If a row's largest score exceeds the row's anchor by too
 * much, the largest score becomes the anchor. All lanes of the warp must call
 * this function together. */
template <int WIDTH, int M, class KIND, bool MEASURE>
ES_DEVICE void move_anchors(float out[M][WIDTH / 8][4], kept_rows<WIDTH> *kept,
                            const float largest[M][2], int power)
{
    enum { n_sums = MEASURE ? ES_N_ROW_SUMS : ES_SUM_FIRST_MEAN };
    const int first = first_row<M>();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int at = first + 16 * m + 8 * upper, i = 2 * m + upper;
            const float scale2 = kept->scale2[at], was = kept->anchor[at];
            es_row row = {kept->m[at], 0, {0}};
#pragma unroll
            for (int s = 0; s < n_sums; s++)
                row.sums[s] = kept->sums[s][i][threadIdx.x];
            float anchor = was, factor = 1;
            if (KIND::has_outgrown(largest[m][upper], was, scale2))
                factor = KIND::template move<MEASURE>(
                    &row, &anchor, largest[m][upper], scale2, power);
#pragma unroll
            for (int s = 0; s < n_sums; s++)
                kept->sums[s][i][threadIdx.x] = row.sums[s];
            __syncwarp();
            if (es_mma_lane() % 4 == 0) {
                kept->anchor[at] = anchor;
                kept->m[at] = row.m;
            }
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++) {
                out[m][n][2 * upper] *= factor;
                out[m][n][2 * upper + 1] *= factor;
            }
        }
    __syncwarp();
}

/* Returns true if the query in row 16 * m + 8 * upper sees the key of this
 * lane's element i, which is one of the keys 8 * n to 8 * n + 7. */
template <bool DIAGONAL>
ES_DEVICE bool sees(int m, int upper, int n, int i)
{
    return es_mma_sees<ES_OWN_QUERIES, DIAGONAL>(16 * m + 8 * upper, 8 * n, i);
}

/* Replaces the raw scores of this lane's row (m, upper) by unnormalised weights
 * u, or by 0 if masked, and adds them to the row's sums. */
template <class KIND, bool MEASURE, bool DIAGONAL, int N>
ES_DEVICE void weigh_row(float s[N / 8][4], int m, int upper, float *sum,
                         float *moment, float anchor, float scale2, int power)
{
    float of_u = *sum, of_u_log = MEASURE ? *moment : 0;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++) {
            const es_weight w =
                KIND::template weigh<true>(s[n][i], anchor, scale2, power);
            const bool visible = sees<DIAGONAL>(m, upper, n, i);
            s[n][i] = visible ? w.u : 0;
            if (visible)
                of_u += w.u;
            if (MEASURE && visible)
                of_u_log = fmaf(w.u, w.log, of_u_log);
        }
    *sum = of_u;
    if (MEASURE)
        *moment = of_u_log;
}

/* Returns the largest of a row's scores in s, or the largest absolute score for
 * PowerSoftmax. Also updates *so_far, the row's largest score so far. */
template <class KIND, bool DIAGONAL, int N>
ES_DEVICE float largest_of_row(const float s[N / 8][4], int m, int upper,
                               float *so_far)
{
    float largest = -INFINITY, size = 0;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++)
            if (sees<DIAGONAL>(m, upper, n, i)) {
                largest = fmaxf(largest, s[n][i]);
                if (KIND::BY_SIZE)
                    size = fmaxf(size, fabsf(s[n][i]));
            }
    largest = es_mma_row_largest(largest);
    if (es_mma_lane() % 4 == 0)
        *so_far = fmaxf(*so_far, largest);
    return KIND::BY_SIZE ? es_mma_row_largest(size) : largest;
}

/* Turns the scores of a group of keys into weights. Weights are relative to the
 * row's anchor (a score, see attention_kinds.h). If scores of a row exceed its
 * anchor by too much, first moves the anchor and rescales the row's sums and
 * outputs. */
template <int WIDTH, int M, int N, class KIND, bool MEASURE, bool DIAGONAL>
ES_DEVICE void weigh_step(float out[M][WIDTH / 8][4], float s[M][N / 8][4],
                          kept_rows<WIDTH> *kept, int power, bool means)
{
    const int first = first_row<M>();
    float largest[M][2];
    bool grew = false;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int at = first + 16 * m + 8 * upper;
            largest[m][upper] = largest_of_row<KIND, DIAGONAL, N>(
                s[m], m, upper, &kept->largest[at]);
            grew |= KIND::has_outgrown(largest[m][upper], kept->anchor[at],
                                       kept->scale2[at]);
        }
    if (__any_sync(0xffffffffu, grew))
        move_anchors<WIDTH, M, KIND, MEASURE>(out, kept, largest, power);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int at = first + 16 * m + 8 * upper, i = 2 * m + upper;
            weigh_row<KIND, MEASURE, DIAGONAL, N>(
                s[m], m, upper, &kept->sums[ES_SUM_WEIGHT][i][threadIdx.x],
                &kept->sums[ES_SUM_MOMENT][i][threadIdx.x], kept->anchor[at],
                kept->scale2[at], power);
        }
    if (MEASURE && means)
#pragma unroll
        for (int i = 0; i < 2 * M; i++)
            es_step_add_means<N, 4 * ES_MMA_THREADS>(
                &kept->sums[0][i][threadIdx.x], s[i / 2], i % 2);
}

/* State of the rows that a warp owns: their outputs so far, and a pointer to
 * their values in shared memory. */
template <int WIDTH, int M>
struct rows_of_warp {
    float out[M][WIDTH / 8][4];
    kept_rows<WIDTH> *kept; /* in shared memory, for all rows of the block */
};

/* Saves the rows' raw scores of key 0. Each score is held by the first of the
 * four lanes that share the row. */
template <int M, int N>
ES_DEVICE void keep_first(float *first, const float s[M][N / 8][4])
{
    first += first_row<M>();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
            if (es_mma_lane() % 4 == 0)
                first[16 * m + 8 * upper] = s[m][0][2 * upper];
}

/* Processes N keys of a tile, starting at row `row` of the tile. has_first is
 * true if key 0 is one of these keys. */
template <class A, int WIDTH, int M, int N, class KIND, bool MEASURE,
          bool DIAGONAL = false>
ES_DEVICE void attend_step(const es_attention_call<A> *call,
                           rows_of_warp<WIDTH, M> *rows, const A *q, const A *k,
                           int row, bool has_first)
{
    const A *v = k + forward_shape<WIDTH>::OTHER_SIZE;
    float s[M][N / 8][4];
    es_mma_multiply<A, WIDTH, M, N, ES_OWN_QUERIES, DIAGONAL>(
        s, q, es_mma_warp() * 16 * M, k, row);
    if (MEASURE && has_first)
        keep_first<M, N>(rows->kept->first, s);
    weigh_step<WIDTH, M, N, KIND, MEASURE, DIAGONAL>(
        rows->out, s, rows->kept, call->power, es_row_wants_means(call));
    es_mma_gather<A, WIDTH, M, N, ES_OWN_QUERIES, DIAGONAL>(rows->out, s, v,
                                                            row);
}

/* Below compute capability 9.0, one call of attend_step does not have enough
 * registers for a complete tile if attention is softmax and heads are wide. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
enum { FEW_REGISTERS = true };
#else
enum { FEW_REGISTERS = false };
#endif

/* Processes a tile of keys that starts at key `key`; all its keys are visible
 * to all query rows of the thread block. Calls attend_step once if there are
 * enough registers for the whole tile, otherwise once for each half. */
template <class A, int WIDTH, int M, class KIND, bool MEASURE>
ES_DEVICE void attend_tile(const es_attention_call<A> *call,
                           rows_of_warp<WIDTH, M> *rows, const A *q, const A *k,
                           int key)
{
    enum {
        HALF = WIDTH > 64 && (KIND::BY_SIZE || FEW_REGISTERS),
        N = HALF ? ES_MMA_OTHERS / 2 : ES_MMA_OTHERS
    };
#pragma unroll 1
    for (int j = 0; j < ES_MMA_OTHERS; j += N)
        attend_step<A, WIDTH, M, N, KIND, MEASURE>(call, rows, q, k, j,
                                                   key + j == 0);
}

/* Processes a tile of keys that may contain the diagonal of the causal mask for
 * the rows of this warp. Each call of attend_step processes as many keys as the
 * warp has rows, so only one call meets the diagonal, and the keys of all
 * earlier calls are fully visible. */
template <class A, int WIDTH, int M, class KIND, bool MEASURE>
ES_DEVICE void attend_last_tile(const es_attention_call<A> *call,
                                rows_of_warp<WIDTH, M> *rows, const A *q,
                                const A *k, int own, int key)
{
    enum { N = 16 * M };
    int j = 0;
#pragma unroll 1
    for (; j < ES_MMA_OTHERS && key + j < own; j += N)
        attend_step<A, WIDTH, M, N, KIND, MEASURE>(call, rows, q, k, j,
                                                   key + j == 0);
    if (key + j == own && j < ES_MMA_OTHERS)
        attend_step<A, WIDTH, M, N, KIND, MEASURE, true>(call, rows, q, k, j,
                                                         own == 0);
}

template <class A, int WIDTH, int M, class KIND>
ES_DEVICE void open_rows(const es_attention_call<A> *call,
                         rows_of_warp<WIDTH, M> *rows, int head, int own)
{
    const int first = first_row<M>();
    es_mma_clear<WIDTH, M>(rows->out);
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        const int query = own + es_tile_sum_row(es_mma_lane(), 0) + 8 * i;
        kept_rows<WIDTH> *kept = rows->kept;
#pragma unroll
        for (int s = 0; s < ES_N_ROW_SUMS; s++)
            kept->sums[s][i][threadIdx.x] = 0;
        if (es_mma_lane() % 4 != 0)
            continue;
        kept->anchor[first + 8 * i] = KIND::lowest_anchor();
        kept->m[first + 8 * i] = ES_TINY_SCORE;
        kept->largest[first + 8 * i] = -INFINITY;
        kept->scale2[first + 8 * i] =
            ES_LOG2_E *
            es_attention_scale(call, head, min(query, call->n_ctx - 1));
    }
}

/* Saves the rows' values for the backward pass, and writes their statistics.
 * Sets `factor` to the number by which each row's outputs must be multiplied,
 * which includes the division by the row's denominator, and `more` to a number
 * that is finite if and only if the saved values are finite. */
template <class A, int WIDTH, int M, class KIND, bool MEASURE>
ES_DEVICE void close_rows(const es_attention_call<A> *call, float factor[M][2],
                          float more[M], rows_of_warp<WIDTH, M> *rows, int head,
                          int own)
{
    enum { n_sums = MEASURE ? ES_N_ROW_SUMS : ES_SUM_FIRST_MEAN };
    const kept_rows<WIDTH> *kept = rows->kept;
    const int lane = es_mma_lane(), first = first_row<M>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        const int row_at = first + 8 * i;
        const int query = own + es_tile_sum_row(lane, 0) + 8 * i;
        const size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)query;
        es_row row = {kept->m[row_at], kept->largest[row_at], {0}};
#pragma unroll
        for (int s = 0; s < n_sums; s++)
            row.sums[s] = kept->sums[s][i][threadIdx.x];
        if (MEASURE)
            es_step_end_means<M>(row.sums, lane, i);
#pragma unroll
        for (int s = 0; s < n_sums; s++)
            row.sums[s] = es_mma_row_sum(row.sums[s]);
        const float settled =
            KIND::settle(&row, kept->anchor[row_at], kept->scale2[row_at]);
        const es_row_end end = es_row_close<KIND>(
            &row, es_attention_scale(call, head, min(query, call->n_ctx - 1)),
            es_attention_epsilon(call, query), call->power);
        factor[i / 2][i % 2] = settled * end.saved.inverse;
        more[i / 2] = (i % 2 ? more[i / 2] : 0) + end.saved.center * 0.0f;
        if (lane % 4 != 0 || query >= call->n_ctx)
            continue;
        ((es_saved_row *)(void *)call->saved)[at] = end.saved;
        if (MEASURE)
            es_row_measure<A, KIND>(call, at, &row, &end, kept->first[row_at]);
    }
}

/* Starts copying ES_MMA_OTHERS keys and values, from key `key` on, to shared
 * memory. `source` is the address from which this thread copies. */
template <class A, int WIDTH>
ES_DEVICE void fetch_keys(const es_attention_call<A> *call, A *stage,
                          const A *source, int key)
{
    const int d = call->d_model;
    es_mma_fetch<A, WIDTH, ES_MMA_OTHERS>(stage, source, 3 * d, key,
                                          call->n_ctx, call->width);
    es_mma_fetch<A, WIDTH, ES_MMA_OTHERS>(stage + ES_MMA_OTHERS * WIDTH,
                                          source + d, 3 * d, key, call->n_ctx,
                                          call->width);
    es_cp_commit();
}

/* Starts copying the next keys and values from *source, and waits until the
 * current ones are copied. Returns the tile of the current keys. */
template <class A, int WIDTH>
ES_DEVICE const A *take_keys(const es_attention_call<A> *call, A *stages,
                             const A **source, int key, int end)
{
    enum { STAGE = 2 * forward_shape<WIDTH>::OTHER_SIZE };
    const int now = key / ES_MMA_OTHERS % 2;
    if (key + ES_MMA_OTHERS < end) {
        fetch_keys<A, WIDTH>(call, stages + (1 - now) * STAGE, *source,
                             key + ES_MMA_OTHERS);
        *source += (size_t)ES_MMA_OTHERS * 3 * (size_t)call->d_model;
    } else {
        es_cp_commit();
    }
    es_cp_wait<1>();
    __syncthreads();
    return stages + now * STAGE;
}

template <int WIDTH>
ES_DEVICE es_tile_place place_of_block(int n_ctx)
{
    return es_tile_place_of(es_mma_block_anew(), n_ctx,
                            forward_shape<WIDTH>::OWN, ES_OWN_QUERIES);
}

template <class A, int WIDTH, class KIND, bool MEASURE>
__global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    attention_mma_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    typedef forward_shape<WIDTH> shape;
    enum { M = shape::M };
    ES_DYNAMIC_SHARED(A, q);
    A *stages = q + shape::OWN_SIZE;
    es_tile_place place = place_of_block<WIDTH>(call.n_ctx);
    const int first = place.first, stride = 3 * call.d_model;
    const int end = min(first + shape::OWN, call.n_ctx);
    const A *from = call.qkv + es_attention_qkv_at(&call, place.head);
    const A *source = es_mma_source<A, WIDTH>(from + call.d_model, stride);
    int own = first + es_mma_warp() * 16 * M;
    rows_of_warp<WIDTH, M> rows;
    float factor[M][2], more[M];
    rows.kept = (kept_rows<WIDTH> *)(void *)(q + shape::SIZE);
    es_mma_fetch<A, WIDTH, shape::OWN>(
        q,
        es_mma_source<A, WIDTH>(from + (size_t)first * (size_t)stride, stride),
        stride, first, call.n_ctx, call.width);
    fetch_keys<A, WIDTH>(&call, stages, source, 0);
    source += (size_t)ES_MMA_OTHERS * (size_t)stride;
    open_rows<A, WIDTH, M, KIND>(&call, &rows, place.head, own);
    /* There is one loop for tiles without masked keys and one for tiles at the
     * diagonal, so that the first loop does not reserve the registers that the
     * second loop needs. */
    int key = 0;
    for (; key < first; key += ES_MMA_OTHERS) {
        const A *k = take_keys<A, WIDTH>(&call, stages, &source, key, end);
        attend_tile<A, WIDTH, M, KIND, MEASURE>(&call, &rows, q, k, key);
        __syncthreads();
    }
    for (; key < end; key += ES_MMA_OTHERS) {
        const A *k = take_keys<A, WIDTH>(&call, stages, &source, key, end);
        if (own < end)
            attend_last_tile<A, WIDTH, M, KIND, MEASURE>(&call, &rows, q, k,
                                                         own, key);
        __syncthreads();
    }
    /* `place` is computed again, because keeping it during the loops would
     * occupy registers. */
    place = place_of_block<WIDTH>(call.n_ctx);
    own = place.first + es_mma_warp() * 16 * M;
    close_rows<A, WIDTH, M, KIND, MEASURE>(&call, factor, more, &rows,
                                           place.head, own);
    es_mma_flag<A, WIDTH, M, false>(&call, rows.out, factor, more, place.head,
                                    own);
    es_mma_write<A, WIDTH, M>(call.y + es_attention_y_at(&call, place.head), q,
                              rows.out, factor, call.d_model, place.first,
                              call.n_ctx, call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, class KIND, bool MEASURE>
static bool launch_forward(es_device *device, const es_attention_call<A> *call)
{
    typedef forward_shape<WIDTH> shape;
    const size_t bytes = shape::SIZE * sizeof(A) + sizeof(kept_rows<WIDTH>);
    if (bytes > es_device_facts_of(device)->shared_bytes)
        return false;
    es_launch(device, "attention_mma",
              attention_mma_kernel<A, WIDTH, KIND, MEASURE>,
              dim3((unsigned)(call->n_batch * call->n_head *
                              es_tile_count(call->n_ctx, shape::OWN))),
              ES_MMA_THREADS, bytes, *call);
    return true;
}

template <class A, int WIDTH>
static bool forward_of_kind(es_device *device, const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        return call->measures
                   ? launch_forward<A, WIDTH, es_power_softmax, true>(device,
                                                                      call)
                   : launch_forward<A, WIDTH, es_power_softmax, false>(device,
                                                                       call);
    return call->measures
               ? launch_forward<A, WIDTH, es_softmax, true>(device, call)
               : launch_forward<A, WIDTH, es_softmax, false>(device, call);
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
