/**
 * Measures details, which are series that `--record standard` and `all` record
 * in addition to the statistics of rows, if the back-end has es_detail_ops. The
 * details are listed in analyzer/heads/details.h. A micro-batch has N = B T
 * rows; means and extremes are taken over all micro-batches of the step or the
 * evaluation.
 *
 * Series of heads:
 *
 *   entropy_p05, _p50, _p95  quantiles in nats over the finite rows of a
 *                            micro-batch, interpolated between the two nearest
 *                            rows, and averaged over micro-batches. NaN if no
 *                            row is finite
 *   q_rms, k_rms, v_rms      square root of the mean of |q|^2 over rows, where
 *                            q is the head's query (d_k) after bias and
 *                            rotation; likewise for keys and values
 *   head_grad_norm           norm of the loss's gradient with respect to the
 *                            head's columns of W_Q, W_K, W_V and rows of W_O,
 *                            before clipping; with WNorm or SNorm the gradient
 *                            of the parameters behind these weights
 *   qk_sigma                 largest singular value of W_Q W_K^T (d x d), the
 *                            weights of the forward pass, without 1/sqrt(d_k);
 *                            a lower bound from power iteration
 *   qk_stable_rank           sum of the squares of all singular values of W_Q
 *                            W_K^T over the square of the largest, 1 .. d_k.
 *                            NaN if W_Q or W_K is 0
 *
 * Series of layers:
 *
 *   act_max                  largest |x| of the block's output; NaN if an x is
 *                            not finite
 *   act_kurtosis             fourth central moment of the block's output over
 *                            the square of the second; 3 for a normal
 *                            distribution. NaN if a value is not finite, or if
 *                            all values are equal
 *   ffn_ratio                |x_out - beta x'| / |beta x'|: norm of the FFN's
 *                            contribution over the norm of the residual stream
 *                            before it; missing without FFN. In bf16 the
 *                            difference has three digits fewer than activations
 *   range_attn, _act, _norm  largest |input| of PowerSoftmax, the activation
 *                            and the norms (ranges.h). With a range loss or an
 *                            evaluation with polynomials they are part of every
 *                            record, whatever the recorded set
 *   clipped_attn, _act,      numbers of denominators, inputs of the activation
 *   clipped_norm             and variances that were outside the intervals of
 *                            their polynomials, or not finite, in an evaluation
 *                            with polynomials (polynomial.h), whatever the
 *                            recorded set. The number includes all norms of the
 *                            layer, and in the last layer the last norm
 *   approx_error_attn,       largest absolute error of weights, activations and
 *   approx_error_act,        normalised values (before weight and bias) in such
 *   approx_error_norm        an evaluation, relative to the exact form in
 *                            float64. NaN if an approximate or an exact value
 *                            was not finite
 *   layer_grad_norm          like head_grad_norm for all parameters h.L.*
 *   update_ratio             |dw| / |w| over all parameters h.L.*: AdamW's
 *                            change in the step, including decay and clipping,
 *                            before it is rounded into the weights, over the
 *                            weights before the step
 *   sigma_q .. sigma_proj    SNorm's sigma of each matrix; the series of the
 *                            fused FFN is sigma_fc
 *   g_q .. g_proj            root mean square of WNorm's g over the columns of
 *                            each matrix; single values: parameter_series.h
 *
 * A detail that is not finite is recorded as NaN or infinity, never as missing.
 */
#ifndef ES_MODEL_DETAILS_H
#define ES_MODEL_DETAILS_H

#include "analyzer/heads/details.h"
#include "hooks/trainer/model/model.h"

/** Returns true if the model computes this statistic when a pass is measured.
 *  This depends on config->record, the back-end and the architecture. */
bool es_detail_exists(const es_model *model, es_detail detail);

/** Returns false if the statistic describes the FFN or a normalised matrix that
 *  the layer does not have; its value is then missing. Details whose source is
 *  ES_DETAIL_RANGE or ES_DETAIL_POLYNOMIAL are not checked. */
bool es_detail_is_of_layer(const es_model_config *config, es_detail detail,
                           int layer);

/** Returns true if the model computes the row statistics that are based on
 *  scores (es_row_statistic_is_of_scores). */
bool es_model_takes_scores(const es_model *model);

/**
 * Selects whether measured passes, from the next es_model_begin on, also
 * compute the expensive details: the additional statistics of the attention's
 * inputs, of the weights and of the update. The default is true.
 */
void es_model_measure_all(es_model *model, bool all);

/** The details (additional statistics) of the passes between es_model_begin and
 *  es_model_end. es_measure adds up the details of several such calls. */
typedef struct es_detail_sums {
    const es_head_details *heads; /* (L,H); NULL if no details were measured */
    const es_layer_details *layers; /* (L) */
    bool has_inputs, has_weights, has_step, has_update;
} es_detail_sums;

es_detail_sums es_model_details(const es_model *model);

/** Add the sums and extremes in `more` to those in `to`. The statistics of
 *  weights and of the update in `to` remain unchanged. */
void es_head_details_add(es_head_details *to, const es_head_details *more);
void es_layer_details_add(es_layer_details *to, const es_layer_details *more);

/* --- used by passes and steps --------------------------------------------- */

/** Returns true if measured passes record any details. */
bool es_model_has_details(const es_model *model);

/** Computes the details (additional statistics) of a layer's attention, and
 *  adds them to the sums of its heads. Must be called right after the
 *  attention, while the data are in the cache. */
void es_model_detail_attention(const es_model *model, int layer);

/** Computes the details (additional statistics) of the output of layer `layer`,
 *  which has just been written. */
void es_model_detail_block(const es_model *model, int layer);

/** Computes the statistics of the weights that the last pass used, if this step
 *  records them. */
void es_model_detail_weights(es_model *model);

/** Computes the statistics of the update that has just been made, such as
 *  update_ratio. */
void es_model_detail_step(es_model *model, const es_train_config *train);

#endif
