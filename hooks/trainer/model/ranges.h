/**
 * How large the inputs become of what a polynomial has to stand for under
 * encryption: scores under PowerSoftmax, what an activation is given, what
 * LayerNorm or RMSNorm is given.
 *
 * A layer's range is the largest |input| of the passes that are looked at.
 * Range losses (PowerSoftmax, eq. 8) add to the loss, for each kind of input,
 * its weight times the sum over layers of a micro-batch's ranges, norms one by
 * one; their sub-gradient is the sign of the input that is the largest. Taken
 * where the model is trained with one of them, and by measured passes of
 * `--record standard`.
 */
#ifndef ES_RANGES_H
#define ES_RANGES_H

#include "hooks/trainer/model/model.h"

/** True if measured passes know it: the back-end, the architecture and what is
 *  recorded. */
bool es_model_has_range(const es_model *model, es_range_kind range);

/**
 * Of a layer's inputs in the passes between es_model_begin, which measured, and
 * es_model_end; of the larger one of its norms, in the last layer that after it
 * included. NaN: one of them was; es_missing(): the layer has no such input.
 */
float es_model_range(const es_model *model, es_range_kind range, int layer);

#endif
