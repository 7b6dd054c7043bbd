/**
 * Tests a run file that is removed, moved or replaced while it is being
 * written.
 */
#include "tests/support/test.h"

#include <sqlite3.h>

typedef struct written {
    es_writer *writer;
    int64_t series;
} written;

static written write_some(const char *path)
{
    written w = {0};
    int64_t run;
    es_run_info info = es_run_of(2, 3);
    es_assert_ok(es_writer_open(&w.writer, path, ES_FAST));
    es_assert_ok(es_writer_run(w.writer, &run, &info, 0));
    es_assert_ok(es_writer_series(w.writer, &w.series, run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_write_values(w.writer, w.series, 0, 6));
    es_assert_ok(es_writer_check_place(w.writer));
    return w;
}

/**
 * Continues to write after the file was moved, and checks that es_writer_close
 * reports that the file was moved.
 */
static void finish_elsewhere(const written *w, const char *path)
{
    const char *words = "removed, moved or replaced";
    es_assert_status(ES_EIO, words, es_writer_check_place(w->writer));
    es_assert_ok(es_write_values(w->writer, w->series, 1, 6));
    es_assert_status(ES_EIO, words, es_writer_close(w->writer));
    assert_non_null(strstr(es_message(), path));
}

static void assert_samples(const char *path, const char *n)
{
    assert_string_equal(es_sqlite(path, "PRAGMA integrity_check"), "ok");
    assert_string_equal(es_sqlite(path, "SELECT count(*) FROM sample"), n);
}

static void assert_nothing_beside(const char *path)
{
    static const char *const rest[] = {"-wal", "-shm", "-journal", "-lock"};
    for (int i = 0; i < 4; i++)
        assert_false(es_file_exists_beside(path, rest[i]));
}

TEST(a_removed_file_is_reported)
{
    written w = write_some(run_db);
    assert_int_equal(unlink(run_db), 0);
    finish_elsewhere(&w, run_db);
    assert_false(es_file_exists(run_db));
    assert_nothing_beside(run_db);
}

TEST(a_renamed_file_is_reported)
{
    const char *other = es_folder_file(state, "other.db");
    written w = write_some(run_db);
    assert_int_equal(rename(run_db, other), 0);
    finish_elsewhere(&w, run_db);
    assert_nothing_beside(run_db);
    assert_samples(other, "2");
}

/* The first writer's file is removed, and a second writer creates a new file at
   the same path. Closing the first writer must not change the second writer's
   file, log or lock. */
TEST(another_writer_at_the_same_path_is_left_alone)
{
    static const char *const beside[] = {"-wal", "-shm", "-lock"};
    char name[4096];
    written first = write_some(run_db);
    assert_int_equal(unlink(run_db), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", run_db, beside[i]);
        assert_int_equal(unlink(name), 0);
    }
    written second = write_some(run_db);
    finish_elsewhere(&first, run_db);
    for (int i = 0; i < 3; i++)
        assert_true(es_file_exists_beside(run_db, beside[i]));
    assert_samples(run_db, "1");
    es_assert_ok(es_write_values(second.writer, second.series, 1, 6));
    assert_samples(run_db, "2");
    es_assert_ok(es_writer_close(second.writer));
    assert_nothing_beside(run_db);
    assert_samples(run_db, "2");
}

/* The earlier connection was opened when the file did not exist: SQLite created
   an empty file. When this connection is used again, SQLite removes the log,
   because it believes that the file is still empty. */
TEST(a_log_removed_by_an_earlier_connection_is_noticed)
{
    sqlite3 *earlier = NULL;
    assert_int_equal(sqlite3_open(run_db, &earlier), SQLITE_OK);
    written w = write_some(run_db);
    assert_false(es_writer_log_is_away(w.writer));
    assert_int_equal(sqlite3_exec(earlier, "SELECT count(*) FROM sqlite_schema",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(earlier);
    assert_false(es_file_exists_beside(run_db, "-wal"));
    assert_true(es_writer_log_is_away(w.writer));
    es_assert_ok(es_writer_settle(w.writer));
    es_assert_ok(es_writer_close(w.writer));
    assert_samples(run_db, "1");
}

TEST(the_log_of_a_resumed_file_is_in_place)
{
    written w = write_some(run_db);
    es_assert_ok(es_writer_close(w.writer));
    es_writer *writer = es_open_writer(run_db);
    assert_false(es_writer_log_is_away(writer));
    int64_t run;
    es_run_info info = es_run_of(2, 3);
    es_assert_ok(es_writer_run(writer, &run, &info, 0));
    assert_false(es_writer_log_is_away(writer));
    es_assert_ok(es_writer_close(writer));
}

/* A writer that has committed nothing removes its file when it is abandoned. If
   the file at this path is no longer the one that the writer created, it must
   not be removed. */
TEST(an_abandoned_writer_leaves_other_files_alone)
{
    es_writer *writer = es_open_writer(run_db);
    assert_int_equal(unlink(run_db), 0);
    es_file_write(run_db, "precious", 8);
    es_fail(ES_EIO, "kept");
    es_writer_abandon(writer);
    assert_string_equal(es_message(), "kept");
    assert_true(es_file_exists(run_db));
}

TEST_EACH(es_folder_make, es_folder_remove)
