/**
 * What the kinds of attention differ in; part of kernels.inc.h. The weights
 * of a row of scores s are a = u / D, D = rest + sum u, with
 *
 *     softmax        u = exp(s - m)   m = max s     rest = 0
 *     PowerSoftmax   u = (s / m)^p    m = max |s|   rest = eps (c / m)^p
 *
 * where c = m + 1e-6 is the specification's: the same weights as with s / c,
 * but no row is so small that its powers vanish. All else is one formula. With
 * l = ln u, u' = du/ds, g the gradient of a, w that of the entropy e,
 * <x> = sum a x (which is no mean: the weights may sum to less than 1):
 *
 *     1 - sum a = rest / D
 *     e  = -sum a ln a = (sum a) ln D - <l>
 *     ds = u' / D [(g - <g>) - w (l - <l> - (1 - sum a)(ln D - 1))]
 *
 * PowerSoftmax's m is constant in the backward pass.
 */

/* Below this the largest score counts as this: its inverse is finite. */
#define TINY_SCORE 1e-30f
/* Beside a rest above this nothing has weight; it and its inverse are
 * finite. */
#define LARGE_REST 1e37f

/* Of one score: u and ln u; slope is du/ds, for PowerSoftmax times m / p. */
typedef struct raw_weight {
    vec u, log, slope;
} raw_weight;

/* x^n, n even. */
static inline vec raise(vec x, int n)
{
    vec y = splat(1), square = x * x;
    for (int rest = n / 2; rest > 0; rest /= 2) {
        if (rest % 2)
            y *= square;
        square *= square;
    }
    return y;
}

/* power 0: softmax, and `anchor` is m; else it is 1 / m. The logarithm of a
 * power that has vanished is finite, and its product with u is 0. */
static inline raw_weight weigh(vec score, vec anchor, int power)
{
    if (power == 0) {
        vec x = score - anchor, u = vec_exp(x);
        return (raw_weight){u, x, u};
    }
    vec x = score * anchor;
    vec slope = raise(x, power - 2) * x, u = slope * x;
    return (raw_weight){u, vec_log(u), slope};
}

/* What is known of the rows of a tile; one vector a half. */
typedef struct row_state {
    vec largest;   /* score */
    vec m, anchor; /* m, and what weigh wants of it */
    vec rest;
    vec sum, divisor; /* of u; D */
    vec moment;       /* sum of u ln u */
} row_state;

/* From the largest score and the largest absolute one. */
static inline row_state anchor_rows(vec largest, vec size, int power,
                                    float epsilon)
{
    row_state row = {.largest = largest, .m = largest, .anchor = largest};
    if (power == 0)
        return row;
    row.m = larger(splat(TINY_SCORE), size);
    row.anchor = splat(1) / row.m;
    if (epsilon > 0) {
        vec c = size + splat(1e-6f);
        row.rest = splat(epsilon) * raise(c * row.anchor, power);
        row.rest = smaller(splat(LARGE_REST), row.rest);
    }
    return row;
}
