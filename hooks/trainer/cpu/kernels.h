/**
 * The inner loops of the CPU back-end, one table for each kind of processor.
 * Every function works on a slab of rows that one thread owns. kernels.inc.h
 * holds the code; kernels_plain.c, _avx2.c and _avx512.c compile it.
 */
#ifndef ES_CPU_KERNELS_H
#define ES_CPU_KERNELS_H

#include "hooks/trainer/model/ops.h"

/**
 * Attention of one head of one sequence: T queries and keys of `width`. Rows
 * of q, k, v and their gradients lie `stride` floats apart, those of y and dy
 * y_stride.
 */
typedef struct es_cpu_head {
    int n_ctx, width;
    size_t stride, y_stride;
    const float *q, *k, *v;
    float scale;              /* 1 / sqrt(width) */
    const float *temperature; /* (T) or NULL */
    bool half; /* q . k takes the precision of fp16 before it is scaled */
    float *y;
    float *saved; /* (T,2): m and D of attention.inc.h */
    int power;    /* of PowerSoftmax; 0: softmax */
    float epsilon;

    /* Statistics, (T) each, NULL: not wanted; without ES_ROW_ENTROPY none. */
    float *rows[ES_N_ROW_STATISTICS];

    /* The backward pass. */
    const float *dy, *dentropy; /* dentropy (T) or NULL */
    float *dq, *dk, *dv;
    float *dt; /* (T) or NULL: sum of dz z of each row; softmax only */

    float *scratch; /* attention_scratch floats */
} es_cpu_head;

/** A temperature below this counts as this. */
#define ES_CPU_MIN_TEMPERATURE 1e-4f

/** What q . k of query i is multiplied with. */
static inline float es_cpu_head_scale(const es_cpu_head *head, int i)
{
    if (!head->temperature)
        return head->scale;
    float t = head->temperature[i];
    return head->scale /
           (t < ES_CPU_MIN_TEMPERATURE ? ES_CPU_MIN_TEMPERATURE : t);
}

/** Statistics of query i, whose entropy or largest score is not finite: of
 *  softmax by their definition, in double. attention.c. */
void es_cpu_measure_row(const es_cpu_head *head, int i);

typedef struct es_cpu_kernels {
    const char *name;

    size_t (*attention_scratch)(int n_ctx, int width);
    void (*attention)(const es_cpu_head *head);
    void (*attention_backward)(const es_cpu_head *head);

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

    void (*layer_norm)(float *y, float *mean, float *rstd, const float *x,
                       const float *weight, const float *bias, int n_rows,
                       int width);
    /** dx +=; dweight, dbias (width) +=. */
    void (*layer_norm_backward)(float *dx, float *dweight, float *dbias,
                                const float *dy, const float *x,
                                const float *mean, const float *rstd,
                                const float *weight, int n_rows, int width);

    void (*cross_entropy)(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab);
    void (*cross_entropy_backward)(float *logits, const float *lse,
                                   const int32_t *targets, float scale,
                                   int n_rows, int vocab);

    /** x (n) as fp16 would keep it: es_half_round. */
    void (*round_half)(float *x, size_t n);

    uint64_t (*count_nonfinite)(const float *x, size_t n);
    double (*dot)(const float *x, const float *y, size_t n);
    void (*adamw)(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control);

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

extern const es_cpu_kernels es_cpu_kernels_plain;
extern const es_cpu_kernels es_cpu_kernels_avx2;
extern const es_cpu_kernels es_cpu_kernels_avx512;

/** True if the kernels, run on a small problem, agree with the plain ones. A
 *  table whose instructions this processor lacks must not be called. */
bool es_cpu_kernels_agree(const es_cpu_kernels *kernels);

/** The widest that runs here and agrees with the plain ones. */
const es_cpu_kernels *es_cpu_kernels_choose(void);

#endif
