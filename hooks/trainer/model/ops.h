/**
 * The table of operations that a back-end implements. The model uses a back-end
 * only through this table. The model determines the order of the operations; a
 * back-end determines how each operation is carried out.
 *
 * Letters: B batch, T context, N = B * T rows, H heads, d width, d_k = d / H, V
 * vocabulary. All arrays are in C order.
 *
 * Memory belongs to the back-end; the host can only access it through `load`,
 * `store` and `view`. Parameters, gradients, moments, row statistics and losses
 * are float32 ("f32"); activations ("act") have the precision of the back-end,
 * activation_size bytes each. Each operation has its outputs first, then its
 * inputs, then sizes as arguments. Unless an operation says otherwise, an
 * output must not overlap an input, and "+=" adds to the existing values.
 *
 * NaN and infinities propagate as the formulas imply; an operation tests for
 * them only if its comment says so. The same call gives the same bits on the
 * same back-end with the same number of threads.
 *
 * Operations may run later than they are called, in the order of the calls.
 * Only `load`, `fetched`, `view` and `status` wait for them. No other operation
 * returns a number to the host, so that the host waits only once per step.
 * Values that change from step to step (es_control) are read from memory, so
 * that a sequence of operations can be captured once and run again.
 *
 * An entry may be NULL if the back-end does not support the operation;
 * es_model_new then refuses architectures that need it.
 */
#ifndef ES_OPS_H
#define ES_OPS_H

#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/operands.h"
#include "hooks/trainer/model/rank_ops.h"

/** Number of floats per attention row that a back-end may save for the backward
 *  pass. */
enum { ES_N_SAVED = 4 };

/** Target value that marks a row without a target. */
enum { ES_NO_TARGET = -1 };

/** Maximum number of sequences of operations that a back-end can capture and
 *  replay (see `replay` below). */
enum { ES_MAX_SEQUENCES = 21 };

/**
 * Forward operations that compute division, inverse root and gate with
 * polynomials (analyzer/polynomial), or that observe the inputs. Each operation
 * adds statistics of its inputs and the error of its result to `found`, a
 * single es_findings, which the host has initialised. It computes its result (y
 * or post) with the polynomial `how`; if the result and `how` are NULL, it only
 * observes the inputs. Activations are float32.
 */
typedef struct es_polynomial_ops {
    /** Computes LayerNorm. The error that it adds to `found` is that of (x -
     *  mean) / sqrt(variance + epsilon), before weight (width) and bias (width)
     *  are applied. */
    void (*norm)(es_backend *backend, es_mem *y, es_mem *found, const es_mem *x,
                 const es_mem *weight, const es_mem *bias, int n_rows,
                 int width, float epsilon, const es_inverse_root *how);
    /** Computes post (n) = pre * gate(pre); post may be the same array as
     *  pre. */
    void (*activate)(es_backend *backend, es_mem *post, es_mem *found,
                     const es_mem *pre, size_t n, const es_gate *how);
    /** Computes PowerSoftmax attention. y, saved, rows and qkv are the
     *  arguments of `attention` in es_ops; `saved` is written for
     *  find_score_peak only. form->unit must be 1 if y is NULL. */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, es_mem *found, const es_mem *qkv,
                      const es_attention *attention, const es_power_form *form,
                      const es_division *how);
} es_polynomial_ops;

/** The largest sizes with which a model will call operations. */
typedef struct es_extents {
    int n_rows, width, n_ctx, n_head, head_width;
    bool sees_all; /* every query sees all keys (attention is not causal), so
                      the model calls attention_whole */
} es_extents;

typedef struct es_ops {
    const char *name;
    size_t activation_size; /* size of one activation in bytes */
    /* the loss must be scaled, because activations are fp16 */
    bool scales_loss;
    bool weighs_plain_scores; /* attention supports plain PowerSoftmax and
                                 scaled ReLU */
    bool finds_peaks; /* linear_act finds the peak (largest |x|) of `pre`
                         (es_act.peak), and norms find the peak of their
                         input */
    const es_detail_ops *details; /* operations for additional statistics
                                     (details.h); NULL if not supported */
    /* NULL if --inference polynomial is not supported */
    const es_polynomial_ops *polynomial;
    /* NULL if gradients are exchanged through the host */
    const es_rank_ops *ranks;

    /* --- the back-end and its memory ------------------------------------ */

    /** Opens the back-end. n_threads is the number of threads, 0 for the number
     *  of available processors; a device ignores it. Returns ES_OK, ES_ENOMEM,
     *  or ES_EIO if there is no such device or the device is too old. */
    es_status (*open)(es_backend **out, int n_threads);
    void (*close)(es_backend *backend); /* NULL is allowed */
    int (*n_threads)(const es_backend *backend);
    /** Returns the name of the device, borrowed; NULL if the back-end computes
     *  on the host. */
    const char *(*device_name)(const es_backend *backend);
    /** Returns one line for the user about how the back-end was opened, or "".
     *  NULL if the back-end never has a note. */
    const char *(*note)(es_backend *backend);

    /**
     * From now on, stores activations as float32 with the range and precision
     * of fp16. Every activation that a forward operation writes, and q . k of
     * attention before it is scaled, is rounded once, to nearest, ties to even;
     * values from 65520 on become infinite. All values between two such
     * roundings (sums, softmax, statistics, losses) and the parameters remain
     * float32. The backward pass treats each rounding as the identity; only
     * values of the forward pass that it recomputes are rounded. NULL if
     * activations are not float32 or the back-end does not support emulation.
     */
    void (*emulate_fp16)(es_backend *backend);

    /** Waits for all operations and returns the first error since the back-end
     *  was opened: ES_OK, or ES_EIO if the device has failed. After an error,
     *  operations do nothing and `load` writes NaN. NULL if operations cannot
     *  fail. */
    es_status (*status)(es_backend *backend);

    /** Reserves the working memory for operations up to these sizes, so that no
     *  operation can fail for lack of memory. Returns ES_OK or ES_ENOMEM. */
    es_status (*prepare)(es_backend *backend, const es_extents *largest);

    /** Reserves zeroed memory, aligned to 64 bytes. Returns ES_OK or
     *  ES_ENOMEM. */
    es_status (*reserve)(es_backend *backend, es_mem **out, size_t bytes);
    void (*release)(es_backend *backend, es_mem *memory); /* NULL is allowed */
    void (*zero)(es_backend *backend, es_mem *out, size_t bytes);
    /** Copies host memory to the back-end. `in` may be changed as soon as the
     *  call returns. */
    void (*store)(es_backend *backend, es_mem *out, const void *in,
                  size_t bytes);
    void (*load)(es_backend *backend, void *out, const es_mem *in,
                 size_t bytes);
    /** Copy memory to the host in the background. fetch starts a copy to one of
     *  two host buffers, number `place` (0 or 1). fetched waits for this copy,
     *  but not for operations that were called after fetch. *out is borrowed
     *  until the next fetch to the same buffer. Returns the statuses of
     *  `status`; *out is NULL on an error. Both functions are NULL if not
     *  supported. */
    void (*fetch)(es_backend *backend, int place, const es_mem *in,
                  size_t bytes);
    es_status (*fetched)(es_backend *backend, const void **out, int place);

    /**
     * Returns `n` activations as float32 for the host to read. The result is
     * the memory itself if possible; otherwise it is a copy, borrowed until the
     * next call of view, or NULL if there is no memory for the copy.
     */
    const float *(*view)(es_backend *backend, const es_mem *in, size_t n);

    /**
     * Registers an array of n f32 weights that matrix products will read. The
     * array must have been reserved by a single call. The back-end keeps a copy
     * in the precision that its matrix products use. `refresh` updates the copy
     * after anything except adamw has changed the weights; n = 0 drops the
     * copy. Without a copy of the bias, a matrix product needs an additional
     * pass over its output. keep returns ES_OK or ES_ENOMEM. keep and refresh
     * are NULL if the back-end needs no copies.
     */
    es_status (*keep)(es_backend *backend, const es_mem *weights, size_t n);
    void (*refresh)(es_backend *backend, const es_mem *weights, size_t n);

    /**
     * Capture and run sequences of operations that are always called with the
     * same arguments; each sequence has a number, 0 .. ES_MAX_SEQUENCES - 1.
     * `replay` runs a sequence that has been captured and returns true.
     * Otherwise it returns false, and the following operations are captured
     * until `launch` stores them under this number and runs them. Sequences do
     * not nest; store, load, fetch, fetched, view, status, keep, reserve and
     * release must be called outside of sequences. NULL if the back-end does
     * not capture.
     */
    bool (*replay)(es_backend *backend, int sequence);
    void (*launch)(es_backend *backend);

    /**
     * Returns the row stride in elements, at least `width`, with which matrix
     * products are fast; the model uses it for rows of logits. The padding
     * between rows is not written and has no effect. NULL if rows are
     * contiguous.
     */
    int (*row_stride)(int width);

    /** Returns how many rows of logits a model should compute at once, so that
     *  the matrix product is fast and the logits fit into the caches. NULL: the
     *  model computes all rows at once. */
    int (*loss_rows)(int vocab);

    /* --- embedding ------------------------------------------------------- */

    /** Computes the embedding x = wte[token] + wpe[position], activations of
     *  shape (N,d); wpe may be NULL. tokens (B,T) int32 in [0,V). */
    void (*embed)(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width);
    /** Backward pass of embed: adds the gradient dx, activations of shape
     *  (N,d), to dwte (V,d) and dwpe (T,d); dwpe may be NULL. */
    void (*embed_backward)(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width);

    /** Cuts images of S x S pixels and C channels into patches of P x P pixels.
     *  `pixels` is int32 of shape (B, C*S*S); `patches` is of type act and
     *  shape (N, C*P*P). A pixel x becomes 2 * x / (levels - 1) - 1. The first
     *  row of each image, which belongs to the class token, is 0. */
    void (*cut_patches)(es_backend *backend, es_mem *patches,
                        const es_mem *pixels, const es_image *image,
                        int n_batch, int n_ctx);
    /** Sets the rows of the class token in x to `first`, and then adds the
     *  position embeddings wpe to all rows. x is of type act and shape (N,d);
     *  `first` (d) and wpe (T,d) are f32. */
    void (*place_patches)(es_backend *backend, es_mem *x, const es_mem *first,
                          const es_mem *wpe, int n_batch, int n_ctx, int width);
    /** Backward pass of place_patches: adds gradients to dfirst (d) and dwpe
     *  (T,d), which are f32, and sets the rows of the class token in dx to
     *  0. */
    void (*place_patches_backward)(es_backend *backend, es_mem *dx,
                                   es_mem *dfirst, es_mem *dwpe, int n_batch,
                                   int n_ctx, int width);

    /* --- normalisation --------------------------------------------------- */

    /** Computes LayerNorm. y are activations of shape (n,width); mean and rstd
     *  (n) f32 are kept for the backward pass. If `peak` is not NULL, it
     *  receives the peak (largest |x|) of the input x. */
    void (*layer_norm)(es_backend *backend, es_mem *y, es_mem *mean,
                       es_mem *rstd, es_mem *peak, const es_mem *x,
                       const es_mem *weight, const es_mem *bias, int n_rows,
                       int width, float epsilon);
    /** Backward pass of layer_norm: adds to the gradients dx (n,width), dweight
     *  (width) f32 and dbias (width) f32. */
    void (*layer_norm_backward)(es_backend *backend, es_mem *dx,
                                es_mem *dweight, es_mem *dbias,
                                const es_mem *dy, const es_mem *x,
                                const es_mem *mean, const es_mem *rstd,
                                const es_mem *weight, int n_rows, int width);

    /** Computes RMSNorm (Zhang and Sennrich, 2019): y = x * rstd * weight with
     *  rstd = 1 / sqrt(mean(x^2) + epsilon). y (n,width) is of type act; rstd
     *  (n) f32 is kept for the backward pass. */
    void (*rms_norm)(es_backend *backend, es_mem *y, es_mem *rstd, es_mem *peak,
                     const es_mem *x, const es_mem *weight, int n_rows,
                     int width, float epsilon);
    /** Backward pass of rms_norm: adds to the gradients dx (n,width) and
     *  dweight (width) f32. */
    void (*rms_norm_backward)(es_backend *backend, es_mem *dx, es_mem *dweight,
                              const es_mem *dy, const es_mem *x,
                              const es_mem *rstd, const es_mem *weight,
                              int n_rows, int width);

    /* --- matrix products ------------------------------------------------- */

    /** Computes y = x W + b or, with a residual r, y = r + x W + b. y and r are
     *  activations of shape (n,out); r may be the same array as y. */
    void (*linear)(es_backend *backend, es_mem *y, const es_mem *residual,
                   const es_mem *x, const es_linear *linear, int n_rows);
    /** Computes pre (n,out) = x W + b and post (n,out) = act(pre). The
     *  activation may be applied before or after pre is rounded. If the
     *  activation is linear, only post is written, act->peak is not written,
     *  and pre may be NULL. */
    void (*linear_act)(es_backend *backend, es_mem *pre, es_mem *post,
                       const es_mem *x, const es_linear *linear,
                       const es_act *act, int n_rows);
    /** Computes the gradient dx = dy W^T, or dx += dy W^T if `add` is true; dx
     *  are activations of shape (n,in). */
    void (*linear_backward_input)(es_backend *backend, es_mem *dx,
                                  const es_mem *dy, const es_linear *linear,
                                  int n_rows, bool add);
    /**
     * Runs the backward pass of y = act(pre) W: dpre (n,in) = (dy W^T)
     * act'(pre). Recomputes post = act(pre), so that post need not be kept.
     * Adds to dslope (1) f32 if the slope is learnt. If the activation is
     * linear, pre is not read and post is not written.
     */
    void (*linear_backward_act)(es_backend *backend, es_mem *dpre, es_mem *post,
                                es_mem *dslope, const es_mem *dy,
                                const es_mem *pre, const es_linear *linear,
                                const es_act *act, int n_rows);
    /** Converts d from the gradient of act(pre) to the gradient of pre, and
     *  recomputes post = act(pre). All are n activations. Supports only
     *  activations that are not linear and have no learnt slope. */
    void (*act_backward)(es_backend *backend, es_mem *d, es_mem *post,
                         const es_mem *pre, const es_act *act, size_t n);
    /** Computes dweight f32 = x^T dy, or dweight += x^T dy if `add`, in the
     *  layout of the weight. Unless dbias (out) f32 is NULL, adds the column
     *  sums of dy to those elements of dbias whose bias is trained. */
    void (*linear_backward_weight)(es_backend *backend, es_mem *dweight,
                                   es_mem *dbias, const es_mem *x,
                                   const es_mem *dy, const es_linear *linear,
                                   int n_rows, bool add);

    /* --- attention ------------------------------------------------------- */

    /** Applies the rotary position embedding to q and k in place. qkv, of type
     *  act, has the shape (N,3d). `back` rotates in the opposite direction,
     *  which converts gradients of rotated values to gradients of the values
     *  before the rotation. */
    void (*rotate)(es_backend *backend, es_mem *qkv,
                   const es_attention *attention, bool back);
    /**
     * Computes the causal attention of all heads without storing T x T weights.
     *
     *   y      (N,d) act     outputs of the heads, concatenated
     *   saved  (B,H,T,ES_N_SAVED) f32 for the backward pass, in a form that
     *          only the back-end knows
     *   rows   the statistics to compute; NULL: none
     *   qkv    (N,3d) act
     */
    void (*attention)(es_backend *backend, es_mem *y, es_mem *saved,
                      const es_row_mem *rows, const es_mem *qkv,
                      const es_attention *attention);
    /** Computes attention of an encoder. Each query sees the keys of its
     *  sequence whose token is not `padding`, or all keys if `tokens`, int32 of
     *  shape (B,T), is NULL. Statistics of padding rows are es_missing(), and
     *  their outputs are 0. The other arguments are those of `attention`. */
    void (*attention_whole)(es_backend *backend, es_mem *y, es_mem *saved,
                            const es_row_mem *rows, const es_mem *qkv,
                            const es_mem *tokens, int padding,
                            const es_attention *attention);
    /**
     * Computes the gradients of q, k and v from the gradients of y and of the
     * row entropies e = -sum a ln a. Let z be the scores, g_j = dy . v_j, <x> =
     * sum a x and w = dL/de:
     *
     *   softmax       dz_j = a_j [(g_j - <g>) - w (z_j - <z>)]
     *   PowerSoftmax  dz_j = p z_j^(p-1) / (c^p D) [(g_j - <g>)
     *                        - w (ln a_j + 1 - <ln a + 1>)]
     *   scaled ReLU   dz_j = (1 / L) [g_j - w (ln a_j - <ln a>)] where z_j > 0
     *
     * where c is treated as a constant, D is the denominator in README.md, and
     * L is the length by which scaled ReLU divides. If the weights do not sum
     * to one, the entropy is computed from a / sum a.
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
    /** Runs the backward pass of attention_whole; gradients of padding rows are
     *  0. */
    void (*attention_whole_backward)(es_backend *backend, es_mem *dqkv,
                                     es_mem *dlog_t, const es_mem *dy,
                                     const es_mem *y, const es_mem *dentropy,
                                     const es_mem *qkv, const es_mem *saved,
                                     const es_mem *tokens, int padding,
                                     const es_attention *attention);
    /**
     * Computes one layer's share of the entropy regularisation loss from row
     * entropies (B,H,T), and adds it to loss (1) f32. Writes its gradients to
     * dentropy (B,H,T) and adds them to dtheta (H), both multiplied by lambda *
     * scale * loss_scale. loss_scale is read from `control` (es_control) and is
     * 1 if `control` is NULL; each output may be NULL. A row whose entropy is
     * not finite does not contribute.
     */
    void (*entropy_penalty)(es_backend *backend, es_mem *loss, es_mem *dentropy,
                            es_mem *dtheta, const es_mem *entropy,
                            const es_penalty *penalty, float scale,
                            const es_mem *control);
    /** Adds the row statistics of all layers, (L,B,H,T), to `sums`, an array
     *  (L,H) of es_head_sums that the host has initialised. Treats each layer
     *  as es_head_sums_add_rows does. */
    void (*measure_rows)(es_backend *backend, es_mem *sums,
                         const es_row_mem *rows, int n_layer, int n_batch,
                         int n_head, int n_ctx);

    /* --- range losses: ranges.h ------------------------------------------ */

    /** find_peak finds the largest |x| of the n > 0 activations x, and writes
     *  it with its sign and index to `peak`, a single es_peak; among equal
     *  values, the first is written. Also adds this |x| to the peak's sum.
     *  find_score_peak does the same for the visible scores of PowerSoftmax,
     *  computed from `saved` and qkv (N,3d), to which any rotary embedding has
     *  been applied. The peak is 0 if all rows are padding. */
    void (*find_peak)(es_backend *backend, es_mem *peak, const es_mem *x,
                      size_t n);
    void (*find_score_peak)(es_backend *backend, es_mem *peak,
                            const es_mem *qkv, const es_mem *saved,
                            const es_attention *attention,
                            const es_sight *sight);
    /** pull_peak adds scale * loss_scale * sign, the gradient of the range
     *  loss, to the element of dx at the index of the peak. pull_score_peak
     *  adds the gradient of the largest score to dqkv (N,3d). loss_scale is
     *  read from `control` (es_control) and is 1 if `control` is NULL. */
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
     *   qkv   (N, 3 * n_head * width) act, written
     *   rstd  (N,n_head + n_kv_head) f32, 1/rms in the norms of q and k,
     *         written; NULL without norms
     *   q     (N, n_head * width) act
     *   k, v  (N, n_kv_head * width) act
     */
    void (*spread_heads)(es_backend *backend, es_mem *qkv, es_mem *rstd,
                         const es_mem *q, const es_mem *k, const es_mem *v,
                         const es_sharing *sharing);
    /** Backward pass of spread_heads: replaces q, k and v by their gradients,
     *  and adds to dq_weight and dk_weight (width) f32, which are NULL without
     *  norms. */
    void (*gather_heads)(es_backend *backend, es_mem *q, es_mem *k, es_mem *v,
                         es_mem *dq_weight, es_mem *dk_weight,
                         const es_mem *dqkv, const es_mem *rstd,
                         const es_sharing *sharing);
    /** Computes y = gate * sigmoid(gate) * up for n activations each. */
    void (*swiglu)(es_backend *backend, es_mem *y, const es_mem *gate,
                   const es_mem *up, size_t n);
    /** Backward pass of swiglu: converts d from the gradient of y to the
     *  gradient of up, replaces gate by its gradient, and recomputes y, so that
     *  y need not be kept. */
    void (*swiglu_backward)(es_backend *backend, es_mem *d, es_mem *gate,
                            es_mem *y, const es_mem *up, size_t n);

    /* --- family sas ------------------------------------------------------- */

    /** Computes the outputs of the heads in family sas: y = a * v + b * heads -
     *  c * m, where m is the mean of v over all tokens up to the current one. y
     *  is of type act and shape (N,d), and v is part of qkv. Each head has
     *  separate gains a, b and c, the rows of `gains`, f32 of shape (3,H). */
    void (*shape_heads)(es_backend *backend, es_mem *y, const es_mem *heads,
                        const es_mem *qkv, const es_mem *gains,
                        const es_attention *attention);
    /** Backward pass of shape_heads: writes dheads, the gradient of `heads`,
     *  converts d from the gradient of y to the gradient of v, and adds the
     *  gradients of the gains to dgains (3,H) f32. */
    void (*shape_heads_backward)(es_backend *backend, es_mem *dheads, es_mem *d,
                                 es_mem *dgains, const es_mem *heads,
                                 const es_mem *qkv, const es_mem *gains,
                                 const es_attention *attention);
    /** Adds n gradients of activations: y += x. */
    void (*add_gradient)(es_backend *backend, es_mem *y, const es_mem *x,
                         size_t n);

    /* --- SM(gate): a sigmoid gate on the heads' outputs ------------------- */

    /** Computes y = x * sigmoid(gate) for n activations each. */
    void (*gate)(es_backend *backend, es_mem *y, const es_mem *x,
                 const es_mem *gate, size_t n);
    /** Backward pass of gate. Let s = sigmoid(gate). Computes dx = dy * s,
     *  where dx may be the same array as dy, and replaces gate by its gradient
     *  dy * x * s * (1 - s). */
    void (*gate_backward)(es_backend *backend, es_mem *dx, es_mem *gate,
                          const es_mem *dy, const es_mem *x, size_t n);

    /* --- SM(clip tau): QK-Clip ------------------------------------------- */

    /** For QK-Clip of softmax attention: raises each head's element of `out`
     *  (H) f32 to the head's largest logit in the pass that wrote `saved`, if
     *  that logit is larger. The logit includes the temperature and the
     *  rounding to fp16. An element becomes NaN if a row of its head was not
     *  finite, and stays NaN. */
    void (*largest_logits)(es_backend *backend, es_mem *out,
                           const es_mem *saved, const es_attention *attention);
    /** Computes QK-Clip's factors (n) f32 from the largest logits (n) f32:
     *  sqrt(tau / largest) if `largest` is finite and above tau, else 1. All
     *  factors are 1 if `control` (es_control) skips the step. */
    void (*qk_factors)(es_backend *backend, es_mem *factors,
                       const es_mem *largest, float tau, int n,
                       const es_mem *control);
    /** Multiplies the columns of q and k of each head in x (n_in,3d) f32 by the
     *  head's factor in factors (H) f32; columns of v are unchanged. With a
     *  factor of 1, no bit of q and k changes. */
    void (*scale_heads)(es_backend *backend, es_mem *x, const es_mem *factors,
                        int n_in, int n_head, int d_model);

    /* --- residual of the scaled FFNs ------------------------------------- */

    /** Computes y = beta * x + f / alpha for n activations; alpha and beta are
     *  single f32 numbers. */
    void (*combine)(es_backend *backend, es_mem *y, const es_mem *x,
                    const es_mem *f, const es_mem *alpha, const es_mem *beta,
                    size_t n);
    /** Backward pass of combine: dx = beta * dy (dx may be the same array as
     *  dy) and df = dy / alpha; adds to the gradients dalpha and dbeta. */
    void (*combine_backward)(es_backend *backend, es_mem *dx, es_mem *df,
                             es_mem *dalpha, es_mem *dbeta, const es_mem *dy,
                             const es_mem *x, const es_mem *f,
                             const es_mem *alpha, const es_mem *beta, size_t n);

    /**
     * Computes n activations y: r + x / (1 - rate) where x is kept, and r where
     * x is dropped. r is the residual, 0 if NULL; y may be the same array as r
     * or x. A NaN stays NaN even if it is dropped.
     *
     *   pass  (1) uint64: number of the micro-batch in the training run
     */
    void (*dropout)(es_backend *backend, es_mem *y, const es_mem *residual,
                    const es_mem *x, const es_dropout *how, const es_mem *pass,
                    size_t n);

    /* --- loss ------------------------------------------------------------ */

    /** Computes row_loss (n) f32 = -log softmax(logits)[target], and lse (n)
     *  f32 for the backward pass. If the back-end has add_share, a row whose
     *  target is ES_NO_TARGET has loss 0 and no gradient. logits (n,V), which
     *  are activations, have the row stride `stride`, which is V or
     *  row_stride(V); targets (n) int32 in [0,V). */
    void (*cross_entropy)(es_backend *backend, es_mem *row_loss, es_mem *lse,
                          const es_mem *logits, const es_mem *targets,
                          int n_rows, int vocab, int stride);
    /** Replaces logits by scale * loss_scale * (softmax(logits) -
     *  onehot(target)). loss_scale is read from `control` (es_control) and is 1
     *  if `control` is NULL. */
    void (*cross_entropy_backward)(es_backend *backend, es_mem *logits,
                                   const es_mem *lse, const es_mem *targets,
                                   float scale, const es_mem *control,
                                   int n_rows, int vocab, int stride);
    /** Does the work of cross_entropy and cross_entropy_backward in one call,
     *  without storing lse. NULL if the model must call the two operations. */
    void (*cross_entropy_both)(es_backend *backend, es_mem *row_loss,
                               es_mem *logits, const es_mem *targets,
                               float scale, const es_mem *control, int n_rows,
                               int vocab, int stride);
    /** Adds the mean of the n f32 numbers x, computed in double, to `sum`, a
     *  single f64. */
    void (*add_mean)(es_backend *backend, es_mem *sum, const es_mem *x,
                     size_t n);
    /** Like add_mean, but adds the mean over only n_counted of the rows; the
     *  other rows of x must be 0. */
    void (*add_share)(es_backend *backend, es_mem *sum, const es_mem *x,
                      size_t n, int n_counted);

    /* --- normalised weights: section 5 ----------------------------------- */

    /* Weights w, v, m and their gradients are f32 matrices (in,stride), of
     * which only the columns selected by `columns` are read and written;
     * element 0 of g and u (n) belongs to the first selected column. The
     * formulas have no epsilon: a column of zeros becomes NaN under
     * weight_norm; a matrix of zeros becomes NaN under spectral_norm, with its
     * u and v. A NaN stays in its column under weight_norm; under spectral_norm
     * it spreads to all of w, u and v, and u and v do not recover. */

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
     * power iterations. Each iteration sets v = m u / |m u| and then u = m^T v
     * / |m^T v|. n_iterations = 0 leaves u (n) and v (in) f32 unchanged.
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
    /** Computes the logarithms (n) f32 of temperatures t (n) f32 that are
     * learnt directly: log_t = ln(max(t, ES_LEAST_TEMPERATURE)); NaN for NaN.
     */
    void (*temperature_logs)(es_backend *backend, es_mem *log_t,
                             const es_mem *t, size_t n);
    /** Backward pass of temperature_logs: dt += dlog_t / max(t,
     *  ES_LEAST_TEMPERATURE). The maximum does not stop the gradient, so that a
     *  temperature below the minimum can rise again. */
    void (*temperature_logs_backward)(es_backend *backend, es_mem *dt,
                                      const es_mem *dlog_t, const es_mem *t,
                                      size_t n);
    /** Copies columns that are not normalised: y = x, or y += x if `add` is
     *  true. */
    void (*copy_columns)(es_backend *backend, es_mem *y, const es_mem *x,
                         const es_columns *columns, bool add);

    /* --- statistics and update ------------------------------------------- */

    /** Adds n activations to the statistics in `sums`, a single es_layer_sums.
     */
    void (*activation_stats)(es_backend *backend, es_mem *sums, const es_mem *x,
                             size_t n);
    /** Computes `out`, a single f64: the sum of the squares of the n f32
     *  numbers x, in double. */
    void (*sum_squares)(es_backend *backend, es_mem *out, const es_mem *x,
                        size_t n);
    /**
     * Sets the members grad_scale and skips of `control` (es_control).
     * `squares`, one f64, is the sum of squares of the gradients, which contain
     * the factor loss_scale. grad_scale becomes 1 / loss_scale, multiplied by
     * max_norm / norm if 0 < max_norm < norm. If the norm is not finite,
     * gradients are not clipped. If `may_skip` is true and the norm or the
     * loss, one f64, is not finite, skips becomes 1; otherwise it is unchanged.
     * `loss` may be NULL.
     */
    void (*clip)(es_backend *backend, es_mem *control, const es_mem *squares,
                 const es_mem *loss, float max_norm, bool may_skip);
    /** Updates param, moment1, moment2 (n) f32 from grad, according to control
     *  (es_control), and updates the copy made by `keep`. */
    void (*adamw)(es_backend *backend, es_mem *param, es_mem *moment1,
                  es_mem *moment2, const es_mem *grad, size_t n,
                  const es_adamw *how, const es_mem *control);
} es_ops;

/** Precision of activations and matrix products. Statistics, parameters and
 *  sums are always f32 or f64. */
typedef enum es_precision {
    ES_FP32, /* exact f32 matrix products, for comparisons */
    ES_TF32, /* f32 activations, matrix products with 10-bit mantissas */
    ES_BF16,
    ES_FP16,
    ES_N_PRECISIONS
} es_precision;

/** Names of the precisions: "fp32", "tf32", "bf16", "fp16". */
extern const char *const es_precision_names[ES_N_PRECISIONS];

/** The built-in CPU back-end with fp32 activations; cpu.h declares the one with
 *  bf16. */
extern const es_ops es_cpu_ops;

/**
 * Finds the table of a back-end; it remains valid for the life of the process.
 *
 *   name  "cpu" (fp32 and bf16), or "cuda", which is the shared library next to
 *         the program or the library named by ENTROPY_TRAIN_CUDA
 *
 * Returns ES_OK; ES_EUSAGE (there is no such back-end, or it does not support
 * the precision); ES_EIO (the back-end's library is missing or cannot be
 * loaded); or ES_EVERSION (the library belongs to another build).
 */
es_status es_ops_find(const es_ops **out, const char *name,
                      es_precision precision) ES_MUST_USE;

/**
 * Same as es_ops_find, but also accepts "auto", which selects "cuda" if its
 * library can be loaded and a device can be opened, and "cpu" otherwise.
 *
 *   note  (size) output: the reason in one line if "auto" has chosen the CPU,
 *         else ""
 */
es_status es_ops_choose(const es_ops **out, const char *name,
                        es_precision precision, char *note,
                        size_t size) ES_MUST_USE;

/**
 * The type of the function that a back-end's library exports. It returns the
 * table for a precision, or NULL if the back-end does not support the
 * precision. The library also exports the ES_OPS_STAMP with which it was built.
 */
typedef const es_ops *es_ops_getter(es_precision precision);
#define ES_OPS_GETTER "es_cuda_ops" /* name of the exported es_ops_getter */
/* name of the exported const unsigned ES_OPS_STAMP */
#define ES_OPS_STAMP_NAME "es_cuda_ops_stamp"

/** Increment this number whenever the meaning of an entry of es_ops changes. */
#define ES_OPS_VERSION 21
#define ES_OPS_STAMP ((unsigned)(ES_OPS_VERSION << 16 | (int)sizeof(es_ops)))

#endif
