/* Compares the CUDA back-end's activations, fused into matrix products or
 * separate, with plain loops in double. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_linear.h"
#include "tests/support/reference_ops.h"

#include <math.h>

static const es_activation kinds[] = {ES_ACT_LINEAR,    ES_ACT_GELU,
                                      ES_ACT_GELU_TANH, ES_ACT_RELU,
                                      ES_ACT_LEAKY,     ES_ACT_GELU_SIGMOID};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* Returns a description of the activation, whose slope is learnt or
 * constant. */
static es_act act_of(es_bench *bench, es_activation kind, bool learnt)
{
    const float slope = 0.3f;
    es_act act = {.kind = kind, .slope = learnt ? 7 : slope};
    if (learnt)
        act.learnt = es_bench_put_floats(bench, ES_READ, &slope, 1);
    return act;
}

/* Returns true if gemm.h allows a matrix product to apply this activation to
 * its result `pre`, whose rows have `width` elements. */
static bool is_epilogue(const es_bench *bench, es_activation kind,
                        const es_mem *pre, int width)
{
    return kind == ES_ACT_GELU_TANH && es_linear_unit(bench) > 0 &&
           width % 8 == 0 && (uintptr_t)(const void *)pre % 16 == 0 &&
           !bench->bare;
}

/* Returns true if `pre` was rounded before the activation was applied, so `got`
 * (n) has been rounded twice. For small `pre`, `got` then often differs from
 * the expected value rounded once. */
static bool is_twice_rounded(const es_bench *bench, const float *got,
                             const double *want, const float *pre, size_t n)
{
    size_t off = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(pre[i]) < 2) || !isfinite(want[i]))
            continue;
        off += got[i] != es_bench_round(bench->precision, (float)want[i]);
        all++;
    }
    assert_true(all > 500);
    return off > all / 10;
}

static bool can_tell(const es_bench *bench, es_activation kind, size_t n)
{
    return es_linear_unit(bench) > 0 && n > 2000 && kind == ES_ACT_GELU_TANH;
}

/* Replaces expected values of act(-infinity) by the results in `got`, if these
 * are 0, negative or NaN. The activation multiplies -infinity by 0 or by a
 * slightly larger number, so all of these are correct. */
static void forgive(double *want, const float *got, const float *pre,
                    es_activation kind, size_t n)
{
    if (kind != ES_ACT_GELU && kind != ES_ACT_GELU_TANH &&
        kind != ES_ACT_GELU_SIGMOID)
        return;
    for (size_t i = 0; i < n; i++)
        if (pre[i] < 0 && isinf(pre[i]) && !(got[i] > 0))
            want[i] = (double)got[i];
}

/* Expects post (n) to be act(pre). `within` is true if a product applies the
 * activation to pre before pre is rounded. */
static void expect_post(es_bench *bench, const float *post, const float *pre,
                        es_activation kind, size_t n, bool within)
{
    double *want = es_bench_doubles(n), *slack = es_bench_doubles(n);
    const double unit = 1.01 * es_linear_unit(bench);
    for (size_t i = 0; i < n; i++) {
        const double x = (double)pre[i];
        want[i] = es_ref_act(x, kind, 0.3f);
        if (within && isfinite(pre[i]))
            slack[i] = fabs(x) *
                       (unit * fabs(es_ref_act_slope(x, kind, 0.3f)) + 0x1p-12);
    }
    forgive(want, post, pre, kind, n);
    es_bench_expect_within(bench, "after", post, want, slack, n, true);
    if (can_tell(bench, kind, n)) {
        const bool twice = is_twice_rounded(bench, post, want, pre, n);
        if (bench->emulated)
            assert_int_equal(within, twice);
        else if (within) /* a device may also apply GELU in a separate pass */
            print_message("%s: GELU is %s the product\n",
                          es_precision_names[bench->precision],
                          twice ? "fused into" : "separate from");
    }
}

static void check_act_of(es_bench *bench, const es_linear_sizes *s,
                         es_activation kind, bool learnt)
{
    const size_t n_y = (size_t)(s->n * s->n_out);
    es_linear_call c = {.s = *s};
    const es_act act = act_of(bench, kind, learnt);
    float *x = es_bench_draw((size_t)(s->n * s->n_in), 2);
    float *w = es_linear_draw(bench, s);
    double *want = es_bench_doubles(n_y);
    es_linear_spoil(x, s->n, s->n_in);
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, x, (size_t)(s->n * s->n_in));
    if (kind != ES_ACT_LINEAR)
        c.y = es_bench_put_acts(bench, ES_WRITE, NULL, n_y);
    c.post = es_bench_put_acts(bench, ES_WRITE, NULL, n_y);
    es_linear_put(bench, &c, w, true);
    es_ref_linear(want, x, w, w + es_linear_bias_at(s), s->n, s->n_in, s->n_out,
                  s->transposed);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_act(on, c.y, c.post, c.x, &c.linear, c.act, s->n);
    const float *post = es_bench_get_acts(bench, c.post);
    if (c.y) {
        const float *pre = es_bench_get_acts(bench, c.y);
        es_bench_expect(bench, "before", pre, want, n_y, true);
        expect_post(bench, post, pre, kind, n_y,
                    is_epilogue(bench, kind, c.y, s->n_out));
    } else {
        es_bench_expect(bench, "after", post, want, n_y, true);
    }
    es_bench_clear(bench);
}

static void check_acts(es_bench *bench)
{
    static const es_linear_sizes odd = {37, 5, 29, false, 29},
                                 even = {40, 8, 64, true, 64},
                                 wide = {19, 33, 72, false, 72},
                                 row = {1, 24, 8, false, 8},
                                 one = {1, 1, 1, false, 1};
    for (size_t i = 0; i < N_KINDS; i++) {
        check_act_of(bench, &one, kinds[i], false);
        check_act_of(bench, &row, kinds[i], true);
        check_act_of(bench, &odd, kinds[i], true);
        check_act_of(bench, &even, kinds[i], false);
        check_act_of(bench, &wide, kinds[i], false);
    }
}

static void test_cuda_acts__forward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents))
        check_acts(bench);
}

/* Tests the case in which matrix products support neither bias nor activation,
 * so separate passes apply both. */
static void test_cuda_acts__forward_apart(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_BARE, &es_linear_extents))
        check_acts(bench);
}

/* Turns the gradient of act(pre) in dpre into the gradient of pre, and computes
 * post = act(pre). Adds the gradient of the slope to slopes[0], and the sum of
 * the absolute values of its terms to slopes[1]. */
static void expect_act_back(double slopes[2], double *dpre, double *post,
                            const float *pre, es_activation kind, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double u = (double)pre[i];
        const double more = kind == ES_ACT_LEAKY && u < 0 ? dpre[i] * u : 0;
        slopes[0] += more;
        slopes[1] += fabs(more);
        dpre[i] *= es_ref_act_slope(u, kind, 0.3f);
        post[i] = es_ref_act(u, kind, 0.3f);
    }
}

/* Expects dpre (n) to be gradient times act'(pre). The tolerance depends on
 * `within`. If it is false, the gradient was rounded before this
 * multiplication. If it is true, the matrix product itself has multiplied by
 * act', computed with an approximate tanh. */
static void expect_dpre(es_bench *bench, const float *dpre, const double *want,
                        const double *gradient, size_t n, bool within)
{
    double *slack = es_bench_doubles(n);
    for (size_t i = 0; i < n; i++)
        slack[i] = within ? 0x1p-8 * fabs(gradient[i])
                          : 1.01 * es_linear_unit(bench) * fabs(want[i]);
    es_bench_expect_within(bench, "dpre", dpre, want, slack, n, true);
}

static void check_act_back_of(es_bench *bench, const es_linear_sizes *s,
                              es_activation kind, bool learnt)
{
    const size_t n = (size_t)(s->n * s->n_in), n_y = (size_t)(s->n * s->n_out);
    const bool bends = kind != ES_ACT_LINEAR;
    es_linear_call c = {.s = *s};
    const es_act act = act_of(bench, kind, learnt);
    float *dy = es_bench_draw(n_y, 1), *pre = es_bench_draw(n, 5);
    float *w = es_linear_draw(bench, s), dslope = 0.5f;
    double *want = es_bench_doubles(n), *post = es_bench_doubles(n);
    double *gradient = es_bench_doubles(n);
    double none[2] = {0}, slopes[2] = {0.5, 0.5};
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, dy, n_y);
    c.y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    c.post = bends ? es_bench_put_acts(bench, ES_WRITE, NULL, n) : NULL;
    c.pre = bends ? es_bench_put_acts(bench, ES_READ, pre, n) : NULL;
    es_mem *of_slope = es_bench_put_floats(bench, ES_CHANGE, &dslope, 1);
    c.dslope = learnt ? of_slope : NULL;
    es_linear_put(bench, &c, w, true);
    es_ref_linear(want, dy, w, NULL, s->n, s->n_out, s->n_in, !s->transposed);
    memcpy(gradient, want, n * sizeof *want);
    expect_act_back(learnt ? slopes : none, want, post, pre, kind, n);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_act(on, c.y, c.post, c.dslope, c.x, c.pre,
                                        &c.linear, c.act, c.s.n);
    const bool within = is_epilogue(bench, kind, c.pre, s->n_in);
    const float *dpre = es_bench_get_acts(bench, c.y);
    expect_dpre(bench, dpre, want, gradient, n, within);
    if (bench->emulated && can_tell(bench, kind, n))
        assert_int_equal(!within, is_twice_rounded(bench, dpre, want, pre, n));
    if (bends)
        es_bench_expect_acts(bench, "post", c.post, post, n);
    es_linear_expect_twice(bench, "dslope", es_bench_get(bench, of_slope),
                           slopes, slopes + 1, 1);
    es_bench_clear(bench);
}

static void check_acts_back(es_bench *bench)
{
    static const es_linear_sizes odd = {37, 29, 5, false, 0},
                                 even = {40, 64, 8, true, 0},
                                 wide = {19, 72, 33, false, 0},
                                 row = {1, 8, 24, false, 0},
                                 one = {1, 1, 1, false, 0};
    for (size_t i = 0; i < N_KINDS; i++) {
        check_act_back_of(bench, &one, kinds[i], true);
        check_act_back_of(bench, &row, kinds[i], false);
        check_act_back_of(bench, &wide, kinds[i], false);
        check_act_back_of(bench, &odd, kinds[i], true);
        check_act_back_of(bench, &even, kinds[i], false);
        check_act_back_of(bench, &even, kinds[i], true);
    }
}

static void test_cuda_acts__backward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents))
        check_acts_back(bench);
}

static void test_cuda_acts__backward_apart(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_BARE, &es_linear_extents))
        check_acts_back(bench);
}

/* Replaces a result by the expected value where several results are correct: at
 * infinity, at infinity times 0, and if a power of x overflows in a fused
 * matrix product. Still requires that post is infinite if x is infinite, and
 * NaN if x is NaN. */
static void forgive_ends(float *post, float *slope, const float *x,
                         es_activation kind, bool within)
{
    if (isinf(*x)) {
        assert_false(*x > 0 && !(*post == INFINITY));
        *post = (float)es_ref_act((double)*x, kind, 0.3f);
    }
    if (isnan(*x))
        assert_true(isnan(*post));
    if (!isfinite(*x) || (within && fabsf(*x) > 1e12f && isnan(*slope)))
        *slope = (float)es_ref_act_slope((double)*x, kind, 0.3f);
}

/* Checks the largest and smallest numbers, the kink at 0, and non-finite
 * numbers, in rows of `width` elements. The weights are ones, so the gradient
 * of act(pre) is 1. */
static void check_ends_of(es_bench *bench, es_activation kind, int width)
{
    float x[] = {-INFINITY, -1e30f, -88, -20, -5, -1e-20f, -0.0f,    0,
                 1e-20f,    5,      20,  88,  1,  1e30f,   INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    float weights[17] = {0}, ones[N], post[N], slope[N];
    es_linear_call c = {.s = {N / width, width, 1, false, 0}};
    const es_act act = act_of(bench, kind, false);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    memcpy(weights, ones, (size_t)width * sizeof *ones);
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, ones, (size_t)(N / width));
    c.pre = es_bench_put_acts(bench, ES_READ, x, N);
    c.y = es_bench_put_acts(bench, ES_WRITE, NULL, N);
    c.post = es_bench_put_acts(bench, ES_WRITE, NULL, N);
    es_linear_put(bench, &c, weights, true);
    for (ES_EACH_RUN(on, bench))
        bench->ops->linear_backward_act(on, c.y, c.post, c.dslope, c.x, c.pre,
                                        &c.linear, c.act, c.s.n);
    const bool within = is_epilogue(bench, kind, c.pre, width);
    memcpy(post, es_bench_get_acts(bench, c.post), sizeof post);
    memcpy(slope, es_bench_get_acts(bench, c.y), sizeof slope);
    /* values are compared one by one, since 1e30 would set the tolerance for
     * all of them */
    for (int i = 0; i < N; i++) {
        const double want = es_ref_act((double)x[i], kind, 0.3f), one = 1;
        const double change = es_ref_act_slope((double)x[i], kind, 0.3f);
        forgive_ends(post + i, slope + i, x + i, kind, within);
        es_bench_expect(bench, "post", post + i, &want, 1, true);
        expect_dpre(bench, slope + i, &change, &one, 1, within);
    }
    es_bench_clear(bench);
}

static void test_cuda_acts__ends(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &es_linear_extents))
        for (size_t i = 1; i < N_KINDS; i++) {
            check_ends_of(bench, kinds[i], 1);
            check_ends_of(bench, kinds[i], 8);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_acts__forward),
        cmocka_unit_test(test_cuda_acts__forward_apart),
        cmocka_unit_test(test_cuda_acts__backward),
        cmocka_unit_test(test_cuda_acts__backward_apart),
        cmocka_unit_test(test_cuda_acts__ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
