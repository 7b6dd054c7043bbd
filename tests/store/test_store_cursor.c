/**
 * Tests cursors, which return samples in order of step, for various ranges of
 * steps.
 */
#include "tests/support/test.h"

TEST(one_series_is_streamed)
{
    es_write_run(run_db, "x", 200);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_series s;
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    AUTO(es_cursor) c = es_open_cursor(r, &s);
    int64_t step;
    const float *values;
    for (int64_t i = 0; i < 200; i++) {
        es_assert_ok(es_cursor_next(c, &step, &values));
        assert_int_equal(step, 2 * i);
        assert_int_equal((uintptr_t)values % sizeof(float), 0);
        es_assert_values(values, s.id, step, 6);
    }
    assert_int_equal(es_cursor_next(c, &step, &values), ES_DONE);
    assert_int_equal(es_cursor_next(c, &step, &values), ES_DONE);
}

/**
 * Returns the number of samples that a cursor over the steps from..to returns,
 * and sets the first and last of their steps.
 */
static int64_t count(es_reader *r, const es_series *s, int64_t from, int64_t to,
                     int64_t *first, int64_t *last)
{
    es_cursor *c = NULL;
    const float *values;
    int64_t n = 0, step;
    es_status status;
    es_assert_ok(es_cursor_open(&c, r, s, from, to));
    for (; (status = es_cursor_next(c, &step, &values)) == ES_OK; n++) {
        if (n == 0)
            *first = step;
        *last = step;
    }
    assert_int_equal(status, ES_DONE);
    es_cursor_close(c);
    return n;
}

TEST(ranges_are_inclusive)
{
    es_write_run(run_db, "x", 50);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_series s;
    int64_t first = -1, last = -1;
    es_assert_ok(es_reader_find(r, 0, "alpha", ES_PHASE_TRAIN, &s));
    assert_int_equal(count(r, &s, 10, 20, &first, &last), 6);
    assert_int_equal(first, 10);
    assert_int_equal(last, 20);
    assert_int_equal(count(r, &s, 11, 19, &first, &last), 4);
    assert_int_equal(first, 12);
    assert_int_equal(last, 18);
    assert_int_equal(count(r, &s, 98, ES_STEP_LAST, &first, &last), 1);
    assert_int_equal(count(r, &s, ES_STEP_FIRST, 0, &first, &last), 1);
    assert_int_equal(count(r, &s, 99, 99, &first, &last), 0);
    assert_int_equal(count(r, &s, 20, 10, &first, &last), 0);
    assert_int_equal(count(r, &s, -5, -1, &first, &last), 0);
}

TEST(a_run_is_streamed_in_order_of_step_and_series)
{
    es_write_run(run_db, "x", 25);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_cursor *c = NULL;
    es_assert_ok(es_cursor_open_run(&c, r, 0));
    static const char *const order[] = {"alpha", "entropy", "loss", "loss"};
    int64_t step;
    const float *values;
    es_series s;
    for (int64_t i = 0; i < 25; i++) {
        for (int k = 0; k < (i % 10 == 0 ? 4 : 3); k++) {
            es_assert_ok(es_cursor_next_of_run(c, &step, &values, &s));
            assert_int_equal(step, 2 * i);
            assert_string_equal(s.name, order[k]);
            assert_int_equal(s.phase, k == 3 ? ES_PHASE_EVAL : ES_PHASE_TRAIN);
            es_assert_values(values, s.id, step, s.n_values);
        }
    }
    assert_int_equal(es_cursor_next_of_run(c, &step, &values, &s), ES_DONE);
    es_assert_status(ES_EARGUMENT, "all series of a run",
                     es_cursor_next(c, &step, &values));
    es_cursor_close(c);
    es_assert_status(ES_EARGUMENT, "no run with index 1",
                     es_cursor_open_run(&c, r, 1));
    assert_null(c);
}

TEST_EACH(es_folder_make, es_folder_remove)
