/**
 * Between the files of the CUDA back-end: C++17 used as C with kernels.
 *
 * Every .cu file of this folder is compiled twice: by nvcc for the device, and
 * by the host's compiler against tests/emulation/, where a block's threads run
 * one after another and products are plain loops. What differs between the two
 * lies behind kernel.h (the language of kernels), device.h (memory, stream,
 * graphs) and gemm.h (matrix products); nothing else may ask which of the two
 * it is.
 *
 * `A` is the type of an activation: float, es_bf16 or es_fp16. Operations are
 * templates of it where they touch activations; the tables of backend.cu
 * instantiate them. All arithmetic is f32 or better, whatever A is.
 */
#ifndef ES_CUDA_H
#define ES_CUDA_H

extern "C" {
#include "hooks/trainer/model/ops.h"
}
#include "hooks/trainer/cuda/device.h"
#include "hooks/trainer/cuda/kernel.h"

struct es_backend {
    es_device *device;
    es_precision precision;
    /* Working memory of operations, `prepare`d; an operation uses it from the
     * start, and no longer than its own kernels run. */
    es_mem *scratch;
    size_t scratch_bytes;
    /* backend.cu adds what it needs: copies of weights, host buffers */
    struct es_cuda_own *own;
};

/** Memory as what it holds. */
template <class A>
static inline A *es_at(es_mem *memory)
{
    return (A *)(void *)memory;
}
template <class A>
static inline const A *es_at(const es_mem *memory)
{
    return (const A *)(const void *)memory;
}

/** The copy of kept weights in the precision of products; `weights` itself
 *  under fp32 and tf32, or if nothing of the kind was kept. *is_copy says
 *  which. backend.cu. */
const es_mem *es_cuda_weights(const es_backend *backend, const es_mem *weights,
                              bool *is_copy);

/** Bytes of scratch that operations up to these sizes need; each file that
 *  uses scratch has one, and `prepare` takes the largest. */
size_t es_cuda_attention_scratch(const es_extents *largest);
size_t es_cuda_linear_scratch(const es_extents *largest);
size_t es_cuda_normed_scratch(const es_extents *largest);
size_t es_cuda_rows_scratch(const es_extents *largest); /* and the two below */
size_t es_cuda_embed_scratch(const es_extents *largest);
size_t es_cuda_statistics_scratch(const es_extents *largest);

/* The operations, as in ops.h. */

/* linear.cu, over gemm.h */
template <class A>
void es_cuda_linear(es_backend *, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_linear *, int n_rows);
template <class A>
void es_cuda_linear_act(es_backend *, es_mem *pre, es_mem *post,
                        const es_mem *x, const es_linear *, const es_act *,
                        int n_rows);
template <class A>
void es_cuda_linear_backward_input(es_backend *, es_mem *dx, const es_mem *dy,
                                   const es_linear *, int n_rows, bool add);
template <class A>
void es_cuda_linear_backward_act(es_backend *, es_mem *dpre, es_mem *post,
                                 es_mem *dslope, const es_mem *dy,
                                 const es_mem *pre, const es_linear *,
                                 const es_act *, int n_rows);
template <class A>
void es_cuda_linear_backward_weight(es_backend *, es_mem *dweight,
                                    es_mem *dbias, const es_mem *x,
                                    const es_mem *dy, const es_linear *,
                                    int n_rows);

/* embed.cu */
template <class A>
void es_cuda_embed(es_backend *, es_mem *x, const es_mem *tokens,
                   const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                   int width);
template <class A>
void es_cuda_embed_backward(es_backend *, es_mem *dwte, es_mem *dwpe,
                            const es_mem *tokens, const es_mem *dx, int n_batch,
                            int n_ctx, int width);
/* rows.cu */
template <class A>
void es_cuda_layer_norm(es_backend *, es_mem *y, es_mem *mean, es_mem *rstd,
                        const es_mem *x, const es_mem *weight,
                        const es_mem *bias, int n_rows, int width);
template <class A>
void es_cuda_layer_norm_backward(es_backend *, es_mem *dx, es_mem *dweight,
                                 es_mem *dbias, const es_mem *dy,
                                 const es_mem *x, const es_mem *mean,
                                 const es_mem *rstd, const es_mem *weight,
                                 int n_rows, int width);
/* loss.cu */
template <class A>
void es_cuda_cross_entropy(es_backend *, es_mem *row_loss, es_mem *lse,
                           const es_mem *logits, const es_mem *targets,
                           int n_rows, int vocab, int stride);
template <class A>
void es_cuda_cross_entropy_backward(es_backend *, es_mem *logits,
                                    const es_mem *lse, const es_mem *targets,
                                    float scale, const es_mem *control,
                                    int n_rows, int vocab, int stride);

/* residual.cu */
template <class A>
void es_cuda_combine(es_backend *, es_mem *y, const es_mem *x, const es_mem *f,
                     const es_mem *alpha, const es_mem *beta, size_t n);
template <class A>
void es_cuda_combine_backward(es_backend *, es_mem *dx, es_mem *df,
                              es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                              const es_mem *x, const es_mem *f,
                              const es_mem *alpha, const es_mem *beta,
                              size_t n);

/* rotate.cu */
template <class A>
void es_cuda_rotate(es_backend *, es_mem *qkv, const es_attention *, bool back);

/* attention.cu: any head width up to 256; attention_mma.cu where it can */
template <class A>
void es_cuda_attention(es_backend *, es_mem *y, es_mem *saved,
                       const es_row_mem *rows, const es_mem *qkv,
                       const es_attention *);
template <class A>
void es_cuda_attention_backward(es_backend *, es_mem *dqkv, es_mem *dt,
                                const es_mem *dy, const es_mem *y,
                                const es_mem *dentropy, const es_mem *qkv,
                                const es_mem *saved, const es_attention *);

/* statistics.cu */
void es_cuda_entropy_penalty(es_backend *, es_mem *loss, es_mem *dentropy,
                             es_mem *dtheta, const es_mem *entropy,
                             const es_penalty *, float scale,
                             const es_mem *control);
void es_cuda_measure_rows(es_backend *, es_mem *sums, const es_row_mem *rows,
                          int n_batch, int n_head, int n_ctx);
template <class A>
void es_cuda_activation_stats(es_backend *, es_mem *sums, const es_mem *x,
                              size_t n);
void es_cuda_add_mean(es_backend *, es_mem *sum, const es_mem *x, size_t n);

/* update.cu */
void es_cuda_sum_squares(es_backend *, es_mem *out, const es_mem *x, size_t n);
void es_cuda_clip(es_backend *, es_mem *control, const es_mem *squares,
                  const es_mem *loss, float max_norm, bool may_skip);
void es_cuda_adamw(es_backend *, es_mem *param, es_mem *moment1,
                   es_mem *moment2, const es_mem *grad, size_t n,
                   const es_adamw *, const es_mem *control);

/* normed.cu */
void es_cuda_weight_norm(es_backend *, es_mem *w, const es_mem *v,
                         const es_mem *g, const es_columns *);
void es_cuda_weight_norm_backward(es_backend *, es_mem *dv, es_mem *dg,
                                  const es_mem *dw, const es_mem *v,
                                  const es_mem *g, const es_columns *);
void es_cuda_spectral_norm(es_backend *, es_mem *w, es_mem *sigma, es_mem *u,
                           es_mem *v, const es_mem *m, const es_columns *,
                           int n_iterations);
void es_cuda_spectral_norm_backward(es_backend *, es_mem *dm, const es_mem *dw,
                                    const es_mem *w, const es_mem *sigma,
                                    const es_mem *u, const es_mem *v,
                                    const es_columns *);
void es_cuda_copy_columns(es_backend *, es_mem *y, const es_mem *x,
                          const es_columns *, bool add);

#endif
