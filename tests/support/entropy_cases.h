/**
 * Creates random cases of es_qk_statistics with every option, and checks
 * results with a second implementation of the definitions in entropy.h, in
 * plain double precision.
 */
#ifndef TESTS_ENTROPY_CASES_H
#define TESTS_ENTROPY_CASES_H

#include "tests/support/entropy_helpers.h"

enum {
    OPTIONS_MOST_BATCH = 4,
    OPTIONS_MOST_HEADS = 6,
    OPTIONS_MOST_LENGTH = 400
};

/**
 * random_int returns a random integer from `low` to `high`; random_chance
 * returns true with probability p.
 */
int random_int(uint64_t *seed, int low, int high);
bool random_chance(uint64_t *seed, double p);

/** An input array of a call, and its values converted to float32. */
typedef struct case_numbers {
    float *values;
    uint16_t *halves; /* the values as float16 or bfloat16; NULL for float32 */
    size_t count;
    es_entropy_input input;
    /* index in `values` of the element to which input.data points */
    size_t origin;
} case_numbers;

/** Sets one value, after rounding it to the type of the input. */
void set_case_number(case_numbers *numbers, size_t position, float value);

/** Makes input.data point to element `origin` of the values. */
void set_case_origin(case_numbers *numbers, size_t origin);

typedef struct options_case {
    es_attention_shape shape;
    case_numbers q, k;
    unsigned char key_mask[OPTIONS_MOST_BATCH * OPTIONS_MOST_LENGTH];
    unsigned char query_mask[OPTIONS_MOST_BATCH * OPTIONS_MOST_LENGTH];
    int32_t key_lengths[OPTIONS_MOST_BATCH], query_offsets[OPTIONS_MOST_BATCH];
    int32_t query_starts[OPTIONS_MOST_BATCH + 1];
    int32_t key_starts[OPTIONS_MOST_BATCH + 1];
    float *temperature; /* (H,T) */
    float sink_logits[OPTIONS_MOST_HEADS];
} options_case;

/**
 * Returns a random case. The seed determines sizes, layout, types and options.
 * If n_queries or width is not 0, it replaces the random size.
 */
options_case *new_options_case(uint64_t seed, int n_queries, int width);
void free_options_case(options_case *c);

enum {
    OPTION_ENTROPY,
    OPTION_LSE,
    OPTION_MAX_LOGIT,
    OPTION_SINK,
    OPTION_MISSING,
    OPTION_DISTANCE,
    OPTION_TOP,
    N_OPTION_FLOATS
};

/** Arrays for every output of a call. */
typedef struct options_outputs {
    es_rows rows;
    float *floats[N_OPTION_FLOATS];
    int32_t *nonfinite;
    es_heads heads;
    float means[8][OPTIONS_MOST_HEADS];
    int64_t counts[3][OPTIONS_MOST_HEADS];
} options_outputs;

options_outputs *new_options_outputs(const es_attention_shape *shape);
void free_options_outputs(options_outputs *out);

/** Fails the test if a row or head differs from the definition. */
void check_options_case(const options_case *c, const options_outputs *got);

/**
 * Runs the case with the given kernels and new output arrays, and checks the
 * results.
 */
void check_options_call(const es_entropy_kernels *set, const options_case *c,
                        int n_threads);

#endif
