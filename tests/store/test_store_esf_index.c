/* Tests the index of a fragment's samples. After insertions in any order, cuts,
   rollbacks and clearing, the rows of the table `sample` must equal those of a
   plain list. */
#include "store/esf_index.h"
#include "store/esf_record.h"
#include "tests/support/test.h"

#include <string.h>

enum { SERIES = 5, RUNS = 2, STEPS = 40, RECORDS = 4000 };

/* (SERIES,STEPS) number of the sample's record in the file; 0 if there is no
 * sample */
typedef struct plain_list {
    int record[SERIES][STEPS];
} plain_list;

typedef struct both {
    es_database database;
    es_esf_index *index;
    sqlite3_stmt *up, *down, *all;
    int fd;
    plain_list now, committed;
    uint64_t random;
} both;

#define RECORD_BYTES (sizeof(es_esf_sample) + sizeof(float))

static int64_t place_of(int record)
{
    return (int64_t)((size_t)record * RECORD_BYTES + sizeof(es_esf_sample));
}

/* Writes a file of sample records, where record i has the checksum i and the
   value i + 0.5. */
static int make_records(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < RECORDS; i++) {
        const es_esf_sample sample = {.crc = i, .bytes = sizeof(float)};
        const float value = (float)i + 0.5F;
        assert_int_equal(write(fd, &sample, sizeof sample), sizeof sample);
        assert_int_equal(write(fd, &value, sizeof value), sizeof value);
    }
    return fd;
}

static void add_series(both *s)
{
    for (int i = 0; i < SERIES; i++)
        es_assert_ok(es_esf_index_add_series(s->index, i + 1, 1 + i % RUNS,
                                             sizeof(float)));
}

static void open_state(both *s)
{
    static const char *const sql[] = {
        "SELECT step, crc, value FROM sample WHERE series_id = ?1 AND step"
        " BETWEEN ?2 AND ?3 ORDER BY step",
        "SELECT step, crc, value FROM sample WHERE series_id = ?1 AND step"
        " BETWEEN ?2 AND ?3 ORDER BY step DESC",
        "SELECT series_id, step, crc FROM sample"};
    sqlite3_stmt **out[] = {&s->up, &s->down, &s->all};
    *s = (both){.random = 88172645463325252u};
    assert_int_equal(sqlite3_open(":memory:", &s->database.handle), SQLITE_OK);
    es_assert_ok(es_esf_index_make(&s->index, &s->database));
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            sqlite3_prepare_v2(s->database.handle, sql[i], -1, out[i], NULL),
            SQLITE_OK);
    s->fd = make_records(run_db);
    es_esf_index_set_file(s->index, s->fd);
    add_series(s);
}

static void close_state(both *s)
{
    sqlite3_finalize(s->up);
    sqlite3_finalize(s->down);
    sqlite3_finalize(s->all);
    assert_int_equal(sqlite3_close(s->database.handle), SQLITE_OK);
    close(s->fd);
}

static int chance(both *s, int n)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (int)(s->random % (uint64_t)n);
}

/* --- operations on index and list ----------------------------------------- */

static void put(both *s, int series, int step, int record)
{
    es_assert_ok(
        es_esf_index_put(s->index, series + 1, step, place_of(record)));
    s->now.record[series][step] = record;
}

static void cut(both *s, int run, int step)
{
    es_assert_ok(es_esf_index_cut(s->index, run, step));
    for (int i = 0; i < SERIES; i++)
        for (int k = step; 1 + i % RUNS == run && k < STEPS; k++)
            s->now.record[i][k] = 0;
}

static void clear(both *s)
{
    es_esf_index_clear(s->index);
    add_series(s);
    s->now = (plain_list){0};
}

static void commit(both *s)
{
    es_esf_index_commit(s->index);
    s->committed = s->now;
}

static void roll_back(both *s)
{
    es_esf_index_roll_back(s->index);
    s->now = s->committed;
}

static void check_range(both *s, int series, int from, int to, bool down)
{
    sqlite3_stmt *rows = down ? s->down : s->up;
    sqlite3_bind_int(rows, 1, series + 1);
    sqlite3_bind_int(rows, 2, from);
    sqlite3_bind_int(rows, 3, to);
    for (int i = 0; i < STEPS; i++) {
        const int step = down ? STEPS - 1 - i : i;
        const int record = s->now.record[series][step];
        if (!record || step < from || step > to)
            continue;
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(rows, 0), step);
        assert_int_equal(sqlite3_column_int(rows, 1), record);
        assert_int_equal(sqlite3_column_bytes(rows, 2), sizeof(float));
        float value;
        memcpy(&value, sqlite3_column_blob(rows, 2), sizeof value);
        assert_true(value == (float)record + 0.5F);
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    sqlite3_reset(rows);
}

static void check_all(both *s)
{
    for (int i = 0; i < SERIES * STEPS; i++) {
        const int record = s->now.record[i / STEPS][i % STEPS];
        if (!record)
            continue;
        assert_int_equal(sqlite3_step(s->all), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(s->all, 0), 1 + i / STEPS);
        assert_int_equal(sqlite3_column_int(s->all, 1), i % STEPS);
        assert_int_equal(sqlite3_column_int(s->all, 2), record);
    }
    assert_int_equal(sqlite3_step(s->all), SQLITE_DONE);
    sqlite3_reset(s->all);
}

/* --- tests ---------------------------------------------------------------- */

TEST(operations_in_any_order_match_a_plain_list)
{
    both s;
    int record = 0, n_cleared = 0;
    open_state(&s);
    while (record + 1 < RECORDS) {
        const int kind = chance(&s, 100);
        if (kind < 60)
            put(&s, chance(&s, SERIES), chance(&s, STEPS), ++record);
        else if (kind < 66)
            cut(&s, 1 + chance(&s, RUNS), chance(&s, STEPS));
        else if (kind < 76)
            commit(&s);
        else if (kind < 82)
            roll_back(&s);
        else if (kind < 83 && ++n_cleared)
            clear(&s);
        else if (kind < 97)
            check_range(&s, chance(&s, SERIES), chance(&s, STEPS) - 1,
                        chance(&s, STEPS + 1), kind % 2);
        else
            check_all(&s);
    }
    assert_true(n_cleared > 10);
    close_state(&s);
}

TEST(a_scan_continues_after_the_index_has_changed)
{
    both s;
    open_state(&s);
    for (int step = 0; step < 20; step++)
        put(&s, 0, step, step + 1);
    commit(&s);
    sqlite3_bind_int(s.up, 1, 1);
    sqlite3_bind_int(s.up, 2, 0);
    sqlite3_bind_int(s.up, 3, STEPS);
    for (int step = 0; step < 5; step++)
        assert_int_equal(sqlite3_step(s.up), SQLITE_ROW);
    clear(&s);
    for (int step = 8; step < 12; step++)
        put(&s, 0, step, 100 + step);
    commit(&s);
    for (int step = 8; step < 12; step++) {
        assert_int_equal(sqlite3_step(s.up), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(s.up, 0), step);
        assert_int_equal(sqlite3_column_int(s.up, 1), 100 + step);
    }
    assert_int_equal(sqlite3_step(s.up), SQLITE_DONE);
    close_state(&s);
}

TEST(a_value_missing_from_the_file_is_null)
{
    both s;
    open_state(&s);
    put(&s, 2, 3, 10);
    put(&s, 2, 4, 20);
    commit(&s);
    assert_int_equal(ftruncate(s.fd, place_of(20) + 2), 0);
    sqlite3_bind_int(s.up, 1, 3);
    sqlite3_bind_int(s.up, 2, 0);
    sqlite3_bind_int(s.up, 3, STEPS);
    assert_int_equal(sqlite3_step(s.up), SQLITE_ROW);
    assert_int_equal(sqlite3_column_type(s.up, 2), SQLITE_BLOB);
    assert_int_equal(sqlite3_step(s.up), SQLITE_ROW);
    assert_int_equal(sqlite3_column_type(s.up, 2), SQLITE_NULL);
    sqlite3_reset(s.up);
    es_esf_index_set_file(s.index, -1);
    assert_int_equal(sqlite3_step(s.up), SQLITE_ROW);
    assert_int_equal(sqlite3_column_type(s.up, 2), SQLITE_NULL);
    close_state(&s);
}

TEST_EACH(es_folder_make, es_folder_remove)
