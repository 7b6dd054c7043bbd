/**
 * `--inference polynomial`: passes whose divisions, inverse roots and gates are
 * polynomials (analyzer/polynomial), as under homomorphic encryption. Exact
 * passes over some data are observed first; intervals, iterations and degrees
 * are then chosen separately for each place.
 */
#ifndef ES_MODEL_POLYNOMIAL_H
#define ES_MODEL_POLYNOMIAL_H

#include "analyzer/heads/details.h"
#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/model.h"

/** Places in a layer with a polynomial; the norm after the last layer is one
 *  more. */
typedef enum es_site {
    ES_SITE_ATTN,
    ES_SITE_ACT,
    ES_SITE_NORM_1,
    ES_SITE_NORM_2,
    ES_N_SITES
} es_site;

/** Returns the number of a place, ordered by layer and site; the last norm has
 *  the last number. */
static inline size_t es_site_number(int layer, es_site site)
{
    return (size_t)layer * ES_N_SITES + (size_t)site;
}

size_t es_model_n_sites(const es_model_config *config);

/** Returns false if the layer has no such operation (layer n_layer: the last
 *  norm, as ATTN). */
bool es_model_has_site(const es_model_config *config, int layer, es_site site);

/** site_kind returns the kind of a place's inputs; config_approximates returns
 *  true if any layer has inputs of this kind. */
es_approximated es_site_kind(const es_model_config *config, size_t number);
bool es_model_config_approximates(const es_model_config *config,
                                  es_approximated kind);

/** Returns the kind to which one of the details clipped_* and approx_error_*
 *  belongs. */
static inline es_approximated es_detail_approximated(es_detail detail)
{
    return (es_approximated)((detail - ES_DETAIL_CLIPPED_ATTN) %
                             ES_N_APPROXIMATED);
}

typedef enum es_polynomial_mode {
    ES_POLYNOMIAL_OFF,
    ES_POLYNOMIAL_OBSERVE, /* exact passes, whose inputs are recorded */
    ES_POLYNOMIAL_ON
} es_polynomial_mode;

/** Sets the mode of the following passes; a new model's is OFF. Only for a
 *  model with ES_INFERENCE_POLYNOMIAL; training passes require OFF. */
void es_model_set_polynomials(es_model *model, es_polynomial_mode mode);

/**
 * Chooses every polynomial according to config->polynomial, from the passes
 * since the last es_model_begin, which were observed and have ended. Returns
 * false if some place had no finite input, or none above 0; its polynomial is
 * then NaN, and all of its inputs count as outside.
 */
bool es_model_choose_polynomials(es_model *model);

/** Returns the findings of the passes between es_model_begin and es_model_end
 *  by place; NULL if polynomials were off. */
const es_findings *es_model_findings(const es_model *model);

/** A description of the polynomial of one place. */
typedef struct es_polynomial {
    es_interval in; /* interval of the approximated input */
    int iterations; /* factors, steps, or degree */
    int levels;     /* multiplicative depth of attention and FFN without their
                       norms, or of a norm */
} es_polynomial;

es_polynomial es_model_polynomial(const es_model *model, int layer,
                                  es_site site);

/** Returns the multiplicative depth of a layer; for layer n_layer that of the
 *  whole model, including the last norm and the output matrix. */
int es_model_levels(const es_model *model, int layer);

#endif
