/**
 * Measures the cost of recording for the training process (pushes of 12x12
 * heads, seven series per step, with a running recorder), and the cost of the
 * recorder process itself. Each line of the output states its target.
 */
#include "hooks/recorder/recorder_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 12, HEADS = 12, CELLS = LAYERS * HEADS, SERIES = 7 };
enum { STEPS = 1000, STEP_US = 2000, FAST_STEPS = 20000 };

static char folder[] = "/tmp/entropy-bench-XXXXXX";

static void check(es_status status, const char *what)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "bench_recorder: %s: %s\n", what, es_message());
    exit(3);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts an array of n durations in nanoseconds and returns their q-quantile. */
static double quantile_ns(double *times, size_t n, double q)
{
    qsort(times, n, sizeof *times, compare);
    return 1e9 * times[(size_t)(q * (double)(n - 1))];
}

static es_recorder *start(const char *name, int series[SERIES])
{
    static const char *const names[SERIES] = {
        "entropy", "entropy_min", "entropy_max",   "max_logit",
        "sink",    "theta",       "nonfinite_rows"};
    char path[64], program[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(program, sizeof program, "%s/entropy-recorder",
             build ? build : "build");
    const es_run_info run = {.size = sizeof run,
                             .name = "bench",
                             .n_layer = LAYERS,
                             .n_head = HEADS,
                             .d_model = ES_UNKNOWN,
                             .ctx = 128,
                             .vocab = ES_UNKNOWN,
                             .batch = ES_UNKNOWN,
                             .seed = ES_UNKNOWN};
    const es_recorder_options options = {.size = sizeof options,
                                         .path = path,
                                         .run = &run,
                                         .program = program,
                                         .wait_ms = 10000};
    es_recorder *recorder;
    check(es_recorder_open(&recorder, &options), "open");
    for (int i = 0; i < SERIES; i++)
        check(es_recorder_series(recorder, &series[i], names[i], ES_SHAPE_HEAD,
                                 ES_PHASE_TRAIN, NULL),
              "series");
    return recorder;
}

static void finish(es_recorder *recorder)
{
    es_recorder_report report;
    check(es_recorder_close(recorder, ES_RUN_FINISHED, &report), "close");
    if (report.committed != report.pushed || report.dropped)
        fprintf(stderr, "bench_recorder: frames are missing\n");
}

static void spin_until(double end)
{
    while (now(CLOCK_MONOTONIC) < end)
        ;
}

static double clock_cost(void)
{
    static double times[2001];
    for (size_t i = 0; i < 2001; i++) {
        double begin = now(CLOCK_MONOTONIC);
        times[i] = now(CLOCK_MONOTONIC) - begin;
    }
    return quantile_ns(times, 2001, 0.5);
}

/* Measures the time of pushes in simulated training steps, each of which first
 * computes for STEP_US microseconds. */
static void time_pushes(const float *values)
{
    static double pushes[STEPS * SERIES], steps[STEPS];
    int series[SERIES];
    clockid_t clock;
    es_recorder *recorder = start("paced.db", series);
    clock_getcpuclockid(recorder->child.pid, &clock);
    double wall = now(CLOCK_MONOTONIC), busy = now(clock);
    for (int step = 0; step < STEPS; step++) {
        double begin = now(CLOCK_MONOTONIC), last = begin;
        for (int i = 0; i < SERIES; i++) {
            check(es_recorder_push(recorder, series[i], step, values, CELLS),
                  "push");
            double t = now(CLOCK_MONOTONIC);
            pushes[step * SERIES + i] = t - last;
            last = t;
        }
        steps[step] = last - begin;
        spin_until(begin + 1e-6 * STEP_US);
    }
    wall = now(CLOCK_MONOTONIC) - wall;
    busy = now(clock) - busy;
    finish(recorder);

    size_t n = (size_t)STEPS * SERIES;
    double step_ns = quantile_ns(steps, STEPS, 0.5);
    printf("push of %dx%d, recorder running      median %6.0f ns  p99 %6.0f "
           "ns  (%.0f ns of this for the clock)\n",
           LAYERS, HEADS, quantile_ns(pushes, n, 0.5),
           quantile_ns(pushes, n, 0.99), clock_cost());
    printf("%d series per step                   median %6.0f ns  p99 %6.0f "
           "ns\n",
           SERIES, step_ns, quantile_ns(steps, STEPS, 0.99));
    printf("  at most 0.5 %% of the time of a step of %.2f ms or more, 0.1 %% "
           "of a step of %.2f ms\n",
           step_ns / 0.005 * 1e-6, step_ns / 0.001 * 1e-6);
    printf("recorder's CPU time, steps of %d ms         %.2f %% of one core\n",
           STEP_US / 1000, 100 * busy / wall);
}

/* Measures pushes without pauses between them. The recorder process then
 * determines how many steps per second are possible. */
static void time_throughput(const float *values)
{
    int series[SERIES];
    es_recorder *recorder = start("fast.db", series);
    double begin = now(CLOCK_MONOTONIC);
    for (int step = 0; step < FAST_STEPS; step++)
        for (int i = 0; i < SERIES; i++)
            check(es_recorder_push(recorder, series[i], step, values, CELLS),
                  "push");
    finish(recorder);
    double seconds = now(CLOCK_MONOTONIC) - begin;
    printf("steps of %d series without pauses, until the file is closed   %.0f "
           "steps/s, %.1f us per sample\n",
           SERIES, FAST_STEPS / seconds, 1e6 * seconds / (FAST_STEPS * SERIES));
}

int main(void)
{
    float values[CELLS];
    for (int i = 0; i < CELLS; i++)
        values[i] = 3.5F - 0.02F * (float)i;
    if (!mkdtemp(folder)) {
        perror("bench_recorder");
        return 3;
    }
    time_pushes(values);
    time_throughput(values);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 3;
}
