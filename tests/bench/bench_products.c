/* Measures the matrix products in a training step of three models, with every
 * available library. Measures each product in the forward pass, in the gradient
 * of the input and in the gradient of the weight. Uses one thread, measures CPU
 * time and alternates the libraries. Reports the fastest round, in 10^9
 * multiplications and additions per second. `bench_products ROUNDS` sets the
 * number of rounds. */
#include "hooks/trainer/cpu/products.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OPENBLAS, ONEDNN, OPENBLAS_BF16, ONEDNN_BF16, N_WAYS };

static const char *const ways[N_WAYS] = {"openblas", "onednn", "openb. bf16",
                                         "onednn bf16"};

static float scratch[ES_PRODUCT_SCRATCH];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *numbers(size_t n)
{
    float *out = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; out && i < n; i++)
        out[i] = (float)(i * 37 % 61) / 61 - 0.5f;
    if (!out)
        exit(1);
    return out;
}

/* Returns the numbers converted to bf16, in a block of memory that is as large
 * as for floats. */
static void *halves(const float *x, size_t n)
{
    es_bfloat *out = numbers(n);
    for (size_t i = 0; i < n; i++)
        out[i] = es_bfloat_round(x[i]);
    return out;
}

/* Returns the number of seconds for one call, averaged over about a millisecond
   of calls. */
static double take(const es_products *products, const es_product_call *call)
{
    const double work =
        2.0 * call->shape.m * call->shape.n * (double)call->shape.k;
    const int n = 1 + (int)(2e8 / work);
    const double start = now();
    for (int i = 0; i < n; i++)
        products->multiply(call);
    return (now() - start) / n;
}

typedef struct totals {
    double work, seconds[N_WAYS];
} totals;

static void compare(const char *name, es_product shape, bool adds, int rounds,
                    totals *sum)
{
    const es_product *p = &shape;
    const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    void *a_bf16 = halves(a, m * k), *b_bf16 = halves(b, k * n);
    const double work = 2.0 * p->m * p->n * (double)p->k;
    double best[N_WAYS];
    for (int round = -1; round < rounds; round++)
        for (int way = 0; way < N_WAYS; way++) {
            es_product_call call = {.shape = shape,
                                    .c = c,
                                    .residual = adds ? c : NULL,
                                    .a = a,
                                    .b = b,
                                    .scratch = scratch,
                                    .kernels = es_cpu_kernels_choose()};
            if (way >= OPENBLAS_BF16) {
                call.a = a_bf16, call.b = b_bf16;
                call.shape.in = ES_NUMBER_BF16;
                call.shape.out =
                    p->a_transposed ? ES_NUMBER_F32 : ES_NUMBER_BF16;
            }
            const double seconds =
                take(way % 2 == OPENBLAS ? &es_products_openblas
                                         : &es_products_onednn,
                     &call);
            if (round <= 0 || seconds < best[way])
                best[way] = seconds;
        }
    printf("%-20s %6d %6d %6d", name, p->m, p->n, p->k);
    sum->work += work;
    for (int way = 0; way < N_WAYS; way++) {
        printf(" %12.1f", 1e-9 * work / best[way]);
        sum->seconds[way] += best[way];
    }
    printf("\n");
    free(a), free(b), free(c), free(a_bf16), free(b_bf16);
}

/* Compares the libraries on the products of y = x * W, where y is (rows,n_out):
 * forward pass, input gradient and weight gradient. */
static void compare_linear(const char *name, int rows, int n_in, int n_out,
                           bool transposed, int rounds, totals *sum)
{
    const int row = transposed ? n_in : n_out;
    char text[64];
    snprintf(text, sizeof text, "%s forward", name);
    compare(text,
            (es_product){.m = rows,
                         .n = n_out,
                         .k = n_in,
                         .a_stride = n_in,
                         .b_stride = row,
                         .c_stride = n_out,
                         .b_transposed = transposed},
            !transposed, rounds, sum);
    snprintf(text, sizeof text, "%s dx", name);
    compare(text,
            (es_product){.m = rows,
                         .n = n_in,
                         .k = n_out,
                         .a_stride = n_out,
                         .b_stride = row,
                         .c_stride = n_in,
                         .b_transposed = !transposed},
            false, rounds, sum);
    snprintf(text, sizeof text, "%s dW", name);
    const int other = transposed ? n_out : n_in;
    compare(text,
            (es_product){.m = other,
                         .n = row,
                         .k = rows,
                         .a_stride = other,
                         .b_stride = row,
                         .c_stride = row,
                         .a_transposed = true},
            true, rounds, sum);
}

static void compare_model(const char *name, int rows, int d, int vocab,
                          int rounds)
{
    totals sum = {0};
    printf("\n%s, %d rows\n%-20s %6s %6s %6s", name, rows, "", "m", "n", "k");
    for (int way = 0; way < N_WAYS; way++)
        printf(" %12s", ways[way]);
    printf("\n");
    compare_linear("qkv", rows, d, 3 * d, false, rounds, &sum);
    compare_linear("attention out", rows, d, d, false, rounds, &sum);
    compare_linear("FFN in", rows, d, 4 * d, false, rounds, &sum);
    compare_linear("FFN out", rows, 4 * d, d, false, rounds, &sum);
    printf("%-41s", "one layer");
    for (int way = 0; way < N_WAYS; way++)
        printf(" %12.1f", 1e-9 * sum.work / sum.seconds[way]);
    printf("\n");
    compare_linear("vocabulary", rows, d, vocab, true, rounds, &sum);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 3;
    char text[64];
    openblas_set_num_threads(1);
    es_products_openblas.version(text, sizeof text);
    printf("matrix products, GF/s with one thread: %s %s", text,
           es_products_openblas.kernels());
    if (es_products_onednn.open() != ES_OK) {
        printf("\n%s\n", es_message());
        return 0;
    }
    es_products_onednn.version(text, sizeof text);
    printf(", %s %s\n", text, es_products_onednn.kernels());
    compare_model("L12 H12 d48 T=32", 256, 48, 50257, rounds);
    compare_model("L6 H8 d256 T=128", 1024, 256, 256, rounds);
    compare_model("GPT-2 small T=128", 1024, 768, 50257, rounds);
}
