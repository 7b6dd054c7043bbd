/* usage: bench_watch_many [N [SECONDS [esf|db [watch's options...]]]]
 *
 * Measures the CPU load of `entropy-scan watch` on N growing runs (default
 * 1,000), and the delay between writing the cause of an alert and the watcher's
 * line of output. This process writes the runs; each run gets one transaction
 * per second with five steps of 12 x 12 heads. The watcher's first round is not
 * counted. "db" writes run files, "esf" fragments. */
#include "analyzer/flags/flags.h"
#include "store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 12, HEADS = 12, CELLS = LAYERS * HEADS, STEPS = 5 };
#define ALERTS_MOST 4096
#define ALERT_EVERY 0.37 /* seconds */

typedef struct run {
    es_writer *writer;
    int64_t id, entropy, logit, loss, step;
} run;

/* The cause of an alert: the run, the step, and the times at which the cause
 * was written and the watcher printed the alert (0: not yet). */
typedef struct cause {
    int run;
    int64_t onset;
    double written, seen;
} cause;

static struct {
    run *runs;
    int n;
    pid_t watcher;
    int lines;                 /* descriptor of the watcher's standard
                                  output */
    cause causes[ALERTS_MOST]; /* (n_alerts) */
    int n_alerts;
    char text[1 << 16];
    size_t n_text;
} all;

static char folder[] = "/tmp/entropy-bench-XXXXXX";

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "bench_watch_many: %s: %s, %s\n", what, es_message(),
            strerror(errno));
    if (all.watcher)
        kill(all.watcher, SIGTERM);
    exit(3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    check(system(command) == 0, "rm");
}

/* --- the writers ---------------------------------------------------------- */

static void open_run(run *r, int i, const char *suffix)
{
    char path[128], name[32];
    snprintf(name, sizeof name, "bench %d", i);
    const es_run_info info = {.name = name,
                              .n_layer = LAYERS,
                              .n_head = HEADS,
                              .ctx = 64,
                              .config = "{\"steps\":100000}"};
    snprintf(path, sizeof path, "%s/run%04d.%s", folder, i, suffix);
    check(es_writer_open(&r->writer, path, ES_FAST) == ES_OK, "open");
    check(es_writer_run(r->writer, &r->id, &info, 0) == ES_OK, "run");
    check(es_writer_series(r->writer, &r->entropy, r->id, "entropy",
                           ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL) == ES_OK,
          "series");
    check(es_writer_series(r->writer, &r->logit, r->id, "max_logit",
                           ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL) == ES_OK,
          "series");
    check(es_writer_series(r->writer, &r->loss, r->id, "loss", ES_SHAPE_RUN,
                           ES_PHASE_TRAIN, NULL) == ES_OK,
          "series");
}

/**
 * Writes one transaction of five steps. If `alert` is true, all layers collapse
 * in these steps, which causes an alert.
 */
static void write_on(run *r, bool alert)
{
    float values[CELLS];
    if (alert)
        all.causes[all.n_alerts++] =
            (cause){.run = (int)(r - all.runs), .onset = r->step};
    check(es_writer_begin(r->writer) == ES_OK, "begin");
    for (int i = 0; i < STEPS; i++, r->step++) {
        for (int k = 0; k < CELLS; k++)
            values[k] =
                (alert ? 0.001F : 1.5F) + 0.001F * (float)((k + r->step) % 100);
        check(es_writer_sample(r->writer, r->entropy, r->step, values, CELLS) ==
                      ES_OK &&
                  es_writer_sample(r->writer, r->logit, r->step, values,
                                   CELLS) == ES_OK &&
                  es_writer_sample(r->writer, r->loss, r->step, values, 1) ==
                      ES_OK,
              "sample");
    }
    check(es_writer_commit(r->writer) == ES_OK, "commit");
    if (alert)
        all.causes[all.n_alerts - 1].written = now();
}

/* --- the watcher ---------------------------------------------------------- */

static void start_watcher(char **options)
{
    char program[256], state[128];
    const char *build = getenv("BUILD");
    char *arguments[32] = {program, "watch",  folder,       "--state",
                           state,   "--json", "--severity", "error"};
    int ends[2], n = 8;
    snprintf(program, sizeof program, "%s/entropy-scan",
             build ? build : "build");
    snprintf(state, sizeof state, "%s/watch.state", folder);
    while (*options && n < 31)
        arguments[n++] = *options++;
    check(pipe(ends) == 0, "pipe");
    all.watcher = fork();
    check(all.watcher >= 0, "fork");
    if (all.watcher == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execv(program, arguments);
        _exit(127);
    }
    close(ends[1]);
    all.lines = ends[0];
    fcntl(all.lines, F_SETFL, O_NONBLOCK);
}

static void take_line(const char *line)
{
    const char *name = strstr(line, "\"name\":\"bench ");
    const char *onset = strstr(line, "\"onset\":");
    if (!name || !onset)
        return;
    const long index = strtol(name + 14, NULL, 10);
    const long long step = strtoll(onset + 8, NULL, 10);
    for (int i = 0; i < all.n_alerts; i++)
        if (all.causes[i].run == index && all.causes[i].onset == step &&
            all.causes[i].seen == 0)
            all.causes[i].seen = now();
}

/**
 * Fails if the watcher has ended, because the program would otherwise wait for
 * its output forever.
 */
static void check_watcher(void)
{
    int status;
    if (waitpid(all.watcher, &status, WNOHANG) != all.watcher)
        return;
    const bool exited = WIFEXITED(status);
    fprintf(stderr, "bench_watch_many: the watcher has ended: %s %d\n",
            exited ? "exit code" : "signal",
            exited ? WEXITSTATUS(status) : WTERMSIG(status));
    remove_folder();
    exit(1);
}

static void read_lines(void)
{
    char *end;
    check_watcher();
    ssize_t n = read(all.lines, all.text + all.n_text,
                     sizeof all.text - 1 - all.n_text);
    if (n <= 0)
        return;
    all.n_text += (size_t)n;
    all.text[all.n_text] = '\0';
    while ((end = strchr(all.text, '\n'))) {
        *end = '\0';
        take_line(all.text);
        all.n_text -= (size_t)(end + 1 - all.text);
        memmove(all.text, end + 1, all.n_text + 1);
    }
}

/**
 * Returns the CPU seconds of the watcher, and sets its resident KiB and number
 * of open descriptors.
 */
static double usage_of(long *resident, int *n_open)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)all.watcher);
    FILE *file = fopen(path, "r");
    check(file && fgets(text, sizeof text, file), "the watcher has ended");
    fclose(file);
    const char *at = strrchr(text, ')');
    check(at && sscanf(at + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu"
                       " %*d %*d %*d %*d %*d %*d %*u %*u %ld",
                       &user, &system, resident) == 3,
          "stat");
    *resident *= sysconf(_SC_PAGESIZE) / 1024;
    *n_open = 0;
    for (int fd = 0; fd < 4096; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)all.watcher, fd);
        *n_open += access(path, F_OK) == 0;
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* --- measuring ------------------------------------------------------------ */

/** Writes to each run once per second for `duration` seconds. */
static void write_for(double duration, bool alerts)
{
    const double start = now();
    double next_alert = start;
    for (long k = 0;; k++) {
        const double due = start + (double)k / all.n;
        read_lines();
        while (now() < due) {
            read_lines();
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        if (now() - start > duration)
            return;
        const bool alert =
            alerts && now() >= next_alert && all.n_alerts < ALERTS_MOST;
        if (alert)
            next_alert += ALERT_EVERY;
        write_on(&all.runs[(k * 7919) % all.n], alert);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(double share, long resident, int n_open, double behind)
{
    double delays[ALERTS_MOST];
    int n = 0;
    for (int i = 1; i < all.n_alerts; i++)
        if (all.causes[i].seen > 0)
            delays[n++] = all.causes[i].seen - all.causes[i].written;
    qsort(delays, (size_t)n, sizeof *delays, by_value);
    printf("%d runs: %.1f %% of a core, %ld MiB resident, %d descriptors\n",
           all.n, 100 * share, resident / 1024, n_open);
    if (n > 0)
        printf("%d of %d alerts seen, after %.2f s (median), %.2f s (95 %%), "
               "%.2f s at most\n",
               n, all.n_alerts - 1, delays[n / 2], delays[n * 95 / 100],
               delays[n - 1]);
    printf("the writers were %.2f s behind schedule at the end\n", behind);
}

static void finish(void)
{
    kill(all.watcher, SIGTERM);
    waitpid(all.watcher, NULL, 0);
    for (int i = 0; i < all.n; i++)
        check(es_writer_close(all.runs[i].writer) == ES_OK, "close");
    free(all.runs);
    remove_folder();
}

int main(int argc, char **argv)
{
    static char *none[] = {NULL};
    const double seconds = argc > 2 ? atof(argv[2]) : 20;
    const char *suffix = argc > 3 ? argv[3] : "esf";
    struct rlimit files;
    long resident = 0;
    int n_open = 0;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    all.n = argc > 1 ? atoi(argv[1]) : 1000;
    check(all.n > 0 && seconds > 1 && mkdtemp(folder), folder);
    all.runs = calloc((size_t)all.n, sizeof *all.runs);
    check(all.runs != NULL, "memory");
    for (int i = 0; i < all.n; i++)
        open_run(&all.runs[i], i, suffix);
    for (int k = 0; k < 40; k++) /* writes 200 steps before the watcher
                                    starts */
        for (int i = 0; i < all.n; i++)
            write_on(&all.runs[i], k == 39 && i == 0);
    start_watcher(argc > 4 ? argv + 4 : none);
    while (all.causes[0].seen == 0) /* the watcher's first round is not counted,
                                       because it reads everything */
        write_for(1, false);
    write_for(5, false);
    const double before = usage_of(&resident, &n_open), start = now();
    write_for(seconds, true);
    const double behind = now() - start - seconds;
    const double share =
        (usage_of(&resident, &n_open) - before) / (now() - start);
    for (double end = now() + 10; now() < end;) {
        read_lines();
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    report(share, resident, n_open, behind);
    finish();
    return 0;
}
