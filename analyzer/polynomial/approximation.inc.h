/* Implements the polynomials for one precision. approximation.c includes this
 * file twice, with REAL defined as float and as double; NAME forms the names of
 * the functions. */

REAL NAME(es_divide)(const es_division *how, REAL x)
{
    const REAL s = (REAL)(2 / (how->in.low + how->in.high));
    REAL e = 1 - s * x, y = s;
    for (int i = 0; i < how->factors; i++) {
        y *= 1 + e;
        e *= e;
    }
    return y;
}

REAL NAME(es_invert_root)(const es_inverse_root *how, REAL x)
{
    REAL y = (REAL)(1 / sqrt(how->in.high));
    for (int i = 0; i < how->steps; i++)
        y *= (REAL)0.5 * (3 - x * y * y);
    return y;
}

/* Evaluates the Chebyshev series that approximates GELU's gate (a sigmoid), by
 * Clenshaw's recurrence. */
REAL NAME(es_gate)(const es_gate *gate, REAL x)
{
    const REAL t = x / (REAL)gate->range;
    REAL next = 0, after = 0;
    for (int j = gate->degree; j > 0; j--) {
        const REAL here = 2 * t * next - after + (REAL)gate->coefficients[j];
        after = next;
        next = here;
    }
    return t * next - after + (REAL)gate->coefficients[0];
}

/* Returns x^p by repeated squaring. */
static REAL NAME(raise)(REAL x, int p)
{
    REAL y = 1;
    for (; p > 0; p /= 2, x *= x)
        y *= p % 2 ? x : 1;
    return y;
}

/* Writes the numerators of PowerSoftmax, z^p / L with z = score / form->unit,
   to `out` (n) unless `out` is NULL. Returns the denominator, which is the sum
   of the numerators plus a constant. */
static REAL NAME(prepare)(REAL *out, const es_power_form *form,
                          const float *scores, int n)
{
    const REAL per = (REAL)(1 / form->unit);
    const REAL share = (REAL)(1 / length_of(form, n));
    REAL sum = (REAL)constant_of(form);
    for (int j = 0; j < n; j++) {
        const REAL z = NAME(raise)((REAL)scores[j] * per, form->power) * share;
        sum += z;
        if (out)
            out[j] = z;
    }
    return sum;
}

REAL NAME(es_power_weigh)(REAL *weights, const es_power_form *form,
                          const es_division *how, const float *scores, int n)
{
    const REAL denominator = NAME(prepare)(weights, form, scores, n);
    const REAL inverse = NAME(es_divide)(how, denominator);
    for (int j = 0; j < n; j++)
        weights[j] *= inverse;
    return denominator;
}
