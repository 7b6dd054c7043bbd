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

/** Returns true if the ranges of this kind are computed when a pass is
 *  measured. This depends on the back-end, the architecture and --record. */
bool es_model_has_range(const es_model *model, es_range_kind range);

/**
 * Returns a layer's range over the passes between es_model_begin, whose
 * argument `measure` must have been true, and es_model_end. If the layer has
 * two norms, returns the larger of their ranges; the last norm belongs to the
 * last layer. NaN if an input was NaN; es_missing() if the layer has no such
 * input.
 */
float es_model_range(const es_model *model, es_range_kind range, int layer);

/* --- used by passes and the report ---------------------------------------- */

/** Operations in a layer whose largest input is found (ranges.c). */
typedef enum es_peak_place {
    ES_PEAK_ATTN,
    ES_PEAK_ACT,
    ES_PEAK_NORM_1, /* in layer -1, the norm after the last layer */
    ES_PEAK_NORM_2,
    ES_N_PEAKS
} es_peak_place;

/** Returns the number of operations of the whole model whose largest input is
 *  found when a pass is measured. */
size_t es_model_n_peaks(const es_model *model);

/** Returns the memory in which the operation `place` must store its largest
 *  input, or NULL if the largest input is not needed. */
es_mem *es_model_sought_peak(const es_model *model, int layer,
                             es_peak_place place);

/** es_model_find_peak finds the largest |x| of n activations, and
 *  es_model_find_score_peak the largest score of the last attention. Both store
 *  it as the largest input of the operation `place`. They do nothing if this
 *  largest input is not needed. */
void es_model_find_peak(const es_model *model, int layer, es_peak_place place,
                        const es_mem *x, size_t n);
void es_model_find_score_peak(const es_model *model, int layer);

/** Add the gradient of the range loss, if the loss includes one, to the
 *  gradient of x, or of qkv after its rotation. */
void es_model_pull_peak(const es_model *model, int layer, es_peak_place place,
                        es_mem *dx);
void es_model_pull_score_peak(const es_model *model, int layer, es_mem *dqkv);

/** Returns the weighted sum of all range losses, averaged over passes. */
double es_model_range_loss(const es_model *model);

#endif
