/** Heads to attend, for every variant of the kernels, and plain loops in double
 *  to judge them by. */
#ifndef ES_TESTS_ATTENTION_PROBLEM_H
#define ES_TESTS_ATTENTION_PROBLEM_H

#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/reference_ops.h"
#include "tests/support/variants.h"

/** B sequences, H heads of width D. */
typedef struct attention_problem {
    int n_batch, n_ctx, n_head, width;
    int power; /* 0: softmax; ES_CPU_RELU: scaled ReLU */
    float epsilon;
    bool plain;
    es_row_length length;
    bool half;       /* emulates fp16 */
    bool bf16;       /* activations are; qkv and dy are rounded by a run */
    bool on_device;  /* rows have no statistics of scores */
    bool tiles;      /* of bf16: by matrix units, where there are some */
    double rounding; /* what outputs and gradients may be off, relative; 0: as
                        es_test_expect_close has it */
    size_t n_rows, n_values; /* B H T; B H T D */
    float *qkv, *dqkv, *y, *dy, *saved, *dentropy;
    float *rows;           /* (ES_N_ROW_STATISTICS, B,H,T) */
    float *log_t, *dlog_t; /* (H,T), or NULL both */
} attention_problem;

/** Random q, k, v in [-3, 3), and gradients in [-1, 1). Softmax without
 *  temperatures. */
attention_problem attention_open(int n_batch, int n_ctx, int n_head, int width);
/** Adds temperatures whose logarithms are in [-0.5, 0.5). */
void attention_add_temperatures(attention_problem *p);
void attention_close(attention_problem *p);

/** With each variant of the kernels once, on a problem of its own. */
#define EACH_ATTENTION(p, kernels, opened)                                     \
    EACH_VARIANT(kernels)                                                      \
    for (attention_problem p = opened, *once = &p; once;                       \
         attention_close(&p), once = NULL)

void attention_scale_queries(attention_problem *p, float factor);

/** Two heads of nine temperatures of 1e-2 down to 1e-6, over scores as small
 *  as these: no row is one weight of 1. */
attention_problem attention_open_cold(void);

float *attention_floats(size_t n);
es_mem *attention_mem(void *floats_of_cpu);
es_attention attention_shape(const attention_problem *p);
/** A statistic of the rows, (B,H,T). */
float *attention_rows(const attention_problem *p, es_row_statistic statistic);
es_attention_kind attention_kind(const attention_problem *p);
bool attention_has_rows(const attention_problem *p, es_row_statistic statistic);

/** A CPU back-end with these kernels and space for the problem. */
es_backend *attention_backend(const es_cpu_kernels *kernels,
                              const attention_problem *p, int n_threads);

/** Forward with all statistics, and backward; `entropy`: from dentropy too. */
void attention_run(attention_problem *p, const es_cpu_kernels *kernels,
                   int n_threads, bool entropy);

/** After attention_run: all that it wrote, against es_ref_attention. */
void attention_check(const attention_problem *p, bool entropy);

/** For the problem of one head with its first NaN or infinity in key
 *  `position`: earlier rows are finite, it and later ones wholly NaN. */
void attention_expect_nan_from(const attention_problem *p, int position);

/** PowerSoftmax, one head: the weights of `position` are all NaN, and no other
 *  row's. */
void attention_expect_nan_at(const attention_problem *p, int position);

/** One head with a NaN in column c of value `position`: it reaches the outputs
 *  from there on, and no statistic. */
void attention_expect_nan_value(const attention_problem *p, int position,
                                int column);

/** NaN as the temperature of query i of head h: its rows, and what its weights
 *  reach in the backward pass, but no other row and no other head. */
void attention_expect_nan_temperature(const attention_problem *p, int h, int i);

/** PowerSoftmax of scores that are all 0: nothing has weight. */
void attention_expect_no_weight(const attention_problem *p);

/** Every temperature of a row of two keys or more has a gradient. */
void attention_expect_pulled(const attention_problem *p);

/** The formulas of es_ref_attention_backward by central differences of
 *  es_ref_attention: L = sum dy y + sum w e, a small head. `temperatures`:
 *  also theirs. */
void attention_check_reference(int power, double epsilon, bool temperatures);
/** The same of a plain power, scaled ReLU and epsilons by length. */
void attention_check_reference_form(int power, double epsilon, bool plain,
                                    es_row_length length);

#endif
