/** Shared by the kernels of the backward pass of attention on tensor cores:
 *  tiles, copies from two arrays, and the recomputed weights. */
#ifndef ES_CUDA_ATTENTION_MMA_GRADIENT_H
#define ES_CUDA_ATTENTION_MMA_GRADIENT_H

#include "hooks/trainer/cuda/attention_mma.h"

/* Shapes by the width of heads; the README lists their cost. */
template <int WIDTH>
struct backward_shape {
    enum {
        M = WIDTH <= 64 ? 2 : 1,
        N = WIDTH <= 64 ? 32 : 64,      /* keys in a step, for dq */
        KEY_N = WIDTH == 64 ? 16 : 32,  /* queries in a step, for dk and dv */
        KEY_END = WIDTH < 64 ? 32 : 16, /* likewise after a diagonal */
        OWN = 16 * M * ES_MMA_WARPS,
        OWN_SIZE = OWN * WIDTH,
        OTHER_SIZE = ES_MMA_OTHERS * WIDTH,
        STAGE = 2 * OTHER_SIZE,
        SIZE = 2 * OWN_SIZE + 2 * STAGE /* own rows and two stages */
    };
};

/* Returns true if this lane's row, of 16 rows from 16 m on, sees element i of 8
 * others from 8 n on. */
template <es_tile_owner OWNER, bool DIAGONAL>
ES_DEVICE bool sees(int m, int n, int i)
{
    return es_mma_sees<OWNER, DIAGONAL>(16 * m + i / 2 * 8, 8 * n, i);
}

/* Two arrays of tiles: the block's rows or a stage of others. x is used for
 * scores, y for g. */
template <class A>
struct tile_pair {
    const A *x, *y;
};

/* The two source arrays of a thread: its address for position 0, and the
 * distance between two positions. */
template <class A>
struct source_pair {
    const A *x, *y;
    int x_stride, y_stride;
};

/* Only the two pointers are kept. */
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

/* Starts the copy of N rows of both arrays from position `first` on. */
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

/* Return the sources of keys and values, and of queries and dy, of a head. */
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

/* Opens a row's gradient for KIND::weigh_again, which needs log2 (1 / D) and an
 * adapted centre for complete weights. */
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

/* Row values of a stage's queries, in shared memory: two reads for a column. */
typedef struct query_rows {
    float4 weight[ES_MMA_OTHERS]; /* anchor, inverse, mean and weight of
                                     es_row_gradient */
    float2 scale[ES_MMA_OTHERS];  /* scale2, factor */
} query_rows;

/* Beyond the last query all values are 0. */
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

/* Starts the copy of queries and dy from `query` on, and loads their row
 * values. */
template <class A, int WIDTH, class KIND>
ES_DEVICE void fetch_queries_of(const es_attention_call<A> *call, A *stage,
                                query_rows *rows, source_pair<A> from, int head,
                                int query)
{
    fetch_pair<A, WIDTH, ES_MMA_OTHERS>(call, stage, from, query);
    load_query_rows<A, KIND>(call, rows, head, query);
}

#endif
