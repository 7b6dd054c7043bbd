/* Compares the CUDA back-end's operations on rows (embedding, LayerNorm, cross
 * entropy) with plain loops in double. */
/* needs: nvcc */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>

static const es_extents of_rows = {
    .n_rows = 3000, .width = 1300, .n_ctx = 300, .n_head = 1, .head_width = 16};

/* --- embedding ------------------------------------------------------------ */

/* Sizes of an embedding of tokens (B,T) with a vocabulary. */
typedef struct embedding {
    int n_batch, n_ctx, width, vocab;
    bool places;
} embedding;

static void check_embed(es_bench *bench, embedding e)
{
    const size_t n_rows = (size_t)(e.n_batch * e.n_ctx), d = (size_t)e.width;
    const size_t n_wte = (size_t)e.vocab * d, n_wpe = (size_t)e.n_ctx * d;
    int32_t *tokens = es_bench_tokens(n_rows, e.vocab);
    float *wte = es_bench_draw(n_wte, 1), *wpe = es_bench_draw(n_wpe, 1);
    double *want = es_bench_doubles(n_rows * d);
    es_mem *of_x = es_bench_put_acts(bench, ES_WRITE, NULL, n_rows * d);
    es_mem *of_tokens = es_bench_put(bench, ES_READ, tokens, n_rows, 4);
    es_mem *of_wte = es_bench_put_floats(bench, ES_READ, wte, n_wte);
    es_mem *of_wpe =
        e.places ? es_bench_put_floats(bench, ES_READ, wpe, n_wpe) : NULL;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t c = 0; c < d; c++)
            want[i * d + c] =
                (double)wte[(size_t)tokens[i] * d + c] +
                (e.places ? (double)wpe[i % (size_t)e.n_ctx * d + c] : 0);
    for (ES_EACH_RUN(on, bench))
        bench->ops->embed(on, of_x, of_tokens, of_wte, of_wpe, e.n_batch,
                          e.n_ctx, e.width);
    es_bench_expect_acts(bench, "embed", of_x, want, n_rows * d);
    es_bench_clear(bench);
}

static void test_cuda_rows__embed(void **state)
{
    static const embedding cases[] = {{1, 1, 1, 1, true},
                                      {3, 5, 33, 7, true},
                                      {2, 17, 64, 50, false},
                                      {1, 3, 257, 7, true},
                                      {70, 1, 8, 3, true}};
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows))
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_embed(bench, cases[i]);
}

static void check_embed_backward(es_bench *bench, embedding e)
{
    const size_t n_rows = (size_t)(e.n_batch * e.n_ctx), d = (size_t)e.width;
    const size_t n_wte = (size_t)e.vocab * d, n_wpe = (size_t)e.n_ctx * d;
    int32_t *tokens = es_bench_tokens(n_rows, e.vocab);
    float *dx = es_bench_draw(n_rows * d, 1);
    float *dwte = es_bench_draw(n_wte, 1), *dwpe = es_bench_draw(n_wpe, 1);
    double *want_te = es_bench_widen(dwte, n_wte);
    double *want_pe = es_bench_widen(dwpe, n_wpe);
    es_mem *of_dwte = es_bench_put_floats(bench, ES_CHANGE, dwte, n_wte);
    es_mem *of_tokens = es_bench_put(bench, ES_READ, tokens, n_rows, 4);
    es_mem *of_dx = es_bench_put_acts(bench, ES_READ, dx, n_rows * d);
    es_mem *of_dwpe =
        e.places ? es_bench_put_floats(bench, ES_CHANGE, dwpe, n_wpe) : NULL;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t c = 0; c < d; c++) {
            want_te[(size_t)tokens[i] * d + c] += (double)dx[i * d + c];
            want_pe[i % (size_t)e.n_ctx * d + c] += (double)dx[i * d + c];
        }
    for (ES_EACH_RUN(on, bench))
        bench->ops->embed_backward(on, of_dwte, of_dwpe, of_tokens, of_dx,
                                   e.n_batch, e.n_ctx, e.width);
    es_bench_expect_floats(bench, "dwte", of_dwte, want_te, n_wte);
    if (e.places)
        es_bench_expect_floats(bench, "dwpe", of_dwpe, want_pe, n_wpe);
    es_bench_clear(bench);
}

static void test_cuda_rows__embed_backward(void **state)
{
    static const embedding cases[] = {
        {1, 1, 1, 1, true},
        {3, 5, 33, 7, true},
        {1, 3, 257, 50, false},
        /* long runs of the same token, which cover many chunks; one run
         * contains all rows */
        {5, 33, 16, 3, true},
        {1, 64, 8, 1, true},
        /* more rows than fit in one tile of sorted rows */
        {10, 210, 3, 400, true}};
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows))
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_embed_backward(bench, cases[i]);
}

/* --- layer norm ----------------------------------------------------------- */

/* Computes the mean and 1 / standard deviation of each row. */
static void find_moments(double *mean, double *rstd, const float *x, int n_rows,
                         int width)
{
    for (int i = 0; i < n_rows; i++) {
        double squares = 0;
        mean[i] = 0;
        for (int j = 0; j < width; j++)
            mean[i] += (double)x[i * width + j] / width;
        for (int j = 0; j < width; j++)
            squares += pow((double)x[i * width + j] - mean[i], 2);
        rstd[i] = 1 / sqrt(squares / width + 1e-5);
    }
}

/* Returns rows whose values are far from 0, and a constant row. With more than
 * 2 rows, one row also contains a NaN and another row an infinity. */
static float *odd_rows(int n_rows, int width)
{
    float *x = es_bench_draw((size_t)(n_rows * width), 3);
    for (int j = 0; j < width; j++) {
        x[j] += 100;
        if (n_rows > 1)
            x[width + j] = 0.5f;
    }
    if (n_rows > 2)
        x[2 * width + width / 2] = NAN;
    if (n_rows > 3)
        x[3 * width + width - 1] = INFINITY;
    return x;
}

static void check_norm_of(es_bench *bench, int n_rows, int width)
{
    const size_t n = (size_t)(n_rows * width), rows = (size_t)n_rows;
    float *x = odd_rows(n_rows, width);
    float *weight = es_bench_draw((size_t)width, 1),
          *bias = es_bench_draw((size_t)width, 1);
    double *want = es_bench_doubles(n), *mean = es_bench_doubles(rows),
           *rstd = es_bench_doubles(rows);
    es_mem *of_y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_mean = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    es_mem *of_rstd = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    es_mem *of_weight =
        es_bench_put_floats(bench, ES_READ, weight, (size_t)width);
    es_mem *of_bias = es_bench_put_floats(bench, ES_READ, bias, (size_t)width);
    for (ES_EACH_RUN(on, bench))
        bench->ops->layer_norm(on, of_y, of_mean, of_rstd, NULL, of_x,
                               of_weight, of_bias, n_rows, width, 1e-5f);
    for (int i = 0; i < n_rows; i++)
        es_ref_layer_norm(want + i * width, x + i * width, weight, bias, width);
    find_moments(mean, rstd, x, n_rows, width);
    es_bench_expect_acts(bench, "layer norm", of_y, want, n);
    es_bench_expect_floats(bench, "mean", of_mean, mean, rows);
    es_bench_expect_floats(bench, "rstd", of_rstd, rstd, rows);
    es_bench_clear(bench);
}

static void test_cuda_rows__layer_norm(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        const int sizes[][2] = {{1, 1},   {5, 3},   {7, 33},
                                {37, 64}, {9, 257}, {3, 768}};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_norm_of(bench, sizes[i][0], sizes[i][1]);
    }
}

/* Computes the expected gradients of one row. */
static void norm_row_back(double *dx, double *dweight, double *dbias,
                          const float *dy, const float *x, float mean,
                          float rstd, const float *weight, int width)
{
    double mean_g = 0, mean_gx = 0;
    for (int j = 0; j < width; j++) {
        double g = (double)dy[j] * (double)weight[j];
        mean_g += g / width;
        mean_gx += g * ((double)x[j] - (double)mean) * (double)rstd / width;
    }
    for (int j = 0; j < width; j++) {
        double normal = ((double)x[j] - (double)mean) * (double)rstd;
        double g = (double)dy[j] * (double)weight[j];
        dx[j] += (double)rstd * (g - mean_g - normal * mean_gx);
        dweight[j] += (double)dy[j] * normal;
        dbias[j] += (double)dy[j];
    }
}

/* Rounds the numbers as the forward pass rounds its results, and copies them to
 * memory of the back-end. Also returns them in out (n). */
static es_mem *put_narrow(es_bench *bench, float *out, const double *from,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)from[i];
    return es_bench_put_floats(bench, ES_READ, out, n);
}

/* Checks the backward pass of LayerNorm. If `bad` is true, dy contains a NaN,
 * which may affect only its own row of dx and its own column of dweight and
 * dbias. */
static void check_norm_back_of(es_bench *bench, int n_rows, int width, bool bad)
{
    const size_t rows = (size_t)n_rows, d = (size_t)width, n = rows * d;
    float *x = es_bench_draw(n, 3), *dy = es_bench_draw(n, 1);
    float *dx = es_bench_draw(n, 1), *weight = es_bench_draw(d, 1);
    float *dweight = es_bench_draw(d, 1), *dbias = es_bench_draw(d, 1);
    float *mean = es_bench_draw(rows, 1), *rstd = es_bench_draw(rows, 1);
    double *exact_mean = es_bench_doubles(rows);
    double *exact_rstd = es_bench_doubles(rows);
    find_moments(exact_mean, exact_rstd, x, n_rows, width);
    if (bad)
        dy[n / 2] = NAN;
    es_mem *of_dx = es_bench_put_acts(bench, ES_CHANGE, dx, n);
    es_mem *of_dy = es_bench_put_acts(bench, ES_READ, dy, n);
    es_mem *of_dweight = es_bench_put_floats(bench, ES_CHANGE, dweight, d);
    es_mem *of_x = es_bench_put_acts(bench, ES_READ, x, n);
    es_mem *of_dbias = es_bench_put_floats(bench, ES_CHANGE, dbias, d);
    es_mem *of_mean = put_narrow(bench, mean, exact_mean, rows);
    es_mem *of_weight = es_bench_put_floats(bench, ES_READ, weight, d);
    es_mem *of_rstd = put_narrow(bench, rstd, exact_rstd, rows);
    double *want_x = es_bench_widen(dx, n), *want_b = es_bench_widen(dbias, d);
    double *want_w = es_bench_widen(dweight, d);
    for (int i = 0; i < n_rows; i++)
        norm_row_back(want_x + i * width, want_w, want_b, dy + i * width,
                      x + i * width, mean[i], rstd[i], weight, width);
    for (ES_EACH_RUN(on, bench))
        bench->ops->layer_norm_backward(on, of_dx, of_dweight, of_dbias, of_dy,
                                        of_x, of_mean, of_rstd, of_weight,
                                        n_rows, width);
    es_bench_expect_acts(bench, "norm's dx", of_dx, want_x, n);
    es_bench_expect_floats(bench, "dweight", of_dweight, want_w, d);
    es_bench_expect_floats(bench, "dbias", of_dbias, want_b, d);
    es_bench_clear(bench);
}

static void test_cuda_rows__layer_norm_backward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        /* With these widths a lane has 1 to 4 packs of 16 bytes, or more packs
         * than fit in the registers, or the rows do not consist of complete
         * packs. */
        const int sizes[][2] = {{1, 1},    {5, 3},    {7, 33},   {70, 64},
                                {9, 257},  {11, 264}, {40, 768}, {5, 392},
                                {3, 1016}, {3, 1288}, {3, 1300}};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_norm_back_of(bench, sizes[i][0], sizes[i][1], false);
        check_norm_back_of(bench, 6, 40, true);
    }
}

/* --- cross entropy -------------------------------------------------------- */

/* Returns ln of the sum of exponentials, computed relative to the largest
 * number. */
static double log_sum(const float *x, int n)
{
    double largest = -(double)INFINITY, sum = 0;
    for (int j = 0; j < n; j++)
        largest = fmax(largest, (double)x[j]);
    for (int j = 0; j < n; j++)
        sum += exp((double)x[j] - largest);
    return largest + log(sum);
}

/* Returns rows of logits: a row with one large logit, a row of equal logits,
 * rows in which some or all logits are -inf, and rows with +inf and with
 * NaN. */
static float *odd_logits(int n_rows, int vocab)
{
    float *x = es_bench_draw((size_t)(n_rows * vocab), 5);
    for (int i = 0; i < n_rows; i++)
        for (int j = 0; j < vocab; j++) {
            float *to = &x[i * vocab + j];
            if (i == 1 && j == vocab / 2)
                *to = 80;
            if (i == 2)
                *to = 30;
            if ((i == 3 && j % 3 == 0 && j + 1 < vocab) || i == 4)
                *to = -INFINITY;
            if (j == vocab / 3 && (i == 5 || i == 6))
                *to = i == 5 ? INFINITY : NAN;
        }
    return x;
}

static void check_loss_of(es_bench *bench, int n_rows, int vocab)
{
    const size_t rows = (size_t)n_rows, n = rows * (size_t)vocab;
    float *logits = odd_logits(n_rows, vocab);
    int32_t *targets = es_bench_tokens(rows, vocab);
    double *want = es_bench_doubles(rows), *lse = es_bench_doubles(rows);
    es_mem *of_row_loss = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    es_mem *of_logits = es_bench_put_acts(bench, ES_READ, logits, n);
    es_mem *of_lse = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    es_mem *of_targets = es_bench_put(bench, ES_READ, targets, rows, 4);
    for (int i = 0; i < n_rows; i++) {
        lse[i] = log_sum(logits + i * vocab, vocab);
        want[i] = lse[i] - (double)logits[i * vocab + targets[i]];
    }
    for (ES_EACH_RUN(on, bench))
        bench->ops->cross_entropy(on, of_row_loss, of_lse, of_logits,
                                  of_targets, n_rows, vocab, vocab);
    es_bench_expect_floats(bench, "lse", of_lse, lse, rows);
    es_bench_expect_floats(bench, "loss", of_row_loss, want, rows);
    es_bench_clear(bench);
}

/* Tests cross entropy with small vocabularies, and the rows of odd_logits also
 * with a large vocabulary. */
static void test_cuda_rows__cross_entropy(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        check_loss_of(bench, 1, 1);
        check_loss_of(bench, 40, 7);
        check_loss_of(bench, 9, 257);
        check_loss_of(bench, 7, 4096);
    }
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        check_loss_of(bench, 8, 50257);
    }
}

static void check_loss_back_of(es_bench *bench, int n_rows, int vocab,
                               bool scaled, bool both)
{
    const size_t rows = (size_t)n_rows, n = rows * (size_t)vocab;
    const es_control control = {.loss_scale = 64, .grad_scale = NAN};
    const double scale = 0.125 * (scaled ? 64 : 1);
    float *logits = odd_logits(n_rows, vocab), *lse = es_bench_draw(rows, 1);
    int32_t *targets = es_bench_tokens(rows, vocab);
    double *want = es_bench_doubles(n), *loss = es_bench_doubles(rows);
    es_mem *of_gradient = es_bench_put_acts(bench, ES_CHANGE, logits, n);
    es_mem *of_targets = es_bench_put(bench, ES_READ, targets, rows, 4);
    es_mem *of_control =
        scaled ? es_bench_put(bench, ES_READ, &control, sizeof control / 4, 4)
               : NULL;
    for (int i = 0; i < n_rows; i++) {
        const double sum = log_sum(logits + i * vocab, vocab);
        lse[i] = (float)sum;
        loss[i] = sum - (double)logits[i * vocab + targets[i]];
        for (int j = 0; j < vocab; j++)
            want[i * vocab + j] =
                scale * (exp((double)logits[i * vocab + j] - (double)lse[i]) -
                         (j == targets[i] ? 1 : 0));
    }
    es_mem *of_lse =
        both ? NULL : es_bench_put_floats(bench, ES_READ, lse, rows);
    es_mem *of_loss =
        both ? es_bench_put_floats(bench, ES_WRITE, NULL, rows) : NULL;
    for (ES_EACH_RUN(on, bench))
        if (both)
            bench->ops->cross_entropy_both(on, of_loss, of_gradient, of_targets,
                                           0.125f, of_control, n_rows, vocab,
                                           vocab);
        else
            bench->ops->cross_entropy_backward(on, of_gradient, of_lse,
                                               of_targets, 0.125f, of_control,
                                               n_rows, vocab, vocab);
    es_bench_expect_acts(bench, "dlogits", of_gradient, want, n);
    if (both)
        es_bench_expect_floats(bench, "loss", of_loss, loss, rows);
    es_bench_clear(bench);
}

static void test_cuda_rows__cross_entropy_backward(void **state)
{
    (void)state;
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        for (int both = 0; both < 2; both++) {
            check_loss_back_of(bench, 1, 1, false, both);
            check_loss_back_of(bench, 40, 7, true, both);
            check_loss_back_of(bench, 9, 257, false, both);
            check_loss_back_of(bench, 7, 4096, true, both);
        }
    }
    for (ES_EACH_BENCH(bench, ES_BENCH_ACTS, &of_rows)) {
        check_loss_back_of(bench, 8, 50257, true, false);
        check_loss_back_of(bench, 8, 50257, true, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_rows__embed),
        cmocka_unit_test(test_cuda_rows__embed_backward),
        cmocka_unit_test(test_cuda_rows__layer_norm),
        cmocka_unit_test(test_cuda_rows__layer_norm_backward),
        cmocka_unit_test(test_cuda_rows__cross_entropy),
        cmocka_unit_test(test_cuda_rows__cross_entropy_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
