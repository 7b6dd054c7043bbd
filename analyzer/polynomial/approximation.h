/**
 * Polynomials in the place of what homomorphic encryption cannot compute: the
 * division of PowerSoftmax, the inverse square root of LayerNorm, the gate of
 * an activation. Each is evaluated in float32 and, as a check of that, in
 * float64, by the same operations in the same order. Nothing is clipped:
 * outside of its interval a polynomial is what it is.
 *
 * Functions allocate nothing, and may be called by any thread.
 */
#ifndef ES_APPROXIMATION_H
#define ES_APPROXIMATION_H

#include "analyzer/arch/arch.h"
#include <stdint.h>

/** Factors of Goldschmidt's beyond which float32 is no better: its 1 - x s is 1
 *  where x s is below 2^-24, and so many factors double what is left. */
#define ES_DIVISION_MOST_FACTORS 22

/** The largest degree of a gate; the most factors or steps of a choice. */
enum { ES_GATE_MOST_DEGREE = 127, ES_POLYNOMIAL_MOST_ITERATIONS = 64 };

/** What an approximation is for: low <= x <= high. */
typedef struct es_interval {
    double low, high;
} es_interval;

/** False for a NaN, too. */
static inline bool es_interval_has(const es_interval *interval, double x)
{
    return x >= interval->low && x <= interval->high;
}

/** 1 / x by Goldschmidt: s (1 + e) (1 + e^2) (1 + e^4)..., e = 1 - s x, s = 2 /
 *  (low + high): es_polynomial_inverse. Diverges above low + high; below low
 *  it gives less than 1 / x. */
typedef struct es_division {
    es_interval in;
    int factors;
} es_division;

float es_divide_f32(const es_division *how, float x);
double es_divide_f64(const es_division *how, double x);

/** The largest |es_divide_f64 - 1 / x| in the interval: 4,001 places, the ends
 *  among them. */
double es_division_error(const es_division *how);

/** 1 / sqrt(x) by Newton: y <- y (3 - x y^2) / 2 from 1 / sqrt(high):
 *  es_polynomial_rsqrt. Above 3 high its sign may be wrong, above 5 high it
 *  diverges. */
typedef struct es_inverse_root {
    es_interval in;
    int steps;
} es_inverse_root;

float es_invert_root_f32(const es_inverse_root *how, float x);
double es_invert_root_f64(const es_inverse_root *how, double x);

/** The gate g of an activation x g(x), |x| <= range, by the polynomial that
 *  meets it at the degree + 1 Chebyshev nodes. */
typedef struct es_gate {
    es_activation kind; /* G, GT or GS */
    double range;
    int degree; /* 1 .. ES_GATE_MOST_DEGREE */
    double coefficients[ES_GATE_MOST_DEGREE + 1];
} es_gate;

/** Does the activation have such a gate? ReLU and its kin have a corner that
 *  no degree reaches. */
bool es_gate_exists(es_activation kind);

/** g(x) of G: Phi(x); of GT: its tanh form; of GS: sigmoid(1.702 x). */
double es_gate_exact(es_activation kind, double x);

/** Sets all of it. O(degree^2). False: no such activation, a degree or range
 *  that makes no sense. */
bool es_gate_make(es_gate *out, es_activation kind, int degree, double range);

float es_gate_f32(const es_gate *gate, float x);
double es_gate_f64(const es_gate *gate, double x);

/** The largest |x g(x) - x polynomial| for |x| <= range: 4,001 places a side.
 */
double es_gate_error(const es_gate *gate);

/**
 * The largest error of the GELU x p(1.702 x) for |1.702 x| <= range, against
 * x sigmoid(1.702 x), where p meets the sigmoid at its degree + 1 Chebyshev
 * nodes (the truncated series has half of the error); outside of the range it
 * grows without bound. The function it approximates is
 * itself 0.0203 away from GELU at most.
 *
 *   degree  odd, 1 .. 127
 *
 * NaN if an argument is outside of this. O(degree^2).
 */
double es_polynomial_gelu_error(int degree, double range);

/* --- PowerSoftmax --------------------------------------------------------- */

/**
 * Weights as they are trained, of the scores x of a row, L its length:
 *
 *   z = x / (max |x| + 1e-6), plain: x;  a = z^p / (epsilon L + sum z^p)
 *
 * L = 1 where length says none. And what stands for them, with a constant, the
 * unit, in the place of the row's largest:
 *
 *   z = x / unit;  a = z^p / n q(D),  D = epsilon / unit^p + sum z^p / n
 *
 * where q is the division, n = L, and the epsilon is 0 unless the form is
 * plain: the unit cancels, and differs from the trained form by the trained
 * epsilon at most. A plain form differs by nothing but q.
 * PowerSoftmax (Zimerman et al., arXiv 2410.09457), eqs 2 to 6.
 */
typedef struct es_power_form {
    int power; /* even */
    double epsilon;
    bool plain;
    es_row_length length;
    int n_ctx; /* T */
    double unit;
} es_power_form;

/** D of a row of n >= 1 scores, in float64. */
double es_power_denominator(const es_power_form *form, const float *scores,
                            int n);

/** weights (n) by the division, of scores (n); returns D. */
float es_power_weigh_f32(float *weights, const es_power_form *form,
                         const es_division *how, const float *scores, int n);
double es_power_weigh_f64(double *weights, const es_power_form *form,
                          const es_division *how, const float *scores, int n);

/** weights (n) as trained, in float64; all NaN where that is not finite. */
void es_power_weigh_exact(double *weights, const es_power_form *form,
                          const float *scores, int n);

/* --- what was found ------------------------------------------------------- */

/** The inputs that layers have for them. */
typedef enum es_approximated {
    ES_APPROXIMATED_ATTN, /* denominators D of attention rows */
    ES_APPROXIMATED_ACT,  /* what an activation is given */
    ES_APPROXIMATED_NORM, /* variance + epsilon of rows */
    ES_N_APPROXIMATED
} es_approximated;

/** "attn", "act", "norm". */
extern const char *const es_approximated_names[ES_N_APPROXIMATED];

/** Of inputs and results, as they come. */
typedef struct es_findings {
    uint64_t n, n_outside; /* inputs; those outside of the interval, and those
                              that are not finite */
    double low, high; /* of the finite inputs; above low is high: there were
                         none */
    double largest;   /* |what the approximated function is given|: score,
                         number, number of the norm; NaN if one was */
    double error;     /* largest |polynomial in float32 - exact form in
                         float64|: of weights, activations, normalised
                         numbers; NaN if one was */
    double rounding;  /* largest |float32 - float64| of the same polynomial */
} es_findings;

es_findings es_findings_start(void);

/** An input; interval NULL: whether it is outside is not judged, unless it is
 *  not finite. */
void es_findings_add_input(es_findings *findings, double x,
                           const es_interval *interval);

/** What is known of one result. */
void es_findings_add_result(es_findings *findings, float f32, double f64,
                            double exact);

/** |x| among the largest. */
void es_findings_add_size(es_findings *findings, float x);

void es_findings_merge(es_findings *findings, const es_findings *more);

/* --- choosing ------------------------------------------------------------- */

/** How approximations are chosen from what inputs were found. */
typedef struct es_approximation_choice {
    int factors, steps, degree; /* 0: as many as `error` takes */
    double error;               /* relative, of the inverses; of activations
                                   the largest absolute one */
    double margin; /* >= 1: intervals are wider by it than what was found */
} es_approximation_choice;

/**
 * False: there were no finite inputs, or none above 0 of a division or root.
 *
 *   es_division_choose  in is [max(low / margin, least), margin high]; at most
 *                       ES_DIVISION_MOST_FACTORS unless the choice has more.
 *                       least: what D cannot be below but for
 *                       the rounding of float32, 0 if anything
 *   es_gate_choose      |x| <= margin high; the smallest degree 7, 15, 31, 63
 *                       or 127 with that error, or 127
 */
bool es_division_choose(es_division *out, const es_approximation_choice *choice,
                        const es_findings *found, double least);
bool es_inverse_root_choose(es_inverse_root *out,
                            const es_approximation_choice *choice,
                            const es_findings *found);
bool es_gate_choose(es_gate *out, const es_approximation_choice *choice,
                    const es_findings *found, es_activation kind);

/* --- multiplicative depth --------------------------------------------------
 */

/**
 * Products one after another, of numbers or with constants; sums are free, and
 * a constant is part of the weights beside it where there are some.
 *
 *   es_attention_levels   projection, q . k, power, mask (or values), factors,
 *                         output projection: factors + 4 + ceil(log2 p). The
 *                         factors multiply sum x^p v
 *   es_norm_levels        centring, square, two a step, product: 2 steps + 3
 *   es_activation_levels  es_polynomial_levels: the product with x is in it
 */
int es_attention_levels(int power, int factors);
int es_norm_levels(int steps);
int es_activation_levels(int degree);

#endif
