/** Declarations shared by the kernels of the backward pass of attention on
 *  tensor cores: tiles, copies from two arrays at a time, and the recomputation
 *  of weights. */
#ifndef ES_CUDA_ATTENTION_MMA_GRADIENT_H
#define ES_CUDA_ATTENTION_MMA_GRADIENT_H

#include "hooks/trainer/cuda/attention_mma.h"

/* Sizes of tiles for each head width; the README lists their cost. */
template <int WIDTH>
struct backward_shape {
    enum {
        M = WIDTH <= 64 ? 2 : 1,
        N = WIDTH <= 64 ? 32 : 64, /* keys that a warp processes at a time in
                                      the kernel for dq */
        KEY_N = WIDTH == 64 ? 16 : 32, /* queries that a warp processes at a
                                          time in the kernel for dk and dv */
        /* queries that a warp processes at a time in the kernel for dk and dv,
         * after the tiles with the diagonal */
        KEY_END = WIDTH < 64 ? 32 : 16,
        OWN = 16 * M * ES_MMA_WARPS,
        OWN_SIZE = OWN * WIDTH,
        OTHER_SIZE = ES_MMA_OTHERS * WIDTH,
        STAGE = 2 * OTHER_SIZE,
        /* The block's own rows of two arrays, and two buffers for "other" rows,
         * which attention_tiles.h defines. */
        SIZE = 2 * OWN_SIZE + 2 * STAGE
    };
};

/* Returns true if element i of this lane's sums belongs to a query and a key
 * such that the query sees the key. The sums cover 16 of the block's own rows,
 * from row 16 * m on, and 8 other rows, from row 8 * n on
 * (attention_tiles.h). */
template <es_tile_owner OWNER, bool DIAGONAL>
ES_DEVICE bool sees(int m, int n, int i)
{
    return es_mma_sees<OWNER, DIAGONAL>(16 * m + i / 2 * 8, 8 * n, i);
}

/* Two tiles in shared memory with the same rows: either the block's own rows,
 * or other rows in one of the two buffers. Products with x give scores,
 * products with y give g = dy . v. */
template <class A>
struct tile_pair {
    const A *x, *y;
};

/* Two arrays in device memory from which a thread copies: the thread's
 * addresses at position 0, and the distances between positions. */
template <class A>
struct source_pair {
    const A *x, *y;
    int x_stride, y_stride;
};

/* Returns the two addresses from which this thread copies. The empty assembler
 * statement makes the compiler keep the two pointers in registers, instead of
 * the values from which it could recompute them. */
template <class A, int WIDTH>
ES_DEVICE source_pair<A> source_of(const A *x, int x_stride, const A *y,
                                   int y_stride)
{
    x = es_mma_source<A, WIDTH>(x, x_stride);
    y = es_mma_source<A, WIDTH>(y, y_stride);
#ifdef __CUDACC__
    asm volatile("" : "+l"(x), "+l"(y));
#endif
    return {x, y, x_stride, y_stride};
}

/* Starts copying N rows of both arrays in `from` to the two tiles at `tiles`,
 * from position `first` on. */
template <class A, int WIDTH, int N>
ES_DEVICE void fetch_pair(const es_attention_call<A> *call, A *tiles,
                          source_pair<A> from, int first)
{
    es_mma_fetch<A, WIDTH, N>(tiles,
                              from.x + (size_t)first * (size_t)from.x_stride,
                              from.x_stride, first, call->n_ctx, call->width);
    es_mma_fetch<A, WIDTH, N>(tiles + N * WIDTH,
                              from.y + (size_t)first * (size_t)from.y_stride,
                              from.y_stride, first, call->n_ctx, call->width);
    es_cp_commit();
}

/* keys_of returns the addresses from which this thread copies the keys and
 * values of a head. queries_of returns the addresses from which it copies the
 * head's queries and dy, the gradient of the outputs. */
template <class A, int WIDTH>
ES_DEVICE source_pair<A> keys_of(const es_attention_call<A> *call, int head)
{
    const int d = call->d_model;
    const A *k = call->qkv + es_attention_qkv_at(call, head) + d;
    return source_of<A, WIDTH>(k, 3 * d, k + d, 3 * d);
}
template <class A, int WIDTH>
ES_DEVICE source_pair<A> queries_of(const es_attention_call<A> *call, int head)
{
    const int d = call->d_model;
    return source_of<A, WIDTH>(call->qkv + es_attention_qkv_at(call, head),
                               3 * d, call->dy + es_attention_y_at(call, head),
                               d);
}

/* Returns the values of a row that KIND::weigh_again needs. D is the divisor of
 * the row's unnormalised weights u. Sets *center to the weighted mean of
 * log2(u). If the weights sum to one, `inverse` is log2(1 / D) instead of 1 /
 * D, and *center is the mean of log2(u / D). */
template <class A, class KIND>
ES_DEVICE es_row_gradient open_gradient(const es_attention_call<A> *call,
                                        int head, int row, float *center)
{
    es_saved_row saved;
    es_row_gradient gradient =
        es_row_gradient_open<A, KIND>(call, head, row, &saved);
    *center = saved.center;
    if (KIND::SUMS_TO_ONE) {
        gradient.inverse = log2f(saved.inverse);
        *center += gradient.inverse;
    }
    return gradient;
}

/* Values of the queries that one of the two buffers in shared memory contains.
 * A thread reads the values of a query with two loads. */
typedef struct query_rows {
    float4 weight[ES_MMA_OTHERS]; /* the members anchor, inverse, mean and
                                   * weight of es_row_gradient */
    float2 scale[ES_MMA_OTHERS];  /* scale2, factor */
} query_rows;

/* Loads the values of the queries from query `first` on into one of the two
 * buffers. Writes zeros beyond the last query. */
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

/* Starts copying queries and dy, from query `query` on, and loads the values of
 * these queries. */
template <class A, int WIDTH, class KIND>
ES_DEVICE void fetch_queries_of(const es_attention_call<A> *call, A *stage,
                                query_rows *rows, source_pair<A> from, int head,
                                int query)
{
    fetch_pair<A, WIDTH, ES_MMA_OTHERS>(call, stage, from, query);
    load_query_rows<A, KIND>(call, rows, head, query);
}

#endif
