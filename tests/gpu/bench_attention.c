/**
 * usage: bench_attention PRECISION B H T D_K   (tests/gpu/peer_torch.py)
 *        bench_attention device
 *
 * Measures the fused attention of the CUDA back-end. Prints one line with the
 * median time per call in milliseconds for each of five variants:
 *
 *   forward without statistics, forward with the entropy only, forward with
 *   all statistics, backward, backward with a gradient of the entropies
 *
 * Then the line contains two ratios: the time of the forward pass with the
 * entropy, and with all statistics, divided by the time without statistics. For
 * each ratio it contains the median over the rounds and the limits (low, high)
 * of the median's 95 % confidence interval.
 *
 * The variants alternate, in this order and then in the reverse order, so that
 * all are measured at the same temperature of the device. ENTROPY_BENCH_ROUNDS
 * is the number of rounds (default 41), and ENTROPY_BENCH_CALLS the number of
 * calls per round (default: as many calls as take 3 ms). The wait at the end of
 * each round takes about 1 % of the round, in all variants.
 *
 * With the argument `device`, prints only the name of the device. Exit code 3
 * if there is no device.
 */
#include "hooks/trainer/bench.h"
#include "hooks/trainer/model/ops.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLAIN, ENTROPY, MEASURED, BACKWARD, BACKWARD_ENTROPY, N_VARIANTS };
enum { MAX_ROUNDS = 1000 };

typedef struct bench {
    const es_ops *ops;
    es_backend *backend;
    es_attention attention;
    es_row_mem rows, entropy; /* `rows` requests all statistics, `entropy`
                               * the entropy only */
    es_mem *qkv, *y, *saved, *dy, *dqkv, *dentropy;
} bench;

static void check(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "bench_attention: %s\n", es_message());
    exit(es_exit_code(status));
}

static int number(const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text && !*end && value >= low && value <= high)
        return (int)value;
    fprintf(stderr, "bench_attention: '%s': expected a number from %d to %d\n",
            text, low, high);
    exit(2);
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? number(text, 1, MAX_ROUNDS) : otherwise;
}

static es_precision precision_of(const char *name)
{
    for (int i = 0; i < ES_N_PRECISIONS; i++)
        if (strcmp(name, es_precision_names[i]) == 0)
            return (es_precision)i;
    fprintf(stderr, "bench_attention: unknown precision '%s'\n", name);
    exit(2);
}

/* --- the problem ---------------------------------------------------------- */

/** Uniform in [-1, 1). */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 11) / 4503599627370496.0 - 1);
}

/** Converts a value in [-1, 1) to bfloat16 or binary16 by truncation. */
static uint16_t shorten(float value, es_precision precision)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (precision == ES_BF16)
        return (uint16_t)(bits >> 16);
    const uint32_t sign = bits >> 16 & 0x8000;
    const int exponent = (int)(bits >> 23 & 255) - 127 + 15;
    if (exponent <= 0)
        return (uint16_t)sign;
    return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

static es_mem *reserve(const bench *b, size_t bytes)
{
    es_mem *memory;
    check(b->ops->reserve(b->backend, &memory, bytes));
    return memory;
}

/** Returns n random activations in device memory. */
static es_mem *activations(const bench *b, size_t n, es_precision precision)
{
    const size_t size = b->ops->activation_size;
    uint64_t state = n;
    char *host = malloc(n * size);
    es_mem *memory = reserve(b, n * size);
    if (!host)
        check(es_fail(ES_ENOMEM, "out of memory for %zu activations", n));
    for (size_t i = 0; i < n; i++) {
        const float value = draw(&state);
        const uint16_t half = shorten(value, precision);
        memcpy(host + i * size, size == 2 ? (const void *)&half : &value, size);
    }
    b->ops->store(b->backend, memory, host, n * size);
    free(host);
    return memory;
}

static void set_up(bench *b, es_precision precision)
{
    const es_attention *a = &b->attention;
    const size_t n = (size_t)a->n_batch * (size_t)a->n_ctx;
    const size_t rows = n * (size_t)a->n_head, width = (size_t)a->d_model;
    const es_extents largest = {.n_rows = (int)n,
                                .width = 3 * a->d_model,
                                .n_ctx = a->n_ctx,
                                .n_head = a->n_head,
                                .head_width = a->d_model / a->n_head};
    check(es_ops_find(&b->ops, "cuda", precision));
    check(b->ops->open(&b->backend, 0));
    check(b->ops->prepare(b->backend, &largest));
    b->qkv = activations(b, n * width * 3, precision);
    b->dy = activations(b, n * width, precision);
    b->y = reserve(b, n * width * b->ops->activation_size);
    b->dqkv = reserve(b, n * width * 3 * b->ops->activation_size);
    b->saved = reserve(b, rows * ES_N_SAVED * sizeof(float));
    b->dentropy = reserve(b, rows * sizeof(float));
    b->ops->zero(b->backend, b->dentropy, rows * sizeof(float));
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i, ES_SOFTMAX))
            b->rows.array[i] = reserve(b, rows * sizeof(float));
    b->entropy.array[ES_ROW_ENTROPY] = b->rows.array[ES_ROW_ENTROPY];
}

static void tear_down(bench *b)
{
    es_mem *const all[] = {b->qkv, b->y, b->saved, b->dy, b->dqkv, b->dentropy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        b->ops->release(b->backend, all[i]);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        b->ops->release(b->backend, b->rows.array[i]);
    b->ops->close(b->backend);
}

/* --- time ----------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void call(const bench *b, int variant)
{
    const es_row_mem *const rows[] = {NULL, &b->entropy, &b->rows};
    if (variant <= MEASURED)
        b->ops->attention(b->backend, b->y, b->saved, rows[variant], b->qkv,
                          &b->attention);
    else
        b->ops->attention_backward(b->backend, b->dqkv, NULL, b->dy, b->y,
                                   variant == BACKWARD_ENTROPY ? b->dentropy
                                                               : NULL,
                                   b->qkv, b->saved, &b->attention);
}

/** Measures n_calls calls. Returns the milliseconds per call. */
static double take_round(const bench *b, int variant, int n_calls)
{
    const double start = now();
    for (int i = 0; i < n_calls; i++)
        call(b, variant);
    if (b->ops->status)
        check(b->ops->status(b->backend));
    return (now() - start) / n_calls;
}

/** Returns the number of calls per round: ENTROPY_BENCH_CALLS, or as many calls
 *  as take about 3 ms. */
static int calls_of(const bench *b, int variant)
{
    const int wanted = setting("ENTROPY_BENCH_CALLS", 0);
    take_round(b, variant, 1); /* the first call loads the kernels */
    const double one = take_round(b, variant, 4);
    if (wanted > 0)
        return wanted;
    return one > 3 ? 1 : one < 0.003 ? 1000 : (int)(3 / one);
}

static void take_rounds(const bench *b, double took[N_VARIANTS][MAX_ROUNDS],
                        int n_rounds)
{
    int n_calls[N_VARIANTS];
    for (int v = 0; v < N_VARIANTS; v++)
        n_calls[v] = calls_of(b, v);
    for (int round = -1; round < n_rounds; round++) /* round -1 is a warm-up */
        for (int i = 0; i < N_VARIANTS; i++) {
            const int v = round % 2 == 0 ? i : N_VARIANTS - 1 - i;
            took[v][round < 0 ? 0 : round] = take_round(b, v, n_calls[v]);
        }
}

/** Prints the line of results. Sorts the times of each variant. */
static void print_rounds(double took[N_VARIANTS][MAX_ROUNDS], size_t n_rounds)
{
    static double ratio[MAX_ROUNDS];
    es_middle costs[2];
    for (int v = ENTROPY; v <= MEASURED; v++) {
        for (size_t i = 0; i < n_rounds; i++)
            ratio[i] = took[v][i] / took[PLAIN][i];
        costs[v - ENTROPY] = es_middle_of(ratio, n_rounds);
    }
    for (int v = 0; v < N_VARIANTS; v++)
        printf("%.5f ", es_middle_of(took[v], n_rounds).median);
    for (int i = 0; i < 2; i++)
        printf("%.5f %.5f %.5f%c", costs[i].median, costs[i].low, costs[i].high,
               i ? '\n' : ' ');
}

static int print_device(void)
{
    bench b = {0};
    check(es_ops_find(&b.ops, "cuda", ES_BF16));
    check(b.ops->open(&b.backend, 0));
    puts(b.ops->device_name(b.backend));
    b.ops->close(b.backend);
    return 0;
}

int main(int argc, char **argv)
{
    static double took[N_VARIANTS][MAX_ROUNDS];
    if (argc == 2 && strcmp(argv[1], "device") == 0)
        return print_device();
    if (argc != 6) {
        fputs("usage: bench_attention PRECISION B H T D_K\n"
              "       bench_attention device\n",
              stderr);
        return 2;
    }
    const int n_head = number(argv[3], 1, 1024);
    bench b = {.attention = {.n_batch = number(argv[2], 1, 4096),
                             .n_ctx = number(argv[4], 1, 65536),
                             .n_head = n_head,
                             .d_model = n_head * number(argv[5], 1, 256),
                             .kind = ES_SOFTMAX}};
    const int n_rounds = setting("ENTROPY_BENCH_ROUNDS", 41);
    set_up(&b, precision_of(argv[1]));
    take_rounds(&b, took, n_rounds);
    print_rounds(took, (size_t)n_rounds);
    tear_down(&b);
    return 0;
}
