/**
 * Implements `--inference polynomial`, in which passes compute divisions,
 * inverse roots and gates with polynomials (analyzer/polynomial), as would be
 * done under homomorphic encryption. The program first observes exact passes
 * over some data, and then chooses interval, iterations and degree separately
 * for each operation.
 */
#ifndef ES_MODEL_POLYNOMIAL_H
#define ES_MODEL_POLYNOMIAL_H

#include "analyzer/heads/details.h"
#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/params.h"

/** The operations in a layer that polynomials replace. The norm after the last
 *  layer is one more such operation. */
typedef enum es_site {
    ES_SITE_ATTN,
    ES_SITE_ACT,
    ES_SITE_NORM_1,
    ES_SITE_NORM_2,
    ES_N_SITES
} es_site;

/** Returns the number of an operation. Operations are ordered by layer and then
 *  by es_site; the norm after the last layer comes last. */
static inline size_t es_site_number(int layer, es_site site)
{
    return (size_t)layer * ES_N_SITES + (size_t)site;
}

size_t es_model_n_sites(const es_model_config *config);

/** Returns false if the layer does not have this operation. The norm after the
 *  last layer counts as ES_SITE_ATTN of layer n_layer. */
bool es_model_has_site(const es_model_config *config, int layer, es_site site);

/** es_site_kind returns the kind of input (scores, inputs of the activation or
 *  of a norm) of the operation with this number (see es_site_number).
 *  es_model_config_approximates returns true if an operation of the model has
 *  inputs of this kind. */
es_approximated es_site_kind(const es_model_config *config, size_t number);
bool es_model_config_approximates(const es_model_config *config,
                                  es_approximated kind);

/** Returns the kind of input (es_approximated) that a series clipped_* or
 *  approx_error_* describes. */
static inline es_approximated es_detail_approximated(es_detail detail)
{
    return (es_approximated)((detail - ES_DETAIL_CLIPPED_ATTN) %
                             ES_N_APPROXIMATED);
}

typedef enum es_polynomial_mode {
    ES_POLYNOMIAL_OFF,
    ES_POLYNOMIAL_OBSERVE, /* compute exactly and record the inputs */
    ES_POLYNOMIAL_ON
} es_polynomial_mode;

/** Sets the mode of the following passes; a new model has the mode OFF. The
 *  model must have been created with ES_INFERENCE_POLYNOMIAL; training passes
 *  require OFF. */
void es_model_set_polynomials(es_model *model, es_polynomial_mode mode);

/**
 * Chooses every polynomial according to config->polynomial from the inputs that
 * were observed since the last es_model_begin; the passes must have ended.
 * Returns false if an operation had no finite input, or no input above 0; its
 * polynomial then returns NaN, and all its inputs are counted as outside the
 * interval.
 */
bool es_model_choose_polynomials(es_model *model);

/** Returns the findings (ranges and errors) of each operation for the passes
 *  between es_model_begin and es_model_end; NULL if polynomials were off. */
const es_findings *es_model_findings(const es_model *model);

/** Describes the polynomial of one operation. */
typedef struct es_polynomial {
    /* interval of inputs for which the polynomial approximates the operation */
    es_interval in;
    /* number of factors or steps, or degree of the polynomial */
    int iterations;
    int levels; /* multiplicative depth of a norm, or of attention or FFN
                   including their matrices but not their norms */
} es_polynomial;

es_polynomial es_model_polynomial(const es_model *model, int layer,
                                  es_site site);

/** Returns the multiplicative depth of a layer, or for layer n_layer the depth
 *  of the whole model including the last norm and the output matrix. */
int es_model_levels(const es_model *model, int layer);

/* --- used by passes and the report ---------------------------------------- */

/** Allocates the polynomials, if the configuration uses them. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_model_plan_polynomials(es_model *model) ES_MUST_USE;
void es_model_free_polynomials(es_model *model);

/** Begin and end the collection of findings (ranges and errors of polynomials);
 *  called by es_model_begin and es_model_end. */
void es_model_begin_polynomials(const es_model *model);
void es_model_end_polynomials(const es_model *model);

/** These functions are called in forward passes at norms, attention and
 *  activations. Each returns true if a polynomial has computed the result (y,
 *  the heads or `post`). Otherwise it records the inputs if the mode is
 *  ES_POLYNOMIAL_OBSERVE, and returns false. */
bool es_model_norm_polynomial(const es_model *model, es_mem *y, const es_mem *x,
                              int layer, es_role weight);
bool es_model_attention_polynomial(const es_model *model, int layer,
                                   const es_row_mem *rows);
bool es_model_act_polynomial(const es_model *model, es_mem *post,
                             const es_mem *pre, int layer);

/** Returns true if a polynomial computes the layer's activation. */
bool es_model_acts_by_polynomial(const es_model *model, int layer);

#endif
