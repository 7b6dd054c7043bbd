/* Implements entropy-train bench: runs pairs of steps on random tokens in a
 * temporary folder, one step with measuring and recording and one without, and
 * prints medians and their difference. */
#include "hooks/trainer/bench.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/cpu/engine.h"
#include "hooks/trainer/train_record.h"
#include "hooks/trainer/trainer.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PLAIN, RECORDED, N_SIDES };
enum { WALL, CPU, N_CLOCKS };

#define WARM_UP 3 /* number of warm-up pairs, which are not timed */

static const clockid_t clocks[N_CLOCKS] = {CLOCK_MONOTONIC,
                                           CLOCK_THREAD_CPUTIME_ID};

typedef struct bench {
    es_settings settings;
    char folder[ES_PATH_SIZE - 16];
    es_trainer *trainer;
    es_train_record *record;
    int64_t step; /* number of the next step */
    size_t n_pairs;
    double *seconds[N_CLOCKS][N_SIDES]; /* (n_pairs) durations */
    double recorder_cpu; /* CPU seconds that the recorder process has used */
} bench;

static double read_clock(int which)
{
    struct timespec t;
    clock_gettime(clocks[which], &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

es_middle es_middle_of(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    /* The number of values below the median has the distribution Binomial(n,
     * 1/2), with the standard deviation sqrt(n) / 2. The interval is 1.96
     * standard deviations wide on each side. */
    double half_width = 0.98 * sqrt((double)n);
    double low = floor(0.5 * (double)n - half_width);
    size_t rank = low < 1 ? 0 : (size_t)low - 1;
    return (es_middle){.median = 0.5 * (x[(n - 1) / 2] + x[n / 2]),
                       .low = x[rank],
                       .high = x[n - 1 - rank]};
}

/* Counts the pairs i <= j for which the mean of x[i] and x[j] is at most
 * `limit`; x (n) is sorted in ascending order. */
static double count_means(const double *x, size_t n, double limit)
{
    double count = 0;
    for (size_t i = 0, end = n; i < n; i++) {
        while (end > i && x[i] + x[end - 1] > 2 * limit)
            end--;
        if (end == i)
            break;
        count += (double)(end - i);
    }
    return count;
}

/* Returns the mean of x[i] and x[j] that has the given rank, counted from 1,
 * among the means of all pairs i <= j. */
static double find_mean(const double *x, size_t n, double rank)
{
    double low = x[0], high = x[n - 1];
    for (int i = 0; i < 100; i++) {
        const double middle = 0.5 * (low + high);
        if (count_means(x, n, middle) >= rank)
            high = middle;
        else
            low = middle;
    }
    return high;
}

es_middle es_middle_of_means(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    /* The variance of the signed-rank statistic is n * (n + 1) * (2 * n + 1) /
     * 24. */
    const double size = (double)n, all = 0.5 * size * (size + 1);
    const double half_width = 1.96 * sqrt(all * (2 * size + 1) / 12);
    const double rank = fmax(1, floor(0.5 * all - half_width));
    return (es_middle){.median =
                           0.5 * (find_mean(x, n, floor(0.5 * (all + 1))) +
                                  find_mean(x, n, ceil(0.5 * (all + 1)))),
                       .low = find_mean(x, n, rank),
                       .high = find_mean(x, n, all + 1 - rank)};
}

/* --- the folder ---------------------------------------------------------- */

static es_status make_folder(bench *b)
{
    const char *base = getenv("TMPDIR");
    snprintf(b->folder, sizeof b->folder, "%s/entropy-bench-XXXXXX",
             base && *base ? base : "/tmp");
    if (!mkdtemp(b->folder))
        return es_fail(ES_EIO, "%s: %s", b->folder, strerror(errno));
    snprintf(b->settings.data, ES_PATH_SIZE, "%s/random.tok", b->folder);
    snprintf(b->settings.out, ES_PATH_SIZE, "%s/run.db", b->folder);
    return ES_OK;
}

/**
 * Writes a token file of random tokens, because the speed does not depend on
 * which tokens are used.
 */
static es_status write_tokens(const bench *b)
{
    const es_model_config *config = &b->settings.model;
    uint32_t vocab = config->vocab > 0 ? (uint32_t)config->vocab : 1;
    uint32_t *tokens = NULL;
    FILE *file = NULL;
    size_t n = (size_t)1 << 16;
    if (config->ctx > 0 && !es_size_add(&n, n, (size_t)config->ctx))
        return es_fail(ES_ENOMEM, "a context of %d is too long", config->ctx);
    es_status status = es_alloc(&tokens, n, sizeof *tokens, "tokens");
    if (status != ES_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)(es_tokens_hash(&i, sizeof i) % vocab);
    es_tokens_content content = {.vocab = vocab,
                                 .token_bytes = 4,
                                 .n_train = n,
                                 .n_train_documents = 1,
                                 .tokenizer = "random",
                                 .tokens = tokens};
    if (!(file = fopen(b->settings.data, "wxe")))
        status = es_fail(ES_EIO, "%s: %s", b->settings.data, strerror(errno));
    else
        status = es_tokens_write(file, &content);
    if (file && fclose(file) != 0 && status == ES_OK)
        status = es_fail(ES_EIO, "%s: %s", b->settings.data, strerror(errno));
    free(tokens);
    return status;
}

/* --- the steps ----------------------------------------------------------- */

static es_status take_step(bench *b, int side, double took[N_CLOCKS])
{
    es_step done;
    double start[N_CLOCKS];
    for (int c = 0; c < N_CLOCKS; c++)
        start[c] = read_clock(c);
    es_status status =
        es_trainer_step(b->trainer, &done, b->step++, side == RECORDED);
    if (status == ES_OK && side == RECORDED)
        es_train_record_step(b->record, &done, b->trainer->measure, 0);
    for (int c = 0; c < N_CLOCKS; c++)
        took[c] = read_clock(c) - start[c];
    return status;
}

/**
 * Trains the two steps of one pair, one with recording and one without; a
 * negative `pair` is a warm-up. The recorded step comes first in every other
 * pair.
 */
static es_status take_pair(bench *b, int64_t pair)
{
    for (int i = 0; i < N_SIDES; i++) {
        int side = (i + (int)(pair & 1)) % N_SIDES;
        double took[N_CLOCKS];
        es_status status = take_step(b, side, took);
        if (status != ES_OK)
            return status;
        for (int c = 0; c < N_CLOCKS && pair >= 0; c++)
            b->seconds[c][side][pair] = took[c];
    }
    return ES_OK;
}

static double children_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static es_status run_pairs(bench *b)
{
    es_status status;
    for (int i = 0; i < N_CLOCKS * N_SIDES; i++)
        if ((status = es_alloc(&b->seconds[i / N_SIDES][i % N_SIDES],
                               b->n_pairs, sizeof(double), "pairs")) != ES_OK)
            return status;
    double before = children_cpu();
    if ((status = es_trainer_new(&b->trainer, &b->settings)) == ES_OK)
        status = es_train_record_open(&b->record, b->trainer, b->settings.out);
    for (int64_t i = -WARM_UP; i < (int64_t)b->n_pairs && status == ES_OK; i++)
        status = take_pair(b, i);
    es_status closed = es_train_record_close(b->record, ES_RUN_FINISHED);
    b->recorder_cpu = children_cpu() - before;
    return status != ES_OK ? status : closed;
}

/* --- the result ---------------------------------------------------------- */

static void print_model(FILE *out, const bench *b)
{
    const es_model_config *config = &b->settings.model;
    const char *device = es_model_device_name(b->trainer->model);
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &config->arch);
    fprintf(out,
            "%s  L=%d H=%d d=%d T=%d B=%d V=%d  %.2f M parameters  "
            "back-end %s%s%s, %s",
            arch, config->n_layer, config->n_head, config->d_model, config->ctx,
            config->batch, config->vocab,
            (double)es_model_n_parameters(b->trainer->model) / 1e6,
            b->trainer->settings.backend, device ? " on " : "",
            device ? device : "", es_precision_names[b->settings.precision]);
    if (strcmp(b->trainer->settings.backend, es_cpu_ops.name) == 0) {
        es_cpu_engine engine;
        es_cpu_engine_find(&engine);
        fprintf(out, ", threads: %d%s\nproducts: %s, own kernels: %s",
                b->settings.threads, b->settings.threads ? "" : " (all cores)",
                engine.products, engine.kernels);
    }
    fputc('\n', out);
    if (b->trainer->note[0])
        fprintf(out, "%s\n", b->trainer->note);
    fprintf(out, "%zu pairs of alternating steps\n\n%-22s", b->n_pairs, "");
    fprintf(out, "%12s %12s %30s\n", "median", "fastest",
            "share of recording [95 % CI]");
}

/**
 * Prints two lines with the step times without and with recording, as measured
 * by `clock`.
 */
static void print_clock(FILE *out, bench *b, int clock, const char *name)
{
    static const char *const sides[N_SIDES] = {"plain", "recorded"};
    double *plain = b->seconds[clock][PLAIN];
    double *recorded = b->seconds[clock][RECORDED];
    double fastest[N_SIDES];
    es_middle middle[N_SIDES], share;
    double *difference = es_resize(NULL, b->n_pairs, sizeof(double));
    if (!difference)
        return;
    for (size_t i = 0; i < b->n_pairs; i++)
        difference[i] = recorded[i] - plain[i];
    share = es_middle_of_means(difference, b->n_pairs);
    for (int side = 0; side < N_SIDES; side++) {
        middle[side] = es_middle_of(b->seconds[clock][side], b->n_pairs);
        fastest[side] = b->seconds[clock][side][0];
        fprintf(out, "%-11s %-10s %9.3f ms %9.3f ms", name, sides[side],
                1e3 * middle[side].median, 1e3 * fastest[side]);
        if (side == RECORDED)
            fprintf(out, "   %+.3f %% [%+.3f, %+.3f], fastest %+.3f %%",
                    100 * share.median / middle[PLAIN].median,
                    100 * share.low / middle[PLAIN].median,
                    100 * share.high / middle[PLAIN].median,
                    100 * (fastest[RECORDED] / fastest[PLAIN] - 1));
        fputc('\n', out);
    }
    free(difference);
}

static void print_speed(FILE *out, const bench *b)
{
    /* print_clock has already sorted the times. */
    const double *plain = b->seconds[WALL][PLAIN];
    double tokens = (double)es_trainer_tokens(b->trainer);
    double median = plain[b->n_pairs / 2];
    double recorded_steps = (double)b->n_pairs + WARM_UP;
    double recorder = b->recorder_cpu / recorded_steps;
    fprintf(out, "\ntokens/s: %.0f (median), %.0f (fastest)\n", tokens / median,
            tokens / plain[0]);
    fprintf(out,
            "recorder process, in parallel with the training: %.3f ms of CPU "
            "per recorded step, %.3f %% of a step\n",
            1e3 * recorder, 100 * recorder / median);
}

es_status es_bench(FILE *out, const es_settings *settings)
{
    bench b = {.settings = *settings, .n_pairs = (size_t)settings->pairs};
    b.settings.eval_every = 0;
    b.settings.record_every = 1;
    b.settings.train.accumulate = 1;
    b.settings.train.steps = 2 * (settings->pairs + WARM_UP);
    es_status status = es_model_config_check(&settings->model);
    if (status == ES_OK && es_families[settings->model.family].has_images)
        status = es_fail(ES_EUSAGE, "--family %s: bench cannot train on images",
                         es_family_names[settings->model.family]);
    if (status == ES_OK && (status = make_folder(&b)) == ES_OK &&
        (status = write_tokens(&b)) == ES_OK &&
        (status = run_pairs(&b)) == ES_OK) {
        print_model(out, &b);
        print_clock(out, &b, WALL, "wall");
        print_clock(out, &b, CPU, "thread CPU");
        print_speed(out, &b);
    }
    static const char *const files[] = {"random.tok", "run.db", "run.db-wal",
                                        "run.db-shm", "run.db-lock"};
    if (b.settings.data[0]) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[ES_PATH_SIZE];
            snprintf(path, sizeof path, "%s/%s", b.folder, files[i]);
            unlink(path);
        }
        rmdir(b.folder);
    }
    es_trainer_free(b.trainer);
    for (int c = 0; c < N_CLOCKS; c++)
        for (int side = 0; side < N_SIDES; side++)
            free(b.seconds[c][side]);
    return status;
}
