/**
 * Tests the write-ahead log while readers are active. If readers come and go,
 * the log must shrink; if one reader never ends, the log may grow, but nothing
 * may fail.
 */
#include "store/store_internal.h"
#include "tests/support/test.h"

enum { N_VALUES = 1024, MANY = 4096, COMMITS = 100 };

/**
 * Two readers, of which at least one has a snapshot of the file at any time.
 */
struct readers {
    sqlite3 *handles[2];
    int active;
    int moves;
};

static void begin(sqlite3 *reader)
{
    assert_int_equal(sqlite3_exec(reader,
                                  "BEGIN; SELECT count(*) FROM sqlite_schema",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
}

static void end(sqlite3 *reader)
{
    assert_int_equal(sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL),
                     SQLITE_OK);
}

static void open_readers(struct readers *readers, const char *path)
{
    *readers = (struct readers){0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(sqlite3_open(path, &readers->handles[i]), SQLITE_OK);
    begin(readers->handles[0]);
}

static void close_readers(struct readers *readers)
{
    for (int i = 0; i < 2; i++)
        sqlite3_close(readers->handles[i]);
}

/**
 * Begins a snapshot in the inactive reader, then ends the snapshot of the
 * active reader, so that the two exchange their roles.
 */
static bool move_on(void *user)
{
    struct readers *readers = user;
    begin(readers->handles[!readers->active]);
    end(readers->handles[readers->active]);
    readers->active = !readers->active;
    readers->moves++;
    return true;
}

static bool has_none(void *user)
{
    (void)user;
    return false;
}

static es_writer *open_writer(const char *path, int64_t *series)
{
    int64_t run;
    es_run_info info = es_run_of(32, 32);
    es_writer *w = es_open_writer(path);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    return w;
}

/** Writes 1 MiB of samples in one transaction. */
static void write_batch(es_writer *w, int64_t series, int64_t first)
{
    es_assert_ok(es_writer_begin(w));
    for (int64_t i = 0; i < 256; i++)
        es_assert_ok(es_write_values(w, series, first + i, N_VALUES));
    es_assert_ok(es_writer_commit(w));
}

TEST(a_log_shrinks_under_steady_readers)
{
    struct readers readers;
    int64_t series, largest = 0;
    es_writer *w = open_writer(run_db, &series);
    open_readers(&readers, run_db);
    for (int64_t i = 0; i < COMMITS; i++) {
        write_batch(w, series, i * 256);
        move_on(&readers);
        es_writer_tend_log(w, move_on, &readers);
        int64_t size = es_writer_log_bytes(w);
        largest = size > largest ? size : largest;
    }
    printf("# the log had %lld KiB at most\n", (long long)(largest >> 10));
    assert_true(readers.moves > COMMITS); /* the readers have changed roles
                                             while the writer waited for them */
    assert_in_range(largest, 1 << 20, 16 << 20);
    close_readers(&readers);
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "SELECT count(*) FROM sample"),
                        "25600");
}

TEST(a_reader_that_stays_costs_only_space)
{
    struct readers readers;
    int64_t series;
    es_writer *w = open_writer(run_db, &series);
    open_readers(&readers, run_db);
    for (int64_t i = 0; i < 20; i++) {
        write_batch(w, series, i * 256);
        es_writer_tend_log(w, has_none, NULL);
    }
    assert_true(es_writer_log_bytes(w) > 20 << 20);
    assert_false(es_writer_is_settled(w));
    es_assert_status(ES_ELOCKED, "holds a lock on it", es_writer_settle(w));
    end(readers.handles[0]);
    es_assert_ok(es_writer_settle(w));
    assert_true(es_writer_is_settled(w));
    assert_int_equal(es_writer_log_bytes(w), 0);
    write_batch(w, series, 20 * 256);
    assert_false(es_writer_is_settled(w));
    close_readers(&readers);
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "PRAGMA integrity_check"), "ok");
    assert_string_equal(es_sqlite(run_db, "SELECT count(*) FROM sample"),
                        "5376");
}

/**
 * A large transaction makes the log grow. Without readers, SQLite truncates the
 * log again afterwards.
 */
TEST(a_log_shrinks_after_a_large_transaction)
{
    int64_t series;
    es_writer *w = open_writer(run_db, &series);
    es_assert_ok(es_writer_begin(w));
    for (int64_t i = 0; i < MANY; i++)
        es_assert_ok(es_write_values(w, series, i, N_VALUES));
    es_assert_ok(es_writer_commit(w));
    assert_true(es_writer_log_bytes(w) > 16 << 20);
    es_assert_ok(es_write_values(w, series, MANY, N_VALUES));
    assert_true(es_writer_log_bytes(w) <= 5 << 20);
    es_assert_ok(es_writer_close(w));
}

TEST(a_truncated_log_is_not_copied_into_the_file)
{
    const char *log = es_folder_file(state, "run.db-wal");
    int64_t series;
    es_writer *w = open_writer(run_db, &series);
    write_batch(w, series, 0);
    es_assert_ok(es_writer_settle(w));
    write_batch(w, series, 256);
    assert_int_equal(truncate(log, 100000), 0);
    es_assert_status(ES_EIO, "run.db-wal: another program truncated",
                     es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "PRAGMA integrity_check"), "ok");
    assert_string_equal(es_sqlite(run_db, "SELECT count(*) FROM sample"),
                        "256");
    assert_false(es_file_exists_beside(run_db, "-wal"));
}

TEST_EACH(es_folder_make, es_folder_remove)
