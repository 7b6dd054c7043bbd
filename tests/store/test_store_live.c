/** Tests files that are being written: locks, concurrent readers, forks and
 *  unusual paths. */
#include "analyzer/base/outfile.h"
#include "store/store_internal.h"
#include "tests/support/test.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/**
 * Creates a run of 2 layers with 3 heads each and one series, and returns its
 * writer.
 */
static es_writer *open_series(const char *path, int64_t *run, int64_t *series)
{
    es_run_info info = es_run_of(2, 3);
    es_writer *w = es_open_writer(path);
    es_assert_ok(es_writer_run(w, run, &info, 0));
    es_assert_ok(es_writer_series(w, series, *run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    return w;
}

static void wait_for_success(pid_t child)
{
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void assert_plain_file(const char *path)
{
    static const char *const rest[] = {"-wal", "-shm", "-journal", "-lock"};
    for (int i = 0; i < 4; i++)
        assert_false(es_file_exists_beside(path, rest[i]));
    size_t n;
    AUTO_FREE unsigned char *bytes = es_file_read(path, &n);
    assert_int_equal(bytes[18], 1); /* in a file without a write-ahead log these
                                       bytes are 1 */
    assert_int_equal(bytes[19], 1);
    assert_string_equal(es_sqlite(path, "PRAGMA journal_mode"), "delete");
    assert_string_equal(es_sqlite(path, "PRAGMA integrity_check"), "ok");
}

/* --- locks --------------------------------------------------------------- */

/** Starts a process that keeps a writer open until the process is killed. */
static pid_t start_holder(const char *path, int64_t n_samples)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int64_t run, series;
        es_writer *w = open_series(path, &run, &series);
        for (int64_t i = 0; i < n_samples; i++)
            if (es_write_values(w, series, i, 6) < 0)
                _exit(1);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void kill_holder(pid_t child)
{
    int result;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
}

TEST(a_second_writer_learns_the_pid)
{
    char words[64];
    int64_t run, series;
    es_writer *w = NULL;
    pid_t holder = start_holder(run_db, 1);
    snprintf(words, sizeof words, "run.db: process %ld is writing it",
             (long)holder);
    es_assert_status(ES_ELOCKED, words, es_writer_open(&w, run_db, ES_FAST));
    assert_null(w);
    assert_true(es_file_exists_beside(run_db, "-lock"));
    es_reader *r = es_open_reader(run_db);
    assert_true(es_is_written(r));
    kill_holder(holder);
    assert_false(es_is_written(r));
    assert_true(
        es_file_exists_beside(run_db, "-lock")); /* the killed process could not
                                                    remove its lock file */
    es_reader_close(r);
    es_assert_ok(es_writer_close(open_series(run_db, &run, &series)));
    assert_plain_file(run_db);
}

TEST(a_lock_that_cannot_be_checked_is_an_error)
{
    struct rlimit before, none = {0};
    int64_t run, series;
    bool written;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_ok(es_write_values(w, series, 0, 6));
    es_reader *r = es_open_reader(run_db);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    es_status status = es_reader_is_written(r, &written);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    es_assert_status(
        ES_EIO, "run.db: cannot find out whether it is being written", status);
    es_assert_ok(es_reader_is_written(r, &written));
    assert_true(written);
    es_reader_close(r);
    es_assert_ok(es_writer_close(w));
}

TEST(a_second_writer_of_one_process_is_refused)
{
    int64_t run, series;
    es_writer *second = NULL;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_status(ES_ELOCKED, "is writing it",
                     es_writer_open(&second, run_db, ES_FAST));
    es_assert_ok(es_write_values(w, series, 0, 6));
    AUTO(es_reader) r = es_open_reader(run_db);
    assert_true(es_is_written(r)); /* the first query must not release the lock,
                                      so both queries return true */
    assert_true(es_is_written(r));
    es_assert_ok(es_writer_close(w));
    assert_false(es_is_written(r));
}

TEST(a_lock_file_of_another_kind_is_refused)
{
    const char *lock = es_folder_file(state, "run.db-lock");
    const char *victim = es_folder_file(state, "victim");
    size_t n;
    es_writer *w = NULL;
    es_file_write(victim, "precious", 8);
    assert_int_equal(symlink(victim, lock), 0);
    es_assert_status(ES_EIO, "cannot create the lock file",
                     es_writer_open(&w, run_db, ES_FAST));
    free(es_file_read(victim, &n));
    assert_int_equal(n, 8);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkfifo(lock, 0666), 0);
    es_assert_status(ES_EIO, "not a lock file",
                     es_writer_open(&w, run_db, ES_FAST));
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(link(victim, lock), 0);
    es_assert_status(ES_EIO, "not a lock file",
                     es_writer_open(&w, run_db, ES_FAST));
    free(es_file_read(victim, &n));
    assert_int_equal(n, 8);
    assert_int_equal(unlink(lock), 0);
    es_file_write(lock, "not a number", 12); /* a lock file that a process left
                                                behind, with invalid contents */
    es_write_run(run_db, "x", 1);
    assert_plain_file(run_db);
}

/* Several processes lock and release the same file at the same time. A process
   that opens the lock file just before its holder removes it locks a file that
   has no name any more; this lock must not count. */
TEST(lock_has_one_holder)
{
    enum { N = 4, ROUNDS = 200 };
    atomic_int *holder = mmap(NULL, sizeof *holder, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(holder != MAP_FAILED);
    atomic_init(holder, 0);
    pid_t children[N];
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        for (int done = 0; done < ROUNDS;) {
            es_lock lock = {.fd = -1};
            es_status status = es_lock_take(&lock, run_db, run_db);
            if (status == ES_ELOCKED)
                continue;
            if (status < 0)
                _exit(2);
            if (atomic_exchange(holder, i + 1) != 0)
                _exit(1);
            if (done % 8 == 0)
                sched_yield();
            atomic_store(holder, 0);
            es_lock_release(&lock, true);
            done++;
        }
        _exit(0);
    }
    for (int i = 0; i < N; i++)
        wait_for_success(children[i]);
    munmap(holder, sizeof *holder);
    assert_false(es_file_exists_beside(run_db, "-lock"));
}

/* Many processes open writers of the same file. Only one writer may be open at
   a time, and every process must succeed several times. */
TEST(writers_take_turns)
{
    enum { N = 6, ROUNDS = 5 };
    pid_t children[N];
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        for (int done = 0; done < ROUNDS;) {
            es_writer *w = NULL;
            int64_t run;
            es_run_info info = es_run_of(1, 1);
            es_status status = es_writer_open(&w, run_db, ES_FAST);
            if (status == ES_ELOCKED) {
                usleep(1000);
                continue;
            }
            if (status < 0 || es_writer_run(w, &run, &info, 0) < 0 ||
                es_writer_close(w) < 0) {
                fprintf(stderr, "# %s\n", es_message());
                _exit(1);
            }
            done++;
        }
        _exit(0);
    }
    for (int i = 0; i < N; i++)
        wait_for_success(children[i]);
    es_reader *r = es_open_reader(run_db);
    assert_int_equal(es_reader_n_runs(r), N * ROUNDS);
    es_reader_close(r);
    assert_plain_file(run_db);
}

/* --- concurrent readers --------------------------------------------------- */

TEST(reader_sees_what_is_committed)
{
    int64_t run, series, loss;
    es_writer *w = open_series(run_db, &run, &series);
    es_series s;
    es_assert_ok(es_write_values(w, series, 1, 6));
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, series, 2, 6));
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    assert_int_equal(s.last_step, 1);
    es_assert_ok(es_writer_commit(w));
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    assert_int_equal(s.last_step, 2);
    es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_write_values(w, loss, 3, 1));
    assert_int_equal(es_reader_n_series(r, 0), 1);
    es_assert_ok(es_reader_refresh(r));
    assert_int_equal(es_reader_n_series(r, 0), 2);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_int_equal(info.last_step, 3);
    es_reader_close(r);
    es_assert_ok(es_writer_close(w));
    assert_plain_file(run_db);
}

static int64_t last_step_of(es_reader *reader)
{
    es_series series;
    es_assert_ok(es_reader_find(reader, 0, "entropy", ES_PHASE_TRAIN, &series));
    return series.last_step;
}

TEST(a_held_reader_sees_one_state_until_refreshed)
{
    int64_t run, series;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_ok(es_write_values(w, series, 1, 6));
    AUTO(es_reader) held = NULL;
    AUTO(es_reader) loose = es_open_reader(run_db);
    es_assert_ok(es_reader_open_held(&held, run_db));
    assert_int_equal(last_step_of(held), 1);
    es_assert_ok(es_write_values(w, series, 2, 6));
    assert_int_equal(last_step_of(held), 1);
    assert_int_equal(last_step_of(loose), 2);
    es_assert_ok(es_reader_refresh(held));
    assert_int_equal(last_step_of(held), 2);
    es_assert_ok(es_write_values(w, series, 3, 6));
    assert_int_equal(last_step_of(held), 3);
    es_assert_ok(es_writer_close(w));
}

TEST(events_of_a_growing_run_are_read)
{
    int64_t run, series;
    const es_event *events;
    size_t n;
    es_writer *w = open_series(run_db, &run, &series);
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 0);
    es_assert_ok(es_writer_event(w, run, &(es_event){.kind = "x", .step = 1}));
    es_assert_ok(es_reader_refresh(r));
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 1);
    es_reader_close(r);
    es_writer_abandon(w);
}

TEST(cursor_keeps_its_state_of_the_file)
{
    int64_t run, series, step, n = 0;
    const float *values;
    es_series s;
    es_writer *w = open_series(run_db, &run, &series);
    for (int64_t i = 0; i < 50; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_cursor *c = es_open_cursor(r, &s);
    for (int64_t i = 50; i < 2000; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    for (; es_cursor_next(c, &step, &values) == ES_OK; n++)
        es_assert_values(values, series, step, 6);
    assert_int_equal(n, 50);
    es_cursor_close(c);
    es_reader_close(r);
    es_assert_ok(es_writer_close(w));
}

TEST(an_idle_cursor_lets_the_log_be_emptied)
{
    enum { N_STEPS = 3000, N_AT_ONCE = 1024 };
    int64_t run, series, step;
    const float *values;
    es_series s;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_ok(es_writer_begin(w));
    for (int64_t i = 0; i < N_STEPS; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    es_assert_ok(es_writer_commit(w));
    AUTO(es_reader) r = NULL;
    es_assert_ok(es_reader_open_held(&r, run_db));
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    AUTO(es_cursor) one = es_open_cursor(r, &s);
    AUTO(es_cursor) all = NULL;
    es_assert_ok(es_cursor_open_run(&all, r, 0));
    for (int64_t i = 0; i < N_STEPS; i++) {
        es_assert_ok(es_cursor_next(one, &step, &values));
        assert_int_equal(step, i);
        es_assert_values(values, series, step, 6);
        es_assert_ok(es_cursor_next_of_run(all, &step, &values, &s));
        assert_int_equal(step, i);
        es_assert_values(values, series, step, 6);
        if (i % (N_AT_ONCE / 2) == 7) {
            es_assert_ok(es_write_values(w, series, N_STEPS + i, 6));
            es_assert_ok(es_writer_settle(w));
            assert_int_equal(es_writer_log_bytes(w), 0);
        }
    }
    assert_int_equal(es_cursor_next(one, &step, &values), ES_DONE);
    assert_int_equal(es_cursor_next_of_run(all, &step, &values, &s), ES_DONE);
    es_assert_ok(es_writer_close(w));
}

TEST(a_cursor_outlives_a_resume)
{
    enum { N_STEPS = 3000, AGAIN = 2000 };
    int64_t run, series, step, n = 0;
    const float *values;
    es_series s;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_ok(es_writer_begin(w));
    for (int64_t i = 0; i < N_STEPS; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    es_assert_ok(es_writer_commit(w));
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    AUTO(es_cursor) c = es_open_cursor(r, &s);
    es_run_info info = es_run_of(3, 2);
    es_assert_ok(es_reader_run(r, 0, &info));
    es_assert_ok(es_writer_run(w, &run, &info, AGAIN));
    for (; es_cursor_next(c, &step, &values) == ES_OK; n++)
        assert_int_equal(step, n);
    assert_int_equal(n, AGAIN);
    es_assert_ok(es_writer_close(w));
}

TEST(a_writer_closes_while_a_reader_stays)
{
    int64_t run, series, step;
    const float *values;
    es_series s;
    es_writer *w = open_series(run_db, &run, &series);
    for (int64_t i = 0; i < 10; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_cursor *c = es_open_cursor(r, &s);
    es_assert_ok(es_cursor_next(c, &step, &values));
    es_assert_ok(es_write_values(w, series, 10, 6));
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
    es_assert_ok(es_writer_close(w));
    assert_false(es_file_exists_beside(run_db, "-lock"));
    es_assert_ok(es_cursor_next(c, &step, &values));
    assert_int_equal(step, 1);
    es_cursor_close(c);
    es_reader_close(r);
    r = es_open_reader(run_db); /* the reader may have kept the file in WAL
                                   mode */
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    assert_int_equal(s.last_step, 10);
    es_reader_close(r);
    es_write_run(run_db, "next", 1);
    assert_plain_file(run_db);
}

TEST(log_of_a_killed_writer_is_read)
{
    es_series s;
    float values[6];
    int64_t n, found;
    kill_holder(start_holder(run_db, 40));
    assert_true(es_file_exists_beside(run_db, "-wal"));
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 40);
    es_assert_ok(es_reader_sample(r, &s, ES_STEP_LAST, values, 6, &found));
    es_assert_values(values, s.id, 39, 6);
}

/**
 * A user without privileges must be able to read a file in a read-only folder.
 */
TEST(a_log_in_a_read_only_folder_is_read)
{
    kill_holder(start_holder(run_db, 5));
    assert_int_equal(unlink(es_folder_file(state, "run.db-shm")), 0);
    assert_int_equal(chmod((char *)*state, 0555), 0);
    pid_t child = fork();
    if (child == 0) { /* tests as another user, because root may write
                         everywhere */
        es_series s;
        if (geteuid() == 0 && seteuid(65534) != 0)
            _exit(2);
        es_reader_close(es_open_series(run_db, "entropy", &s));
        _exit(s.last_step != 4);
    }
    wait_for_success(child);
    assert_int_equal(chmod((char *)*state, 0755), 0);
}

/* --- forks --------------------------------------------------------------- */

TEST(a_forked_child_may_only_close)
{
    int64_t run, series, n;
    es_series s;
    es_writer *w = open_series(run_db, &run, &series);
    es_assert_ok(es_write_values(w, series, 1, 6));
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_cursor *c = es_open_cursor(r, &s);
    es_assert_ok(es_writer_begin(w));
    pid_t child = fork();
    if (child == 0) {
        es_event event = {.kind = "x"};
        es_run_info info = es_run_of(2, 3);
        bool refused =
            es_write_values(w, series, 2, 6) == ES_EFORK &&
            es_writer_begin(w) == ES_EFORK && es_writer_commit(w) == ES_EFORK &&
            es_writer_event(w, run, &event) == ES_EFORK &&
            es_writer_run(w, &run, &info, 0) == ES_EFORK &&
            es_writer_end_run(w, run, ES_RUN_FAILED) == ES_EFORK &&
            es_reader_count(r, &s, &n) == ES_EFORK &&
            es_reader_refresh(r) == ES_EFORK &&
            es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s) == ES_EFORK;
        es_cursor_close(c);
        es_reader_close(r);
        refused = refused && es_writer_close(w) == ES_EFORK;
        _exit(!refused);
    }
    wait_for_success(child);
    child = fork();
    if (child == 0) {
        es_writer_abandon(w);
        _exit(0);
    }
    wait_for_success(child);
    assert_true(es_file_exists_beside(run_db, "-lock"));
    assert_true(es_is_written(r));
    es_assert_ok(es_write_values(w, series, 3, 6));
    es_assert_ok(es_writer_commit(w));
    es_cursor_close(c);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 2);
    es_reader_close(r);
    es_assert_ok(es_writer_close(w));
    assert_plain_file(run_db);
}

/* --- paths --------------------------------------------------------------- */

TEST(odd_file_names_work)
{
    static const char *const names[] = {
        "a?mode=memory", "b#c.db", "file:x.db?vfs=none", ":memory:", "50%25.db",
        "a b\n'\"c.db",  "-x.db",  "\xff\xfe.db"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = es_folder_file(state, names[i]);
        es_write_run(path, "odd", 3);
        assert_true(es_file_exists(path));
        AUTO(es_reader) r = es_open_reader(path);
        assert_int_equal(es_reader_n_runs(r), 1);
    }
}

TEST(relative_path_survives_chdir)
{
    char before[4096];
    int64_t run, series;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir((char *)*state), 0);
    es_writer *w = open_series("run.db", &run, &series);
    assert_int_equal(chdir("/"), 0);
    es_assert_ok(es_write_values(w, series, 0, 6));
    es_assert_ok(es_writer_close(w));
    assert_int_equal(chdir(before), 0);
    assert_plain_file(es_folder_file(state, "run.db"));
}

TEST(a_writer_fills_an_outfile)
{
    es_outfile *out = NULL;
    FILE *stream = NULL;
    es_file_write(run_db, "the old one", 11);
    assert_int_equal(chmod(run_db, 0640), 0);
    es_assert_ok(es_outfile_open(&out, &stream, run_db));
    const char *temporary = es_outfile_temporary(out);
    assert_non_null(temporary);
    es_write_run(temporary, "x", 3);
    size_t n;
    free(es_file_read(run_db, &n));
    assert_int_equal(n, 11);
    es_assert_ok(es_outfile_close(out));
    es_reader *r = es_open_reader(run_db);
    assert_int_equal(es_reader_n_runs(r), 1);
    es_reader_close(r);
    struct stat st;
    assert_int_equal(stat(run_db, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_plain_file(run_db);
}

/* Reads 22 MiB of samples although SQLite may use only 3 MiB of memory. */
TEST(memory_does_not_grow_with_steps)
{
    enum { N_STEPS = 20000, N_VALUES = 144 };
    int64_t run, series[2], found, step, n = 0;
    es_run_info info = es_run_of(12, 12);
    es_reader_cap_memory(4 << 20);
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    for (int k = 0; k < 2; k++)
        es_assert_ok(es_writer_series(w, &series[k], run, k ? "b" : "a",
                                      ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL));
    for (int64_t i = 0; i < N_STEPS; i++)
        for (int k = 0; k < 2; k++)
            es_assert_ok(es_write_values(w, series[k], i, N_VALUES));
    es_assert_ok(es_writer_close(w));
    es_reader_cap_memory(3 << 20);
    es_reader *r = es_open_reader(run_db);
    es_series s;
    es_cursor *c = NULL;
    float values[N_VALUES];
    const float *streamed;
    es_assert_ok(es_reader_find(r, 0, "b", ES_PHASE_TRAIN, &s));
    es_assert_ok(
        es_reader_sample(r, &s, ES_STEP_LAST, values, N_VALUES, &found));
    assert_int_equal(found, N_STEPS - 1);
    es_assert_ok(es_cursor_open_run(&c, r, 0));
    while (es_cursor_next_of_run(c, &step, &streamed, &s) == ES_OK)
        n++;
    assert_int_equal(n, 2 * N_STEPS);
    es_cursor_close(c);
    es_reader_close(r);
    es_reader_cap_memory(1); /* checks that the limit on memory takes effect */
    es_assert_status(ES_ENOMEM, "out of memory", es_reader_open(&r, run_db));
    es_reader_cap_memory(0);
}

TEST_EACH(es_folder_make, es_folder_remove)
