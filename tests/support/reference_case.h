/** Reference cases, as tests/trainer/cases/README.md has them, into and out of
 *  the double model. */
#ifndef ES_TESTS_REFERENCE_CASE_H
#define ES_TESTS_REFERENCE_CASE_H

#include "tests/support/reference_model.h"

/** The file of a case in tests/trainer/cases. Borrowed until the next call. */
const char *es_ref_case_path(const char *name);

/** Calls the check with the file of each. */
void es_ref_each_case(void (*check)(const char *path));

typedef struct es_ref_case {
    es_ref_model *model; /* u and v as before the step */
    int32_t *tokens, *targets;
} es_ref_case;

/** Reads a folder or a file; fails the test if it cannot. Free with
 *  es_ref_case_free. */
es_ref_case es_ref_case_read(const char *path);
void es_ref_case_free(es_ref_case *it);

/** The array FOLDER/NAME as doubles, n of them; the caller frees them. */
double *es_ref_case_array(const char *path, const char *folder,
                          const char *name, size_t n);

/**
 * Writes a whole case into DIR, an empty folder, in the form of a folder: what
 * the double model makes of these numbers, with gradients by central
 * differences, so small models only. The model's u and v are those after the
 * step when this returns. Fails the test if a file cannot be written.
 */
void es_ref_case_write(const char *dir, es_ref_case *it);

/** Writes a case that is a file into DIR, an empty folder, as it is. */
void es_ref_case_unpack(const char *dir, const char *path);

#endif
