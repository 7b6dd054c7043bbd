/**
 * Tests the names, sizes and standard series of runs, and the uuids and time
 * stamps that new runs get.
 */
#include "store/run.h"
#include "tests/support/test.h"

#include <ctype.h>
#include <time.h>

TEST(every_value_has_a_name)
{
    assert_string_equal(es_run_status_name(ES_RUN_RUNNING), "running");
    assert_string_equal(es_run_status_name(ES_RUN_FINISHED), "finished");
    assert_string_equal(es_run_status_name(ES_RUN_FAILED), "failed");
    assert_string_equal(es_run_status_name(ES_RUN_STOPPED), "stopped");
    assert_string_equal(es_shape_name(ES_SHAPE_RUN), "run");
    assert_string_equal(es_shape_name(ES_SHAPE_LAYER), "layer");
    assert_string_equal(es_shape_name(ES_SHAPE_HEAD), "head");
    assert_string_equal(es_phase_name(ES_PHASE_TRAIN), "train");
    assert_string_equal(es_phase_name(ES_PHASE_EVAL), "eval");
    assert_string_equal(es_shape_name((es_shape)7), "unknown");
}

TEST(a_shape_has_its_number_of_values)
{
    assert_int_equal(es_shape_values(ES_SHAPE_RUN, 5, 7), 1);
    assert_int_equal(es_shape_values(ES_SHAPE_LAYER, 5, 7), 5);
    assert_int_equal(es_shape_values(ES_SHAPE_HEAD, 5, 7), 35);
    assert_int_equal(es_shape_values(ES_SHAPE_HEAD, 4096, 256), ES_MAX_VALUES);
}

TEST(standard_series_have_shape_and_unit)
{
    es_shape shape;
    const char *unit;
    assert_int_equal(es_series_standard(&shape, &unit, "entropy"), 1);
    assert_int_equal(shape, ES_SHAPE_HEAD);
    assert_string_equal(unit, "nats");
    assert_int_equal(es_series_standard(&shape, &unit, "slope"), 1);
    assert_int_equal(shape, ES_SHAPE_LAYER);
    assert_int_equal(es_series_standard(&shape, &unit, "loss"), 1);
    assert_int_equal(shape, ES_SHAPE_RUN);
    shape = ES_SHAPE_HEAD;
    assert_int_equal(es_series_standard(&shape, &unit, "entrop"), 0);
    assert_int_equal(shape, ES_SHAPE_RUN);
    assert_string_equal(unit, "");
}

TEST(members_end_in_a_number)
{
    assert_true(es_series_is_member("t.0") && es_series_is_member("g_fc.127"));
    assert_false(es_series_is_member("t_mean") || es_series_is_member("t.") ||
                 es_series_is_member(".5") || es_series_is_member("a.5b") ||
                 es_series_is_member("cost.softmax.bytes"));
}

TEST(uuids_are_version_4_and_new)
{
    char a[ES_UUID_SIZE], b[ES_UUID_SIZE];
    es_assert_ok(es_uuid_make(b));
    for (int round = 0; round < 200; round++) {
        es_assert_ok(es_uuid_make(a));
        assert_int_equal(strlen(a), 36);
        for (int i = 0; i < 36; i++) {
            if (i == 8 || i == 13 || i == 18 || i == 23)
                assert_int_equal(a[i], '-');
            else
                assert_true(isxdigit((unsigned char)a[i]) && !isupper(a[i]));
        }
        assert_int_equal(a[14], '4');
        assert_non_null(strchr("89ab", a[19]));
        assert_string_not_equal(a, b);
        memcpy(b, a, sizeof a);
    }
}

TEST(uuids_are_recognised)
{
    char made[ES_UUID_SIZE];
    es_assert_ok(es_uuid_make(made));
    assert_true(es_uuid_is(made));
    assert_true(es_uuid_is("12345678-ABCD-4234-8234-123456789abc"));
    assert_false(es_uuid_is(""));
    assert_false(es_uuid_is("12345678-ABCD-4234-8234-123456789ab"));
    assert_false(es_uuid_is("12345678-ABCD-4234-8234-123456789abcd"));
    assert_false(es_uuid_is("12345678-ABCG-4234-8234-123456789abc"));
}

TEST(time_is_now_in_utc)
{
    char text[ES_TIME_SIZE];
    struct tm parsed = {0};
    /* Uses clock_gettime(), because time() may lag behind by one tick of the
       kernel. */
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME, &before);
    es_time_now(text);
    clock_gettime(CLOCK_REALTIME, &after);
    char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parsed);
    assert_non_null(rest);
    assert_int_equal(rest[0], '.');
    assert_int_equal(strlen(rest), 5);
    assert_int_equal(rest[4], 'Z');
    time_t then = timegm(&parsed);
    assert_true(then >= before.tv_sec && then <= after.tv_sec);
}
