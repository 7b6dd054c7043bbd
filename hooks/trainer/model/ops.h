/**
 * The table of operations that a back-end implements. The model uses the
 * back-end only through this table: the model determines the order of the
 * operations, a back-end how each is carried out.
 *
 * Letters: B batch, T context, N = B T rows, H heads, d width, d_k = d / H, V
 * vocabulary. All arrays are in C order.
 *
 * Memory belongs to the back-end and is opaque here: the host only reaches it
 * through `load`, `store` and `view`. Parameters, gradients, moments, row
 * statistics and losses are float32 ("f32"); activations ("act") have the
 * precision of the back-end, activation_size bytes each. The arguments of an
 * operation are outputs, then inputs, then sizes. Unless an operation says
 * otherwise, an output must not overlap an input, and "+=" adds to the existing
 * values.
 *
 * NaN and infinities propagate as the formulas imply; no operation tests for
 * them unless it says so. The same call gives the same bits on the same
 * back-end with the same number of threads.
 *
 * Operations may run later than they are called, in the order of the calls:
 * only `load`, `fetched`, `view` and `status` wait, and nothing else returns a
 * number to the host, so that the host waits once per step. Values that change
 * from step to step (es_control) are read from memory, so that a sequence of
 * operations can be captured once and run again.
 *
 * An entry may be NULL if the back-end does not support the operation;
 * es_model_new then refuses architectures that need it.
 */
#ifndef ES_OPS_H
#define ES_OPS_H

#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/operands.h"
#include "hooks/trainer/model/rank_ops.h"

/** Number of floats that a back-end may keep of an attention row for the
 *  backward pass. */
enum { ES_N_SAVED = 4 };

/** The target value of a row that has no target. */
enum { ES_NO_TARGET = -1 };

/** Maximum number of captured sequences per back-end. */
enum { ES_MAX_SEQUENCES = 21 };

/**
 * Forward operations that use polynomials in place of division, inverse root
 * and gate (analyzer/polynomial), and that observe their inputs. If y (post)
 * and `how` are NULL, the operation only adds its inputs and their number to
 * `found` (1) es_findings, which the host has initialised; otherwise it also
 * computes its results. Activations are float32.
 */
typedef struct es_polynomial_ops {
    /** Computes LayerNorm. The values that are compared with the exact form are
     *  (x - mean) / sqrt(variance + epsilon), before weight (width) and bias
     *  (width) are applied. */
    void (*norm)(es_backend *backend, es_mem *y, es_mem *found, const es_mem *x,
                 const es_mem *weight, const es_mem *bias, int n_rows,
                 int width, float epsilon, const es_inverse_root *how);
    /** Computes post (n) = pre gate(pre); post may be pre. */
    void (*activate)(es_backend *backend, es_mem *post, es_mem *found,
                     const es_mem *pre, size_t n, const es_gate *how);
    /** Computes PowerSoftmax attention; y, saved, rows and qkv are those of
     *  attention in es_ops, and only find_score_peak reads `saved`. form->unit
     *  is 1 in a pass without y. */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, es_mem *found, const es_mem *qkv,
                      const es_attention *attention, const es_power_form *form,
                      const es_division *how);
} es_polynomial_ops;

/** The largest sizes that a model will request of a back-end. */
typedef struct es_extents {
    int n_rows, width, n_ctx, n_head, head_width;
    bool sees_all; /* attention_whole is used */
} es_extents;

typedef struct es_ops {
    const char *name;
    size_t activation_size;   /* bytes of one activation */
    bool scales_loss;         /* activations need a scaled loss: fp16 */
    bool weighs_plain_scores; /* attention supports plain PowerSoftmax and
                                 scaled ReLU */
    bool finds_peaks; /* linear_act finds the peak of es_act, and norms find the
                         peak of x */
    const es_detail_ops *details; /* NULL: details are not supported */
    /* NULL: --inference polynomial is not supported */
    const es_polynomial_ops *polynomial;
    const es_rank_ops *ranks; /* NULL: gradients are exchanged through the
                                 host */

    /* --- the back-end and its memory ------------------------------------ */

    /** Opens the back-end. n_threads 0: the number of available processors; a
     *  device ignores n_threads. ES_OK; ES_ENOMEM; ES_EIO (no such device, or
     *  it is too old). */
    es_status (*open)(es_backend **out, int n_threads);
    void (*close)(es_backend *backend); /* NULL is fine */
    int (*n_threads)(const es_backend *backend);
    /** Returns the name of the device, borrowed; NULL if the host computes. */
    const char *(*device_name)(const es_backend *backend);
    /** Returns one line for the user on how the back-end was opened, or "".
     *  NULL: there is never a note. */
    const char *(*note)(es_backend *backend);

    /**
     * Makes activations from now on float32 with the range and precision of
     * fp16: every act that a forward operation writes, and q . k of attention
     * before it is scaled, is rounded once, to nearest, ties to even; infinite
     * from 65520 on. Everything between two such roundings stays float32: sums,
     * softmax, statistics, losses. So do parameters. The backward pass treats
     * each rounding as the identity; it only rounds values of the forward pass
     * that it recomputes. NULL: activations are of another type, or this is not
     * supported.
     */
    void (*emulate_fp16)(es_backend *backend);

    /** Waits for all operations and returns the first error since the back-end
     *  was opened: ES_OK; ES_EIO (the device). After an error, operations do
     *  nothing and `load` gives NaN. NULL: operations cannot fail. */
    es_status (*status)(es_backend *backend);

    /** Reserves the working memory for operations up to these sizes, so that no
     *  operation can fail. ES_OK or ES_ENOMEM. */
    es_status (*prepare)(es_backend *backend, const es_extents *largest);

    /** Reserves zeroed memory, aligned to 64 bytes. ES_OK or ES_ENOMEM. */
    es_status (*reserve)(es_backend *backend, es_mem **out, size_t bytes);
    void (*release)(es_backend *backend, es_mem *memory); /* NULL is fine */
    void (*zero)(es_backend *backend, es_mem *out, size_t bytes);
    /** `in` may be changed as soon as the call returns. */
    void (*store)(es_backend *backend, es_mem *out, const void *in,
                  size_t bytes);
    void (*load)(es_backend *backend, void *out, const es_mem *in,
                 size_t bytes);
    /** Load in two calls, for place 0 or 1. `fetched` waits only for operations
     *  that were called before `fetch`. *out is borrowed until the next fetch
     *  to the same place. Returns like `status`; *out is NULL on an error.
     *  NULL: not supported. */
    void (*fetch)(es_backend *backend, int place, const es_mem *in,
                  size_t bytes);
    es_status (*fetched)(es_backend *backend, const void **out, int place);

    /**
     * Returns `n` activations as float32 for the host to read: the memory
     * itself if possible, else a copy, borrowed until the next call of view.
     * NULL if there is no memory for the copy.
     */
    const float *(*view)(es_backend *backend, const es_mem *in, size_t n);

    /**
     * Registers weights that products will read, f32 (n); each array was
     * reserved in one piece. The back-end keeps a copy in the precision of its
     * products. `refresh` updates the copy after anything except adamw has
     * changed the weights; n = 0 drops the copy. A bias without a copy costs a
     * pass over the output. NULL: not needed. keep: ES_OK, ES_ENOMEM.
     */
    es_status (*keep)(es_backend *backend, const es_mem *weights, size_t n);
    void (*refresh)(es_backend *backend, const es_mem *weights, size_t n);

    /**
     * Runs sequences of operations that are always called with the same
     * arguments; each has a number, 0 .. ES_MAX_SEQUENCES - 1. `replay` runs a
     * known sequence and returns true; otherwise the following operations are
     * captured until `launch` stores them under this number and runs them.
     * Sequences do not nest; store, load, fetch(ed), view, status, keep,
     * reserve and release must be called outside. NULL: the back-end would not
     * benefit.
     */
    bool (*replay)(es_backend *backend, int sequence);
    void (*launch)(es_backend *backend);

    /**
     * Returns the row stride, in elements, that suits the products of this
     * back-end, at least `width`; used for rows of logits. The padding between
     * rows is not written and has no effect. NULL: rows are contiguous.
     */
    int (*row_stride)(int width);

    /** Returns the number of rows of logits that a model should compute at
     *  once: enough for the products, few enough for the caches. NULL: all. */
    int (*loss_rows)(int vocab);

    /* --- embedding ------------------------------------------------------- */

    /** Computes the embedding: x (N,d) act = wte[token] + wpe[position]; wpe
     *  may be NULL. tokens (B,T) int32 in [0,V). */
    void (*embed)(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width);
    /** Backward pass of embed: dwte (V,d) +=, dwpe (T,d) += (or NULL), from dx
     *  (N,d) act. */
    void (*embed_backward)(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width);

    /** Writes the patches (N,C P P) act of images with pixels (B,C S S) int32;
     *  a pixel x becomes 2 x / (levels - 1) - 1. The row of the class token,
     *  the first of each image, is 0. */
    void (*cut_patches)(es_backend *backend, es_mem *patches,
                        const es_mem *pixels, const es_image *image,
                        int n_batch, int n_ctx);
    /** Sets the rows of the class token in x (N,d) act to `first` (d) f32, and
     *  adds wpe (T,d) f32 to all rows. */
    void (*place_patches)(es_backend *backend, es_mem *x, const es_mem *first,
                          const es_mem *wpe, int n_batch, int n_ctx, int width);
    /** Backward pass of place_patches: dfirst (d), dwpe (T,d) f32 +=; sets the
     *  rows of the class token in dx (N,d) act to 0. */
    void (*place_patches_backward)(es_backend *backend, es_mem *dx,
                                   es_mem *dfirst, es_mem *dwpe, int n_batch,
                                   int n_ctx, int width);

    /* --- normalisation --------------------------------------------------- */

    /** Computes LayerNorm: y (n,width) act; mean, rstd (n) f32 for the
     *  backward pass. `peak` receives the peak of x (see find_peak); NULL: not
     *  needed. */
    void (*layer_norm)(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, es_mem *peak, const es_mem *x,
                       const es_mem *weight, const es_mem *bias, int n_rows,
                       int width, float epsilon);
    /** Backward pass of layer_norm: dx (n,width) act +=; dweight, dbias (width)
     *  f32 +=. */
    void (*layer_norm_backward)(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width);

    /** Computes RMSNorm: y (n,width) act = x rstd weight, rstd (n) f32 = 1 /
     *  sqrt(mean x^2 + epsilon), for the backward pass. Zhang and Sennrich,
     *  2019. */
    void (*rms_norm)(es_backend *backend, es_mem *y, es_mem *rstd, es_mem *peak,
                     const es_mem *x, const es_mem *weight, int n_rows,
                     int width, float epsilon);
    /** dx (n,width) act +=; dweight (width) f32 +=. */
    void (*rms_norm_backward)(es_backend *backend, es_mem *dx, es_mem *dweight,
                              const es_mem *dy, const es_mem *x,
                              const es_mem *rstd, const es_mem *weight,
                              int n_rows, int width);

    /* --- matrix products ------------------------------------------------- */

    /** Computes y (n,out) act = x W + b, or with a residual r (n,out; may be
     *  y): y = r + x W + b. */
    void (*linear)(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows);
    /** Computes pre (n,out) = x W + b and post (n,out) = act(pre), where act
     *  may be applied before or after pre is rounded; a linear act only writes
     *  post and has no peak, and pre may be NULL. */
    void (*linear_act)(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows);
    /** Computes dx (n,in) act = dy W^T, or adds it if `add`. */
    void (*linear_backward_input)(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add);
    /**
     * Runs the backward pass of y = act(pre) W: dpre (n,in) = (dy W^T)
     * act'(pre). Recomputes post = act(pre), so that it need not be kept;
     * dslope (1) f32 += if the slope is learnt. A linear act neither reads pre
     * nor writes post.
     */
    void (*linear_backward_act)(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows);
    /** Converts d (n) act from the gradient of act(pre) to the gradient of pre
     *  (n) act, and recomputes post (n) = act(pre). For activations that are
     *  not linear and have no learnt slope. */
    void (*act_backward)(es_backend *backend, es_mem *d, es_mem *post,
                         const es_mem *pre, const es_act *act, size_t n);
    /** Computes dweight f32 = x^T dy, or adds it if `add`, in the layout of the
     *  weight; dbias f32 (out; or NULL) += column sums of dy, for the trained
     *  biases. */
    void (*linear_backward_weight)(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows, bool add);

    /* --- attention ------------------------------------------------------- */

    /** Rotates q and k in place according to their positions, qkv (N,3d) act.
     *  `back`: the opposite rotation, which converts gradients of rotated
     *  values to those before the rotation. */
    void (*rotate)(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back);
    /**
     * Computes the causal attention of all heads without storing T x T weights.
     *
     *   y      (N,d) act     outputs of the heads, concatenated
     *   saved  (B,H,T,ES_N_SAVED) f32 for the backward pass, in a form that
     *          only the back-end knows
     *   rows   NULL: compute no statistics
     *   qkv    (N,3d) act
     */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention);
    /** Computes attention of an encoder: each query sees all keys of its
     *  sequence except those whose token (B,T) int32 is `padding`; tokens NULL:
     *  all. Statistics of padding rows are es_missing(), their outputs 0;
     *  DISTANCE is the mean |i - j|, SINK the weight on the first visible key.
     *  The other arguments are those of `attention`. */
    void (*attention_whole)(es_backend *backend, es_mem *y, es_mem *saved,
                            const es_row_mem *rows, const es_mem *qkv,
                            const es_mem *tokens, int padding,
                            const es_attention *attention);
    /**
     * Computes the gradients of q, k and v from the gradients of y and of the
     * row entropies e = -sum a ln a. With z the scores, g_j = dy . v_j, <x> =
     * sum a x, w = dL/de:
     *
     *   softmax       dz_j = a_j [(g_j - <g>) - w (z_j - <z>)]
     *   PowerSoftmax  dz_j = p z_j^(p-1) / (c^p D) [(g_j - <g>)
     *                        - w (ln a_j + 1 - <ln a + 1>)]
     *   scaled ReLU   dz_j = (1 / L) [g_j - w (ln a_j - <ln a>)] where z_j > 0
     *
     * where c is a constant and D the denominator of README.md; if the weights
     * do not sum to one, the entropy is that of a / sum a.
     *
     *   dqkv      (N,3d) act  written
     *   dlog_t    (H,T) f32   += gradient of log_t, or NULL
     *   dy, y     (N,d) act
     *   dentropy  (B,H,T) f32 dL/de, or NULL
     */
    void (*attention_backward)(es_backend *backend, es_mem *dqkv,
                               es_mem *dlog_t, const es_mem *dy,
                               const es_mem *y, const es_mem *dentropy,
                               const es_mem *qkv, const es_mem *saved,
                               const es_attention *attention);
    /** Runs the backward pass of attention_whole; gradients of padding are
     *  0. */
    void (*attention_whole_backward)(es_backend *backend, es_mem *dqkv,
                                     es_mem *dlog_t, const es_mem *dy,
                                     const es_mem *y, const es_mem *dentropy,
                                     const es_mem *qkv, const es_mem *saved,
                                     const es_mem *tokens, int padding,
                                     const es_attention *attention);
    /**
     * Computes one layer's share of L_ent from row entropies (B,H,T): loss (1)
     * f32 +=; dentropy (B,H,T) written, dtheta (H) +=, both multiplied by
     * lambda * scale * loss_scale, which is in `control` (es_control; NULL: 1);
     * each may be NULL. A row whose entropy is not finite does not contribute.
     */
    void (*entropy_penalty)(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control);
    /** Adds the rows (L,B,H,T) of all layers to sums (L,H) es_head_sums, which
     *  the host has initialised, like es_head_sums_add_rows for each layer. */
    void (*measure_rows)(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_layer, int n_batch,
                         int n_head, int n_ctx);

    /* --- range losses: ranges.h ------------------------------------------ */

    /** peak (1) es_peak: finds the largest |x| of x (n) act, n > 0, and adds it
     *  to the sum; among equal values the first counts. find_score_peak does so
     *  for PowerSoftmax's visible scores, from `saved` and qkv (N,3d) act,
     *  rotated if the model rotates; 0 if everything is padding. */
    void (*find_peak)(es_backend *backend, es_mem *peak, const es_mem *x,
                      size_t n);
    void (*find_score_peak)(es_backend *backend, es_mem *peak,
                            const es_mem *qkv, const es_mem *saved,
                            const es_attention *attention,
                            const es_sight *sight);
    /** Adds the gradient of the range loss, which is scale * loss_scale of
     *  `control` (es_control; NULL: 1) times the |x| that was found: dx act +=,
     *  or for a score dqkv (N,3d) act +=. */
    void (*pull_peak)(es_backend *backend, es_mem *dx, const es_mem *peak,
                      float scale, const es_mem *control);
    void (*pull_score_peak)(es_backend *backend, es_mem *dqkv,
                            const es_mem *qkv, const es_mem *peak,
                            const es_attention *attention, float scale,
                            const es_mem *control);

    /* --- family llama ----------------------------------------------------- */

    /**
     * Computes the input of attention from heads that share keys and values.
     *
     *   qkv   (N,3 n_head width) act, written
     *   rstd  (N,n_head + n_kv_head) f32 of the norms, written; NULL without
     *         norms
     *   q     (N,n_head width) act
     *   k, v  (N,n_kv_head width) act
     */
    void (*spread_heads)(es_backend *backend, es_mem *qkv, es_mem *rstd,
                         const es_mem *q, const es_mem *k, const es_mem *v,
                         const es_sharing *sharing);
    /** Backward pass of spread_heads: replaces q, k and v by their gradients;
     *  dq_weight, dk_weight (width) f32 +=, NULL without norms. */
    void (*gather_heads)(es_backend *backend, es_mem *q, es_mem *k, es_mem *v,
                         es_mem *dq_weight, es_mem *dk_weight,
                         const es_mem *dqkv, const es_mem *rstd,
                         const es_sharing *sharing);
    /** Computes y (n) act = gate sigmoid(gate) up. */
    void (*swiglu)(es_backend *backend, es_mem *y, const es_mem *gate,
                   const es_mem *up, size_t n);
    /** Backward pass of swiglu: converts d (n) act from the gradient of y to
     *  the gradient of up, replaces gate by its gradient, and recomputes y, so
     *  that y need not be kept. */
    void (*swiglu_backward)(es_backend *backend, es_mem *d, es_mem *gate,
                            es_mem *y, const es_mem *up, size_t n);

    /* --- family sas ------------------------------------------------------- */

    /** For family sas: y (N,d) act = a v + b heads - c (mean of v up to the
     *  token), for each head; gains (3,H) f32 are a, b and c; v is part of
     *  qkv. */
    void (*shape_heads)(es_backend *backend, es_mem *y, const es_mem *heads,
                        const es_mem *qkv, const es_mem *gains,
                        const es_attention *attention);
    /** Backward pass of shape_heads: dheads (N,d) act written; converts d from
     *  the gradient of y to the gradient of v; dgains (3,H) f32 +=. */
    void (*shape_heads_backward)(es_backend *backend, es_mem *dheads, es_mem *d,
                                 es_mem *dgains, const es_mem *heads,
                                 const es_mem *qkv, const es_mem *gains,
                                 const es_attention *attention);
    /** Adds gradients: y (n) act += x. */
    void (*add_gradient)(es_backend *backend, es_mem *y, const es_mem *x,
                         size_t n);

    /* --- SM(gate): a sigmoid gate on the heads' outputs ------------------- */

    /** Computes y (n) act = x sigmoid(gate). */
    void (*gate)(es_backend *backend, es_mem *y, const es_mem *x,
                 const es_mem *gate, size_t n);
    /** Backward pass of gate. With s = sigmoid(gate): dx (n) act = dy s (dx may
     *  be dy); gate becomes its gradient dy x s (1 - s). */
    void (*gate_backward)(es_backend *backend, es_mem *dx, es_mem *gate,
                          const es_mem *dy, const es_mem *x, size_t n);

    /* --- SM(clip tau): QK-Clip ------------------------------------------- */

    /** For QK-Clip: out (H) f32 becomes the larger of its value and the largest
     *  logit of the head (after the temperature and rounding to fp16) in the
     *  pass of `saved`, with softmax attention. NaN if a row of the head was
     *  not finite, or if out was NaN. */
    void (*largest_logits)(es_backend *backend, es_mem *out,
                           const es_mem *saved, const es_attention *attention);
    /** Computes QK-Clip's factors (n) f32 = sqrt(tau / largest) if the largest
     *  logit (n) f32 is finite and above tau, else 1; all are 1 if `control`
     *  (es_control) skips. */
    void (*qk_factors)(es_backend *backend, es_mem *factors,
                       const es_mem *largest, float tau, int n,
                       const es_mem *control);
    /** Multiplies the columns of q and k of each head in x (n_in,3d) f32 by the
     *  head's factor (H) f32; columns of v are unchanged. A factor of 1 changes
     *  no bit. */
    void (*scale_heads)(es_backend *backend, es_mem *x, const es_mem *factors,
                        int n_in, int n_head, int d_model);

    /* --- residual of the scaled FFNs ------------------------------------- */

    /** Computes y (n) act = beta x + f / alpha; alpha, beta (1) f32. */
    void (*combine)(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n);
    /** Backward pass of combine: dx = beta dy (dx may be dy), df = dy / alpha,
     *  dalpha +=, dbeta +=. */
    void (*combine_backward)(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n);

    /**
     * Computes y (n) act = r + x / (1 - rate) where x is kept, r elsewhere; r
     * NULL: 0. y may be r or x. A NaN stays NaN even if it is dropped.
     *
     *   pass  (1) uint64: number of the micro-batch in the training run
     */
    void (*dropout)(es_backend *backend, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_dropout *how, const es_mem *pass,
                    size_t n);

    /* --- loss ------------------------------------------------------------ */

    /** Computes row_loss (n) f32 = -log softmax(logits)[target]; lse (n) f32
     *  for the backward pass. A row whose target is ES_NO_TARGET has a loss of
     *  0 and no gradient, if the back-end has add_share. logits (n,V) act, row
     *  stride `stride`: V or row_stride(V); targets (n) int32 in [0,V). */
    void (*cross_entropy)(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride);
    /** Replaces logits by scale * loss_scale of `control` (es_control; NULL: 1)
     *  * (softmax(logits) - onehot(target)). */
    void (*cross_entropy_backward)(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride);
    /** Computes cross_entropy and cross_entropy_backward at once, without lse.
     *  NULL: call one after the other. */
    void (*cross_entropy_both)(es_backend *backend, es_mem *row_loss,
                               es_mem *logits, const es_mem *targets,
                               float scale, const es_mem *control, int n_rows,
                               int vocab, int stride);
    /** Adds the mean of x (n) f32, computed in double, to sum (1) f64. */
    void (*add_mean)(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n);
    /** Like add_mean, but only n_counted rows have a value: the other rows are
     *  0 and do not count in the mean. */
    void (*add_share)(es_backend *backend, es_mem *sum, const es_mem *x,
                      size_t n, int n_counted);

    /* --- normalised weights: section 5 ----------------------------------- */

    /* Weights w, v, m and their gradients are f32 matrices (in,stride), of
     * which only the given columns are used and written; g, u (n) begin with
     * the first of the columns. The formulas have no epsilon: a column of zeros
     * becomes NaN under weight_norm; a matrix of zeros becomes NaN under
     * spectral_norm, with its u and v. A NaN stays in its column under
     * weight_norm; under spectral_norm it spreads to all of w, u and v, and u
     * and v do not recover. */

    /** w[:,j] = g_j v[:,j] / |v[:,j]|. */
    void (*weight_norm)(es_backend *backend, es_mem *w, const es_mem *v,
                        const es_mem *g, const es_columns *columns);
    /** Computes the gradients of g and v from dw. With c_j = v[:,j] . dw[:,j] /
     *  |v[:,j]|, dg_j += c_j and dv[:,j] += g_j / |v[:,j]| (dw[:,j] - c_j
     *  v[:,j] / |v[:,j]|). */
    void (*weight_norm_backward)(es_backend *backend, es_mem *dv, es_mem *dg,
                                 const es_mem *dw, const es_mem *v,
                                 const es_mem *g, const es_columns *columns);
    /**
     * Computes w = m / sigma with sigma (1) f32 = v^T m u, after n_iterations
     * power iterations, each v = m u / |m u|, then u = m^T v / |m^T v|.
     * n_iterations = 0 leaves u (n) and v (in) f32 unchanged.
     */
    void (*spectral_norm)(es_backend *backend, es_mem *w, es_mem *sigma,
                          es_mem *u, es_mem *v, const es_mem *m,
                          const es_columns *columns, int n_iterations);
    /** Backward pass of spectral_norm: dm += (dw - <dw, w> v u^T) / sigma,
     *  where u and v are constants. */
    void (*spectral_norm_backward)(es_backend *backend, es_mem *dm,
                                   const es_mem *dw, const es_mem *w,
                                   const es_mem *sigma, const es_mem *u,
                                   const es_mem *v, const es_columns *columns);
    /** Copies columns that are not normalised: y = x, or y += x if `add`. */
    void (*copy_columns)(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add);

    /* --- statistics and update ------------------------------------------- */

    /** Adds n activations to sums (1) es_layer_sums. */
    void (*activation_stats)(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n);
    /** Computes out (1) f64 = the sum of the squares of x (n) f32, in
     *  double. */
    void (*sum_squares)(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n);
    /**
     * Sets grad_scale and skips of control (es_control), from the sum of
     * squares (1) f64 of gradients that are loss_scale times too large:
     * grad_scale = 1 / loss_scale, times max_norm / norm if 0 < max_norm <
     * norm; skips = 1 if `may_skip` and the norm or the loss (1) f64 (or NULL)
     * is not finite, else unchanged. A norm that is not finite does not clip.
     */
    void (*clip)(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip);
    /** Updates param, moment1, moment2 (n) f32 from grad, according to control
     *  (es_control), and updates the copy made by `keep`. */
    void (*adamw)(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control);
} es_ops;

/** Precision of activations and products. Statistics, parameters and sums
 *  always have at least f32. */
typedef enum es_precision {
    ES_FP32, /* exact f32 products, for comparisons */
    ES_TF32, /* f32 activations, products with 10-bit mantissas */
    ES_BF16,
    ES_FP16,
    ES_N_PRECISIONS
} es_precision;

/** Names of the precisions: "fp32", "tf32", "bf16", "fp16". */
extern const char *const es_precision_names[ES_N_PRECISIONS];

/** The built-in CPU back-end in fp32; cpu.h has bf16. */
extern const es_ops es_cpu_ops;

/**
 * Finds the table of a back-end; it remains valid for the life of the process.
 *
 *   name  "cpu" (fp32 and bf16), or "cuda": the shared library next to the
 *         program, or the one named by ENTROPY_TRAIN_CUDA
 *
 * ES_OK; ES_EUSAGE (no such back-end, or it does not support the precision);
 * ES_EIO (its library is missing or cannot be loaded); ES_EVERSION (it belongs
 * to another build).
 */
es_status es_ops_find(const es_ops **out, const char *name,
                      es_precision precision) ES_MUST_USE;

/**
 * Same as es_ops_find, but also accepts "auto": cuda if its library loads and a
 * device opens, else cpu.
 *
 *   note  (size) output: one line if auto has chosen the CPU, else ""
 */
es_status es_ops_choose(const es_ops **out, const char *name,
                        es_precision precision, char *note,
                        size_t size) ES_MUST_USE;

/**
 * Exported by the library of a back-end: a function that returns the table for
 * a precision, or NULL if it is not supported, and the ES_OPS_STAMP of the
 * header that it was built with.
 */
typedef const es_ops *es_ops_getter(es_precision precision);
#define ES_OPS_GETTER "es_cuda_ops" /* symbol of the es_ops_getter function */
/* symbol of a const unsigned: the stamp */
#define ES_OPS_STAMP_NAME "es_cuda_ops_stamp"

/** Increment this with every change of an entry's meaning. */
#define ES_OPS_VERSION 20
#define ES_OPS_STAMP ((unsigned)(ES_OPS_VERSION << 16 | (int)sizeof(es_ops)))

#endif
