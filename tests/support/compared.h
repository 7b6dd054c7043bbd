/** Compares run files for tests and returns the printed output. */
#ifndef ES_TESTS_COMPARED_H
#define ES_TESTS_COMPARED_H

#include "cli/compare/compare.h"

#include "tests/support/recorded.h"

#include <jansson.h>

#define ES_COMPARED_MOST 16

/**
 * Description of a run file to write; the run has samples at steps 0, 10, 20,
 * 30.
 */
typedef struct es_compared_written {
    const char *file, *name, *arch, *config;
    int64_t n_layer, n_head, seed;
    float low; /* lowest entropy in nats; NaN: all recorded entropies are NaN */
    float evals[4]; /* losses of the evaluations at steps 0, 10, 20, 30;
                       missing: no evaluation at the step */
    /* largest logit of all heads; missing: no logits are recorded */
    float logit;
} es_compared_written;

void es_compare_write(void **state, const es_compared_written *of);

/**
 * Records entropies that are spread evenly from `low` to `low` + 1 nats, all
 * different.
 */
void es_compare_record_heads(es_recorded *to, int64_t step, float low);

void es_compare_record_eval(es_recorded *to, const char *name, int64_t step,
                            float value);

typedef struct es_compared_files {
    es_comparison *comparison;
    es_run_summary *runs[ES_COMPARED_MOST]; /* (n) */
    size_t n;
    double observed;
} es_compared_files;

/**
 * Compares all runs of n files in the folder *state. `baseline` is one of the
 * files, or NULL. Printed paths omit the folder.
 */
void es_compare_files(es_compared_files *out, void **state,
                      const char *const *files, size_t n, const char *baseline,
                      int64_t step);

void es_compared_free(es_compared_files *compared);

/** Returns the tables of the comparison as text; the caller frees it. */
char *es_compared_text(const es_compared_files *compared,
                       es_table_options options);

/**
 * Returns a JSON object with the member "comparison" as text; the caller frees
 * it.
 */
char *es_compared_json(const es_compared_files *compared);

/**
 * Returns the parsed value of the member "comparison"; the caller releases it.
 */
json_t *es_compared_parsed(const es_compared_files *compared);

/**
 * Returns the JSON value at a path such as "runs.0.eval.best_ppl", borrowed.
 * Fails the test if the path does not exist.
 */
json_t *es_json_at(json_t *root, const char *path);

/** Returns the string at a path, borrowed; "" if the value is not a string. */
const char *es_json_text_at(json_t *root, const char *path);

/**
 * Returns the strings of the array at a path, joined as "a b c"; borrowed until
 * the next call.
 */
const char *es_json_list_at(json_t *root, const char *path);

/**
 * Fails the test if the number at a path differs from `expected` by more than
 * 1e-6 of `expected`. Recorded values are float32, so they are not exact.
 */
void es_json_assert_near(json_t *root, const char *path, double expected);

#endif
