/** Declarations shared by the files of the reference model. */
#ifndef ES_TESTS_REFERENCE_INTERNAL_H
#define ES_TESTS_REFERENCE_INTERNAL_H

#include "tests/support/reference_model.h"

/** Returns n zeros. Ends the program if memory runs out. */
double *es_ref_doubles(int n);

/** Returns the array "h.LAYER.NAME"; NULL if the model has no such array. */
double *es_ref_of_layer(const es_ref_model *ref, int layer, const char *name);

/**
 * Returns the matrix by which activations are multiplied: MODULE.weight,
 * normalised if the architecture requires it. The matrix is row-major (in,out);
 * the caller frees it.
 */
double *es_ref_weight(const es_ref_model *ref, int layer, const char *module);

/** Writes y (n,out) = x (n,in) W of a module, plus its bias if it has one. */
void es_ref_apply(double *y, const double *x, const es_ref_model *ref,
                  int layer, const char *module, int n);

/**
 * Sets result->clearance to `distance` if `distance` is smaller. The clearance
 * is the smallest distance of any value from a kink, a point where the loss has
 * no derivative.
 */
void es_ref_note(es_ref_result *result, double distance);

/**
 * Computes attention of one layer, from q, k, v to the input of the output
 * matrix.
 *
 *   y    (B,T,d) outputs of the heads, side by side
 *   qkv  (B,T,3d), after biases and rotation
 */
void es_ref_attend(double *y, es_ref_result *result, const double *qkv,
                   const es_ref_model *ref, int layer);

/**
 * Adds the range loss of x (n) to the result. The distance between the largest
 * and the second largest |x| limits result->clearance, because the loss has a
 * kink where they are equal.
 */
void es_ref_add_range(es_ref_result *result, const es_ref_model *ref,
                      es_range_kind range, const double *x, int n);

/** Rotates q and k in qkv (B,T,3d) by their positions. */
void es_ref_rotate(double *qkv, const es_ref_model *ref);

/**
 * Returns the regularisation loss L_ent from the entropies of the rows, and
 * updates result->clearance with the distance to its kinks.
 */
double es_ref_penalty(const es_ref_model *ref, es_ref_result *result);

#endif
