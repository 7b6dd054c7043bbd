/* Simulates power losses while a run file is being written, at random moments.
   Whatever unsynced data the disk keeps, the file must contain every
   acknowledged sample, no wrong sample, and each transaction completely or not
   at all, and the next writer must be able to continue the run.
   RUN_POWER_LOSSES sets the number of repetitions. */
#include "store/writer_internal.h"
#include "tests/support/chance.h"
#include "tests/support/lossy_disk.h"
#include "tests/support/test.h"

#include <sqlite3.h>
#include <string.h>

#define UUID "0f0e0d0c-0b0a-4908-8706-050403020101"
#define LAYERS 2
#define HEADS 3
#define PER_COMMIT 3 /* steps */

enum { MOST_STEPS = 20000 };

/**
 * Lower and upper bound on the number of training steps in the file if the
 * power fails after a given write or sync of the disk.
 */
static struct {
    int64_t least, most;
} promised[MOST_STEPS];
static size_t n_promised;

static int64_t acknowledged, begun;

/**
 * Stores the current bounds for all writes and syncs of the disk since the last
 * call.
 */
static void note(void)
{
    const size_t n = lossy_disk_n_steps();
    assert_true(n < MOST_STEPS);
    for (; n_promised <= n; n_promised++) {
        promised[n_promised].least = acknowledged;
        promised[n_promised].most = begun;
    }
}

/* --- the recording ---------------------------------------------------------*/

static es_writer *begin(const char *path, int64_t resume)
{
    es_writer *writer = NULL;
    int64_t run, entropy, loss;
    es_run_info info = es_run_of(LAYERS, HEADS);
    info.uuid = UUID;
    es_assert_ok(es_writer_open(&writer, path, ES_DURABLE));
    es_assert_ok(es_writer_begin(writer));
    es_assert_ok(es_writer_run(writer, &run, &info, resume));
    es_assert_ok(es_writer_series(writer, &entropy, run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(writer, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_commit(writer));
    assert_true(entropy == 1 && loss == 2);
    return writer;
}

static void commit(es_writer *writer, int64_t from)
{
    es_assert_ok(es_writer_begin(writer));
    for (int64_t step = from; step < from + PER_COMMIT; step++) {
        es_assert_ok(es_write_values(writer, 1, step, LAYERS * HEADS));
        es_assert_ok(es_write_values(writer, 2, step, 1));
    }
    es_assert_ok(es_writer_commit(writer));
}

static void commit_some(es_writer *writer, int n)
{
    for (int i = 0; i < n; i++) {
        begun = acknowledged + PER_COMMIT;
        commit(writer, acknowledged);
        note(); /* from now on these steps must survive a power loss */
        acknowledged = begun;
    }
}

/**
 * Records a run in several parts: appends, a checkpoint after which the log
 * restarts, a checkpoint that empties the log, a successful close, and a
 * resumption that replaces steps.
 */
static void record(const char *path)
{
    es_writer *writer = begin(path, 0);
    note();
    commit_some(writer, 12);
    es_assert_ok(es_log_checkpoint(writer, SQLITE_CHECKPOINT_PASSIVE));
    commit_some(writer, 6);
    es_assert_ok(es_writer_settle(writer));
    commit_some(writer, 6);
    es_assert_ok(es_writer_close(writer));
    note();
    acknowledged -= 20;
    writer = begin(path, acknowledged);
    note();
    begun = acknowledged;
    commit_some(writer, 10);
    es_assert_ok(es_log_checkpoint(writer, SQLITE_CHECKPOINT_PASSIVE));
    commit_some(writer, 3);
    es_assert_ok(es_writer_close(writer));
    note();
}

/* --- the remaining data --------------------------------------------------- */

/**
 * Fails unless every sample of a series is correct and the steps have no gaps.
 * Returns the number of samples.
 */
static int64_t count_right(es_reader *reader, const char *name, int64_t id)
{
    es_series series;
    const float *values;
    int64_t step, n = 0;
    es_status status;
    if (es_reader_find(reader, 0, name, ES_PHASE_TRAIN, &series) != ES_OK)
        return 0;
    AUTO(es_cursor) cursor = es_open_cursor(reader, &series);
    for (; (status = es_cursor_next(cursor, &step, &values)) == ES_OK; n++) {
        assert_int_equal(step, n);
        es_assert_values(values, id, step, series.n_values);
    }
    assert_int_equal(status, ES_DONE);
    return n;
}

static int64_t check_file(const char *path)
{
    AUTO(es_reader) reader = es_open_reader(path);
    if (es_reader_n_runs(reader) == 0)
        return 0;
    int64_t n = count_right(reader, "entropy", 1);
    assert_int_equal(count_right(reader, "loss", 2), n);
    assert_int_equal(es_reader_n_damaged(reader), 0);
    return n;
}

/** Fails unless SQLite's integrity check finds no error. */
static void check_pages(const char *path)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1,
                                        &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(handle);
}

/**
 * Creates a run file without a run, which is the state before the recording.
 */
static void make_empty(const char *path)
{
    es_writer *writer = NULL;
    es_assert_ok(es_writer_open(&writer, path, ES_DURABLE));
    es_assert_ok(es_writer_begin(writer));
    es_assert_ok(es_writer_commit(writer));
    es_assert_ok(es_writer_close(writer));
}

TEST(a_power_loss_of_a_run_file_loses_only_unsynced_data)
{
    const long n_losses = chance_times("RUN_POWER_LOSSES", 200);
    const char *path = es_folder_file(state, "run.db");
    const char *left = es_folder_file(state, "left.db");
    long n_less = 0;
    make_empty(path);
    chance_seed(23 + (uint64_t)chance_times("SOAK_SEED", 0));
    lossy_disk_begin(path);
    record(path);
    for (long i = 0; i < n_losses; i++) {
        const size_t at = chance_below((uint32_t)lossy_disk_n_steps() + 1);
        lossy_disk_leave(left, at);
        int64_t n = check_file(left);
        assert_in_range(n, promised[at].least, promised[at].most);
        n_less += n < promised[at].most;
        if (i % 16)
            continue;
        /* The next writer must be able to continue the run. */
        es_writer *writer = begin(left, n);
        commit(writer, n);
        es_assert_ok(es_writer_close(writer));
        assert_int_equal(check_file(left), n + PER_COMMIT);
        check_pages(left);
    }
    assert_true(n_less >= n_losses / 20); /* otherwise the simulation loses too
                                             little data */
    lossy_disk_end();
}

static void copy_file(const char *from, const char *to)
{
    size_t n;
    unsigned char *bytes = es_file_read(from, &n);
    es_file_write(to, bytes, n);
    free(bytes);
}

/** Returns a path that consists of `path` followed by `end`. */
static const char *beside(const char *path, const char *end)
{
    static char name[2][4310];
    static int turn;
    snprintf(name[turn ^= 1], sizeof name[0], "%s%s", path, end);
    return name[turn];
}

TEST(a_log_with_a_damaged_header_is_empty)
{
    static const char spoilt[200] = "neither a header nor frames";
    const char *path = es_folder_file(state, "run.db");
    const char *left = es_folder_file(state, "left.db");
    es_writer *writer = begin(path, 0);
    commit(writer, 0);
    es_assert_ok(es_writer_settle(writer));
    copy_file(path, left);
    es_file_write(beside(left, "-wal"), spoilt, sizeof spoilt);
    es_assert_ok(es_writer_close(writer));
    assert_int_equal(check_file(left), PER_COMMIT);
}

TEST_EACH(es_folder_make, es_folder_remove)
