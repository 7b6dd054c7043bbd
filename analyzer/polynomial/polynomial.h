/**
 * Computes the cost of functions that homomorphic encryption evaluates as
 * polynomials: the inverse of PowerSoftmax, the inverse square root of
 * LayerNorm, the sigmoid of a GELU. Each iteration or factor takes one or more
 * levels of multiplication, and an encrypted number has only a limited number
 * of levels.
 */
#ifndef ES_POLYNOMIAL_H
#define ES_POLYNOMIAL_H

/** The cost of a polynomial approximation. */
typedef struct es_polynomial_cost {
    int iterations; /* number of Goldschmidt factors or Newton steps */
    int levels; /* length of the longest chain of multiplications that depend on
                   each other */
} es_polynomial_cost;

/**
 * Returns the cost of Goldschmidt's inverse of x in [low, k * low] to a given
 * relative error. With s = 2 / (low + k * low), x' = s * x and e = 1 - x', the
 * inverse is the product y = s * (1 + e) * (1 + e^2) * (1 + e^4)... After n
 * factors the relative error is at most ((k - 1) / (k + 1))^(2^n) and the
 * degree 2^n - 1; each factor takes one level. For the stable PowerSoftmax, k
 * is at most the number of keys.
 *
 *   k      largest argument divided by the smallest, >= 1
 *   error  relative error, above 0 and below 1
 *
 * In the result, `iterations` is -1 if an argument is out of bounds or NaN.
 * Source: PowerSoftmax (Zimerman et al., arXiv 2410.09457).
 */
es_polynomial_cost es_polynomial_inverse(double k, double error);

/**
 * Returns the largest error of the inverse of x + epsilon, x in [0, 1], after
 * `factors` factors of Goldschmidt's product. The largest error is at x = 0.
 * NaN if epsilon <= 0 or factors < 0.
 */
double es_polynomial_inverse_error(double epsilon, int factors);

/**
 * Returns the cost of Newton's inverse square root of x in [low, k * low]. The
 * iteration starts with y = 1 / sqrt(k * low) and replaces y by y * (3 - x *
 * y^2) / 2; each step takes two levels of multiplication. Parameters and errors
 * are the same as in es_polynomial_inverse.
 */
es_polynomial_cost es_polynomial_rsqrt(double k, double error);

/**
 * Returns the number of levels of a polynomial of degree `degree`:
 * ceil(log2(degree + 1)) + 1.
 */
int es_polynomial_levels(int degree);

#endif
