/**
 * Computes attention in float32 with one warp per row, for any type of
 * activation and heads up to 256 wide. With fp32 and tf32, these kernels
 * compute all attention; in 16 bits, only heads that tensor cores cannot
 * process and rows that the tensor-core kernels have flagged (attention.h).
 *
 * A block owns 8 rows of a head, one per warp. The other rows (the keys of a
 * query, or the queries of a key) are loaded into shared memory 32 at a time,
 * and each lane multiplies one of these rows by the warp's row. To compute a
 * sum over the other rows, each lane adds up the columns lane + 32 * k. Masked
 * rows are never read. Products are summed in the order of columns, so that dy
 * . y equals dy . v to the last bit if a row has a single weight of 1 and y is
 * therefore v.
 */
#include "hooks/trainer/cuda/attention_statistics.h"

enum {
    WARPS = 8,
    THREADS = 32 * WARPS,
    OTHERS = 32,
    MOST_COLUMNS = 256 / 32, /* maximum number of columns of a row that a lane
                              * computes */
    BLOCK_FLAGS = 8          /* number of flags that a thread block reads; see
                              * ES_FLAG_ROWS */
};
static_assert(ES_FLAG_ROWS % WARPS == 0,
              "all rows of a thread block must share one flag");

/* --- tiles ---------------------------------------------------------------- */

/* The tiles in shared memory. Dot products of rows of x and other_x give
 * scores, and dot products of rows of y and other_y give g = dy . v. */
typedef struct tiles {
    float *x, *y;             /* the rows that the block owns */
    float *other_x, *other_y; /* 32 of the other rows; see the top of this
                               * file */
    float *weights, *more;    /* two arrays of the weights between this warp's
                                 row and the other rows */
    int stride;               /* distance between two rows in floats */
} tiles;

/* Returns the distance between two rows of a tile in floats. If the width is a
 * multiple of 32, this distance lets 8 lanes read four floats each from 8
 * different rows without bank conflicts. */
ES_BOTH int stride_of(int width)
{
    return (width + 3) / 4 * 4 + 4;
}

static size_t shared_bytes(int width)
{
    const int n_rows = 2 * WARPS + 2 * OTHERS;
    return (size_t)(n_rows * stride_of(width) + 2 * THREADS) * sizeof(float);
}

static ES_DEVICE tiles tiles_of(float *memory, int width)
{
    const int stride = stride_of(width);
    const int warp = (int)threadIdx.x / 32;
    tiles t;
    t.stride = stride;
    t.x = memory;
    t.y = t.x + WARPS * stride;
    t.other_x = t.y + WARPS * stride;
    t.other_y = t.other_x + OTHERS * stride;
    t.weights = t.other_y + OTHERS * stride + 32 * warp;
    t.more = t.weights + THREADS;
    return t;
}

/* The rows of q, k, v, y or dy of one head, as a matrix (T,width). */
template <class A>
struct head_rows {
    const A *first;
    int stride;
};

/* Returns the rows of q (`part` = 0), k (1) or v (2). */
template <class A>
static ES_DEVICE head_rows<A> part_of(const es_attention_call<A> *call,
                                      int head, int part)
{
    const A *first = call->qkv + es_attention_qkv_at(call, head);
    return {first + part * call->d_model, 3 * call->d_model};
}

template <class A>
static ES_DEVICE head_rows<A> output_of(const es_attention_call<A> *call,
                                        const A *array, int head)
{
    return {array + es_attention_y_at(call, head), call->d_model};
}

/* Loads rows first .. first + n - 1 into shared memory. Writes zeros beyond row
 * n_ctx - 1 and beyond the head's width. */
template <class A>
static ES_DEVICE void load_rows(float *out, int stride, head_rows<A> from,
                                int first, int n,
                                const es_attention_call<A> *call)
{
    const int lane = (int)threadIdx.x % 32;
    for (int i = (int)threadIdx.x / 32; i < n; i += WARPS) {
        const A *row = from.first + (size_t)(first + i) * (size_t)from.stride;
        for (int c = lane; c < stride - 4; c += 32)
            out[i * stride + c] = first + i < call->n_ctx && c < call->width
                                      ? es_float(row[c])
                                      : 0;
    }
}

/* Loads 32 rows of x and of y into the tiles other_x and other_y, with a
 * barrier before and after. */
template <class A>
static ES_DEVICE void load_others(const tiles *t, head_rows<A> x,
                                  head_rows<A> y, int first,
                                  const es_attention_call<A> *call)
{
    __syncthreads();
    load_rows(t->other_x, t->stride, x, first, OTHERS, call);
    load_rows(t->other_y, t->stride, y, first, OTHERS, call);
    __syncthreads();
}

static ES_DEVICE float dot(const float *x, const float *y, int stride)
{
    float sum = 0;
#pragma unroll 4
    for (int c = 0; c < stride - 4; c += 4) {
        const float4 a = *(const float4 *)(const void *)(x + c);
        const float4 b = *(const float4 *)(const void *)(y + c);
        sum = fmaf(a.x, b.x, sum);
        sum = fmaf(a.y, b.y, sum);
        sum = fmaf(a.z, b.z, sum);
        sum = fmaf(a.w, b.w, sum);
    }
    return sum;
}

/* Return the dot product of two rows in shared memory: the row that this warp
 * owns, and the other row that belongs to this lane. */
static ES_DEVICE float dot_x(const tiles *t)
{
    return dot(t->x + (int)threadIdx.x / 32 * t->stride,
               t->other_x + (int)threadIdx.x % 32 * t->stride, t->stride);
}
static ES_DEVICE float dot_y(const tiles *t)
{
    return dot(t->y + (int)threadIdx.x / 32 * t->stride,
               t->other_y + (int)threadIdx.x % 32 * t->stride, t->stride);
}

/* Adds the sum of weights[j] * y[j] for begin <= j < end to `out`. Works
 * column by column, so that a narrow head takes no time for columns beyond
 * its width. */
static ES_DEVICE void gather_columns(float out[MOST_COLUMNS],
                                     const float *weights, const float *y,
                                     int stride, int begin, int end)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < MOST_COLUMNS; k++) {
        if (lane + 32 * k >= stride - 4)
            break;
        const float *column = y + lane + 32 * k;
#pragma unroll 8
        for (int j = begin; j < end; j++)
            out[k] = fmaf(weights[j], column[j * stride], out[k]);
    }
}

/* Writes a warp's result for row `row`, multiplied by `factor`, to the array
 * `to`. */
template <class A>
static ES_DEVICE void write_row(const es_attention_call<A> *call, A *to,
                                int stride, int row,
                                const float out[MOST_COLUMNS], float factor)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < MOST_COLUMNS; k++)
        if (row < call->n_ctx && lane + 32 * k < call->width)
            to[(size_t)row * (size_t)stride + (size_t)(lane + 32 * k)] =
                es_act_of<A>(out[k] * factor);
}

/* --- forward -------------------------------------------------------------- */

/* Replaces this lane's raw score *s by its weight u, or by 0 if masked, and
 * updates the sums of the row. Returns the factor by which the caller must
 * multiply the row's outputs so far. */
template <class KIND>
static ES_DEVICE float weigh_key(float *s, es_row *row, int away, float scale2,
                                 int power)
{
    const bool visible = away >= 0;
    const float size = KIND::BY_SIZE ? fabsf(*s) : *s;
    const float factor = es_row_grow<KIND, true, false>(
        row, es_warp_max(visible ? size : -INFINITY), scale2, power);
    const es_weight w =
        KIND::template weigh<false>(*s, KIND::anchor_of(row->m), scale2, power);
    *s = visible ? w.u : 0;
    if (visible) {
        row->sums[ES_SUM_WEIGHT] += w.u;
        row->sums[ES_SUM_MOMENT] = fmaf(w.u, w.log, row->sums[ES_SUM_MOMENT]);
        es_row_add_means(row, w.u, away);
    }
    return factor;
}

/* Saves the values of row `row` for the backward pass, and writes its
 * statistics. `sums` is already added up over the lanes; `first` is the raw
 * score of key 0. Returns 1 / D, where D is the denominator of the row's
 * weights. */
template <class A, class KIND>
static ES_DEVICE float end_row(const es_attention_call<A> *call, int head,
                               int row, const es_row *sums, float scale,
                               float first)
{
    const int lane = (int)threadIdx.x % 32;
    const size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    const es_row_end end = es_row_close<KIND>(
        sums, scale, es_attention_epsilon(call, row), call->power);
    if (row >= call->n_ctx)
        return 0;
    if (lane == 0) {
        ((es_saved_row *)(void *)call->saved)[at] = end.saved;
        if (call->measures)
            es_row_measure<A, KIND>(call, at, sums, &end, first);
    }
    if (call->measures && es_mend_wanted(&end.saved))
        es_mend_row(call, at, lane);
    return end.saved.inverse;
}

template <class KIND>
struct attend {
    template <class A>
    static ES_DEVICE void process_rows(const es_attention_call<A> *call,
                                       tiles t, int head, int first)
    {
        const int row = first + (int)threadIdx.x / 32;
        const int lane = (int)threadIdx.x % 32;
        const float scale =
            es_attention_scale(call, head, min(row, call->n_ctx - 1));
        float out[MOST_COLUMNS] = {0}, score_0 = 0, inverse;
        es_row sums;
        es_row_open<KIND>(&sums);
        load_rows(t.x, t.stride, part_of(call, head, 0), first, WARPS, call);
        for (int key = 0; key < min(first + WARPS, call->n_ctx);
             key += OTHERS) {
            load_others(&t, part_of(call, head, 1), part_of(call, head, 2), key,
                        call);
            float s = dot_x(&t);
            if (key == 0)
                score_0 = s; /* only lane 0 holds the score of key 0 */
            const float factor = weigh_key<KIND>(
                &s, &sums, row - key - lane, scale * ES_LOG2_E, call->power);
            t.weights[lane] = s;
            __syncwarp();
#pragma unroll
            for (int k = 0; k < MOST_COLUMNS; k++)
                out[k] *= factor;
            gather_columns(out, t.weights, t.other_y, t.stride, 0,
                           min(OTHERS, row + 1 - key));
        }
#pragma unroll
        for (int s = 0; s < ES_N_ROW_SUMS; s++)
            sums.sums[s] = es_warp_sum(sums.sums[s]);
        inverse = end_row<A, KIND>(call, head, row, &sums, scale, score_0);
        write_row(call, call->y + es_attention_y_at(call, head), call->d_model,
                  row, out, inverse);
    }
};

/* --- dq ------------------------------------------------------------------- */

/* Processes all keys of a row of the backward pass. attention.h defines g, w
 * and l; dz is the gradient of a score. Adds each key, multiplied by dz
 * (without the row's factor), to `out`, and returns the sum of dz * l over the
 * row. With MEAN, adds nothing to `out` and returns the mean of g - w * l. */
template <class A, class KIND, bool MEAN>
static ES_DEVICE float
go_through_keys(const es_attention_call<A> *call, const tiles *t, int head,
                int first, const es_row_gradient *row, float out[MOST_COLUMNS])
{
    const int query = first + (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float sum = 0;
    for (int key = 0; key < min(first + WARPS, call->n_ctx); key += OTHERS) {
        load_others(t, part_of(call, head, 1), part_of(call, head, 2), key,
                    call);
        const es_weight w = KIND::template weigh<false>(
            dot_x(t), row->anchor, row->scale2, call->power);
        const float reduced = dot_y(t) - row->weight * w.log;
        const bool visible = key + lane <= query;
        if (MEAN) {
            if (visible)
                sum = fmaf(w.u * row->inverse, reduced, sum);
            continue;
        }
        const float ds = w.slope * row->inverse * (reduced - row->mean);
        if (visible)
            sum = fmaf(ds, w.log, sum);
        t->weights[lane] = ds;
        __syncwarp();
        gather_columns(out, t->weights, t->other_x, t->stride, 0,
                       min(OTHERS, query + 1 - key));
    }
    return es_warp_sum(sum);
}

/* Returns <g>, the weighted mean that is subtracted from g = dy . v in the
 * backward pass (attention.h), for this warp's row. Usually computes <g> as dy
 * . y. With temperatures, computes it from the weights instead: with a small
 * temperature, a row is nearly a single weight of 1, so g - <g> is small, and
 * its rounding error would be multiplied by 1 / t. */
template <class A, class KIND>
static ES_DEVICE float mean_of_row(const es_attention_call<A> *call,
                                   const tiles *t, int head, int first,
                                   const es_row_gradient *row, float center)
{
    const int at = (int)threadIdx.x / 32 * t->stride;
    if (KIND::SUMS_TO_ONE && call->log_t)
        return go_through_keys<A, KIND, true>(call, t, head, first, row, NULL);
    load_rows(t->other_x, t->stride, output_of<A>(call, call->y, head), first,
              WARPS, call);
    __syncthreads();
    return dot(t->y + at, t->other_x + at, t->stride) - row->weight * center;
}

/* Returns the saved mean of row `at`. If AGAIN is true, the row is computed a
 * second time, and a tensor-core kernel has saved the mean. If weights sum to
 * one, that kernel uses the logarithm of the weight u / D instead of the
 * logarithm of u, so the mean is converted. */
template <class A, class KIND, bool AGAIN>
static ES_DEVICE float mean_at(const es_attention_call<A> *call, size_t at,
                               const es_row_gradient *row)
{
    const float mean = call->means[at];
    return AGAIN && KIND::SUMS_TO_ONE
               ? fmaf(row->weight, log2f(row->inverse), mean)
               : mean;
}

/* Computes dq of this warp's row, which needs the row's mean of g. If AGAIN is
 * true, reads the mean that a tensor-core kernel has saved; otherwise computes
 * and saves the mean. */
template <class A, class KIND, bool AGAIN>
static ES_DEVICE void pull_queries(const es_attention_call<A> *call,
                                   const tiles *t, int head, int first)
{
    const int row = first + (int)threadIdx.x / 32;
    const size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    const bool writes = row < call->n_ctx && threadIdx.x % 32 == 0;
    float out[MOST_COLUMNS] = {0};
    es_saved_row saved;
    es_row_gradient gradient = es_row_gradient_open<A, KIND>(
        call, head, min(row, call->n_ctx - 1), &saved);
    __syncthreads();
    load_rows(t->x, t->stride, part_of(call, head, 0), first, WARPS, call);
    load_rows(t->y, t->stride, output_of(call, call->dy, head), first, WARPS,
              call);
    __syncthreads();
    if (AGAIN)
        gradient.mean =
            row < call->n_ctx ? mean_at<A, KIND, true>(call, at, &gradient) : 0;
    else
        gradient.mean =
            mean_of_row<A, KIND>(call, t, head, first, &gradient, saved.center);
    const float sum =
        go_through_keys<A, KIND, false>(call, t, head, first, &gradient, out);
    if (writes && !AGAIN)
        call->means[at] = gradient.mean;
    if (writes && !AGAIN && call->dots)
        call->dots[at] = sum * ES_LN_2;
    write_row(call, call->dqkv + es_attention_qkv_at(call, head),
              3 * call->d_model, row, out, gradient.factor);
}

/* --- dk and dv ------------------------------------------------------------ */

/* Computes the weights by which query `query` enters dk and dv of this warp's
 * key. */
template <class A, class KIND, bool AGAIN>
static ES_DEVICE void weigh_query(const es_attention_call<A> *call,
                                  const tiles *t, int head, int query)
{
    const int lane = (int)threadIdx.x % 32;
    const int inside = min(query, call->n_ctx - 1);
    es_saved_row saved;
    const es_row_gradient row =
        es_row_gradient_open<A, KIND>(call, head, inside, &saved);
    const float mean = mean_at<A, KIND, AGAIN>(
        call, (size_t)head * (size_t)call->n_ctx + (size_t)inside, &row);
    const es_weight w = KIND::template weigh<false>(dot_x(t), row.anchor,
                                                    row.scale2, call->power);
    t->weights[lane] = w.slope * row.inverse *
                       (dot_y(t) - row.weight * w.log - mean) * row.factor;
    t->more[lane] = w.u * row.inverse;
    __syncwarp();
}

template <class A, class KIND, bool AGAIN>
static ES_DEVICE void pull_keys(const es_attention_call<A> *call,
                                const tiles *t, int head, int first)
{
    const int row = first + (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32, d = call->d_model;
    A *to = call->dqkv + es_attention_qkv_at(call, head);
    float dk[MOST_COLUMNS] = {0}, dv[MOST_COLUMNS] = {0};
    __syncthreads();
    load_rows(t->x, t->stride, part_of(call, head, 1), first, WARPS, call);
    load_rows(t->y, t->stride, part_of(call, head, 2), first, WARPS, call);
    for (int query = first; query < call->n_ctx; query += OTHERS) {
        const int begin = query < row ? row - query : 0;
        const int end = min(OTHERS, call->n_ctx - query);
        load_others(t, part_of(call, head, 0), output_of(call, call->dy, head),
                    query, call);
        weigh_query<A, KIND, AGAIN>(call, t, head, query + lane);
        gather_columns(dk, t->weights, t->other_x, t->stride, begin, end);
        gather_columns(dv, t->more, t->other_y, t->stride, begin, end);
    }
    write_row(call, to + d, 3 * d, row, dk, 1);
    write_row(call, to + 2 * d, 3 * d, row, dv, 1);
}

template <class KIND>
struct pull_q {
    template <class A>
    static ES_DEVICE void process_rows(const es_attention_call<A> *call,
                                       tiles t, int head, int first)
    {
        pull_queries<A, KIND, false>(call, &t, head, first);
    }
};
template <class KIND>
struct pull_kv {
    template <class A>
    static ES_DEVICE void process_rows(const es_attention_call<A> *call,
                                       tiles t, int head, int first)
    {
        pull_keys<A, KIND, false>(call, &t, head, first);
    }
};
template <class KIND>
struct pull_all {
    template <class A>
    static ES_DEVICE void process_rows(const es_attention_call<A> *call,
                                       tiles t, int head, int first)
    {
        pull_queries<A, KIND, true>(call, &t, head, first);
        pull_keys<A, KIND, true>(call, &t, head, first);
    }
};

/* --- kernels -------------------------------------------------------------- */

/* Calls TASK::process_rows for all rows, with WARPS rows per block. */
template <class A, class TASK>
__global__ void __launch_bounds__(THREADS, 2)
    attention_exact_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, memory);
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_ctx, WARPS, ES_OWN_QUERIES);
    TASK::process_rows(&call, tiles_of(memory, call.width), place.head,
                       place.first);
}

/* Calls TASK::process_rows for the flagged rows. If no row is flagged, the
 * kernel ends at once. */
template <class A, class TASK>
__global__ void __launch_bounds__(THREADS, 1)
    attention_again_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, memory);
    const int n = es_tile_count(call.n_ctx, ES_FLAG_ROWS);
    const int n_flags = call.n_batch * call.n_head * n;
    const int from = (int)blockIdx.x * BLOCK_FLAGS;
    const int mine = from + (int)threadIdx.x % 32;
    const unsigned flagged =
        __ballot_sync(ES_ALL_LANES, mine < min(from + BLOCK_FLAGS, n_flags) &&
                                        call.flags[mine] != 0);
    for (int i = 0; i < BLOCK_FLAGS; i++)
        for (int row = 0; flagged >> i & 1 && row < ES_FLAG_ROWS;
             row += WARPS) {
            __syncthreads();
            TASK::process_rows(&call, tiles_of(memory, call.width),
                               (from + i) / n,
                               (from + i) % n * ES_FLAG_ROWS + row);
        }
}

/* --- launches ------------------------------------------------------------- */

template <class TASK, class A>
static void do_all(es_device *device, const char *name,
                   const es_attention_call<A> *call)
{
    const int n_blocks =
        call->n_batch * call->n_head * es_tile_count(call->n_ctx, WARPS);
    es_launch(device, name, attention_exact_kernel<A, TASK>,
              dim3((unsigned)n_blocks), THREADS, shared_bytes(call->width),
              *call);
}

template <class TASK, class A>
static void do_again(es_device *device, const char *name,
                     const es_attention_call<A> *call)
{
    const int n_flags =
        call->n_batch * call->n_head * es_tile_count(call->n_ctx, ES_FLAG_ROWS);
    es_launch(device, name, attention_again_kernel<A, TASK>,
              dim3((unsigned)es_tile_count(n_flags, BLOCK_FLAGS)), THREADS,
              shared_bytes(call->width), *call);
}

template <class A, class KIND>
static void launch_forward(es_device *device, const es_attention_call<A> *call)
{
    if constexpr (sizeof(A) == 2)
        if (call->again)
            return do_again<attend<KIND>>(device, "attention_again", call);
    do_all<attend<KIND>>(device, "attention", call);
}

template <class A>
void es_cuda_attention_exact(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        launch_forward<A, es_power_softmax>(device, call);
    else
        launch_forward<A, es_softmax>(device, call);
}

template <class A, class KIND>
static void launch_backward(es_device *device, const es_attention_call<A> *call)
{
    if constexpr (sizeof(A) == 2)
        if (call->again)
            return do_again<pull_all<KIND>>(device, "attention_pull_again",
                                            call);
    do_all<pull_q<KIND>>(device, "attention_dq", call);
    do_all<pull_kv<KIND>>(device, "attention_dkv", call);
}

template <class A>
void es_cuda_attention_exact_backward(es_device *device,
                                      const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        launch_backward<A, es_power_softmax>(device, call);
    else
        launch_backward<A, es_softmax>(device, call);
}

#define INSTANTIATE(A)                                                         \
    template void es_cuda_attention_exact<A>(es_device *,                      \
                                             const es_attention_call<A> *);    \
    template void es_cuda_attention_exact_backward<A>(                         \
        es_device *, const es_attention_call<A> *);
INSTANTIATE(float)
INSTANTIATE(es_bf16)
INSTANTIATE(es_fp16)
