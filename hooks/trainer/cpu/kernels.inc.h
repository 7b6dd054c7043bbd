/**
 * The functions of kernels.h, compiled once for each vector width. The
 * including file defines LANES, the vector width, and KERNELS, the name of the
 * resulting table.
 */
#include "analyzer/base/value.h"
#include "hooks/trainer/cpu/kernels.h"
#include "hooks/trainer/cpu/vector.h"

#include "hooks/trainer/cpu/attention.inc.h"
#include "hooks/trainer/cpu/bundle.inc.h"

#include "hooks/trainer/cpu/bundle_backward.inc.h"

/* --- biases --------------------------------------------------------------- */

static void add_bias(float *y, const float *bias, int n_rows, int width)
{
    for (int i = 0; i < n_rows; i++)
        for (int j = 0; j < width; j++)
            y[(size_t)i * (size_t)width + (size_t)j] += bias[j];
}

static void start_rows(float *y, const float *x, const float *bias, int n_rows,
                       int width)
{
    const size_t n = (size_t)width;
    if (x == y && bias)
        add_bias(y, bias, n_rows, width);
    for (int i = 0; x != y && i < n_rows; i++, y += n) {
        if (!x && bias)
            memcpy(y, bias, n * sizeof *y);
        else if (!x)
            memset(y, 0, n * sizeof *y);
        else if (bias)
            for (size_t j = 0; j < n; j++)
                y[j] = x[j] + bias[j];
        else
            memcpy(y, x, n * sizeof *y);
        x = x ? x + n : NULL;
    }
}

/* Adds the sum of each column of x to out. A row of x consists of n_vectors
 * vectors, of which the last has `last` columns. */
static inline void add_sums(float *out, const float *x, int n_rows, int stride,
                            int n_vectors, int last)
{
    const int end = n_vectors - 1;
    vec sum[8] = {{0}};
    for (int i = 0; i < n_rows; i++, x += stride) {
        for (int c = 0; c < end; c++)
            sum[c] += load(x + c * LANES);
        sum[end] += load_part(x + end * LANES, last, 0);
    }
    for (int c = 0; c < end; c++)
        store(out + c * LANES, load(out + c * LANES) + sum[c]);
    out += end * LANES;
    store_part(out, load_part(out, last, 0) + sum[end], last);
}

/* Processes 8 vectors of columns at a time. Each addition waits for the
 * previous addition to the same column, so several independent columns are
 * faster, although the code then reads only a few cache lines of each row. */
static void add_column_sums(float *out, const float *x, int n_rows, int width,
                            int stride)
{
    int j = 0;
    for (; j + 8 * LANES <= width; j += 8 * LANES)
        add_sums(out + j, x + j, n_rows, stride, 8, LANES);
    for (; j < width; j += LANES)
        add_sums(out + j, x + j, n_rows, stride, 1,
                 width - j < LANES ? width - j : LANES);
}

/* --- activations ---------------------------------------------------------- */

/* Returns Phi(x), the distribution function of the normal distribution, and
 * exp(-x^2 / 2) in *bell. Uses formula 7.1.26 of Abramowitz and Stegun, erfc(z)
 * = exp(-z^2) * (a1 * t + ... + a5 * t^5) with t = 1 / (1 + p * z), whose error
 * is below 1.5e-7. */
static inline vec normal_cdf(vec *bell, vec x)
{
    vec z = larger(x, -x) * splat(0.70710678f);
    vec t = splat(1) / (splat(1) + splat(0.3275911f) * z);
    vec p = splat(1.061405429f);
    p = p * t + splat(-1.453152027f);
    p = p * t + splat(1.421413741f);
    p = p * t + splat(-0.284496736f);
    p = p * t + splat(0.254829592f);
    *bell = vec_exp(x * x * splat(-0.5f));
    vec tail = splat(0.5f) * p * t * *bell;
    return choose(x > splat(0), splat(1) - tail, tail);
}

/* Returns s = 1 / (1 + exp(-x)), and 1 - s in *rest, computed so that it is
 * accurate even if s is near 1. Uses exp(-|x|), which cannot overflow. */
static inline vec sigmoid(vec *rest, vec x)
{
    const vec one = splat(1), small = vec_exp(smaller(x, -x));
    const vec large = one / (one + small);
    const ivec positive = x >= splat(0);
    *rest = choose(positive, small * large, large);
    return choose(positive, large, small * large);
}

/* Returns act(x), and the derivative act'(x) in *slope_of. Callers pass a
 * constant `kind` so that the compiler specialises the code. */
static inline vec activate_lanes(vec *slope_of, vec x, es_activation kind,
                                 float slope)
{
    const vec zero = splat(0), one = splat(1);
    if (kind == ES_ACT_GELU) {
        vec bell, cdf = normal_cdf(&bell, x);
        *slope_of = cdf + x * bell * splat(0.39894228f);
        return x * cdf;
    }
    if (kind == ES_ACT_GELU_TANH) {
        /* Uses (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), which is 0 or 1 for |x| >
         * 12. Limiting |x| to 12 keeps its powers from overflowing. */
        const float a = 1.59576912f, b = 0.044715f;
        vec near = larger(splat(-12), smaller(splat(12), x));
        vec square = near * near;
        vec u = splat(a) * near * (one + splat(b) * square);
        vec s = one / (one + vec_exp(-u));
        *slope_of =
            s + near * s * (one - s) * splat(a) * (one + splat(3 * b) * square);
        return x * s;
    }
    if (kind == ES_ACT_GELU_SIGMOID) {
        /* The sigmoid is 0 or 1 for |x| > 90. Limiting |x| to 90 avoids
         * infinity times 0 in u * (1 - s). */
        vec near = larger(splat(-90), smaller(splat(90), x));
        vec u = splat(1.702f) * near, rest, s = sigmoid(&rest, u);
        *slope_of = s * (one + u * rest);
        return x * s;
    }
    if (kind == ES_ACT_RELU) {
        *slope_of = choose(x <= zero, zero, one);
        return choose(x <= zero, zero, x);
    }
    *slope_of = choose(x < zero, splat(slope), one);
    return choose(x < zero, splat(slope) * x, x);
}

static inline void act_kind(float *post, const float *x, size_t n,
                            es_activation kind, float slope)
{
    size_t i = 0;
    vec unused;
    for (; i + LANES <= n; i += LANES)
        store(post + i, activate_lanes(&unused, load(x + i), kind, slope));
    if (i < n)
        store_part(post + i,
                   activate_lanes(&unused, load_part(x + i, (int)(n - i), 0),
                                  kind, slope),
                   (int)(n - i));
}

static void act(float *post, const float *x, size_t n, es_activation kind,
                float slope)
{
    if (kind == ES_ACT_GELU)
        act_kind(post, x, n, ES_ACT_GELU, slope);
    else if (kind == ES_ACT_GELU_TANH)
        act_kind(post, x, n, ES_ACT_GELU_TANH, slope);
    else if (kind == ES_ACT_GELU_SIGMOID)
        act_kind(post, x, n, ES_ACT_GELU_SIGMOID, slope);
    else if (kind == ES_ACT_RELU)
        act_kind(post, x, n, ES_ACT_RELU, slope);
    else
        act_kind(post, x, n, ES_ACT_LEAKY, slope);
}

/* Same as act_backward, for at most one vector of elements. */
static inline double act_backward_some(float *d, float *post, const float *x,
                                       int n, es_activation kind, float slope)
{
    vec derivative, value = load_part(x, n, 0);
    vec gradient = load_part(d, n, 0);
    store_part(post, activate_lanes(&derivative, value, kind, slope), n);
    store_part(d, gradient * derivative, n);
    return kind != ES_ACT_LEAKY
               ? 0
               : (double)sum_lanes(gradient *
                                   choose(value < splat(0), value, splat(0)));
}

static inline double act_backward_kind(float *d, float *post, const float *x,
                                       size_t n, es_activation kind,
                                       float slope)
{
    double dslope = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        dslope += act_backward_some(d + i, post + i, x + i, LANES, kind, slope);
    if (i < n)
        dslope += act_backward_some(d + i, post + i, x + i, (int)(n - i), kind,
                                    slope);
    return dslope;
}

static double act_backward(float *d, float *post, const float *x, size_t n,
                           es_activation kind, float slope)
{
    if (kind == ES_ACT_GELU)
        return act_backward_kind(d, post, x, n, ES_ACT_GELU, slope);
    if (kind == ES_ACT_GELU_TANH)
        return act_backward_kind(d, post, x, n, ES_ACT_GELU_TANH, slope);
    if (kind == ES_ACT_GELU_SIGMOID)
        return act_backward_kind(d, post, x, n, ES_ACT_GELU_SIGMOID, slope);
    if (kind == ES_ACT_RELU)
        return act_backward_kind(d, post, x, n, ES_ACT_RELU, slope);
    return act_backward_kind(d, post, x, n, ES_ACT_LEAKY, slope);
}

static void combine(float *y, const float *x, const float *f, float a, float b,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * f[i];
}

#include "hooks/trainer/cpu/dropout.inc.h"

static void gate(float *y, const float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const int part = n - i < LANES ? (int)(n - i) : LANES;
        vec rest, s = sigmoid(&rest, load_part(gate + i, part, 0));
        store_part(y + i, load_part(x + i, part, 0) * s, part);
    }
}

static void gate_backward(float *dx, float *gate, const float *dy,
                          const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const int part = n - i < LANES ? (int)(n - i) : LANES;
        vec rest, s = sigmoid(&rest, load_part(gate + i, part, 0));
        const vec along = load_part(dy + i, part, 0) * s;
        store_part(gate + i, along * load_part(x + i, part, 0) * rest, part);
        store_part(dx + i, along, part);
    }
}

#include "hooks/trainer/cpu/layer_norm.inc.h"
#include "hooks/trainer/cpu/llama.inc.h"

/* --- loss ----------------------------------------------------------------- */

static float row_largest(const float *x, int n)
{
    vec largest = splat(-INFINITY);
    for (int j = 0; j < n; j += LANES)
        largest = larger(largest,
                         load_part(x + j, n - j < LANES ? n - j : LANES, x[0]));
    return largest_lane(largest);
}

static void cross_entropy(float *row_loss, float *lse, const float *logits,
                          const int32_t *targets, int n_rows, int vocab)
{
    for (int i = 0; i < n_rows; i++, logits += vocab) {
        float m = row_largest(logits, vocab);
        vec sum = splat(0);
        for (int j = 0; j < vocab; j += LANES)
            sum += vec_exp(load_part(logits + j,
                                     vocab - j < LANES ? vocab - j : LANES,
                                     -INFINITY) -
                           splat(m));
        float log_sum = logf(sum_lanes(sum));
        lse[i] = m + log_sum;
        row_loss[i] = log_sum + (m - logits[targets[i]]);
    }
}

static void cross_entropy_backward(float *logits, const float *lse,
                                   const int32_t *targets, float scale,
                                   int n_rows, int vocab)
{
    for (int i = 0; i < n_rows; i++, logits += vocab) {
        for (int j = 0; j < vocab; j += LANES) {
            int n = vocab - j < LANES ? vocab - j : LANES;
            vec p = vec_exp(load_part(logits + j, n, 0) - splat(lse[i]));
            store_part(logits + j, p * splat(scale), n);
        }
        if (targets[i] >= 0 && targets[i] < vocab)
            logits[targets[i]] -= scale;
    }
}

/* --- statistics and update ------------------------------------------------ */

static double dot_in_double(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Returns the dot product of x and y, computed in float. Keeps four separate
 * sums, because each addition waits for the previous addition to the same
 * sum. */
static inline float dot_run(const float *x, const float *y, size_t n)
{
    vec sum[4] = {{0}};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            sum[k] += load(x + i + k * LANES) * load(y + i + k * LANES);
    for (; i < n; i += LANES) {
        const int length = n - i < LANES ? (int)(n - i) : LANES;
        sum[0] += load_part(x + i, length, 0) * load_part(y + i, length, 0);
    }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static double dot(const float *x, const float *y, size_t n)
{
    double sum = 0;
    /* A long sum in float is inaccurate, so only 64 vectors at a time are
     * summed in float. */
    for (size_t first = 0; first < n; first += 64 * LANES) {
        size_t end = n - first < 64 * LANES ? n : first + 64 * LANES;
        double block = (double)dot_run(x + first, y + first, end - first);
        /* The square of a large number can overflow in float. Without the sum
         * in double, a gradient of 1e20 would end the training instead of being
         * clipped. */
        if (!(block - block == 0))
            block = dot_in_double(x + first, y + first, end - first);
        sum += block;
    }
    return sum;
}

/* --- columns of a matrix, in memory order --------------------------------- */

static void add_column_products(double *out, const float *x, const float *y,
                                int n_rows, int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride)
        for (int j = 0; j < width; j++)
            out[j] += (double)x[j] * (double)y[j];
}

static void scale_columns(float *y, const float *x, const float *factor,
                          int n_rows, int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride)
        for (int j = 0; j < width; j++)
            y[j] = factor[j] * x[j];
}

static void add_scaled_columns(float *out, const float *x, const float *a,
                               const float *y, const float *b, int n_rows,
                               int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride, out += stride)
        for (int j = 0; j < width; j++)
            out[j] += a[j] * x[j] + b[j] * y[j];
}

static void add_outer_product(float *out, const float *x, float a, float b,
                              const float *column, const float *row, int n_rows,
                              int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, out += stride) {
        const float along = b * column[i];
        for (int j = 0; j < width; j++)
            out[j] += a * x[j] + along * row[j];
    }
}

static double multiply_twice(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride)
{
    double squares = 0;
    for (int i = 0; i < n_rows; i++, x += stride) {
        const double along = dot(x, row, (size_t)width);
        for (int j = 0; j < width; j++)
            back[j] += along * (double)x[j];
        out[i] = (float)along;
        squares += along * along;
    }
    return squares;
}

static void round_half(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        int part = n - i < LANES ? (int)(n - i) : LANES;
        store_part(x + i, vec_half(load_part(x + i, part, 0)), part);
    }
}

static void widen(float *out, const es_bfloat *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, load_bf16(x + i, LANES));
    if (i < n)
        store_part(out + i, load_bf16(x + i, (int)(n - i)), (int)(n - i));
}

static void narrow(es_bfloat *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_bf16(out + i, load(x + i), LANES);
    if (i < n)
        store_bf16(out + i, load_part(x + i, (int)(n - i), 0), (int)(n - i));
}

static uint64_t count_nonfinite(const float *x, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += isfinite(x[i]) ? 0 : 1;
    return count;
}

static void adamw(float *param, float *moment1, float *moment2,
                  const float *grad, size_t n, const es_adamw *how,
                  const es_control *control)
{
    /* With a local copy of *how, the compiler knows that writing the outputs
     * does not change it. */
    const es_adamw a = *how;
    const float scale = control->grad_scale;
    const float keep = 1 - control->lr * a.decay;
    const float rate = control->lr / control->correction1;
    const float root = 1 / sqrtf(control->correction2);
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float m = a.beta1 * moment1[i] + (1 - a.beta1) * g;
        float v = a.beta2 * moment2[i] + (1 - a.beta2) * g * g;
        moment1[i] = m;
        moment2[i] = v;
        param[i] = param[i] * keep - rate * m / (sqrtf(v) * root + a.eps);
    }
}

#include "hooks/trainer/cpu/details.inc.h"

const es_cpu_kernels KERNELS = {
    .name = KERNELS_NAME,
    .lanes = LANES,
    .attention_scratch = attention_scratch,
    .attention = attention,
    .attention_backward = attention_backward,
    .attention_bundles = attention_bundles,
    .attention_bundle = attention_bundle,
    .attention_bundle_backward = attention_bundle_backward,
    .start_rows = start_rows,
    .add_bias = add_bias,
    .add_column_sums = add_column_sums,
    .act = act,
    .act_backward = act_backward,
    .combine = combine,
    .gate = gate,
    .gate_backward = gate_backward,
    .drop = drop,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .rms_norm = rms_norm,
    .rms_norm_backward = rms_norm_backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .round_half = round_half,
    .widen = widen,
    .narrow = narrow,
    .count_nonfinite = count_nonfinite,
    .largest_size = largest_size,
    .dot = dot,
    .adamw = adamw,
    .add_moments = add_moments,
    .add_update = add_update,
    .add_gram = add_gram,
    .add_column_products = add_column_products,
    .scale_columns = scale_columns,
    .add_scaled_columns = add_scaled_columns,
    .add_outer_product = add_outer_product,
    .multiply_twice = multiply_twice,
};
