/* Iterations, levels and errors of polynomial approximations, in closed form or
   by iterating the worst case: for the verb cost. */
#include "analyzer/cost/polynomial.h"

#include <math.h>

enum { MOST_ITERATIONS = 200, MOST_DEGREE = 127, POINTS = 4000 };

static int is_valid(double k, double error)
{
    return k >= 1 && isfinite(k) && error > 0 && error < 1;
}

es_polynomial_cost es_polynomial_inverse(double k, double error)
{
    /* -log of the first error: (k - 1) / (k + 1) is near 1. */
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
    double y = 1 / sqrt(k); /* times sqrt(x), at the smallest x */
    int n = 0;
    for (; n < MOST_ITERATIONS && 1 - y > error; n++)
        y = y * (3 - y * y) / 2;
    return (es_polynomial_cost){n, 2 * n};
}

/* --- Chebyshev ------------------------------------------------------------*/

static double sigmoid(double u)
{
    return 1 / (1 + exp(-u));
}

/* Coefficients of what meets sigmoid(range t), |t| <= 1, at the nodes. */
static void expand(double *out, int degree, double range)
{
    const double pi = acos(-1);
    const int n = degree + 1;
    for (int j = 0; j <= degree; j++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            const double angle = pi * (i + 0.5) / n;
            sum += sigmoid(range * cos(angle)) * cos(j * angle);
        }
        out[j] = sum * (j ? 2 : 1) / n;
    }
}

/* Clenshaw's sum. */
static double evaluate(const double *coefficients, int degree, double t)
{
    double next = 0, after = 0;
    for (int j = degree; j > 0; j--) {
        const double here = 2 * t * next - after + coefficients[j];
        after = next;
        next = here;
    }
    return t * next - after + coefficients[0];
}

double es_polynomial_gelu_error(int degree, double range)
{
    double coefficients[MOST_DEGREE + 1], largest = 0;
    if (degree < 1 || degree > MOST_DEGREE || degree % 2 == 0 || !(range > 0) ||
        !isfinite(range))
        return NAN;
    expand(coefficients, degree, range);
    for (int i = 0; i <= POINTS; i++) {
        const double t = (double)i / POINTS; /* even but for a constant */
        const double error =
            evaluate(coefficients, degree, t) - sigmoid(range * t);
        largest = fmax(largest, fabs(error * range * t / 1.702));
    }
    return largest;
}

int es_polynomial_levels(int degree)
{
    return (int)ceil(log2(degree + 1.0)) + 1;
}
