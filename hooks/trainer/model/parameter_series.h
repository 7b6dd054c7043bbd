/**
 * Parameters that are recorded as series, with one number per head or layer.
 * `--record all` also records the individual values of temperatures and gains
 * (members); each member is a separate series of heads. For example, "t.5" is
 * the temperature of query 5.
 */
#ifndef ES_PARAMETER_SERIES_H
#define ES_PARAMETER_SERIES_H

#include "hooks/trainer/model/model.h"

/** Series of heads come first, then series of layers. */
typedef enum es_parameter_series {
    ES_PARAMETER_THETA,  /* threshold of EReg, as a fraction of ln T */
    ES_PARAMETER_T_MEAN, /* mean of the head's T temperatures */
    /* minimum of the head's T temperatures; NaN if any of them is NaN */
    ES_PARAMETER_T_MIN,
    ES_PARAMETER_T_MAX,
    ES_PARAMETER_QK_CLIP, /* factor by which QK-Clip scaled q and k after the
                             step */
    ES_PARAMETER_ALPHA,
    ES_PARAMETER_BETA,
    /* slope of leaky ReLU (LR); with LR(global) it is equal in all layers */
    ES_PARAMETER_SLOPE,
    ES_N_PARAMETER_SERIES
} es_parameter_series;

extern const char *const es_parameter_series_names[ES_N_PARAMETER_SERIES];

/** Returns true if models of this configuration have the series. A slope that
 *  is not learnt has no series. */
bool es_parameter_series_exists(const es_model_config *config,
                                es_parameter_series series);

/** Returns the number of values in one sample: L*H for a series of heads, L for
 *  a series of layers. */
size_t es_parameter_series_length(const es_model_config *config,
                                  es_parameter_series series);

/**
 * Reads the values that the last es_model_begin with `measure` has stored; call
 * it after es_model_end. QK-Clip's factors are from the step that has ended.
 *
 *   out  (L,H) or (L); es_missing() in layers without the parameter, because
 *        their FFN is removed; a NaN that arises in training is never
 *        es_missing()
 *
 * The series must exist. O(L H T) for temperatures, else O(L H).
 */
void es_parameter_series_read(float *out, const es_model *model,
                              es_parameter_series series);

#define ES_PARAMETER_MEMBERS_MAX 3072 /* a run file has at most 4096 series */
/* maximum size of the name of an individual value in bytes, including the
   NUL */
#define ES_PARAMETER_MEMBER_SIZE 32

/**
 * Returns the number of members. A member is a single parameter value that is
 * recorded as a separate series of heads, less often than other series. The
 * number is 0 unless config->record is ES_SERIES_ALL, or if there would be more
 * than ES_PARAMETER_MEMBERS_MAX.
 *
 *   t.i          the temperature of query i, i < T
 *   g_q.i ..     WNorm's g of the head's column i, i < d_k, of a matrix. If the
 *   g_proj.i     matrix has n columns that belong to no head, they are divided
 *                among the heads: head h has the columns from h n / H on
 */
size_t es_parameter_n_members(const es_model_config *config);

void es_parameter_member_name(char out[ES_PARAMETER_MEMBER_SIZE],
                              const es_model_config *config, size_t member);

/** Reads all individually recorded parameter values into out (members,L,H).
 *  Call it under the conditions of es_parameter_series_read; values are
 *  es_missing() in the same cases. */
void es_parameter_members_read(float *out, const es_model *model);

/* --- used by the report --------------------------------------------------- */

/** Returns the number of floats in the report from which the series of
 *  parameters are computed. */
size_t es_model_n_reported(const es_model *model);

/** Copies the current values of the recorded parameters to the report. */
void es_model_report_parameters(const es_model *model);

#endif
