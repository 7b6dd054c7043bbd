/**
 * What `--record standard` and `all` measure beside the statistics of rows:
 * the series of analyzer/heads/details.h, of models on a back-end that has
 * es_detail_ops. N = B T rows of a micro-batch; means and extremes are over
 * all micro-batches of the step or the evaluation.
 *
 * Of heads:
 *
 *   entropy_p05, _p50, _p95  nats: quantiles over the finite rows of a
 *                            micro-batch, interpolated between the two nearest
 *                            rows; the mean of the micro-batches'. NaN: no
 *                            finite row
 *   q_rms, k_rms, v_rms      sqrt of the mean over rows of |q_i|^2, i over
 *                            d_k dimensions, after bias and rotation
 *   head_grad_norm           norm of the loss's gradient with respect to the
 *                            head's columns of W_Q, W_K, W_V and rows of W_O,
 *                            before clipping: of the parameters, where WNorm
 *                            or SNorm makes weights of them
 *   qk_sigma                 largest singular value of W_Q W_K^T (d x d), the
 *                            weights of the forward pass, without 1/sqrt(d_k):
 *                            by power iteration, from below
 *   qk_stable_rank           squares of all its singular values over that of
 *                            the largest, 1 .. d_k. NaN: W_Q or W_K is 0
 *
 * Of layers:
 *
 *   act_max, act_kurtosis    of the block's output: largest |x|; fourth central
 *                            moment over the square of the second, 3 of normal
 *                            numbers. NaN where one is not finite; kurtosis
 *                            also where all are the same
 *   ffn_ratio                what the FFN adds over what it is added to, by
 *                            their norms: |x_out - beta x'| / |beta x'|;
 *                            missing without FFN. In bf16 the difference has
 *                            three digits less than the activations
 *   range_attn, _act, _norm  the largest |input| of PowerSoftmax, the
 *                            activation and the norms: ranges.h; with a range
 *                            loss, and of an evaluation by polynomials, in
 *                            every record, whatever the set
 *   clipped_attn, _act, _norm  of an evaluation by polynomials (polynomial.h),
 *                            whatever the set: how many denominators, inputs
 *                            of the activation and variances were outside of
 *                            their intervals, or not finite; of all norms of
 *                            the layer, in the last one that after it included
 *   approx_error_attn, _act, _norm  likewise: the largest absolute error of
 *                            weights, activations, and normalised numbers
 *                            before weight and bias, against the exact form in
 *                            float64; NaN: one of the two was not finite
 *   layer_grad_norm          as head_grad_norm, of all parameters h.L.*
 *   update_ratio             |dw| / |w| over them: AdamW's change of the step,
 *                            decay and clipping included, before it is rounded
 *                            into the weights, and the weights before it
 *   sigma_q .. sigma_proj    SNorm's sigma by matrix; the fused FFN's is
 *                            sigma_fc
 *   g_q .. g_proj            WNorm's g by matrix: root mean square over
 *                            columns; whole: parameter_series.h
 *
 * What is not finite among these is a NaN or an infinity, never missing.
 */
#ifndef ES_MODEL_DETAILS_H
#define ES_MODEL_DETAILS_H

#include "analyzer/heads/details.h"
#include "hooks/trainer/model/model.h"

/** True if measured passes of the model take it (config->record, the back-end,
 *  the architecture). */
bool es_detail_exists(const es_model *model, es_detail detail);

/** True if its rows have statistics of scores. */
bool es_model_takes_scores(const es_model *model);

/**
 * Whether measured passes from now on, those of one es_model_begin, also take
 * the details of attention's inputs, of the weights and of the update, which
 * cost more than the others: true in a new model.
 */
void es_model_measure_all(es_model *model, bool all);

/** Details of the passes between es_model_begin and es_model_end, to be added
 *  up: es_measure. */
typedef struct es_detail_sums {
    const es_head_details *heads;   /* (L,H); NULL: none are taken */
    const es_layer_details *layers; /* (L) */
    bool has_inputs, has_weights, has_step, has_update;
} es_detail_sums;

es_detail_sums es_model_details(const es_model *model);

/** Adds what is a sum or an extreme over passes; what belongs to weights and
 *  to a step stays. */
void es_head_details_add(es_head_details *to, const es_head_details *more);
void es_layer_details_add(es_layer_details *to, const es_layer_details *more);

#endif
