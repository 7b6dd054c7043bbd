/* Compares the operations of the CPU back-end, except attention, with plain
 * loops in double precision. Tests every kernel variant that this machine can
 * run. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/arrays.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static const es_ops *const ops = &es_cpu_ops;

static void add(double *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += (double)from[i];
}

/* --- products ------------------------------------------------------------- */

static void check_linear(int n, int n_in, int n_out, bool transposed)
{
    size_t sy = (size_t)(n * n_out);
    float *x = array(n * n_in, 1), *b = array(n_out, 1);
    float *w = array(n_in * n_out, 1), *y = array(sy, 1);
    float *r = array(sy, 1);
    double *want = doubles(sy);
    es_linear linear = {mem(w), mem(b), n_in, n_out, n_out, transposed, 0};
    ops->linear(the_cpu, mem(y), NULL, mem(x), &linear, n);
    es_ref_linear(want, x, w, b, n, n_in, n_out, transposed);
    es_test_expect_close("linear", y, want, sy);
    ops->linear(the_cpu, mem(y), mem(r), mem(x), &linear, n);
    add(want, r, sy);
    es_test_expect_close("linear + residual", y, want, sy);
    linear.bias = NULL;
    ops->linear(the_cpu, mem(r), mem(r), mem(x), &linear, n);
    for (int i = 0; i < n * n_out; i++)
        want[i] -= (double)b[i % n_out];
    es_test_expect_close("linear in place", r, want, sy);
}

static void check_linear_input(int n, int n_in, int n_out, bool transposed)
{
    size_t sx = (size_t)(n * n_in);
    float *dy = array(n * n_out, 1), *dx = array(sx, 1);
    float *w = array(n_in * n_out, 1);
    double *want = doubles(sx);
    es_linear linear = {mem(w), NULL, n_in, n_out, 0, transposed, 0};
    es_ref_linear(want, dy, w, NULL, n, n_out, n_in, !transposed);
    ops->linear_backward_input(the_cpu, mem(dx), mem(dy), &linear, n, false);
    es_test_expect_close("input gradient", dx, want, sx);
    add(want, dx, sx);
    ops->linear_backward_input(the_cpu, mem(dx), mem(dy), &linear, n, true);
    es_test_expect_close("input gradient added to earlier values", dx, want,
                         sx);
}

/* Expects dW[a][b] += sum over i of x[i][a] * dy[i][b], or the transposed
 * result; only the first `trained` biases have a gradient. */
static void check_linear_weight(int n, int n_in, int n_out, bool transposed,
                                int trained)
{
    size_t sw = (size_t)(n_in * n_out);
    float *x = array(n * n_in, 1);
    float *dy = array(n * n_out, 1);
    float *dw = array(sw, 1), *before = array(sw, 1), *db = array(n_out, 1);
    double *want = doubles(sw), *bias = doubles(n_out);
    es_linear linear = {NULL, NULL, n_in, n_out, trained, transposed, 0};
    memcpy(before, dw, sw * sizeof *dw);
    add(want, dw, sw);
    add(bias, db, (size_t)n_out);
    for (int i = 0; i < n; i++)
        for (int b = 0; b < n_out; b++) {
            bias[b] += b < trained ? (double)dy[i * n_out + b] : 0;
            for (int a = 0; a < n_in; a++)
                want[transposed ? b * n_in + a : a * n_out + b] +=
                    (double)x[i * n_in + a] * (double)dy[i * n_out + b];
        }
    ops->linear_backward_weight(the_cpu, mem(dw), mem(db), mem(x), mem(dy),
                                &linear, n, true);
    es_test_expect_close("weight gradient", dw, want, sw);
    es_test_expect_close("bias gradient", db, bias, (size_t)n_out);
    for (size_t i = 0; i < sw; i++) {
        want[i] -= (double)before[i];
        dw[i] = NAN;
    }
    ops->linear_backward_weight(the_cpu, mem(dw), NULL, mem(x), mem(dy),
                                &linear, n, false);
    es_test_expect_close("weight gradient replacing earlier values", dw, want,
                         sw);
}

VARIANT_TEST(products_match_plain_loops)
{
    static const int sizes[][3] = {
        {1, 1, 1}, {7, 3, 5}, {33, 20, 48}, {129, 17, 1}, {50, 64, 131}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            const int *s = sizes[i];
            check_linear(s[0], s[1], s[2], transposed);
            check_linear_input(s[0], s[1], s[2], transposed);
            check_linear_weight(s[0], s[1], s[2], transposed,
                                (2 * s[2] + 2) / 3);
        }
}

/* --- activations ---------------------------------------------------------- */

static const es_activation kinds[] = {ES_ACT_LINEAR,    ES_ACT_GELU,
                                      ES_ACT_GELU_TANH, ES_ACT_RELU,
                                      ES_ACT_LEAKY,     ES_ACT_GELU_SIGMOID};

/* Expects that `peak` equals the result of find_peak or, with a linear
 * activation, is unchanged. */
static void check_peak(const es_peak *peak, float *pre, size_t n,
                       bool is_linear)
{
    es_peak want = {.sum = 5, .largest = 2};
    if (!is_linear)
        ops->find_peak(the_cpu, mem(&want), mem(pre), n);
    assert_memory_equal(peak, &want, sizeof want);
}

static void check_act(es_activation kind, int n, int n_in, int n_out)
{
    es_peak peak = {.sum = 5, .largest = 2};
    const bool linear_act = kind == ES_ACT_LINEAR;
    size_t sy = (size_t)(n * n_out);
    float *x = array(n * n_in, 1), *b = array(n_out, 1);
    float *w = array(n_in * n_out, 4), *pre = array(sy, 1);
    float *post = array(sy, 1);
    double *want = doubles(sy);
    const es_linear linear = {mem(w), mem(b), n_in, n_out, n_out, false, 0};
    const es_act act = {.kind = kind, .slope = 0.3f, .peak = mem(&peak)};
    es_ref_linear(want, x, w, b, n, n_in, n_out, false);
    ops->linear_act(the_cpu, linear_act ? NULL : mem(pre), mem(post), mem(x),
                    &linear, &act, n);
    if (!linear_act)
        es_test_expect_close("before", pre, want, sy);
    check_peak(&peak, pre, sy, linear_act);
    for (size_t i = 0; i < sy; i++)
        want[i] = es_ref_act(want[i], kind, (double)act.slope);
    es_test_expect_close("after", post, want, sy);
}

/* Checks the backward pass of y = act(pre) W, with W (in,out). */
static void check_act_backward(es_activation kind, int n, int n_in, int n_out)
{
    size_t sp = (size_t)(n * n_in);
    float *dy = array(n * n_out, 1), *pre = array(sp, 5);
    float *w = array(n_in * n_out, 1), *dpre = array(sp, 1);
    float *post = array(sp, 1), slope = 0.3f, dslope = 0.5f;
    double *want = doubles(sp), *value = doubles(sp), expected = 0.5;
    const es_linear linear = {mem(w), NULL, n_in, n_out, 0, false, 0};
    const es_act act = {.kind = kind, .learnt = mem(&slope)};
    es_ref_linear(want, dy, w, NULL, n, n_out, n_in, true);
    for (size_t i = 0; i < sp; i++) {
        double u = (double)pre[i];
        expected += kind == ES_ACT_LEAKY && u < 0 ? want[i] * u : 0;
        want[i] *= es_ref_act_slope(u, kind, (double)slope);
        value[i] = es_ref_act(u, kind, (double)slope);
    }
    ops->linear_backward_act(the_cpu, mem(dpre), mem(post), mem(&dslope),
                             mem(dy), mem(pre), &linear, &act, n);
    es_test_expect_close("dpre", dpre, want, sp);
    if (kind != ES_ACT_LINEAR) {
        es_test_expect_close("post", post, value, sp);
        es_test_expect_close("dslope", &dslope, &expected, 1);
    }
}

VARIANT_TEST(activations_match_plain_loops)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_act(kinds[i], 1, 1, 1);
        check_act(kinds[i], 37, 5, 29);
        check_act_backward(kinds[i], 1, 1, 1);
        check_act_backward(kinds[i], 37, 29, 5);
    }
}

/* Tests very large and small inputs, the kink of ReLU, and inputs that are not
 * finite. */
VARIANT_TEST(activations_are_accurate_at_extreme_inputs)
{
    const float x[] = {-INFINITY, -1e30f, -88, -20, -5,    -1e-20f,  -0.0f, 0,
                       1e-20f,    5,      20,  88,  1e30f, INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    for (size_t k = 1; k < sizeof kinds / sizeof *kinds; k++) {
        float post[N], again[N], slope[N];
        double want[N], derivative[N];
        for (int i = 0; i < N; i++) {
            slope[i] = 1;
            want[i] = es_ref_act((double)x[i], kinds[k], 0.3);
            derivative[i] = es_ref_act_slope((double)x[i], kinds[k], 0.3);
        }
        the_cpu->kernels->act(post, x, N, kinds[k], 0.3f);
        the_cpu->kernels->act_backward(slope, again, x, N, kinds[k], 0.3f);
        for (int i = 0; i < N; i++) {
            assert_true(post[i] == again[i] ||
                        (isnan(post[i]) && isnan(again[i])));
            /* the formulas may multiply infinity by 0, so do not check
             * further */
            if (isinf(x[i]))
                continue;
            float small = 2e-6f * fmaxf(1, fabsf((float)want[i]));
            assert_true(fabsf(post[i] - (float)want[i]) <= small ||
                        (isnan(x[i]) && isnan(post[i])));
            assert_true(fabsf(slope[i] - (float)derivative[i]) <= 2e-6f ||
                        isnan(x[i]));
        }
        assert_true(post[N - 2] == INFINITY);
    }
}

/* --- layer norm ----------------------------------------------------------- */

/* Returns the sum of dy * y over all rows, where y is the norm of x with the
 * given weight and bias. */
static double norm_objective(const float *x, const float *w, const float *b,
                             const float *dy, int n, int width)
{
    double y[64], sum = 0;
    for (int i = 0; i < n; i++) {
        es_ref_layer_norm(y, x + i * width, w, b, width);
        for (int j = 0; j < width; j++)
            sum += y[j] * (double)dy[i * width + j];
    }
    return sum;
}

/* Computes central differences with steps that float32 represents exactly. */
static void norm_differences(double *out, float *at, size_t n_at,
                             const float *x, const float *w, const float *b,
                             const float *dy, int n, int width)
{
    const float step = 0x1p-9f;
    for (size_t i = 0; i < n_at; i++) {
        float kept = roundf(at[i] * 4096) / 4096;
        at[i] = kept + step;
        double above = norm_objective(x, w, b, dy, n, width);
        at[i] = kept - step;
        double below = norm_objective(x, w, b, dy, n, width);
        at[i] = kept;
        out[i] += (above - below) / (2 * (double)step);
    }
}

static void check_norm(int n, int width)
{
    size_t s = (size_t)(n * width), k = (size_t)width;
    float *x = array(s, 2), *w = array(k, 1), *b = array(k, 1);
    float *dy = array(s, 1), *dx = array(s, 1), *y = array(s, 1);
    float *dw = array(k, 1), *db = array(k, 1);
    float *mean = array(n, 1), *rstd = array(n, 1);
    double *want = doubles(s), *wants = doubles(2 * k);
    add(want, dx, s);
    add(wants, dw, k);
    add(wants + k, db, k);
    norm_differences(want, x, s, x, w, b, dy, n, width);
    norm_differences(wants, w, k, x, w, b, dy, n, width);
    norm_differences(wants + k, b, k, x, w, b, dy, n, width);
    ops->layer_norm(the_cpu, mem(y), mem(mean), mem(rstd), NULL, mem(x), mem(w),
                    mem(b), n, width, 1e-5f);
    ops->layer_norm_backward(the_cpu, mem(dx), mem(dw), mem(db), mem(dy),
                             mem(x), mem(mean), mem(rstd), mem(w), n, width);
    for (size_t i = 0; i < s + 2 * k; i++) {
        double got = (double)(i < s       ? dx[i]
                              : i < s + k ? dw[i - s]
                                          : db[i - s - k]);
        double expected = i < s ? want[i] : wants[i - s];
        assert_true(fabs(got - expected) <= 1e-3 * (1 + fabs(expected)));
    }
    for (int i = 0; i < n; i++)
        es_ref_layer_norm(want + i * width, x + i * width, w, b, width);
    es_test_expect_close("layer norm", y, want, s);
}

VARIANT_TEST(layer_norm_matches_finite_differences)
{
    check_norm(1, 2);
    check_norm(5, 7);
    check_norm(3, 33);
    /* the variance is 0, so only eps remains under the root */
    check_norm(1, 1);
}

/* --- loss ----------------------------------------------------------------- */

static void check_loss(int n, int vocab, double scale)
{
    size_t s = (size_t)(n * vocab);
    float *x = array(s, scale), *kept = copy(x, s);
    float *loss = array(n, 1), *lse = array(n, 1);
    int32_t *targets = (int32_t *)(void *)array(n, 0);
    double *want = doubles(n), *gradient = doubles(s);
    for (int i = 0; i < n; i++) {
        const float *row = kept + i * vocab;
        targets[i] = i * 7 % vocab;
        want[i] = es_ref_cross_entropy(row, targets[i], vocab);
        for (int j = 0; j < vocab; j++)
            gradient[i * vocab + j] =
                0.25 *
                (exp(-es_ref_cross_entropy(row, j, vocab)) - (j == targets[i]));
    }
    ops->cross_entropy(the_cpu, mem(loss), mem(lse), mem(x), mem(targets), n,
                       vocab, vocab);
    es_test_expect_close("loss", loss, want, (size_t)n);
    es_control control = {.loss_scale = 8};
    ops->cross_entropy_backward(the_cpu, mem(x), mem(lse), mem(targets),
                                0.03125f, mem(&control), n, vocab, vocab);
    es_test_expect_close("dlogits", x, gradient, s);
}

VARIANT_TEST(cross_entropy_matches_plain_loops)
{
    check_loss(1, 1, 1);
    check_loss(19, 7, 3);
    check_loss(5, 257, 1);
    check_loss(3, 33, 60);
}

VARIANT_TEST(a_nan_logit_makes_its_loss_nan)
{
    float x[3][5] = {{1, 2, NAN, 0, 1}, {1, 2, 3, 4, 5}, {0, INFINITY, 0, 0}};
    float loss[3], lse[3];
    const int32_t targets[3] = {0, 1, 2};
    ops->cross_entropy(the_cpu, mem(loss), mem(lse), mem(x),
                       mem((void *)targets), 3, 5, 5);
    assert_true(isnan(loss[0]));
    assert_true(isfinite(loss[1]));
    assert_true(!isfinite(loss[2]));
}

/* --- embedding ------------------------------------------------------------ */

VARIANT_TEST(embeddings_are_added_and_their_gradients)
{
    enum { B = 3, T = 5, V = 4, D = 19, N = B * T };
    float *wte = array(V * D, 1), *wpe = array(T * D, 1), *x = array(N * D, 1);
    float *dwte = array(V * D, 1), *dwpe = array(T * D, 1);
    double *want = doubles(N * D), *token = doubles(V * D);
    double *position = doubles(T * D);
    int32_t tokens[N];
    add(token, dwte, V * D);
    add(position, dwpe, T * D);
    for (int i = 0; i < N; i++) {
        tokens[i] = i % 3 ? 1 : i % V; /* one token occurs many times */
        for (int c = 0; c < D; c++)
            want[i * D + c] =
                (double)wte[tokens[i] * D + c] + (double)wpe[i % T * D + c];
    }
    ops->embed(the_cpu, mem(x), mem(tokens), mem(wte), mem(wpe), B, T, D);
    es_test_expect_close("x", x, want, N * D);
    for (int i = 0; i < N * D; i++) {
        token[tokens[i / D] * D + i % D] += (double)x[i];
        position[i / D % T * D + i % D] += (double)x[i];
    }
    ops->embed_backward(the_cpu, mem(dwte), mem(dwpe), mem(tokens), mem(x), B,
                        T, D);
    es_test_expect_close("dwte", dwte, token, V * D);
    es_test_expect_close("dwpe", dwpe, position, T * D);
}

/* --- moments of activations ---------------------------------------------- */

enum { N_KINDS = 9, N_MOST = 2048 };

/* Returns element i of inputs for which sums in float would lose digits; x is a
 * random number. Depending on `kind`, the values are very large, very small,
 * far from 0, constant, or contain one value that is much larger than the
 * others. */
static float odd_number(int kind, int i, float x)
{
    switch (kind) {
    case 1:
        return 100 + x; /* the mean is 100 standard deviations */
    case 2:
        return 1e15f * x; /* x^4 overflows to infinity in float */
    case 3:
        return 1e-15f * x; /* x^4 underflows to 0 in float */
    case 4:
        return i == 3 ? -3e5f : x; /* a single large element, near the start */
    case 5:
        return i == 1500 ? 3e5f : x; /* a single large element, near the end */
    case 6:
        return 0;
    case 7:
        return 0.3f;
    case 8:
        return i == 700 ? INFINITY : x;
    default:
        return x;
    }
}

/* Computes sums of powers by their definition, in double. */
static void sum_moments(double out[7], const float *x, const float *y, float a,
                        size_t n)
{
    memset(out, 0, 7 * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], from = (double)a * (double)y[i];
        for (int k = 0; k < 4; k++)
            out[k] += pow(v, k + 1);
        out[4] = fmax(out[4], fabs(v));
        out[5] += (v - from) * (v - from);
        out[6] += from * from;
    }
}

/* Computes the kurtosis, the fourth central moment over the square of the
 * variance, from sums of powers. */
static double kurtosis_of(const double sums[7], double n)
{
    const double mean = sums[0] / n, square = sums[1] / n;
    const double variance = square - mean * mean;
    return (sums[3] / n - 4 * mean * (sums[2] / n) + 6 * mean * mean * square -
            3 * mean * mean * mean * mean) /
           (variance * variance);
}

/* Computes the kurtosis by its definition. */
static double find_kurtosis(const float *x, size_t n)
{
    double mean = 0, second = 0, fourth = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        second += pow((double)x[i] - mean, 2) / (double)n;
        fourth += pow((double)x[i] - mean, 4) / (double)n;
    }
    return fourth / (second * second);
}

static void expect_moments(const es_cpu_kernels *kernels, int kind, size_t n)
{
    static const double tolerances[7] = {1e-6, 1e-6, 1e-6, 1e-6, 0, 1e-6, 1e-6};
    float x[N_MOST], y[N_MOST];
    double got[7] = {0}, want[7], size[2] = {0, 0};
    const float *noise = array(2 * n, 1);
    for (size_t i = 0; i < n; i++) {
        x[i] = odd_number(kind, (int)i, noise[i]);
        y[i] = odd_number(kind, (int)i, noise[n + i]);
        size[0] += fabs((double)x[i]);
        size[1] += pow(fabs((double)x[i]), 3);
    }
    kernels->add_moments(got, x, y, 0.75f, n);
    sum_moments(want, x, y, 0.75f, n);
    for (int k = 0; k < 7; k++) {
        const double scale = k == 0 ? size[0] : k == 2 ? size[1] : want[k];
        if (isfinite(want[k])
                ? !(fabs(got[k] - want[k]) <= tolerances[k] * fabs(scale))
                : isfinite(got[k]))
            fail_msg("moment %d of kind %d, %zu numbers: %.17g, not %.17g", k,
                     kind, n, got[k], want[k]);
    }
    const double kurtosis = find_kurtosis(x, n);
    const double found = kurtosis_of(got, (double)n);
    if (n > 100 && kind < 6 && !(fabs(found - kurtosis) <= 1e-5 * kurtosis))
        fail_msg("kurtosis of kind %d, %zu numbers: %.9g, not %.9g", kind, n,
                 found, kurtosis);
}

TEST(moments_match_sums_in_double)
{
    static const size_t lengths[] = {1, 15, 63, 64, 65, 1023, N_MOST};
    EACH_VARIANT(kernels)
    {
        for (int kind = 0; kind < N_KINDS; kind++)
            for (int i = 0; i < 7; i++)
                expect_moments(*kernels, kind, lengths[i]);
        double alone[7] = {0}, none[7] = {0};
        const float *x = array(N_MOST, 1);
        (*kernels)->add_moments(alone, x, NULL, 1, N_MOST);
        (*kernels)->add_moments(none, x, NULL, 1, 0);
        assert_true(alone[1] > 0 && alone[5] == 0 && alone[6] == 0);
        assert_true(none[1] == 0 && none[4] == 0);
        es_test_release();
    }
}

/* --- the table ------------------------------------------------------------ */

/* Faulty kernels with one wrong result each; the test must detect each of
 * them. */
static void wrong_act(float *post, const float *x, size_t n, es_activation kind,
                      float slope)
{
    es_cpu_kernels_plain.act(post, x, n, kind, slope);
    post[n - 1] += 0.01f;
}

static void wrong_loss(float *row_loss, float *lse, const float *logits,
                       const int32_t *targets, int n_rows, int vocab)
{
    es_cpu_kernels_plain.cross_entropy(row_loss, lse, logits, targets, n_rows,
                                       vocab);
    row_loss[3] = NAN;
}

static void wrong_attention(const es_cpu_head *head)
{
    es_cpu_kernels_plain.attention(head);
    head->rows[ES_ROW_ENTROPY][head->n_ctx - 1] *= 1.01f;
}

static void wrong_power(const es_cpu_head *head)
{
    es_cpu_kernels_plain.attention_backward(head);
    if (head->power && head->dentropy)
        head->dk[head->stride] += 0.01f;
}

TEST(kernels_are_checked)
{
    EACH_VARIANT(kernels)
    {
        assert_true(es_cpu_kernels_agree(*kernels));
    }
    es_cpu_kernels wrong = es_cpu_kernels_plain;
    wrong.act = wrong_act;
    assert_false(es_cpu_kernels_agree(&wrong));
    wrong = es_cpu_kernels_plain;
    wrong.cross_entropy = wrong_loss;
    assert_false(es_cpu_kernels_agree(&wrong));
    wrong = es_cpu_kernels_plain;
    wrong.attention = wrong_attention;
    assert_false(es_cpu_kernels_agree(&wrong));
    wrong = es_cpu_kernels_plain;
    wrong.attention_backward = wrong_power;
    assert_false(es_cpu_kernels_agree(&wrong));
}

TEST(an_unknown_back_end_is_refused)
{
    const es_ops *found = &es_cpu_ops;
    assert_int_equal(es_ops_find(&found, "abacus", ES_FP32), ES_EUSAGE);
    assert_null(found);
    assert_non_null(strstr(es_message(), "abacus"));
    es_assert_status(ES_EUSAGE, "use fp32 or bf16",
                     es_ops_find(&found, "cpu", ES_FP16));
    es_assert_status(ES_EUSAGE, "tf32", es_ops_find(&found, "cpu", ES_TF32));
    es_assert_ok(es_ops_find(&found, "cpu", ES_BF16));
    assert_ptr_equal(found, &es_cpu_bf16_ops);
    es_assert_ok(es_ops_find(&found, "cpu", ES_FP32));
    assert_ptr_equal(found, &es_cpu_ops);
}
