/**
 * Measures and penalises the magnitude of the inputs that a polynomial must
 * cover under encryption: scores of PowerSoftmax, inputs of an activation,
 * inputs of LayerNorm or RMSNorm.
 *
 * A layer's range is the largest |input| over the measured passes. The range
 * loss of one kind of input (PowerSoftmax, eq. 8) is a weight times the sum of
 * the ranges of all layers in a micro-batch, with a separate range for each
 * norm. Its sub-gradient is the sign of the largest input. Ranges are
 * determined in training with a range loss, and in measured passes with
 * `--record standard` or `all`.
 */
#ifndef ES_RANGES_H
#define ES_RANGES_H

#include "hooks/trainer/model/model.h"

/** Returns true if measured passes find ranges of this kind, which depends on
 *  the back-end, the architecture and the recorded set. */
bool es_model_has_range(const es_model *model, es_range_kind range);

/**
 * Returns a layer's range over the passes between es_model_begin, whose
 * argument `measure` must have been true, and es_model_end. If the layer has
 * two norms, returns the larger of their ranges; the last norm belongs to the
 * last layer. NaN if an input was NaN; es_missing() if the layer has no such
 * input.
 */
float es_model_range(const es_model *model, es_range_kind range, int layer);

#endif
