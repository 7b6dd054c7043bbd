/**
 * Tests writing run files: values must be stored bit for bit, and invalid
 * arguments must be refused.
 */
#include "tests/support/test.h"

/**
 * Creates a run with n_layer layers, n_head heads per layer and one head
 * series, and returns its writer.
 */
static es_writer *open_series(const char *path, int64_t n_layer, int64_t n_head,
                              int64_t *run, int64_t *series)
{
    es_writer *w = es_open_writer(path);
    es_run_info info = es_run_of(n_layer, n_head);
    es_assert_ok(es_writer_run(w, run, &info, 0));
    es_assert_ok(es_writer_series(w, series, *run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    return w;
}

TEST(every_column_is_read_back)
{
    const es_run_info info = {
        .uuid = "12345678-1234-4234-8234-123456789abc",
        .name = "first \xc3\xa9t\xc3\xa9",
        .arch = "SM+LN+G",
        .family = "gpt2",
        .n_layer = 3,
        .n_head = 2,
        .d_model = 48,
        .ctx = 32,
        .vocab = 256,
        .batch = 16,
        .seed = -7,
        .config = "{\"steps\":400,\"lr\":0.003}",
        .program = "test 1",
        .host = "here",
    };
    int64_t id;
    es_writer *w = es_open_writer(run_db);
    es_assert_ok(es_writer_run(w, &id, &info, 0));
    es_assert_ok(es_writer_end_run(w, id, ES_RUN_FAILED));
    es_assert_ok(es_writer_close(w));
    es_run_info back;
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_reader_run(r, 0, &back));
    assert_string_equal(back.uuid, info.uuid);
    assert_string_equal(back.name, info.name);
    assert_string_equal(back.arch, info.arch);
    assert_string_equal(back.family, info.family);
    assert_int_equal(back.d_model, 48);
    assert_int_equal(back.ctx, 32);
    assert_int_equal(back.vocab, 256);
    assert_int_equal(back.batch, 16);
    assert_int_equal(back.seed, -7);
    assert_string_equal(back.config, info.config);
    assert_string_equal(back.program, "test 1");
    assert_string_equal(back.host, "here");
    assert_int_equal(strlen(back.started_at), 24);
    assert_int_equal(strlen(back.ended_at), 24);
    assert_true(strcmp(back.started_at, back.ended_at) <= 0);
    assert_int_equal(back.status, ES_RUN_FAILED);
    assert_true(back.last_step == ES_UNKNOWN);
}

TEST(unknown_is_null)
{
    int64_t run;
    es_writer *w = es_open_writer(run_db);
    es_run_info info = es_run_of(1, 1);
    info.status = ES_RUN_FAILED; /* must be ignored when a run begins */
    info.ended_at = "2020-01-02T03:04:05.678Z";
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "SELECT status FROM run"), "running");
    assert_string_equal(
        es_sqlite(run_db, "SELECT coalesce(arch, family, d_model, ctx, vocab,"
                          " batch, seed, config, program, host, ended_at,"
                          " last_step, 'all null') FROM run"),
        "all null");
    assert_string_equal(es_sqlite(run_db, "PRAGMA application_id"),
                        "1162761298");
    assert_string_equal(es_sqlite(run_db, "PRAGMA user_version"), "2");
}

/**
 * The run's configuration keeps its members, and ENTROPY_RUN_CONFIG adds
 * members that it lacks.
 */
TEST(a_configuration_is_completed_by_the_environment)
{
    static const char given[] =
        "{\"lr\":1e-3,\"s\":\"a \\\"b\\\"\",\"f\":false,\"o\":[1,{}]}";
    static const struct {
        const char *members, *config, *completed;
    } cases[] = {
        {given, NULL,
         "{\"lr\":0.001,\"s\":\"a \\\"b\\\"\",\"f\":false,\"o\":[1,{}]}"},
        {"{\"lr\":1}", "{ \"lr\": 2.50, \"x\": null }\n",
         "{ \"lr\": 2.50, \"x\": null }\n"},
        {"{\"lr\":1,\"y\":2}", " {\"lr\":null}\n", "{\"lr\":null,\"y\":2}"},
        {"{\"y\":2}", "{}", "{\"y\":2}"},
        {"{\"y\":2}", "[1]", "[1]"},
        {"[1]", "{\"x\":1}", "{\"x\":1}"},
        {"{\"y\":", "{\"x\":1}", "{\"x\":1}"},
        {"\xff", NULL, ""},
        {"{}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t id;
        es_run_info info = es_run_of(2, 3);
        info.config = cases[i].config;
        es_writer *w = es_open_writer(run_db);
        setenv(ES_RUN_CONFIG_VARIABLE, cases[i].members, 1);
        es_assert_ok(es_writer_run(w, &id, &info, 0));
        unsetenv(ES_RUN_CONFIG_VARIABLE);
        es_assert_ok(es_writer_close(w));
        assert_string_equal(
            es_sqlite(run_db, "SELECT coalesce(config, '') FROM run"),
            cases[i].completed);
        unlink(run_db);
    }
}

/**
 * Bit patterns of float32 values that would change if they were converted to
 * another type and back.
 */
static const uint32_t bits[] = {
    0x00000000, 0x80000000, 0x7f800000, 0xff800000,      0x7fc00000,
    0xffc00000, 0x7fc00001, 0x7f800001, 0xffbfffff,      0x7fffffff,
    0x00000001, 0x807fffff, 0x3f800000, ES_MISSING_BITS, 0x42f6e979,
};
#define N_BITS (sizeof bits / sizeof *bits)

TEST(every_bit_is_kept)
{
    float values[N_BITS], back[N_BITS];
    int64_t run, series, found;
    memcpy(values, bits, sizeof bits);
    es_writer *w = open_series(run_db, 3, 5, &run, &series);
    es_assert_ok(es_writer_sample(w, series, 0, values, N_BITS));
    es_assert_ok(es_writer_close(w));
    es_series s;
    es_reader *r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_sample(r, &s, 0, back, N_BITS, &found));
    assert_memory_equal(back, bits, sizeof bits);
    assert_true(es_is_missing(back[13]) && !es_is_missing(back[4]));
    es_cursor *c = NULL;
    const float *streamed;
    es_assert_ok(es_cursor_open(&c, r, &s, 0, 0));
    es_assert_ok(es_cursor_next(c, &found, &streamed));
    assert_memory_equal(streamed, bits, sizeof bits);
    es_cursor_close(c);
    es_reader_close(r);
    assert_string_equal(
        es_sqlite(run_db, "SELECT hex(substr(value, 17, 4)) FROM sample"),
        "0000C07F"); /* little-endian */
}

TEST(a_run_of_one_head_is_written)
{
    const float value = 0.75F;
    int64_t run, series, loss, found;
    float back = 0;
    es_writer *w = open_series(run_db, 1, 1, &run, &series);
    es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_sample(w, series, 3, &value, 1));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_sample(r, &s, ES_STEP_LAST, &back, 1, &found));
    assert_int_equal(found, 3);
    es_assert_bits(&back, &value, 1);
    es_assert_ok(es_reader_find(r, 0, "loss", ES_PHASE_TRAIN, &s));
    assert_true(s.first_step == ES_UNKNOWN && s.last_step == ES_UNKNOWN);
    assert_string_equal(s.unit, "nats");
    es_assert_status(ES_ENOTFOUND, "loss has no samples",
                     es_reader_sample(r, &s, ES_STEP_LAST, &back, 1, &found));
    es_assert_status(ES_ENOTFOUND, "loss has no samples",
                     es_reader_sample(r, &s, 3, &back, 1, &found));
}

TEST(a_second_sample_replaces_the_first)
{
    const float first[] = {1, 2}, second[] = {3, 4};
    float back[2];
    int64_t run, series, found, n;
    es_writer *w = open_series(run_db, 2, 1, &run, &series);
    es_assert_ok(es_writer_sample(w, series, 7, first, 2));
    es_assert_ok(es_writer_sample(w, series, 7, second, 2));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 1);
    es_assert_ok(es_reader_sample(r, &s, 7, back, 2, &found));
    es_assert_bits(back, second, 2);
}

/* The writer computes rowids from the low 32 bits of steps, which are equal for
 * some of these steps. */
TEST(steps_come_in_any_order)
{
    enum { N = 8 };
    static const int64_t steps[N] = {5, ES_MAX_STEP,     INT64_C(1) << 32,
                                     0, 4294967295,      (INT64_C(1) << 32) + 5,
                                     1, INT64_C(1) << 62};
    static const int64_t sorted[N] = {0,
                                      1,
                                      5,
                                      4294967295,
                                      INT64_C(1) << 32,
                                      (INT64_C(1) << 32) + 5,
                                      INT64_C(1) << 62,
                                      ES_MAX_STEP};
    int64_t run, series, step;
    const float *values;
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    for (size_t i = 0; i < N; i++)
        es_assert_ok(es_writer_sample(w, series, steps[i],
                                      (const float[6]){1, 2, 3, 4, 5, 6}, 6));
    for (size_t i = 0; i < N; i++)
        es_assert_ok(es_writer_sample(
            w, series, steps[i],
            (const float[6]){1, 2, 3, 4, 5, (float)steps[i]}, 6));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_cursor *c = es_open_cursor(r, &s);
    for (size_t i = 0; i < N; i++) {
        es_assert_ok(es_cursor_next(c, &step, &values));
        assert_true(step == sorted[i]);
        assert_true(values[5] == (float)step);
    }
    assert_int_equal(es_cursor_next(c, &step, &values), ES_DONE);
    es_cursor_close(c);
    assert_true(s.first_step == 0 && s.last_step == ES_MAX_STEP);
    es_run_info info;
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_true(info.last_step == ES_MAX_STEP);
}

TEST(wrong_arguments_are_refused)
{
    int64_t run, series, other;
    float x[6] = {1, 2, 3, 4, 5, 6};
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    es_assert_status(ES_EARGUMENT, "6 values, not 5",
                     es_writer_sample(w, series, 0, x, 5));
    es_assert_status(ES_EARGUMENT, "step -1 is out of range",
                     es_writer_sample(w, series, -1, x, 6));
    es_assert_status(ES_EARGUMENT, "is out of range",
                     es_writer_sample(w, series, INT64_MAX, x, 6));
    es_assert_status(ES_EARGUMENT, "no series 99",
                     es_writer_sample(w, 99, 0, x, 6));
    es_assert_status(ES_EARGUMENT, "no run 99",
                     es_writer_series(w, &other, 99, "loss", ES_SHAPE_RUN,
                                      ES_PHASE_TRAIN, NULL));
    es_assert_status(ES_EARGUMENT, "needs a name",
                     es_writer_series(w, &other, run, "", ES_SHAPE_RUN,
                                      ES_PHASE_TRAIN, NULL));
    es_assert_status(ES_EARGUMENT, "no run 99",
                     es_writer_end_run(w, 99, ES_RUN_FINISHED));
    es_assert_status(ES_EARGUMENT, "needs a kind",
                     es_writer_event(w, run, &(es_event){.step = 1}));
    es_assert_status(
        ES_EARGUMENT, "data is not JSON",
        es_writer_event(w, run, &(es_event){.kind = "x", .data = "{"}));
    es_assert_status(ES_EARGUMENT, "commit without begin", es_writer_commit(w));
    es_assert_ok(es_writer_begin(w));
    es_assert_status(ES_EARGUMENT, "begin within", es_writer_begin(w));
    es_writer_abandon(w);
}

TEST(wrong_runs_are_refused)
{
    es_writer *w = es_open_writer(es_folder_file(state, "run.db"));
    int64_t run;
    static const int64_t shapes[][2] = {{0, 1},
                                        {1, 0},
                                        {-1, -1},
                                        {ES_MAX_LAYERS + 1, 1},
                                        {1, ES_MAX_HEADS + 1},
                                        {2048, 1024},
                                        {INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        es_run_info info = es_run_of(shapes[i][0], shapes[i][1]);
        es_assert_status(ES_EARGUMENT, "a run cannot have",
                         es_writer_run(w, &run, &info, 0));
    }
    es_run_info info = es_run_of(4096, 256); /* the maximum number of heads of a
                                                run */
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    info.uuid = "short";
    es_assert_status(ES_EARGUMENT, "not a uuid",
                     es_writer_run(w, &run, &info, 0));
    info.uuid = NULL;
    info.config = "steps=4";
    es_assert_status(ES_EARGUMENT, "config is not JSON",
                     es_writer_run(w, &run, &info, 0));
    AUTO_FREE char *longest = malloc(ES_MAX_TEXT + 2);
    assert_non_null(longest);
    memset(longest, 'x', ES_MAX_TEXT + 1);
    longest[ES_MAX_TEXT + 1] = '\0';
    info.config = NULL;
    info.name = longest;
    es_assert_status(ES_EARGUMENT, "longer than",
                     es_writer_run(w, &run, &info, 0));
    info.name = longest + 1;
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_close(w));
}

TEST(a_series_of_another_shape_is_refused)
{
    int64_t run, series, again;
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    es_assert_ok(es_writer_series(w, &again, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, "bits"));
    assert_int_equal(again, series);
    es_assert_status(ES_EFORMAT,
                     "series entropy has one value per head, not per layer",
                     es_writer_series(w, &again, run, "entropy", ES_SHAPE_LAYER,
                                      ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &again, run, "entropy", ES_SHAPE_LAYER,
                                  ES_PHASE_EVAL, NULL));
    assert_true(again != series);
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_string_equal(s.unit, "nats"); /* the unit of the first declaration is
                                            kept */
}

TEST(too_many_series_are_refused)
{
    int64_t run, series;
    char name[32];
    es_writer *w =
        open_series(es_folder_file(state, "run.db"), 1, 1, &run, &series);
    es_assert_ok(es_writer_begin(w));
    for (int i = 1; i < ES_MAX_SERIES; i++) {
        snprintf(name, sizeof name, "series %d", i);
        es_assert_ok(es_writer_series(w, &series, run, name, ES_SHAPE_RUN,
                                      ES_PHASE_TRAIN, NULL));
        es_assert_ok(es_write_values(w, series, i, 1));
    }
    es_assert_status(ES_EARGUMENT, "a run has 4096 series at most",
                     es_writer_series(w, &series, run, "one more", ES_SHAPE_RUN,
                                      ES_PHASE_TRAIN, NULL));
    es_writer_rollback(w);
    es_assert_ok(es_writer_close(w));
}

/* --- transactions -------------------------------------------------------- */

TEST(a_rollback_discards_samples_series_and_runs)
{
    int64_t run, series, loss, second, n;
    es_run_info info = es_run_of(1, 2);
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    es_assert_ok(es_write_values(w, series, 4, 6));
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, series, 9, 6));
    es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_run(w, &second, &info, 0));
    es_writer_rollback(w);
    es_assert_status(ES_EARGUMENT, "no series", es_write_values(w, loss, 9, 1));
    es_assert_status(ES_EARGUMENT, "no run",
                     es_writer_end_run(w, second, ES_RUN_FAILED));
    es_assert_ok(es_write_values(w, series, 5, 6));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_int_equal(es_reader_n_runs(r), 1);
    assert_int_equal(es_reader_n_series(r, 0), 1);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 2);
    es_run_info back;
    es_assert_ok(es_reader_run(r, 0, &back));
    assert_int_equal(back.last_step, 5);
}

TEST(a_refused_sample_leaves_its_transaction_intact)
{
    int64_t run, series, n;
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, series, 1, 6));
    es_assert_status(ES_EARGUMENT, "6 values",
                     es_write_values(w, series, 2, 1));
    es_assert_ok(es_write_values(w, series, 3, 6));
    es_assert_ok(es_writer_commit(w));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 2);
}

TEST(a_failed_write_fails_its_transaction)
{
    enum { N = 64 * 64 };
    int64_t run, series, n, step = 1;
    es_writer *w = open_series(run_db, 64, 64, &run, &series);
    es_assert_ok(es_write_values(w, series, 0, N));
    es_assert_ok(es_writer_begin(w));
    es_reader_cap_memory(300 << 10); /* the limit is lower than the memory that
                                        is already in use */
    es_status status = ES_OK;
    while (status == ES_OK && step < 1000)
        status = es_write_values(w, series, step++, N);
    es_reader_cap_memory(0);
    es_assert_status(ES_ENOMEM, "out of memory", status);
    es_assert_status(ES_EIO, "this transaction failed: roll it back",
                     es_write_values(w, series, step, N));
    es_assert_status(
        ES_EIO,
        "an earlier call failed, so nothing of this transaction was written",
        es_writer_commit(w));
    es_assert_ok(es_write_values(w, series, 1000, N));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    es_assert_ok(es_reader_count(r, &s, &n));
    assert_int_equal(n, 2);
}

TEST(closing_commits)
{
    int64_t run, series;
    es_writer *w = open_series(run_db, 2, 3, &run, &series);
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, series, 1, 6));
    es_assert_ok(es_writer_close(w));
    es_series s;
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_int_equal(s.last_step, 1);
}

TEST(abandoning_rolls_back)
{
    const char *path = es_folder_file(state, "run.db");
    int64_t run, series;
    es_writer *w = open_series(path, 2, 3, &run, &series);
    es_assert_ok(es_write_values(w, series, 1, 6));
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_write_values(w, series, 2, 6));
    es_writer_abandon(w);
    es_series s;
    es_reader *r = es_open_series(path, "entropy", &s);
    assert_int_equal(s.last_step, 1);
    es_reader_close(r);
    path = es_folder_file(state, "new.db");
    es_writer_abandon(es_open_writer(path));
    static const char *const rest[] = {"", "-lock", "-wal", "-shm", "-journal"};
    for (int i = 0; i < 5; i++)
        assert_false(es_file_exists_beside(path, rest[i]));
    es_writer_abandon(NULL);
    es_assert_ok(es_writer_close(NULL));
}

TEST_EACH(es_folder_make, es_folder_remove)
