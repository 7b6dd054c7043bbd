/** Between the files of the CPU back-end. */
#ifndef ES_CPU_H
#define ES_CPU_H

#include "hooks/trainer/cpu/kernels.h"
#include "hooks/trainer/cpu/team.h"
#include "hooks/trainer/model/ops.h"

struct es_backend {
    es_team *team;
    int n_threads;
    bool half; /* forward operations write what fp16 could keep */
    const es_cpu_kernels *kernels;
    float *scratch; /* (n_threads, scratch_size) */
    size_t scratch_size;
    float *row_sums; /* one for each attention row */
    float *turns;    /* (n_turns, n_rotated) of rotate.c */
    int n_turns;     /* positions that it has capacity for */
    int n_rotated;   /* 0: nothing in turns yet */
};

/** On this back-end memory is plain floats. */
static inline float *es_cpu_floats(es_mem *memory)
{
    return (float *)(void *)memory;
}

static inline const float *es_cpu_read(const es_mem *memory)
{
    return (const float *)(const void *)memory;
}

/** The precision of activations for x (n), just written. */
static inline void es_cpu_round(const es_backend *backend, float *x, size_t n)
{
    if (backend->half)
        backend->kernels->round_half(x, n);
}

/** A share of 0 .. n - 1: first .. first + n - 1. */
typedef struct es_slab {
    int first, n;
} es_slab;

/** A thread's share of n, in multiples of `unit` (but the last): the same for
 *  the same number of threads. */
static inline es_slab es_cpu_slab(es_share share, int n, int unit)
{
    int n_units = (n + unit - 1) / unit;
    int first = (int)((int64_t)n_units * share.thread / share.n_threads) * unit;
    int end =
        (int)((int64_t)n_units * (share.thread + 1) / share.n_threads) * unit;
    end = end < n ? end : n;
    return (es_slab){first, end > first ? end - first : 0};
}

/** A thread's working memory: scratch_size floats. */
static inline float *es_cpu_scratch(const es_backend *backend, es_share share)
{
    return backend->scratch + (size_t)share.thread * backend->scratch_size;
}

/* linear.c */
void es_cpu_linear(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows);
void es_cpu_linear_act(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows);
void es_cpu_linear_backward_input(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add);
void es_cpu_linear_backward_act(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows);
void es_cpu_linear_backward_weight(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows);

/* attention.c */
void es_cpu_attention(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention);
void es_cpu_attention_backward(es_backend *backend, es_mem *dqkv, es_mem *dt,
                               const es_mem *dy, const es_mem *y,
                               const es_mem *dentropy, const es_mem *qkv,
                               const es_mem *saved,
                               const es_attention *attention);
void es_cpu_entropy_penalty(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control);
/** Floats of scratch that attention needs, each thread. */
size_t es_cpu_attention_scratch(const es_backend *backend,
                                const es_extents *largest);

/* rotate.c */
void es_cpu_rotate(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back);
/** Dimensions of a head that are rotated: a quarter, rounded down to even, at
 *  least 2. */
int es_cpu_n_rotated(int head_width);

/* rows.c */
void es_cpu_embed(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width);
void es_cpu_embed_backward(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width);
void es_cpu_layer_norm(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, const es_mem *x, const es_mem *weight,
                       const es_mem *bias, int n_rows, int width);
void es_cpu_layer_norm_backward(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width);
void es_cpu_cross_entropy(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride);
void es_cpu_cross_entropy_backward(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride);

void es_cpu_combine(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n);
void es_cpu_combine_backward(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n);

/* normed.c */
void es_cpu_weight_norm(es_backend *backend, es_mem *w, const es_mem *v,
                        const es_mem *g, const es_columns *columns);
void es_cpu_weight_norm_backward(es_backend *backend, es_mem *dv, es_mem *dg,
                                 const es_mem *dw, const es_mem *v,
                                 const es_mem *g, const es_columns *columns);
void es_cpu_spectral_norm(es_backend *backend, es_mem *w, es_mem *sigma,
                          es_mem *u, es_mem *v, const es_mem *m,
                          const es_columns *columns, int n_iterations);
void es_cpu_spectral_norm_backward(es_backend *backend, es_mem *dm,
                                   const es_mem *dw, const es_mem *w,
                                   const es_mem *sigma, const es_mem *u,
                                   const es_mem *v, const es_columns *columns);
void es_cpu_copy_columns(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add);

/** loss_scale of es_control in memory; NULL: 1. */
static inline float es_cpu_loss_scale(const es_mem *control)
{
    return control ? ((const es_control *)(const void *)control)->loss_scale
                   : 1;
}

/* update.c */
double es_cpu_dot(es_backend *backend, const float *x, const float *y,
                  size_t n);
void es_cpu_activation_stats(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n);
void es_cpu_sum_squares(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n);
void es_cpu_add_mean(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n);
void es_cpu_measure_rows(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_batch, int n_head,
                         int n_ctx);
void es_cpu_clip(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip);
void es_cpu_adamw(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control);

#endif
