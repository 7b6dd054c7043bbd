/**
 * Reads reference cases (tests/trainer/cases/README.md) into the
 * double-precision model, and writes cases from this model.
 */
#ifndef ES_TESTS_REFERENCE_CASE_H
#define ES_TESTS_REFERENCE_CASE_H

#include "tests/support/reference_model.h"

/**
 * Returns the path of a case in tests/trainer/cases; borrowed until the next
 * call.
 */
const char *es_ref_case_path(const char *name);

/** Calls `check` with the path of each case. */
void es_ref_each_case(void (*check)(const char *path));

typedef struct es_ref_case {
    /* the model; its vectors u and v (of SNorm) have the values before the
     * training step */
    es_ref_model *model;
    int32_t *tokens, *targets;
} es_ref_case;

/**
 * Reads a case from a folder or a file. Fails the test if it cannot be read.
 * Free the case with es_ref_case_free.
 */
es_ref_case es_ref_case_read(const char *path);
void es_ref_case_free(es_ref_case *it);

/** Returns the array FOLDER/NAME as n doubles; the caller frees them. */
double *es_ref_case_array(const char *path, const char *folder,
                          const char *name, size_t n);

/**
 * Writes a complete reference case into the folder DIR, which must be empty.
 * The case contains the outputs of the double-precision model for the case's
 * parameters, and its gradients by central differences, which are feasible only
 * for small models. Afterwards the model's u and v (SNorm's vectors) have the
 * values after the training step. Fails the test if a file cannot be written.
 */
void es_ref_case_write(const char *dir, es_ref_case *it);

/**
 * Writes a case that is stored in a file as a folder into DIR, which must be
 * empty.
 */
void es_ref_case_unpack(const char *dir, const char *path);

#endif
