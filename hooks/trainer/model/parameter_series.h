/**
 * The few parameters of a model that are series of their own: one number a
 * head or a layer says how the architecture is doing. `--record all` has
 * temperatures and gains also whole, as many series of heads as a head has of
 * them: member i of t is "t.5".
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

#define ES_PARAMETER_MEMBERS_MAX 3072 /* a run file has 4096 series at most */
#define ES_PARAMETER_MEMBER_SIZE 32   /* of a name, with its NUL */

/**
 * Members of all parameters that are recorded whole, each a series of heads,
 * not at every record; 0 unless config->record is ES_SERIES_ALL, or if there
 * were more than ES_PARAMETER_MEMBERS_MAX.
 *
 *   t.i          the temperature of query i, i < T
 *   g_q.i ..     WNorm's g of the head's column i, i < d_k; where columns
 *   g_proj.i     belong to no head, those from h n / H on stand for head h, n
 *                in all
 */
size_t es_parameter_n_members(const es_model_config *config);

void es_parameter_member_name(char out[ES_PARAMETER_MEMBER_SIZE],
                              const es_model_config *config, size_t member);

/** Their values, out (members,L,H), when es_parameter_series_read has its;
 *  es_missing() as there. */
void es_parameter_members_read(float *out, const es_model *model);

#endif
