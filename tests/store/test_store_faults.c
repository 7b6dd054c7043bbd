/**
 * Tests run files after killed writers, on full disks, and with damaged bytes.
 */
#include "tests/support/await.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define UUID "00000000-1111-4222-8333-444444444444"

static uint64_t random_state;

/**
 * Returns a pseudo-random number in 0..n-1. The sequence is the same in every
 * run of the test.
 */
static uint64_t draw(uint64_t n)
{
    return splitmix_bits(&random_state) % n;
}

/* --- killed -------------------------------------------------------------- */

enum { N_SERIES = 3 };

/**
 * Memory that is shared with the child, in which the child counts its committed
 * steps.
 */
typedef struct progress {
    volatile int64_t committed; /* steps */
} progress;

static es_status open_run(es_writer **w, const char *path, int64_t *series,
                          int64_t resume_step)
{
    static const char *const names[N_SERIES] = {"entropy", "alpha", "loss"};
    static const es_shape shapes[N_SERIES] = {ES_SHAPE_HEAD, ES_SHAPE_LAYER,
                                              ES_SHAPE_RUN};
    int64_t run;
    es_run_info info = es_run_of(3, 2);
    info.uuid = UUID;
    es_status status = es_writer_open(w, path, ES_FAST);
    if (status == ES_OK)
        status = es_writer_run(*w, &run, &info, resume_step);
    for (int i = 0; i < N_SERIES && status == ES_OK; i++)
        status = es_writer_series(*w, &series[i], run, names[i], shapes[i],
                                  ES_PHASE_TRAIN, NULL);
    return status;
}

/** Writes the three samples of a step in one transaction. */
static es_status write_step(es_writer *w, const int64_t *series, int64_t step)
{
    static const size_t sizes[N_SERIES] = {6, 3, 1};
    es_status status = es_writer_begin(w);
    for (int i = 0; i < N_SERIES && status == ES_OK; i++)
        status = es_write_values(w, series[i], step, sizes[i]);
    return status == ES_OK ? es_writer_commit(w) : status;
}

/**
 * Writes steps until the process is killed. Closes the file and resumes the run
 * from time to time.
 */
static void write_for_ever(const char *path, progress *p)
{
    es_status status = ES_OK;
    while (status == ES_OK) {
        es_writer *w = NULL;
        int64_t series[N_SERIES];
        status = open_run(&w, path, series, p->committed);
        for (uint64_t n = 1 + draw(40); n > 0 && status == ES_OK; n--) {
            status = write_step(w, series, p->committed);
            if (status == ES_OK)
                p->committed++;
        }
        if (status == ES_OK)
            status = es_writer_close(w);
    }
    fprintf(stderr, "# %s\n", es_message());
    _exit(1);
}

/**
 * Fails unless all `committed` steps are complete. One further step may be
 * complete, too.
 */
static void assert_promise_kept(const char *path, int64_t committed)
{
    es_cursor *c = NULL;
    es_series s;
    const float *values;
    int64_t step, n = 0;
    es_status status;
    if (!es_file_exists(path)) {
        assert_int_equal(committed, 0);
        return;
    }
    es_reader *r = es_open_reader(path);
    assert_true(committed == 0 || es_reader_n_runs(r) == 1);
    if (es_reader_n_runs(r) == 1) {
        es_run_info info;
        es_assert_ok(es_cursor_open_run(&c, r, 0));
        for (; (status = es_cursor_next_of_run(c, &step, &values, &s)) == ES_OK;
             n++) {
            assert_int_equal(step, n / N_SERIES);
            es_assert_values(values, s.id, step, s.n_values);
        }
        assert_int_equal(status, ES_DONE);
        es_cursor_close(c);
        assert_int_equal(n % N_SERIES, 0);
        assert_in_range(n / N_SERIES, committed, committed + 1);
        es_assert_ok(es_reader_run(r, 0, &info));
        assert_true(info.last_step == (n ? n / N_SERIES - 1 : ES_UNKNOWN));
    }
    es_reader_close(r);
}

TEST(a_writer_killed_at_random_keeps_its_commits)
{
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    p->committed = 0;
    random_state = 20;
    for (int i = 0; i < 20; i++) {
        int result;
        const int64_t before = p->committed;
        useconds_t delay = (useconds_t)draw(i < 5 ? 8000 : 40000);
        pid_t child = fork();
        if (child == 0)
            write_for_ever(run_db, p);
        if (i >= 5)
            es_await(p->committed > before + 1);
        usleep(delay);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        assert_promise_kept(run_db, p->committed);
    }
    assert_true(p->committed > 20);
    assert_string_equal(es_sqlite(run_db, "PRAGMA integrity_check"), "ok");
    munmap(p, sizeof *p);
}

/* --- full disks ----------------------------------------------------------- */

/**
 * Writes steps from `step` on until a write fails, and returns the step whose
 * write failed.
 */
static int64_t write_until_failure(es_writer *w, const int64_t *series,
                                   int64_t step)
{
    for (int64_t last = step + 100000; step < last; step++) {
        es_status status = write_step(w, series, step);
        if (status < 0) {
            es_writer_rollback(w);
            assert_int_equal(status, ES_EIO);
            assert_non_null(strstr(es_message(), "run.db: cannot"));
            return step;
        }
    }
    fail_msg("no write failed");
    return -1;
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(writing_continues_after_a_file_size_limit)
{
    int64_t series[N_SERIES];
    es_writer *w = NULL;
    signal(SIGXFSZ, SIG_IGN);
    es_assert_ok(open_run(&w, run_db, series, 0));
    set_file_limit(300000);
    int64_t failed = write_until_failure(w, series, 0);
    assert_true(failed > 10);
    assert_promise_kept(run_db, failed);
    set_file_limit(RLIM_INFINITY);
    for (int64_t i = failed; i < failed + 10; i++)
        es_assert_ok(write_step(w, series, i));
    set_file_limit(300000);
    es_writer_abandon(w); /* the limit prevents moving the write-ahead log into
                             the run file */
    set_file_limit(RLIM_INFINITY);
    signal(SIGXFSZ, SIG_DFL);
    assert_promise_kept(run_db, failed + 10);
    assert_string_equal(es_sqlite(run_db, "PRAGMA integrity_check"), "ok");
}

TEST(a_new_file_without_space_does_not_appear)
{
    es_writer *w = NULL;
    signal(SIGXFSZ, SIG_IGN);
    set_file_limit(20000);
    es_status status = es_writer_open(&w, run_db, ES_DURABLE);
    set_file_limit(RLIM_INFINITY);
    signal(SIGXFSZ, SIG_DFL);
    es_assert_status(ES_EIO, "run.db: cannot write: File too large", status);
    assert_false(es_file_exists(run_db));
    assert_false(es_file_exists_beside(run_db, "-lock"));
}

/**
 * Runs the test in a child, on a small private file system. Returns 77 if
 * mounting is not permitted, 1 after printing the failed condition, and 0 if
 * the test has passed.
 */
static int fill_small_disk(const char *folder)
{
#define EXPECT(condition)                                                      \
    do                                                                         \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s: %s\n", #condition, es_message());           \
            return 1;                                                          \
        }                                                                      \
    while (0)
    char path[4200], more[4200], filler[4200];
    int64_t series[N_SERIES], step = 0;
    es_writer *w = NULL;
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=400k") != 0)
        return 77;
    snprintf(path, sizeof path, "%s/run.db", folder);
    snprintf(more, sizeof more, "%s/more.db", folder);
    EXPECT(open_run(&w, path, series, 0) == ES_OK);
    while (step < 100000 && write_step(w, series, step) == ES_OK)
        step++;
    EXPECT(step > 10 && step < 100000);
    EXPECT(strstr(es_message(), "run.db: cannot write: No space left"));
    es_writer_abandon(w);
    snprintf(filler, sizeof filler, "%s/filler", folder);
    FILE *file = fopen(filler, "wb");
    EXPECT(file != NULL);
    while (fputc('x', file) != EOF)
        ;
    fclose(file);
    EXPECT(es_writer_open(&w, more, ES_FAST) == ES_EIO);
    EXPECT(strstr(es_message(), "No space left"));
    EXPECT(!es_file_exists(more) && !es_file_exists_beside(more, "-lock"));
    assert_promise_kept(path, step);
    EXPECT(strcmp(es_sqlite(path, "PRAGMA integrity_check"), "ok") == 0);
    return 0;
#undef EXPECT
}

TEST(a_full_disk_leaves_a_sound_file)
{
    int result;
    pid_t child = fork();
    if (child == 0)
        _exit(fill_small_disk(*state));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 77) {
        es_skip("mounting a tmpfs is not permitted");
    }
    assert_int_equal(WEXITSTATUS(result), 0);
}

/* --- damaged bytes ------------------------------------------------------- */

/**
 * Fails the test if `status` is an error and its message does not name the
 * file.
 */
static void check_message(es_status status, const char *path)
{
    if (status >= ES_OK)
        return;
    if (status == ES_EINTERNAL)
        fail_msg("internal: %s", es_message());
    if (strncmp(es_message(), path, strlen(path)) != 0)
        fail_msg("message \"%s\" does not name the file", es_message());
}

static void read_one_run(es_reader *r, size_t run, const char *path)
{
    AUTO(es_cursor) c = NULL;
    const es_event *events;
    size_t n_events;
    es_series s;
    const float *values;
    int64_t step, found, n = 0;
    AUTO_FREE float *sample = malloc(ES_MAX_VALUES * sizeof *sample);
    assert_non_null(sample);
    check_message(es_reader_events(r, run, &events, &n_events), path);
    check_message(es_reader_planned_steps(r, run, &found), path);
    for (size_t i = 0; i < es_reader_n_series(r, run); i++) {
        es_status status = es_reader_series(r, run, i, &s);
        if (status == ES_OK)
            status = es_reader_count(r, &s, &found);
        if (status == ES_OK)
            status = es_reader_sample(r, &s, ES_STEP_LAST, sample, s.n_values,
                                      &found);
        if (status == ES_OK)
            status = es_reader_sample(r, &s, 7, sample, s.n_values, &found);
        check_message(status, path);
    }
    es_status status = es_cursor_open_run(&c, r, run);
    while (status == ES_OK) {
        status = es_cursor_next_of_run(c, &step, &values, &s);
        if (status == ES_OK) /* reads all values, so that a sanitizer detects
                                invalid memory */
            memcpy(sample, values, s.n_values * sizeof *sample);
        assert_true(n++ < 100000); /* the loop must end: a file of this size has
                                      fewer samples */
    }
    check_message(status, path);
}

/**
 * Reads everything in the file that can be read. Returns true if the file could
 * be opened.
 */
static bool read_whatever(const char *path)
{
    es_reader *r = NULL;
    es_run_info info;
    es_status status = es_reader_open(&r, path);
    check_message(status, path);
    if (status < 0)
        return false;
    for (size_t run = 0; run < es_reader_n_runs(r); run++) {
        es_assert_ok(es_reader_run(r, run, &info));
        read_one_run(r, run, path);
    }
    check_message(es_reader_refresh(r), path);
    es_reader_close(r);
    return true;
}

/** Resumes the run in the damaged file and writes to it. */
static void write_whatever(const char *path)
{
    es_writer *w = NULL;
    int64_t series[N_SERIES];
    es_status status = open_run(&w, path, series, 30);
    for (int64_t i = 30; i < 40 && status == ES_OK; i++)
        status = write_step(w, series, i);
    check_message(status, path);
    if (status == ES_OK)
        check_message(es_writer_close(w), path);
    else
        es_writer_abandon(w);
}

/**
 * Damages n bytes of a file at random. Returns the new size, which may be
 * smaller than n.
 */
static size_t damage(unsigned char *bytes, size_t n)
{
    const size_t page = 4096;
    size_t n_pages = n / page;
    switch (draw(6)) {
    case 0: /* truncation */
        return draw(n);
    case 1: { /* replaces a page by zeros or by another page */
        size_t from = draw(n_pages) * page, to = draw(n_pages) * page;
        if (draw(2))
            memmove(bytes + to, bytes + from, page);
        else
            memset(bytes + to, 0, page);
        return n;
    }
    case 2: /* changes a byte in the header of the file or of a page */
        bytes[draw(n_pages) * page + draw(108)] = (unsigned char)draw(256);
        return n;
    case 3: { /* random bytes */
        size_t at = draw(n), length = 1 + draw(64);
        for (size_t i = at; i < at + length && i < n; i++)
            bytes[i] = (unsigned char)draw(256);
        return n;
    }
    default: /* single bits */
        for (uint64_t k = 1 + draw(8); k > 0; k--)
            bytes[draw(n)] ^= (unsigned char)(1u << draw(8));
        return n;
    }
}

/**
 * Writes the file that will be damaged: 40 steps of the run with the uuid UUID,
 * and a second run.
 */
static void write_victim(const char *path)
{
    es_writer *w = NULL;
    int64_t series[N_SERIES];
    es_assert_ok(open_run(&w, path, series, 0));
    for (int64_t i = 0; i < 40; i++)
        es_assert_ok(write_step(w, series, i));
    es_assert_ok(es_writer_close(w));
    es_write_run(path, "second", 150);
}

TEST(damaged_files_fail_cleanly)
{
    const char *path = es_folder_file(state, "victim.db");
    const char *copy = es_folder_file(state, "copy.db");
    size_t n;
    int opened = 0, refused = 0;
    write_victim(path);
    assert_true(read_whatever(path));
    AUTO_FREE unsigned char *original = es_file_read(path, &n);
    AUTO_FREE unsigned char *bytes = malloc(n);
    assert_non_null(bytes);
    random_state = 1;
    es_reader_cap_memory(64 << 20);
    for (int i = 0; i < 200; i++) {
        memcpy(bytes, original, n);
        es_file_write(copy, bytes, damage(bytes, n));
        if (read_whatever(copy))
            opened++;
        else
            refused++;
        if (i % 5 == 0)
            write_whatever(copy);
        for (int k = 0; k < 4; k++) {
            static const char *const rest[] = {"-wal", "-shm", "-lock", ""};
            char name[4200];
            snprintf(name, sizeof name, "%s%s", copy, rest[k]);
            unlink(name);
        }
    }
    es_reader_cap_memory(0);
    assert_true(opened > 40 && refused > 40);
}

/**
 * Writes run.db and run.db-wal and leaves them in the state in which a killed
 * writer leaves them.
 */
static void leave_log(const char *path)
{
    int result;
    pid_t child = fork();
    if (child == 0) {
        es_writer *w = NULL;
        int64_t series[N_SERIES];
        es_status status = open_run(&w, path, series, 0);
        for (int64_t i = 0; i < 60 && status == ES_OK; i++)
            status = write_step(w, series, i);
        _exit(status != ES_OK);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

TEST(damaged_logs_fail_cleanly)
{
    const char *path = es_folder_file(state, "victim.db");
    const char *log = es_folder_file(state, "victim.db-wal");
    const char *copy = es_folder_file(state, "copy.db");
    const char *copied_log = es_folder_file(state, "copy.db-wal");
    const char *copied_index = es_folder_file(state, "copy.db-shm");
    size_t n, m;
    leave_log(path);
    AUTO_FREE unsigned char *base = es_file_read(path, &n);
    AUTO_FREE unsigned char *original = es_file_read(log, &m);
    AUTO_FREE unsigned char *bytes = malloc(m);
    assert_non_null(bytes);
    assert_true(m > 100000);
    random_state = 2;
    for (int i = 0; i < 100; i++) {
        memcpy(bytes, original, m);
        es_file_write(copy, base, n);
        es_file_write(copied_log, bytes, i ? damage(bytes, m) : m);
        assert_true(read_whatever(copy)); /* must succeed, because SQLite
                                             ignores a write-ahead log from its
                                             first damaged frame on */
        if (i == 0)
            assert_promise_kept(copy, 60);
        unlink(copied_index);
    }
}

TEST_EACH(es_folder_make, es_folder_remove)
