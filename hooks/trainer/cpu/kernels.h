/**
 * Declares the inner loops of the CPU back-end as tables of functions, one
 * table for each kind of processor. Every function works on rows that belong to
 * one thread. kernels.inc.h contains the code, which kernels_plain.c,
 * kernels_avx2.c and kernels_avx512.c compile for 4, 8 and 16 floats per
 * vector.
 */
#ifndef ES_CPU_KERNELS_H
#define ES_CPU_KERNELS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/model/ops.h"

#include <math.h>

/** Value of the field `power` of es_cpu_head that selects scaled ReLU
 *  attention. */
enum { ES_CPU_RELU = 1 };

/** Pointers to the bf16 activations of one head. Successive rows of q, k, v and
 *  their gradients are `stride` numbers apart, and rows of y and dy are
 *  y_stride numbers apart. */
typedef struct es_cpu_half_head {
    const es_bfloat *q, *k, *v, *dy;
    es_bfloat *y, *dq, *dk, *dv;
    size_t stride, y_stride;
} es_cpu_half_head;

/**
 * One head of one sequence, the argument of the attention functions: n_ctx
 * queries and keys of `width` floats. Successive rows of q, k, v and their
 * gradients are `stride` floats apart, and rows of y and dy are y_stride floats
 * apart. In the shapes below, T is n_ctx.
 */
typedef struct es_cpu_head {
    int n_ctx, width;
    size_t stride, y_stride;
    const float *q, *k, *v;
    float scale;        /* 1 / sqrt(width) */
    const float *log_t; /* logarithms of the T queries' temperatures, or NULL */
    bool half;          /* true if q . k is rounded to fp16 before scaling */
    float *y;
    float *saved; /* two values for each of the T rows: m, the largest score,
                     and D, the divisor of the weights; see attention.inc.h */
    int power;    /* exponent of PowerSoftmax; 0 for softmax; or ES_CPU_RELU */
    float epsilon;
    bool plain; /* true if scores are not divided by the row's largest |score|,
                 * as with ES_CPU_RELU */
    es_row_length length;
    /* Positions of the T tokens in a sequence of `context` tokens, for a head
     * of an encoder, in which every query sees every key. NULL for a causal
     * head. */
    const float *place;
    int context;

    /* Row statistics, T values each; NULL if a statistic is not requested. If
     * ES_ROW_ENTROPY is not requested, no other statistic is computed. */
    float *rows[ES_N_ROW_STATISTICS];

    /* The fields below are used in the backward pass only. */
    const float *dy, *dentropy; /* gradients of y and of the row entropies;
                                 * dentropy is (T), or NULL */
    float *dq, *dk, *dv;
    float *dt; /* T sums, one for each row: the sum of s * dL/ds over the row's
                  scores s; only for softmax; NULL if not needed */

    float *scratch; /* (attention_scratch) working memory */

    /* Pointers to bf16 activations. If halves.q is not NULL, q, k, v and the
     * other pointers above refer to float32 copies or are not set. With float32
     * activations, halves.q is NULL. */
    es_cpu_half_head halves;
} es_cpu_head;

/** Number of floats per vector in the widest kernels. */
enum { ES_CPU_MAX_LANES = 16 };

/** Returns the factor that turns q . k of query i into its score. */
static inline float es_cpu_head_scale(const es_cpu_head *head, int i)
{
    return head->log_t ? head->scale * expf(-head->log_t[i]) : head->scale;
}

/** Recomputes the statistics of query i if its entropy or largest score is not
 *  finite. For softmax, computes them in double directly from the formula.
 *  Defined in statistics.c. */
void es_cpu_measure_row(const es_cpu_head *head, int i);

/** Computes the statistics of a row of PowerSoftmax in double from its finite
 *  weights (n) and scores (n). The caller must have set `values` to 0. */
void es_cpu_measure_weights(double values[ES_N_ROW_STATISTICS],
                            const float *weights, const float *scores, int n);

typedef struct es_cpu_kernels {
    const char *name;
    int lanes; /* number of floats in a vector */

    size_t (*attention_scratch)(int n_ctx, int width);
    void (*attention)(const es_cpu_head *head);
    void (*attention_backward)(const es_cpu_head *head);
    /** attention_bundle and attention_bundle_backward compute the same as
     *  attention and attention_backward, but for n = 1 .. `lanes` causal heads
     *  in one call. The heads have the same shape, kind of weights, statistics
     *  and gradients, and share the first head's scratch memory. May only be
     *  called for shapes for which attention_bundles returns true; efficient
     *  only if n is close to `lanes`. */
    bool (*attention_bundles)(int n_ctx, int width);
    void (*attention_bundle)(const es_cpu_head *heads, int n);
    void (*attention_bundle_backward)(const es_cpu_head *heads, int n);

    /** y = x + bias (n_rows,width); y may be x. bias is (width). A NULL x or
     *  bias is treated as 0. */
    void (*start_rows)(float *y, const float *x, const float *bias, int n_rows,
                       int width);
    /** y[i][j] += bias[j], where y is (n_rows,width). */
    void (*add_bias)(float *y, const float *bias, int n_rows, int width);
    /** out[j] += sum over all rows i of x[i][j]; rows are `stride` floats
     *  apart. */
    void (*add_column_sums)(float *out, const float *x, int n_rows, int width,
                            int stride);

    /** post = act(x); post may be x. `kind` must not be ES_ACT_LINEAR. */
    void (*act)(float *post, const float *x, size_t n, es_activation kind,
                float slope);
    /** Multiplies d by act'(x) and writes post = act(x). For a leaky
     *  activation, returns the gradient of the slope, which is the sum of d *
     *  min(x, 0); otherwise returns 0. */
    double (*act_backward)(float *d, float *post, const float *x, size_t n,
                           es_activation kind, float slope);

    /** y = a * x + b * f for n numbers; y may be x. */
    void (*combine)(float *y, const float *x, const float *f, float a, float b,
                    size_t n);
    /** Same as gate and gate_backward of es_ops; y may be x, dx may be dy. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);
    void (*gate_backward)(float *dx, float *gate, const float *dy,
                          const float *x, size_t n);
    /** y = residual + factor * x, where a NULL residual is treated as 0; y may
     *  be residual or x. The factors are those that es_drop_factors returns for
     *  elements from index `first` (a multiple of 64) on. */
    void (*drop)(float *y, const float *residual, const float *x, size_t first,
                 size_t n, const es_drop_mask *mask);

    /** Normalises rows, and returns the largest |x| as largest_size does. */
    uint32_t (*layer_norm)(float *y, float *mean, float *rstd, const float *x,
                           const float *weight, const float *bias, int n_rows,
                           int width, float epsilon);
    /** Adds gradients to dx (n_rows,width), dweight (width) and dbias
     *  (width). */
    void (*layer_norm_backward)(float *dx, float *dweight, float *dbias,
                                const float *dy, const float *x,
                                const float *mean, const float *rstd,
                                const float *weight, int n_rows, int width);

    void (*rms_norm)(float *y, float *rstd, const float *x, const float *weight,
                     int n_rows, int width, float epsilon);
    /** Adds gradients to dx (n_rows,width) and dweight (width). */
    void (*rms_norm_backward)(float *dx, float *dweight, const float *dy,
                              const float *x, const float *rstd,
                              const float *weight, int n_rows, int width);
    /** Same as swiglu and swiglu_backward of es_ops. */
    void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
    void (*swiglu_backward)(float *d, float *gate, float *y, const float *up,
                            size_t n);

    void (*cross_entropy)(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab);
    /** Replaces logits by their gradients. If a row's target is not in 0 ..
     *  vocab - 1, the row's gradient is computed without a target. */
    void (*cross_entropy_backward)(float *logits, const float *lse,
                                   const int32_t *targets, float scale,
                                   int n_rows, int vocab);

    /** Rounds x (n) to fp16, like es_half_round. */
    void (*round_half)(float *x, size_t n);
    /** Convert bf16 to float32, and float32 to the nearest bf16, like
     *  es_bfloat_read and es_bfloat_round. */
    void (*widen)(float *out, const es_bfloat *x, size_t n);
    void (*narrow)(es_bfloat *out, const float *x, size_t n);

    uint64_t (*count_nonfinite)(const float *x, size_t n);
    /** Returns the largest |x| of n numbers as the bits of a float, where NaN
     *  counts as larger than all numbers. Returns 0 if n is 0. */
    uint32_t (*largest_size)(const float *x, size_t n);
    double (*dot)(const float *x, const float *y, size_t n);
    void (*adamw)(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control);

    /** Adds the sums of x, x^2, x^3 and x^4 (n) to out[0..3], and replaces
     *  out[4] by the largest |x| if that is larger. Unless y (n) is NULL, adds
     *  the sum of squares of x - a * y to out[5], and of a * y to out[6]. To
     *  keep precision, the function subtracts a number near the mean from x,
     *  and sums short blocks in float32; it repeats a sum in double if float32
     *  cannot represent the sum. A result is therefore NaN only if an input is
     *  not finite. */
    void (*add_moments)(double out[7], const float *x, const float *y, float a,
                        size_t n);
    /** Measures the update that adamw has made to param (n): adds the squares
     *  of the change to out[0], and the squares of the former values to
     *  out[1]. */
    void (*add_update)(double out[2], const float *param, const float *moment1,
                       const float *moment2, size_t n, const es_adamw *how,
                       const es_control *control);
    /** Adds x^T * x to out (width,width) in double, but only to the lower half
     *  including the diagonal. x is (n_rows,width), with rows `stride` floats
     *  apart. */
    void (*add_gram)(double *out, const float *x, int n_rows, int width,
                     size_t stride);

    /* The functions below take matrices (n_rows,width) whose rows are `stride`
     * floats apart. */

    /** out[j] += sum over i of x[i][j] * y[i][j], in double. */
    void (*add_column_products)(double *out, const float *x, const float *y,
                                int n_rows, int width, size_t stride);
    /** y[i][j] = factor[j] x[i][j]. */
    void (*scale_columns)(float *y, const float *x, const float *factor,
                          int n_rows, int width, size_t stride);
    /** out[i][j] += a[j] x[i][j] + b[j] y[i][j]. */
    void (*add_scaled_columns)(float *out, const float *x, const float *a,
                               const float *y, const float *b, int n_rows,
                               int width, size_t stride);
    /** out[i][j] += a x[i][j] + b column[i] row[j]. */
    void (*add_outer_product)(float *out, const float *x, float a, float b,
                              const float *column, const float *row, int n_rows,
                              int width, size_t stride);
    /** Computes the product of matrix and vector out (n_rows) = x * row, and
     *  adds x^T * (x * row) to back (width), in a single pass over x. Returns
     *  the sum of squares of `out`. */
    double (*multiply_twice)(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride);
} es_cpu_kernels;

/** Functions that compute attention of bf16 heads on a processor's matrix
 *  units. */
typedef struct es_cpu_tiles {
    const char *name; /* "amx", or NULL if the program was built without this
                       * code */
    /** Returns the number of floats of scratch memory that a thread needs. */
    size_t (*scratch)(int n_ctx, int width);
    /** Compute the attention of a head whose bf16 activations are in
     *  head->halves. Return false if a number in q, k, v or dy is not finite;
     *  all results are then undefined. */
    bool (*attention)(const es_cpu_head *head);
    bool (*attention_backward)(const es_cpu_head *head);
} es_cpu_tiles;

extern const es_cpu_tiles es_cpu_tiles_amx;

/** Returns the functions for this processor's matrix units. Returns NULL if the
 *  processor has no matrix units, or if their results on a small problem differ
 *  from those of the plain kernels. */
const es_cpu_tiles *es_cpu_tiles_choose(void);

extern const es_cpu_kernels es_cpu_kernels_plain;
extern const es_cpu_kernels es_cpu_kernels_avx2;
extern const es_cpu_kernels es_cpu_kernels_avx512;

/** Returns true if `kernels` and the plain kernels compute the same results on
 *  a small problem. The processor must support the instructions of
 *  `kernels`. */
bool es_cpu_kernels_agree(const es_cpu_kernels *kernels);

/** Returns the widest kernels that the processor supports and that compute the
 *  same results as the plain kernels. */
const es_cpu_kernels *es_cpu_kernels_choose(void);

#endif
