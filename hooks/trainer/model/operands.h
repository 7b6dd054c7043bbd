/** Operands of a back-end's operations: memory of the back-end, and structs
 *  that combine sizes and arrays. The letters, shapes and "f32" are those of
 *  ops.h. */
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
typedef struct es_mem es_mem; /* incomplete type, so that the host cannot read
                                 it by mistake */

/** Returns the address `bytes` after `memory`. */
static inline es_mem *es_mem_at(es_mem *memory, size_t bytes)
{
    return (es_mem *)((char *)memory + bytes);
}

/** y = x W + b. */
typedef struct es_linear {
    const es_mem *weight; /* f32 (in,out), or (out,in) if transposed */
    const es_mem *bias;   /* f32 (out), or NULL: no bias */
    int n_in, n_out;
    int n_bias_trained; /* number of leading biases that are trained */
    bool transposed;
    int y_stride; /* distance between rows of y, a residual and dy, from
                     row_stride; 0: n_out. Always 0 in linear_act and
                     linear_backward_act */
} es_linear;

/** The activation of an FFN. */
typedef struct es_act {
    es_activation kind;
    float slope;          /* slope of ES_ACT_LEAKY if it is fixed */
    const es_mem *learnt; /* f32 (1): learnt slope, or NULL */
    es_mem *peak; /* for back-ends that find peaks in linear_act: receives the
                     peak of pre like find_peak; NULL: not needed */
} es_act;

/** The attention: its kind and its sizes. */
typedef struct es_attention {
    int n_batch, n_ctx, n_head;
    int d_model; /* total width of all heads: n_head d_k */
    es_attention_kind kind;
    int power; /* power of PowerSoftmax: even, 2 or more */
    float epsilon;
    bool plain; /* PowerSoftmax without the division of scores by their maximum
                 */
    es_row_length length; /* the length L in scaled ReLU, and in the factor of
                             PowerSoftmax's epsilon */
    const es_mem *log_t; /* f32 (H,T), logarithms of the temperatures; NULL: all
                            temperatures are 1; softmax only */
    int n_rotated; /* `rotate`: number of rotated dimensions of a head; 0: the
                      number of Pythia */
    es_rope rope;  /* `rotate`: frequencies */
} es_attention;

/** Sizes of query heads that share keys and values: query heads g j .. g j + g
 *  - 1 use key head j, g = n_head / n_kv_head. */
typedef struct es_sharing {
    int n_rows, n_head, n_kv_head, width; /* width: dimensions of one head */
    const es_mem *q_weight, *k_weight; /* f32 (width): weights of the RMSNorm of
                                          each head's q and k; NULL: no norm */
    float epsilon;
} es_sharing;

/** Selects the keys that a query sees: those up to its own position, or all of
 *  its sequence except those whose token is `padding`. */
typedef struct es_sight {
    bool all;
    const es_mem *tokens; /* (B,T) int32 tokens; NULL: there is no padding */
    int padding;
} es_sight;

/** Row statistics of analyzer/heads, f32 (B,H,T) each. Statistics whose pointer
 *  is NULL are not computed; statistics that the kind of attention does not
 *  have are not written. */
typedef struct es_row_mem {
    es_mem *array[ES_N_ROW_STATISTICS];
} es_row_mem;

/** Entropy regularisation. */
typedef struct es_penalty {
    int n_batch, n_ctx, n_head, n_layer;
    bool mean; /* --ereg-reduce mean: penalise the mean entropy of each head
                  instead of each row's entropy */
    float gamma, lambda;
    const es_mem *theta; /* f32 (H) thresholds */
} es_penalty;

/** Columns first .. first + n - 1 of a matrix (in,stride), which WNorm and
 *  SNorm treat as one matrix (in,n). n_in and n are at most the width of
 *  es_extents. */
typedef struct es_columns {
    int n_in, stride, first, n;
} es_columns;

/** Settings of AdamW. */
typedef struct es_adamw {
    float beta1, beta2, eps, decay;
} es_adamw;

/** Values that change in every step, in memory of the back-end. */
typedef struct es_control {
    float skips; /* 1: adamw changes nothing; else 0. `clip` sets it and never
                    clears a 1, so that a skipped step also stops the steps that
                    the host issued without knowing */
    float lr;
    /* bias corrections 1 - beta1^step and 1 - beta2^step */
    float correction1, correction2;
    float loss_scale; /* factor that the gradients contain; 1 unless activations
                         are fp16 */
    float grad_scale; /* factor by which adamw multiplies the gradients, set by
                         `clip` */
} es_control;

/**
 * Operations that measure details: everything beyond the series of `--record
 * core` (hooks/trainer/model/details.h). A back-end with this table also
 * computes the row statistics that use scores (es_row_statistic_is_of_scores).
 * `heads` is (H) es_head_details and `layer` (1) es_layer_details, in memory of
 * the back-end. The model reads results between these calls, so a back-end that
 * captures sequences cannot have this table.
 */
typedef struct es_detail_ops {
    /** Computes quantiles over a head's finite rows in all sequences,
     *  interpolated between the two nearest rows; entropy (B,H,T) f32. */
    void (*row_quantiles)(es_backend *backend, es_mem *heads,
                          const es_mem *entropy, int n_batch, int n_head,
                          int n_ctx);
    /** Adds the sums of squares of q, k and v; qkv (N,3d) act. */
    void (*norms)(es_backend *backend, es_mem *heads, const es_mem *qkv,
                  const es_attention *attention);
    /** Measures the block's output x (n) act, and the ratio of the norms of x
     *  - beta middle and beta middle; middle (n) act, NULL: there is no FFN;
     *  beta (1) f32, NULL: 1. Also adds to `sums` like activation_stats of
     *  es_ops. */
    void (*activations)(es_backend *backend, es_mem *layer, es_mem *sums,
                        const es_mem *x, const es_mem *middle,
                        const es_mem *beta, size_t n);
    /** Computes the sums of squares of gradients; dattn (d,3d), dproj (d,d)
     *  f32. */
    void (*gradients)(es_backend *backend, es_mem *heads, const es_mem *dattn,
                      const es_mem *dproj, int width, int n_head);
    /** Computes the singular values of W_Q W_K^T; attn (d,3d) f32. NaN for a
     *  head that is not finite, or if there is no memory for 2 d_k^2 floats. */
    void (*spectra)(es_backend *backend, es_mem *heads, const es_mem *attn,
                    int width, int n_head);
    /** Measures the last update by `adamw`, which must have had the same
     *  arguments: the change before it is rounded into param. */
    void (*update)(es_backend *backend, es_mem *layer, const es_mem *param,
                   const es_mem *moment1, const es_mem *moment2, size_t n,
                   const es_adamw *how, const es_mem *control);
} es_detail_ops;

#endif
