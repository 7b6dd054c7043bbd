/** Declarations shared by the files of the reference model. */
#ifndef ES_TESTS_REFERENCE_INTERNAL_H
#define ES_TESTS_REFERENCE_INTERNAL_H

#include "tests/support/reference_model.h"

/** Returns n zeros. Ends the program if there is no memory. */
double *es_ref_doubles(int n);

/** Returns the array "h.LAYER.NAME", or NULL. */
double *es_ref_of_layer(const es_ref_model *ref, int layer, const char *name);

/**
 * Returns the matrix that a product uses: MODULE.weight, normalised if the
 * architecture says so. It is row-major (in,out); the caller frees it.
 */
double *es_ref_weight(const es_ref_model *ref, int layer, const char *module);

/** Writes y (n,out) = x (n,in) W of a module, plus its bias if it has one. */
void es_ref_apply(double *y, const double *x, const es_ref_model *ref,
                  int layer, const char *module, int n);

/** Notes the distance to a kink. */
void es_ref_note(es_ref_result *result, double distance);

/**
 * Computes attention of one layer, from q, k, v to the input of the output
 * matrix.
 *
 *   y    (B,T,d) outputs of the heads, concatenated
 *   qkv  (B,T,3d), biases and rotation included
 */
void es_ref_attend(double *y, es_ref_result *result, const double *qkv,
                   const es_ref_model *ref, int layer);

/** Adds the range loss of x (n), and notes the distance to the next largest. */
void es_ref_add_range(es_ref_result *result, const es_ref_model *ref,
                      es_range_kind range, const double *x, int n);

/** Rotates q and k in qkv (B,T,3d) by their positions. */
void es_ref_rotate(double *qkv, const es_ref_model *ref);

/** Returns L_ent from the rows' entropies, and notes its kinks. */
double es_ref_penalty(const es_ref_model *ref, es_ref_result *result);

#endif
