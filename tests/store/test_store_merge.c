/**
 * Tests merging run files: every run is copied bit for bit, and a run that
 * occurs in several files is copied only once.
 */
#include "store/merge.h"
#include "store/run_row.h"
#include "tests/support/same_run.h"
#include "tests/support/test.h"

/**
 * Merges the file `from` into the file `to` and returns the status of es_merge.
 */
static es_status merge(const char *to, const char *from, size_t *n_copied,
                       size_t *n_skipped)
{
    es_writer *w = es_open_writer(to);
    es_reader *r = es_open_reader(from);
    es_status status = es_merge(w, r, n_copied, n_skipped, NULL);
    es_reader_close(r);
    es_assert_ok(es_writer_close(w));
    return status;
}

TEST(every_bit_is_copied_once)
{
    const char *first = es_folder_file(state, "first.db");
    const char *second = es_folder_file(state, "second.db");
    const char *all = es_folder_file(state, "all.db");
    size_t copied = 0, skipped = 0;
    es_write_run(first, "a", 30);
    es_write_run(first, "b", 1);
    es_write_run(second, "c", 200);
    es_assert_ok(merge(all, first, &copied, &skipped));
    es_assert_ok(merge(all, second, &copied, &skipped));
    assert_int_equal(copied, 3);
    assert_int_equal(skipped, 0);
    es_assert_ok(merge(all, first, &copied, &skipped));
    es_assert_ok(merge(all, all, &copied, &skipped));
    assert_int_equal(copied, 3);
    assert_int_equal(skipped, 2 + 3);
    es_reader *x = es_open_reader(first), *y = es_open_reader(second);
    es_reader *z = es_open_reader(all);
    assert_int_equal(es_reader_n_runs(z), 3);
    es_assert_same_run(x, 0, z, 0);
    es_assert_same_run(x, 1, z, 1);
    es_assert_same_run(y, 0, z, 2);
    es_reader_close(x);
    es_reader_close(y);
    es_reader_close(z);
    assert_string_equal(es_sqlite(all, "PRAGMA integrity_check"), "ok");
}

TEST(empty_series_and_runs_are_copied)
{
    const char *from = es_folder_file(state, "from.db");
    const char *to = es_folder_file(state, "to.db");
    int64_t run, series;
    es_run_info info = es_run_of(1, 1);
    size_t copied = 0, skipped = 0;
    es_writer *w = es_open_writer(from);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &series, run, "my own", ES_SHAPE_LAYER,
                                  ES_PHASE_EVAL, "furlongs"));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_close(w));
    es_assert_ok(merge(to, from, &copied, &skipped));
    assert_int_equal(copied, 2);
    es_reader *a = es_open_reader(from), *b = es_open_reader(to);
    es_assert_same_run(a, 0, b, 0);
    es_assert_same_run(a, 1, b, 1);
    es_series s;
    es_assert_ok(es_reader_find(b, 0, "my own", ES_PHASE_EVAL, &s));
    assert_string_equal(s.unit, "furlongs");
    assert_true(s.last_step == ES_UNKNOWN);
    es_reader_close(a);
    es_reader_close(b);
}

TEST(a_damaged_run_is_not_copied_in_part)
{
    const char *from = es_folder_file(state, "from.db");
    const char *to = es_folder_file(state, "to.db");
    size_t copied = 0, skipped = 0;
    es_write_run(from, "good", 10);
    es_write_run(from, "bad", 10);
    es_write_run(from, "never", 10);
    es_make_schema_1(from);
    es_sqlite(from, "UPDATE sample SET value = x'00' WHERE step = 18 AND"
                    " series_id IN (SELECT series_id FROM series, run"
                    " USING(run_id) WHERE run.name = 'bad')");
    es_assert_status(ES_EFORMAT, "step 18 has 1 bytes",
                     merge(to, from, &copied, &skipped));
    assert_int_equal(copied, 1);
    es_reader *r = es_open_reader(to);
    assert_int_equal(es_reader_n_runs(r), 1);
    es_reader_close(r);
    assert_string_equal(es_sqlite(to, "SELECT count(*) FROM series"), "4");
}

TEST(a_merge_within_a_transaction_is_refused)
{
    const char *from = es_folder_file(state, "from.db");
    size_t copied = 0, skipped = 0;
    es_write_run(from, "x", 1);
    AUTO(es_reader) r = es_open_reader(from);
    es_writer *w = es_open_writer(es_folder_file(state, "to.db"));
    es_assert_ok(es_writer_begin(w));
    es_assert_status(ES_EARGUMENT, "begin within",
                     es_merge(w, r, &copied, &skipped, NULL));
    es_writer_abandon(w);
}

/* --- a row for plain SQL --------------------------------------------------*/

static void put_row(es_writer *w, const char *uuid, float loss, float ppl)
{
    const es_run_row row = {.step = 7,
                            .loss = loss,
                            .ppl = ppl,
                            .eval_loss = INFINITY,
                            .eval_ppl = 0,
                            .ceiling = NAN,
                            .largest = 2.5,
                            .bands = {{1, 2, 3, 4}, 5, 0, 15},
                            .severity = ES_SEVERITY_ERROR,
                            .flags = "nan"};
    es_assert_ok(es_writer_run_row(w, uuid, &row));
}

/* In the table `summary`, NaN, missing and zero must stay distinct. */
TEST(a_run_has_a_row_for_plain_sql)
{
    const char *path = es_folder_file(state, "row.db");
    es_write_run(path, "a", 3);
    char uuid[64];
    snprintf(uuid, sizeof uuid, "%s", es_sqlite(path, "SELECT uuid FROM run"));
    es_writer *w = es_open_writer(path);
    put_row(w, uuid, 1, 1);
    put_row(w, uuid, NAN, es_missing());
    const es_run_row row = {.flags = "ok"};
    es_assert_status(
        ES_ENOTFOUND, "has no run",
        es_writer_run_row(w, "01234567-89ab-4def-8123-456789abcdef", &row));
    es_assert_ok(es_writer_close(w));
    assert_string_equal(
        es_sqlite(path, "SELECT step, loss, ppl IS NULL, eval_loss, eval_ppl, "
                        "ceiling IS NULL, largest, heads, lowest, lower, "
                        "upper, highest, nonfinite, severity, flags "
                        "FROM summary JOIN run USING(run_id)"),
        "7|NaN|1|inf|0.0|1|2.5|15|1|2|3|4|5|3|nan");
    assert_string_equal(
        es_sqlite(path, "SELECT count(*) FROM summary WHERE loss < 1e30"), "0");
    AUTO(es_reader) r = es_open_reader(path);
    assert_int_equal(es_reader_n_runs(r), 1);
}

TEST_EACH(es_folder_make, es_folder_remove)
