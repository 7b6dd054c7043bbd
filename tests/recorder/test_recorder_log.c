/* Damages the write-ahead log of a recording, as other programs might do. Every
 * committed frame that is lost must be reported, and the file must stay
 * intact. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sqlite3.h>

enum { HALF = 100 };

static const char *beside(const char *path, const char *tail)
{
    static char name[4096];
    snprintf(name, sizeof name, "%s%s", path, tail);
    return name;
}

/* Opens a recorder, makes it commit each frame at once, and records HALF
 * frames. */
static es_recorder *open_half(const char *path, int series[4])
{
    es_recorder *recorder = recording_open(path);
    recording_declare(recorder, series);
    kill(recorder->child.pid, SIGTERM);
    for (int64_t step = 0; step < HALF; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
    recording_await_committed(recorder, HALF);
    return recorder;
}

static void push_half(es_recorder *recorder, const int series[4])
{
    for (int64_t step = HALF; step < 2 * HALF; step++)
        es_assert_ok(recording_push(recorder, series, 0, step));
}

/* --- truncated log -------------------------------------------------------- */

static void cut_to(const char *path, off_t size)
{
    struct stat log;
    assert_int_equal(stat(beside(path, "-wal"), &log), 0);
    assert_int_equal(
        truncate(beside(path, "-wal"), size < 0 ? log.st_size + size : size),
        0);
}

static void check_cut(const char *path, es_recorder *recorder, int lost,
                      int64_t n_after)
{
    char message[256], data[256];
    es_recorder_report report;
    es_assert_status(ES_EIO, "-wal: another program truncated",
                     es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    snprintf(data, sizeof data, "(%d of %d frames are lost)", lost,
             lost + (int)n_after);
    assert_non_null(strstr(es_message(), data));
    assert_int_equal(report.lost, lost);
    assert_int_equal(report.committed, n_after);
    recording_check_integrity(path);
    assert_int_equal(recording_check(path, 0, HALF), n_after);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
    assert_true(recording_event(path, "log", message, data));
    snprintf(message, sizeof message, "{\"lost\":%d}", lost);
    assert_string_equal(data, message);
    assert_int_not_equal(access(beside(path, "-wal"), F_OK), 0);
    recording_remove(path);
}

TEST(truncated_log_is_a_counted_loss)
{
    static const off_t sizes[] = {0, 20, 5000, -1, -4120};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *path = recording_path("cut.db");
        int series[4];
        es_recorder *recorder = open_half(path, series);
        cut_to(path, sizes[i]);
        push_half(recorder, series);
        check_cut(path, recorder, HALF, HALF);
    }
}

/* No frame is pushed after the damage, so the recorder must notice the damage
 * at the end of the run. */
TEST(a_log_truncated_before_the_close_is_reported)
{
    const char *path = recording_path("late.db");
    int series[4];
    es_recorder *recorder = open_half(path, series);
    cut_to(path, 0);
    check_cut(path, recorder, HALF, 0);
}

TEST(overwritten_log_is_a_counted_loss)
{
    const char *path = recording_path("over.db");
    int series[4];
    char noise[8192];
    es_recorder *recorder = open_half(path, series);
    memset(noise, 0x5a, sizeof noise);
    FILE *log = fopen(beside(path, "-wal"), "r+");
    assert_non_null(log);
    fwrite(noise, 1, sizeof noise, log);
    fclose(log);
    push_half(recorder, series);
    check_cut(path, recorder, 2 * HALF, 0); /* the damage is noticed at the
                                               first checkpoint */
}

/* --- log without a name --------------------------------------------------- */

static void remove_log(const char *path)
{
    assert_int_equal(unlink(beside(path, "-wal")), 0);
}

static void move_log(const char *path)
{
    char old[4096];
    snprintf(old, sizeof old, "%s", beside(path, "-wal"));
    assert_int_equal(rename(old, beside(path, ".moved")), 0);
}

static void replace_log(const char *path)
{
    remove_log(path);
    AUTO(FILE) other = fopen(beside(path, "-wal"), "w");
    assert_non_null(other);
    fputs("something else", other);
}

/* Returns true if the file has a log that SQLite wrote, not the short file that
 * replace_log has left. */
static bool has_log(const char *path)
{
    struct stat log;
    return stat(beside(path, "-wal"), &log) == 0 && log.st_size > 100;
}

/* The recorder notices at its next check, or at the latest at the end, that the
 * log was removed or renamed. */
TEST(log_without_its_name_loses_nothing)
{
    static void (*const ways[])(const char *) = {remove_log, move_log,
                                                 replace_log};
    for (size_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
        const char *path = recording_path("away.db");
        int series[4];
        es_recorder *recorder = open_half(path, series);
        ways[i / 2](path);
        if (i % 2)
            es_await((es_ring_wake(&recorder->ring), has_log(path)));
        push_half(recorder, series);
        es_recorder_report report;
        es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, &report));
        assert_int_equal(report.lost, 0);
        assert_int_equal(recording_check(path, 0, 0), 2 * HALF);
        recording_check_integrity(path);
        assert_int_equal(recording_status(path), ES_RUN_FINISHED);
        if (i % 2)
            assert_true(recording_event(path, "log", NULL, NULL));
        unlink(beside(path, ".moved"));
        recording_remove(path);
    }
}

/* Removes the run file together with its log and the log's index, like rm -f
 * RUN.db* */
TEST(a_run_file_that_is_removed_with_its_log_is_a_counted_loss)
{
    const char *path = recording_path("gone.db");
    int series[4];
    char message[256], data[64];
    es_recorder_report report;
    es_recorder *recorder = open_half(path, series);
    remove_log(path);
    unlink(path);
    unlink(beside(path, "-shm"));
    es_await((es_ring_wake(&recorder->ring), has_log(path)));
    push_half(recorder, series);
    es_assert_status(ES_EIO, "removed, moved or replaced",
                     es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_int_equal(report.lost, HALF);
    assert_int_equal(recording_check(path, 0, HALF), HALF);
    assert_true(recording_event(path, "log", message, data));
    assert_non_null(strstr(message, "samples up to step 99 are not in this"));
    assert_string_equal(data, "{\"lost\":100}");
    const es_event *events;
    size_t n;
    es_damaged lost;
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_ok(es_reader_events(reader, 0, &events, &n));
    assert_int_equal(es_reader_n_damaged(reader), 1);
    es_assert_ok(es_reader_damaged(reader, 0, &lost));
    assert_true(lost.is_lost);
    assert_int_equal(lost.n_frames, HALF);
    assert_int_equal(lost.step, HALF - 1);
    recording_remove(path);
}

/* --- truncated index ------------------------------------------------------ */

TEST(truncated_index_ends_with_a_message)
{
    const char *path = recording_path("index.db");
    int series[4];
    es_recorder *recorder = open_half(path, series);
    assert_int_equal(truncate(beside(path, "-shm"), 0), 0);
    es_status status = ES_OK;
    int64_t step = HALF;
    while (status == ES_OK) {
        status = recording_push(recorder, series, 0, step++);
        usleep(100);
    }
    assert_int_equal(status, ES_EBROKEN);
    assert_non_null(strstr(es_message(), "-shm: another program truncated"));
    es_recorder_report report;
    es_assert_status(ES_EIO, "-shm: another program truncated",
                     es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_non_null(strstr(es_message(), "frames are lost)"));
    assert_int_equal(report.committed, HALF);
    assert_int_equal(report.lost, step - HALF);
    recording_check_integrity(path);
    assert_int_equal(recording_check(path, 0, 0), HALF);
    /* Checks that another recorder can write the file afterwards. */
    es_assert_ok(
        es_recorder_close(recording_open(path), ES_RUN_FINISHED, NULL));
    recording_check_integrity(path);
}

/* While the recorder writes, another program makes checkpoints, as sqlite3
 * does. */
TEST(checkpoints_by_other_programs_do_no_harm)
{
    const char *path = recording_path("foreign.db");
    int series[4];
    char command[8192];
    es_recorder *recorder = open_half(path, series);
    for (int i = 0; i < 5; i++) {
        snprintf(command, sizeof command,
                 "sqlite3 '%s' 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null",
                 path);
        assert_int_equal(system(command), 0);
        for (int64_t step = 0; step < 20; step++)
            es_assert_ok(
                recording_push(recorder, series, 0, HALF + i * 20 + step));
        recording_await_committed(recorder, (uint64_t)(HALF + i * 20 + 20));
    }
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    assert_int_equal(recording_check(path, 0, 0), 2 * HALF);
    assert_false(recording_event(path, "log", NULL, NULL));
}

/* --- permanent reader ----------------------------------------------------- */

TEST(a_permanent_reader_is_reported)
{
    enum { SIDE = 256, FRAMES = 280 }; /* frames of 256 KiB, 70 MiB in total */
    static float values[SIDE * SIDE];
    const char *path = recording_path("endless.db");
    es_run_info run = recording_run();
    run.n_layer = run.n_head = SIDE;
    es_recorder_options options = recording_options(path, &run);
    options.ring_bytes = 1 << 22;
    es_recorder *recorder = recording_open_heard(&options);
    sqlite3 *reader = NULL;
    char message[256], named[64];
    int series;
    snprintf(named, sizeof named, "the file (process %d reads it): end",
             (int)getpid());
    es_assert_ok(es_recorder_series(recorder, &series, "entropy", ES_SHAPE_HEAD,
                                    ES_PHASE_TRAIN, NULL));
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM sample",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    for (int64_t step = 0; step < FRAMES; step++)
        es_assert_ok(
            es_recorder_push(recorder, series, step, values, SIDE * SIDE));
    recording_await_committed(recorder, FRAMES);
    es_await((es_ring_wake(&recorder->ring), recording_has_said(named)));
    sqlite3_close(reader);
    es_recorder_report report;
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_int_equal(report.committed, FRAMES);
    assert_true(recording_event(path, "log", message, NULL));
    assert_non_null(strstr(message, named));
    recording_check_integrity(path);
    assert_int_not_equal(access(beside(path, "-wal"), F_OK), 0);
    recording_remove(path);
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
