/**
 * Stores a reference case in the format of Hugging Face's transformers: a file
 * of tensors, which tests can damage before it is written, and a config.json in
 * the same folder. The folder belongs to the test program.
 */
#ifndef ES_TESTS_WEIGHTS_CASE_H
#define ES_TESTS_WEIGHTS_CASE_H

#include "hooks/trainer/files/weights.h"
#include "hooks/trainer/verify.h"
#include "tests/support/auto.h"
#include "tests/support/tensor_file.h"

AUTO_OF(es_weights, es_weights_close)

typedef struct es_weights_case {
    char path[512]; /* path of the reference case */
    es_verify_case it;
    es_test_tensors list;
} es_weights_case;

/** The folder, and the paths of model.safetensors and config.json in it. */
extern char es_weights_folder[64], es_weights_file[96], es_weights_config[96];

/** Set-up and tear-down of a test group: create and remove the folder. */
int es_weights_folder_make(void **state);
int es_weights_folder_remove(void **state);

/** Reads the reference case with this name into a list of tensors, which
 *  es_test_tensors_of_case names. Removes the config.json of an earlier
 *  test. */
es_weights_case *es_weights_case_open(const char *name, const char *prefix);
void es_weights_case_close(es_weights_case *f);

void es_weights_config_write(const char *text);

/** Writes the tensors to the file and opens it; fails the test on an error. */
es_weights *es_weights_case_read(const es_weights_case *f);

/** Returns the configuration in the file, with the batch size and context of
 *  the reference case. */
es_model_config es_weights_case_config(const es_weights_case *f,
                                       const es_weights *weights);

/** Returns the number of logits (B,T,V). */
size_t es_weights_n_logits(const es_model_config *config);

/** Loads `weights` into a model and returns the model's logits (B,T,V). The
 *  caller frees the logits. `note` receives the note of es_weights_load. */
float *es_weights_logits(const es_weights *weights,
                         const es_model_config *config, const int32_t *tokens,
                         char note[256]);

#endif
