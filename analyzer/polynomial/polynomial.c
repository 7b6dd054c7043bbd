/* Computes iterations, levels and errors of polynomial approximations, in
   closed form or by iterating the worst case. Used by the verb cost and to
   choose approximations. */
#include "analyzer/polynomial/polynomial.h"

#include <math.h>

enum { MOST_ITERATIONS = 200 };

static int is_valid(double k, double error)
{
    return k >= 1 && isfinite(k) && error > 0 && error < 1;
}

es_polynomial_cost es_polynomial_inverse(double k, double error)
{
    /* The convergence rate is -log of the initial error (k - 1) / (k + 1).
     * log1p is accurate even if this error is near 1. */
    const double rate = -log1p(-2 / (k + 1));
    if (!is_valid(k, error))
        return (es_polynomial_cost){-1, -1};
    int n = 0;
    while (n < MOST_ITERATIONS && ldexp(rate, n) < -log(error))
        n++;
    return (es_polynomial_cost){n, n};
}

double es_polynomial_inverse_error(double epsilon, int factors)
{
    if (!(epsilon > 0) || factors < 0)
        return NAN;
    return exp(-ldexp(log1p(2 * epsilon), factors)) / epsilon;
}

es_polynomial_cost es_polynomial_rsqrt(double k, double error)
{
    if (!is_valid(k, error))
        return (es_polynomial_cost){-1, -1};
    double y = 1 / sqrt(k); /* the first estimate of 1 / sqrt(x), multiplied by
                               sqrt(x), for the smallest x */
    int n = 0;
    for (; n < MOST_ITERATIONS && 1 - y > error; n++)
        y = y * (3 - y * y) / 2;
    return (es_polynomial_cost){n, 2 * n};
}

int es_polynomial_levels(int degree)
{
    return (int)ceil(log2(degree + 1.0)) + 1;
}
