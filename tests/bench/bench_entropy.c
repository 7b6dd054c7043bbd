/**
 * Measures the speed of attention entropy relative to three limits: the plain
 * reference, the rate of memory reads, and the rate of a large matrix product
 * plus the exponentials. All are measured alternately in one process and the
 * best round counts, so that the ratios are also valid on a busy machine. One
 * thread is measured in CPU time, all threads in wall time. The table `lines`
 * contains the targets.
 *
 * The problems are causal and have B = 8 and H = 12. From T = 512 on, each call
 * processes one sequence, so that calls stay short enough to escape
 * interruptions. Every call that computes entropy from weights reads weights
 * that previous calls have evicted from the caches; q and k are in the caches,
 * as after a projection.
 */
#include "analyzer/entropy/entropy_internal.h"

#include <cblas.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ROUNDS = 25, B = 8, H = 12, D = 64, MOST = 1024, SQUARE = 1024 };

#define N_WEIGHTS ((size_t)B * H * MOST * MOST)
#define N_READ ((size_t)1 << 23)
#define N_EXPONENTIALS (1 << 23)

/** The shortest time in seconds that was measured so far for each limit (memory
 *  reads, matrix product, exponentials); 0 if not yet measured. */
typedef struct limits {
    double read; /* number of seconds for reading N_READ weights */
    double product, exponentials;
} limits;

/** Index of a measurement with one thread or with all threads. */
enum { ONE, ALL, N_WAYS };

/** One row of the report. */
typedef struct line {
    bool from_qk;
    int n; /* T = S */
    double target;
    /* shortest times in seconds; `reference` is the time of plain C, measured
     * with the smaller shape that reference_shape returns */
    double ours[N_WAYS], reference;
} line;

static line lines[] = {
    {.n = 128, .target = 0.3},
    {.n = 512, .target = 0.7},
    {.n = 1024, .target = 0.8},
    {.from_qk = true, .n = 128, .target = 0.75},
    {.from_qk = true, .n = 256, .target = 0.75},
    {.from_qk = true, .n = 512, .target = 0.75},
    {.from_qk = true, .n = 1024, .target = 0.75},
};

enum { N_LINES = sizeof lines / sizeof lines[0] };

static limits best[N_WAYS];
static float *weights, *queries, *keys, *out;
static es_rows rows;
static const es_entropy_kernels *kernels;
static int threads[N_WAYS] = {1, 0};

static double now(int way)
{
    struct timespec t;
    clock_gettime(way == ONE ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_best(double *seconds, int way, double start)
{
    double took = now(way) - start;
    if (*seconds == 0 || took < *seconds)
        *seconds = took;
}

/** Returns n random numbers between `low` and `low` + `scale`. */
static float *new_floats(size_t n, float scale, float low)
{
    float *new = malloc(n * sizeof *new);
    uint32_t state = 1;
    if (!new) {
        fprintf(stderr, "bench_entropy: out of memory\n");
        exit(3);
    }
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        new[i] = (float)(state >> 8) * 0x1p-24F * scale + low;
    }
    return new;
}

static es_attention_shape shape_of(int n)
{
    return (es_attention_shape){.size = sizeof(es_attention_shape),
                                .n_batch = n >= 512 ? 1 : B,
                                .n_heads = H,
                                .n_queries = n,
                                .n_keys = n,
                                .head_width = D,
                                .causal = true};
}

static double n_visible(const es_attention_shape *shape)
{
    double n = shape->n_queries;
    return shape->n_batch * shape->n_heads * n * (n + 1) / 2;
}

/* --- limits -------------------------------------------------------------- */

static void measure_read(int way, int round)
{
    const float *from = weights + (size_t)round % (N_WEIGHTS / N_READ) * N_READ;
    float sum = 0;
    double start = now(way);
#pragma omp parallel for reduction(+ : sum) num_threads(threads[way])
    for (size_t block = 0; block < N_READ; block += 4096) {
        float parts[64] = {0};
        for (size_t i = block; i < block + 4096; i += 64)
            for (size_t j = 0; j < 64; j++)
                parts[j] += from[i + j];
        sum += parts[0] + parts[63];
    }
    keep_best(&best[way].read, way, start);
    out[0] = sum;
}

static void measure_product(int way)
{
    openblas_set_num_threads(threads[way]);
    double start = now(way);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SQUARE, SQUARE, SQUARE,
                1, weights, SQUARE, weights + SQUARE * SQUARE, SQUARE, 0, out,
                SQUARE);
    keep_best(&best[way].product, way, start);
}

static void measure_exponentials(int way)
{
    double start = now(way);
#pragma omp parallel num_threads(threads[way])
    {
        float x[4096], y[4096];
        for (int i = 0; i < 4096; i++)
            x[i] = (float)-i / 256;
#pragma omp for
        for (int i = 0; i < N_EXPONENTIALS / 4096; i++) {
            kernels->exp2(y, x, 4096);
            x[0] = -y[1]; /* uses the result, so that the compiler does not
                             remove the call */
        }
    }
    keep_best(&best[way].exponentials, way, start);
}

/* Returns how many seconds it takes to read n weights with one thread or with
 * all threads (`way`). */

static double read_seconds(int way, double n)
{
    return best[way].read / (double)N_READ * n;
}

static double product_seconds(int way, double n)
{
    return best[way].product / ((double)SQUARE * SQUARE * SQUARE) * n;
}

static double exp_seconds(int way, double n)
{
    return best[way].exponentials / N_EXPONENTIALS * n;
}

/* --- this program -------------------------------------------------------- */

/** Returns a shape with few heads for the reference, which is plain C and
 *  slow. */
static es_attention_shape reference_shape(const line *l)
{
    es_attention_shape shape = shape_of(l->n);
    shape.n_batch = 1;
    shape.n_heads = l->n > 256 ? 1 : 4;
    return shape;
}

/**
 * Returns weights for a round that are as far as possible in memory from those
 * of the previous round, so that they are not in the caches.
 */
static const float *cold_weights(const es_attention_shape *shape, int round)
{
    size_t n = (size_t)shape->n_batch * H * (size_t)shape->n_keys *
               (size_t)shape->n_keys;
    return weights + (size_t)round % (N_WEIGHTS / n) * n;
}

static es_entropy_input input_of(const float *data, int n, int width)
{
    return (es_entropy_input){.data = data,
                              .strides = es_strides_bhtd(H, n, width)};
}

static void run(const line *l, const float *att, int way)
{
    es_attention_shape shape = shape_of(l->n);
    es_entropy_input weights_in = input_of(att, l->n, l->n);
    es_entropy_input q = input_of(queries, l->n, D);
    es_entropy_input k = input_of(keys, l->n, D);
    if (l->from_qk ? es_qk_statistics(&rows, NULL, &q, &k, &shape, threads[way])
                   : es_entropy_probs(&rows, &weights_in, &shape, threads[way]))
        exit(3);
}

static void measure_ours(line *l, int way, int round)
{
    es_attention_shape shape = shape_of(l->n);
    const float *att = cold_weights(&shape, round + way * N_ROUNDS);
    if (l->from_qk)
        run(l, att, way);
    double start = now(way);
    run(l, att, way);
    keep_best(&l->ours[way], way, start);
}

static void measure_reference(line *l)
{
    es_attention_shape shape = reference_shape(l);
    double start = now(ONE);
    es_entropy_input in =
        l->from_qk ? input_of(queries, l->n, D) : input_of(weights, l->n, l->n);
    es_entropy_input k = input_of(keys, l->n, D);
    if (es_entropy_with(&es_entropy_kernels_reference, &rows, NULL, &in,
                        l->from_qk ? &k : NULL, &shape, 1))
        exit(3);
    keep_best(&l->reference, ONE, start);
}

static void measure_round(int round)
{
    for (int way = 0; way < N_WAYS; way++) {
        measure_read(way, round);
        measure_product(way);
        measure_exponentials(way);
        for (int i = 0; i < N_LINES; i++)
            measure_ours(&lines[i], way, round);
    }
    for (int i = 0; i < N_LINES && round % 8 == 0; i++)
        measure_reference(&lines[i]);
}

/* --- report ----------------------------------------------------------------
 */

static double limit_of(const line *l, int way, double n)
{
    if (l->from_qk)
        return product_seconds(way, n * D) + exp_seconds(way, n);
    return read_seconds(way, n);
}

/**
 * Returns true if the machine has more work than processors. All threads then
 * rarely run at once, and only the results of one thread are meaningful.
 */
static bool is_busy(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 && load > 0.5 * threads[ALL];
}

static void print_line(const line *l, int judged)
{
    es_attention_shape shape = shape_of(l->n), small = reference_shape(l);
    double n = n_visible(&shape), share[N_WAYS];
    double ours = l->ours[ONE] / n, plain = l->reference / n_visible(&small);
    for (int way = 0; way < N_WAYS; way++)
        share[way] = limit_of(l, way, n) / l->ours[way];
    printf("%-14s T=%-5d %8.3f %8.2f %6.0fx %6.2f %9.3f %6.2f   >= %.2f: %s\n",
           l->from_qk ? "Q,K, d_k=64" : "probabilities", l->n, 1e9 * ours,
           1e9 * plain, plain / ours, share[ONE], 1e9 * l->ours[ALL] / n,
           share[ALL], l->target,
           share[judged] >= l->target ? "reached" : "MISSED");
}

static void print_report(void)
{
    int judged = is_busy() ? ONE : ALL;
    es_attention_shape largest = shape_of(MOST);
    double scratch =
        0x1p-20 * (double)(es_qk_scratch(&largest) * sizeof(float));
    for (int way = 0; way < N_WAYS; way++)
        printf("threads: %d; memory reads: %.1f GB/s; matrix product of size "
               "%d: %.0f GFLOP/s; exponentials: %.1f G/s\n",
               threads[way], 4e-9 / read_seconds(way, 1), SQUARE,
               2e-9 / product_seconds(way, 1), 1e-9 / exp_seconds(way, 1));
    printf(
        "share: speed relative to the limit. If weights are given, the limit "
        "is the speed\nof reading the visible weights; if Q and K are given, "
        "it is that of a matrix\nproduct and the exponentials. The target "
        "applies to %s.\n\n%-22s %8s %8s %7s %6s %9s %6s   %s\n",
        judged == ONE ? "one thread, because the machine is busy"
                      : "all threads",
        es_entropy_variant(), "ns/elem.", "plain C", "ratio", "share",
        "all thr.", "share", "target");
    for (int i = 0; i < N_LINES; i++)
        print_line(&lines[i], judged);
    printf("Q,K, T=1024: %.2f MiB of scratch per thread, target < 2: %s\n",
           scratch, scratch < 2 ? "reached" : "MISSED");
}

static void set_up(void)
{
    size_t n = (size_t)B * H * MOST, n_out = (size_t)SQUARE * SQUARE, n_sets;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n_sets);
    threads[ALL] = omp_get_num_procs();
    weights = new_floats(N_WEIGHTS, 2.0F / MOST, 0);
    queries = new_floats(n * D, 2, -1);
    keys = new_floats(n * D, 2, -1);
    out = new_floats(n_out > 4 * n ? n_out : 4 * n, 0, 0);
    rows = (es_rows){.size = sizeof rows,
                     .entropy = out,
                     .lse = out + n,
                     .sink = out + 2 * n};
    for (size_t i = 0; i < n_sets; i++)
        if (strcmp(all[i]->name, es_entropy_variant()) == 0)
            kernels = all[i];
}

int main(void)
{
    set_up();
    for (int round = 0; round < N_ROUNDS; round++)
        measure_round(round);
    print_report();
    free(out);
    free(keys);
    free(queries);
    free(weights);
    return 0;
}
