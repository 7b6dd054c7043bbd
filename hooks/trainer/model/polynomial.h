/**
 * `--inference polynomial`: passes whose divisions, inverse roots and gates are
 * polynomials (analyzer/polynomial), as under homomorphic encryption. Exact
 * passes over some data are observed first; intervals, iterations and degrees
 * are chosen from what was found there, for each place by itself.
 */
#ifndef ES_MODEL_POLYNOMIAL_H
#define ES_MODEL_POLYNOMIAL_H

#include "analyzer/heads/details.h"
#include "analyzer/polynomial/approximation.h"
#include "hooks/trainer/model/model.h"

/** Where a layer has polynomials; the norm after the last layer is one more. */
typedef enum es_site {
    ES_SITE_ATTN,
    ES_SITE_ACT,
    ES_SITE_NORM_1,
    ES_SITE_NORM_2,
    ES_N_SITES
} es_site;

/** Places are numbered by layer, site; the last one is the last norm. */
static inline size_t es_site_number(int layer, es_site site)
{
    return (size_t)layer * ES_N_SITES + (size_t)site;
}

size_t es_model_n_sites(const es_model_config *config);

/** False: the layer has no such thing (layer n_layer: the last norm, as ATTN).
 */
bool es_model_has_site(const es_model_config *config, int layer, es_site site);

/** The kind of a place's inputs; whether any layer has such. */
es_approximated es_site_kind(const es_model_config *config, size_t number);
bool es_model_config_approximates(const es_model_config *config,
                                  es_approximated kind);

/** Of the details clipped_* and approx_error_*: whose they are. */
static inline es_approximated es_detail_approximated(es_detail detail)
{
    return (es_approximated)((detail - ES_DETAIL_CLIPPED_ATTN) %
                             ES_N_APPROXIMATED);
}

typedef enum es_polynomial_mode {
    ES_POLYNOMIAL_OFF,
    ES_POLYNOMIAL_OBSERVE, /* exact; inputs are looked at */
    ES_POLYNOMIAL_ON
} es_polynomial_mode;

/** What passes do from now on; a new model's are off. Of a model whose
 *  configuration says ES_INFERENCE_POLYNOMIAL, none of which trains but with
 *  OFF. */
void es_model_set_polynomials(es_model *model, es_polynomial_mode mode);

/**
 * Chooses every polynomial by config->polynomial from the passes since the
 * last es_model_begin, which were observed and have ended. False: somewhere
 * there was no finite input, or none above 0; its polynomial is NaN then, and
 * all of its inputs are outside.
 */
bool es_model_choose_polynomials(es_model *model);

/** What the passes between es_model_begin and es_model_end found, by place;
 *  NULL: nothing, polynomials were off. */
const es_findings *es_model_findings(const es_model *model);

/** What was chosen for a place, as numbers for people. */
typedef struct es_polynomial {
    es_interval in; /* of the approximated input */
    int iterations; /* factors, steps, or the degree */
    int levels;     /* of attention and FFN without their norms, of a norm */
} es_polynomial;

es_polynomial es_model_polynomial(const es_model *model, int layer,
                                  es_site site);

/** Multiplicative depth of a layer; of layer n_layer the whole model's, the
 *  last norm and the output matrix included. */
int es_model_levels(const es_model *model, int layer);

#endif
