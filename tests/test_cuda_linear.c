/* The CUDA back-end's matrix products and what goes with them, against plain
 * loops in double. */
#include "tests/cmocka_all.h"
#include "tests/cuda_bench.h"
#include "tests/reference_ops.h"

#include <math.h>
#include <stdlib.h>

/* Rows, then width before and behind. */
typedef struct sizes {
    int n, n_in, n_out;
    bool transposed;
    int trained; /* biases */
} sizes;

/* One call of any of the operations: weights and biases are one array, as in a
 * model, of which the first n_kept are kept for products. */
typedef struct call {
    sizes s;
    es_linear linear;
    es_mem *y, *post, *dslope, *dweight, *dbias;
    const es_mem *x, *residual, *pre;
    const es_act *act;
    bool add;
    size_t n_kept;
} call;

static const es_extents of_products = {
    .n_rows = 5000, .width = 600, .n_ctx = 16, .n_head = 1, .head_width = 16};

static const sizes all_sizes[] = {
    {1, 1, 1, false, 1},      {1, 1, 1, true, 1},     {7, 3, 5, false, 4},
    {33, 20, 48, true, 32},   {129, 17, 1, false, 1}, {50, 64, 131, false, 88},
    {50, 64, 136, true, 136}, {1, 24, 8, false, 8},
};
#define N_SIZES (sizeof all_sizes / sizeof *all_sizes)

/* --- calling -------------------------------------------------------------- */

static void begin(const es_ops *ops, es_backend *backend, const call *c)
{
    if (ops->keep && c->n_kept > 0)
        assert_int_equal(ops->keep(backend, c->linear.weight, c->n_kept),
                         ES_OK);
}

static void end(const es_ops *ops, es_backend *backend, const call *c)
{
    if (ops->keep && c->n_kept > 0)
        assert_int_equal(ops->keep(backend, c->linear.weight, 0), ES_OK);
}

static void call_linear(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    begin(ops, backend, c);
    ops->linear(backend, c->y, c->residual, c->x, &c->linear, c->s.n);
    end(ops, backend, c);
}

static void call_act(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    begin(ops, backend, c);
    ops->linear_act(backend, c->y, c->post, c->x, &c->linear, c->act, c->s.n);
    end(ops, backend, c);
}

static void call_input(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    begin(ops, backend, c);
    ops->linear_backward_input(backend, c->y, c->x, &c->linear, c->s.n, c->add);
    end(ops, backend, c);
}

static void call_act_back(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    begin(ops, backend, c);
    ops->linear_backward_act(backend, c->y, c->post, c->dslope, c->x, c->pre,
                             &c->linear, c->act, c->s.n);
    end(ops, backend, c);
}

static void call_weight(const es_ops *ops, es_backend *backend, void *context)
{
    const call *c = context;
    ops->linear_backward_weight(backend, c->dweight, c->dbias, c->x, c->pre,
                                &c->linear, c->s.n);
}

/* --- numbers -------------------------------------------------------------- */

/* Where the biases begin: aligned as in a model. */
static size_t bias_at(const sizes *s)
{
    return ((size_t)(s->n_in * s->n_out) + 15) / 16 * 16;
}

/* Weights and biases behind them, of numbers that every precision holds. */
static float *draw_weights(const es_bench *bench, const sizes *s)
{
    const size_t n = bias_at(s) + (size_t)s->n_out;
    float *out = es_bench_draw(n, 1);
    for (size_t i = 0; i < n; i++)
        out[i] = es_bench_round(bench->precision, out[i]);
    return out;
}

/* Puts them and says so in the call; `keeps_bias`: they are kept, too. */
static void put_weights(es_bench *bench, call *c, const float *weights,
                        bool keeps_bias)
{
    const size_t n = bias_at(&c->s), n_bias = (size_t)c->s.n_out;
    es_mem *memory = es_bench_put_floats(bench, ES_READ, weights, n + n_bias);
    c->linear = (es_linear){memory,
                            es_mem_at(memory, n * sizeof *weights),
                            c->s.n_in,
                            c->s.n_out,
                            c->s.trained,
                            c->s.transposed,
                            0};
    c->n_kept = n + (keeps_bias ? n_bias : 0);
}

static void add(double *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += (double)from[i];
}

/* As es_bench_expect, of what was rounded once more on the way while it was
 * `larger` (n; NULL: as large as it is now). */
static void expect_twice(es_bench *bench, const char *what, const float *got,
                         const double *want, const double *larger, size_t n)
{
    const double unit = bench->precision == ES_BF16   ? 0x1p-8
                        : bench->precision == ES_FP16 ? 0x1p-11
                                                      : 0;
    float *nearer = malloc(n * sizeof *nearer);
    assert_non_null(nearer);
    for (size_t i = 0; i < n; i++) {
        double slack = 1.01 * unit * fabs(larger ? larger[i] : want[i]);
        double off = (double)got[i] - want[i];
        nearer[i] = fabs(off) <= slack ? (float)want[i]
                    : isfinite((double)got[i])
                        ? (float)((double)got[i] - copysign(slack, off))
                        : got[i];
    }
    es_bench_expect(bench, what, nearer, want, n, true);
    free(nearer);
}

/* --- y = r + x W + b -------------------------------------------------------
 */

/* What is not finite in some rows of x and r. */
static void spoil(float *x, int n, int width)
{
    if (n < 7)
        return;
    x[1 * width] = NAN;
    x[4 * width + width / 2] = INFINITY;
    x[6 * width + width - 1] = -INFINITY;
}

static void check_linear_of(es_bench *bench, const sizes *s, bool residual,
                            bool in_place, bool keeps_bias)
{
    const size_t n_y = (size_t)(s->n * s->n_out);
    call c = {.s = *s};
    float *x = es_bench_draw((size_t)(s->n * s->n_in), 1);
    float *r = es_bench_draw(n_y, 1), *w = draw_weights(bench, s);
    double *want = es_bench_doubles(n_y), *larger = es_bench_doubles(n_y);
    spoil(x, s->n, s->n_in);
    c.x = es_bench_put_acts(bench, ES_READ, x, (size_t)(s->n * s->n_in));
    c.y = es_bench_put_acts(bench, in_place ? ES_CHANGE : ES_WRITE,
                            in_place ? r : NULL, n_y);
    c.residual = in_place   ? c.y
                 : residual ? es_bench_put_acts(bench, ES_READ, r, n_y)
                            : NULL;
    put_weights(bench, &c, w, keeps_bias);
    es_ref_linear(want, x, w, w + bias_at(s), s->n, s->n_in, s->n_out,
                  s->transposed);
    if (c.residual)
        add(want, r, n_y);
    for (size_t i = 0; i < n_y; i++)
        larger[i] = 2; /* residual + bias */
    es_bench_run(bench, call_linear, &c);
    if (keeps_bias)
        es_bench_expect(bench, "linear", es_bench_get_acts(bench, c.y), want,
                        n_y, true);
    else
        expect_twice(bench, "linear, bias apart", es_bench_get_acts(bench, c.y),
                     want, larger, n_y);
    es_bench_clear(bench);
    free(x), free(r), free(w), free(want), free(larger);
}

static void check_linear(es_bench *bench)
{
    for (size_t i = 0; i < N_SIZES; i++)
        for (int kind = 0; kind < 6; kind++)
            check_linear_of(bench, &all_sizes[i], kind % 3 == 1, kind % 3 == 2,
                            kind < 3);
}

static void test_cuda_linear__forward(void **state)
{
    (void)state;
    es_bench_each(check_linear, &of_products);
}

/* --- dx = dy W^T ---------------------------------------------------------- */

static void check_input_of(es_bench *bench, const sizes *s, bool adds)
{
    const size_t n_dx = (size_t)(s->n * s->n_in);
    call c = {.s = *s, .add = adds};
    float *dy = es_bench_draw((size_t)(s->n * s->n_out), 1);
    float *dx = es_bench_draw(n_dx, 1), *w = draw_weights(bench, s);
    double *want = es_bench_doubles(n_dx);
    spoil(dy, s->n, s->n_out);
    c.x = es_bench_put_acts(bench, ES_READ, dy, (size_t)(s->n * s->n_out));
    c.y = es_bench_put_acts(bench, adds ? ES_CHANGE : ES_WRITE,
                            adds ? dx : NULL, n_dx);
    put_weights(bench, &c, w, true);
    es_ref_linear(want, dy, w, NULL, s->n, s->n_out, s->n_in, !s->transposed);
    if (adds)
        add(want, dx, n_dx);
    es_bench_run(bench, call_input, &c);
    es_bench_expect(bench,
                    adds ? "dx +=" : "dx =", es_bench_get_acts(bench, c.y),
                    want, n_dx, true);
    es_bench_clear(bench);
    free(dy), free(dx), free(w), free(want);
}

static void check_input(es_bench *bench)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        check_input_of(bench, &all_sizes[i], false);
        check_input_of(bench, &all_sizes[i], true);
    }
}

static void test_cuda_linear__input_gradient(void **state)
{
    (void)state;
    es_bench_each(check_input, &of_products);
}

/* --- dW += x^T dy, db += the sums of dy ------------------------------------
 */

/* As laid out, and the sums of the first `trained` columns. */
static void add_weight_gradient(double *dweight, double *dbias, const float *x,
                                const float *dy, const sizes *s)
{
    for (int i = 0; i < s->n; i++)
        for (int b = 0; b < s->n_out; b++) {
            const double d = (double)dy[i * s->n_out + b];
            dbias[b] += b < s->trained ? d : 0;
            for (int a = 0; a < s->n_in; a++)
                dweight[s->transposed ? b * s->n_in + a : a * s->n_out + b] +=
                    (double)x[i * s->n_in + a] * d;
        }
}

static void check_weight_of(es_bench *bench, const sizes *s, bool bias)
{
    const size_t n_w = (size_t)(s->n_in * s->n_out), n_b = (size_t)s->n_out;
    const size_t n_x = (size_t)(s->n * s->n_in), n_y = (size_t)s->n * n_b;
    call c = {.s = *s};
    float *x = es_bench_draw(n_x, 1), *dy = es_bench_draw(n_y, 1);
    float *dw = es_bench_draw(n_w, 1), *db = es_bench_draw(n_b, 1);
    double *want_w = es_bench_widen(dw, n_w), *want_b = es_bench_widen(db, n_b);
    if (s->n_out > 5)
        dy[5] = INFINITY; /* of one column */
    c.linear = (es_linear){NULL,       NULL,          s->n_in, s->n_out,
                           s->trained, s->transposed, 0};
    c.x = es_bench_put_acts(bench, ES_READ, x, n_x);
    c.pre = es_bench_put_acts(bench, ES_READ, dy, n_y);
    c.dweight = es_bench_put_floats(bench, ES_CHANGE, dw, n_w);
    c.dbias = bias ? es_bench_put_floats(bench, ES_CHANGE, db, n_b) : NULL;
    add_weight_gradient(want_w, want_b, x, dy, s);
    es_bench_run(bench, call_weight, &c);
    es_bench_expect(bench, "dw", es_bench_get(bench, c.dweight), want_w, n_w,
                    false);
    if (bias)
        es_bench_expect(bench, "db", es_bench_get(bench, c.dbias), want_b, n_b,
                        false);
    es_bench_clear(bench);
    free(x), free(dy), free(dw), free(db), free(want_w), free(want_b);
}

static void check_weight(es_bench *bench)
{
    /* More rows than one block sums, in a last chunk that is not whole. */
    static const sizes tall = {4301, 2, 140, false, 133};
    for (size_t i = 0; i < N_SIZES; i++) {
        check_weight_of(bench, &all_sizes[i], true);
        check_weight_of(bench, &all_sizes[i], false);
    }
    check_weight_of(bench, &tall, true);
}

static void test_cuda_linear__weight_gradient(void **state)
{
    (void)state;
    es_bench_each(check_weight, &of_products);
}

/* --- activations ---------------------------------------------------------- */

static const es_activation kinds[] = {
    ES_ACT_LINEAR, ES_ACT_GELU, ES_ACT_GELU_TANH, ES_ACT_RELU, ES_ACT_LEAKY};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* An activation with a slope that is learnt, or not. */
static es_act act_of(es_bench *bench, es_activation kind, bool learnt)
{
    const float slope = 0.3f;
    es_act act = {.kind = kind, .slope = learnt ? 7 : slope};
    if (learnt)
        act.learnt = es_bench_put_floats(bench, ES_READ, &slope, 1);
    return act;
}

static void check_act_of(es_bench *bench, const sizes *s, es_activation kind,
                         bool learnt)
{
    const size_t n_y = (size_t)(s->n * s->n_out);
    call c = {.s = *s};
    const es_act act = act_of(bench, kind, learnt);
    float *x = es_bench_draw((size_t)(s->n * s->n_in), 2);
    float *w = draw_weights(bench, s);
    double *want = es_bench_doubles(n_y);
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, x, (size_t)(s->n * s->n_in));
    if (kind != ES_ACT_LINEAR)
        c.y = es_bench_put_acts(bench, ES_WRITE, NULL, n_y);
    c.post = es_bench_put_acts(bench, ES_WRITE, NULL, n_y);
    put_weights(bench, &c, w, true);
    es_ref_linear(want, x, w, w + bias_at(s), s->n, s->n_in, s->n_out,
                  s->transposed);
    es_bench_run(bench, call_act, &c);
    if (c.y) {
        const float *pre = es_bench_get_acts(bench, c.y);
        es_bench_expect(bench, "before", pre, want, n_y, true);
        for (size_t i = 0; i < n_y; i++) /* of what was written */
            want[i] = es_ref_act((double)pre[i], kind, 0.3f);
    }
    es_bench_expect(bench, "after", es_bench_get_acts(bench, c.post), want, n_y,
                    true);
    es_bench_clear(bench);
    free(x), free(w), free(want);
}

static void check_acts(es_bench *bench)
{
    static const sizes odd = {37, 5, 29, false, 29},
                       even = {40, 8, 64, true, 64}, one = {1, 1, 1, false, 1};
    for (size_t i = 0; i < N_KINDS; i++) {
        check_act_of(bench, &one, kinds[i], false);
        check_act_of(bench, &odd, kinds[i], true);
        check_act_of(bench, &even, kinds[i], false);
    }
}

static void test_cuda_linear__activations(void **state)
{
    (void)state;
    es_bench_each(check_acts, &of_products);
}

/* Through y = act(pre) W, where the gradient of act(pre) is rounded once;
 * slopes: the gradient of the slope, and the sum of what it consists of. */
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

static void check_act_back_of(es_bench *bench, const sizes *s,
                              es_activation kind, bool learnt)
{
    const size_t n = (size_t)(s->n * s->n_in), n_y = (size_t)(s->n * s->n_out);
    const bool bends = kind != ES_ACT_LINEAR;
    call c = {.s = *s};
    const es_act act = act_of(bench, kind, learnt);
    float *dy = es_bench_draw(n_y, 1), *pre = es_bench_draw(n, 5);
    float *w = draw_weights(bench, s), dslope = 0.5f;
    double *want = es_bench_doubles(n), *post = es_bench_doubles(n);
    double none[2] = {0}, slopes[2] = {0.5, 0.5};
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, dy, n_y);
    c.y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    c.post = bends ? es_bench_put_acts(bench, ES_WRITE, NULL, n) : NULL;
    c.pre = bends ? es_bench_put_acts(bench, ES_READ, pre, n) : NULL;
    es_mem *of_slope = es_bench_put_floats(bench, ES_CHANGE, &dslope, 1);
    c.dslope = learnt ? of_slope : NULL;
    put_weights(bench, &c, w, true);
    es_ref_linear(want, dy, w, NULL, s->n, s->n_out, s->n_in, !s->transposed);
    expect_act_back(learnt ? slopes : none, want, post, pre, kind, n);
    es_bench_run(bench, call_act_back, &c);
    expect_twice(bench, "dpre", es_bench_get_acts(bench, c.y), want, NULL, n);
    if (bends)
        es_bench_expect(bench, "post", es_bench_get_acts(bench, c.post), post,
                        n, true);
    expect_twice(bench, "dslope", es_bench_get(bench, of_slope), slopes,
                 slopes + 1, 1);
    es_bench_clear(bench);
    free(dy), free(pre), free(w), free(want), free(post);
}

static void check_acts_back(es_bench *bench)
{
    static const sizes odd = {37, 29, 5, false, 0}, even = {40, 64, 8, true, 0},
                       one = {1, 1, 1, false, 0};
    for (size_t i = 0; i < N_KINDS; i++) {
        check_act_back_of(bench, &one, kinds[i], true);
        check_act_back_of(bench, &odd, kinds[i], true);
        check_act_back_of(bench, &even, kinds[i], false);
        check_act_back_of(bench, &even, kinds[i], true);
    }
}

static void test_cuda_linear__activations_backward(void **state)
{
    (void)state;
    es_bench_each(check_acts_back, &of_products);
}

/* The ends of the scale, the kink, and what is not finite, by a product with
 * 1: pre is x. */
static void check_ends_of(es_bench *bench, es_activation kind)
{
    float x[] = {-INFINITY, -1e30f, -88, -20, -5,    -1e-20f,  -0.0f, 0,
                 1e-20f,    5,      20,  88,  1e30f, INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    const float weights[17] = {1};
    float ones[N];
    double post[N], derivative[N];
    call c = {.s = {N, 1, 1, false, 0}};
    const es_act act = act_of(bench, kind, false);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    c.act = &act;
    c.x = es_bench_put_acts(bench, ES_READ, ones, N);
    c.pre = es_bench_put_acts(bench, ES_READ, x, N);
    c.y = es_bench_put_acts(bench, ES_WRITE, NULL, N);
    c.post = es_bench_put_acts(bench, ES_WRITE, NULL, N);
    put_weights(bench, &c, weights, true);
    es_bench_run(bench, call_act_back, &c);
    float got[N], slope[N];
    memcpy(got, es_bench_get_acts(bench, c.post), sizeof got);
    memcpy(slope, es_bench_get_acts(bench, c.y), sizeof slope);
    for (int i = 0; i < N; i++) {
        post[i] = es_ref_act((double)x[i], kind, 0.3f);
        derivative[i] = es_ref_act_slope((double)x[i], kind, 0.3f);
        if (isinf(x[i])) { /* may be infinity times 0 in any formula */
            assert_false(x[i] > 0 && !(got[i] == INFINITY));
            got[i] = (float)post[i], slope[i] = (float)derivative[i];
        } else if (isnan(x[i])) {
            assert_true(isnan(got[i]));
            slope[i] = (float)derivative[i];
        }
    }
    /* One by one: 1e30 would be the measure of all. */
    for (int i = 0; i < N; i++) {
        es_bench_expect(bench, "post", got + i, post + i, 1, true);
        es_bench_expect(bench, "slope", slope + i, derivative + i, 1, true);
    }
    es_bench_clear(bench);
}

static void check_ends(es_bench *bench)
{
    for (size_t i = 1; i < N_KINDS; i++)
        check_ends_of(bench, kinds[i]);
}

static void test_cuda_linear__activation_ends(void **state)
{
    (void)state;
    es_bench_each(check_ends, &of_products);
}

/* --- tf32 ----------------------------------------------------------------- */

static es_mem *stored(const es_ops *ops, es_backend *backend, const float *x,
                      size_t n)
{
    es_mem *memory;
    assert_int_equal(ops->reserve(backend, &memory, n * sizeof *x), ES_OK);
    ops->store(backend, memory, x, n * sizeof *x);
    return memory;
}

/* y (n,out) = x W by the precision's table. */
static void product_by(es_precision precision, float *y, const float *x,
                       const float *w, const sizes *s)
{
    const es_ops *ops;
    es_backend *backend;
    const size_t n_y = (size_t)(s->n * s->n_out);
    assert_int_equal(es_ops_find(&ops, "cuda", precision), ES_OK);
    assert_int_equal(ops->open(&backend, 0), ES_OK);
    assert_int_equal(ops->prepare(backend, &of_products), ES_OK);
    es_mem *of_x = stored(ops, backend, x, (size_t)(s->n * s->n_in));
    es_mem *of_w = stored(ops, backend, w, (size_t)(s->n_in * s->n_out));
    es_mem *of_y = stored(ops, backend, y, n_y);
    const es_linear linear = {of_w, NULL,          s->n_in, s->n_out,
                              0,    s->transposed, 0};
    ops->linear(backend, of_y, NULL, of_x, &linear, s->n);
    ops->load(backend, y, of_y, n_y * sizeof *y);
    assert_int_equal(ops->status(backend), ES_OK);
    ops->release(backend, of_x);
    ops->release(backend, of_w);
    ops->release(backend, of_y);
    ops->close(backend);
}

/* Both inputs lose 13 bits, so that each product is off by 2^-10 at most: no
 * more, and in sum no less than a hundredth of it. */
static void check_tf32(es_bench *bench)
{
    static const sizes s = {24, 40, 56, false, 0};
    enum { N = 24 * 56 };
    float *x = es_bench_draw(24 * 40, 1), *w = es_bench_draw(40 * 56, 1);
    float y[N];
    double want[N], most[N], off = 0, bound = 0;
    if (bench->lie != ES_LIE_ALIGNED)
        goto done;
    es_test_fill(y, N, 1, &(uint64_t){5});
    es_ref_linear(want, x, w, NULL, s.n, s.n_in, s.n_out, s.transposed);
    product_by(ES_TF32, y, x, w, &s);
    for (size_t i = 0; i < 24 * 40; i++)
        x[i] = fabsf(x[i]);
    for (size_t i = 0; i < 40 * 56; i++)
        w[i] = fabsf(w[i]);
    es_ref_linear(most, x, w, NULL, s.n, s.n_in, s.n_out, s.transposed);
    for (int i = 0; i < N; i++) {
        assert_true(fabs((double)y[i] - want[i]) <= 0x1.01p-10 * most[i]);
        off += fabs((double)y[i] - want[i]);
        bound += 0x1p-10 * most[i];
    }
    assert_true(off >= bound / 100);
done:
    free(x), free(w);
}

static void test_cuda_linear__tf32(void **state)
{
    (void)state;
    es_bench_fp32(check_tf32, &of_products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_linear__forward),
        cmocka_unit_test(test_cuda_linear__input_gradient),
        cmocka_unit_test(test_cuda_linear__weight_gradient),
        cmocka_unit_test(test_cuda_linear__activations),
        cmocka_unit_test(test_cuda_linear__activations_backward),
        cmocka_unit_test(test_cuda_linear__activation_ends),
        cmocka_unit_test(test_cuda_linear__tf32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
