/**
 * What functions cost that homomorphic encryption computes as polynomials: the
 * inverse of PowerSoftmax, the inverse square root of LayerNorm, the sigmoid of
 * a GELU. An iteration or factor is a level or more of multiplications; levels
 * are what an encrypted number has few of.
 */
#ifndef ES_POLYNOMIAL_H
#define ES_POLYNOMIAL_H

/** What an approximation takes. */
typedef struct es_polynomial_cost {
    int iterations; /* factors of Goldschmidt's, steps of Newton's */
    int levels;     /* multiplications one after another */
} es_polynomial_cost;

/**
 * Goldschmidt's inverse of x in [low, k low] to a relative error: with
 * x' = s x, s = 2 / (low + k low) and e = 1 - x', y = s (1 + e)(1 + e^2)...
 * After n factors the relative error is at most ((k - 1) / (k + 1))^(2^n), the
 * degree 2^n - 1, one level a factor. Of the stable PowerSoftmax k is at most
 * the number of keys.
 *
 *   k      range of the argument, largest by smallest, >= 1
 *   error  relative, above 0 and below 1
 *
 * iterations -1 if an argument is outside of this, or NaN. PowerSoftmax
 * (Zimerman et al., arXiv 2410.09457).
 */
es_polynomial_cost es_polynomial_inverse(double k, double error);

/** The largest error of 1 / (x + epsilon), x in [0, 1], after that many
 *  factors: at x = 0. NaN if epsilon <= 0 or factors < 0. */
double es_polynomial_inverse_error(double epsilon, int factors);

/**
 * Newton's inverse square root of x in [low, k low]: y <- y (3 - x y^2) / 2
 * from y = 1 / sqrt(k low), two levels a step. As above.
 */
es_polynomial_cost es_polynomial_rsqrt(double k, double error);

/** Levels that a polynomial of a degree takes, ceil(log2(degree + 1)) + 1. */
int es_polynomial_levels(int degree);

#endif
