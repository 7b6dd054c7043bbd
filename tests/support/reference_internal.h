/** Between the files of the reference model. */
#ifndef ES_TESTS_REFERENCE_INTERNAL_H
#define ES_TESTS_REFERENCE_INTERNAL_H

#include "tests/support/reference_model.h"

/** n zeros; ends the program if there is no memory. */
double *es_ref_doubles(int n);

/** "h.LAYER.NAME", or NULL. */
double *es_ref_of_layer(const es_ref_model *ref, int layer, const char *name);

/**
 * The matrix that a product uses: MODULE.weight, normalised where the
 * architecture says so. Row-major (in,out); the caller frees it.
 */
double *es_ref_weight(const es_ref_model *ref, int layer, const char *module);

/** y (n,out) = x (n,in) W of a module, plus its bias where there is one. */
void es_ref_apply(double *y, const double *x, const es_ref_model *ref,
                  int layer, const char *module, int n);

/** Notes how far a kink is. */
void es_ref_note(es_ref_result *result, double distance);

/**
 * Attention of one layer between q, k, v and the output matrix.
 *
 *   y    (B,T,d) heads' outputs, concatenated
 *   qkv  (B,T,3d), biases and rotation included
 */
void es_ref_attend(double *y, es_ref_result *result, const double *qkv,
                   const es_ref_model *ref, int layer);

/** Adds the range loss of x (n); notes how far the next largest is. */
void es_ref_add_range(es_ref_result *result, const es_ref_model *ref,
                      es_range_kind range, const double *x, int n);

/** Rotates q and k in qkv (B,T,3d) by their positions. */
void es_ref_rotate(double *qkv, const es_ref_model *ref);

/** L_ent from the rows' entropies; notes its kinks. */
double es_ref_penalty(const es_ref_model *ref, es_ref_result *result);

#endif
