/**
 * What the heads and layers did over the micro-batches of one training step,
 * or of one evaluation, as the samples that are recorded.
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

/** For models of this shape. ES_OK or ES_ENOMEM. */
es_status es_measure_new(es_measure **out,
                         const es_model_config *config) ES_MUST_USE;
void es_measure_free(es_measure *measure); /* NULL is fine */

/** Forgets what was added. */
void es_measure_reset(es_measure *measure);

/** Adds the model's passes between the last es_model_begin, which measured, and
 *  es_model_end. */
void es_measure_add(es_measure *measure, const es_model *model);

/** Forward passes added since the last reset. */
int es_measure_n_batches(const es_measure *measure);

/**
 * A head's or a layer's value over all that was added, as float32.
 *
 * Heads: as analyzer/heads says; NaN for a series that the model's attention
 * does not have. act_rms: root of the mean square over all activations, NaN
 * where one is not finite.
 *
 *   es_measure_heads   (L,H), borrowed until the next call
 *   es_measure_layers  (L)
 */
const float *es_measure_heads(es_measure *measure, es_head_series series);
const float *es_measure_layers(es_measure *measure, es_layer_series series);

/**
 * A series of parameters as they were before the first passes added, and so
 * before the step's update; (L,H) or (L), borrowed until the next reset.
 * The series has to exist for the model.
 */
const float *es_measure_parameters(const es_measure *measure,
                                   es_parameter_series series);

/** Parameters that are recorded whole, (members,L,H), likewise; NULL: they are
 *  not due, or there are none. */
const float *es_measure_members(const es_measure *measure);

/** True if what was added has this detail; some are not taken at every record,
 *  or belong to steps of training alone. */
bool es_measure_has_detail(const es_measure *measure, es_detail detail);

/**
 * A detail that it has, (L,H) or (L), borrowed until the next call or reset;
 * es_missing() in layers whose FFN is removed, where it is about that, a NaN
 * else. What belongs to weights and to a step is of the first passes added.
 */
const float *es_measure_detail(es_measure *measure, es_detail detail);

/** What polynomials found, by place (polynomial.h); NULL: nothing. Borrowed
 *  until the next reset. */
const es_findings *es_measure_findings(const es_measure *measure);

/** First layer whose output was not finite; -1 if there is none. */
int es_measure_first_nan_layer(const es_measure *measure);

#endif
