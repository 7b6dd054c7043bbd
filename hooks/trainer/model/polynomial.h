/**
 * `--inference polynomial`: passes that compute divisions, inverse roots and
 * gates with polynomials (analyzer/polynomial), as under homomorphic
 * encryption. The program first observes exact passes over some data, and then
 * chooses interval, iterations and degree separately for each place.
 */
#ifndef ES_MODEL_POLYNOMIAL_H
#define ES_MODEL_POLYNOMIAL_H

#include "analyzer/heads/details.h"
#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/model.h"

/** The places in a layer that have a polynomial. The norm after the last layer
 *  is one more place. */
typedef enum es_site {
    ES_SITE_ATTN,
    ES_SITE_ACT,
    ES_SITE_NORM_1,
    ES_SITE_NORM_2,
    ES_N_SITES
} es_site;

/** Returns the number of a place; places are ordered by layer and site, and the
 *  last norm comes last. */
static inline size_t es_site_number(int layer, es_site site)
{
    return (size_t)layer * ES_N_SITES + (size_t)site;
}

size_t es_model_n_sites(const es_model_config *config);

/** Returns false if the layer has no such operation. The last norm is site ATTN
 *  of layer n_layer. */
bool es_model_has_site(const es_model_config *config, int layer, es_site site);

/** site_kind returns the kind of a place's inputs; config_approximates returns
 *  true if any layer has inputs of this kind. */
es_approximated es_site_kind(const es_model_config *config, size_t number);
bool es_model_config_approximates(const es_model_config *config,
                                  es_approximated kind);

/** Returns the kind of input to which one of the details clipped_* or
 *  approx_error_* belongs. */
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

/** Sets the mode of the following passes; the mode of a new model is OFF. Only
 *  for a model with ES_INFERENCE_POLYNOMIAL; training passes require OFF. */
void es_model_set_polynomials(es_model *model, es_polynomial_mode mode);

/**
 * Chooses every polynomial according to config->polynomial from the inputs that
 * were observed since the last es_model_begin; the passes must have ended.
 * Returns false if a place had no finite input, or no input above 0; its
 * polynomial is then NaN, and all of its inputs count as outside.
 */
bool es_model_choose_polynomials(es_model *model);

/** Returns the findings by place for the passes between es_model_begin and
 *  es_model_end; NULL if polynomials were off. */
const es_findings *es_model_findings(const es_model *model);

/** Describes the polynomial of one place. */
typedef struct es_polynomial {
    es_interval in; /* interval of the approximated input */
    int iterations; /* number of factors or steps, or the degree */
    int levels;     /* multiplicative depth: of a norm, or of attention or FFN
                       without their norms */
} es_polynomial;

es_polynomial es_model_polynomial(const es_model *model, int layer,
                                  es_site site);

/** Returns the multiplicative depth of a layer; for layer n_layer the depth of
 *  the whole model, including the last norm and the output matrix. */
int es_model_levels(const es_model *model, int layer);

#endif
