/**
 * Declarations shared by the attention kernels: the arguments of a call,
 * operations on a row, and the values of a row that the forward pass saves.
 *
 * "raw" is the product q . k before any scaling. The weights of a row are a = u
 * / D, D = rest + sum u, with
 *
 *     softmax        u = exp(z - max z)  z = raw / (t sqrt(d_k))   rest = 0
 *     PowerSoftmax   u = (z / m)^p       m = max |z|   rest = eps (c / m)^p
 *
 * where c = m + 1e-6 is the specification's divisor; z / m is raw / max |raw|.
 * The entropy e refers to the weights b = u / S, S = sum u, which sum to one.
 * With l = log2 u, the entropy is e = ln 2 (log2 S - sum b l). In the backward
 * pass, with u' = du/d(raw), w = dL/de, g = dy . v and <x> = sum a x:
 *
 *     dL/d(raw) = u' / D [g - <g> - w D / S ln 2 (l - center)]
 *     center    = sum b l
 *
 * Logarithms are to base 2, because the device has an instruction for base 2.
 *
 * A row is processed tile by tile, and its sums are relative to the largest
 * score so far. If a tile contains a larger score, every u is multiplied by
 * 2^shift, so that
 *
 *     sum u   becomes  2^shift sum u
 *     sum u l becomes  2^shift (sum u l + shift sum u)
 *
 * The entropy therefore costs only one additional multiplication and addition
 * per element.
 */
#ifndef ES_CUDA_ATTENTION_H
#define ES_CUDA_ATTENTION_H

#include "hooks/trainer/cuda/attention_kinds.h"
#include "hooks/trainer/cuda/attention_tiles.h"
#include "hooks/trainer/cuda/reduce.h"

#define ES_LN_2 0.693147180559945f

/** Arguments of an attention operation, as they are passed to a kernel. The
 *  shapes of the arrays are those in ops.h. */
template <class A>
struct es_attention_call {
    int n_batch, n_ctx, n_head, d_model, width;
    es_attention_kind kind;
    int power; /* exponent of PowerSoftmax */
    float epsilon;
    es_row_length length; /* row length by which epsilon is multiplied, if
                             any */
    float scale;          /* 1 / sqrt(width) */
    const float *log_t;   /* logarithms of the temperatures, of shape (H,T), or
                             NULL */
    const A *qkv;
    A *y;
    float *saved;
    /* Forward pass. */
    bool measures;
    float *rows[ES_N_ROW_STATISTICS]; /* row statistics, each of shape (B,H,T);
                                         NULL if not requested */
    /* Backward pass. */
    const A *dy;
    const float *dentropy;
    A *dqkv;
    float *dlog_t;
    float *means; /* scratch of shape (B,H,T): <g> of each row, the weighted
                     mean of g (see the top of this file) */
    float *dots;  /* scratch of shape (B,H,T): sum of z * dL/dz over a row's
                   * scores z, or NULL */
    /* The fields below are for kernels on tensor cores; see
     * es_attention_flag. */
    unsigned *flags; /* flags of groups of 16 rows, of shape (B,H,ceil(T/16));
                        not used without tensor cores */
    bool again;      /* true if only flagged rows are to be processed */
};

/**
 * Number of rows that share a flag. Tensor cores multiply the zero weights of
 * masked positions by the masked values, and 0 times NaN is NaN. A non-finite
 * result of a row may therefore be wrong. The tensor-core kernels set the flag
 * of the row's group, and the exact kernels, which are launched afterwards,
 * recompute the rows of flagged groups.
 */
#define ES_FLAG_ROWS 16

/** Returns the address of the flag that row `row` shares with the other rows of
 *  its group (ES_FLAG_ROWS rows). If the flag is set, the rows of the group
 *  must be recomputed. */
template <class A>
ES_DEVICE unsigned *es_attention_flag(const es_attention_call<A> *call,
                                      int head, int row)
{
    return call->flags + head * es_tile_count(call->n_ctx, ES_FLAG_ROWS) +
           row / ES_FLAG_ROWS;
}

/** Values of a row that the forward pass saves for the backward pass. */
typedef struct __align__(16) es_saved_row
{
    float m;       /* largest raw score; for PowerSoftmax the largest |raw
                    * score| */
    float inverse; /* 1 / D */
    float center;
    float factor; /* factor of dL/d(raw) (see the top of this file): scale / t,
                     or D / S for PowerSoftmax */
}
es_saved_row;

/** Returns the offset in qkv at which q of a head's first position begins; head
 *  = b * H + h. k begins d_model elements later, v 2 * d_model elements later,
 *  and the next position 3 * d_model elements later. */
template <class A>
ES_DEVICE size_t es_attention_qkv_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * 3 * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** Returns the offset in y and dy of the first position of head `head`, which
 *  is b * H + h. The next position follows d_model elements later. */
template <class A>
ES_DEVICE size_t es_attention_y_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** Returns the factor by which the products q . k of query `row` must be
 *  multiplied to give its scores. */
template <class A>
ES_DEVICE float es_attention_scale(const es_attention_call<A> *call, int head,
                                   int row)
{
    if (!call->log_t)
        return call->scale;
    return call->scale /
           es_fast_exp2(ES_LOG2_E *
                        call->log_t[head % call->n_head * call->n_ctx + row]);
}

/** Returns the epsilon of query `row`. If call->length requests it, epsilon is
 *  multiplied by the context length or by the number of keys that the query
 *  sees. */
template <class A>
ES_DEVICE float es_attention_epsilon(const es_attention_call<A> *call, int row)
{
    if (call->length == ES_LENGTH_NONE)
        return call->epsilon;
    return call->epsilon *
           (float)(call->length == ES_LENGTH_CONTEXT ? call->n_ctx : row + 1);
}

/* --- a row forward -------------------------------------------------------- */

template <class KIND>
ES_DEVICE void es_row_open(es_row *row)
{
    row->m = KIND::least();
    row->largest = -INFINITY;
#pragma unroll
    for (int s = 0; s < ES_N_ROW_SUMS; s++)
        row->sums[s] = 0;
}

/** If m, the largest score of a tile, exceeds the row's largest score so far, m
 *  becomes the row's largest score, and the row's sums are rescaled. Returns
 *  the factor by which the caller must multiply the outputs that the row has
 *  accumulated so far. */
template <class KIND, bool MEASURE, bool FAST>
ES_DEVICE float es_row_grow(es_row *row, float m, float scale2, int power)
{
    const float larger = fmaxf(row->m, m);
    float shift = 0;
    const float factor = KIND::template rescale<MEASURE, FAST>(
        &shift, row->m, larger, scale2, power);
    es_row_scale<MEASURE>(row, shift, factor);
    row->m = larger;
    return factor;
}

/** Results of a row, computed when its sums are complete. */
typedef struct es_row_end {
    es_saved_row saved;
    float rest, scale;
} es_row_end;

/** Computes the results of a row whose sums are complete. */
template <class KIND>
ES_DEVICE es_row_end es_row_close(const es_row *row, float scale, float epsilon,
                                  int power)
{
    es_row_end end;
    const float sum = row->sums[ES_SUM_WEIGHT];
    const float moment = row->sums[ES_SUM_MOMENT];
    float divisor;
    end.rest = KIND::rest(row->m, scale, epsilon, power);
    divisor = sum + end.rest;
    end.scale = scale;
    end.saved.m = row->m;
    end.saved.inverse = 1 / divisor;
    end.saved.center = moment * end.saved.inverse;
    end.saved.factor = KIND::factor(row->m, scale, power);
    if (!KIND::SUMS_TO_ONE) {
        const bool is_empty = sum == 0; /* true if all weights are 0 */
        end.saved.center = is_empty ? sum * end.saved.inverse : moment / sum;
        end.saved.factor = is_empty ? 0 : divisor / sum;
    }
    return end;
}

/* --- a row backward ------------------------------------------------------- */

/** Values of a query's row that are needed to compute the gradients of its
 *  scores. */
typedef struct es_row_gradient {
    float anchor, scale2; /* arguments of KIND::weigh, which computes a weight
                             from a score */
    float inverse;        /* 1 / D */
    float weight;         /* w * ln 2, where w is dL/de, the gradient of the
                           * entropy */
    float mean;           /* subtracted from g - w l */
    float factor;         /* factor of dL/d(raw) */
} es_row_gradient;

/** Returns the values of a row that the gradients need, except `mean`. Copies
 *  the values saved by the forward pass to *saved. */
template <class A, class KIND>
ES_DEVICE es_row_gradient es_row_gradient_open(const es_attention_call<A> *call,
                                               int head, int row,
                                               es_saved_row *saved)
{
    es_row_gradient gradient;
    size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    *saved = ((const es_saved_row *)(const void *)call->saved)[at];
    gradient.anchor = KIND::anchor_of(saved->m);
    gradient.scale2 = KIND::scale2_of(saved->factor);
    gradient.inverse = saved->inverse;
    gradient.weight = call->dentropy ? call->dentropy[at] * ES_LN_2 : 0;
    gradient.mean = 0;
    gradient.factor = saved->factor;
    if (!KIND::SUMS_TO_ONE) {
        gradient.weight *= saved->factor;
        gradient.factor = KIND::factor(saved->m, 0, call->power);
    }
    return gradient;
}

/* --- the kernels ---------------------------------------------------------- */

/** Launch the exact kernels, which support any type of activation and heads up
 *  to 256 wide. Defined in attention_exact.cu. */
template <class A>
void es_cuda_attention_exact(es_device *device,
                             const es_attention_call<A> *call);
template <class A>
void es_cuda_attention_exact_backward(es_device *device,
                                      const es_attention_call<A> *call);

/** Launch the kernels on tensor cores. Return false and launch nothing if these
 *  kernels cannot process the call. Defined in attention_mma.cu and
 *  attention_mma_backward.cu. */
template <class A>
bool es_cuda_attention_mma(es_device *device, const es_attention_call<A> *call);
template <class A>
bool es_cuda_attention_mma_backward(es_device *device,
                                    const es_attention_call<A> *call);

#endif
