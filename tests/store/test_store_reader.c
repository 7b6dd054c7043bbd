/** Tests the runs, series, samples and configurations that a reader returns. */
#include "tests/support/recorded.h"
#include "tests/support/test.h"

/* An older program passes a shorter struct. A reader must not write beyond its
   end, because the memory there may belong to other data. */
TEST(an_older_program_gets_the_members_that_it_knows)
{
    es_write_run(run_db, "first", 30);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_run_info info;
    info.size = offsetof(es_run_info, n_head);
    info.n_head = -7;
    es_assert_ok((es_reader_run)(r, 0, &info));
    assert_string_equal(info.name, "first");
    assert_int_equal(info.n_layer, 3);
    assert_int_equal(info.n_head, -7);
    es_series series;
    series.size = offsetof(es_series, crc);
    series.last_step = -7;
    es_assert_ok((es_reader_find)(r, 0, "loss", ES_PHASE_EVAL, &series));
    assert_int_equal(series.n_values, 1);
    assert_int_equal(series.last_step, -7);
    float value;
    int64_t found, n = 0;
    es_assert_ok(es_reader_sample(r, &series, ES_STEP_LAST, &value, 1, &found));
    assert_int_equal(found, 40);
    es_assert_ok(es_reader_count(r, &series, &n));
    assert_true(n > 1);
    series.size = 0;
    es_assert_status(ES_EARGUMENT, "sizeof (es_series)",
                     es_reader_count(r, &series, &n));
    es_assert_status(ES_EARGUMENT, "sizeof (es_series)",
                     (es_reader_series)(r, 0, 0, &series));
}

TEST(runs_and_series_are_listed)
{
    es_write_run(run_db, "first", 30);
    es_write_run(run_db, "second", 1);
    AUTO(es_reader) r = es_open_reader(run_db);
    assert_string_equal(es_reader_path(r), run_db);
    assert_int_equal(es_reader_n_runs(r), 2);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_string_equal(info.name, "first");
    assert_string_equal(info.arch, "SM+LN+G");
    assert_null(info.family);
    assert_int_equal(info.n_layer, 3);
    assert_int_equal(info.n_head, 2);
    assert_int_equal(info.ctx, 128);
    assert_true(info.vocab == ES_UNKNOWN);
    assert_int_equal(info.status, ES_RUN_FINISHED);
    assert_int_equal(info.last_step, 58);
    assert_int_equal(es_planned_steps(r, 0), 5000);
    assert_int_equal(es_reader_n_series(r, 0), 4);
    static const struct {
        const char *name;
        es_phase phase;
        es_shape shape;
        size_t n;
        int64_t last;
    } expected[] = {{"alpha", ES_PHASE_TRAIN, ES_SHAPE_LAYER, 3, 58},
                    {"entropy", ES_PHASE_TRAIN, ES_SHAPE_HEAD, 6, 58},
                    {"loss", ES_PHASE_TRAIN, ES_SHAPE_RUN, 1, 58},
                    {"loss", ES_PHASE_EVAL, ES_SHAPE_RUN, 1, 40}};
    for (size_t i = 0; i < 4; i++) {
        es_series series;
        es_assert_ok(es_reader_series(r, 0, i, &series));
        assert_string_equal(series.name, expected[i].name);
        assert_int_equal(series.phase, expected[i].phase);
        assert_int_equal(series.shape, expected[i].shape);
        assert_int_equal(series.n_values, expected[i].n);
        assert_int_equal(series.first_step, 0);
        assert_int_equal(series.last_step, expected[i].last);
    }
    es_assert_status(ES_EARGUMENT, "it has 2", es_reader_run(r, 2, &info));
}

TEST(samples_are_read_by_step)
{
    es_write_run(run_db, "x", 30);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_series s;
    float values[6];
    int64_t found, n;
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_assert_ok(es_reader_sample(r, &s, ES_STEP_LAST, values, 6, &found));
    assert_int_equal(found, 58);
    es_assert_values(values, s.id, 58, 6);
    es_assert_ok(es_reader_sample(r, &s, ES_STEP_FIRST, values, 6, &found));
    assert_int_equal(found, 0);
    es_assert_values(values, s.id, 0, 6);
    es_assert_ok(es_reader_sample(r, &s, 24, values, 6, &found));
    assert_int_equal(found, 24);
    es_assert_values(values, s.id, 24, 6);
    es_assert_status(ES_ENOTFOUND, "it has 0 to 58, nearest 24",
                     es_reader_sample(r, &s, 25, values, 6, &found));
    es_assert_status(ES_ENOTFOUND, "nearest 58",
                     es_reader_sample(r, &s, 1000, values, 6, &found));
    es_assert_status(ES_ENOTFOUND, "nearest 0",
                     es_reader_sample(r, &s, -3, values, 6, &found));
    es_assert_status(ES_EARGUMENT, "6 values, not 5",
                     es_reader_sample(r, &s, 24, values, 5, &found));
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 30);
}

TEST(an_unknown_series_names_those_that_exist)
{
    es_write_run(run_db, "x", 1);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_series s;
    es_assert_status(ES_ENOTFOUND,
                     "no series entropie (train); available: alpha (train), "
                     "entropy (train), loss (train), loss (eval)",
                     es_reader_find(r, 0, "entropie", ES_PHASE_TRAIN, &s));
    es_assert_status(ES_ENOTFOUND, "no series entropy (eval)",
                     es_reader_find(r, 0, "entropy", ES_PHASE_EVAL, &s));
}

TEST(events_are_in_order)
{
    es_write_run(run_db, "a", 30);
    es_write_run(run_db, "b", 5);
    AUTO(es_reader) r = es_open_reader(run_db);
    const es_event *events;
    size_t n;
    es_assert_ok(es_reader_events(r, 1, &events, &n));
    assert_int_equal(n, 1);
    assert_int_equal(events[0].step, 5);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 1);
    assert_int_equal(events[0].step, 30);
    assert_string_equal(events[0].kind, "test");
    assert_int_equal(events[0].severity, ES_SEVERITY_INFO);
    assert_int_equal(events[0].layer, 1);
    assert_true(events[0].head == ES_UNKNOWN);
    assert_string_equal(events[0].message, "half-way");
    assert_string_equal(events[0].dedupe, "half");
    assert_non_null(events[0].at);
    assert_null(events[0].data);
}

/* A file may contain a configuration that a writer would have refused. */
TEST(a_configuration_is_an_object_or_null)
{
    const struct {
        const char *stored, *given; /* configuration to store, as an SQL
                                       literal, and the text that the reader
                                       must return */
    } cases[] = {
        {"'{ \"lr\" : 1e-3,\n \"of\": {\"a\": [1, \"x y\"]} }'",
         "{\"lr\":1e-3,\"of\":{\"a\":[1,\"x y\"]}}"},
        {"'[1]'", NULL},
        {"'7'", NULL},
        {"'{\"lr\":'", NULL},
        {"'{lr: 1}'", NULL},
        {"''", NULL},
        {"NULL", NULL},
    };
    es_write_run(run_db, "first", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[256], *config;
        snprintf(sql, sizeof sql, "update run set config = %s",
                 cases[i].stored);
        for (char *c = sql; *c;
             c++) /* quotes are replaced, because the SQL passes through a shell
                     in double quotes */
            *c = *c == '"' ? '~' : *c;
        es_sqlite(run_db, sql);
        es_sqlite(run_db, "update run set config = replace(config, '~', "
                          "char(34))");
        AUTO(es_reader) r = es_open_reader(run_db);
        es_assert_ok(es_reader_config(r, 0, &config));
        if (cases[i].given)
            assert_string_equal(config, cases[i].given);
        else
            assert_null(config);
        free(config);
        es_assert_status(ES_EARGUMENT, "it has 1",
                         es_reader_config(r, 1, &config));
    }
}

/* Collects one line of text per member. `left` is the number of members after
   which the handler stops the iteration. */
typedef struct members {
    char text[1024];
    int left;
} members;

static es_status list_member(void *user, const es_config_member *member)
{
    members *to = user;
    size_t n = strlen(to->text);
    snprintf(to->text + n, sizeof to->text - n, "%s %d %s %g\n", member->key,
             (int)member->kind, member->text, member->number);
    return --to->left == 0 ? es_fail(ES_EUSAGE, "enough") : ES_OK;
}

static es_reader *open_configured(void **state, const char *config)
{
    const char *path = es_folder_file(state, "configured.db");
    es_run_info info = es_run_of(3, 2);
    info.config = config;
    es_recorded to = es_record(path, &info);
    es_record_close(&to);
    return es_open_reader(path);
}

TEST(members_of_a_configuration_are_listed)
{
    AUTO(es_reader)
    r = open_configured(
        state,
        "{\"lr\":1E-2,\"seed\":9007199254740993,\"text\":\"a \\\"b\\u03b1\","
        "\"no\":null,\"yes\":true,\"not\":false,\"of\":{\"a\":[1, "
        "\"x\"],\"in\":{\"lr\":2},\"none\":{}},"
        "\"huge\":1e999,\"\":-0.5,\"lr\":3,\"list\":[]}");
    members all = {.left = -1};
    es_assert_ok(es_reader_config_each(r, 0, list_member, &all));
    assert_string_equal(all.text, "lr 2 0.01 0.01\n"
                                  "seed 2 9007199254740993 9.0072e+15\n"
                                  "text 3 a \"b\xce\xb1 nan\n"
                                  "no 0 null nan\n"
                                  "yes 1 true nan\n"
                                  "not 1 false nan\n"
                                  "huge 2 Inf inf\n"
                                  " 2 -0.5 -0.5\n"
                                  "lr 2 3 3\n"
                                  "list 4 [] nan\n"
                                  "of.a 4 [1,\"x\"] nan\n"
                                  "of.none 4 {} nan\n"
                                  "of.in.lr 2 2 2\n");
    members two = {.left = 2};
    es_assert_status(ES_EUSAGE, "enough",
                     es_reader_config_each(r, 0, list_member, &two));
    assert_int_equal(two.left, 0);
    es_assert_status(ES_EARGUMENT, "it has 1",
                     es_reader_config_each(r, 1, list_member, &two));
}

TEST(a_run_without_a_configuration_has_no_members)
{
    static const char *const stored[] = {"NULL", "'[7]'", "'{7'", "'7'",
                                         "'{}'"};
    es_write_run(run_db, "first", 1);
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        char sql[64];
        members none = {.left = -1};
        snprintf(sql, sizeof sql, "update run set config = %s", stored[i]);
        es_sqlite(run_db, sql);
        AUTO(es_reader) r = es_open_reader(run_db);
        es_assert_ok(es_reader_config_each(r, 0, list_member, &none));
        assert_string_equal(none.text, "");
    }
}

TEST_EACH(es_folder_make, es_folder_remove)
