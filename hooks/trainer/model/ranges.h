/**
 * Measures and penalises the magnitude of the inputs that a polynomial must
 * cover under encryption: scores of PowerSoftmax, inputs of an activation,
 * inputs of LayerNorm or RMSNorm.
 *
 * A layer's range is the largest |input| over the measured passes. A range loss
 * (PowerSoftmax, eq. 8) is, for one kind of input, a weight times the sum over
 * layers of a micro-batch's ranges, each norm counted separately; its
 * sub-gradient is the sign of the largest input. Ranges are found if the model
 * is trained with a range loss, and in measured passes of `--record standard`.
 */
#ifndef ES_RANGES_H
#define ES_RANGES_H

#include "hooks/trainer/model/model.h"

/** Returns true if measured passes find ranges of this kind, which depends on
 *  the back-end, the architecture and the recorded set. */
bool es_model_has_range(const es_model *model, es_range_kind range);

/**
 * Returns a layer's range over the passes between es_model_begin, which must
 * have measured, and es_model_end. If the layer has two norms, the larger range
 * counts; the last layer includes the last norm. NaN if an input was NaN;
 * es_missing() if the layer has no such input.
 */
float es_model_range(const es_model *model, es_range_kind range, int layer);

#endif
