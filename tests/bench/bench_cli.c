/**
 * Measures complete runs of entropy-scan, as a user experiences them: wall time
 * and peak memory, compared with the targets of CONTRIBUTING.md, and CPU time,
 * which other load does not increase. Reports medians over the rounds, after a
 * warm-up; the measured programs alternate. If matplotlib is installed, some
 * rounds do the same job with matplotlib right afterwards (peer_matplotlib.py);
 * the reported ratio is the median over these pairs.
 *
 * Expects entropy-scan in $BUILD. Must run in the root of the repository.
 */
#include "analyzer/base/status.h"
#include "store/writer.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { N_ROUNDS = 11, N_PEER_ROUNDS = 5, L = 12, H = 12 };
enum { N_FILES = 1000, N_STEPS = 10000, N_REPORT_STEPS = 1000 };

/* Time and memory that one process used. */
typedef struct usage {
    double ms, cpu_ms, mib;
} usage;

typedef struct job {
    const char *name;
    const char *verb, *option; /* arguments before and after the files, or
                                  NULL */
    const char *peer;          /* name of the same job in peer_matplotlib.py,
                                  or NULL */
    int first, n_files;        /* range of `paths` that the job reads */
    double target_ms, target_mib, target_ratio; /* 0: no target */
    usage ours[N_ROUNDS], peers[N_PEER_ROUNDS];
} job;

static char folder[] = "/tmp/entropy-bench-XXXXXX";
static char program[512], peer_script[512];
static const char *python; /* path of a Python interpreter with matplotlib,
                              or NULL */
static char paths[N_FILES][64];

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "bench_cli: %s: %s\n", what, es_message());
    exit(3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the files ------------------------------------------------------------*/

/* Writes a realistic run: entropies that drift apart, and a falling loss. */
static void write_run(const char *path, int n_steps)
{
    es_writer *w = NULL;
    int64_t run, entropy, loss;
    es_run_info info = {.name = "bench",
                        .arch = "SM+LN+G",
                        .n_layer = L,
                        .n_head = H,
                        .ctx = 128,
                        .d_model = ES_UNKNOWN,
                        .vocab = ES_UNKNOWN,
                        .batch = ES_UNKNOWN,
                        .seed = ES_UNKNOWN};
    float values[L * H];
    check(es_writer_open(&w, path, ES_FAST) == ES_OK, "open");
    check(es_writer_run(w, &run, &info, 0) == ES_OK, "run");
    check(es_writer_series(w, &entropy, run, "entropy", ES_SHAPE_HEAD,
                           ES_PHASE_TRAIN, NULL) == ES_OK &&
              es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                               ES_PHASE_TRAIN, NULL) == ES_OK,
          "series");
    check(es_writer_begin(w) == ES_OK, "begin");
    for (int step = 0; step < n_steps; step++) {
        float t = (float)step / (float)n_steps, ce = 5 - 3 * t;
        for (int i = 0; i < L * H; i++)
            values[i] = 3.8f - t * (float)(i % 29) / 10 +
                        0.05f * sinf((float)(step * (i + 1)));
        check(es_writer_sample(w, entropy, step, values, L * H) == ES_OK &&
                  es_writer_sample(w, loss, step, &ce, 1) == ES_OK,
              "sample");
    }
    check(es_writer_commit(w) == ES_OK &&
              es_writer_end_run(w, run, ES_RUN_FINISHED) == ES_OK &&
              es_writer_close(w) == ES_OK,
          "close");
}

static void make_files(void)
{
    check(mkdtemp(folder) && chdir(folder) == 0, "a folder");
    for (int i = 0; i < N_FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "run%d.db", i);
        write_run(paths[i], i == 0 ? N_STEPS : i == 1 ? N_REPORT_STEPS : 20);
    }
}

static void remove_files(void)
{
    static const char *const made[] = {"run0-heatmap.png", "run0-curves.png",
                                       "report.html",      "peer-heatmap.png",
                                       "peer-curves.png",  "peer-report.html"};
    for (int i = 0; i < N_FILES; i++)
        unlink(paths[i]);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unlink(made[i]);
    check(chdir("/") == 0 && rmdir(folder) == 0, "cleaning up");
}

/* --- one process ----------------------------------------------------------*/

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Runs a command without output; returns false unless its exit code is 0. */
static bool run(usage *out, char *const *argv)
{
    int status;
    struct rusage used;
    pid_t pid;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    double start = now();
    bool good = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0 &&
                wait4(pid, &status, 0, &used) == pid && WIFEXITED(status) &&
                WEXITSTATUS(status) == 0;
    out->ms = 1000 * (now() - start);
    posix_spawn_file_actions_destroy(&quiet);
    if (!good)
        return false;
    out->cpu_ms =
        1000 * (seconds_of(used.ru_utime) + seconds_of(used.ru_stime));
    out->mib = (double)used.ru_maxrss / 1024;
    return true;
}

/* Runs a command line: `before`, the files of the job, `after`. Arguments that
   are NULL are left out. */
static bool run_on_files(usage *out, const job *j, const char *const before[3],
                         const char *after)
{
    static char *argv[N_FILES + 6];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (before[i])
            argv[n++] = (char *)(uintptr_t)before[i];
    for (int i = 0; i < j->n_files; i++)
        argv[n++] = paths[j->first + i];
    if (after)
        argv[n++] = (char *)(uintptr_t)after;
    argv[n] = NULL;
    return run(out, argv);
}

static void run_ours(usage *out, const job *j)
{
    const char *const before[3] = {program, j->verb};
    check(run_on_files(out, j, before, j->option), j->name);
}

static void run_peer(usage *out, const job *j)
{
    const char *const before[3] = {python, peer_script, j->peer};
    check(run_on_files(out, j, before, NULL), peer_script);
}

/* Searches for a Python with matplotlib. Prefers the distribution's
 * interpreter, because the package python3-matplotlib belongs to it. */
static void find_python(void)
{
    static const char *const names[] = {"/usr/bin/python3", "python3"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !python; i++) {
        char *argv[] = {(char *)(uintptr_t)names[i], (char *)(uintptr_t) "-c",
                        (char *)(uintptr_t) "import matplotlib", NULL};
        usage unused;
        if (run(&unused, argv))
            python = names[i];
    }
    if (!python)
        puts("matplotlib is not installed (python3-matplotlib): skipped");
}

/* --- figures --------------------------------------------------------------*/

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof values[0], compare);
    return values[n / 2];
}

static void print_beside(double figure, const char *unit, double target)
{
    printf(" %8.1f %s", figure, unit);
    if (target > 0)
        printf(" (target %.0f: %s)", target, figure <= target ? "ok" : "MISS");
}

static void print_peer(const job *j)
{
    double ms[N_PEER_ROUNDS], ratios[N_PEER_ROUNDS];
    double cpu_ratios[N_PEER_ROUNDS];
    for (int i = 0; i < N_PEER_ROUNDS; i++) {
        ms[i] = j->peers[i].ms;
        ratios[i] = j->peers[i].ms / j->ours[i].ms;
        cpu_ratios[i] = j->peers[i].cpu_ms / j->ours[i].cpu_ms;
    }
    double ratio = median(ratios, N_PEER_ROUNDS);
    printf("\n    %-27s %8.1f ms, %8.1f MiB: %.1fx",
           j->target_ratio > 0 ? "matplotlib" : "Python",
           median(ms, N_PEER_ROUNDS), j->peers[0].mib, ratio);
    if (j->target_ratio > 0)
        printf(" (target %.0fx: %s)", j->target_ratio,
               ratio >= j->target_ratio ? "ok" : "MISS");
    printf(", %.1fx the CPU", median(cpu_ratios, N_PEER_ROUNDS));
}

static void print(const job *j)
{
    double ms[N_ROUNDS], cpu_ms[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        ms[i] = j->ours[i].ms;
        cpu_ms[i] = j->ours[i].cpu_ms;
    }
    printf("%-31s", j->name);
    print_beside(median(ms, N_ROUNDS), "ms", j->target_ms);
    print_beside(median(cpu_ms, N_ROUNDS), "ms of CPU", 0);
    print_beside(j->ours[0].mib, "MiB", j->target_mib);
    if (j->peer && python)
        print_peer(j);
    putchar('\n');
}

static void find_program(void)
{
    const char *build = getenv("BUILD");
    char here[256] = "";
    build = build ? build : "build";
    if (build[0] != '/')
        check(getcwd(here, sizeof here) != NULL, "this folder");
    snprintf(program, sizeof program, "%s%s%s/entropy-scan", here,
             *here ? "/" : "", build);
    check(access(program, X_OK) == 0, program);
    check(getcwd(here, sizeof here) != NULL, "this folder");
    snprintf(peer_script, sizeof peer_script,
             "%s/tests/bench/peer_matplotlib.py", here);
    check(access(peer_script, R_OK) == 0, peer_script);
}

static void run_round(job *j, int round)
{
    usage warm_up;
    run_ours(round < 0 ? &warm_up : &j->ours[round], j);
    if (j->peer && python && round < N_PEER_ROUNDS)
        run_peer(round < 0 ? &warm_up : &j->peers[round], j);
}

int main(void)
{
    static job jobs[] = {
        {.name = "--heatmap of step 10,000 of 10,000",
         .verb = "--quiet",
         .option = "--heatmap",
         .peer = "heatmap",
         .n_files = 1,
         .target_ms = 40,
         .target_mib = 20,
         .target_ratio = 30},
        {.name = "--curves, 12 lines of 10,000",
         .verb = "--quiet",
         .option = "--curves",
         .peer = "curves",
         .n_files = 1,
         .target_ms = 80,
         .target_ratio = 30},
        {.name = "report of 1,000 steps",
         .verb = "report",
         .option = "--output=report.html",
         .peer = "report",
         .first = 1,
         .n_files = 1,
         .target_ms = 500,
         .target_ratio = 30},
        {.name = "--heatmap and the table",
         .option = "--heatmap",
         .n_files = 1,
         .target_ms = 40,
         .target_mib = 20},
        {.name = "--curves and the table",
         .option = "--curves",
         .n_files = 1,
         .target_ms = 80},
        {.name = "table of 10 run files", .first = 2, .n_files = 10},
        {.name = "table of 1,000 run files",
         .peer = "table",
         .n_files = N_FILES,
         .target_ms = 1500},
    };
    enum { N_JOBS = sizeof jobs / sizeof jobs[0] };
    find_program();
    find_python();
    make_files();
    puts("entropy-scan, complete process, 12 x 12 heads, median of 11 "
         "rounds;\nmatplotlib draws 20 of the report's 1,000 steps, and numpy "
         "reads the\nfiles of the table:");
    for (int round = -1; round < N_ROUNDS; round++) /* -1 warms up */
        for (int i = 0; i < N_JOBS; i++)
            run_round(&jobs[i], round);
    for (int i = 0; i < N_JOBS; i++)
        print(&jobs[i]);
    remove_files();
    return 0;
}
