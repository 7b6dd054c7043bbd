/**
 * The table of operations that a back-end fills. The model is written against
 * this table alone: it owns the order of the operations, a back-end how each
 * is done.
 *
 * Letters: B batch, T context, N = B T rows, H heads, d width, d_k = d / H,
 * V vocabulary. Everything is C order.
 *
 * Memory belongs to the back-end and is opaque here: the host reaches it only
 * through `load`, `store` and `view`. Parameters, gradients, moments, row
 * statistics and losses are float32 ("f32"); activations ("act") have the
 * precision of the back-end, activation_size bytes each. An operation's
 * outputs come first, then inputs, then sizes. Unless it says otherwise an
 * output must not overlap an input, and "+=" adds to what is there.
 *
 * NaN and infinities go where the formulas take them; no operation tests for
 * them unless it says so. The same call gives the same bits on the same
 * back-end with the same number of threads.
 *
 * Operations may run later than they are called, in the order of the calls:
 * only `load`, `fetched`, `view` and `status` wait, and nothing else returns a
 * number to the host, so that a step needs to be waited for once. What changes
 * from step to step (es_control) is read from memory, so that a sequence of
 * operations can be captured once and run again.
 *
 * An entry may be NULL: this back-end cannot do that yet, and es_model_new
 * refuses architectures that need it.
 */
#ifndef ES_OPS_H
#define ES_OPS_H

#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/operands.h"
#include "hooks/trainer/model/rank_ops.h"

/** Floats that a back-end may keep of an attention row for the backward pass.
 */
enum { ES_N_SAVED = 4 };

/** The target of a row that has none. */
enum { ES_NO_TARGET = -1 };

/** Captured sequences of a back-end at most. */
enum { ES_MAX_SEQUENCES = 21 };

/**
 * Polynomials in the place of division, inverse root and gate, of passes
 * forward, and what is found on the way: analyzer/polynomial. With y (post)
 * NULL, and how NULL, nothing is computed: inputs and their sizes are added to
 * `found` (1) es_findings, which the host has started; else results, too.
 * Activations are float32.
 */
typedef struct es_polynomial_ops {
    /** LayerNorm; the results that are compared are (x - mean) / sqrt(variance
     *  + epsilon), before weight and bias (width). */
    void (*norm)(es_backend *backend, es_mem *y, es_mem *found, const es_mem *x,
                 const es_mem *weight, const es_mem *bias, int n_rows,
                 int width, float epsilon, const es_inverse_root *how);
    /** post (n) = pre gate(pre); post may be pre. */
    void (*activate)(es_backend *backend, es_mem *post, es_mem *found,
                     const es_mem *pre, size_t n, const es_gate *how);
    /** y, saved, rows, qkv as of es_ops' attention, of PowerSoftmax; what is
     *  saved is for find_score_peak alone. form->unit of a pass without y: 1.
     */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, es_mem *found, const es_mem *qkv,
                      const es_attention *attention, const es_power_form *form,
                      const es_division *how);
} es_polynomial_ops;

/** The largest sizes that a model will ask of a back-end. */
typedef struct es_extents {
    int n_rows, width, n_ctx, n_head, head_width;
    bool sees_all; /* attention_whole is among the operations */
} es_extents;

typedef struct es_ops {
    const char *name;
    size_t activation_size;   /* bytes of one */
    bool scales_loss;         /* activations need a scaled loss: fp16 */
    bool weighs_plain_scores; /* attention: plain PowerSoftmax, scaled ReLU */
    bool finds_peaks;         /* linear_act: es_act's peak, norms: of x */
    const es_detail_ops *details;        /* NULL: no details */
    const es_polynomial_ops *polynomial; /* NULL: no --inference polynomial */
    const es_rank_ops *ranks; /* NULL: gradients go by way of the host */

    /* --- the back-end and its memory ------------------------------------ */

    /** n_threads 0: as many as there are processors to run on; of no meaning
     *  on a device. ES_OK; ES_ENOMEM; ES_EIO (no such device, or one that is
     *  too old). */
    es_status (*open)(es_backend **out, int n_threads);
    void (*close)(es_backend *backend); /* NULL is fine */
    int (*n_threads)(const es_backend *backend);
    /** What it runs on, by the device's own name; borrowed. NULL: the host. */
    const char *(*device_name)(const es_backend *backend);
    /** One line for the user on how it was opened, or "". NULL: never. */
    const char *(*note)(es_backend *backend);

    /**
     * From now on activations are float32 that take the range and precision of
     * fp16: every act that a forward operation writes, and q . k of attention
     * before it is scaled, is rounded once, to the nearest, ties to even;
     * infinite from 65520 on. Everything between two such roundings stays
     * float32: sums, softmax, statistics, losses. So do parameters. The way
     * back takes each rounding for the identity and rounds nothing but what it
     * computes again, and that as the forward pass had it.
     * NULL: activations are of another type, or it is not built.
     */
    void (*emulate_fp16)(es_backend *backend);

    /** Waits for everything, and says what has gone wrong since the back-end
     *  was opened, the first thing if several: ES_OK; ES_EIO (the device).
     *  After a failure operations do nothing and `load` gives NaN. NULL: none
     *  can. */
    es_status (*status)(es_backend *backend);

    /** Sets aside the working memory for operations up to these sizes, so
     *  that none of them can fail. ES_OK or ES_ENOMEM. */
    es_status (*prepare)(es_backend *backend, const es_extents *largest);

    /** Zeroed memory, aligned to 64 bytes. ES_OK or ES_ENOMEM. */
    es_status (*reserve)(es_backend *backend, es_mem **out, size_t bytes);
    void (*release)(es_backend *backend, es_mem *memory); /* NULL is fine */
    void (*zero)(es_backend *backend, es_mem *out, size_t bytes);
    /** `in` may be changed as soon as it returns. */
    void (*store)(es_backend *backend, es_mem *out, const void *in,
                  size_t bytes);
    void (*load)(es_backend *backend, void *out, const es_mem *in,
                 size_t bytes);
    /** The same in two calls, by place 0 or 1: `fetched` waits for what was
     *  called before `fetch`, not for more. *out is borrowed until the next
     *  fetch to the place. ES_OK; ES_EIO: as `status`, *out is NULL. Or NULL.
     */
    void (*fetch)(es_backend *backend, int place, const es_mem *in,
                  size_t bytes);
    es_status (*fetched)(es_backend *backend, const void **out, int place);

    /**
     * `n` activations as float32 for the host to read: the memory itself
     * where the host can, else a copy, borrowed until the next call of view.
     * NULL if there is no memory for it.
     */
    const float *(*view)(es_backend *backend, const es_mem *in, size_t n);

    /**
     * Weights that products will read, f32 (n), each array of them reserved in
     * one piece: the back-end keeps a copy in the precision of its products.
     * `refresh` makes it anew after others than adamw have changed the weights;
     * to keep 0 of them drops the copy. A bias that is not kept costs a pass
     * over the output. NULL: no need. keep: ES_OK, ES_ENOMEM.
     */
    es_status (*keep)(es_backend *backend, const es_mem *weights, size_t n);
    void (*refresh)(es_backend *backend, const es_mem *weights, size_t n);

    /**
     * A sequence of operations that is always called with the same arguments
     * has a number of its own, 0 .. ES_MAX_SEQUENCES - 1. `replay` runs it if
     * it is known and returns true; else the operations that follow are
     * captured until `launch` keeps them under this number and runs them.
     * Sequences do not nest; store, load, fetch(ed), view, status, keep,
     * reserve and release stay outside. NULL: a back-end that does not gain by
     * it.
     */
    bool (*replay)(es_backend *backend, int sequence);
    void (*launch)(es_backend *backend);

    /**
     * Elements from the beginning of a row of activations to that of the next
     * that suit the products of this back-end, `width` or more; for rows of
     * logits. What lies between two rows is not written, and nothing depends
     * on it. NULL: rows lie one after another.
     */
    int (*row_stride)(int width);

    /** Rows of logits of a vocabulary that a model shall make at once: many
     *  enough for the products, as few as caches like. NULL: all. */
    int (*loss_rows)(int vocab);

    /* --- embedding ------------------------------------------------------- */

    /** x (N,d) act = wte[token] + wpe[position]; wpe NULL: without.
     *  tokens (B,T) int32 in [0,V). */
    void (*embed)(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width);
    /** dwte (V,d) +=, dwpe (T,d) += (NULL: none), from dx (N,d) act. */
    void (*embed_backward)(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width);

    /** patches (N,C P P) act of images pixels (B,C S S) int32, each number
     *  2 x / (levels - 1) - 1; 0 in the row of the class token, each image's
     *  first. */
    void (*cut_patches)(es_backend *backend, es_mem *patches,
                        const es_mem *pixels, const es_image *image,
                        int n_batch, int n_ctx);
    /** x (N,d) act: `first` (d) f32 in the rows of the class token, and
     *  wpe (T,d) f32 is added. */
    void (*place_patches)(es_backend *backend, es_mem *x, const es_mem *first,
                          const es_mem *wpe, int n_batch, int n_ctx, int width);
    /** dfirst (d), dwpe (T,d) f32 +=; dx (N,d) act becomes 0 in the rows of the
     *  class token. */
    void (*place_patches_backward)(es_backend *backend, es_mem *dx,
                                   es_mem *dfirst, es_mem *dwpe, int n_batch,
                                   int n_ctx, int width);

    /* --- normalisation --------------------------------------------------- */

    /** y (n,width) act; mean, rstd (n) f32 for the backward pass; peak as of
     *  find_peak, of x, NULL: not sought. */
    void (*layer_norm)(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, es_mem *peak, const es_mem *x,
                       const es_mem *weight, const es_mem *bias, int n_rows,
                       int width, float epsilon);
    /** dx (n,width) act +=; dweight, dbias (width) f32 +=. */
    void (*layer_norm_backward)(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width);

    /** RMSNorm: y (n,width) act = x rstd weight, rstd (n) f32 = 1 / sqrt(mean
     *  x^2 + epsilon), for the backward pass. Zhang and Sennrich, 2019. */
    void (*rms_norm)(es_backend *backend, es_mem *y, es_mem *rstd, es_mem *peak,
                     const es_mem *x, const es_mem *weight, int n_rows,
                     int width, float epsilon);
    /** dx (n,width) act +=; dweight (width) f32 +=. */
    void (*rms_norm_backward)(es_backend *backend, es_mem *dx, es_mem *dweight,
                              const es_mem *dy, const es_mem *x,
                              const es_mem *rstd, const es_mem *weight,
                              int n_rows, int width);

    /* --- matrix products ------------------------------------------------- */

    /** y (n,out) act = x W + b, or with a residual r (n,out; may be y):
     *  y = r + x W + b. */
    void (*linear)(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows);
    /** pre (n,out) = x W + b, post (n,out) = act(pre), of pre as it is written
     *  or before it is rounded; a linear act writes only post, has no peak,
     *  and pre may be NULL. */
    void (*linear_act)(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows);
    /** dx (n,in) act = or, if `add`, += dy W^T. */
    void (*linear_backward_input)(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add);
    /**
     * Through y = act(pre) W: dpre (n,in) = (dy W^T) act'(pre), and post =
     * act(pre) once more, so that it need not be kept; dslope (1) f32 += if
     * the slope is learnt. A linear act reads neither pre nor writes post.
     */
    void (*linear_backward_act)(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows);
    /** The gradient d (n) act of act(pre) becomes that of pre (n) act, and post
     *  (n) = act(pre) once more. Neither linear nor of a learnt slope. */
    void (*act_backward)(es_backend *backend, es_mem *d, es_mem *post,
                         const es_mem *pre, const es_act *act, size_t n);
    /** dweight f32 = or, if `add`, += x^T dy, laid out as the weight; dbias f32
     *  (out; NULL: none) += column sums of dy, the trained ones. */
    void (*linear_backward_weight)(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows, bool add);

    /* --- attention ------------------------------------------------------- */

    /** Rotation of q and k in place by their positions, qkv (N,3d) act.
     *  `back`: the opposite one, which takes gradients of what was rotated to
     *  those of what it was before. */
    void (*rotate)(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back);
    /**
     * Causal attention of all heads, fused: no T x T storage.
     *
     *   y      (N,d) act     the heads' outputs, concatenated
     *   saved  (B,H,T,ES_N_SAVED) f32 for the backward pass, the back-end's own
     *          affair
     *   rows   NULL: no statistics
     *   qkv    (N,3d) act
     */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention);
    /** The same of an encoder: each query sees all keys of its sequence but
     *  those whose token (B,T) int32 is `padding`; tokens NULL: all. Rows of
     *  padding are es_missing(), and have outputs of 0; DISTANCE is the mean
     *  |i - j|, SINK the weight on the first visible key. */
    void (*attention_whole)(es_backend *backend, es_mem *y, es_mem *saved,
                            const es_row_mem *rows, const es_mem *qkv,
                            const es_mem *tokens, int padding,
                            const es_attention *attention);
    /**
     * The gradient of q, k, v from that of y, and from that of the row
     * entropies. With z the scores, g_j = dy . v_j, <x> = sum a x, w = dL/de,
     * all for e = -sum a ln a:
     *
     *   softmax       dz_j = a_j [(g_j - <g>) - w (z_j - <z>)]
     *   PowerSoftmax  dz_j = p z_j^(p-1) / (c^p D) [(g_j - <g>)
     *                        - w (ln a_j + 1 - <ln a + 1>)]
     *   scaled ReLU   dz_j = (1 / L) [g_j - w (ln a_j - <ln a>)] where z_j > 0
     *
     * where c is a constant and D the denominator of the specification, the
     * entropy being that of a / sum a where the weights do not sum to one.
     *
     *   dqkv      (N,3d) act  written
     *   dlog_t    (H,T) f32   += of log_t; NULL without
     *   dy, y     (N,d) act
     *   dentropy  (B,H,T) f32 dL/de, or NULL
     */
    void (*attention_backward)(es_backend *backend, es_mem *dqkv,
                               es_mem *dlog_t, const es_mem *dy,
                               const es_mem *y, const es_mem *dentropy,
                               const es_mem *qkv, const es_mem *saved,
                               const es_attention *attention);
    /** The same of attention_whole; gradients of padding are 0. */
    void (*attention_whole_backward)(es_backend *backend, es_mem *dqkv,
                                     es_mem *dlog_t, const es_mem *dy,
                                     const es_mem *y, const es_mem *dentropy,
                                     const es_mem *qkv, const es_mem *saved,
                                     const es_mem *tokens, int padding,
                                     const es_attention *attention);
    /**
     * One layer's share of L_ent from row entropies (B,H,T): loss (1) f32 +=;
     * dentropy (B,H,T) written, dtheta (H) +=, both times lambda * scale *
     * loss_scale of `control` (es_control; NULL: 1); NULL where not wanted. A
     * row whose entropy is not finite has no share.
     */
    void (*entropy_penalty)(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control);
    /** Adds the rows (L,B,H,T) of all layers to sums (L,H) es_head_sums, which
     *  the host has started: es_head_sums_add_rows of each layer. */
    void (*measure_rows)(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_layer, int n_batch,
                         int n_head, int n_ctx);

    /* --- range losses: ranges.h ------------------------------------------ */

    /** peak (1) es_peak: written and added to, of x (n) act, n > 0; of equal
     *  ones the first. The same of PowerSoftmax's visible scores, of `saved`
     * and qkv (N,3d) act, rotated if it rotates; 0 where all is padding. */
    void (*find_peak)(es_backend *backend, es_mem *peak, const es_mem *x,
                      size_t n);
    void (*find_score_peak)(es_backend *backend, es_mem *peak,
                            const es_mem *qkv, const es_mem *saved,
                            const es_attention *attention,
                            const es_sight *sight);
    /** The gradient of scale * loss_scale of `control` (es_control; NULL: 1)
     *  times the |x| that was found: dx act +=; of a score dqkv (N,3d) act +=.
     */
    void (*pull_peak)(es_backend *backend, es_mem *dx, const es_mem *peak,
                      float scale, const es_mem *control);
    void (*pull_score_peak)(es_backend *backend, es_mem *dqkv,
                            const es_mem *qkv, const es_mem *peak,
                            const es_attention *attention, float scale,
                            const es_mem *control);

    /* --- family llama ----------------------------------------------------- */

    /**
     * What attention is given, from heads that share keys and values.
     *
     *   qkv   (N,3 n_head width) act, written
     *   rstd  (N,n_head + n_kv_head) f32, written, of the norms; NULL without
     *   q     (N,n_head width) act
     *   k, v  (N,n_kv_head width) act
     */
    void (*spread_heads)(es_backend *backend, es_mem *qkv, es_mem *rstd,
                         const es_mem *q, const es_mem *k, const es_mem *v,
                         const es_sharing *sharing);
    /** Backward: q, k and v become their own gradients; dq_weight,
     *  dk_weight (width) f32 +=, NULL without norms. */
    void (*gather_heads)(es_backend *backend, es_mem *q, es_mem *k, es_mem *v,
                         es_mem *dq_weight, es_mem *dk_weight,
                         const es_mem *dqkv, const es_mem *rstd,
                         const es_sharing *sharing);
    /** y (n) act = gate sigmoid(gate) up. */
    void (*swiglu)(es_backend *backend, es_mem *y, const es_mem *gate,
                   const es_mem *up, size_t n);
    /** d (n) act: the gradient of y becomes that of up, and gate its own; y
     *  once more, so that it need not be kept. */
    void (*swiglu_backward)(es_backend *backend, es_mem *d, es_mem *gate,
                            es_mem *y, const es_mem *up, size_t n);

    /* --- family sas ------------------------------------------------------- */

    /** y (N,d) act = a v + b heads - c (mean of v up to the token), of each
     *  head: gains (3,H) f32 are a, b and c, v lies in qkv. */
    void (*shape_heads)(es_backend *backend, es_mem *y, const es_mem *heads,
                        const es_mem *qkv, const es_mem *gains,
                        const es_attention *attention);
    /** dheads (N,d) act written; d, the gradient of y, becomes that of v;
     *  dgains (3,H) f32 +=. */
    void (*shape_heads_backward)(es_backend *backend, es_mem *dheads, es_mem *d,
                                 es_mem *dgains, const es_mem *heads,
                                 const es_mem *qkv, const es_mem *gains,
                                 const es_attention *attention);
    /** y (n) act += x: gradients. */
    void (*add_gradient)(es_backend *backend, es_mem *y, const es_mem *x,
                         size_t n);

    /* --- SM(gate): a sigmoid gate on the heads' outputs ------------------- */

    /** y (n) act = x sigmoid(gate). */
    void (*gate)(es_backend *backend, es_mem *y, const es_mem *x,
                 const es_mem *gate, size_t n);
    /** With s = sigmoid(gate): dx (n) act = dy s (dx may be dy), and in place
     *  gate becomes its own gradient, dy x s (1 - s). */
    void (*gate_backward)(es_backend *backend, es_mem *dx, es_mem *gate,
                          const es_mem *dy, const es_mem *x, size_t n);

    /* --- SM(clip tau): QK-Clip ---------------------------------------------
     */

    /** out (H) f32 = the larger one of what it is and of a head's logits
     *  (after the temperature, fp16 included) in the pass that `saved` is of:
     *  `attention`, softmax. NaN where a row of the head was not finite, or
     *  where it was NaN before. */
    void (*largest_logits)(es_backend *backend, es_mem *out,
                           const es_mem *saved, const es_attention *attention);
    /** factors (n) f32 = sqrt(tau / largest) where the largest logit (n) f32
     *  is finite and above tau, else 1; all 1 where `control` (es_control)
     *  skips. */
    void (*qk_factors)(es_backend *backend, es_mem *factors,
                       const es_mem *largest, float tau, int n,
                       const es_mem *control);
    /** x (n_in,3d) f32: the columns of q and of k of each head times its
     *  factor (H) f32; those of v are left alone. A factor of 1 changes no
     *  bit. */
    void (*scale_heads)(es_backend *backend, es_mem *x, const es_mem *factors,
                        int n_in, int n_head, int d_model);

    /* --- residual of the scaled FFNs ------------------------------------- */

    /** y (n) act = beta x + f / alpha; alpha, beta (1) f32. */
    void (*combine)(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n);
    /** dx = beta dy (may be dy), df = dy / alpha, dalpha +=, dbeta +=. */
    void (*combine_backward)(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n);

    /**
     * y (n) act = r + x where it is kept, times 1/(1 - rate); r NULL: 0. y may
     * be r or x. NaN stays what it is, dropped or not.
     *
     *   pass  (1) uint64: number of the micro-batch in the training
     */
    void (*dropout)(es_backend *backend, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_dropout *how, const es_mem *pass,
                    size_t n);

    /* --- loss ------------------------------------------------------------ */

    /** row_loss (n) f32 = -log softmax(logits)[target]; lse (n) f32 for the
     *  backward pass. A row whose target is ES_NO_TARGET has a loss of 0, and
     * no gradient: where the back-end has add_share. logits (n,V) act, rows
     * `stride` apart: V or row_stride(V); targets (n) int32 in [0,V). */
    void (*cross_entropy)(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride);
    /** In place: logits become scale * loss_scale of `control` (es_control;
     *  NULL: 1) * (softmax(logits) - onehot(target)). */
    void (*cross_entropy_backward)(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride);
    /** Both at once, without lse. NULL: one after the other. */
    void (*cross_entropy_both)(es_backend *backend, es_mem *row_loss,
                               es_mem *logits, const es_mem *targets,
                               float scale, const es_mem *control, int n_rows,
                               int vocab, int stride);
    /** sum (1) f64 += the mean of x (n) f32, in double. */
    void (*add_mean)(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n);
    /** The same of rows of which n_counted have a number and the others 0. */
    void (*add_share)(es_backend *backend, es_mem *sum, const es_mem *x,
                      size_t n, int n_counted);

    /* --- normalised weights: section 5 ----------------------------------- */

    /*
     * Weights w, v, m and their gradients are f32 matrices (in,stride), of
     * which only the columns count and are written; g, u (n) begin with the
     * first of the columns. No formula has an epsilon: a column of zeros
     * becomes NaN under weight_norm, a matrix of zeros under spectral_norm,
     * its u and v with it. A NaN stays in its column under weight_norm; under
     * spectral_norm it is in all of w, u and v at once, and u and v do not
     * recover.
     */

    /** w[:,j] = g_j v[:,j] / |v[:,j]|. */
    void (*weight_norm)(es_backend *backend, es_mem *w, const es_mem *v,
                        const es_mem *g, const es_columns *columns);
    /** From dw: with c_j = v[:,j] . dw[:,j] / |v[:,j]|, dg_j += c_j and
     *  dv[:,j] += g_j / |v[:,j]| (dw[:,j] - c_j v[:,j] / |v[:,j]|). */
    void (*weight_norm_backward)(es_backend *backend, es_mem *dv, es_mem *dg,
                                 const es_mem *dw, const es_mem *v,
                                 const es_mem *g, const es_columns *columns);
    /**
     * w = m / sigma, sigma (1) f32 = v^T m u, after n_iterations power
     * iterations, each v = m u / |m u|, then u = m^T v / |m^T v|. u (n) and
     * v (in) f32 are left alone by n_iterations = 0.
     */
    void (*spectral_norm)(es_backend *backend, es_mem *w, es_mem *sigma,
                          es_mem *u, es_mem *v, const es_mem *m,
                          const es_columns *columns, int n_iterations);
    /** dm += (dw - <dw, w> v u^T) / sigma: u and v are constants. */
    void (*spectral_norm_backward)(es_backend *backend, es_mem *dm,
                                   const es_mem *dw, const es_mem *w,
                                   const es_mem *sigma, const es_mem *u,
                                   const es_mem *v, const es_columns *columns);
    /** y = x or, if `add`, += x: columns that nothing normalises. */
    void (*copy_columns)(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add);

    /* --- statistics and update ------------------------------------------- */

    /** Adds n activations to sums (1) es_layer_sums. */
    void (*activation_stats)(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n);
    /** out (1) f64 = the sum of the squares of x (n) f32, in double. */
    void (*sum_squares)(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n);
    /**
     * Of control (es_control), from the sum of squares (1) f64 of gradients
     * that are loss_scale times too large: grad_scale = 1 / loss_scale, times
     * max_norm / norm where 0 < max_norm < norm; skips = 1 if `may_skip` and
     * the norm or the loss (1) f64 (NULL: not looked at) is not finite, else as
     * it was. A norm that is not finite clips nothing.
     */
    void (*clip)(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip);
    /** param, moment1, moment2 (n) f32 updated from grad, by control
     *  (es_control); the copy of `keep`, too. */
    void (*adamw)(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control);
} es_ops;

/** How activations are kept and products taken; statistics, parameters and
 *  sums are f32 or better in all of them. */
typedef enum es_precision {
    ES_FP32, /* exact products: for parity */
    ES_TF32, /* f32 activations, products of 10-bit mantissas */
    ES_BF16,
    ES_FP16,
    ES_N_PRECISIONS
} es_precision;

/** "fp32", "tf32", "bf16", "fp16". */
extern const char *const es_precision_names[ES_N_PRECISIONS];

/** The back-end that is part of the program, in fp32; cpu.h has bf16. */
extern const es_ops es_cpu_ops;

/**
 * The table of a back-end; back-end and table stay for good.
 *
 *   name  "cpu", fp32 and bf16; "cuda": the shared library beside the program,
 * or the one that ENTROPY_TRAIN_CUDA names
 *
 * ES_OK; ES_EUSAGE (no such back-end, or it has no such precision); ES_EIO
 * (its library is not there or cannot be loaded); ES_EVERSION (it is of
 * another build).
 */
es_status es_ops_find(const es_ops **out, const char *name,
                      es_precision precision) ES_MUST_USE;

/**
 * The same, and "auto": cuda if its library loads and a device opens, else
 * cpu.
 *
 *   note  (size) written: one line if auto came to be the CPU, else ""
 */
es_status es_ops_choose(const es_ops **out, const char *name,
                        es_precision precision, char *note,
                        size_t size) ES_MUST_USE;

/**
 * What the library of a back-end exports: its tables, NULL for a precision
 * that it lacks, and ES_OPS_STAMP of the header that it was built with.
 */
typedef const es_ops *es_ops_getter(es_precision precision);
#define ES_OPS_GETTER "es_cuda_ops"           /* an es_ops_getter */
#define ES_OPS_STAMP_NAME "es_cuda_ops_stamp" /* const unsigned */

/** To be raised with every change of what an entry means. */
#define ES_OPS_VERSION 20
#define ES_OPS_STAMP ((unsigned)(ES_OPS_VERSION << 16 | (int)sizeof(es_ops)))

#endif
