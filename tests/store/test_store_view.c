/*
 * Tests readers of a file with a write-ahead log. They must see a consistent
 * state while a writer is active, must not change the folder, and must refuse
 * companion files that SQLite did not create.
 */
#include "store/store_internal.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { L = 16, H = 24, N = L * H };

/** Memory that is shared with the writing process. */
typedef struct progress {
    volatile int64_t committed; /* number of steps that are certainly
                                   committed; the next step may be committed,
                                   too */
    volatile int64_t goal; /* number of steps after which the writer pauses */
    volatile int stop;
} progress;

static progress *share_progress(void)
{
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    *p = (progress){0};
    return p;
}

/**
 * Writes steps until `committed` reaches the goal, then waits until the parent
 * raises the goal or requests a stop. Exits without closing the file.
 */
static void write_steps(const char *path, progress *p)
{
    int64_t run, series;
    es_writer *w = NULL;
    es_run_info info = es_run_of(L, H);
    info.uuid = "00000000-1111-4222-8333-444444444444";
    es_status status = es_writer_open(&w, path, ES_FAST);
    if (status == ES_OK)
        status = es_writer_run(w, &run, &info, p->committed);
    if (status == ES_OK)
        status = es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL);
    while (status == ES_OK && !p->stop) {
        if (p->committed == p->goal) {
            usleep(1000);
            continue;
        }
        status = es_write_values(w, series, p->committed, N);
        if (status == ES_OK)
            p->committed++;
    }
    if (status != ES_OK)
        fprintf(stderr, "# %s\n", es_message());
    _exit(status != ES_OK);
}

/** Starts a writer that continues at step p->committed. */
static pid_t start_writer(const char *path, progress *p, int64_t goal)
{
    p->goal = goal;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* kills the writer if the test
                                             ends */
        write_steps(path, p);
    }
    return child;
}

static void stop_writer(pid_t child, progress *p)
{
    int result;
    p->stop = 1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    p->stop = 0;
}

static void leave_log(const char *path, int64_t n_steps)
{
    progress *p = share_progress();
    pid_t child = start_writer(path, p, n_steps);
    es_await(p->committed == n_steps);
    stop_writer(child, p);
    munmap(p, sizeof *p);
    assert_true(es_file_exists_beside(path, "-wal"));
}

/**
 * Fails unless a cursor returns complete steps 0, 1, 2 and so on. Returns the
 * number of steps.
 */
static int64_t count_whole_steps(es_reader *r)
{
    es_series s;
    const float *values;
    int64_t step, n = 0;
    es_status status;
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_cursor *c = es_open_cursor(r, &s);
    for (; (status = es_cursor_next(c, &step, &values)) == ES_OK; n++) {
        assert_int_equal(step, n);
        es_assert_values(values, s.id, step, N);
    }
    assert_int_equal(status, ES_DONE);
    es_cursor_close(c);
    return n;
}

/* --- with an active writer --------------------------------------------- */

/**
 * While the reader reads, the writer moves the log into the file and restarts
 * the log many times.
 */
TEST(each_read_sees_one_state_of_the_run)
{
    progress *p = share_progress();
    pid_t child = start_writer(run_db, p, 3000);
    es_await(p->committed > 0);
    es_reader *kept = es_open_reader(run_db);
    for (int i = 0; i < 40; i++) {
        int64_t before = p->committed;
        es_reader *r = i % 2 ? kept : es_open_reader(run_db);
        if (i % 2)
            es_assert_ok(es_reader_refresh(r));
        int64_t n = count_whole_steps(r);
        assert_in_range(n, before, p->committed + 1);
        if (r != kept)
            es_reader_close(r);
        usleep(2000);
    }
    es_reader_close(kept);
    stop_writer(child, p);
    munmap(p, sizeof *p);
}

/**
 * Another program has a snapshot of the file, so the log cannot restart and
 * grows until its index needs several pages.
 */
TEST(a_log_of_several_index_pages_is_read)
{
    const char *log = es_folder_file(state, "run.db-wal");
    struct stat st;
    sqlite3 *other = NULL;
    progress *p = share_progress();
    pid_t child = start_writer(run_db, p, 20);
    es_await(p->committed == 20);
    assert_int_equal(sqlite3_open(run_db, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN; SELECT count(*) FROM sample",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    p->goal = 1700;
    es_await(p->committed == 1700);
    assert_int_equal(stat(log, &st), 0);
    assert_true(st.st_size > 4200 * 4120); /* the first page of the index has
                                              space for 4062 frames */
    es_reader *second = es_open_reader(run_db);
    assert_int_equal(count_whole_steps(second), 1700);
    es_reader_close(second);
    sqlite3_close(other);
    stop_writer(child, p);
    munmap(p, sizeof *p);
}

/**
 * After a crash, a reader builds a private index of the log. A writer that then
 * resumes the run must respect the reader's locks.
 */
TEST(a_resuming_writer_keeps_the_frames_being_read)
{
    es_series s;
    const float *values;
    int64_t step, n = 1;
    leave_log(run_db, 400);
    es_reader *r = es_open_series(run_db, "entropy", &s);
    es_cursor *c = es_open_cursor(r, &s);
    es_assert_ok(es_cursor_next(c, &step, &values));
    progress *p = share_progress();
    p->committed = 400;
    pid_t child = start_writer(run_db, p, 1900);
    es_await(p->committed == 1900);
    for (; es_cursor_next(c, &step, &values) == ES_OK; n++)
        es_assert_values(values, s.id, step, N);
    assert_int_equal(n, 400);
    es_cursor_close(c);
    es_assert_ok(es_reader_refresh(r));
    assert_int_equal(count_whole_steps(r), 1900);
    es_reader_close(r);
    stop_writer(child, p);
    munmap(p, sizeof *p);
}

/* --- the folder of a reader ---------------------------------------------- */

/** Hashes names, sizes, times and inode numbers of all files in a folder. */
static uint64_t fingerprint(const char *folder)
{
    uint64_t sum = 0;
    struct dirent *entry;
    struct stat st;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d))) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        assert_int_equal(
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
        uint64_t one = st.st_ino * 31 + (uint64_t)st.st_size;
        one = one * 1000003 + (uint64_t)st.st_mtim.tv_nsec;
        for (const char *at = entry->d_name; *at; at++)
            one = one * 131 + (unsigned char)*at;
        sum += one * one;
    }
    closedir(d);
    return sum;
}

TEST(a_reader_does_not_change_the_folder)
{
    const char *shm = es_folder_file(state, "run.db-shm");
    leave_log(run_db, 30);
    for (int i = 0; i < 2; i++) {
        uint64_t before = fingerprint(*state);
        es_reader *r = es_open_reader(run_db);
        assert_int_equal(count_whole_steps(r), 30);
        es_reader_close(r);
        assert_true(fingerprint(*state) == before);
        if (i == 0)
            assert_int_equal(unlink(shm), 0);
    }
}

TEST(a_file_in_log_mode_needs_no_log)
{
    int64_t run;
    es_run_info info = es_run_of(L, H);
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "PRAGMA journal_mode=WAL"), "wal");
    uint64_t before = fingerprint(*state);
    es_reader *r = es_open_reader(run_db);
    assert_int_equal(es_reader_n_runs(r), 1);
    es_reader_close(r);
    assert_true(fingerprint(*state) == before);
}

/* --- truncated shared memory ---------------------------------------------- */

TEST(shared_memory_may_be_truncated)
{
    const char *shm = es_folder_file(state, "run.db-shm");
    static const off_t sizes[] = {0, 100, 4096, 32768};
    es_series s;
    progress *p = share_progress();
    pid_t child = start_writer(run_db, p, 30);
    es_await(p->committed == 30);
    es_reader *kept = es_open_series(run_db, "entropy", &s);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t n;
        assert_int_equal(truncate(shm, sizes[i]), 0);
        es_reader *r = es_open_reader(run_db);
        assert_int_equal(count_whole_steps(r), 30);
        es_reader_close(r);
        es_status status = es_reader_count(kept, &s, &n);
        if (status == ES_OK)
            assert_int_equal(n, 30);
        else
            es_assert_status(ES_EIO, "run.db: the index of its log", status);
    }
    es_reader_close(kept);
    stop_writer(child, p);
    munmap(p, sizeof *p);
}

/* --- foreign companion files --------------------------------------------- */

static void refuse_both(const char *path, const char *words)
{
    es_reader *r = NULL;
    es_writer *w = NULL;
    es_assert_status(ES_EIO, words, es_reader_open(&r, path));
    es_assert_status(ES_EIO, words, es_writer_open(&w, path, ES_FAST));
}

static void make_hard_link(const char *victim, const char *name)
{
    assert_int_equal(link(victim, name), 0);
}

static void make_symbolic_link(const char *victim, const char *name)
{
    assert_int_equal(symlink(victim, name), 0);
}

static void make_fifo(const char *victim, const char *name)
{
    (void)victim;
    assert_int_equal(mkfifo(name, 0600), 0);
}

TEST(companions_are_plain_files)
{
    static const char *const names[] = {"run.db-wal", "run.db-shm"};
    static const struct {
        void (*make)(const char *victim, const char *name);
        const char *words;
    } kinds[] = {{make_hard_link, "has another name"},
                 {make_symbolic_link, "is a symbolic link"},
                 {make_fifo, "is a special file"}};
    const char *victim = es_folder_file(state, "victim");
    static unsigned char bytes[40000];
    char words[128];
    size_t n;
    memset(bytes, 'v', sizeof bytes);
    es_write_run(run_db, "x", 3);
    assert_string_equal(es_sqlite(run_db, "PRAGMA journal_mode=WAL"), "wal");
    es_file_write(victim, bytes, sizeof bytes);
    for (int i = 0; i < 6; i++) {
        const char *name = es_folder_file(state, names[i / 3]);
        kinds[i % 3].make(victim, name);
        snprintf(words, sizeof words, "%s: %s", names[i / 3],
                 kinds[i % 3].words);
        refuse_both(run_db, words);
        assert_int_equal(unlink(name), 0);
        AUTO_FREE unsigned char *now = es_file_read(victim, &n);
        assert_int_equal(n, sizeof bytes);
        assert_memory_equal(now, bytes, n);
    }
    es_reader_close(es_open_reader(run_db));
}

TEST(a_lock_file_with_two_names_is_refused)
{
    const char *victim = es_folder_file(state, "victim");
    es_writer *w = NULL;
    size_t n;
    es_file_write(victim, "precious", 8);
    assert_int_equal(link(victim, es_folder_file(state, "run.db-lock")), 0);
    es_assert_status(ES_EIO, "not a lock file",
                     es_writer_open(&w, run_db, ES_FAST));
    free(es_file_read(victim, &n));
    assert_int_equal(n, 8);
}

TEST(a_log_without_its_run_file_is_refused)
{
    es_writer *w = NULL;
    leave_log(run_db, 3);
    assert_int_equal(unlink(run_db), 0);
    es_assert_status(ES_EIO, "the log of a missing run file",
                     es_writer_open(&w, run_db, ES_FAST));
    assert_false(es_file_exists(run_db));
    assert_true(es_file_exists_beside(run_db, "-wal"));
}

/* --- crashes that SQLite recovers ---------------------------------------- */

/**
 * Simulates a power loss while the first page was being copied from the log
 * into the file.
 */
TEST(a_torn_first_page_is_read_from_the_log)
{
    size_t n;
    leave_log(run_db, 30);
    AUTO_FREE unsigned char *bytes = es_file_read(run_db, &n);
    for (int i = 0; i < 2; i++) {
        memset(bytes, i ? 0xff : 0, 512);
        es_file_write(run_db, bytes, n);
        AUTO(es_reader) r = es_open_reader(run_db);
        assert_int_equal(count_whole_steps(r), 30);
    }
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_close(w));
    assert_false(es_file_exists_beside(run_db, "-wal"));
    assert_string_equal(es_sqlite(run_db, "PRAGMA integrity_check"), "ok");
    AUTO(es_reader) r = es_open_reader(run_db);
    assert_int_equal(count_whole_steps(r), 30);
}

/**
 * The run file is valid without its log, but the log contains a change that
 * makes it invalid.
 */
TEST(a_writer_checks_the_file_with_its_log_applied)
{
    sqlite3 *handle = NULL;
    es_writer *w = NULL;
    size_t n, m;
    leave_log(run_db, 3);
    assert_int_equal(sqlite3_open(run_db, &handle), SQLITE_OK);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(
        sqlite3_exec(handle,
                     "CREATE TRIGGER t BEFORE INSERT ON sample BEGIN"
                     " SELECT raise(IGNORE); END",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
    AUTO_FREE unsigned char *before = es_file_read(run_db, &n);
    es_assert_status(ES_EFORMAT, "it has an additional trigger t",
                     es_writer_open(&w, run_db, ES_FAST));
    AUTO_FREE unsigned char *after = es_file_read(run_db, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n); /* equal, because the log was not
                                              moved into the file */
    assert_true(es_file_exists_beside(run_db, "-wal"));
}

TEST_EACH(es_folder_make, es_folder_remove)
