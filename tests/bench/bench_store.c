/**
 * Measures writing and scanning of run files, and compares them with a plain
 * SQLite table that has one row per head. The two measurements alternate in one
 * process, so that the ratio is also valid on a busy machine. Each line of the
 * output states its target.
 */
#include "store/reader.h"
#include "store/writer.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define N_ROUNDS 5
#define N_PAIRS 9

typedef struct layout {
    int64_t n_layer, n_head;
    int n_steps, per_commit;
    double ingest_us; /* target in microseconds per step; 0: no target */
    double scan_mv;   /* target in million values per second; 0: no target */
} layout;

/** The best results over all rounds. */
typedef struct result {
    double ingest_us, scan_mv;
} result;

static char folder[] = "/tmp/entropy-bench-XXXXXX";
static char ours_path[64], rows_path[64], fragment_path[64];

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "bench_store: %s: %s\n", what, es_message());
    exit(3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_best(result *best, const layout *l, double ingest, double scan)
{
    double values = (double)(l->n_layer * l->n_head) * l->n_steps;
    double ingest_us = 1e6 * ingest / l->n_steps;
    double scan_mv = 1e-6 * values / scan;
    if (best->ingest_us == 0 || ingest_us < best->ingest_us)
        best->ingest_us = ingest_us;
    if (scan_mv > best->scan_mv)
        best->scan_mv = scan_mv;
}

/* --- run files ----------------------------------------------------------- */

/**
 * Writes a run file, or a fragment if the file name ends with ".esf". Returns
 * how many seconds writing took.
 */
static double write_to(const char *path, es_durability durability,
                       const layout *l, const float *values)
{
    es_writer *w = NULL;
    int64_t run, series;
    es_run_info info = {.n_layer = l->n_layer, .n_head = l->n_head};
    size_t n = (size_t)(l->n_layer * l->n_head);
    unlink(path);
    check(es_writer_open(&w, path, durability) == ES_OK, "open");
    check(es_writer_run(w, &run, &info, 0) == ES_OK, "run");
    check(es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                           ES_PHASE_TRAIN, NULL) == ES_OK,
          "series");
    double start = now();
    for (int step = 0; step < l->n_steps; step++) {
        if (step % l->per_commit == 0)
            check(es_writer_begin(w) == ES_OK, "begin");
        check(es_writer_sample(w, series, step, values, n) == ES_OK, "sample");
        if ((step + 1) % l->per_commit == 0)
            check(es_writer_commit(w) == ES_OK, "commit");
    }
    double seconds = now() - start;
    check(es_writer_close(w) == ES_OK, "close");
    return seconds;
}

static double write_ours(const layout *l, const float *values)
{
    return write_to(ours_path, ES_FAST, l, values);
}

static double scan_of(const char *path, const layout *l, double *sum)
{
    es_reader *r = NULL;
    es_series series;
    es_cursor *c = NULL;
    const float *values;
    int64_t step;
    int n = 0;
    double start = now();
    check(es_reader_open(&r, path) == ES_OK, "open");
    check(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &series) == ES_OK,
          "find");
    check(es_cursor_open(&c, r, &series, ES_STEP_FIRST, ES_STEP_LAST) == ES_OK,
          "cursor");
    for (; es_cursor_next(c, &step, &values) == ES_OK; n++)
        *sum += values[series.n_values - 1];
    es_cursor_close(c);
    es_reader_close(r);
    double seconds = now() - start;
    check(n == l->n_steps, "some samples are missing");
    return seconds;
}

static double scan_ours(const layout *l, double *sum)
{
    return scan_of(ours_path, l, sum);
}

/* --- one row per head ---------------------------------------------------- */

static void rows_execute(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return;
    fprintf(stderr, "bench_store: %s: %s\n", sql, sqlite3_errmsg(db));
    exit(3);
}

static sqlite3 *rows_open(void)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(rows_path, &db) != SQLITE_OK)
        exit(3);
    return db;
}

static void rows_insert(sqlite3_stmt *insert, const layout *l, int step,
                        const float *values)
{
    for (int64_t i = 0; i < l->n_layer * l->n_head; i++) {
        sqlite3_bind_int(insert, 1, step);
        sqlite3_bind_int64(insert, 2, i / l->n_head);
        sqlite3_bind_int64(insert, 3, i % l->n_head);
        sqlite3_bind_double(insert, 4, (double)values[i]);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
}

static double write_rows(const layout *l, const float *values)
{
    sqlite3_stmt *insert = NULL;
    unlink(rows_path);
    sqlite3 *db = rows_open();
    rows_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                     "CREATE TABLE entropy(step INTEGER, layer INTEGER,"
                     " head INTEGER, value REAL,"
                     " PRIMARY KEY(step, layer, head)) WITHOUT ROWID");
    sqlite3_prepare_v2(db, "INSERT INTO entropy VALUES(?1, ?2, ?3, ?4)", -1,
                       &insert, NULL);
    double start = now();
    for (int step = 0; step < l->n_steps; step++) {
        if (step % l->per_commit == 0)
            rows_execute(db, "BEGIN IMMEDIATE");
        rows_insert(insert, l, step, values);
        if ((step + 1) % l->per_commit == 0)
            rows_execute(db, "COMMIT");
    }
    double seconds = now() - start;
    sqlite3_finalize(insert);
    sqlite3_close(db);
    return seconds;
}

static double scan_rows(const layout *l, double *sum)
{
    sqlite3_stmt *select = NULL;
    int64_t n = 0;
    double start = now();
    sqlite3 *db = rows_open();
    sqlite3_prepare_v2(db,
                       "SELECT step, layer, head, value FROM entropy"
                       " ORDER BY step, layer, head",
                       -1, &select, NULL);
    for (; sqlite3_step(select) == SQLITE_ROW; n++)
        *sum += sqlite3_column_double(select, 3);
    sqlite3_finalize(select);
    sqlite3_close(db);
    double seconds = now() - start;
    check(n == l->n_layer * l->n_head * l->n_steps, "some rows are missing");
    return seconds;
}

/* --- report -------------------------------------------------------------- */

static void print_row(const char *work, const layout *l, double ours,
                      double rows, double target, bool more, const char *unit)
{
    char name[64];
    snprintf(name, sizeof name, "%dx%d, %d per commit: %s", (int)l->n_layer,
             (int)l->n_head, l->per_commit, work);
    printf("%-34s %10.2f %10.2f %7.1fx", name, ours, rows,
           more ? ours / rows : rows / ours);
    if (target > 0)
        printf("   %s %g %s: %s", more ? ">=" : "<=", target, unit,
               (more ? ours >= target : ours <= target) ? "reached" : "MISSED");
    else
        printf("   %s", unit);
    putchar('\n');
}

static void measure(const layout *l)
{
    size_t n = (size_t)(l->n_layer * l->n_head);
    float *values = malloc(n * sizeof *values);
    result ours = {0}, rows = {0};
    double sum = 0;
    check(values != NULL, "out of memory");
    for (size_t i = 0; i < n; i++)
        values[i] = 0.5F + (float)i / (float)n;
    for (int round = 0; round < N_ROUNDS; round++) {
        double wrote = write_ours(l, values);
        keep_best(&ours, l, wrote, scan_ours(l, &sum));
        layout fewer = *l; /* the plain table is slow, and fewer steps are
                              enough */
        fewer.n_steps = l->n_steps / 10;
        wrote = write_rows(&fewer, values);
        keep_best(&rows, &fewer, wrote, scan_rows(&fewer, &sum));
    }
    check(sum > 0, "no values were read");
    free(values);
    print_row("ingest", l, ours.ingest_us, rows.ingest_us, l->ingest_us, false,
              "us a step");
    print_row("scan", l, ours.scan_mv, rows.scan_mv, l->scan_mv, true,
              "M values/s");
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/** Checks that scanning ten times as many steps takes no more memory. */
static void measure_memory(void)
{
    layout l = {
        .n_layer = 12, .n_head = 12, .n_steps = 4000, .per_commit = 1000};
    float values[144];
    double sum = 0;
    for (int i = 0; i < 144; i++)
        values[i] = 1.0F + (float)i;
    write_ours(&l, values);
    scan_ours(&l, &sum);
    long before = peak_kib();
    l.n_steps = 40000;
    write_ours(&l, values);
    long wrote = peak_kib();
    scan_ours(&l, &sum);
    printf("peak memory: %ld KiB after 4,000 steps, %ld KiB after writing and "
           "%ld KiB after scanning 40,000\n",
           before, wrote, peak_kib());
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double processor_time(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/**
 * Measures a fragment and a run file alternately, and reports the medians of
 * the ratios of such pairs.
 */
static void measure_fragments(const layout *l, es_durability durability)
{
    double ratio[N_PAIRS], ratio_cpu[N_PAIRS], ratio_scan[N_PAIRS], sum = 0;
    const size_t n = (size_t)(l->n_layer * l->n_head);
    float *values = malloc(n * sizeof *values);
    check(values != NULL, "out of memory");
    for (size_t i = 0; i < n; i++)
        values[i] = 0.5F + (float)i / (float)n;
    for (int pair = 0; pair < N_PAIRS; pair++) {
        double wall[2], cpu[2], scan[2];
        for (int turn = 0; turn < 2; turn++) {
            const int which = (turn + pair) % 2; /* 1: the fragment */
            const char *path = which ? fragment_path : ours_path;
            const double before = processor_time();
            wall[which] = write_to(path, durability, l, values);
            cpu[which] = processor_time() - before;
            scan[which] = scan_of(path, l, &sum);
        }
        ratio[pair] = wall[1] / wall[0];
        ratio_cpu[pair] = cpu[1] / cpu[0];
        ratio_scan[pair] = scan[1] / scan[0];
    }
    free(values);
    const double wall = median(ratio, N_PAIRS);
    const double cpu = median(ratio_cpu, N_PAIRS);
    printf("%dx%d, %d per commit, synchronous=%-6s  %5.2f    %5.2f    %5.2f   "
           "<= 1: %s\n",
           (int)l->n_layer, (int)l->n_head, l->per_commit,
           durability == ES_FAST ? "NORMAL" : "FULL", wall, cpu,
           median(ratio_scan, N_PAIRS),
           wall <= 1 && cpu <= 1 ? "reached" : "MISSED");
}

int main(void)
{
    static const layout layouts[] = {
        {12, 12, 2000, 1, 45, 0},
        {12, 12, 20000, 100, 7, 230},
        {96, 128, 200, 10, 350, 480},
    };
    if (!mkdtemp(folder))
        return 3;
    snprintf(ours_path, sizeof ours_path, "%s/ours.db", folder);
    snprintf(fragment_path, sizeof fragment_path, "%s/ours.esf", folder);
    snprintf(rows_path, sizeof rows_path, "%s/rows.db", folder);
    measure_memory();
    printf("%-34s %10s %10s %8s   %s\n", "store (synchronous=NORMAL)", "ours",
           "row/head", "ratio", "target");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        measure(&layouts[i]);
    printf("\nfragment relative to run file, median of %d pairs\n"
           "%-43s %8s %8s %8s\n",
           N_PAIRS, "", "writing", "its CPU", "scan");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        layout fewer = layouts[i];
        fewer.n_steps /= 10;
        measure_fragments(&layouts[i], ES_FAST);
        measure_fragments(&fewer, ES_DURABLE);
    }
    unlink(fragment_path);
    unlink(ours_path);
    unlink(rows_path);
    return rmdir(folder) != 0;
}
