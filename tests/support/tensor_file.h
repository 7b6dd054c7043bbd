/**
 * Writes safetensors files without the trainer's code, for tests of readers.
 * Tests build a list of tensors, which they can damage before it is written.
 */
#ifndef ES_TESTS_TENSOR_FILE_H
#define ES_TESTS_TENSOR_FILE_H

#include "hooks/trainer/model/model.h"
#include "hooks/trainer/verify.h"
#include <stdio.h>

typedef struct es_test_tensor {
    char name[128], type[8]; /* "F32", "F16", "BF16", "BOOL" */
    int n_dims;
    int64_t dims[4];
    size_t n;
    float *values; /* (n) */
} es_test_tensor;

enum { ES_TEST_TENSORS = 128 };

typedef struct es_test_tensors {
    es_test_tensor all[ES_TEST_TENSORS];
    size_t n;
} es_test_tensors;

/** Adds a tensor with a copy of the values, or with zeros if `values` is NULL.
 *  Returns the tensor in the list, borrowed. */
es_test_tensor *es_test_tensor_add(es_test_tensors *list, const char *name,
                                   const float *values, int n_dims,
                                   const int64_t *dims);

/** Returns the tensor with this name; fails the test if there is no such
 *  tensor. */
es_test_tensor *es_test_tensor_find(es_test_tensors *list, const char *name);

void es_test_tensor_remove(es_test_tensors *list, const char *name);
void es_test_tensors_free(es_test_tensors *list);

/** Writes all tensors. F16 and BF16 must be able to represent the values of
 *  their tensors exactly. */
void es_test_tensors_write(const es_test_tensors *list, const char *path);

/**
 * Lists the parameters of a reference case with the names and layout of Hugging
 * Face's library: GPT-2 for family gpt2, GPT-NeoX for pythia, with their
 * buffers.
 *
 *   prefix  "", "transformer." or "gpt_neox."
 */
void es_test_tensors_of_case(es_test_tensors *out, const es_verify_case *from,
                             const char *prefix);

#endif
