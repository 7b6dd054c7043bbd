/** Attention in float32, forward: attention_fma.h says how. */
#include "hooks/trainer/cuda/attention_fma.h"

/* Raw scores of a row become u, masked ones 0; returns what the row's outputs
 * so far are to be multiplied with. */
template <class T, class KIND, class A>
static ES_DEVICE float weigh_row(const es_attention_call<A> *call,
                                 float s[T::R], es_row *row, int query,
                                 int first_key, float scale2)
{
    const float away = (float)(query - first_key);
    float m = -INFINITY, largest = -INFINITY, anchor, factor;
#pragma unroll
    for (int c = 0; c < T::R; c++)
        if (first_key + ES_FMA_SIDE * c <= query) {
            m = fmaxf(m, KIND::BY_SIZE ? fabsf(s[c]) : s[c]);
            largest = fmaxf(largest, s[c]);
        }
    factor = es_row_grow<KIND, true, false>(row, es_fma_row_largest(m), scale2,
                                            call->power);
    row->largest = fmaxf(row->largest, largest);
    anchor = KIND::anchor_of(row->m);
#pragma unroll
    for (int c = 0; c < T::R; c++) {
        es_weight w =
            KIND::template weigh<false>(s[c], anchor, scale2, call->power);
        bool visible = first_key + ES_FMA_SIDE * c <= query;
        s[c] = visible ? w.u : 0;
        row->sum += s[c];
        row->distance =
            fmaf(s[c], away - (float)(ES_FMA_SIDE * c), row->distance);
        if (visible)
            row->moment = fmaf(w.u, w.log, row->moment);
    }
    return factor;
}

template <class T, class KIND, class A>
static __device__ void end_rows(const es_attention_call<A> *call,
                                float factor[T::R], es_row row[T::R],
                                const float scale[T::R], es_fma_owned own)
{
    for (int r = 0; r < T::R; r++) {
        const int query = own.first + own.ty + ES_FMA_SIDE * r;
        const size_t at =
            (size_t)own.head * (size_t)call->n_ctx + (size_t)query;
        es_row_end end;
        row[r].sum = es_fma_row_sum(row[r].sum);
        row[r].moment = es_fma_row_sum(row[r].moment);
        row[r].distance = es_fma_row_sum(row[r].distance);
        row[r].largest = es_fma_row_largest(row[r].largest);
        end = es_row_close<KIND>(
            &row[r], scale[r], es_attention_epsilon(call, query), call->power);
        factor[r] = end.saved.inverse;
        if (own.tx != 0 || query >= call->n_ctx)
            continue;
        ((es_saved_row *)(void *)call->saved)[at] = end.saved;
        if (call->measures)
            es_row_measure<A, KIND>(
                call, at, &row[r], &end,
                call->rows[ES_ROW_SINK] ? call->rows[ES_ROW_SINK][at] : 0);
    }
}

/* Rows beyond the last query attend like the last and are not written. */
template <class T, class A>
static ES_DEVICE void row_scales(const es_attention_call<A> *call,
                                 float scale[T::R], es_fma_owned own)
{
    for (int r = 0; r < T::R; r++)
        scale[r] = es_attention_scale(
            call, own.head,
            min(own.first + own.ty + ES_FMA_SIDE * r, call->n_ctx - 1));
}

template <class A, int WIDTH, class KIND>
__global__ void __launch_bounds__(ES_FMA_THREADS, 1)
    attention_kernel(es_attention_call<A> call)
{
    typedef es_fma<A, WIDTH> tile;
    ES_SHARED(float, q);
    float *other = q + tile::FLOATS, *p = other + tile::FLOATS;
    const es_fma_owned own = tile::find(&call, ES_OWN_QUERIES);
    const es_tile_range keys =
        es_tile_others(own.first, tile::N, tile::N, call.n_ctx, ES_OWN_QUERIES);
    const A *from = call.qkv + es_attention_qkv_at(&call, own.head);
    const int stride = 3 * call.d_model, d = call.d_model;
    float out[tile::R][tile::C], s[tile::R][tile::R], scale[tile::R];
    es_row row[tile::R];
    tile::clear(out);
    row_scales<tile>(&call, scale, own);
    for (int r = 0; r < tile::R; r++)
        es_row_open<KIND>(&row[r]);
    tile::load(q, from, stride, own.first, call.n_ctx, call.width);
    for (int key = keys.begin; key < keys.end; key += tile::N) {
        tile::load(other, from + d, stride, key, call.n_ctx, call.width);
        __syncthreads();
        tile::multiply(s, q, other, own);
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            float factor;
            if (call.measures && key == 0 && own.tx == 0)
                es_row_keep_first(&call, own.head,
                                  own.first + own.ty + ES_FMA_SIDE * r,
                                  s[r][0]);
            factor = weigh_row<tile, KIND>(&call, s[r], &row[r],
                                           own.first + own.ty + ES_FMA_SIDE * r,
                                           key + own.tx, scale[r] * ES_LOG2_E);
#pragma unroll
            for (int c = 0; c < tile::C; c++)
                out[r][c] *= factor;
        }
        tile::keep(p, s, own);
        __syncthreads();
        tile::load(other, from + 2 * d, stride, key, call.n_ctx, call.width);
        __syncthreads();
        tile::gather(out, p, other, own, key, ES_OWN_QUERIES);
        __syncthreads();
    }
    end_rows<tile, KIND>(&call, scale, row, scale, own);
    tile::write(call.y + es_attention_y_at(&call, own.head), out, scale, d, own,
                call.n_ctx, call.width);
}

/* --- launches ------------------------------------------------------------- */

template <class A, int WIDTH, class KIND>
static void forward(es_device *device, const es_attention_call<A> *call)
{
    es_launch(device, "attention", attention_kernel<A, WIDTH, KIND>,
              es_fma<A, WIDTH>::grid(call), ES_FMA_THREADS,
              es_fma<A, WIDTH>::shared(2), *call);
}

template <class A, class KIND>
static void forward_of_width(es_device *device,
                             const es_attention_call<A> *call)
{
    if (call->width <= 32)
        forward<A, 32, KIND>(device, call);
    else if (call->width <= 64)
        forward<A, 64, KIND>(device, call);
    else if (call->width <= 128)
        forward<A, 128, KIND>(device, call);
    else
        forward<A, 256, KIND>(device, call);
}

template <class A>
void es_cuda_attention_fma(es_device *device, const es_attention_call<A> *call)
{
    if (call->kind == ES_POWER_SOFTMAX)
        forward_of_width<A, es_power_softmax>(device, call);
    else
        forward_of_width<A, es_softmax>(device, call);
}

#define INSTANTIATE(A)                                                         \
    template void es_cuda_attention_fma<A>(es_device *,                        \
                                           const es_attention_call<A> *);
INSTANTIATE(float)
INSTANTIATE(es_bf16)
INSTANTIATE(es_fp16)
