/**
 * Collects the statistics of heads and layers over the micro-batches of a
 * training step or of an evaluation, and returns them as samples for the
 * recorder.
 */
#ifndef ES_MEASURE_H
#define ES_MEASURE_H

#include "hooks/trainer/model/details.h"
#include "hooks/trainer/model/parameter_series.h"
#include "hooks/trainer/model/polynomial.h"

typedef enum es_layer_series {
    ES_LAYER_NAN_ACTIVATIONS,
    ES_LAYER_ACT_RMS,
    ES_N_LAYER_SERIES
} es_layer_series;

extern const char *const es_layer_series_names[ES_N_LAYER_SERIES];

typedef struct es_measure es_measure;

/** Creates an empty collection of statistics for models with this
 *  configuration. Returns ES_OK or ES_ENOMEM. */
es_status es_measure_new(es_measure **out,
                         const es_model_config *config) ES_MUST_USE;
void es_measure_free(es_measure *measure); /* NULL is allowed */

/** Removes everything that was added to `measure`. */
void es_measure_reset(es_measure *measure);

/** Adds to `measure` the statistics of the passes that the model has made
 *  between the last es_model_begin and es_model_end. The argument `measure` of
 *  es_model_begin must have been true. */
void es_measure_add(es_measure *measure, const es_model *model);

/** Returns the number of forward passes that were added since the last reset.
 *  */
int es_measure_n_batches(const es_measure *measure);

/**
 * Return the values of each head or layer over all added passes, as float32.
 *
 * Series of heads are defined in analyzer/heads; values are NaN if the model's
 * attention does not have the series. act_rms is the root mean square of all
 * activations, NaN if an activation is not finite.
 *
 *   es_measure_heads   (L,H), borrowed until the next call
 *   es_measure_layers  (L)
 */
const float *es_measure_heads(es_measure *measure, es_head_series series);
const float *es_measure_layers(es_measure *measure, es_layer_series series);

/**
 * Returns a series of parameters with its values before the first added pass,
 * which are the values before the step's update; (L,H) or (L), borrowed until
 * the next reset. The model must have the series.
 */
const float *es_measure_parameters(const es_measure *measure,
                                   es_parameter_series series);

/** Returns the individual values of temperatures and of WNorm's g
 *  (parameter_series.h) before the first added pass, (n_members,L,H). Returns
 *  NULL if these values are not recorded in this step, or if the model has
 *  none. */
const float *es_measure_members(const es_measure *measure);

/** Returns true if the added passes computed this statistic (details.h). Some
 *  statistics are not part of every record, or are computed in training steps
 *  only. */
bool es_measure_has_detail(const es_measure *measure, es_detail detail);

/**
 * Returns the values of a detail (an additional statistic, see details.h) for
 * which es_measure_has_detail is true, (L,H) or (L), borrowed until the next
 * call or reset. A detail of the FFN is es_missing() in layers without an FFN;
 * values that are not finite are NaN. Details of the weights and of the update
 * are those of the first passes that were added.
 */
const float *es_measure_detail(es_measure *measure, es_detail detail);

/** Returns the findings (ranges and errors) of each operation that a polynomial
 *  replaces (polynomial.h), borrowed until the next reset; NULL if inference is
 *  exact. */
const es_findings *es_measure_findings(const es_measure *measure);

/** Returns the first layer whose output was not finite; -1 if all outputs were
 *  finite. */
int es_measure_first_nan_layer(const es_measure *measure);

#endif
