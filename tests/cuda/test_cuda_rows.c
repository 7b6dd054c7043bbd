/* The CUDA back-end's operations on rows, against plain loops in double:
 * embedding, layer norm, cross entropy. */
#include "tests/support/cmocka_all.h"
#include "tests/support/cuda_bench.h"
#include "tests/support/reference_ops.h"

#include <math.h>
#include <stdlib.h>

static int32_t *draw_tokens(int n, int vocab)
{
    int32_t *out = malloc((size_t)n * sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)((es_bench_random() + 1) / 2 * vocab) % vocab;
    return out;
}

/* --- embedding ------------------------------------------------------------ */

typedef struct embedding {
    es_mem *x, *dwte, *dwpe;
    const es_mem *tokens, *wte, *wpe, *dx;
    int n_batch, n_ctx, width;
} embedding;

static void call_embed(const es_ops *ops, es_backend *backend, void *context)
{
    const embedding *e = context;
    ops->embed(backend, e->x, e->tokens, e->wte, e->wpe, e->n_batch, e->n_ctx,
               e->width);
}

static void check_embed_of(es_bench *bench, int n_batch, int n_ctx, int width,
                           int vocab, bool places)
{
    const int n_rows = n_batch * n_ctx;
    const size_t n = (size_t)(n_rows * width), d = (size_t)width;
    int32_t *tokens = draw_tokens(n_rows, vocab);
    float *wte = es_bench_draw((size_t)vocab * d, 1),
          *wpe = es_bench_draw((size_t)n_ctx * d, 1);
    double *want = es_bench_doubles(n);
    embedding e = {.n_batch = n_batch, .n_ctx = n_ctx, .width = width};
    e.x = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    e.tokens = es_bench_put(bench, ES_READ, tokens, (size_t)n_rows, 4);
    e.wte = es_bench_put_floats(bench, ES_READ, wte, (size_t)vocab * d);
    if (places)
        e.wpe = es_bench_put_floats(bench, ES_READ, wpe, (size_t)n_ctx * d);
    for (int i = 0; i < n_rows; i++)
        for (int c = 0; c < width; c++)
            want[i * width + c] =
                (double)wte[tokens[i] * width + c] +
                (places ? (double)wpe[i % n_ctx * width + c] : 0);
    es_bench_run(bench, call_embed, &e);
    es_bench_expect(bench, "embed", es_bench_get_acts(bench, e.x), want, n,
                    true);
    es_bench_clear(bench);
    free(tokens), free(wte), free(wpe), free(want);
}

static void check_embed(es_bench *bench)
{
    check_embed_of(bench, 1, 1, 1, 1, true);
    check_embed_of(bench, 3, 5, 33, 7, true);
    check_embed_of(bench, 2, 17, 64, 50, false);
    check_embed_of(bench, 1, 3, 257, 7, true);
    check_embed_of(bench, 70, 1, 8, 3, true);
}

static const es_extents of_rows = {
    .n_rows = 3000, .width = 1300, .n_ctx = 300, .n_head = 1, .head_width = 16};

static void test_cuda_rows__embed(void **state)
{
    (void)state;
    es_bench_each(check_embed, &of_rows);
}

static void call_embed_backward(const es_ops *ops, es_backend *backend,
                                void *context)
{
    const embedding *e = context;
    ops->embed_backward(backend, e->dwte, e->dwpe, e->tokens, e->dx, e->n_batch,
                        e->n_ctx, e->width);
}

static void add_rows(double *dwte, double *dwpe, const int32_t *tokens,
                     const float *dx, const embedding *e)
{
    for (int i = 0; i < e->n_batch * e->n_ctx; i++)
        for (int c = 0; c < e->width; c++) {
            const double more = (double)dx[i * e->width + c];
            dwte[tokens[i] * e->width + c] += more;
            dwpe[i % e->n_ctx * e->width + c] += more;
        }
}

static void check_embed_back_of(es_bench *bench, int n_batch, int n_ctx,
                                int width, int vocab, bool places)
{
    const size_t n_rows = (size_t)(n_batch * n_ctx), d = (size_t)width;
    const size_t of_wte = (size_t)vocab * d, of_wpe = (size_t)n_ctx * d;
    int32_t *tokens = draw_tokens((int)n_rows, vocab);
    float *dx = es_bench_draw(n_rows * d, 1);
    float *dwte = es_bench_draw(of_wte, 1), *dwpe = es_bench_draw(of_wpe, 1);
    double *want_te = es_bench_widen(dwte, of_wte),
           *want_pe = es_bench_widen(dwpe, of_wpe);
    embedding e = {.n_batch = n_batch, .n_ctx = n_ctx, .width = width};
    e.dwte = es_bench_put_floats(bench, ES_CHANGE, dwte, of_wte);
    e.tokens = es_bench_put(bench, ES_READ, tokens, n_rows, 4);
    e.dx = es_bench_put_acts(bench, ES_READ, dx, n_rows * d);
    if (places)
        e.dwpe = es_bench_put_floats(bench, ES_CHANGE, dwpe, of_wpe);
    add_rows(want_te, want_pe, tokens, dx, &e);
    es_bench_run(bench, call_embed_backward, &e);
    es_bench_expect(bench, "dwte", es_bench_get(bench, e.dwte), want_te, of_wte,
                    false);
    if (places)
        es_bench_expect(bench, "dwpe", es_bench_get(bench, e.dwpe), want_pe,
                        of_wpe, false);
    es_bench_clear(bench);
    free(tokens), free(dx), free(dwte), free(dwpe), free(want_te),
        free(want_pe);
}

static void check_embed_backward(es_bench *bench)
{
    check_embed_back_of(bench, 1, 1, 1, 1, true);
    check_embed_back_of(bench, 3, 5, 33, 7, true);
    check_embed_back_of(bench, 1, 3, 257, 50, false);
    /* Runs over many chunks, and one run alone. */
    check_embed_back_of(bench, 5, 33, 16, 3, true);
    check_embed_back_of(bench, 1, 64, 8, 1, true);
    /* More than a tile of the order. */
    check_embed_back_of(bench, 10, 210, 3, 400, true);
}

static void test_cuda_rows__embed_backward(void **state)
{
    (void)state;
    es_bench_each(check_embed_backward, &of_rows);
}

/* --- layer norm ----------------------------------------------------------- */

typedef struct norm {
    es_mem *y, *mean, *rstd, *dx, *dweight, *dbias;
    const es_mem *x, *weight, *bias, *dy, *given_mean, *given_rstd;
    int n_rows, width;
} norm;

static void call_norm(const es_ops *ops, es_backend *backend, void *context)
{
    const norm *n = context;
    ops->layer_norm(backend, n->y, n->mean, n->rstd, n->x, n->weight, n->bias,
                    n->n_rows, n->width);
}

static void call_norm_backward(const es_ops *ops, es_backend *backend,
                               void *context)
{
    const norm *n = context;
    ops->layer_norm_backward(backend, n->dx, n->dweight, n->dbias, n->dy, n->x,
                             n->given_mean, n->given_rstd, n->weight, n->n_rows,
                             n->width);
}

/* Mean and 1 / deviation of each row. */
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

/* Rows far from 0, a constant one, and, if there are more than 2, one with a
 * NaN and one with an infinity. */
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
    norm l = {.n_rows = n_rows, .width = width};
    l.y = es_bench_put_acts(bench, ES_WRITE, NULL, n);
    l.x = es_bench_put_acts(bench, ES_READ, x, n);
    l.mean = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    l.rstd = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    l.weight = es_bench_put_floats(bench, ES_READ, weight, (size_t)width);
    l.bias = es_bench_put_floats(bench, ES_READ, bias, (size_t)width);
    es_bench_run(bench, call_norm, &l);
    for (int i = 0; i < n_rows; i++)
        es_ref_layer_norm(want + i * width, x + i * width, weight, bias, width);
    find_moments(mean, rstd, x, n_rows, width);
    es_bench_expect(bench, "layer norm", es_bench_get_acts(bench, l.y), want, n,
                    true);
    es_bench_expect(bench, "mean", es_bench_get(bench, l.mean), mean, rows,
                    false);
    es_bench_expect(bench, "rstd", es_bench_get(bench, l.rstd), rstd, rows,
                    false);
    es_bench_clear(bench);
    free(x), free(weight), free(bias), free(want), free(mean), free(rstd);
}

static void check_norm(es_bench *bench)
{
    const int sizes[][2] = {{1, 1},   {5, 3},   {7, 33},
                            {37, 64}, {9, 257}, {3, 768}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_norm_of(bench, sizes[i][0], sizes[i][1]);
}

static void test_cuda_rows__layer_norm(void **state)
{
    (void)state;
    es_bench_each(check_norm, &of_rows);
}

/* The wanted gradients of one row. */
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

/* What the forward pass has left. */
static float *narrow(const double *from, size_t n)
{
    float *out = es_bench_draw(n, 1);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)from[i];
    return out;
}

typedef struct norm_values {
    float *x, *dy, *dx, *weight, *dweight, *dbias, *mean, *rstd;
} norm_values;

static norm_values draw_norm(int n_rows, int width)
{
    const size_t n = (size_t)(n_rows * width), d = (size_t)width;
    double *mean = es_bench_doubles((size_t)n_rows),
           *rstd = es_bench_doubles((size_t)n_rows);
    norm_values v = {es_bench_draw(n, 3),
                     es_bench_draw(n, 1),
                     es_bench_draw(n, 1),
                     es_bench_draw(d, 1),
                     es_bench_draw(d, 1),
                     es_bench_draw(d, 1),
                     NULL,
                     NULL};
    find_moments(mean, rstd, v.x, n_rows, width);
    v.mean = narrow(mean, (size_t)n_rows);
    v.rstd = narrow(rstd, (size_t)n_rows);
    free(mean), free(rstd);
    return v;
}

static void put_norm(es_bench *bench, norm *l, norm_values *v)
{
    const size_t rows = (size_t)l->n_rows, d = (size_t)l->width;
    l->dx = es_bench_put_acts(bench, ES_CHANGE, v->dx, rows * d);
    l->dy = es_bench_put_acts(bench, ES_READ, v->dy, rows * d);
    l->dweight = es_bench_put_floats(bench, ES_CHANGE, v->dweight, d);
    l->x = es_bench_put_acts(bench, ES_READ, v->x, rows * d);
    l->dbias = es_bench_put_floats(bench, ES_CHANGE, v->dbias, d);
    l->given_mean = es_bench_put_floats(bench, ES_READ, v->mean, rows);
    l->weight = es_bench_put_floats(bench, ES_READ, v->weight, d);
    l->given_rstd = es_bench_put_floats(bench, ES_READ, v->rstd, rows);
}

/* bad: a NaN of dy stays in its row and column. */
static void check_norm_back_of(es_bench *bench, int n_rows, int width, bool bad)
{
    const size_t n = (size_t)(n_rows * width), d = (size_t)width;
    norm l = {.n_rows = n_rows, .width = width};
    norm_values v = draw_norm(n_rows, width);
    if (bad)
        v.dy[n / 2] = NAN;
    put_norm(bench, &l, &v);
    double *dx = es_bench_widen(v.dx, n), *dw = es_bench_widen(v.dweight, d),
           *db = es_bench_widen(v.dbias, d);
    for (int i = 0; i < n_rows; i++)
        norm_row_back(dx + i * width, dw, db, v.dy + i * width, v.x + i * width,
                      v.mean[i], v.rstd[i], v.weight, width);
    es_bench_run(bench, call_norm_backward, &l);
    es_bench_expect(bench, "norm's dx", es_bench_get_acts(bench, l.dx), dx, n,
                    true);
    es_bench_expect(bench, "dweight", es_bench_get(bench, l.dweight), dw, d,
                    false);
    es_bench_expect(bench, "dbias", es_bench_get(bench, l.dbias), db, d, false);
    es_bench_clear(bench);
    free(v.x), free(v.dy), free(v.dx), free(v.weight), free(v.dweight);
    free(v.dbias), free(v.mean), free(v.rstd), free(dx), free(dw), free(db);
}

static void check_norm_backward(es_bench *bench)
{
    /* Packs of a lane: 1 to 4, more than stay in registers, and none. */
    const int sizes[][2] = {{1, 1},    {5, 3},    {7, 33},   {70, 64},
                            {9, 257},  {11, 264}, {40, 768}, {5, 392},
                            {3, 1016}, {3, 1288}, {3, 1300}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_norm_back_of(bench, sizes[i][0], sizes[i][1], false);
    check_norm_back_of(bench, 6, 40, true);
}

static void test_cuda_rows__layer_norm_backward(void **state)
{
    (void)state;
    es_bench_each(check_norm_backward, &of_rows);
}

/* --- cross entropy -------------------------------------------------------- */

typedef struct loss {
    es_mem *row_loss, *lse, *gradient;
    const es_mem *logits, *targets, *given_lse, *control;
    float scale;
    int n_rows, vocab;
} loss;

static void call_loss(const es_ops *ops, es_backend *backend, void *context)
{
    const loss *l = context;
    ops->cross_entropy(backend, l->row_loss, l->lse, l->logits, l->targets,
                       l->n_rows, l->vocab, l->vocab);
}

static void call_loss_backward(const es_ops *ops, es_backend *backend,
                               void *context)
{
    const loss *l = context;
    ops->cross_entropy_backward(backend, l->gradient, l->given_lse, l->targets,
                                l->scale, l->control, l->n_rows, l->vocab,
                                l->vocab);
}

/* Log of the sum of exponentials, by the largest number that there is. */
static double log_sum(const float *x, int n)
{
    double largest = -(double)INFINITY, sum = 0;
    for (int j = 0; j < n; j++)
        largest = fmax(largest, (double)x[j]);
    for (int j = 0; j < n; j++)
        sum += exp((double)x[j] - largest);
    return largest + log(sum);
}

/* A peaked row, a flat one, then -inf in places, everywhere, +inf, NaN. */
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
    int32_t *targets = draw_tokens(n_rows, vocab);
    double *want = es_bench_doubles(rows), *lse = es_bench_doubles(rows);
    loss l = {.n_rows = n_rows, .vocab = vocab};
    l.row_loss = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    l.logits = es_bench_put_acts(bench, ES_READ, logits, n);
    l.lse = es_bench_put_floats(bench, ES_WRITE, NULL, rows);
    l.targets = es_bench_put(bench, ES_READ, targets, rows, 4);
    for (int i = 0; i < n_rows; i++) {
        lse[i] = log_sum(logits + i * vocab, vocab);
        want[i] = lse[i] - (double)logits[i * vocab + targets[i]];
    }
    es_bench_run(bench, call_loss, &l);
    es_bench_expect(bench, "lse", es_bench_get(bench, l.lse), lse, rows, false);
    es_bench_expect(bench, "loss", es_bench_get(bench, l.row_loss), want, rows,
                    false);
    es_bench_clear(bench);
    free(logits), free(targets), free(want), free(lse);
}

static void check_loss(es_bench *bench)
{
    check_loss_of(bench, 1, 1);
    check_loss_of(bench, 40, 7);
    check_loss_of(bench, 9, 257);
    check_loss_of(bench, 7, 4096);
}

/* With its odd rows of a large vocabulary. */
static void check_large_loss(es_bench *bench)
{
    check_loss_of(bench, 8, 50257);
}

static void test_cuda_rows__cross_entropy(void **state)
{
    (void)state;
    es_bench_each(check_loss, &of_rows);
    es_bench_each(check_large_loss, &of_rows);
}

static void check_loss_back_of(es_bench *bench, int n_rows, int vocab,
                               bool scaled)
{
    const size_t rows = (size_t)n_rows, n = rows * (size_t)vocab;
    const es_control control = {.loss_scale = 64, .grad_scale = NAN};
    const double scale = 0.125 * (scaled ? 64 : 1);
    float *logits = odd_logits(n_rows, vocab), *lse = es_bench_draw(rows, 1);
    int32_t *targets = draw_tokens(n_rows, vocab);
    double *want = es_bench_doubles(n);
    loss l = {.n_rows = n_rows, .vocab = vocab, .scale = 0.125f};
    l.gradient = es_bench_put_acts(bench, ES_CHANGE, logits, n);
    l.targets = es_bench_put(bench, ES_READ, targets, rows, 4);
    if (scaled)
        l.control =
            es_bench_put(bench, ES_READ, &control, sizeof control / 4, 4);
    for (int i = 0; i < n_rows; i++) {
        lse[i] = (float)log_sum(logits + i * vocab, vocab);
        for (int j = 0; j < vocab; j++)
            want[i * vocab + j] =
                scale * (exp((double)logits[i * vocab + j] - (double)lse[i]) -
                         (j == targets[i] ? 1 : 0));
    }
    l.given_lse = es_bench_put_floats(bench, ES_READ, lse, rows);
    es_bench_run(bench, call_loss_backward, &l);
    es_bench_expect(bench, "dlogits", es_bench_get_acts(bench, l.gradient),
                    want, n, true);
    es_bench_clear(bench);
    free(logits), free(lse), free(targets), free(want);
}

static void check_loss_backward(es_bench *bench)
{
    check_loss_back_of(bench, 1, 1, false);
    check_loss_back_of(bench, 40, 7, true);
    check_loss_back_of(bench, 9, 257, false);
    check_loss_back_of(bench, 7, 4096, true);
}

static void check_large_loss_backward(es_bench *bench)
{
    check_loss_back_of(bench, 8, 50257, true);
}

static void test_cuda_rows__cross_entropy_backward(void **state)
{
    (void)state;
    es_bench_each(check_loss_backward, &of_rows);
    es_bench_each(check_large_loss_backward, &of_rows);
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
