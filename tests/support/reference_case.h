/** Reference cases, folders as shared/reference/README.md has them, into and
 *  out of the double model. */
#ifndef ES_TESTS_REFERENCE_CASE_H
#define ES_TESTS_REFERENCE_CASE_H

#include "tests/support/reference_model.h"

/** The folder of a case of the reference, "" for that of all of them; skips the
 *  test where there is none. Borrowed until the next call. */
const char *es_ref_case_dir(const char *name);

/** Calls the check with the folder of each; how many there are. */
int es_ref_each_case(void (*check)(const char *dir));

typedef struct es_ref_case {
    es_ref_model *model; /* u and v as before the step */
    int32_t *tokens, *targets;
} es_ref_case;

/** Reads DIR; fails the test if it cannot. Free with es_ref_case_free. */
es_ref_case es_ref_case_read(const char *dir);
void es_ref_case_free(es_ref_case *it);

/** DIR/FOLDER/NAME.npy as doubles, n of them; the caller frees them. */
double *es_ref_case_array(const char *dir, const char *folder, const char *name,
                          size_t n);

/**
 * Writes a whole case into DIR, an empty folder: what the double model makes of
 * these numbers, with gradients by central differences, so small models only.
 * The model's u and v are those after the step when this returns. Fails the
 * test if a file cannot be written.
 */
void es_ref_case_write(const char *dir, es_ref_case *it);

#endif
