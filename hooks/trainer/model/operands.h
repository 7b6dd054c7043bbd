/** What operations are given: memory of a back-end, and structs of sizes and
 *  arrays. Letters, shapes and "f32" as in ops.h. */
#ifndef ES_OPERANDS_H
#define ES_OPERANDS_H

#include "analyzer/arch/arch.h"
#include "analyzer/base/status.h"
#include "analyzer/heads/heads.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/dropout.h"
#include "hooks/trainer/model/sums.h"
#include <stdint.h>

typedef struct es_backend es_backend;
typedef struct es_mem es_mem; /* never complete: cannot be read by mistake */

/** The memory `bytes` further on. */
static inline es_mem *es_mem_at(es_mem *memory, size_t bytes)
{
    return (es_mem *)((char *)memory + bytes);
}

/** y = x W + b. */
typedef struct es_linear {
    const es_mem *weight; /* f32 (in,out), or (out,in) if transposed */
    const es_mem *bias;   /* f32 (out) or NULL */
    int n_in, n_out;
    int n_bias_trained; /* leading biases with a gradient */
    bool transposed;
    int y_stride; /* of rows of y, a residual, dy: from row_stride; 0: n_out.
                     linear_act, linear_backward_act: 0 */
} es_linear;

/** The activation of an FFN: section 2 of the specification. */
typedef struct es_act {
    es_activation kind;
    float slope;          /* ES_ACT_LEAKY with a fixed slope */
    const es_mem *learnt; /* f32 (1): instead of slope, or NULL */
    es_mem *peak;         /* linear_act of back-ends that find peaks on the way:
                             as find_peak's, of pre; NULL: not wanted */
} es_act;

/** Which attention, over how much: section 3. */
typedef struct es_attention {
    int n_batch, n_ctx, n_head;
    int d_model; /* of all heads together: n_head d_k */
    es_attention_kind kind;
    int power; /* of PowerSoftmax: even, 2 or more */
    float epsilon;
    bool plain;           /* PowerSoftmax of scores as they are */
    es_row_length length; /* of scaled ReLU, and what PowerSoftmax's epsilon is
                             multiplied with */
    const es_mem *log_t;  /* f32 (H,T), ln of the temperatures, or NULL for 0;
                             softmax only */
    int n_rotated;        /* of `rotate`: dimensions of a head; 0: Pythia's */
    es_rope rope;         /* and how */
} es_attention;

/** Heads of queries that share keys and values: query heads g j .. g j + g - 1
 *  have those of head j, g = n_head / n_kv_head. */
typedef struct es_sharing {
    int n_rows, n_head, n_kv_head, width; /* width: of a head */
    const es_mem *q_weight, *k_weight;    /* f32 (width): RMSNorm of each head's
                                             q and k; NULL: none */
    float epsilon;
} es_sharing;

/** Which keys a query sees: those up to its own, or all of its sequence but
 *  those whose token is `padding`. */
typedef struct es_sight {
    bool all;
    const es_mem *tokens; /* (B,T) int32; NULL: there is no padding */
    int padding;
} es_sight;

/** Row statistics of analyzer/heads, f32 (B,H,T) each. NULL: not wanted, and
 *  nothing is spent on it. One that the kind of attention does not have is
 *  left alone. */
typedef struct es_row_mem {
    es_mem *array[ES_N_ROW_STATISTICS];
} es_row_mem;

/** Entropy regularisation: section 4. */
typedef struct es_penalty {
    int n_batch, n_ctx, n_head, n_layer;
    bool mean; /* --ereg-reduce mean: of heads, not of rows */
    float gamma, lambda;
    const es_mem *theta; /* f32 (H) */
} es_penalty;

/** Columns first .. first + n - 1 of a matrix (in,stride): what WNorm and
 *  SNorm take as one matrix (in,n). n_in and n are at most the extents'
 *  width. */
typedef struct es_columns {
    int n_in, stride, first, n;
} es_columns;

/** AdamW: section 6. */
typedef struct es_adamw {
    float beta1, beta2, eps, decay;
} es_adamw;

/** What is different in every step, in memory of the back-end. */
typedef struct es_control {
    float skips; /* 1: adamw leaves everything alone; or 0. Set by `clip`, which
                    leaves a 1 as it is: what was skipped ends the steps that
                    were called before the host knew */
    float lr;
    float correction1, correction2; /* 1 - beta1^step, 1 - beta2^step */
    float loss_scale; /* the gradients are this many times what they should be;
                         1 unless activations are fp16 */
    float grad_scale; /* what adamw multiplies gradients with: by `clip` */
} es_control;

/**
 * What is measured beside rows where more than `core` is recorded
 * (hooks/trainer/model/details.h). Statistics of rows that are taken from
 * scores (es_row_statistic_is_of_scores) come with it. Memory as everywhere:
 * `heads` is (H) es_head_details, `layer` (1) es_layer_details. The model reads
 * between these calls: not for a back-end that captures sequences.
 */
typedef struct es_detail_ops {
    /** Quantiles over a head's finite rows in all sequences, interpolated
     *  between the two nearest; entropy (B,H,T) f32. */
    void (*row_quantiles)(es_backend *backend, es_mem *heads,
                          const es_mem *entropy, int n_batch, int n_head,
                          int n_ctx);
    /** qkv (N,3d) act. */
    void (*norms)(es_backend *backend, es_mem *heads, const es_mem *qkv,
                  const es_attention *attention);
    /** Of the block's output x (n) act, and of x - beta middle beside beta
     *  middle: middle (n) act, NULL: there is no FFN; beta (1) f32, NULL: 1.
     *  In the same pass what es_ops' activation_stats adds to sums. */
    void (*activations)(es_backend *backend, es_mem *layer, es_mem *sums,
                        const es_mem *x, const es_mem *middle,
                        const es_mem *beta, size_t n);
    /** dattn (d,3d), dproj (d,d) f32. */
    void (*gradients)(es_backend *backend, es_mem *heads, const es_mem *dattn,
                      const es_mem *dproj, int width, int n_head);
    /** attn (d,3d) f32; NaN of a head where it is not finite, or where there
     *  is no memory for 2 d_k^2 numbers. */
    void (*spectra)(es_backend *backend, es_mem *heads, const es_mem *attn,
                    int width, int n_head);
    /** Of the last call of adamw with these arguments: its own change, before
     *  it is rounded into param. */
    void (*update)(es_backend *backend, es_mem *layer, const es_mem *param,
                   const es_mem *moment1, const es_mem *moment2, size_t n,
                   const es_adamw *how, const es_mem *control);
} es_detail_ops;

#endif
