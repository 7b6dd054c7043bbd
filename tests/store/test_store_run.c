/** Names, sizes, standard series, uuids and times. */
#include "tests/support/cmocka_all.h"

#include "store/run.h"

#include <ctype.h>
#include <stdlib.h>
#include <time.h>

static void test_store_run__names(void **state)
{
    (void)state;
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

static void test_store_run__values_of_a_shape(void **state)
{
    (void)state;
    assert_int_equal(es_shape_values(ES_SHAPE_RUN, 5, 7), 1);
    assert_int_equal(es_shape_values(ES_SHAPE_LAYER, 5, 7), 5);
    assert_int_equal(es_shape_values(ES_SHAPE_HEAD, 5, 7), 35);
    assert_int_equal(es_shape_values(ES_SHAPE_HEAD, 4096, 256), ES_MAX_VALUES);
}

static void test_store_run__standard_series(void **state)
{
    (void)state;
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

static void test_store_run__uuids_are_version_4_and_new(void **state)
{
    (void)state;
    char a[ES_UUID_SIZE], b[ES_UUID_SIZE];
    assert_int_equal(es_uuid_make(b), ES_OK);
    for (int round = 0; round < 200; round++) {
        assert_int_equal(es_uuid_make(a), ES_OK);
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

static void test_store_run__what_is_a_uuid(void **state)
{
    (void)state;
    char made[ES_UUID_SIZE];
    assert_int_equal(es_uuid_make(made), ES_OK);
    assert_true(es_uuid_is(made));
    assert_true(es_uuid_is("12345678-ABCD-4234-8234-123456789abc"));
    assert_false(es_uuid_is(""));
    assert_false(es_uuid_is("12345678-ABCD-4234-8234-123456789ab"));
    assert_false(es_uuid_is("12345678-ABCD-4234-8234-123456789abcd"));
    assert_false(es_uuid_is("12345678-ABCG-4234-8234-123456789abc"));
}

static void test_store_run__time_is_now_in_utc(void **state)
{
    (void)state;
    char text[ES_TIME_SIZE];
    struct tm parsed = {0};
    time_t before = time(NULL);
    es_time_now(text);
    time_t after = time(NULL);
    char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parsed);
    assert_non_null(rest);
    assert_int_equal(rest[0], '.');
    assert_int_equal(strlen(rest), 5);
    assert_int_equal(rest[4], 'Z');
    time_t then = timegm(&parsed);
    assert_true(then >= before && then <= after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_run__names),
        cmocka_unit_test(test_store_run__values_of_a_shape),
        cmocka_unit_test(test_store_run__standard_series),
        cmocka_unit_test(test_store_run__uuids_are_version_4_and_new),
        cmocka_unit_test(test_store_run__what_is_a_uuid),
        cmocka_unit_test(test_store_run__time_is_now_in_utc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
