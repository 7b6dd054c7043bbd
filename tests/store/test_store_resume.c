/**
 * Tests resuming runs, and that events with the same dedupe key are stored only
 * once.
 */
#include "tests/support/test.h"

TEST(events_are_deduplicated_by_run)
{
    int64_t first, second;
    es_run_info info = es_run_of(2, 3);
    es_event event = {.step = 8,
                      .kind = "nan",
                      .severity = ES_SEVERITY_CRITICAL,
                      .layer = ES_UNKNOWN,
                      .head = ES_UNKNOWN,
                      .message = "first",
                      .data = "[1,2]",
                      .dedupe = "nan/8"};
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &first, &info, 0));
    es_assert_ok(es_writer_run(w, &second, &info, 0));
    es_assert_ok(es_writer_event(w, first, &event));
    event.message = "again";
    es_assert_ok(es_writer_event(w, first, &event));
    es_assert_ok(es_writer_event(w, second, &event));
    event.dedupe = NULL;
    event.step = ES_UNKNOWN;
    event.at = "2020-01-02T03:04:05.678Z";
    es_assert_ok(es_writer_event(w, first, &event));
    es_assert_ok(es_writer_event(w, first, &event));
    es_assert_ok(es_writer_close(w));
    const es_event *events;
    size_t n;
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 3);
    assert_true(events[0].step == ES_UNKNOWN);
    assert_string_equal(events[0].at, "2020-01-02T03:04:05.678Z");
    assert_null(events[0].dedupe);
    assert_string_equal(events[2].message, "first");
    assert_string_equal(events[2].data, "[1,2]");
    assert_string_equal(events[2].dedupe, "nan/8");
    es_assert_ok(es_reader_events(r, 1, &events, &n));
    assert_int_equal(n, 1);
    assert_string_equal(events[0].message, "again");
}

#define UUID "00000000-1111-4222-8333-444444444444"

/**
 * Writes steps 0..n-1 of the run with the uuid UUID and an event at each step,
 * and ends the run with the status stopped.
 */
static void write_part(const char *path, int64_t n)
{
    int64_t run, series;
    es_run_info info = es_run_of(2, 3);
    info.uuid = UUID;
    info.config = "{\"steps\":10}";
    info.program = "first";
    es_writer *w = es_open_writer(path);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    for (int64_t i = 0; i < n; i++) {
        es_assert_ok(es_write_values(w, series, i, 6));
        es_assert_ok(
            es_writer_event(w, run, &(es_event){.step = i, .kind = "x"}));
    }
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_STOPPED));
    es_assert_ok(es_writer_close(w));
}

TEST(resuming_deletes_from_its_step_on)
{
    int64_t run, again, series, n;
    size_t n_events;
    const es_event *events;
    write_part(run_db, 10);
    es_write_run(run_db, "other", 30);
    es_run_info info = es_run_of(2, 3), back;
    info.uuid = UUID;
    info.name = "renamed";
    info.config = "{\"steps\":20}";
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &run, &info, 6));
    es_assert_ok(es_writer_run(w, &again, &info, 6));
    assert_int_equal(run, again);
    es_assert_ok(es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_int_equal(es_reader_n_runs(r), 2);
    assert_int_equal(s.first_step, 0);
    assert_int_equal(s.last_step, 5);
    es_assert_ok(es_reader_events(r, 0, &events, &n_events));
    assert_int_equal(n_events, 6);
    es_assert_ok(es_reader_run(r, 0, &back));
    assert_int_equal(back.last_step, 5);
    assert_int_equal(back.status, ES_RUN_RUNNING);
    assert_null(back.ended_at);
    assert_string_equal(back.name, "test");
    assert_string_equal(back.config, "{\"steps\":20}");
    assert_string_equal(back.program, "first");
    es_assert_ok(es_reader_find(r, 1, "entropy", ES_PHASE_TRAIN, &s));
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 30);
}

TEST(a_run_resumed_without_a_configuration_keeps_its_own)
{
    int64_t run;
    es_run_info info = es_run_of(2, 3);
    info.uuid = UUID;
    write_part(run_db, 3);
    es_writer *w = es_open_writer(run_db);
    setenv(ES_RUN_CONFIG_VARIABLE, "{\"lr\":1}", 1);
    es_assert_ok(es_writer_run(w, &run, &info, 3));
    unsetenv(ES_RUN_CONFIG_VARIABLE);
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "SELECT config FROM run"),
                        "{\"steps\":10}");
}

TEST(a_run_resumes_from_its_start_or_beyond_its_end)
{
    int64_t run;
    es_run_info info = es_run_of(2, 3), back;
    info.uuid = UUID;
    write_part(run_db, 10);
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &run, &info, 1000));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_int_equal(s.last_step, 9);
    es_reader_close(r);
    w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_close(w));
    r = es_open_series(run_db, "entropy", &s);
    assert_true(s.last_step == ES_UNKNOWN);
    es_assert_ok(es_reader_run(r, 0, &back));
    assert_true(back.last_step == ES_UNKNOWN);
}

TEST(a_run_of_another_shape_is_not_resumed)
{
    int64_t run;
    /* the same total number of heads as the stored run, but a different number
     * of layers */
    es_run_info info = es_run_of(3, 2);
    info.uuid = UUID;
    write_part(run_db, 10);
    es_writer *w = es_open_writer(run_db);
    es_assert_status(ES_EFORMAT, "2 layers of 3 heads, not 3 of 2",
                     es_writer_run(w, &run, &info, 6));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_int_equal(s.last_step, 9);
    es_run_info back;
    es_assert_ok(es_reader_run(r, 0, &back));
    assert_int_equal(back.status, ES_RUN_STOPPED);
}

TEST(a_vacuumed_file_can_be_continued)
{
    int64_t run, series, n;
    es_run_info info = es_run_of(2, 3);
    info.uuid = UUID;
    write_part(run_db, 10);
    assert_string_equal(es_sqlite(run_db, "VACUUM"), "");
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &run, &info, 5));
    es_assert_ok(es_writer_series(w, &series, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    for (int64_t i = 3; i < 20; i++)
        es_assert_ok(es_write_values(w, series, i, 6));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 20);
}

TEST_EACH(es_folder_make, es_folder_remove)
