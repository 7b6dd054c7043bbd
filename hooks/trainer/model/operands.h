/** Operands of a back-end's operations: the back-end's memory, and structs that
 *  combine sizes and arrays. Letters, shapes and "f32" have the meaning that
 *  ops.h defines. */
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
typedef struct es_mem es_mem; /* the type is incomplete, so that the host cannot
                                 access the memory by mistake */

/** Returns the address that is `bytes` bytes after `memory`. */
static inline es_mem *es_mem_at(es_mem *memory, size_t bytes)
{
    return (es_mem *)((char *)memory + bytes);
}

/** Smallest temperature that attention uses: a smaller one that is learnt
 *  directly, or read from an older file, counts as this value. */
#define ES_LEAST_TEMPERATURE 1e-4f

/** y = x W + b. */
typedef struct es_linear {
    const es_mem *weight; /* f32 (in,out), or (out,in) if transposed */
    const es_mem *bias;   /* f32 (out); NULL if there is no bias */
    int n_in, n_out;
    int n_bias_trained; /* number of leading elements of the bias that are
                           trained */
    bool transposed;
    int y_stride; /* distance between consecutive rows of y, of a residual and
                     of dy, as returned by row_stride; if 0, it is n_out. Always
                     0 in linear_act and linear_backward_act */
} es_linear;

/** The activation of an FFN. */
typedef struct es_act {
    es_activation kind;
    float slope;          /* slope of ES_ACT_LEAKY if the slope is not learnt */
    const es_mem *learnt; /* f32 (1) learnt slope; NULL if the slope is fixed */
    /* Memory in which linear_act stores the peak (largest |x|) of `pre`, as
     * find_peak would, on back-ends that find peaks in linear_act; NULL if no
     * peak is needed. */
    es_mem *peak;
} es_act;

/** The kind and the sizes of attention. */
typedef struct es_attention {
    int n_batch, n_ctx, n_head;
    int d_model; /* total width of all heads: n_head * d_k */
    es_attention_kind kind;
    int power; /* power of PowerSoftmax: even, 2 or more */
    float epsilon;
    bool plain; /* PowerSoftmax without dividing the scores by their maximum */
    es_row_length length; /* the number of keys (visible or all) that scaled
                             ReLU and the factor of PowerSoftmax's epsilon use
                             as the length L of a row */
    const es_mem *log_t;  /* f32 (H,T) logarithms of the temperatures, only for
                             softmax; NULL if all temperatures are 1 */
    int n_rotated; /* number of dimensions of a head that `rotate` rotates; if
                      0, as many as in Pythia */
    es_rope rope;  /* frequencies of the rotary positions, which `rotate`
                      uses */
} es_attention;

/** Sizes for query heads that share keys and values. With g = n_head /
 *  n_kv_head, query heads g * j to g * j + g - 1 use key head j. */
typedef struct es_sharing {
    int n_rows, n_head, n_kv_head, width; /* width: dimensions of one head */
    /* f32 (width) weights of the RMSNorm of each head's q and k; NULL if there
     * is no norm */
    const es_mem *q_weight, *k_weight;
    float epsilon;
} es_sharing;

/** Selects the keys that a query sees: the keys up to the query's position, or
 *  (`all`) all keys of the sequence except those whose token is `padding`. */
typedef struct es_sight {
    bool all;
    const es_mem *tokens; /* token ids, int32 (B,T); NULL if there is no
                             padding */
    int padding;
} es_sight;

/** Memory for the row statistics of analyzer/heads, f32 (B,H,T) each. A
 *  statistic is not computed if its pointer is NULL or if the kind of attention
 *  does not have the statistic. */
typedef struct es_row_mem {
    es_mem *array[ES_N_ROW_STATISTICS];
} es_row_mem;

/** Entropy regularisation. */
typedef struct es_penalty {
    int n_batch, n_ctx, n_head, n_layer;
    bool mean; /* --ereg-reduce mean: penalise the mean entropy of each head
                  instead of each row's entropy */
    float gamma, lambda;
    const es_mem *theta; /* f32 (H) learnt thresholds */
} es_penalty;

/** Columns first .. first + n - 1 of a matrix (in,stride), which WNorm and
 *  SNorm treat as one matrix (in,n). n_in and n must not exceed the width of
 *  es_extents. */
typedef struct es_columns {
    int n_in, stride, first, n;
} es_columns;

/** Settings of AdamW. */
typedef struct es_adamw {
    float beta1, beta2, eps, decay;
} es_adamw;

/** Values that change in every step, stored in the back-end's memory. */
typedef struct es_control {
    /* 1 if adamw must leave the parameters unchanged, 0 if it must update them.
     * `clip` sets the value to 1 but never clears it, so that a skipped step
     * also disables the later steps that the host has already launched */
    float skips;
    float lr;
    /* bias corrections 1 - beta1^step and 1 - beta2^step */
    float correction1, correction2;
    float loss_scale; /* factor by which the gradients are multiplied; 1 unless
                         activations are fp16 */
    float grad_scale; /* factor by which adamw multiplies the gradients, set by
                         `clip` */
} es_control;

/**
 * Operations that measure details, which are the series that `--record core`
 * does not include (hooks/trainer/model/details.h). A back-end with this table
 * also computes the row statistics that use scores
 * (es_row_statistic_is_of_scores). The argument `heads` is an array of H
 * es_head_details, and `layer` is one es_layer_details, both in the back-end's
 * memory. The model reads results on the host between these calls, so a
 * back-end that captures sequences of operations (such as a CUDA graph) cannot
 * have this table.
 */
typedef struct es_detail_ops {
    /** Computes quantiles over a head's finite rows in all sequences,
     *  interpolated between the two nearest rows; entropy (B,H,T) f32. */
    void (*row_quantiles)(es_backend *backend, es_mem *heads,
                          const es_mem *entropy, int n_batch, int n_head,
                          int n_ctx);
    /** Adds the sums of squares of q, k and v; qkv (N,3d) has the type of
     *  activations. */
    void (*norms)(es_backend *backend, es_mem *heads, const es_mem *qkv,
                  const es_attention *attention);
    /** Measures the block's output x (n), and the norm of x - beta * middle
     *  relative to the norm of beta * middle. middle (n) is the residual stream
     *  before the FFN, NULL without FFN; x and middle have the type of
     *  activations. beta (1) f32; NULL stands for 1. Also adds x to `sums` like
     *  activation_stats of es_ops. */
    void (*activations)(es_backend *backend, es_mem *layer, es_mem *sums,
                        const es_mem *x, const es_mem *middle,
                        const es_mem *beta, size_t n);
    /** Computes the sums of squares of the gradients of both attention
     *  matrices, dattn (d,3d) and dproj (d,d), both f32. */
    void (*gradients)(es_backend *backend, es_mem *heads, const es_mem *dattn,
                      const es_mem *dproj, int width, int n_head);
    /** Computes the singular values of W_Q * W_K^T; attn (d,3d) f32. Writes NaN
     *  for a head if its weights are not finite, or if there is too little
     *  memory for 2 * d_k^2 floats. */
    void (*spectra)(es_backend *backend, es_mem *heads, const es_mem *attn,
                    int width, int n_head);
    /** Measures the change of the weights by the last call of `adamw`, before
     *  the new weights are rounded to float32. The arguments must be those of
     *  that call. */
    void (*update)(es_backend *backend, es_mem *layer, const es_mem *param,
                   const es_mem *moment1, const es_mem *moment2, size_t n,
                   const es_adamw *how, const es_mem *control);
} es_detail_ops;

#endif
