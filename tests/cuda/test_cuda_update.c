/* The CUDA back-end's clipping, AdamW and normalised weights, against plain
 * loops in double. */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdlib.h>

static const es_extents small = {
    .n_rows = 1, .width = 1300, .n_ctx = 1, .n_head = 1, .head_width = 1};

/* --- clipping ------------------------------------------------------------- */

typedef struct clipping {
    es_mem *control;
    const es_mem *squares, *loss;
    float max_norm;
    bool may_skip;
} clipping;

static void call_clip(const es_ops *ops, es_backend *backend, void *context)
{
    const clipping *c = context;
    ops->clip(backend, c->control, c->squares, c->loss, c->max_norm,
              c->may_skip);
}

typedef struct clip_case {
    double squares, loss; /* loss 0: none given */
    float loss_scale, max_norm;
    bool may_skip;
    double grad_scale; /* wanted */
    float skips;
} clip_case;

static void check_clip_of(es_bench *bench, const clip_case *of)
{
    const es_control before = {.lr = 1e-3f,
                               .correction1 = 0.5f,
                               .correction2 = 0.25f,
                               .loss_scale = of->loss_scale,
                               .grad_scale = NAN,
                               .skips = NAN};
    clipping c = {.max_norm = of->max_norm, .may_skip = of->may_skip};
    c.control = es_bench_put(bench, ES_CHANGE, &before, sizeof before / 4, 4);
    c.squares = es_bench_put(bench, ES_READ, &of->squares, 1, 8);
    if (of->loss != 0)
        c.loss = es_bench_put(bench, ES_READ, &of->loss, 1, 8);
    es_bench_run(bench, call_clip, &c);
    const es_control *got = es_bench_get(bench, c.control);
    es_bench_expect(bench, "grad_scale", &got->grad_scale, &of->grad_scale, 1,
                    false);
    assert_true(got->skips == of->skips);
    assert_memory_equal(got, &before, offsetof(es_control, grad_scale));
    es_bench_clear(bench);
}

static void check_clip(es_bench *bench)
{
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
        check_clip_of(bench, &cases[i]);
}

static void test_cuda_update__clip(void **state)
{
    (void)state;
    es_bench_fp32(check_clip, &small);
}

/* --- AdamW ---------------------------------------------------------------- */

typedef struct updated {
    es_mem *param, *moment1, *moment2;
    const es_mem *grad, *control;
    es_adamw how;
    size_t n;
} updated;

static void call_adamw(const es_ops *ops, es_backend *backend, void *context)
{
    const updated *u = context;
    ops->adamw(backend, u->param, u->moment1, u->moment2, u->grad, u->n,
               &u->how, u->control);
}

/* AdamW with decoupled decay. */
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

static void expect_updated(es_bench *bench, const updated *u,
                           const double *param, const double *m,
                           const double *v)
{
    es_bench_expect(bench, "param", es_bench_get(bench, u->param), param, u->n,
                    false);
    es_bench_expect(bench, "moment1", es_bench_get(bench, u->moment1), m, u->n,
                    false);
    es_bench_expect(bench, "moment2", es_bench_get(bench, u->moment2), v, u->n,
                    false);
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
    es_bench_run(bench, call_adamw, &u);
    expect_updated(bench, &u, p2, m2, v2);
    es_bench_clear(bench);
    free(param), free(m), free(v), free(grad), free(p2), free(m2), free(v2);
}

static void check_adamw(es_bench *bench)
{
    const size_t lengths[] = {1, 3, 33, 257, 20001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_adamw_of(bench, lengths[i], 0);
        check_adamw_of(bench, lengths[i], 1);
    }
}

static void test_cuda_update__adamw(void **state)
{
    (void)state;
    es_bench_fp32(check_adamw, &small);
}

/* --- normalised weights --------------------------------------------------- */

/* Of one matrix: what is put is (in,stride), what is wanted (in,n). */
typedef struct normed {
    es_mem *w, *sigma, *u, *v, *dm, *dg;
    const es_mem *m, *g, *dw, *given_w, *given_sigma, *given_u, *given_v;
    es_columns columns;
    int n_iterations;
    bool add;
} normed;

/* Odd ones, one row, one column, more than the threads of a block. */
static const int sizes[][2] = {{1, 1},  {7, 5},    {1, 19},   {19, 1},
                               {33, 2}, {50, 100}, {300, 17}, {5, 1300}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static int whole(const es_columns *c)
{
    return c->n_in * c->stride;
}

/* Where entry i of (in,n) lies. */
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

/* The columns are what they should be, the others as they were; NULL:
 * poison. */
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
    free(all);
}

static void call_weight_norm(const es_ops *ops, es_backend *backend,
                             void *context)
{
    const normed *n = context;
    ops->weight_norm(backend, n->w, n->m, n->g, &n->columns);
}

static void call_weight_norm_backward(const es_ops *ops, es_backend *backend,
                                      void *context)
{
    const normed *n = context;
    ops->weight_norm_backward(backend, n->dm, n->dg, n->dw, n->m, n->g,
                              &n->columns);
}

static void call_spectral_norm(const es_ops *ops, es_backend *backend,
                               void *context)
{
    const normed *n = context;
    ops->spectral_norm(backend, n->w, n->sigma, n->u, n->v, n->m, &n->columns,
                       n->n_iterations);
}

static void call_spectral_norm_backward(const es_ops *ops, es_backend *backend,
                                        void *context)
{
    const normed *n = context;
    ops->spectral_norm_backward(backend, n->dm, n->dw, n->given_w,
                                n->given_sigma, n->given_u, n->given_v,
                                &n->columns);
}

static void call_copy(const es_ops *ops, es_backend *backend, void *context)
{
    const normed *n = context;
    ops->copy_columns(backend, n->w, n->m, &n->columns, n->add);
}

/* What is wrong with the matrix: nothing, a NaN, zeros alone (of the column,
 * or everywhere). */
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
    normed l = {.columns = *c};
    l.w = es_bench_put_floats(bench, ES_WRITE, NULL, all);
    l.m = es_bench_put_floats(bench, ES_READ, v, all);
    l.g = es_bench_put_floats(bench, ES_READ, g, n);
    es_ref_weight_norm(want, cut_v, wide_g, c->n_in, c->n);
    es_bench_run(bench, call_weight_norm, &l);
    expect_columns(bench, "weight norm", l.w, want, NULL, c);
    es_bench_clear(bench);
    free(v), free(g), free(want), free(cut_v), free(wide_g);
}

/* dv, dg += as the contract says. */
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
    normed l = {.columns = *c};
    l.dm = es_bench_put_floats(bench, ES_CHANGE, dv, all);
    l.dg = es_bench_put_floats(bench, ES_CHANGE, dg, n);
    l.dw = es_bench_put_floats(bench, ES_READ, dw, all);
    l.m = es_bench_put_floats(bench, ES_READ, v, all);
    l.g = es_bench_put_floats(bench, ES_READ, g, n);
    weight_norm_back(want, want_g, cut_dw, cut_v, wide_g, c->n_in, c->n);
    es_bench_run(bench, call_weight_norm_backward, &l);
    expect_columns(bench, "dv", l.dm, want, dv, c);
    es_bench_expect(bench, "dg", es_bench_get(bench, l.dg), want_g, n, false);
    es_bench_clear(bench);
    free(v), free(g), free(dw), free(dv), free(dg), free(want), free(want_g);
    free(cut_v), free(cut_dw), free(wide_g);
}

/* Three columns stand before them and two after, or whole packs. */
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

static void check_weight_norm(es_bench *bench)
{
    each_size(bench, check_weight_norm_of);
    each_size(bench, check_weight_norm_back_of);
}

static void test_cuda_update__weight_norm(void **state)
{
    (void)state;
    es_bench_fp32(check_weight_norm, &small);
}

/* u, v, m in double, through the iterations, to sigma and w. */
static double iterate(double *w, double *u, double *v, const double *m,
                      const normed *l)
{
    const int n_in = l->columns.n_in, n = l->columns.n;
    for (int i = 0; i < l->n_iterations; i++)
        es_ref_power_iteration(u, v, m, n_in, n);
    return es_ref_spectral_norm(w, m, u, v, n_in, n);
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
    normed l = {.columns = *c, .n_iterations = n_iterations};
    l.w = es_bench_put_floats(bench, ES_WRITE, NULL, all);
    l.sigma = es_bench_put_floats(bench, ES_WRITE, NULL, 1);
    l.u = es_bench_put_floats(bench, ES_CHANGE, u, n);
    l.v = es_bench_put_floats(bench, ES_CHANGE, v, n_in);
    l.m = es_bench_put_floats(bench, ES_READ, m, all);
    double sigma = iterate(want, want_u, want_v, cut_m, &l);
    es_bench_run(bench, call_spectral_norm, &l);
    es_bench_expect(bench, "sigma", es_bench_get(bench, l.sigma), &sigma, 1,
                    false);
    es_bench_expect(bench, "u", es_bench_get(bench, l.u), want_u, n, false);
    es_bench_expect(bench, "v", es_bench_get(bench, l.v), want_v, n_in, false);
    expect_columns(bench, "spectral norm", l.w, want, NULL, c);
    es_bench_clear(bench);
    free(m), free(u), free(v), free(want), free(cut_m), free(want_u),
        free(want_v);
}

static void check_spectral_norm_of(es_bench *bench, const es_columns *c,
                                   fault how)
{
    for (int n_iterations = 0; n_iterations < 4; n_iterations++)
        check_iterations(bench, c, how, n_iterations);
}

/* dm += as the contract says, from the columns alone. */
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
    normed l = {.columns = *c};
    l.dm = es_bench_put_floats(bench, ES_CHANGE, dm, all);
    l.dw = es_bench_put_floats(bench, ES_READ, dw, all);
    l.given_w = es_bench_put_floats(bench, ES_READ, w, all);
    l.given_sigma = es_bench_put_floats(bench, ES_READ, &sigma, 1);
    l.given_u = es_bench_put_floats(bench, ES_READ, u, n);
    l.given_v = es_bench_put_floats(bench, ES_READ, v, (size_t)c->n_in);
    spectral_norm_back(want, cut_dw, cut_w, (double)sigma, u, v, c);
    es_bench_run(bench, call_spectral_norm_backward, &l);
    expect_columns(bench, "dm", l.dm, want, dm, c);
    es_bench_clear(bench);
    free(w), free(dw), free(dm), free(u), free(v), free(want), free(cut_dw),
        free(cut_w);
}

static void check_spectral_norm(es_bench *bench)
{
    each_size(bench, check_spectral_norm_of);
    each_size(bench, check_spectral_norm_back_of);
}

static void test_cuda_update__spectral_norm(void **state)
{
    (void)state;
    es_bench_fp32(check_spectral_norm, &small);
}

static void check_copy_of(es_bench *bench, const es_columns *c, fault how)
{
    const size_t all = (size_t)whole(c);
    for (int add = 0; add < 2; add++) {
        float *x = draw_matrix(c, how), *y = es_bench_draw(all, 1);
        double *want = cut(x, c), *before = cut(y, c);
        normed l = {.columns = *c, .add = add};
        l.w = es_bench_put_floats(bench, ES_CHANGE, y, all);
        l.m = es_bench_put_floats(bench, ES_READ, x, all);
        for (int i = 0; i < c->n_in * c->n; i++)
            want[i] += add ? before[i] : 0;
        es_bench_run(bench, call_copy, &l);
        expect_columns(bench, "copy", l.w, want, y, c);
        es_bench_clear(bench);
        free(x), free(y), free(want), free(before);
    }
}

static void check_copy(es_bench *bench)
{
    each_size(bench, check_copy_of);
}

static void test_cuda_update__copy_columns(void **state)
{
    (void)state;
    es_bench_fp32(check_copy, &small);
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
