/**
 * Creates inputs of attention heads for every variant of the kernels, and
 * checks the outputs with plain loops in double.
 */
#ifndef ES_TESTS_ATTENTION_PROBLEM_H
#define ES_TESTS_ATTENTION_PROBLEM_H

#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/reference_ops.h"
#include "tests/support/variants.h"

/**
 * Inputs and outputs of attention: B = n_batch sequences, H = n_head heads of
 * width D.
 */
typedef struct attention_problem {
    int n_batch, n_ctx, n_head, width;
    int power; /* power of PowerSoftmax; 0: softmax; ES_CPU_RELU: scaled ReLU */
    float epsilon;
    bool plain;
    es_row_length length;
    bool half; /* emulate fp16 */
    bool bf16; /* true if activations are bf16; attention_run then rounds qkv
                  and dy */
    /* true to write no statistics of the scores, as in attention on a CUDA
     * device */
    bool on_device;
    bool tiles;      /* with bf16, use matrix units if the CPU has them */
    double rounding; /* maximum relative error of outputs and gradients; 0: the
                        tolerance of es_test_expect_close */
    size_t n_rows, n_values; /* B H T; B H T D */
    float *qkv, *dqkv, *y, *dy, *saved, *dentropy;
    float *rows; /* (ES_N_ROW_STATISTICS, B,H,T) row statistics */
    /* Logarithms of the temperatures (H,T), and the gradients of these
     * logarithms; both NULL without temperatures */
    float *log_t, *dlog_t;
} attention_problem;

/**
 * Returns a problem with random q, k, v in [-3, 3) and gradients in [-1, 1),
 * for softmax without temperatures.
 */
attention_problem attention_open(int n_batch, int n_ctx, int n_head, int width);
/** Adds temperatures whose logarithms are in [-0.5, 0.5). */
void attention_add_temperatures(attention_problem *p);
void attention_close(attention_problem *p);

/**
 * Runs the following block once for each variant of the kernels, each time with
 * a new problem.
 */
#define EACH_ATTENTION(p, kernels, opened)                                     \
    EACH_VARIANT(kernels)                                                      \
    for (attention_problem p = opened, *once = &p; once;                       \
         attention_close(&p), once = NULL)

void attention_scale_queries(attention_problem *p, float factor);

/**
 * Returns a problem of two heads with nine temperatures from 1e-2 down to 1e-6,
 * and with scores so small that no row becomes one-hot.
 */
attention_problem attention_open_cold(void);

float *attention_floats(size_t n);
es_mem *attention_mem(void *floats_of_cpu);
es_attention attention_shape(const attention_problem *p);
/** Returns the array (B,H,T) of one statistic of the rows. */
float *attention_rows(const attention_problem *p, es_row_statistic statistic);
es_attention_kind attention_kind(const attention_problem *p);
bool attention_has_rows(const attention_problem *p, es_row_statistic statistic);

/**
 * Returns a CPU back-end with these kernels and enough space for the problem.
 */
es_backend *attention_backend(const es_cpu_kernels *kernels,
                              const attention_problem *p, int n_threads);

/**
 * Runs the forward pass with all statistics, and the backward pass. If
 * `entropy` is true, the loss also depends on the row entropies, with the
 * gradients dentropy.
 */
void attention_run(attention_problem *p, const es_cpu_kernels *kernels,
                   int n_threads, bool entropy);

/** Compares everything that attention_run wrote with es_ref_attention. */
void attention_check(const attention_problem *p, bool entropy);

/**
 * Checks a problem of one head whose first NaN or infinity is in key
 * `position`: rows before `position` must be finite, and all other rows must be
 * NaN.
 */
void attention_expect_nan_from(const attention_problem *p, int position);

/**
 * Checks a problem of one head with PowerSoftmax: all weights of row `position`
 * must be NaN, and the weights of every other row must be finite.
 */
void attention_expect_nan_at(const attention_problem *p, int position);

/**
 * Checks a problem of one head with a NaN in column c of value `position`:
 * outputs from that position on must be NaN in column c; no statistic may be
 * NaN.
 */
void attention_expect_nan_value(const attention_problem *p, int position,
                                int column);

/**
 * Checks a problem in which the temperature of query i of head h is NaN: the
 * rows of this query, and all gradients that depend on their weights, must be
 * NaN; other rows and other heads must not contain a NaN.
 */
void attention_expect_nan_temperature(const attention_problem *p, int h, int i);

/** Checks PowerSoftmax of scores that are all 0: all weights must be 0. */
void attention_expect_no_weight(const attention_problem *p);

/**
 * Checks that the temperature of every row with two or more keys has a
 * gradient.
 */
void attention_expect_pulled(const attention_problem *p);

/**
 * Checks the formulas of es_ref_attention_backward with finite differences of
 * es_ref_attention, for a small head and the loss L = sum dy * y + sum w * e,
 * where y are the outputs, e are the row entropies, and dy and w are constants.
 * If `temperatures` is true, also checks the gradients of the temperatures.
 */
void attention_check_reference(int power, double epsilon, bool temperatures);
/**
 * Same as attention_check_reference, but for other forms of attention: a plain
 * power, scaled ReLU, and epsilons that grow with the length.
 */
void attention_check_reference_form(int power, double epsilon, bool plain,
                                    es_row_length length);

#endif
