/**
 * The inner loops of the CPU back-end, one table for each kind of processor.
 * Every function works on a slab of rows that one thread owns. kernels.inc.h
 * holds the code; kernels_plain.c, _avx2.c and _avx512.c compile it.
 */
#ifndef ES_CPU_KERNELS_H
#define ES_CPU_KERNELS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/model/ops.h"

#include <math.h>

/** The `power` of scaled ReLU attention. */
enum { ES_CPU_RELU = 1 };

/** One head's bf16 activations where they lie: rows of q, k, v and of their
 *  gradients `stride` apart, those of y and dy y_stride. */
typedef struct es_cpu_half_head {
    const es_bfloat *q, *k, *v, *dy;
    es_bfloat *y, *dq, *dk, *dv;
    size_t stride, y_stride;
} es_cpu_half_head;

/**
 * Attention of one head of one sequence: T queries and keys of `width`. Rows
 * of q, k, v and their gradients lie `stride` floats apart, those of y and dy
 * y_stride.
 */
typedef struct es_cpu_head {
    int n_ctx, width;
    size_t stride, y_stride;
    const float *q, *k, *v;
    float scale;        /* 1 / sqrt(width) */
    const float *log_t; /* (T), ln of temperatures, or NULL */
    bool half; /* q . k takes the precision of fp16 before it is scaled */
    float *y;
    float *saved; /* (T,2): m and D of attention.inc.h */
    int power;    /* of PowerSoftmax; 0: softmax; or ES_CPU_RELU */
    float epsilon;
    bool plain; /* scores are weighed as they are: always of ES_CPU_RELU */
    es_row_length length;
    /* Of an encoder, whose queries see every key: (T) places of the tokens
     * in a sequence of `context`; NULL: causal. */
    const float *place;
    int context;

    /* Statistics, (T) each, NULL: not wanted; without ES_ROW_ENTROPY none. */
    float *rows[ES_N_ROW_STATISTICS];

    /* The backward pass. */
    const float *dy, *dentropy; /* dentropy (T) or NULL */
    float *dq, *dk, *dv;
    float *dt; /* (T) or NULL: sum of dz z of each row; softmax only */

    float *scratch; /* attention_scratch floats */

    /* Where activations are bf16; q, k, v ... are copies of them, or not set.
     * Without a q: they are float32. */
    es_cpu_half_head halves;
} es_cpu_head;

/** Lanes of the widest vectors. */
enum { ES_CPU_MAX_LANES = 16 };

/** What q . k of query i is multiplied with. */
static inline float es_cpu_head_scale(const es_cpu_head *head, int i)
{
    return head->log_t ? head->scale * expf(-head->log_t[i]) : head->scale;
}

/** Statistics of query i, whose entropy or largest score is not finite: of
 *  softmax by their definition, in double. attention.c. */
void es_cpu_measure_row(const es_cpu_head *head, int i);

typedef struct es_cpu_kernels {
    const char *name;
    int lanes; /* floats of a vector */

    size_t (*attention_scratch)(int n_ctx, int width);
    void (*attention)(const es_cpu_head *head);
    void (*attention_backward)(const es_cpu_head *head);
    /** The same of n = 1 .. `lanes` causal heads in one call, of one shape and
     *  kind, which want the same statistics and gradients; the scratch is that
     * of the first. Faster where attention_bundles says so and about as many
     *  heads as lanes are there; only for such heads. */
    bool (*attention_bundles)(int n_ctx, int width);
    void (*attention_bundle)(const es_cpu_head *heads, int n);
    void (*attention_bundle_backward)(const es_cpu_head *heads, int n);

    /** y = x + bias (n_rows,width); x NULL: 0, and may be y; bias (width) or
     *  NULL: 0. */
    void (*start_rows)(float *y, const float *x, const float *bias, int n_rows,
                       int width);
    /** y[i][j] += bias[j]; (n_rows,width). */
    void (*add_bias)(float *y, const float *bias, int n_rows, int width);
    /** out[j] += sum over rows of x[i][j]; rows lie `stride` apart. */
    void (*add_column_sums)(float *out, const float *x, int n_rows, int width,
                            int stride);

    /** post = act(x); post may be x. Not for ES_ACT_LINEAR. */
    void (*act)(float *post, const float *x, size_t n, es_activation kind,
                float slope);
    /** d becomes d act'(x), and post = act(x). Returns the sum of d min(x, 0):
     *  the gradient of a leaky slope; else 0. */
    double (*act_backward)(float *d, float *post, const float *x, size_t n,
                           es_activation kind, float slope);

    /** y = a x + b f (y may be x); n numbers. */
    void (*combine)(float *y, const float *x, const float *f, float a, float b,
                    size_t n);
    /** es_ops' gate and gate_backward; y may be x, dx may be dy. */
    void (*gate)(float *y, const float *x, const float *gate, size_t n);
    void (*gate_backward)(float *dx, float *gate, const float *dy,
                          const float *x, size_t n);
    /** y = r + factor x (y may be either; r NULL: 0) of elements first .. of
     *  the mask, a multiple of 64; es_drop_factors. */
    void (*drop)(float *y, const float *residual, const float *x, size_t first,
                 size_t n, const es_drop_mask *mask);

    /** Returns largest_size of x, which costs nothing there. */
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
    /** es_ops' swiglu and swiglu_backward. */
    void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
    void (*swiglu_backward)(float *d, float *gate, float *y, const float *up,
                            size_t n);

    void (*cross_entropy)(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab);
    /** No column is the target of a row whose target is not 0 .. vocab - 1. */
    void (*cross_entropy_backward)(float *logits, const float *lse,
                                   const int32_t *targets, float scale,
                                   int n_rows, int vocab);

    /** x (n) as fp16 would keep it: es_half_round. */
    void (*round_half)(float *x, size_t n);
    /** bf16 to float32, and to the nearest bf16: es_bfloat_read, _round. */
    void (*widen)(float *out, const es_bfloat *x, size_t n);
    void (*narrow)(es_bfloat *out, const float *x, size_t n);

    uint64_t (*count_nonfinite)(const float *x, size_t n);
    /** The largest |x| (n) as the bits of a float, whose order has NaN above
     *  all; 0 if n is 0. */
    uint32_t (*largest_size)(const float *x, size_t n);
    double (*dot)(const float *x, const float *y, size_t n);
    void (*adamw)(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control);

    /** out[0..3] += sums of x, x^2, x^3, x^4 (n), out[4] = the largest |x| or
     *  what it was; unless y (n) is NULL, out[5] += squares of x - a y, out[6]
     *  += those of a y. In short runs of float32 about a number near the mean,
     *  and in double where that does not hold them: NaN only where something is
     *  not finite. */
    void (*add_moments)(double out[7], const float *x, const float *y, float a,
                        size_t n);
    /** out[0] += squares of what adamw changed in param (n) as it is after
     *  that, out[1] += squares of what it was. */
    void (*add_update)(double out[2], const float *param, const float *moment1,
                       const float *moment2, size_t n, const es_adamw *how,
                       const es_control *control);
    /** out (width,width) += x^T x in double, the lower half and the diagonal;
     *  x (n_rows,width), rows `stride` apart. */
    void (*add_gram)(double *out, const float *x, int n_rows, int width,
                     size_t stride);

    /* Of matrices (n_rows,width), their rows `stride` floats apart. */

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
    /** out (n_rows) = x row, back (width) += x^T (x row), which costs no
     *  second pass over x. Returns the squares of x row. */
    double (*multiply_twice)(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride);
} es_cpu_kernels;

/** Attention in bf16 by a processor's matrix units. */
typedef struct es_cpu_tiles {
    const char *name; /* "amx"; NULL: not built */
    /** Floats of scratch that a thread needs. */
    size_t (*scratch)(int n_ctx, int width);
    /** From and to `halves`. False: not all of q, k, v and dy is finite,
     *  and the rest of what is written has no meaning. */
    bool (*attention)(const es_cpu_head *head);
    bool (*attention_backward)(const es_cpu_head *head);
} es_cpu_tiles;

extern const es_cpu_tiles es_cpu_tiles_amx;

/** NULL if this processor has none, or if they do not agree with the plain
 *  kernels on a small problem. */
const es_cpu_tiles *es_cpu_tiles_choose(void);

extern const es_cpu_kernels es_cpu_kernels_plain;
extern const es_cpu_kernels es_cpu_kernels_avx2;
extern const es_cpu_kernels es_cpu_kernels_avx512;

/** True if the kernels, run on a small problem, agree with the plain ones. A
 *  table whose instructions this processor lacks must not be called. */
bool es_cpu_kernels_agree(const es_cpu_kernels *kernels);

/** The widest that runs here and agrees with the plain ones. */
const es_cpu_kernels *es_cpu_kernels_choose(void);

#endif
