/* Compares the CUDA back-end's clipping, AdamW and normalised weights with
 * plain loops in double. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>

static const es_extents small = {
    .n_rows = 1, .width = 1300, .n_ctx = 1, .n_head = 1, .head_width = 1};

/* --- clipping ------------------------------------------------------------- */

typedef struct clip_case {
    double squares, loss; /* if loss is 0, clip is called without a loss */
    float loss_scale, max_norm;
    bool may_skip;
    double grad_scale; /* expected value of grad_scale */
    float skips;
} clip_case;

/* Checks the clipping of gradients. `skipped` is the value of `skips` before
 * the call. */
static void check_clip_of(es_bench *bench, const clip_case *of, float skipped)
{
    const es_control before = {.lr = 1e-3f,
                               .correction1 = 0.5f,
                               .correction2 = 0.25f,
                               .loss_scale = of->loss_scale,
                               .grad_scale = NAN,
                               .skips = skipped};
    es_mem *of_control =
        es_bench_put(bench, ES_CHANGE, &before, sizeof before / 4, 4);
    es_mem *of_squares = es_bench_put(bench, ES_READ, &of->squares, 1, 8);
    es_mem *of_loss =
        of->loss != 0 ? es_bench_put(bench, ES_READ, &of->loss, 1, 8) : NULL;
    for (ES_EACH_RUN(on, bench))
        bench->ops->clip(on, of_control, of_squares, of_loss, of->max_norm,
                         of->may_skip);
    const es_control *got = es_bench_get(bench, of_control);
    es_bench_expect(bench, "grad_scale", &got->grad_scale, &of->grad_scale, 1,
                    false);
    assert_true(got->skips == (skipped != 0 ? 1 : of->skips));
    assert_memory_equal(&got->lr, &before.lr,
                        offsetof(es_control, grad_scale) -
                            offsetof(es_control, lr));
    es_bench_clear(bench);
}

static void test_cuda_update__clip(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        const double inf = (double)INFINITY, nan = (double)NAN;
        const clip_case cases[] = {
            {4, 0, 1, 1, false, 0.5, 0},      {4, 0, 1, 3, true, 1, 0},
            {4, 0, 1, 0, false, 1, 0},        {1024, 0, 8, 1, true, 0.03125, 0},
            {1024, 2, 8, 5, true, 0.125, 0},  {0, 0, 1, 1, true, 1, 0},
            {nan, 0, 4, 1, true, 0.25, 1},    {inf, 0, 4, 1, true, 0.25, 1},
            {nan, 0, 1, 1, false, 1, 0},      {4, nan, 1, 1, true, 0.5, 1},
            {4, inf, 1, 1, false, 0.5, 0},    {4, -inf, 2, 9, true, 0.5, 1},
            {1e40, 0, 1, 1, false, 1e-20, 0},
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_clip_of(bench, &cases[i], 0),
                check_clip_of(bench, &cases[i], 1);
    }
}

/* --- AdamW ---------------------------------------------------------------- */

typedef struct updated {
    es_mem *param, *moment1, *moment2;
    const es_mem *grad, *control;
    es_adamw how;
    size_t n;
} updated;

/* Makes one step of AdamW with decoupled weight decay for a single
 * parameter. */
static void step(double *param, double *m, double *v, double grad,
                 const es_adamw *how, const es_control *c)
{
    const double g = grad * (double)c->grad_scale, lr = (double)c->lr;
    const double beta1 = (double)how->beta1, beta2 = (double)how->beta2;
    *m = beta1 * *m + (1 - beta1) * g;
    *v = beta2 * *v + (1 - beta2) * g * g;
    const double root = sqrt(*v / (double)c->correction2);
    *param -= lr * (double)how->decay * *param +
              lr * *m / (double)c->correction1 / (root + (double)how->eps);
}

static void check_adamw_of(es_bench *bench, size_t n, float skips)
{
    const es_control c = {.lr = 0.1f,
                          .correction1 = 0.19f,
                          .correction2 = 0.002f,
                          .loss_scale = NAN,
                          .grad_scale = 0.5f,
                          .skips = skips};
    float *param = es_bench_draw(n, 1), *m = es_bench_draw(n, 1);
    float *v = es_bench_draw(n, 1), *grad = es_bench_draw(n, 1);
    updated u = {.how = {0.9f, 0.999f, 1e-8f, 0.1f}, .n = n};
    for (size_t i = 0; i < n; i++)
        v[i] = fabsf(v[i]) + 0.01f;
    if (n > 7)
        grad[n / 2] = NAN, grad[n / 3] = INFINITY;
    u.param = es_bench_put_floats(bench, ES_CHANGE, param, n);
    u.moment1 = es_bench_put_floats(bench, ES_CHANGE, m, n);
    u.moment2 = es_bench_put_floats(bench, ES_CHANGE, v, n);
    u.grad = es_bench_put_floats(bench, ES_READ, grad, n);
    u.control = es_bench_put(bench, ES_READ, &c, sizeof c / 4, 4);
    double *p2 = es_bench_widen(param, n), *m2 = es_bench_widen(m, n);
    double *v2 = es_bench_widen(v, n);
    for (size_t i = 0; skips == 0 && i < n; i++)
        step(&p2[i], &m2[i], &v2[i], (double)grad[i], &u.how, &c);
    for (ES_EACH_RUN(on, bench))
        bench->ops->adamw(on, u.param, u.moment1, u.moment2, u.grad, u.n,
                          &u.how, u.control);
    es_bench_expect_floats(bench, "param", u.param, p2, n);
    es_bench_expect_floats(bench, "moment1", u.moment1, m2, n);
    es_bench_expect_floats(bench, "moment2", u.moment2, v2, n);
    es_bench_clear(bench);
}

static void test_cuda_update__adamw(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        const size_t lengths[] = {1, 3, 33, 257, 20001};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            check_adamw_of(bench, lengths[i], 0);
            check_adamw_of(bench, lengths[i], 1);
        }
    }
}

/* --- normalised weights --------------------------------------------------- */

/* The sizes include odd sizes, a single row, a single column, and more elements
 * than a block has threads. */
static const int sizes[][2] = {{1, 1},  {7, 5},    {1, 19},   {19, 1},
                               {33, 2}, {50, 100}, {300, 17}, {5, 1300}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static int whole(const es_columns *c)
{
    return c->n_in * c->stride;
}

/* Returns the index of element i of the matrix (n_in,n) of selected columns in
 * the complete array, whose rows are `stride` elements apart. */
static int place(const es_columns *c, int i)
{
    return i / c->n * c->stride + c->first + i % c->n;
}

static double *cut(const float *from, const es_columns *c)
{
    double *out = es_bench_doubles((size_t)(c->n_in * c->n));
    for (int i = 0; i < c->n_in * c->n; i++)
        out[i] = (double)from[place(c, i)];
    return out;
}

/* Expects the selected columns to have the values `want`, and all other columns
 * to be unchanged: to have the values `before`, or NaN if `before` is NULL. */
static void expect_columns(es_bench *bench, const char *what,
                           const es_mem *memory, const double *want,
                           const float *before, const es_columns *c)
{
    const float *got = es_bench_get(bench, memory);
    double *all = es_bench_doubles((size_t)whole(c));
    for (int i = 0; i < whole(c); i++)
        all[i] = before ? (double)before[i] : (double)NAN;
    for (int i = 0; i < c->n_in * c->n; i++)
        all[place(c, i)] = want[i];
    es_bench_expect(bench, what, got, all, (size_t)whole(c), false);
}

/* Faults of a matrix: none, a NaN in one column, only zeros in one column, or
 * only zeros. */
typedef enum fault { SOUND, HAS_NAN, HAS_ZEROS, ALL_ZEROS } fault;

static float *draw_matrix(const es_columns *c, fault how)
{
    float *m = es_bench_draw((size_t)whole(c), 1);
    const int bad = c->n / 2;
    for (int i = 0; i < c->n_in * c->n; i++)
        if (how == ALL_ZEROS || (how == HAS_ZEROS && i % c->n == bad))
            m[place(c, i)] = 0;
    if (how == HAS_NAN)
        m[place(c, bad)] = NAN;
    return m;
}

static void check_weight_norm_of(es_bench *bench, const es_columns *c,
                                 fault how)
{
    const size_t all = (size_t)whole(c), n = (size_t)c->n;
    float *v = draw_matrix(c, how), *g = es_bench_draw(n, 1);
    double *want = es_bench_doubles(n * (size_t)c->n_in);
    double *cut_v = cut(v, c), *wide_g = es_bench_widen(g, n);
    es_mem *of_w = es_bench_put_floats(bench, ES_WRITE, NULL, all);
    es_mem *of_m = es_bench_put_floats(bench, ES_READ, v, all);
    es_mem *of_g = es_bench_put_floats(bench, ES_READ, g, n);
    es_ref_weight_norm(want, cut_v, wide_g, c->n_in, c->n);
    for (ES_EACH_RUN(on, bench))
        bench->ops->weight_norm(on, of_w, of_m, of_g, c);
    expect_columns(bench, "weight norm", of_w, want, NULL, c);
    es_bench_clear(bench);
}

/* Adds the gradients of v and g to dv and dg, according to the definition in
 * ops.h. */
static void weight_norm_back(double *dv, double *dg, const double *dw,
                             const double *v, const double *g, int n_in, int n)
{
    for (int j = 0; j < n; j++) {
        double squares = 0, along = 0;
        for (int i = 0; i < n_in; i++) {
            squares += v[i * n + j] * v[i * n + j];
            along += v[i * n + j] * dw[i * n + j];
        }
        const double norm = sqrt(squares), c = along / norm;
        dg[j] += c;
        for (int i = 0; i < n_in; i++)
            dv[i * n + j] +=
                g[j] / norm * (dw[i * n + j] - c * v[i * n + j] / norm);
    }
}

static void check_weight_norm_back_of(es_bench *bench, const es_columns *c,
                                      fault how)
{
    const size_t all = (size_t)whole(c), n = (size_t)c->n;
    float *v = draw_matrix(c, how), *g = es_bench_draw(n, 1);
    float *dw = es_bench_draw(all, 1), *dv = es_bench_draw(all, 1);
    float *dg = es_bench_draw(n, 1);
    double *want = cut(dv, c), *want_g = es_bench_widen(dg, n);
    double *cut_v = cut(v, c), *cut_dw = cut(dw, c);
    double *wide_g = es_bench_widen(g, n);
    es_mem *of_dm = es_bench_put_floats(bench, ES_CHANGE, dv, all);
    es_mem *of_dg = es_bench_put_floats(bench, ES_CHANGE, dg, n);
    es_mem *of_dw = es_bench_put_floats(bench, ES_READ, dw, all);
    es_mem *of_m = es_bench_put_floats(bench, ES_READ, v, all);
    es_mem *of_g = es_bench_put_floats(bench, ES_READ, g, n);
    weight_norm_back(want, want_g, cut_dw, cut_v, wide_g, c->n_in, c->n);
    for (ES_EACH_RUN(on, bench))
        bench->ops->weight_norm_backward(on, of_dm, of_dg, of_dw, of_m, of_g,
                                         c);
    expect_columns(bench, "dv", of_dm, want, dv, c);
    es_bench_expect_floats(bench, "dg", of_dg, want_g, n);
    es_bench_clear(bench);
}

/* Runs `check` for several sizes. First, three columns precede the selected
 * columns and two follow; then the selected columns begin and end at various
 * multiples of the pack size. */
static void each_size(es_bench *bench,
                      void (*check)(es_bench *bench, const es_columns *c,
                                    fault how))
{
    for (size_t i = 0; i < N_SIZES; i++) {
        const int n = sizes[i][1];
        const es_columns c = {sizes[i][0], n + 5, 3, n};
        check(bench, &c, SOUND);
    }
    const es_columns packs[] = {
        {1, 4, 0, 4}, {7, 16, 3, 8}, {33, 24, 4, 16}, {70, 1300, 1000, 300}};
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++)
        check(bench, &packs[i], SOUND);
    for (int how = HAS_NAN; how <= ALL_ZEROS; how++) {
        const es_columns c = {7, 9, 2, 5};
        check(bench, &c, (fault)how);
    }
}

static void test_cuda_update__weight_norm(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        each_size(bench, check_weight_norm_of);
        each_size(bench, check_weight_norm_back_of);
    }
}

static void check_iterations(es_bench *bench, const es_columns *c, fault how,
                             int n_iterations)
{
    const size_t all = (size_t)whole(c), n = (size_t)c->n;
    const size_t n_in = (size_t)c->n_in;
    float *m = draw_matrix(c, how), *u = es_bench_draw(n, 1);
    float *v = es_bench_draw(n_in, 1);
    double *want = es_bench_doubles(n * n_in), *cut_m = cut(m, c);
    double *want_u = es_bench_widen(u, n), *want_v = es_bench_widen(v, n_in);
    es_mem *of_w = es_bench_put_floats(bench, ES_WRITE, NULL, all);
    es_mem *of_sigma = es_bench_put_floats(bench, ES_WRITE, NULL, 1);
    es_mem *of_u = es_bench_put_floats(bench, ES_CHANGE, u, n);
    es_mem *of_v = es_bench_put_floats(bench, ES_CHANGE, v, n_in);
    es_mem *of_m = es_bench_put_floats(bench, ES_READ, m, all);
    for (int i = 0; i < n_iterations; i++)
        es_ref_power_iteration(want_u, want_v, cut_m, c->n_in, c->n);
    const double sigma =
        es_ref_spectral_norm(want, cut_m, want_u, want_v, c->n_in, c->n);
    for (ES_EACH_RUN(on, bench))
        bench->ops->spectral_norm(on, of_w, of_sigma, of_u, of_v, of_m, c,
                                  n_iterations);
    es_bench_expect_floats(bench, "sigma", of_sigma, &sigma, 1);
    es_bench_expect_floats(bench, "u", of_u, want_u, n);
    es_bench_expect_floats(bench, "v", of_v, want_v, n_in);
    expect_columns(bench, "spectral norm", of_w, want, NULL, c);
    es_bench_clear(bench);
}

static void check_spectral_norm_of(es_bench *bench, const es_columns *c,
                                   fault how)
{
    for (int n_iterations = 0; n_iterations < 4; n_iterations++)
        check_iterations(bench, c, how, n_iterations);
}

/* Adds the gradient of m to dm, according to the definition in ops.h, for the
 * selected columns only. */
static void spectral_norm_back(double *dm, const double *dw, const double *w,
                               double sigma, const float *u, const float *v,
                               const es_columns *c)
{
    double along = 0;
    for (int i = 0; i < c->n_in * c->n; i++)
        along += dw[i] * w[i];
    for (int i = 0; i < c->n_in * c->n; i++)
        dm[i] +=
            (dw[i] - along * (double)v[i / c->n] * (double)u[i % c->n]) / sigma;
}

static void check_spectral_norm_back_of(es_bench *bench, const es_columns *c,
                                        fault how)
{
    const size_t all = (size_t)whole(c), n = (size_t)c->n;
    const float sigma = 1.75f;
    float *w = draw_matrix(c, how), *dw = es_bench_draw(all, 1);
    float *dm = es_bench_draw(all, 1), *u = es_bench_draw(n, 1);
    float *v = es_bench_draw((size_t)c->n_in, 1);
    double *want = cut(dm, c), *cut_dw = cut(dw, c), *cut_w = cut(w, c);
    es_mem *of_dm = es_bench_put_floats(bench, ES_CHANGE, dm, all);
    es_mem *of_dw = es_bench_put_floats(bench, ES_READ, dw, all);
    es_mem *of_w = es_bench_put_floats(bench, ES_READ, w, all);
    es_mem *of_sigma = es_bench_put_floats(bench, ES_READ, &sigma, 1);
    es_mem *of_u = es_bench_put_floats(bench, ES_READ, u, n);
    es_mem *of_v = es_bench_put_floats(bench, ES_READ, v, (size_t)c->n_in);
    spectral_norm_back(want, cut_dw, cut_w, (double)sigma, u, v, c);
    for (ES_EACH_RUN(on, bench))
        bench->ops->spectral_norm_backward(on, of_dm, of_dw, of_w, of_sigma,
                                           of_u, of_v, c);
    expect_columns(bench, "dm", of_dm, want, dm, c);
    es_bench_clear(bench);
}

static void test_cuda_update__spectral_norm(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        each_size(bench, check_spectral_norm_of);
        each_size(bench, check_spectral_norm_back_of);
    }
}

static void check_copy_of(es_bench *bench, const es_columns *c, fault how)
{
    const size_t all = (size_t)whole(c);
    for (int add = 0; add < 2; add++) {
        float *x = draw_matrix(c, how), *y = es_bench_draw(all, 1);
        double *want = cut(x, c), *before = cut(y, c);
        es_mem *of_w = es_bench_put_floats(bench, ES_CHANGE, y, all);
        es_mem *of_m = es_bench_put_floats(bench, ES_READ, x, all);
        for (int i = 0; i < c->n_in * c->n; i++)
            want[i] += add ? before[i] : 0;
        for (ES_EACH_RUN(on, bench))
            bench->ops->copy_columns(on, of_w, of_m, c, add);
        expect_columns(bench, "copy", of_w, want, y, c);
        es_bench_clear(bench);
    }
}

static void test_cuda_update__copy_columns(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        each_size(bench, check_copy_of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_update__clip),
        cmocka_unit_test(test_cuda_update__adamw),
        cmocka_unit_test(test_cuda_update__weight_norm),
        cmocka_unit_test(test_cuda_update__spectral_norm),
        cmocka_unit_test(test_cuda_update__copy_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
