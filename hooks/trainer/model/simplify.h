/** Simplifies a trained model for private inference (AERO): folds WNorm and
 *  SNorm into the matrices, multiplies the two matrices of linear FFNs, and
 *  drops the FFNs of layers. Only a dropped FFN changes the function. */
#ifndef ES_MODEL_SIMPLIFY_H
#define ES_MODEL_SIMPLIFY_H

#include "hooks/trainer/model/model.h"

/**
 * Computes the configuration of the simplified model: without WNorm and SNorm,
 * and with ScFuFFN if all FFNs are linear. If only some are, ScFFN in a range
 * of layers becomes ScFuFFN in this range. If all other layers have ScFuFFN and
 * the layers without FFN are the last or the first ones, the architecture is
 * written with ScFuFFNi x or ScFuFFNe x; otherwise with NoFFN and ranges.
 *
 *   config  a checked configuration
 *   drop    layers that lose their FFN, if they have one
 *
 * Returns ES_OK, or ES_EUSAGE if nothing can be simplified, if `drop` has a
 * range with a layer that does not exist or without any FFN, if the new
 * architecture has too many ranges, or if the family has no ScFuFFN.
 */
es_status es_simplify_config(es_model_config *out,
                             const es_model_config *config,
                             const es_layer_set *drop) ES_MUST_USE;

/**
 * Stores the weights of `from` in `to`, whose configuration es_simplify_config
 * has computed from that of `from`.
 *
 * Normalised matrices are those of an evaluation: WNorm's g * V / |V|, and
 * SNorm's W / sigma with the stored vectors. Products are sums in double,
 * rounded once. Let W = Wfc * Wpr and c = bfc * Wpr + bpr, the FFN's matrix and
 * constant. ScFuFFN has no bias, so c moves to another bias; alpha and beta are
 * those of the layer, 1 if `from` has none:
 *
 *     pythia         c / (alpha * beta) is added to the attention's output bias
 *     gpt2, no LN    delta is added to it, with delta * (W + alpha * beta) = c
 *     gpt2 with LN   delta is added to the bias of ln_2, with delta * W = c
 *
 *   where  beginning of error messages: the file's path
 *
 * Returns ES_OK; ES_EFORMAT, naming the array, if a value is not finite, or if
 * c cannot be moved because the matrix is singular; ES_ENOMEM. After a failure
 * `to` must not be used.
 */
es_status es_simplify_model(es_model *to, es_model *from,
                            const char *where) ES_MUST_USE;

#endif
