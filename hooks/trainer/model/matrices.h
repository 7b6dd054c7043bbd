/** The matrices of layers as operands, with their gradients, and the weights
 *  that WNorm and SNorm derive from parameters. */
#ifndef ES_MODEL_MATRICES_H
#define ES_MODEL_MATRICES_H

#include "hooks/trainer/model/model_internal.h"

/** Returns the number of floats in the normalised weight that replaces a matrix
 *  of a layer, or 0 if products read the parameter itself. */
size_t es_model_normed_size(const es_model *model, int layer, es_matrix matrix);

/** Returns the weight and bias for a product with a matrix of a layer. The
 *  weight is the normalised one if WNorm or SNorm applies to the matrix. */
es_linear es_model_linear(const es_model *model, int layer, es_matrix matrix);

/** Returns the array that products read in place of a parameter: the normalised
 *  weight if WNorm or SNorm applies to it, else the parameter itself. */
es_mem *es_model_used_value(const es_model *model, const es_param *param);

/** Computes the normalised weights, and the logarithms of temperatures that are
 *  learnt directly, for this forward pass if they are stale. The
 *  first training pass after an update also runs SNorm's power iteration. */
void es_model_make_weights(es_model *model, bool training);

/** Adds the gradients of the weight and bias of a product y = x W + b, where dy
 *  is the gradient of y. If W is normalised, the gradient is propagated through
 *  the normalisation. */
void es_model_weight_gradient(const es_model *model, int layer,
                              es_matrix matrix, const es_mem *x,
                              const es_mem *dy);

/** Returns true for a parameter whose gradient the first product of a backward
 *  pass overwrites instead of adding to it. */
bool es_model_is_overwritten(const es_model *model, const es_param *param);

/** Asks the back-end to keep copies of the weights that products read. Returns
 *  ES_OK or ES_ENOMEM. */
es_status es_model_keep_weights(const es_model *model) ES_MUST_USE;

/** Refreshes the back-end's copies of the parameters if anything except adamw
 *  has changed the parameters. Must not be called while a sequence is
 *  captured. */
void es_model_refresh_copies(es_model *model);

/* --- normalised matrices -------------------------------------------------- */

/** A matrix that WNorm or SNorm can normalise, and the role of its g. */
typedef struct es_normed {
    es_matrix matrix;
    int part; /* 0 to 2: the part q, k or v of c_attn */
    es_role g;
    /* bit by which WNorm or SNorm (es_arch) selects the matrix; 0 if the
     * layer does not have the matrix */
    unsigned named_by;
} es_normed;

#define ES_N_NORMED 6

/** Returns the kind of matrix i (of ES_N_NORMED) of a layer, in the order in
 *  which the series sigma_q .. g_proj are defined. In a layer with a fused FFN,
 *  the fused matrix takes the place of the FFN's first matrix. */
es_normed es_model_normed(const es_arch *arch, int layer, int i);

/** Return true if WNorm or SNorm normalises matrix i of a layer. */
bool es_model_has_weight_norm(const es_model_config *config, int layer, int i);
bool es_model_has_spectral_norm(const es_model_config *config, int layer,
                                int i);

#endif
