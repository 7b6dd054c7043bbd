/* Tests a watcher that reads all run files again in every round. No change of a
 * file may hide an alert. */
#include "cli/alerts/watch/watcher.h"
#include "store/esf.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { L = 3, H = 2, LONG = 100, SHORT = 8 };

static es_status take(void *user, const es_alert *alert)
{
    size_t *n = user;
    *n += strcmp(alert->title, "collapse") == 0;
    return ES_OK;
}

/* Writes entropies of a run that collapses at step `low`. The run is not
 * closed, so that more samples can follow. */
static es_recorded write_run(const char *path, int64_t n_steps, int64_t low)
{
    es_run_info info = es_run_of(L, H);
    info.ctx = 8;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < n_steps; step++)
        es_record_all(&to, "entropy", step, step < low ? 0.7f : 0.001f);
    return to;
}

static es_watch_files watch_of(char *const *path, size_t *n_reported)
{
    return (es_watch_files){.roots = path,
                            .n_roots = 1,
                            .state = "none.db",
                            .least = ES_SEVERITY_ERROR,
                            .handler = take,
                            .user = n_reported};
}

/* If a run file is replaced, even by that of a shorter run, the new run is
 * searched for flags from its start. */
TEST(a_shorter_run_in_the_same_place_is_judged)
{
    char *const path = es_folder_file(state, "run.db");
    size_t n_reported = 0;
    es_watch_files watch = watch_of(&path, &n_reported);
    es_recorded first = write_run(path, LONG, LONG);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(watch.n_read, 1);
    es_record_close(&first);
    assert_int_equal(unlink(path), 0);
    es_recorded second = write_run(path, SHORT, 4);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    es_record_close(&second);
    es_watch_files_close(&watch);
}

/* The rule cannot be applied to the first run of the file. This is reported,
 * and the rule is still applied to the second run. */
TEST(a_rule_may_fit_one_run_of_two)
{
    static const char text[] =
        "[rule odd]\nseries = odd\nabove = 2\naggregate = head\n";
    char *const path = es_folder_file(state, "two.db");
    size_t n_reported = 0;
    AUTO_BY(es_rules_file_free) es_rules_file rules;
    es_watch_files watch = watch_of(&path, &n_reported);
    es_run_info info = es_run_of(L, H);
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < SHORT; step++)
        es_record_value(&to, "odd", step, 1);
    es_record_end(&to, ES_RUN_FINISHED);
    info.name = "second";
    info.ctx = 8;
    es_record_run(&to, &info);
    for (int64_t step = 0; step < SHORT; step++)
        es_record_all(&to, "entropy", step, step < 4 ? 0.7f : 0.001f);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, sizeof text - 1));
    watch.rules = &rules;
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    assert_int_equal(watch.n_failed, 1);
    assert_non_null(strstr(es_message(), "rule odd: aggregate head"));
    es_watch_files_close(&watch);
}

static void set_time(const char *path, const struct stat *then)
{
    const struct timespec times[] = {then->st_atim, then->st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The test restores the file's old modification time after each change, because
 * a host that shares a file system may see stale times. */
TEST(an_alert_in_a_fragment_that_grows_is_reported_at_once)
{
    char *const path = es_folder_file(state, "run.esf");
    size_t n_reported = 0;
    es_watch_files watch = watch_of(&path, &n_reported);
    struct stat then;
    es_recorded to = write_run(path, LONG, LONG);
    assert_int_equal(stat(path, &then), 0);
    es_assert_ok(es_watch_files_read(&watch));
    const es_growth *growth = watch.files[0].growth;
    assert_non_null(growth);
    /* A collapse needs three samples of low entropy. A sample in which the
     * entropy of all layers is low counts as two. */
    es_record_all(&to, "entropy", LONG, 0.001f);
    set_time(path, &then);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 0);
    es_record_all(&to, "entropy", LONG + 1, 0.001f);
    set_time(path, &then);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    assert_int_equal(
        watch.files[0].counts[ES_FLAG_COLLAPSE][ES_SEVERITY_CRITICAL], 1);
    assert_ptr_equal(watch.files[0].growth, growth); /* the file was not
                                                        reopened */
    es_record_close(&to);
    es_assert_ok(es_watch_files_read(&watch));
    assert_null(watch.files[0].growth);
    es_watch_files_close(&watch);
}

static es_status count(void *user, const es_alert *alert)
{
    size_t *n = user;
    assert_string_equal(alert->name, "test");
    assert_string_equal(alert->title, "high");
    ++*n;
    return ES_OK;
}

/* Only appended samples are read, even if rules from a file are applied to the
 * run. The fragment is reopened if something other than samples was appended.
 */
TEST(rules_read_only_the_appended_part_of_a_fragment)
{
    static const char text[] =
        "[rule high]\nseries = loss\naggregate = run\nabove = 5\nsamples = 1\n";
    char *const path = es_folder_file(state, "rules.esf");
    size_t n_reported = 0;
    AUTO_BY(es_rules_file_free) es_rules_file rules;
    es_watch_files watch = watch_of(&path, &n_reported);
    const es_run_info info = es_run_of(L, H);
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, sizeof text - 1));
    watch.rules = &rules;
    watch.least = ES_SEVERITY_WARNING;
    watch.handler = count;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 9; step++)
        es_record_value(&to, "loss", step, 2);
    es_assert_ok(es_watch_files_read(&watch));
    const es_growth *growth = watch.files[0].growth;
    assert_non_null(growth);
    es_record_value(&to, "loss", 9, 2);
    es_record_value(&to, "loss", 10, 7);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    assert_int_equal(watch.files[0].of_rules[0], 1);
    es_record_value(&to, "loss", 11, 2);
    es_record_value(&to, "loss", 12, 8);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 2);
    assert_int_equal(watch.files[0].of_rules[0], 2);
    assert_ptr_equal(watch.files[0].growth, growth); /* the file was not
                                                        reopened */
    es_record_value(&to, "lr", 12, 2);
    es_record_value(&to, "loss", 13, 2);
    es_record_value(&to, "loss", 14, 9);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 3);
    es_record_close(&to);
    es_watch_files_close(&watch);
}

/* The run ends with a sample of low entropy, which counts as a collapse only at
 * the end of a run. The run must not be treated as ended while its writer
 * lives, nor within half a minute of its last heartbeat. */
static void assert_judged_when_it_dies(char *path, const es_rules_file *rules)
{
    size_t n_reported = 0;
    struct stat before;
    es_watch_files watch = watch_of(&path, &n_reported);
    watch.rules = rules;
    es_recorded to = write_run(path, 1, 0);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(stat(path, &before), 0);
    es_writer_abandon(to.writer);
    assert_int_equal(truncate(path, before.st_size), 0); /* simulates a writer
                                                            that was killed */
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 0);
    es_esf_shift_clock(ES_ESF_SILENT_MS + 5000);
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    const es_growth *growth = watch.files[0].growth;
    es_assert_ok(es_watch_files_read(&watch));
    assert_ptr_equal(watch.files[0].growth, growth); /* the file was not
                                                        reopened */
    es_esf_shift_clock(0);
    es_watch_files_close(&watch);
}

TEST(a_fragment_whose_writer_died_is_judged_as_ended)
{
    static const char text[] = "[collapse]\nsamples = 3\n";
    AUTO_BY(es_rules_file_free) es_rules_file rules;
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, sizeof text - 1));
    assert_judged_when_it_dies(es_folder_file(state, "dead.esf"), NULL);
    assert_judged_when_it_dies(es_folder_file(state, "ruled.esf"), &rules);
}

/* The names of state files must not change between versions, because all alerts
 * would then be reported again. */
TEST(a_state_keeps_its_name_across_versions)
{
    static const char *const cases[][3] = {
        {"node7", "/data/runs", "runs-6bf27db068f75a45cbebc0d7.state"},
        {"node8", "/data/runs", NULL}, /* any name that differs from the name in
                                          the first case */
        {"node7", "/home/runs", NULL},
        {"node7", "/", "root-6bf27db0af63a249fd1c9b9a.state"},
        {"node7",
         "/.a b\n\x1b[31m/.0123456789/.\xc3\xa4 "
         "0123456789012345678901234567890123456789",
         "____012345678901234567890123456789012345"
         "-6bf27db042a0a8a7c07bd863.state"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[ES_STATE_NAME_MAX];
        es_state_name(name, cases[i][0], cases[i][1]);
        if (cases[i][2])
            assert_string_equal(name, cases[i][2]);
        else
            assert_string_not_equal(name, cases[0][2]);
    }
}

/* A fragment with a long tail of bytes that are not frames does not delay the
 * other files. Each round continues to search the tail for frames where the
 * previous round stopped. */
TEST(a_long_tail_does_not_delay_other_files)
{
    enum { MIB = 1 << 20, TAIL = 24 };
    static unsigned char other[MIB];
    char *const roots[] = {es_folder_file(state, "long.esf"),
                           es_folder_file(state, "other.db")};
    size_t n_reported = 0;
    es_watch_files watch = watch_of(roots, &n_reported);
    watch.n_roots = 2;
    es_recorded damaged = write_run(roots[0], SHORT, SHORT);
    es_recorded good = write_run(roots[1], SHORT, 4);
    es_record_close(&good); /* ends the run, so that the first round reports its
                               collapse */
    memset(other, 0x5a, sizeof other);
    AUTO(FILE) file = fopen(roots[0], "a");
    assert_non_null(file);
    for (int i = 0; i < TAIL; i++)
        assert_int_equal(fwrite(other, 1, sizeof other, file), sizeof other);
    assert_int_equal(fflush(file), 0);
    const long long before = es_bytes_read();
    es_assert_ok(es_watch_files_read(&watch));
    assert_int_equal(n_reported, 1);
    assert_true(es_bytes_read() - before < 8 * MIB);
    assert_int_equal(watch.n_searching, 1);
    int n_rounds = 0;
    for (; watch.n_searching && n_rounds < 100; n_rounds++)
        es_assert_ok(es_watch_files_read(&watch));
    assert_true(n_rounds >= 3 && n_rounds < 100);
    assert_true(es_bytes_read() - before < (TAIL + 6) * MIB);
    es_record_close(&damaged);
    es_watch_files_close(&watch);
}

TEST_GROUP(es_folder_make, es_folder_remove)
