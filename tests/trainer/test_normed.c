/* Compares the weights that WNorm and SNorm compute, and their gradients, with
 * plain loops in double, with every variant of the kernels that this machine
 * can run. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/arrays.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

/* Numbers of rows and columns. They include odd numbers, a single row, a single
 * column, and more elements than a thread processes at a time. The stride and
 * the first column are computed from the size. */
static const int sizes[][2] = {{1, 1},  {7, 5},    {1, 19},   {19, 1},
                               {33, 2}, {50, 100}, {300, 17}, {5, 1300}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static const es_ops *ops;
static es_backend *cpu;

/* Opens the CPU back-end with the given kernels, or with its default kernels if
 * `kernels` is NULL. */
static void open_cpu(int n_threads, const es_cpu_kernels *kernels)
{
    const es_extents largest = {
        .n_rows = 1, .width = 1300, .n_ctx = 1, .n_head = 1, .head_width = 1};
    ops = &es_cpu_ops;
    es_assert_ok(ops->open(&cpu, n_threads));
    cpu->kernels = kernels ? kernels : cpu->kernels;
    es_assert_ok(ops->prepare(cpu, &largest));
}

static void with_all_variants(void (*check)(int n_in, int n))
{
    EACH_VARIANT(kernels)
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        open_cpu(n_threads, *kernels);
        for (size_t k = 0; k < N_SIZES; k++)
            check(sizes[k][0], sizes[k][1]);
        ops->close(cpu);
        es_test_release();
    }
}

#define NORMED_TEST(name)                                                      \
    static void name##_of(int n_in, int n);                                    \
    TEST(name)                                                                 \
    {                                                                          \
        with_all_variants(name##_of);                                          \
    }                                                                          \
    static void name##_of(int n_in, int n)

/* --- columns inside a wider matrix ---------------------------------------- */

/* Returns columns in a matrix that has three more columns before them and two
 * after them. */
static es_columns columns_of(int n_in, int n)
{
    return (es_columns){n_in, n + 5, 3, n};
}

static int whole(const es_columns *c)
{
    return c->n_in * c->stride;
}

/* Returns a copy of the columns as a matrix (in,n). */
static double *cut(const float *from, const es_columns *c)
{
    double *out = doubles(c->n_in * c->n);
    for (int i = 0; i < c->n_in * c->n; i++)
        out[i] = (double)from[i / c->n * c->stride + c->first + i % c->n];
    return out;
}

/* Expects that the columns equal `want` and that all other columns are
 * unchanged. */
static void expect_columns(const char *what, const float *got,
                           const double *want, const float *before,
                           const es_columns *c)
{
    float *inside = array(c->n_in * c->n, 0);
    for (int i = 0; i < whole(c); i++) {
        const int j = i % c->stride - c->first;
        if (j >= 0 && j < c->n)
            inside[i / c->stride * c->n + j] = got[i];
        else if (!(got[i] == before[i]))
            fail_msg("%s: touches column %d", what, j);
    }
    es_test_expect_close(what, inside, want, (size_t)(c->n_in * c->n));
}

/* --- WNorm ---------------------------------------------------------------- */

NORMED_TEST(weight_norm_matches_plain_loops)
{
    const es_columns c = columns_of(n_in, n);
    float *v = array(whole(&c), 1), *g = array(n, 1), *w = array(whole(&c), 1);
    float *before = copy(w, whole(&c));
    double *from = cut(v, &c), *scale = widen(g, n), *want = doubles(n_in * n);
    ops->weight_norm(cpu, mem(w), mem(v), mem(g), &c);
    es_ref_weight_norm(want, from, scale, n_in, n);
    expect_columns("weight norm", w, want, before, &c);
}

/* The function whose gradients are tested: sum over i of dw_i * w_i. */
typedef struct objective {
    const double *dw, *m, *g, *u, *v; /* g is NULL for SNorm */
    int n_in, n;
} objective;

static double evaluate(const objective *o)
{
    double sum = 0, *w = doubles(o->n_in * o->n);
    if (o->g)
        es_ref_weight_norm(w, o->m, o->g, o->n_in, o->n);
    else
        es_ref_spectral_norm(w, o->m, o->u, o->v, o->n_in, o->n);
    for (int i = 0; i < o->n_in * o->n; i++)
        sum += o->dw[i] * w[i];
    return sum;
}

/* Computes central differences at about 40 elements of x. The other elements of
 * `want` are copied from `got`, so that they are equal. */
static void differences(double *want, double *got, double *x, int n,
                        const objective *o)
{
    for (int i = 0; i < n; i++) {
        const double kept = x[i], step = 1e-5;
        want[i] = got[i];
        if (i % (1 + n / 41))
            continue;
        x[i] = kept + step;
        const double above = evaluate(o);
        x[i] = kept - step;
        want[i] = (above - evaluate(o)) / (2 * step);
        x[i] = kept;
    }
}

/* Expects that the columns of `got` equal those of `before` plus the gradient
 * computed by central differences. */
static void expect_gradient(const char *what, const float *got,
                            const float *before, const es_columns *c, double *m,
                            const objective *o)
{
    const int n = c->n_in * c->n;
    double *was = cut(before, c), *is = cut(got, c), *want = doubles(n);
    for (int i = 0; i < n; i++)
        is[i] -= was[i];
    differences(want, is, m, n, o);
    for (int i = 0; i < n; i++)
        want[i] += was[i];
    expect_columns(what, got, want, before, c);
}

NORMED_TEST(weight_norm_matches_finite_differences)
{
    const es_columns c = columns_of(n_in, n), row = {1, n, 0, n};
    float *v = array(whole(&c), 1), *g = array(n, 1), *dw = array(whole(&c), 1);
    float *dv = array(whole(&c), 1), *dg = array(n, 1);
    float *dv_before = copy(dv, whole(&c)), *dg_before = copy(dg, n);
    /* Keep |v| large: with a single row the exact dv is 0, but it is computed
     * as a difference of terms that grow like 1 / |v|, so a small |v| would
     * cause large rounding errors. */
    for (int i = 0; i < whole(&c); i++)
        v[i] += v[i] < 0 ? -0.5f : 0.5f;
    double *m = cut(v, &c), *scale = widen(g, n), *along = cut(dw, &c);
    const objective o = {.dw = along, .m = m, .g = scale, .n_in = n_in, .n = n};
    ops->weight_norm_backward(cpu, mem(dv), mem(dg), mem(dw), mem(v), mem(g),
                              &c);
    expect_gradient("dv", dv, dv_before, &c, m, &o);
    expect_gradient("dg", dg, dg_before, &row, scale, &o);
}

/* --- SNorm ---------------------------------------------------------------- */

NORMED_TEST(spectral_norm_matches_plain_loops)
{
    for (int n_iterations = 0; n_iterations < 4; n_iterations++) {
        const es_columns c = columns_of(n_in, n);
        float *m = array(whole(&c), 1), *w = array(whole(&c), 1), sigma;
        float *u = array(n, 1), *v = array(n_in, 1),
              *before = copy(w, whole(&c));
        double *from = cut(m, &c), *want = doubles(n_in * n);
        double *ref_u = widen(u, n), *ref_v = widen(v, n_in);
        for (int i = 0; i < n_iterations; i++)
            es_ref_power_iteration(ref_u, ref_v, from, n_in, n);
        double length = es_ref_spectral_norm(want, from, ref_u, ref_v, n_in, n);
        ops->spectral_norm(cpu, mem(w), mem(&sigma), mem(u), mem(v), mem(m), &c,
                           n_iterations);
        es_test_expect_close("sigma", &sigma, &length, 1);
        es_test_expect_close("u", u, ref_u, (size_t)n);
        es_test_expect_close("v", v, ref_v, (size_t)n_in);
        expect_columns("spectral norm", w, want, before, &c);
    }
}

/* The columns (3,0,4) and (8,0,-6) are orthogonal, with lengths 5 and 10, so
 * sigma is 10. */
NORMED_TEST(sigma_is_the_largest_singular_value)
{
    (void)n_in, (void)n;
    const es_columns c = {3, 2, 0, 2};
    float m[6] = {3, 8, 0, 0, 4, -6}, w[6], u[2] = {0.8f, 0.6f}, v[3], sigma;
    const double unit[3] = {0.8, 0, -0.6}, largest = 10;
    ops->spectral_norm(cpu, mem(w), mem(&sigma), mem(u), mem(v), mem(m), &c,
                       20);
    es_test_expect_close("sigma", &sigma, &largest, 1);
    es_test_expect_close("v", v, unit, 3);
}

NORMED_TEST(spectral_norm_matches_finite_differences)
{
    const es_columns c = columns_of(n_in, n);
    float *m = array(whole(&c), 1), *w = array(whole(&c), 1), sigma;
    float *u = array(n, 1), *v = array(n_in, 1), *dw = array(whole(&c), 1);
    float *dm = array(whole(&c), 1), *before = copy(dm, whole(&c));
    ops->spectral_norm(cpu, mem(w), mem(&sigma), mem(u), mem(v), mem(m), &c, 2);
    double *from = cut(m, &c), *along = cut(dw, &c);
    double *ref_u = widen(u, n), *ref_v = widen(v, n_in);
    const objective o = {along, from, NULL, ref_u, ref_v, n_in, n};
    ops->spectral_norm_backward(cpu, mem(dm), mem(dw), mem(w), mem(&sigma),
                                mem(u), mem(v), &c);
    expect_gradient("dm", dm, before, &c, from, &o);
}

/* --- columns that are not normalised ------------------------------------- */

NORMED_TEST(columns_are_copied_or_added)
{
    const es_columns c = columns_of(n_in, n);
    float *x = array(whole(&c), 1), *y = array(whole(&c), 1);
    float *before = copy(y, whole(&c));
    double *want = cut(x, &c);
    ops->copy_columns(cpu, mem(y), mem(x), &c, false);
    expect_columns("copy", y, want, before, &c);
    for (int i = 0; i < n_in * n; i++)
        want[i] *= 2;
    ops->copy_columns(cpu, mem(y), mem(x), &c, true);
    expect_columns("copy, added", y, want, before, &c);
}

/* --- zeros and NaN -------------------------------------------------------- */

enum { ROWS = 9, WIDE = 40 };

/* Column 4 is all zeros and column 21 contains a NaN. The results of all other
 * columns must be correct. */
NORMED_TEST(a_bad_column_does_not_affect_others)
{
    (void)n_in, (void)n;
    const es_columns c = {ROWS, WIDE, 0, WIDE};
    float *v = array(ROWS * WIDE, 1), *g = array(WIDE, 1),
          *dw = array(ROWS * WIDE, 1);
    float w[ROWS * WIDE], dv[ROWS * WIDE] = {0}, dg[WIDE] = {0};
    for (int i = 0; i < ROWS; i++)
        v[i * WIDE + 4] = 0;
    v[5 * WIDE + 21] = NAN;
    /* column 7 of w is 0, but not column 7 of v, so no result is NaN */
    g[7] = 0;
    ops->weight_norm(cpu, mem(w), mem(v), mem(g), &c);
    ops->weight_norm_backward(cpu, mem(dv), mem(dg), mem(dw), mem(v), mem(g),
                              &c);
    for (int i = 0; i < ROWS * WIDE; i++) {
        const int j = i % WIDE;
        const bool bad = j == 4 || j == 21;
        assert_int_equal(isnan(w[i]) != 0, bad);
        assert_int_equal(isnan(dv[i]) != 0, bad);
        assert_int_equal(isnan(dg[j]) != 0, bad);
        assert_int_equal(w[i] == 0, j == 7);
    }
}

/* If a matrix is all zeros or contains a NaN, all results of the matrix are
 * NaN. */
NORMED_TEST(a_bad_matrix_gives_only_nan)
{
    (void)n_in, (void)n;
    const es_columns c = {ROWS, WIDE, 0, WIDE};
    for (int with_nan = 0; with_nan < 2; with_nan++) {
        float *m = array(ROWS * WIDE, 1), *u = array(WIDE, 1),
              *v = array(ROWS, 1);
        float w[ROWS * WIDE], sigma = 1;
        memset(m, 0, with_nan ? 0 : ROWS * WIDE * sizeof *m);
        m[3] = with_nan ? NAN : 0;
        ops->spectral_norm(cpu, mem(w), mem(&sigma), mem(u), mem(v), mem(m), &c,
                           1);
        assert_true(isnan(sigma));
        for (int i = 0; i < ROWS * WIDE; i++)
            assert_true(isnan(w[i]) && isnan(u[i % WIDE]) &&
                        isnan(v[i / WIDE]));
    }
}

/* --- the same bits -------------------------------------------------------- */

enum { BITS_IN = 123, BITS_N = 457, BITS = BITS_IN * BITS_N };

typedef struct outputs {
    float w[2][BITS], dm[2][BITS], dg[BITS_N], u[BITS_N], v[BITS_IN], sigma;
} outputs;

static outputs *run_all(uint64_t from_seed)
{
    const es_columns c = {BITS_IN, BITS_N, 0, BITS_N};
    es_test_seed(from_seed);
    float *m = array(BITS, 1), *dw = array(BITS, 1), *g = array(BITS_N, 1);
    outputs *out = (outputs *)doubles(sizeof *out / sizeof(double) + 1);
    memcpy(out->u, array(BITS_N, 1), sizeof out->u);
    ops->weight_norm(cpu, mem(out->w[0]), mem(m), mem(g), &c);
    ops->weight_norm_backward(cpu, mem(out->dm[0]), mem(out->dg), mem(dw),
                              mem(m), mem(g), &c);
    ops->spectral_norm(cpu, mem(out->w[1]), mem(&out->sigma), mem(out->u),
                       mem(out->v), mem(m), &c, 2);
    ops->spectral_norm_backward(cpu, mem(out->dm[1]), mem(dw), mem(out->w[1]),
                                mem(&out->sigma), mem(out->u), mem(out->v), &c);
    return out;
}

TEST(the_same_number_of_threads_gives_the_same_bits)
{
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        open_cpu(n_threads, NULL);
        outputs *once = run_all(77), *again = run_all(77);
        outputs *other = run_all(78);
        assert_memory_equal(once, again, sizeof *once);
        assert_memory_not_equal(once, other, sizeof *once);
        ops->close(cpu);
        es_test_release();
    }
}
