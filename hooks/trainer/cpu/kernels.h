/**
 * The inner loops of the CPU back-end, in one table for each kind of processor.
 * Every function works on rows that belong to one thread. kernels.inc.h holds
 * the code; kernels_plain.c, _avx2.c and _avx512.c compile it.
 */
#ifndef ES_CPU_KERNELS_H
#define ES_CPU_KERNELS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/model/ops.h"

#include <math.h>

/** Value of `power` for scaled ReLU attention. */
enum { ES_CPU_RELU = 1 };

/** One head's bf16 activations in place: rows of q, k, v and of their gradients
 *  are `stride` apart, those of y and dy y_stride. */
typedef struct es_cpu_half_head {
    const es_bfloat *q, *k, *v, *dy;
    es_bfloat *y, *dq, *dk, *dv;
    size_t stride, y_stride;
} es_cpu_half_head;

/**
 * Attention of one head of one sequence: T queries and keys of `width`. Rows of
 * q, k, v and their gradients are `stride` floats apart, those of y and dy
 * y_stride.
 */
typedef struct es_cpu_head {
    int n_ctx, width;
    size_t stride, y_stride;
    const float *q, *k, *v;
    float scale;        /* 1 / sqrt(width) */
    const float *log_t; /* (T), ln of temperatures, or NULL */
    bool half;          /* q . k is rounded to fp16 before scaling */
    float *y;
    float *saved; /* (T,2): m and D of attention.inc.h */
    int power;    /* of PowerSoftmax; 0: softmax; or ES_CPU_RELU */
    float epsilon;
    bool plain; /* scores are not normalised: always with ES_CPU_RELU */
    es_row_length length;
    /* For an encoder, whose queries see every key: (T) positions of the tokens
     * in a sequence of `context`; NULL: causal. */
    const float *place;
    int context;

    /* Statistics, (T) each, NULL: not requested. Without ES_ROW_ENTROPY, no
     * others are computed. */
    float *rows[ES_N_ROW_STATISTICS];

    /* For the backward pass. */
    const float *dy, *dentropy; /* dentropy (T) or NULL */
    float *dq, *dk, *dv;
    float *dt; /* (T) or NULL: sum of dz z of each row; softmax only */

    float *scratch; /* attention_scratch floats */

    /* Used in bf16: q, k, v ... are float32 copies of its members, or not set.
     * With float32 activations, halves.q is NULL. */
    es_cpu_half_head halves;
} es_cpu_head;

/** Largest number of lanes. */
enum { ES_CPU_MAX_LANES = 16 };

/** Returns the factor of q . k for query i. */
static inline float es_cpu_head_scale(const es_cpu_head *head, int i)
{
    return head->log_t ? head->scale * expf(-head->log_t[i]) : head->scale;
}

/** In attention.c: measures query i, whose entropy or largest score is not
 *  finite; for softmax by the definition, in double. */
void es_cpu_measure_row(const es_cpu_head *head, int i);

typedef struct es_cpu_kernels {
    const char *name;
    int lanes; /* floats in a vector */

    size_t (*attention_scratch)(int n_ctx, int width);
    void (*attention)(const es_cpu_head *head);
    void (*attention_backward)(const es_cpu_head *head);
    /** attention and attention_backward for n = 1 .. `lanes` causal heads in
     *  one call. The heads have one shape and kind, the same statistics and
     *  gradients, and use the first head's scratch. Only for heads for which
     *  attention_bundles is true; faster if n is close to `lanes`. */
    bool (*attention_bundles)(int n_ctx, int width);
    void (*attention_bundle)(const es_cpu_head *heads, int n);
    void (*attention_bundle_backward)(const es_cpu_head *heads, int n);

    /** y = x + bias (n_rows,width). x may be y, or NULL for 0; bias (width) or
     *  NULL for 0. */
    void (*start_rows)(float *y, const float *x, const float *bias, int n_rows,
                       int width);
    /** y[i][j] += bias[j]; (n_rows,width). */
    void (*add_bias)(float *y, const float *bias, int n_rows, int width);
    /** out[j] += sum over rows of x[i][j]; rows are `stride` apart. */
    void (*add_column_sums)(float *out, const float *x, int n_rows, int width,
                            int stride);

    /** post = act(x); post may be x. Not for ES_ACT_LINEAR. */
    void (*act)(float *post, const float *x, size_t n, es_activation kind,
                float slope);
    /** d becomes d act'(x), and post = act(x). Returns the sum of d min(x, 0),
     *  the gradient of a leaky slope; 0 for other kinds. */
    double (*act_backward)(float *d, float *post, const float *x, size_t n,
                           es_activation kind, float slope);

    /** y = a x + b f for n numbers; y may be x. */
    void (*combine)(float *y, const float *x, const float *f, float a, float b,
                    size_t n);
    /** gate and gate_backward of es_ops; y may be x, dx may be dy. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);
    void (*gate_backward)(float *dx, float *gate, const float *dy,
                          const float *x, size_t n);
    /** y = r + factor x, with r NULL for 0; y may be either operand. The
     *  factors are those of elements from `first` on, a multiple of 64:
     *  es_drop_factors. */
    void (*drop)(float *y, const float *residual, const float *x, size_t first,
                 size_t n, const es_drop_mask *mask);

    /** Returns largest_size of x at no additional cost. */
    uint32_t (*layer_norm)(float *y, float *mean, float *rstd, const float *x,
                           const float *weight, const float *bias, int n_rows,
                           int width, float epsilon);
    /** dx +=; dweight, dbias (width) +=. */
    void (*layer_norm_backward)(float *dx, float *dweight, float *dbias,
                                const float *dy, const float *x,
                                const float *mean, const float *rstd,
                                const float *weight, int n_rows, int width);

    void (*rms_norm)(float *y, float *rstd, const float *x, const float *weight,
                     int n_rows, int width, float epsilon);
    /** dx +=; dweight (width) +=. */
    void (*rms_norm_backward)(float *dx, float *dweight, const float *dy,
                              const float *x, const float *rstd,
                              const float *weight, int n_rows, int width);
    /** swiglu and swiglu_backward of es_ops. */
    void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
    void (*swiglu_backward)(float *d, float *gate, float *y, const float *up,
                            size_t n);

    void (*cross_entropy)(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab);
    /** A row whose target is not in 0 .. vocab - 1 has no target column. */
    void (*cross_entropy_backward)(float *logits, const float *lse,
                                   const int32_t *targets, float scale,
                                   int n_rows, int vocab);

    /** Rounds x (n) to fp16: es_half_round. */
    void (*round_half)(float *x, size_t n);
    /** Convert bf16 to float32, and float32 to the nearest bf16:
     *  es_bfloat_read, es_bfloat_round. */
    void (*widen)(float *out, const es_bfloat *x, size_t n);
    void (*narrow)(es_bfloat *out, const float *x, size_t n);

    uint64_t (*count_nonfinite)(const float *x, size_t n);
    /** Returns the largest |x| (n) as the bits of a float; this order puts NaN
     *  above all numbers. Returns 0 if n is 0. */
    uint32_t (*largest_size)(const float *x, size_t n);
    double (*dot)(const float *x, const float *y, size_t n);
    void (*adamw)(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control);

    /** out[0..3] += sums of x, x^2, x^3, x^4 (n); out[4] = its maximum with the
     *  largest |x|; unless y (n) is NULL, out[5] += squares of x - a y, and
     *  out[6] += those of a y. Sums short runs in float32 relative to a number
     *  near the mean, and falls back to double if float32 cannot represent
     *  them: NaN only if an input is not finite. */
    void (*add_moments)(double out[7], const float *x, const float *y, float a,
                        size_t n);
    /** Given param (n) after adamw: out[0] += squares of adamw's change, out[1]
     *  += squares of param before it. */
    void (*add_update)(double out[2], const float *param, const float *moment1,
                       const float *moment2, size_t n, const es_adamw *how,
                       const es_control *control);
    /** out (width,width) += x^T x in double, lower half and diagonal only; x
     *  (n_rows,width), rows `stride` apart. */
    void (*add_gram)(double *out, const float *x, int n_rows, int width,
                     size_t stride);

    /* For matrices (n_rows,width) with rows `stride` floats apart. */

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
    /** out (n_rows) = x row, and back (width) += x^T (x row) without a second
     *  pass over x. Returns the sum of squares of x row. */
    double (*multiply_twice)(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride);
} es_cpu_kernels;

/** Attention in bf16 on a processor's matrix units. */
typedef struct es_cpu_tiles {
    const char *name; /* "amx"; NULL: not built */
    /** Returns the floats of scratch that a thread needs. */
    size_t (*scratch)(int n_ctx, int width);
    /** Read from and write to `halves`. Return false if a number of q, k, v or
     *  dy is not finite; other results are then undefined. */
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

/** Returns true if the kernels agree with the plain ones on a small problem. A
 *  table whose instructions this processor lacks must not be called. */
bool es_cpu_kernels_agree(const es_cpu_kernels *kernels);

/** Returns the widest kernels that run here and agree with the plain ones. */
const es_cpu_kernels *es_cpu_kernels_choose(void);

#endif
