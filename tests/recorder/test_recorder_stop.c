/* Tests that a file RUN.db.stop stops the training run that is being recorded,
 * but not a later run. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

static void request(const char *name, const char *text)
{
    AUTO(FILE) file = fopen(recording_path(name), "w");
    assert_non_null(file);
    fputs(text, file);
}

static bool is_requested(const char *path)
{
    char file[4096];
    snprintf(file, sizeof file, "%s.stop", path);
    return access(file, F_OK) == 0;
}

/* Pushes frames until the recorder has checked for a stop file. Each push wakes
 * the sleeping recorder, which then checks. */
static void push_until_it_looks(es_recorder *recorder, const int series[4])
{
    recording_await_rest(recorder);
    es_assert_ok(recording_push(recorder, series, 0, 0));
    recording_await_committed(recorder, 1);
}

TEST(a_stop_file_reaches_the_trainer)
{
    const char *path = recording_path("stop.db");
    es_recorder *recorder = recording_open(path);
    int series[4];
    char message[256];
    recording_declare(recorder, series);
    push_until_it_looks(recorder, series);
    assert_false(es_recorder_stop_requested(recorder));
    request("stop.db.stop", "out\x1b of time\nmore\n");
    int64_t step = 1;
    es_await(recording_push(recorder, series, 0, step++) == ES_OK &&
             es_recorder_stop_requested(recorder));
    es_assert_ok(es_recorder_close(recorder, ES_RUN_STOPPED, NULL));
    assert_int_equal(recording_status(path), ES_RUN_STOPPED);
    assert_int_equal(recording_check(path, 0, 0), step);
    assert_true(recording_event(path, "stop", message, NULL));
    assert_string_equal(message, "out? of time");
    assert_false(is_requested(path));
}

/** A stop file that existed before the training run began must not stop the
 *  run. */
TEST(an_old_request_is_ignored)
{
    const char *path = recording_path("old.db");
    request("old.db.stop", "a run that crashed\n");
    es_recorder *recorder = recording_open(path);
    int series[4];
    recording_declare(recorder, series);
    assert_false(is_requested(path));
    push_until_it_looks(recorder, series);
    assert_false(es_recorder_stop_requested(recorder));
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    assert_false(recording_event(path, "stop", NULL, NULL));
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
