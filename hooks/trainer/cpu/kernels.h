/**
 * Declares the inner loops of the CPU back-end as tables of functions, one
 * table for each kind of processor. Every function works on rows that belong to
 * one thread. kernels.inc.h holds the code; kernels_plain.c, _avx2.c and
 * _avx512.c compile it.
 */
#ifndef ES_CPU_KERNELS_H
#define ES_CPU_KERNELS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/model/ops.h"

#include <math.h>

/** Value of es_cpu_head's `power` that selects scaled ReLU attention. */
enum { ES_CPU_RELU = 1 };

/** Pointers to one head's bf16 activations. Rows of q, k, v and of their
 *  gradients are `stride` numbers apart, rows of y and dy y_stride numbers. */
typedef struct es_cpu_half_head {
    const es_bfloat *q, *k, *v, *dy;
    es_bfloat *y, *dq, *dk, *dv;
    size_t stride, y_stride;
} es_cpu_half_head;

/**
 * One head of one sequence, the argument of attention: T queries and keys of
 * `width`. Rows of q, k, v and their gradients are `stride` floats apart, rows
 * of y and dy y_stride floats.
 */
typedef struct es_cpu_head {
    int n_ctx, width;
    size_t stride, y_stride;
    const float *q, *k, *v;
    float scale;        /* 1 / sqrt(width) */
    const float *log_t; /* (T) ln of the queries' temperatures, or NULL */
    bool half;          /* true if q . k is rounded to fp16 before scaling */
    float *y;
    float *saved; /* (T,2) m and D of attention.inc.h for each row */
    int power;    /* power of PowerSoftmax; 0 for softmax; or ES_CPU_RELU */
    float epsilon;
    bool plain; /* scores are not divided by m; true with ES_CPU_RELU */
    es_row_length length;
    /* (T) positions of the tokens in a sequence of `context` tokens, for an
     * encoder, whose queries see every key; NULL for causal attention */
    const float *place;
    int context;

    /* Statistics of rows, (T) each; NULL if not requested. Without
     * ES_ROW_ENTROPY no other statistic is computed. */
    float *rows[ES_N_ROW_STATISTICS];

    /* The fields below are used in the backward pass only. */
    const float *dy, *dentropy; /* dentropy (T) or NULL */
    float *dq, *dk, *dv;
    float *dt; /* (T) sum of dz z of each row, or NULL; softmax only */

    float *scratch; /* (attention_scratch) working memory */

    /* bf16 activations. Then q, k, v and the other pointers above refer to
     * float32 copies or are not set. With float32 activations halves.q is
     * NULL. */
    es_cpu_half_head halves;
} es_cpu_head;

/** Largest number of lanes of any table of kernels. */
enum { ES_CPU_MAX_LANES = 16 };

/** Returns the factor that turns q . k of query i into its score. */
static inline float es_cpu_head_scale(const es_cpu_head *head, int i)
{
    return head->log_t ? head->scale * expf(-head->log_t[i]) : head->scale;
}

/** Recomputes the statistics of query i, whose entropy or largest score is not
 *  finite; for softmax directly from the formula, in double. In attention.c. */
void es_cpu_measure_row(const es_cpu_head *head, int i);

typedef struct es_cpu_kernels {
    const char *name;
    int lanes; /* number of floats in a vector */

    size_t (*attention_scratch)(int n_ctx, int width);
    void (*attention)(const es_cpu_head *head);
    void (*attention_backward)(const es_cpu_head *head);
    /** Same as attention and attention_backward, for n = 1 .. `lanes` causal
     *  heads in one call. The heads have the same shape, weighting, statistics
     *  and gradients, and share the first head's scratch. May only be called
     *  for shapes for which attention_bundles returns true; efficient if n is
     *  close to `lanes`. */
    bool (*attention_bundles)(int n_ctx, int width);
    void (*attention_bundle)(const es_cpu_head *heads, int n);
    void (*attention_bundle_backward)(const es_cpu_head *heads, int n);

    /** y = x + bias (n_rows,width). x may be y; NULL counts as 0. bias (width);
     *  NULL counts as 0. */
    void (*start_rows)(float *y, const float *x, const float *bias, int n_rows,
                       int width);
    /** y[i][j] += bias[j]; (n_rows,width). */
    void (*add_bias)(float *y, const float *bias, int n_rows, int width);
    /** out[j] += sum over all rows i of x[i][j]; rows are `stride` floats
     *  apart. */
    void (*add_column_sums)(float *out, const float *x, int n_rows, int width,
                            int stride);

    /** post = act(x); post may be x. `kind` must not be ES_ACT_LINEAR. */
    void (*act)(float *post, const float *x, size_t n, es_activation kind,
                float slope);
    /** Multiplies d by act'(x) and writes post = act(x). Returns the sum of d
     *  min(x, 0), the gradient of a leaky slope; returns 0 for other kinds. */
    double (*act_backward)(float *d, float *post, const float *x, size_t n,
                           es_activation kind, float slope);

    /** y = a x + b f for n numbers; y may be x. */
    void (*combine)(float *y, const float *x, const float *f, float a, float b,
                    size_t n);
    /** Same as gate and gate_backward of es_ops; y may be x, dx may be dy. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);
    void (*gate_backward)(float *dx, float *gate, const float *dy,
                          const float *x, size_t n);
    /** y = residual + factor x, where a NULL residual counts as 0; y may be
     *  either operand. The factors are those of es_drop_factors for elements
     *  from `first` on; `first` is a multiple of 64. */
    void (*drop)(float *y, const float *residual, const float *x, size_t first,
                 size_t n, const es_drop_mask *mask);

    /** Returns largest_size of x, found at no additional cost. */
    uint32_t (*layer_norm)(float *y, float *mean, float *rstd, const float *x,
                           const float *weight, const float *bias, int n_rows,
                           int width, float epsilon);
    /** Adds to dx (n_rows,width), and to dweight and dbias (width). */
    void (*layer_norm_backward)(float *dx, float *dweight, float *dbias,
                                const float *dy, const float *x,
                                const float *mean, const float *rstd,
                                const float *weight, int n_rows, int width);

    void (*rms_norm)(float *y, float *rstd, const float *x, const float *weight,
                     int n_rows, int width, float epsilon);
    /** Adds to dx (n_rows,width) and to dweight (width). */
    void (*rms_norm_backward)(float *dx, float *dweight, const float *dy,
                              const float *x, const float *rstd,
                              const float *weight, int n_rows, int width);
    /** Same as swiglu and swiglu_backward of es_ops. */
    void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
    void (*swiglu_backward)(float *d, float *gate, float *y, const float *up,
                            size_t n);

    void (*cross_entropy)(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab);
    /** A row whose target is not in 0 .. vocab - 1 has no target column. */
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
    /** Returns the largest |x| (n) as the bits of a float, in an order that
     *  puts NaN above all numbers. Returns 0 if n is 0. */
    uint32_t (*largest_size)(const float *x, size_t n);
    double (*dot)(const float *x, const float *y, size_t n);
    void (*adamw)(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control);

    /** Adds sums of x, x^2, x^3 and x^4 (n) to out[0..3], and replaces out[4]
     *  by the larger of out[4] and the largest |x|. Unless y (n) is NULL, adds
     *  the squares of x - a y to out[5], and of a y to out[6]. Sums short runs
     *  in float32 relative to a number near the mean, and repeats a sum in
     *  double if float32 cannot represent it: a result is NaN only if an input
     *  is not finite. */
    void (*add_moments)(double out[7], const float *x, const float *y, float a,
                        size_t n);
    /** Given param (n) after adamw: adds the squares of adamw's change to
     *  out[0], and the squares of param before adamw to out[1]. */
    void (*add_update)(double out[2], const float *param, const float *moment1,
                       const float *moment2, size_t n, const es_adamw *how,
                       const es_control *control);
    /** out (width,width) += x^T x in double, lower half and diagonal only; x is
     *  (n_rows,width) with rows `stride` floats apart. */
    void (*add_gram)(double *out, const float *x, int n_rows, int width,
                     size_t stride);

    /* The functions below take matrices (n_rows,width) whose rows are `stride`
     * floats apart. */

    /** out[j] += sum over i of x[i][j] y[i][j], in double. */
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
    /** Computes out (n_rows) = x row, and adds x^T (x row) to back (width), in
     *  a single pass over x. Returns the sum of squares of x row. */
    double (*multiply_twice)(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride);
} es_cpu_kernels;

/** Attention in bf16 on a processor's matrix units, as a table of functions. */
typedef struct es_cpu_tiles {
    const char *name; /* "amx"; NULL if the code is not built */
    /** Returns the floats of scratch that a thread needs. */
    size_t (*scratch)(int n_ctx, int width);
    /** Read from and write to head->halves. Return false if a number of q, k, v
     *  or dy is not finite; the other results are then undefined. */
    bool (*attention)(const es_cpu_head *head);
    bool (*attention_backward)(const es_cpu_head *head);
} es_cpu_tiles;

extern const es_cpu_tiles es_cpu_tiles_amx;

/** Returns NULL if this processor has no matrix units, or if their results on a
 *  small problem differ from those of the plain kernels. */
const es_cpu_tiles *es_cpu_tiles_choose(void);

extern const es_cpu_kernels es_cpu_kernels_plain;
extern const es_cpu_kernels es_cpu_kernels_avx2;
extern const es_cpu_kernels es_cpu_kernels_avx512;

/** Returns true if `kernels` agree with the plain kernels on a small problem.
 *  The processor must support the instructions of `kernels`. */
bool es_cpu_kernels_agree(const es_cpu_kernels *kernels);

/** Returns the widest kernels that the processor supports and that agree with
 *  the plain kernels. */
const es_cpu_kernels *es_cpu_kernels_choose(void);

#endif
