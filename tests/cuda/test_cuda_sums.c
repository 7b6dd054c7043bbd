/* Compares the CUDA back-end's operations for residuals, rotary positions,
 * statistics and the update of the parameters with plain loops in double. */
/* needs: nvcc */
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"

#include <math.h>

static const es_extents small = {
    .n_rows = 600, .width = 300, .n_ctx = 300, .n_head = 5, .head_width = 300};

/* The lengths include a single element, odd lengths, and more elements than all
 * threads process in one pass. */
static const size_t lengths[] = {1, 7, 33, 257, 1000, 70001};
#define N_LENGTHS (sizeof lengths / sizeof *lengths)

/* --- residuals ------------------------------------------------------------ */

static void check_combine_of(es_bench *bench, size_t n)
{
    const float alpha = 1.75f, beta = -0.375f;
    float *x = es_bench_draw(n, 2), *f = es_bench_draw(n, 2);
    double *want = es_bench_doubles(n);
    x[n / 2] = n > 7 ? NAN : x[n / 2];
    f[n / 3] = n > 7 ? -INFINITY : f[n / 3];
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_f = es_bench_put_acts(bench, ES_READ, f, n);
    es_mem *of_alpha = es_bench_put_floats(bench, ES_READ, &alpha, 1);
    es_mem *of_beta = es_bench_put_floats(bench, ES_READ, &beta, 1);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)beta * (double)x[i] + (double)f[i] / (double)alpha;
    for (ES_EACH_RUN(on, bench))
        bench->ops->combine(on, of_y, of_x, of_f, of_alpha, of_beta, n);
    es_bench_expect_acts(bench, "combine", of_y, want, n);
    es_bench_clear(bench);
}

static void test_cuda_sums__combine(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < N_LENGTHS; i++)
            check_combine_of(bench, lengths[i]);
}

/* Puts large and non-finite numbers into the gate, and a NaN into x. The
 * expected y is NaN if x or the gate is NaN. */
static void fill_gates(float *gate, float *x, size_t n)
{
    for (size_t i = 0; n > 33 && i < 7; i++)
        gate[i * n / 7] =
            (const float[]){0, 90, -90, 200, -200, -INFINITY, INFINITY}[i];
    gate[n / 2] = n > 7 ? NAN : gate[n / 2];
    x[n / 5 + 1 < n ? n / 5 + 1 : 0] = n > 7 ? NAN : 1;
}

static void check_gate_of(es_bench *bench, size_t n)
{
    float *x = es_bench_draw(n, 2), *gate = es_bench_draw(n, 12);
    double *want = es_bench_doubles(n);
    fill_gates(gate, x, n);
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_gate = es_bench_put_acts(bench, ES_READ, gate, n);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)x[i] / (1 + exp(-(double)gate[i]));
    for (ES_EACH_RUN(on, bench))
        bench->ops->gate(on, of_y, of_x, of_gate, n);
    es_bench_expect_acts(bench, "gate", of_y, want, n);
    es_bench_clear(bench);
}

/* Checks the gradients of the gate. If in_place is true, dx and dy are the same
 * array. */
static void check_gate_back_of(es_bench *bench, size_t n, bool in_place)
{
    float *x = es_bench_draw(n, 2), *gate = es_bench_draw(n, 12);
    float *dy = es_bench_draw(n, 1);
    double *want_dx = es_bench_doubles(n), *want = es_bench_doubles(n);
    fill_gates(gate, x, n);
    es_mem *of_dx = in_place ? es_bench_put_acts(bench, ES_CHANGE, dy, n)
                             : es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_dy = in_place ? of_dx : es_bench_put_acts(bench, ES_READ, dy, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_gate = es_bench_put_acts(bench, ES_CHANGE, gate, n);
    for (size_t i = 0; i < n; i++) {
        const double g = (double)gate[i], s = 1 / (1 + exp(-g));
        want_dx[i] = (double)dy[i] * s;
        want[i] = want_dx[i] * (double)x[i] / (1 + exp(g));
    }
    for (ES_EACH_RUN(on, bench))
        bench->ops->gate_backward(on, of_dx, of_gate, of_dy, of_x, n);
    es_bench_expect_acts(bench, "gate's dx", of_dx, want_dx, n);
    es_bench_expect_acts(bench, "gate's own", of_gate, want, n);
    es_bench_clear(bench);
}

static void test_cuda_sums__gate(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < N_LENGTHS; i++) {
            check_gate_of(bench, lengths[i]);
            check_gate_back_of(bench, lengths[i], false);
            check_gate_back_of(bench, lengths[i], true);
        }
}

/* Checks dropout with or without a residual. As on the CPU, the dropped
 * elements must depend on the counter only. */
static void check_dropout_of(es_bench *bench, size_t n, bool has_residual)
{
    const es_dropout how = {
        .rate = 0.3f, .seed = UINT64_C(0x987654321), .place = 9, .offset = 2};
    const uint64_t pass = UINT64_C(0xfffffffff);
    const es_drop_mask mask = es_drop_mask_of(&how, pass);
    float *x = es_bench_draw(n, 2), *r = es_bench_draw(n, 2);
    double *want = es_bench_doubles(n);
    x[n / 2] = n > 7 ? NAN : x[n / 2];
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_r = es_bench_put_acts(bench, ES_READ, r, n);
    es_mem *of_pass = es_bench_put(bench, ES_READ, &pass, 1, sizeof pass);
    for (size_t i = 0; i < n; i++) {
        float factors[4];
        es_drop_factors(factors, &mask, i / 4);
        want[i] = (has_residual ? (double)r[i] : 0) +
                  (double)factors[i % 4] * (double)x[i];
    }
    for (ES_EACH_RUN(on, bench))
        bench->ops->dropout(on, of_y, has_residual ? of_r : NULL, of_x, &how,
                            of_pass, n);
    es_bench_expect_acts(bench, "dropout", of_y, want, n);
    es_bench_clear(bench);
}

static void test_cuda_sums__dropout(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < N_LENGTHS; i++) {
            check_dropout_of(bench, lengths[i], true);
            check_dropout_of(bench, lengths[i], false);
        }
}

/* Checks the gradients of y = beta * x + f / alpha. If in_place is true, dx and
 * dy are the same array. */
static void check_combine_back_of(es_bench *bench, size_t n, bool in_place)
{
    const float alpha = 1.75f, beta = -0.375f, dalpha = 3, dbeta = -2;
    float *x = es_bench_draw(n, 2), *f = es_bench_draw(n, 2);
    float *dy = es_bench_draw(n, 1);
    double *want_dx = es_bench_doubles(n), *want_df = es_bench_doubles(n);
    double want_alpha = 3, want_beta = -2;
    es_mem *of_dx = in_place ? es_bench_put_acts(bench, ES_CHANGE, dy, n)
                             : es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_dy = in_place ? of_dx : es_bench_put_acts(bench, ES_READ, dy, n);
    es_mem *of_df = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_f = es_bench_put_acts(bench, ES_READ, f, n);
    es_mem *of_alpha = es_bench_put_floats(bench, ES_READ, &alpha, 1);
    es_mem *of_beta = es_bench_put_floats(bench, ES_READ, &beta, 1);
    es_mem *of_dalpha = es_bench_put_floats(bench, ES_CHANGE, &dalpha, 1);
    es_mem *of_dbeta = es_bench_put_floats(bench, ES_CHANGE, &dbeta, 1);
    for (size_t i = 0; i < n; i++) {
        const double g = (double)dy[i], a = (double)alpha;
        want_dx[i] = (double)beta * g;
        want_df[i] = g / a;
        want_beta += g * (double)x[i];
        want_alpha -= g * (double)f[i] / (a * a);
    }
    for (ES_EACH_RUN(on, bench))
        bench->ops->combine_backward(on, of_dx, of_df, of_dalpha, of_dbeta,
                                     of_dy, of_x, of_f, of_alpha, of_beta, n);
    es_bench_expect_acts(bench, "combine's dx", of_dx, want_dx, n);
    es_bench_expect_acts(bench, "combine's df", of_df, want_df, n);
    es_bench_expect_floats(bench, "dalpha", of_dalpha, &want_alpha, 1);
    es_bench_expect_floats(bench, "dbeta", of_dbeta, &want_beta, 1);
    es_bench_clear(bench);
}

static void test_cuda_sums__combine_backward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (size_t i = 0; i < N_LENGTHS; i++) {
            check_combine_back_of(bench, lengths[i], false);
            check_combine_back_of(bench, lengths[i], true);
        }
}

/* --- rotation ------------------------------------------------------------- */

typedef struct rotation {
    es_mem *qkv;
    es_attention attention;
    bool back;
} rotation;

/* Rotates q or k of one head at one position, as specified in
 * analyzer/README.md, or reverses this rotation if `back` is true. */
static void turn(double *x, int position, int width, bool back)
{
    const int quarter = width / 4 / 2 * 2, n = quarter > 2 ? quarter : 2;
    for (int c = 0; c < n / 2; c++) {
        const double angle =
            position * pow(10000, -2.0 * c / n) * (back ? -1 : 1);
        const double a = x[c], b = x[c + n / 2];
        x[c] = a * cos(angle) - b * sin(angle);
        x[c + n / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void check_rotate_of(es_bench *bench, int n_batch, int n_ctx, int n_head,
                            int width, bool back)
{
    const int d = n_head * width;
    const size_t n = (size_t)(n_batch * n_ctx * 3 * d);
    float *qkv = es_bench_draw(n, 2);
    rotation r = {.attention = {.n_batch = n_batch,
                                .n_ctx = n_ctx,
                                .n_head = n_head,
                                .d_model = d},
                  .back = back};
    r.qkv = es_bench_put_acts(bench, ES_CHANGE, qkv, n);
    double *want = es_bench_widen(qkv, n);
    for (int row = 0; row < n_batch * n_ctx; row++)
        for (int h = 0; h < 2 * n_head; h++)
            turn(want + row * 3 * d + h * width, row % n_ctx, width, back);
    for (ES_EACH_RUN(on, bench))
        bench->ops->rotate(on, r.qkv, &r.attention, r.back);
    es_bench_expect_acts(bench, "rotate", r.qkv, want, n);
    es_bench_clear(bench);
}

static void test_cuda_sums__rotate(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small))
        for (int back = 0; back < 2; back++) {
            check_rotate_of(bench, 1, 1, 1, 2, back);
            check_rotate_of(bench, 2, 33, 3, 6, back);
            check_rotate_of(bench, 1, 300, 1, 64, back);
            check_rotate_of(bench, 3, 5, 2, 257, back);
            check_rotate_of(bench, 1, 7, 5, 32, back);
        }
}

/* --- the regulariser ------------------------------------------------------ */

typedef struct regulariser {
    es_mem *loss, *dentropy, *dtheta;
    const es_mem *entropy, *control;
    es_penalty penalty;
    float scale;
} regulariser;

/* Returns the penalty of an entropy e, and writes the derivative to *slope, as
 * analyzer/README.md defines both. */
static double penalise(double *slope, double e, double theta,
                       const es_penalty *p)
{
    const double most = log(p->n_ctx), deviation = e - theta * most;
    const bool counts =
        isfinite(e) && fabs(deviation) > (double)p->gamma * most;
    *slope = counts ? 2 * deviation : 0;
    return counts ? deviation * deviation : 0;
}

/* Computes the expected gradients of one head's entropy penalty. Returns the
 * penalty. */
static double penalise_head(double *dentropy, double *dtheta, const float *e,
                            double theta, double factor, const es_penalty *p)
{
    const int step = p->n_head * p->n_ctx;
    double mean = 0, n = 0, sum = 0, slope;
    for (int b = 0; b < p->n_batch; b++)
        for (int i = 0; i < p->n_ctx; i++)
            if (isfinite(e[b * step + i])) {
                mean += (double)e[b * step + i];
                n++;
            }
    for (int b = 0; b < p->n_batch; b++)
        for (int i = 0; i < p->n_ctx; i++) {
            const bool finite = isfinite(e[b * step + i]);
            const double own = p->mean ? mean / n : (double)e[b * step + i];
            const double more = penalise(&slope, own, theta, p);
            sum += !p->mean ? more : finite ? more / n : 0;
            slope = finite ? slope / (p->mean ? n : 1) : 0;
            dentropy[b * step + i] = factor * slope;
            *dtheta -= factor * slope * log(p->n_ctx);
        }
    return sum;
}

/* Checks the entropy penalty if one of its optional outputs is not requested.
 * left_out chooses this output: the loss (0), dentropy (1) or dtheta (2). */
static void check_penalty_of(es_bench *bench, const es_penalty *shape,
                             bool scaled, int left_out)
{
    const es_control control = {.loss_scale = 8, .grad_scale = NAN};
    const int heads = shape->n_head, rows = shape->n_batch * shape->n_ctx;
    const size_t n = (size_t)(rows * heads);
    float *e = es_bench_draw(n, 2), *theta = es_bench_draw((size_t)heads, 1);
    float *dtheta = es_bench_draw((size_t)heads, 1), loss = 0.25f;
    for (size_t i = 0; i < n; i++)
        e[i] = i % 11 == 5 ? NAN : i % 29 == 7 ? INFINITY : e[i] + 2;
    double *want = es_bench_doubles(n), total = 0;
    double *want_theta = es_bench_widen(dtheta, (size_t)heads);
    regulariser r = {.penalty = *shape, .scale = 0.5f};
    const double factor =
        (double)shape->lambda * 0.5 * (scaled ? 8 : 1) / shape->n_layer / heads;
    if (left_out != 0)
        r.loss = es_bench_put_floats(bench, ES_CHANGE, &loss, 1);
    r.entropy = es_bench_put_floats(bench, ES_READ, e, n);
    if (left_out != 1)
        r.dentropy = es_bench_put_floats(bench, ES_WRITE, NULL, n);
    r.penalty.theta = es_bench_put_floats(bench, ES_READ, theta, (size_t)heads);
    if (left_out != 2)
        r.dtheta = es_bench_put_floats(bench, ES_CHANGE, dtheta, (size_t)heads);
    if (scaled)
        r.control =
            es_bench_put(bench, ES_READ, &control, sizeof control / 4, 4);
    for (int h = 0; h < heads; h++)
        total += penalise_head(want + h * shape->n_ctx, want_theta + h,
                               e + h * shape->n_ctx, (double)theta[h], factor,
                               shape);
    total = 0.25 + total / shape->n_layer / heads;
    for (ES_EACH_RUN(on, bench))
        bench->ops->entropy_penalty(on, r.loss, r.dentropy, r.dtheta, r.entropy,
                                    &r.penalty, r.scale, r.control);
    if (r.loss)
        es_bench_expect_floats(bench, "penalty", r.loss, &total, 1);
    if (r.dentropy)
        es_bench_expect_floats(bench, "dentropy", r.dentropy, want, n);
    if (r.dtheta)
        es_bench_expect_floats(bench, "dtheta", r.dtheta, want_theta,
                               (size_t)heads);
    es_bench_clear(bench);
}

static void test_cuda_sums__entropy_penalty(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        es_penalty shapes[] = {{.n_batch = 1, .n_ctx = 7, .n_head = 1},
                               {.n_batch = 3, .n_ctx = 33, .n_head = 2},
                               {.n_batch = 1, .n_ctx = 1, .n_head = 3},
                               {.n_batch = 2, .n_ctx = 300, .n_head = 5}};
        for (int i = 0; i < 16; i++) {
            es_penalty *shape = &shapes[i % 4];
            shape->n_layer = 3;
            shape->gamma = 0.2f;
            shape->lambda = 0.5f;
            shape->mean = i / 4 % 2 == 1;
            check_penalty_of(bench, shape, i / 8 == 1, i % 4);
        }
    }
}

/* --- rows of heads -------------------------------------------------------- */

typedef struct rows_of_heads {
    es_mem *sums;
    es_row_mem rows;
    int n_layer, n_batch, n_head, n_ctx;
} rows_of_heads;

static void expect_number(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-9) &&
        !(isnan(got) && isnan(want)))
        fail_msg("%s is %.12g, not %.12g", what, got, want);
}

/* Draws row statistics. Some of the rows, and all rows of head 1, are not
 * finite. Without has_missing, the statistic ES_ROW_MISSING is absent, as for
 * softmax. */
static void draw_rows(float *rows[ES_N_ROW_STATISTICS], size_t n, int n_head,
                      int n_ctx, bool has_missing)
{
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++) {
        rows[k] = NULL;
        if (k == ES_ROW_LSE || (k == ES_ROW_MISSING && !has_missing))
            continue;
        rows[k] = es_bench_draw(n, k == ES_ROW_MAX_LOGIT ? 30 : 3);
        for (size_t i = 0; i < n; i++) {
            const bool bad =
                i % 5 == 3 || i / (size_t)n_ctx % (size_t)n_head == 1;
            if (k == ES_ROW_NONFINITE)
                rows[k][i] = bad ? (float)(1 + i % 7) : 0;
            else if (bad)
                rows[k][i] = NAN;
        }
    }
}

/* Checks that the measurements are added to earlier values of the heads, and
 * that the results are the same as on the host. */
static void check_measure_of(es_bench *bench, int n_layer, int n_batch,
                             int n_head, int n_ctx, bool has_missing)
{
    const size_t heads = (size_t)(n_layer * n_head);
    const size_t n = heads * (size_t)(n_batch * n_ctx);
    rows_of_heads r = {.n_layer = n_layer,
                       .n_batch = n_batch,
                       .n_head = n_head,
                       .n_ctx = n_ctx};
    float *rows[ES_N_ROW_STATISTICS];
    es_head_sums *want =
        (void *)es_bench_doubles(heads * sizeof *want / sizeof(double));
    draw_rows(rows, n, n_head, n_ctx, has_missing);
    /* Head 0 has no earlier values, like all heads in the first micro-batch of
     * a step. */
    for (int h = 0; h < n_layer * n_head; h++) {
        want[h] = es_head_sums_start();
        for (int i = 0; h > 0 && i < ES_N_HEAD_SERIES; i++)
            want[h].values[i] = h + i + 0.25;
    }
    /* The array is passed as elements of 8 bytes, so the bench misaligns it by
     * a multiple of 8 bytes only. */
    r.sums = es_bench_put(bench, ES_CHANGE, want, heads * sizeof *want / 8, 8);
    for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
        if (rows[k])
            r.rows.array[k] = es_bench_put_floats(bench, ES_READ, rows[k], n);
    for (int layer = 0; layer < n_layer; layer++) {
        es_head_sums_add_rows(want + layer * n_head, (const float *const *)rows,
                              n_batch, n_head, n_ctx);
        for (int k = 0; k < ES_N_ROW_STATISTICS; k++)
            rows[k] = rows[k] ? rows[k] + n / (size_t)n_layer : NULL;
    }
    for (ES_EACH_RUN(on, bench))
        bench->ops->measure_rows(on, r.sums, &r.rows, r.n_layer, r.n_batch,
                                 r.n_head, r.n_ctx);
    const es_head_sums *got = es_bench_get(bench, r.sums);
    for (int h = 0; h < n_layer * n_head; h++) {
        assert_true(got[h].finite_rows == want[h].finite_rows);
        for (int i = 0; i < ES_N_HEAD_SERIES; i++)
            expect_number(es_head_statistics[i].name, got[h].values[i],
                          want[h].values[i]);
    }
    es_bench_clear(bench);
}

static void test_cuda_sums__measure_rows(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        check_measure_of(bench, 1, 1, 1, 1, true);
        check_measure_of(bench, 3, 1, 2, 7, false);
        check_measure_of(bench, 2, 2, 5, 300, true);
        check_measure_of(bench, 1, 40, 2, 3, false);
        check_measure_of(bench, 2, 7, 3, 130, false);
        check_measure_of(bench, 1, 2, 1, 1030, false);
    }
}

/* --- activations, mean, squares ------------------------------------------- */

static void check_activations_of(es_bench *bench, size_t n, int n_bad)
{
    const es_layer_sums before = {5, 2.5};
    float *x = es_bench_draw(n, 3);
    double squares = 2.5;
    for (int i = 0; i < n_bad; i++)
        x[(size_t)i * n / 3] = i == 1 ? NAN : INFINITY;
    es_mem *of_out = es_bench_put(bench, ES_CHANGE, &before, 2, 8);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    for (ES_EACH_RUN(on, bench))
        bench->ops->activation_stats(on, of_out, of_x, n);
    const es_layer_sums *got = es_bench_get(bench, of_out);
    assert_int_equal(got->nonfinite, 5 + n_bad);
    if (isinf(squares))
        assert_true(isinf(got->squares));
    else
        expect_number("squares", got->squares, squares);
    es_bench_clear(bench);
}

static void test_cuda_sums__activation_stats(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &small)) {
        for (size_t i = 0; i < N_LENGTHS; i++)
            check_activations_of(bench, lengths[i], 0);
        for (int n_bad = 1; n_bad < 4; n_bad++)
            check_activations_of(bench, 301, n_bad);
    }
}

static void check_mean_of(es_bench *bench, size_t n)
{
    const double before = 1.25;
    float *x = es_bench_draw(n, 3);
    double want = 0, got;
    es_mem *of_out = es_bench_put(bench, ES_CHANGE, &before, 1, 8);
    es_mem *of_x = es_bench_put_floats(bench, ES_READ, x, n);
    for (size_t i = 0; i < n; i++)
        want += (double)x[i];
    for (ES_EACH_RUN(on, bench))
        bench->ops->add_mean(on, of_out, of_x, n);
    memcpy(&got, es_bench_get(bench, of_out), sizeof got);
    expect_number("mean", got, before + want / (double)n);
    es_bench_clear(bench);
}

/* Checks the sum of squares of numbers that include `one`, whose square may be
 * too large for float32. */
static void check_squares_of(es_bench *bench, size_t n, float one)
{
    float *x = es_bench_draw(n, 3);
    double want = 0, got;
    x[n / 2] = one;
    es_mem *of_out = es_bench_put(bench, ES_WRITE, NULL, 1, 8);
    es_mem *of_x = es_bench_put_floats(bench, ES_READ, x, n);
    for (size_t i = 0; i < n; i++)
        want += (double)x[i] * (double)x[i];
    for (ES_EACH_RUN(on, bench))
        bench->ops->sum_squares(on, of_out, of_x, n);
    memcpy(&got, es_bench_get(bench, of_out), sizeof got);
    expect_number("squares", got, want);
    es_bench_clear(bench);
}

static void test_cuda_sums__mean_and_squares(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_FP32, &small)) {
        for (size_t i = 0; i < N_LENGTHS; i++) {
            check_mean_of(bench, lengths[i]);
            check_squares_of(bench, lengths[i], 0.5f);
        }
        check_squares_of(bench, 100, 1e20f);
        check_squares_of(bench, 100, NAN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_sums__combine),
        cmocka_unit_test(test_cuda_sums__combine_backward),
        cmocka_unit_test(test_cuda_sums__gate),
        cmocka_unit_test(test_cuda_sums__dropout),
        cmocka_unit_test(test_cuda_sums__rotate),
        cmocka_unit_test(test_cuda_sums__entropy_penalty),
        cmocka_unit_test(test_cuda_sums__measure_rows),
        cmocka_unit_test(test_cuda_sums__activation_stats),
        cmocka_unit_test(test_cuda_sums__mean_and_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
