/**
 * Details: the series of analyzer/heads/details.h that `--record standard` and
 * `all` measure in addition to the statistics of rows, if the back-end has
 * es_detail_ops. N = B T rows of a micro-batch; means and extremes are over all
 * micro-batches of the step or the evaluation.
 *
 * Series of heads:
 *
 *   entropy_p05, _p50, _p95  nats: quantiles over the finite rows of a
 *                            micro-batch, interpolated between the two nearest
 *                            rows, and averaged over micro-batches. NaN: no
 *                            finite row
 *   q_rms, k_rms, v_rms      sqrt of the mean over rows of |q_i|^2, i over
 *                            d_k dimensions, after bias and rotation
 *   head_grad_norm           norm of the loss's gradient with respect to the
 *                            head's columns of W_Q, W_K, W_V and rows of W_O,
 *                            before clipping; with WNorm or SNorm the gradient
 *                            of the parameters behind these weights
 *   qk_sigma                 largest singular value of W_Q W_K^T (d x d), the
 *                            weights of the forward pass, without 1/sqrt(d_k);
 *                            power iteration, a lower bound
 *   qk_stable_rank           sum of the squares of all its singular values over
 *                            the square of the largest, 1 .. d_k. NaN: W_Q or
 *                            W_K is 0
 *
 * Series of layers:
 *
 *   act_max, act_kurtosis    of the block's output: largest |x|; fourth central
 *                            moment over the square of the second, 3 for normal
 *                            numbers. NaN if one is not finite; kurtosis also
 *                            if all are equal
 *   ffn_ratio                norm of the FFN's contribution over the norm of
 *                            what it is added to: |x_out - beta x'| / |beta
 * x'|; missing without FFN. In bf16 the difference has three digits less than
 * the activations range_attn, _act, _norm  the largest |input| of PowerSoftmax,
 * the activation and the norms: ranges.h; in every record if there is a range
 * loss or an evaluation by polynomials, whatever the set clipped_attn, _act,
 * _norm  of an evaluation by polynomials (polynomial.h), whatever the set:
 * numbers of denominators, inputs of the activation and variances that were
 * outside their intervals, or not finite; over all norms of the layer, the last
 * norm counting for the last layer approx_error_attn, _act, _norm  likewise:
 * the largest absolute error of weights, activations, and normalised numbers
 *                            before weight and bias, relative to the exact form
 *                            in float64; NaN: one of the two was not finite
 *   layer_grad_norm          like head_grad_norm for all parameters h.L.*
 *   update_ratio             |dw| / |w| over them: AdamW's change in the step,
 *                            decay and clipping included, before it is rounded
 *                            into the weights, over the weights before it
 *   sigma_q .. sigma_proj    SNorm's sigma by matrix; that of the fused FFN is
 *                            sigma_fc
 *   g_q .. g_proj            WNorm's g by matrix: root mean square over
 *                            columns; single values: parameter_series.h
 *
 * A detail that is not finite is recorded as NaN or infinity, never as missing.
 */
#ifndef ES_MODEL_DETAILS_H
#define ES_MODEL_DETAILS_H

#include "analyzer/heads/details.h"
#include "hooks/trainer/model/model.h"

/** Returns true if measured passes of the model record the detail, which
 *  depends on config->record, the back-end and the architecture. */
bool es_detail_exists(const es_model *model, es_detail detail);

/** Returns true if the model's rows have statistics of scores. */
bool es_model_takes_scores(const es_model *model);

/**
 * Sets whether measured passes, from the next es_model_begin, also measure the
 * expensive details: those of attention's inputs, of the weights and of the
 * update. True in a new model.
 */
void es_model_measure_all(es_model *model, bool all);

/** Details of the passes between es_model_begin and es_model_end, which
 *  es_measure adds up. */
typedef struct es_detail_sums {
    const es_head_details *heads;   /* (L,H); NULL: no details were measured */
    const es_layer_details *layers; /* (L) */
    bool has_inputs, has_weights, has_step, has_update;
} es_detail_sums;

es_detail_sums es_model_details(const es_model *model);

/** Add the sums and extremes over passes; the details of weights and of a step
 *  are unchanged. */
void es_head_details_add(es_head_details *to, const es_head_details *more);
void es_layer_details_add(es_layer_details *to, const es_layer_details *more);

#endif
