/**
 * The trainer's operations once more: plain loops in double, one formula of
 * the specification each, for the fast ones to be compared with.
 */
#ifndef ES_TESTS_REFERENCE_OPS_H
#define ES_TESTS_REFERENCE_OPS_H

#include "analyzer/heads/heads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A repeatable random number: uniform in [-1, 1). */
double es_test_random(uint64_t *state);
/** Fills out (n) with random numbers times `scale`. */
void es_test_fill(float *out, size_t n, double scale, uint64_t *state);

/**
 * Fails the test unless ||got - want|| <= 2e-5 ||want|| + 1e-6 sqrt(n) over
 * the finite entries, and NaN stands against NaN, infinity against itself.
 */
void es_test_expect_close(const char *what, const float *got,
                          const double *want, size_t n);

/** Likewise with limits of one's own: relative to ||want||, and of an entry. */
void es_test_expect_within(const char *what, const float *got,
                           const double *want, size_t n, double relative,
                           double absolute);

/**
 * Appends "WHAT ERROR TOLERANCE" to the file that ENTROPY_PARITY names, for
 * `make gpu-check`, which prints how near each array comes; without it nothing.
 */
void es_test_report_error(const char *what, double error, double tolerance);

/** y (n,out) = x W + b; weight (in,out), or (out,in) if transposed. */
void es_ref_linear(double *y, const float *x, const float *weight,
                   const float *bias, int n, int n_in, int n_out,
                   bool transposed);
double es_ref_act(double x, es_activation kind, double slope);
/** The derivative; by its formula, not by differences. */
double es_ref_act_slope(double x, es_activation kind, double slope);
/** One row. */
void es_ref_layer_norm(double *y, const float *x, const float *weight,
                       const float *bias, int width);
/** -log softmax(x)[target]. */
double es_ref_cross_entropy(const float *x, int target, int n);

/* Normalised weights, all (in,n). */

/** w[:,j] = g_j v[:,j] / |v[:,j]|. */
void es_ref_weight_norm(double *w, const double *v, const double *g, int n_in,
                        int n);
/** v (in) = m u / |m u|, u (n) = m^T v / |m^T v|. */
void es_ref_power_iteration(double *u, double *v, const double *m, int n_in,
                            int n);
/** w = m / sigma; returns sigma = v^T m u. */
double es_ref_spectral_norm(double *w, const double *m, const double *u,
                            const double *v, int n_in, int n);

/** One head: q, k, v, y are (T,D); log_t (T) or NULL; rows
 * (ES_N_ROW_STATISTICS,T) by their definitions, the entropy without an epsilon;
 * lse NaN with a power. */
typedef struct es_ref_head {
    int n_ctx, width;
    int power; /* of PowerSoftmax; 0: softmax; 1: scaled ReLU */
    double epsilon;
    bool plain;           /* PowerSoftmax without c */
    es_row_length length; /* what the epsilon is multiplied with; of scaled
                             ReLU what it divides by */
    double *c;            /* (T) of PowerSoftmax, or NULL: written, */
    bool c_is_given;      /* or read instead, as differences need it */
    double in_log; /* what is added to a weight in the entropy's logarithm */
    double *gap;   /* (T) or NULL: from the largest score to the next one */
    const double *q, *k, *v, *log_t;
    double *y, *rows;
    /* the backward pass: dy (T,D), dentropy (T) or NULL */
    const double *dy, *dentropy;
    double *dq, *dk, *dv, *dlog_t;
} es_ref_head;

void es_ref_attention(const es_ref_head *head);
/** Through the Jacobian of the weights, with the T weights of a row stored and
 *  de/da = -(ln b + e) / sum a, b = a / sum a (softmax: sum a is 1). Writes dq,
 * dk, dv, dlog_t. */
void es_ref_attention_backward(const es_ref_head *head);

#endif
