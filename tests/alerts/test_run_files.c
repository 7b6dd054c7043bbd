/* Looking at run files again and again: what a change of them may not hide. */
#include "tests/support/cmocka_all.h"

#include "cli/alerts/watch/watcher.h"
#include "tests/support/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { L = 3, H = 2, LONG = 100, SHORT = 8 };

static es_status take(void *user, const es_alert *alert)
{
    size_t *n = user;
    *n += strcmp(alert->title, "collapse") == 0;
    return ES_OK;
}

/* Entropies of a run that collapses at step `low`; it stays open. */
static es_recorded write_run(const char *path, int64_t n_steps, int64_t low)
{
    es_run_info info = es_run_of(L, H);
    info.ctx = 8;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < n_steps; step++)
        es_record_all(&to, "entropy", step, step < low ? 0.7f : 0.001f);
    return to;
}

static es_watch_files files_of(char *const *paths, size_t n_paths,
                               size_t *n_reported)
{
    return (es_watch_files){.roots = paths,
                            .n_roots = n_paths,
                            .state = "none.db",
                            .least = ES_SEVERITY_ERROR,
                            .handler = take,
                            .user = n_reported};
}

/* Of one that is being written the whole is judged now and then: as soon as
 * it is another, whatever the length of the one before. */
static void test_look__a_shorter_run_in_the_same_place(void **state)
{
    char *const path = es_folder_file(state, "run.db");
    size_t n_reported = 0;
    es_watch_files look = files_of(&path, 1, &n_reported);
    es_recorded first = write_run(path, LONG, LONG);
    es_assert_ok(es_watch_files_read(&look));
    assert_int_equal(look.n_read, 1);
    es_record_close(&first);
    assert_int_equal(unlink(path), 0);
    es_recorded second = write_run(path, SHORT, 4);
    es_assert_ok(es_watch_files_read(&look));
    assert_int_equal(n_reported, 1);
    es_record_close(&second);
    es_watch_files_close(&look);
}

static void write_two_runs(const char *path)
{
    const es_run_info info = es_run_of(L, H);
    es_run_info second = info;
    second.name = "second";
    second.ctx = 8;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < SHORT; step++)
        es_record_value(&to, "odd", step, 1);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_run(&to, &second);
    for (int64_t step = 0; step < SHORT; step++)
        es_record_all(&to, "entropy", step, step < 4 ? 0.7f : 0.001f);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
}

/* A rule that does not fit the first run of a file is reported, and the second
 * one is judged. */
static void test_look__a_rule_that_fits_one_run_of_two(void **state)
{
    static const char text[] =
        "[rule odd]\nseries = odd\nabove = 2\naggregate = head\n";
    char *const path = es_folder_file(state, "two.db");
    size_t n_reported = 0;
    es_rules_file rules;
    es_watch_files look = files_of(&path, 1, &n_reported);
    write_two_runs(path);
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, sizeof text - 1));
    look.rules = &rules;
    es_assert_ok(es_watch_files_read(&look));
    assert_int_equal(n_reported, 1);
    assert_int_equal(look.n_failed, 1);
    assert_non_null(strstr(es_message(), "rule odd: aggregate head"));
    es_watch_files_close(&look);
    es_rules_file_free(&rules);
}

/* A name that changed would have everything reported again. */
static void test_look__a_state_has_the_name_it_always_had(void **state)
{
    char name[ES_STATE_NAME_MAX], other[ES_STATE_NAME_MAX];
    (void)state;
    es_state_name(name, "node7", "/data/runs");
    assert_string_equal(name, "runs-6bf27db068f75a45cbebc0d7.state");
    es_state_name(other, "node8", "/data/runs");
    assert_string_not_equal(name, other);
    es_state_name(other, "node7", "/home/runs");
    assert_string_not_equal(name, other);
    es_state_name(name, "node7", "/");
    assert_string_equal(name, "root-6bf27db0af63a249fd1c9b9a.state");
    es_state_name(name, "node7",
                  "/.a b\n\x1b[31m/.0123456789/.\xc3\xa4 "
                  "0123456789012345678901234567890123456789");
    assert_string_equal(name, "____012345678901234567890123456789012345"
                              "-6bf27db042a0a8a7c07bd863.state");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_look__a_shorter_run_in_the_same_place, es_folder_make,
            es_folder_remove),
        cmocka_unit_test_setup_teardown(
            test_look__a_rule_that_fits_one_run_of_two, es_folder_make,
            es_folder_remove),
        cmocka_unit_test(test_look__a_state_has_the_name_it_always_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
