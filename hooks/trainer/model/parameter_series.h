/**
 * The few parameters of a model that are series of their own: one number a
 * head or a layer says how the architecture is doing.
 */
#ifndef ES_PARAMETER_SERIES_H
#define ES_PARAMETER_SERIES_H

#include "hooks/trainer/model/model.h"

/** Heads' first, then layers'. */
typedef enum es_parameter_series {
    ES_PARAMETER_THETA,  /* threshold of EReg, a share of ln T */
    ES_PARAMETER_T_MEAN, /* of the head's T temperatures */
    ES_PARAMETER_T_MIN,  /* NaN if one of them is */
    ES_PARAMETER_T_MAX,
    ES_PARAMETER_QK_CLIP, /* what QK-Clip scaled q and k with after the step */
    ES_PARAMETER_ALPHA,
    ES_PARAMETER_BETA,
    ES_PARAMETER_SLOPE, /* LR(global): the one number in every layer */
    ES_N_PARAMETER_SERIES
} es_parameter_series;

extern const char *const es_parameter_series_names[ES_N_PARAMETER_SERIES];

/** True if models of this configuration learn such a parameter. A fixed slope
 *  is none. */
bool es_parameter_series_exists(const es_model_config *config,
                                es_parameter_series series);

/** Values of one sample: L*H or L. */
size_t es_parameter_series_length(const es_model_config *config,
                                  es_parameter_series series);

/**
 * The values as they were at the last es_model_begin that measured, once
 * es_model_end has returned; of QK-Clip, what the step that ended has done.
 *
 *   out  (L,H) or (L); es_missing() in layers that have none because their FFN
 *        is removed; a NaN is a NaN of training, never es_missing()
 *
 * The series has to exist. O(L H T) for temperatures, else O(L H).
 */
void es_parameter_series_read(float *out, const es_model *model,
                              es_parameter_series series);

#endif
