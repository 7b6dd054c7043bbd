/**
 * Evaluates polynomials that replace functions which homomorphic encryption
 * cannot compute: the division of PowerSoftmax, the inverse square root of
 * LayerNorm, the gate of an activation. Each polynomial is evaluated in float32
 * and, to measure rounding errors, in float64 with the same operations in the
 * same order. Inputs are not clipped. Outside its interval a polynomial does
 * not approximate the function.
 *
 * The functions allocate nothing and may be called from any thread.
 */
#ifndef ES_APPROXIMATION_H
#define ES_APPROXIMATION_H

#include "analyzer/arch/arch.h"
#include <stdint.h>

/**
 * The number of Goldschmidt factors beyond which float32 results do not
 * improve. The reason is that if x times the scale s is below 2^-24, 1 - x s
 * rounds to 1, and every further factor only doubles the result.
 */
#define ES_DIVISION_MOST_FACTORS 22

/**
 * The largest degree of a gate polynomial, and the largest number of factors or
 * steps that es_approximation_choice allows.
 */
enum { ES_GATE_MOST_DEGREE = 127, ES_POLYNOMIAL_MOST_ITERATIONS = 64 };

/**
 * The interval low <= x <= high of inputs for which an approximation is
 * accurate.
 */
typedef struct es_interval {
    double low, high;
} es_interval;

/** Returns true if x is in the interval; false for NaN. */
static inline bool es_interval_has(const es_interval *interval, double x)
{
    return x >= interval->low && x <= interval->high;
}

/**
 * Parameters of the approximation of 1 / x by Goldschmidt's method, the product
 * s * (1 + e) * (1 + e^2) * (1 + e^4) * ... with s = 2 / (low + high) and
 * e = 1 - s * x. See es_polynomial_inverse. The product diverges for x above
 * low + high; for x below low the result is less than 1 / x.
 */
typedef struct es_division {
    es_interval in;
    int factors;
} es_division;

float es_divide_f32(const es_division *how, float x);
double es_divide_f64(const es_division *how, double x);

/**
 * Returns the largest |es_divide_f64 - 1 / x| at 4,001 points of the interval,
 * including both ends.
 */
double es_division_error(const es_division *how);

/**
 * Parameters of the approximation of 1 / sqrt(x) by Newton's method:
 * y <- y * (3 - x * y^2) / 2, starting with y = 1 / sqrt(high). See
 * es_polynomial_rsqrt. For x above 3 * high the sign may be wrong; for x above
 * 5 * high the iteration diverges.
 */
typedef struct es_inverse_root {
    es_interval in;
    int steps;
} es_inverse_root;

float es_invert_root_f32(const es_inverse_root *how, float x);
double es_invert_root_f64(const es_inverse_root *how, double x);

/**
 * A polynomial gate of an activation x * g(x): interpolates g for |x| <= range
 * at the degree + 1 Chebyshev nodes.
 */
typedef struct es_gate {
    es_activation kind; /* the activation: G, GT or GS */
    double range;
    int degree; /* degree of the polynomial, 1 .. ES_GATE_MOST_DEGREE */
    double coefficients[ES_GATE_MOST_DEGREE + 1];
} es_gate;

/**
 * Returns true if the activation has a smooth gate. ReLU and its variants have
 * no smooth gate: polynomials of any degree approximate their corner badly.
 */
bool es_gate_exists(es_activation kind);

/**
 * Returns the exact gate g(x): Phi(x) for G, the tanh approximation of Phi for
 * GT, sigmoid(1.702 x) for GS.
 */
double es_gate_exact(es_activation kind, double x);

/**
 * Computes the polynomial gate in O(degree^2). Returns false if the activation
 * has no gate, or the degree or range is out of bounds.
 */
bool es_gate_make(es_gate *out, es_activation kind, int degree, double range);

float es_gate_f32(const es_gate *gate, float x);
double es_gate_f64(const es_gate *gate, double x);

/**
 * Returns the largest |x * g(x) - x * p(x)| for |x| <= range, where g is the
 * exact gate and p its polynomial, at 4,001 points for each sign of x.
 */
double es_gate_error(const es_gate *gate);

/**
 * Returns the largest error of the GELU x p(1.702 x) for |1.702 x| <= range,
 * compared with x sigmoid(1.702 x), where p interpolates the sigmoid at degree
 * + 1 Chebyshev nodes. (The truncated Chebyshev series has half the error of
 * the interpolation.) Outside the range the error grows without bound. x
 * sigmoid(1.702 x) itself differs from GELU by at most 0.0203.
 *
 *   degree  odd, 1 .. 127
 *
 * Returns NaN if an argument is out of bounds. Costs O(degree^2).
 */
double es_polynomial_gelu_error(int degree, double range);

/* --- PowerSoftmax --------------------------------------------------------- */

/**
 * Parameters of PowerSoftmax. In training, the weights a of a row with scores x
 * and length L are
 *
 *   z = x / (max |x| + 1e-6), or x if plain;  a = z^p / (epsilon L + sum z^p)
 *
 * L = 1 if `length` is ES_LENGTH_NONE. The polynomial form replaces the largest
 * score of the row by a constant, the unit:
 *
 *   z = x / unit;  a = z^p / n q(D),  D = epsilon / unit^p + sum z^p / n
 *
 * where q is the division, n = L, and the epsilon is 0 unless the form is
 * plain. The unit cancels, so the two forms differ by at most the epsilon used
 * in training, in addition to the error of q; if `plain` is set, they differ
 * only by the error of q. Source: PowerSoftmax (Zimerman et al., arXiv
 * 2410.09457), eqs 2 to 6.
 */
typedef struct es_power_form {
    int power; /* p, even */
    double epsilon;
    bool plain;
    es_row_length length;
    int n_ctx; /* T */
    double unit;
} es_power_form;

/**
 * Returns the denominator by which PowerSoftmax divides the weights of a row of
 * n >= 1 scores, computed in float64.
 */
double es_power_denominator(const es_power_form *form, const float *scores,
                            int n);

/**
 * Compute weights (n) from scores (n) with the polynomial division. Return the
 * row's denominator.
 */
float es_power_weigh_f32(float *weights, const es_power_form *form,
                         const es_division *how, const float *scores, int n);
double es_power_weigh_f64(double *weights, const es_power_form *form,
                          const es_division *how, const float *scores, int n);

/**
 * Computes weights (n) as in training, in float64. All weights are NaN if their
 * denominator is 0 or not finite.
 */
void es_power_weigh_exact(double *weights, const es_power_form *form,
                          const float *scores, int n);

/* --- findings ------------------------------------------------------------- */

/** The functions of a layer that polynomials approximate. */
typedef enum es_approximated {
    ES_APPROXIMATED_ATTN, /* the denominators by which the weights of attention
                             rows are divided */
    ES_APPROXIMATED_ACT,  /* the inputs of the activation */
    ES_APPROXIMATED_NORM, /* variance + epsilon of each row that a norm
                             normalises */
    ES_N_APPROXIMATED
} es_approximated;

/** The names "attn", "act" and "norm". */
extern const char *const es_approximated_names[ES_N_APPROXIMATED];

/** Statistics of the inputs and results of an approximation. */
typedef struct es_findings {
    uint64_t n, n_outside; /* n: number of inputs; n_outside: number of inputs
                              that are outside the interval or not finite */
    /* Range of the finite inputs; low > high if no input is finite. */
    double low, high;
    double largest; /* largest absolute value passed to the exact function: a
                       score, an input of the activation or of the norm; NaN if
                       any of them is NaN */
    /* Largest difference between the polynomial in float32 and the exact
     * function in float64, of weights, activations or normalised values; NaN if
     * any difference is NaN. */
    double error;
    double rounding; /* largest difference between the float32 and float64
                        results of the same polynomial */
} es_findings;

es_findings es_findings_start(void);

/**
 * Adds an input. If `interval` is NULL, only non-finite inputs are counted in
 * n_outside.
 */
void es_findings_add_input(es_findings *findings, double x,
                           const es_interval *interval);

/** Updates `error` and `rounding` with one result. */
void es_findings_add_result(es_findings *findings, float f32, double f64,
                            double exact);

/** Updates `largest` with |x|. */
void es_findings_add_size(es_findings *findings, float x);

void es_findings_merge(es_findings *findings, const es_findings *more);

/* --- choosing ------------------------------------------------------------- */

/**
 * Settings for choosing approximations that cover the observed inputs
 * (es_findings).
 */
typedef struct es_approximation_choice {
    /* Number of Goldschmidt factors, number of Newton steps, degree of the
     * gate; 0: the smallest number with which the error is at most `error`. */
    int factors, steps, degree;
    double error;  /* allowed error: relative for the inverses,
                      absolute for activations */
    double margin; /* factor >= 1 by which intervals are wider than the range of
                      the observed inputs */
} es_approximation_choice;

/**
 * Choose an approximation for the observed inputs `found`. Return false if no
 * input was finite, or, for a division or root, if an input was not positive.
 *
 *   es_division_choose  the interval is [max(low / margin, least),
 *                       margin * high]. Uses at most ES_DIVISION_MOST_FACTORS
 *                       factors unless the settings request more. `least` is a
 *                       known lower bound of PowerSoftmax's denominator,
 *                       ignoring float32 rounding; 0 if there is no known bound
 *   es_gate_choose      |x| <= margin * high; the smallest of the degrees
 *                       7, 15, 31, 63 and 127 whose error is small enough,
 *                       otherwise 127
 */
bool es_division_choose(es_division *out, const es_approximation_choice *choice,
                        const es_findings *found, double least);
bool es_inverse_root_choose(es_inverse_root *out,
                            const es_approximation_choice *choice,
                            const es_findings *found);
bool es_gate_choose(es_gate *out, const es_approximation_choice *choice,
                    const es_findings *found, es_activation kind);

/* --- multiplicative depth ------------------------------------------------- */

/**
 * Return the number of levels, which is the length of the longest chain of
 * multiplications (of values, or by constants) that depend on each other.
 * Additions need no level, nor does a constant that can be merged with adjacent
 * weights.
 *
 *   es_attention_levels   projection, q . k, power, mask (or values), factors,
 *                         output projection: factors + 4 + ceil(log2 p). The
 *                         factors multiply the sum of x^p v over the keys
 *   es_norm_levels        centring, square, two per step, product:
 *                         2 * steps + 3
 *   es_activation_levels  es_polynomial_levels, which includes the product with
 *                         x
 */
int es_attention_levels(int power, int factors);
int es_norm_levels(int steps);
int es_activation_levels(int degree);

#endif
