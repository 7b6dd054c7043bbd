/**
 * A second implementation of the trainer's operations; tests compare the fast
 * operations with it. Each function computes one formula of the specification
 * with plain loops in double.
 */
#ifndef ES_TESTS_REFERENCE_OPS_H
#define ES_TESTS_REFERENCE_OPS_H

#include "analyzer/heads/heads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Returns a repeatable random number, uniform in [-1, 1). */
double es_test_random(uint64_t *state);
/** Fills out (n) with random numbers times `scale`. */
void es_test_fill(float *out, size_t n, double scale, uint64_t *state);

/**
 * Fails the test unless ||got - want|| <= 2e-5 * ||want|| + 1e-6 * sqrt(n)
 * over the finite entries, and NaN and infinity occur at the same indices.
 */
void es_test_expect_close(const char *what, const float *got,
                          const double *want, size_t n);

/**
 * Same as es_test_expect_close, but with given limits: the first is relative to
 * ||want||, the second is per entry.
 */
void es_test_expect_within(const char *what, const float *got,
                           const double *want, size_t n, double relative,
                           double absolute);

/**
 * Appends "WHAT ERROR TOLERANCE" to the file named by the environment variable
 * ENTROPY_PARITY. `make gpu-check` prints the errors of all arrays from this
 * file. Without the variable, does nothing.
 */
void es_test_report_error(const char *what, double error, double tolerance);

/**
 * Computes y (n,out) = x * W + b. The shape of the weight is (in,out), or
 * (out,in) if `transposed`.
 */
void es_ref_linear(double *y, const float *x, const float *weight,
                   const float *bias, int n, int n_in, int n_out,
                   bool transposed);
double es_ref_act(double x, es_activation kind, double slope);
/** Computes the derivative of an activation with a formula rather than finite
 *  differences. */
double es_ref_act_slope(double x, es_activation kind, double slope);
/** Normalises one row by LayerNorm. */
void es_ref_layer_norm(double *y, const float *x, const float *weight,
                       const float *bias, int width);
/** Returns -log softmax(x)[target]. */
double es_ref_cross_entropy(const float *x, int target, int n);

/* The following functions normalise weights. All matrices are (in,n). */

/** w[:,j] = g_j v[:,j] / |v[:,j]|. */
void es_ref_weight_norm(double *w, const double *v, const double *g, int n_in,
                        int n);
/** v (in) = m u / |m u|, u (n) = m^T v / |m^T v|. */
void es_ref_power_iteration(double *u, double *v, const double *m, int n_in,
                            int n);
/** Computes w = m / sigma. Returns sigma = v^T * m * u. */
double es_ref_spectral_norm(double *w, const double *m, const double *u,
                            const double *v, int n_in, int n);

/**
 * One head of attention. q, k, v, y are (T,D); log_t is (T) or NULL; rows
 * (ES_N_ROW_STATISTICS,T) are the row statistics, computed from their
 * definitions, except that the entropy has no epsilon, and that lse is NaN if
 * `power` is not 0.
 */
typedef struct es_ref_head {
    int n_ctx, width;
    int power; /* power of PowerSoftmax; 0 for softmax, 1 for scaled ReLU */
    double epsilon;
    bool plain;           /* PowerSoftmax without c */
    es_row_length length; /* kind of row length L, which is a factor of
                             PowerSoftmax's epsilon and the divisor of scaled
                             ReLU */
    double *c; /* (T) stabilising constant c of PowerSoftmax for each row, or
                  NULL; an input if c_is_given, else an output */
    bool c_is_given; /* true if c is an input, as finite differences require */
    double in_log;   /* epsilon added to each weight inside the logarithm of
                        the entropy */
    double *gap; /* (T) output: difference between the row's two largest scores;
                    or NULL */
    const double *q, *k, *v, *log_t;
    double *y, *rows;
    /* inputs of the backward pass: dy (T,D), dentropy (T) or NULL */
    const double *dy, *dentropy;
    double *dq, *dk, *dv, *dlog_t;
} es_ref_head;

void es_ref_attention(const es_ref_head *head);
/**
 * Computes dq, dk, dv and dlog_t from the Jacobian of the weights, one row at a
 * time. The derivative of the entropy is de/da = -(ln b + e) / sum a, where b =
 * a / sum a; sum a is 1 for softmax.
 */
void es_ref_attention_backward(const es_ref_head *head);

#endif
