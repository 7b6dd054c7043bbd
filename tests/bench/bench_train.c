/**
 * Compares the time of a training step with a lower limit: the time of its
 * matrix products and of the AdamW update alone. Both alternate in one process,
 * and the fastest round counts. One thread is measured in CPU time, which other
 * load does not increase, and all threads in wall time. A line of the output
 * ends with its target if it has one: the smallest acceptable ratio of the
 * limit to the measured time, or, if two architectures are compared, the
 * largest acceptable ratio of their times.
 *
 * bench_train --serve NAME ARCH THREADS PRECISION WHAT executes one step of a
 * problem for each line of standard input, and prints the seconds and the loss;
 * bench_torch.py executes PyTorch's steps in between. WHAT is "entropy" if
 * every step measures the heads, else "nothing".
 */
#include "hooks/trainer/cpu/team.h"
#include "hooks/trainer/model/model.h"

#include <cblas.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct problem {
    const char *name, *arch;
    int n_layer, n_head, d_model, ctx, batch, vocab;
    int n_rounds;  /* number of rounds; a problem with 0 rounds is used only by
                    * --serve */
    double target; /* 0: no target */
} problem;

enum { SMALL, NARROW, GPT_2 };

static const problem problems[] = {
    {"L6 H8 d256", "SM+LN+G", 6, 8, 256, 128, 8, 256, 12, 0.78},
    {"L12 H12 d48", "SM+LN+G", 12, 12, 48, 32, 16, 256, 60, 0},
    {"GPT-2 small", "SM+LN+G", 12, 12, 768, 128, 8, 50257, 2, 0.85},
    {"L6 H8 d256 T512", "SM+LN+G", 6, 8, 256, 512, 2, 256, 0, 0},
    {"L6 H8 d256 T1024", "SM+LN+G", 6, 8, 256, 1024, 1, 256, 0, 0},
};

/**
 * Compares alternate steps of two architectures. The second may be at most 5 %
 * slower than the first.
 */
static const struct {
    int problem;
    const char *base, *other;
} pairs[] = {
    {SMALL, "SM+LN+G", "EReg(SM+LN+G)"},
    {SMALL, "SM(t)+ScFuFFN", "EReg(SM(t)+ScFuFFN)"},
    {SMALL, "SM+LN+G", "PSM(4)+LN+G"},
    {SMALL, "PSM(4)+LN+G", "EReg(PSM(4)+LN+G)"},
    {SMALL, "SM+LN+G", "SM+LN+G+WNorm(QKVO,FFN)"},
    {SMALL, "SM+LN+G", "SM+LN+G+SNorm(QKVO,FFN)"},
    {SMALL, "SM+LN+G", "SM(clip 100)+LN+G"},   /* the limit is so high that
                                                * QK-Clip scales no head */
    {SMALL, "SM+LN+G", "SM(clip 0.001)+LN+G"}, /* the limit is so low that
                                                * QK-Clip scales all heads */
    {SMALL, "SM+LN+G", "SM(gate)+LN+G"},
    {GPT_2, "SM+LN+G", "SM+LN+G+WNorm(QKVO,FFN)"},
    {GPT_2, "SM+LN+G", "SM+LN+G+SNorm(QKVO,FFN)"},
};

/** State of the measurement of one problem, which is a model and its sizes. */
typedef struct bench {
    const problem *problem;
    es_model *model;
    bool measures; /* true if every step measures the heads */
    es_team *team;
    clockid_t clock;
    int32_t *tokens;
    /* operands of the matrix products whose total time is part of the limit */
    float *x, *y, *weight;
    /* sizes of the matrix product that is being measured */
    int n_in, n_out, n_rows;
    double step, limit; /* shortest times so far in seconds */
} bench;

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "bench_train: %s: %s\n", what, es_message());
    exit(3);
}

static double now(const bench *b)
{
    struct timespec t;
    clock_gettime(b->clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_best(double *best, double seconds)
{
    if (*best <= 0 || seconds < *best)
        *best = seconds;
}

/* --- the limit ------------------------------------------------------------ */

/* Divides 0 .. n - 1 among the threads. Sets *first to the first index of one
 * thread's range, and returns the length of the range. */
static int share_of(int *first, int n, es_share share)
{
    *first = (int)((long)n * share.thread / share.n_threads);
    return (int)((long)n * (share.thread + 1) / share.n_threads) - *first;
}

static void forward_product(void *argument, es_share share)
{
    const bench *b = argument;
    int first, n = share_of(&first, b->n_rows, share);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, b->n_out, b->n_in,
                1, b->x + (long)first * b->n_in, b->n_in, b->weight, b->n_out,
                0, b->y + (long)first * b->n_out, b->n_out);
}

static void input_product(void *argument, es_share share)
{
    const bench *b = argument;
    int first, n = share_of(&first, b->n_rows, share);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, b->n_in, b->n_out,
                1, b->y + (long)first * b->n_out, b->n_out, b->weight, b->n_out,
                0, b->x + (long)first * b->n_in, b->n_in);
}

static void weight_product(void *argument, es_share share)
{
    const bench *b = argument;
    int first, n = share_of(&first, b->n_in, share);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, b->n_out, b->n_rows,
                1, b->x + first, b->n_in, b->y, b->n_out, 0,
                b->weight + (long)first * b->n_out, b->n_out);
}

static void products(bench *b, int n_in, int n_out)
{
    b->n_in = n_in;
    b->n_out = n_out;
    es_team_run(b->team, forward_product, b);
    es_team_run(b->team, input_product, b);
    es_team_run(b->team, weight_product, b);
}

static void update(bench *b)
{
    es_train_config config;
    double norm;
    es_train_config_default(&config);
    check(es_model_update(b->model, &config, 1e-4, &norm) == ES_OK, "update");
}

static void run_limit(bench *b)
{
    const int d = b->problem->d_model;
    double start = now(b);
    for (int layer = 0; layer < b->problem->n_layer; layer++) {
        products(b, d, 3 * d);
        products(b, d, d);
        products(b, d, 4 * d);
        products(b, 4 * d, d);
    }
    products(b, d, b->problem->vocab);
    update(b);
    keep_best(&b->limit, now(b) - start);
}

/* --- the step ------------------------------------------------------------- */

static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    const bench *b = user;
    (void)i;
    memcpy(tokens, b->tokens, (size_t)b->n_rows * sizeof *tokens);
    memcpy(targets, b->tokens, (size_t)b->n_rows * sizeof *targets);
    return ES_OK;
}

/* Executes a step. Returns its seconds, and the loss before the update. */
static double take_step(bench *b, double *loss)
{
    const es_step_plan plan = {.n_batches = 1,
                               .draw = draw,
                               .user = b,
                               .lr = 1e-4,
                               .measure = b->measures};
    es_train_config config;
    es_outcome outcome;
    es_train_config_default(&config);
    double start = now(b);
    check(es_model_run_step(b->model, &outcome, &plan, &config) == ES_OK,
          "step");
    *loss = outcome.losses.loss;
    return now(b) - start;
}

static void run_step(bench *b)
{
    double loss;
    keep_best(&b->step, take_step(b, &loss));
}

static float *zeros(size_t n)
{
    float *out = calloc(n, sizeof *out);
    if (!out) {
        fprintf(stderr, "bench_train: out of memory\n");
        exit(3);
    }
    return out;
}

static bench open_bench(const problem *p, const es_ops *ops, int n_threads)
{
    es_model_config config;
    bench b = {.problem = p, .n_rows = p->batch * p->ctx};
    const size_t n = (size_t)b.n_rows, d = (size_t)p->d_model;
    const size_t wide =
        (size_t)(p->vocab > 4 * p->d_model ? p->vocab : 4 * p->d_model);
    b.clock = n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    es_model_config_default(&config);
    check(es_arch_parse(&config.arch, p->arch) == ES_OK, p->arch);
    config.bias = ES_BIAS_ALL;
    config.n_layer = p->n_layer;
    config.n_head = p->n_head;
    config.d_model = p->d_model;
    config.ctx = p->ctx;
    config.batch = p->batch;
    config.vocab = p->vocab;
    check(es_model_new(&b.model, &config, ops, n_threads) == ES_OK, p->name);
    check(es_team_new(&b.team, n_threads) == ES_OK, "threads");
    b.x = zeros(n * 4 * d);
    b.y = zeros(n * wide);
    b.weight = zeros(d * wide);
    b.tokens = calloc(n, sizeof *b.tokens);
    for (size_t i = 0; b.tokens && i < n; i++)
        b.tokens[i] = (int32_t)(i * 7919 % (size_t)p->vocab);
    return b;
}

static void close_bench(bench *b)
{
    es_model_free(b->model);
    es_team_free(b->team);
    free(b->x);
    free(b->y);
    free(b->weight);
    free(b->tokens);
}

static void run_problem(const problem *p, int n_threads)
{
    bench b = open_bench(p, &es_cpu_ops, n_threads);
    for (int round = 0; round < p->n_rounds; round++) {
        run_step(&b);
        run_limit(&b);
    }
    printf("%-12s %-14s %d thread%s %9.2f ms %7.0f tokens/s  %.2f of the "
           "limit",
           p->name, p->arch, n_threads, n_threads == 1 ? " " : "s",
           1e3 * b.step, b.n_rows / b.step, b.limit / b.step);
    if (p->target > 0)
        printf(" (target %.2f)", p->target);
    putchar('\n');
    fflush(stdout);
    close_bench(&b);
}

static void run_pair(const problem *from, const char *base, const char *other,
                     int n_threads)
{
    problem p = *from, q = *from;
    p.arch = base;
    q.arch = other;
    bench a = open_bench(&p, &es_cpu_ops, n_threads);
    bench b = open_bench(&q, &es_cpu_ops, n_threads);
    for (int round = 0; round < p.n_rounds; round++) {
        run_step(&a);
        run_step(&b);
    }
    printf("%-12s %-23s %d thread%s  %.3f of %s (target 1.05)\n", p.name, other,
           n_threads, n_threads == 1 ? " " : "s", b.step / a.step, base);
    fflush(stdout);
    close_bench(&a);
    close_bench(&b);
}

static int count_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* Returns the CPU's operations for the given precision. */
static const es_ops *ops_of(const char *precision)
{
    const es_ops *ops = NULL;
    for (int i = 0; i < ES_N_PRECISIONS; i++)
        if (strcmp(es_precision_names[i], precision) == 0)
            check(es_ops_find(&ops, "cpu", (es_precision)i) == ES_OK,
                  precision);
    return ops;
}

/* Serves the steps of one problem. argv: NAME ARCH THREADS PRECISION WHAT */
static int serve(char **argv)
{
    const problem *found = NULL;
    const es_ops *ops = ops_of(argv[3]);
    for (size_t i = 0; !found && i < sizeof problems / sizeof *problems; i++)
        if (strcmp(problems[i].name, argv[0]) == 0)
            found = &problems[i];
    if (!found || !ops) {
        fprintf(stderr, "bench_train: unknown problem '%s' or precision '%s'\n",
                argv[0], argv[3]);
        return 2;
    }
    problem p = *found;
    p.arch = argv[1];
    bench b = open_bench(&p, ops, atoi(argv[2]));
    b.measures = strcmp(argv[4], "entropy") == 0;
    for (int c = getchar(); c != EOF; c = getchar()) {
        double loss, seconds;
        if (c != '\n')
            continue;
        seconds = take_step(&b, &loss);
        printf("%.6f %.6f\n", seconds, loss);
        fflush(stdout);
    }
    close_bench(&b);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "--serve") == 0)
        return serve(argv + 2);
    const int n = count_processors();
    printf(
        "time of a training step; the limit is the time of its matrix products "
        "and AdamW\n");
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        if (problems[i].n_rounds == 0)
            continue;
        run_problem(&problems[i], 1);
        if (n > 1)
            run_problem(&problems[i], n);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        run_pair(&problems[pairs[i].problem], pairs[i].base, pairs[i].other, 1);
    return 0;
}
