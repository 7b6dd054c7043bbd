/* Tests recording into a file with the real program entropy-recorder. The file
 * must contain exactly the pushed frames, and invalid calls must return an
 * error and have no other effect. */
#include "tests/support/recording.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void close_well(es_recorder *recorder, uint64_t frames)
{
    es_recorder_report report;
    es_status status = es_recorder_close(recorder, ES_RUN_FINISHED, &report);
    if (status != ES_OK)
        print_error("%s\n", es_message());
    assert_int_equal(status, ES_OK);
    assert_int_equal(report.pushed, frames);
    assert_int_equal(report.committed, frames);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(report.lost, 0);
}

static bool exists(const char *path, const char *tail)
{
    char file[4096];
    snprintf(file, sizeof file, "%s%s", path, tail);
    return access(file, F_OK) == 0;
}

/* --- contents
 * -------------------------------------------------------------- */

TEST(every_bit_is_in_the_file)
{
    const char *path = recording_path("bits.db");
    es_recorder *recorder = recording_open(path);
    int series[4];
    recording_declare(recorder, series);
    for (int64_t step = 0; step < 500; step++)
        for (int i = 0; i < 4; i++)
            es_assert_ok(recording_push(recorder, series, i, step));
    close_well(recorder, 2000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(recording_check(path, i, 0), 500);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
    recording_check_integrity(path);
    assert_false(exists(path, "-wal"));
    assert_false(exists(path, "-shm"));
    assert_false(exists(path, "-lock"));
}

TEST(the_whole_description_of_a_run_is_stored)
{
    const char *path = recording_path("run.db");
    enum { LONG = 300000 };
    char *config = malloc(LONG + 64);
    assert_non_null(config);
    int n = sprintf(config, "{\"steps\":77,\"note\":\"");
    memset(config + n, 'x', LONG);
    strcpy(config + n + LONG, "\"}");
    es_run_info run = recording_run();
    run.uuid = "123e4567-e89b-12d3-a456-426614174000";
    run.name = "na\xc3\xafve \"name\"";
    run.arch = "SM+LN+G";
    run.family = "gpt2";
    run.host = "";
    run.config = config;
    const es_recorder_options options = recording_options(path, &run);
    es_recorder *recorder;
    es_assert_ok(es_recorder_open(&recorder, &options));
    close_well(recorder, 0);

    es_run_info read;
    int64_t planned;
    es_reader *reader = es_open_reader(path);
    es_assert_ok(es_reader_run(reader, 0, &read));
    assert_string_equal(read.uuid, run.uuid);
    assert_string_equal(read.name, run.name);
    assert_string_equal(read.arch, run.arch);
    assert_string_equal(read.family, run.family);
    assert_string_equal(read.config, config);
    assert_string_equal(read.program, run.program);
    assert_int_equal(read.n_layer, LAYERS);
    assert_int_equal(read.n_head, HEADS);
    assert_int_equal(read.d_model, 35);
    assert_int_equal(read.ctx, 128);
    assert_int_equal(read.vocab, 256);
    assert_true(read.batch == ES_UNKNOWN);
    assert_int_equal(read.seed, 42);
    assert_true(read.last_step == ES_UNKNOWN);
    es_assert_ok(es_reader_planned_steps(reader, 0, &planned));
    assert_int_equal(planned, 77);
    es_reader_close(reader);
    free(config);
}

TEST(events_come_with_their_step)
{
    const char *path = recording_path("event.db");
    es_recorder *recorder = recording_open(path);
    static char longest[4096 + 1];
    memset(longest, 'm', sizeof longest - 1);
    es_assert_ok(es_recorder_event(recorder, 3, "nan", ES_SEVERITY_CRITICAL,
                                   "loss is NaN"));
    es_assert_ok(es_recorder_event(recorder, ES_UNKNOWN, "note",
                                   ES_SEVERITY_INFO, NULL));
    assert_int_equal(
        es_recorder_event(recorder, 0, "k", ES_SEVERITY_INFO, longest),
        ES_EARGUMENT);
    es_assert_ok(
        es_recorder_event(recorder, 0, "k", ES_SEVERITY_INFO, longest + 1));
    assert_int_equal(
        es_recorder_event(recorder, 0, NULL, ES_SEVERITY_INFO, "m"),
        ES_EARGUMENT);
    close_well(recorder, 3);

    const es_event *events;
    size_t n;
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_ok(es_reader_events(reader, 0, &events, &n));
    assert_int_equal(n, 3);
    assert_string_equal(events[0].kind, "note");
    assert_true(events[0].step == ES_UNKNOWN);
    assert_null(events[0].message);
    assert_string_equal(events[1].message, longest + 1);
    assert_string_equal(events[2].kind, "nan");
    assert_int_equal(events[2].step, 3);
    assert_int_equal(events[2].severity, ES_SEVERITY_CRITICAL);
    assert_string_equal(events[2].message, "loss is NaN");
}

TEST(a_run_ends_with_the_status_given)
{
    const struct {
        es_run_status given, expected;
    } cases[] = {{ES_RUN_FINISHED, ES_RUN_FINISHED},
                 {ES_RUN_STOPPED, ES_RUN_STOPPED},
                 {ES_RUN_FAILED, ES_RUN_FAILED},
                 {ES_RUN_RUNNING, ES_RUN_FAILED},
                 {(es_run_status)99, ES_RUN_FAILED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = recording_path("end.db");
        es_assert_ok(
            es_recorder_close(recording_open(path), cases[i].given, NULL));
        assert_int_equal(recording_status(path), cases[i].expected);
        assert_false(recording_event(path, "trainer_died", NULL, NULL));
        recording_remove(path);
    }
}

/* The requested ring buffer is tiny, but frames of four megabytes must fit. */
TEST(largest_frames_fit)
{
    const char *path = recording_path("large.db");
    es_run_info run = recording_run();
    run.n_layer = 1024;
    run.n_head = 1024;
    es_recorder_options options = recording_options(path, &run);
    options.ring_bytes = 1;
    es_recorder *recorder;
    int series;
    es_assert_ok(es_recorder_open(&recorder, &options));
    es_assert_ok(es_recorder_series(recorder, &series, "entropy", ES_SHAPE_HEAD,
                                    ES_PHASE_TRAIN, "nats"));
    size_t n = (size_t)1 << 20;
    AUTO_FREE float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (int64_t step = 0; step < 12; step++) {
        recording_fill(values, n, 0, step);
        es_assert_ok(es_recorder_push(recorder, series, step, values, n));
    }
    close_well(recorder, 12);
    es_series found;
    int64_t step;
    AUTO_FREE float *read = malloc(n * sizeof *read);
    assert_non_null(read);
    es_reader *reader = es_open_reader(path);
    es_assert_ok(es_reader_find(reader, 0, "entropy", ES_PHASE_TRAIN, &found));
    es_assert_ok(
        es_reader_sample(reader, &found, ES_STEP_LAST, read, n, &step));
    assert_int_equal(step, 11);
    assert_memory_equal(read, values, n * sizeof *read);
    es_reader_close(reader);
    recording_remove(path);
}

/* --- wrong calls ----------------------------------------------------------*/

TEST(a_null_recorder_is_refused)
{
    int series = 5;
    float value = 1;
    es_recorder_report report = {1, 1, 1, 1, 1};
    assert_int_equal(es_recorder_series(NULL, &series, "x", ES_SHAPE_RUN,
                                        ES_PHASE_TRAIN, NULL),
                     ES_EBROKEN);
    assert_int_equal(series, -1);
    assert_int_equal(es_recorder_push(NULL, 0, 0, &value, 1), ES_EBROKEN);
    assert_int_equal(es_recorder_event(NULL, 0, "x", ES_SEVERITY_INFO, "m"),
                     ES_EBROKEN);
    assert_false(es_recorder_stop_requested(NULL));
    es_assert_ok(es_recorder_close(NULL, ES_RUN_FINISHED, &report));
    assert_int_equal(
        report.pushed + report.committed + report.dropped + report.lost, 0);
    es_assert_ok(es_recorder_close(NULL, ES_RUN_FINISHED, NULL));
}

TEST(wrong_frames_are_refused)
{
    const char *path = recording_path("wrong.db");
    es_recorder *recorder = recording_open(path);
    int series[4], again;
    float values[CELLS + 1];
    recording_declare(recorder, series);
    recording_fill(values, CELLS, 0, 0);
    const struct {
        const char *words;
        int series;
        int64_t step;
        const float *values;
        size_t n;
    } frames[] = {
        {"no series with number 4", 4, 0, values, CELLS},
        {"no series with number -1", -1, 0, values, CELLS},
        {"36 values for entropy: expected 35", 0, 0, values, CELLS + 1},
        {"0 values for entropy", 0, 0, values, 0},
        {"0 values for entropy", 0, 0, NULL, CELLS},
        {"step -1: steps start at 0", 0, -1, values, CELLS},
        {"steps start at 0", 0, INT64_MAX, values, CELLS},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        es_assert_status(ES_EARGUMENT, frames[i].words,
                         es_recorder_push(recorder, frames[i].series,
                                          frames[i].step, frames[i].values,
                                          frames[i].n));
    es_assert_ok(es_recorder_series(recorder, &again, "entropy", ES_SHAPE_HEAD,
                                    ES_PHASE_TRAIN, NULL));
    assert_int_equal(again, series[0]);
    assert_int_equal(es_recorder_series(recorder, &again, "entropy",
                                        ES_SHAPE_LAYER, ES_PHASE_TRAIN, NULL),
                     ES_EARGUMENT);
    assert_int_equal(again, -1);
    char name[258];
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    assert_int_equal(es_recorder_series(recorder, &again, name, ES_SHAPE_RUN,
                                        ES_PHASE_TRAIN, NULL),
                     ES_EARGUMENT);
    assert_int_equal(es_recorder_series(recorder, &again, "", ES_SHAPE_RUN,
                                        ES_PHASE_TRAIN, NULL),
                     ES_EARGUMENT);
    es_assert_ok(es_recorder_series(recorder, &again, name + 1, ES_SHAPE_RUN,
                                    ES_PHASE_TRAIN, NULL));
    assert_int_equal(again, 4);
    close_well(recorder, 0);
}

static void expect_refusal(const es_recorder_options *options, es_status code,
                           const char *why)
{
    es_recorder *recorder = (es_recorder *)1;
    es_status status = es_recorder_open(&recorder, options);
    if (status != code || !strstr(es_message(), why))
        fail_msg("%d, not %d with '%s': %s", status, code, why, es_message());
    assert_null(recorder);
    /* Checks that the recorder process has ended and is not a zombie. */
    int state;
    assert_int_equal(waitpid(-1, &state, WNOHANG), -1);
}

TEST(invalid_options_are_refused)
{
    es_run_info run = recording_run();
    es_recorder_options good = recording_options(recording_path("o.db"), &run);
    es_recorder_options bad = good;
    bad.path = NULL;
    expect_refusal(&bad, ES_EARGUMENT, "a path");
    bad.path = "";
    expect_refusal(&bad, ES_EARGUMENT, "a path");
    bad = good;
    bad.run = NULL;
    expect_refusal(&bad, ES_EARGUMENT, "a run");
    expect_refusal(NULL, ES_EARGUMENT, "a run");
    bad = good;
    bad.ring_bytes = SIZE_MAX;
    expect_refusal(&bad, ES_EARGUMENT, "a ring of");
    const int64_t sizes[][2] = {{0, 1},         {1, 0},        {-1, 5},
                                {5, INT64_MIN}, {4097, 1},     {1, 4097},
                                {2048, 2048},   {INT64_MAX, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run.n_layer = sizes[i][0];
        run.n_head = sizes[i][1];
        expect_refusal(&good, ES_EARGUMENT, "layers");
    }
    run = recording_run();
    run.config = "{broken";
    expect_refusal(&good, ES_EARGUMENT, "not JSON");
    assert_false(exists(good.path, ""));
}

/* --- programs of another version ------------------------------------------ */

TEST(options_without_their_size_are_refused)
{
    es_run_info run = recording_run();
    es_recorder_options options =
        recording_options(recording_path("s.db"), &run);
    options.size = 0;
    expect_refusal(&options, ES_EARGUMENT, "set it to sizeof (es_recorder_opt");
    options.size = sizeof options;
    run.size = 0;
    expect_refusal(&options, ES_EARGUMENT, "set it to sizeof (es_run_info)");
    assert_false(exists(options.path, ""));
}

/* A program that was built with an older header passes shorter structs. The
 * memory behind a shorter struct belongs to other objects and must not be
 * read. */
TEST(an_older_program_records)
{
    const char *path = recording_path("older.db");
    es_run_info run = recording_run();
    es_recorder_options options = recording_options(path, &run);
    run.size = offsetof(es_run_info, d_model);
    run.config = "{broken";
    options.size = offsetof(es_recorder_options, program);
    options.program = "/nonexistent";
    options.ring_bytes = SIZE_MAX;
    es_recorder *recorder;
    es_assert_ok(es_recorder_open(&recorder, &options));
    struct {
        size_t size;
        uint64_t pushed, something_else;
    } report = {offsetof(es_recorder_report, committed), 7, 8};
    es_assert_ok((es_recorder_close)(recorder, ES_RUN_FINISHED,
                                     (es_recorder_report *)(void *)&report));
    assert_int_equal(report.pushed, 0);
    assert_int_equal(report.something_else, 8);
    es_reader *reader = es_open_reader(path);
    es_run_info found;
    es_assert_ok(es_reader_run(reader, 0, &found));
    assert_int_equal(found.n_head, run.n_head);
    assert_int_equal(found.d_model, 0); /* zero stands for a member that the
                                           older struct lacks */
    assert_null(found.config);
    es_reader_close(reader);
    recording_remove(path);
}

TEST(a_newer_program_must_not_set_unknown_members)
{
    struct {
        es_recorder_options known;
        int64_t more;
    } options;
    const es_run_info run = recording_run();
    options.known = recording_options(recording_path("newer.db"), &run);
    options.known.size = sizeof options;
    options.more = 1;
    expect_refusal(&options.known, ES_EARGUMENT, "install a newer library");
    options.more = 0;
    es_recorder *recorder;
    es_assert_ok(es_recorder_open(&recorder, &options.known));
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
    recording_remove(options.known.path);
}

TEST(a_report_without_its_size_does_not_prevent_the_end)
{
    const char *path = recording_path("report.db");
    es_recorder_report report = {.size = 0, .pushed = 7};
    es_assert_status(
        ES_EARGUMENT, "sizeof (es_recorder_report)",
        (es_recorder_close)(recording_open(path), ES_RUN_FINISHED, &report));
    assert_int_equal(report.pushed, 7);
    es_reader *reader = es_open_reader(path);
    es_run_info found;
    es_assert_ok(es_reader_run(reader, 0, &found));
    assert_int_equal(found.status, ES_RUN_FINISHED);
    es_reader_close(reader);
    recording_remove(path);
}

/* --- impossible files ----------------------------------------------------- */

static void make_file(const char *path, const char *text)
{
    AUTO(FILE) file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
}

TEST(impossible_files_are_refused)
{
    const es_run_info run = recording_run();
    es_recorder_options options =
        recording_options(recording_path("none/x.db"), &run);
    expect_refusal(&options, ES_EIO, "none/x.db");
    options.path = "/proc/x.db"; /* even root cannot create a file in /proc */
    expect_refusal(&options, ES_EIO, "/proc/x.db");
    options.path = recording_path("");
    expect_refusal(&options, ES_EIO, "");
    options.path = recording_path("text.db");
    make_file(options.path, "this is a letter, not a run file");
    expect_refusal(&options, ES_EFORMAT, "not a run file");
    char text[64] = "";
    FILE *file = fopen(options.path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "this is a letter, not a run file");
}

TEST(unwritable_folder_is_refused)
{
    if (geteuid() == 0) {
        /* If this process is root, runs the test as another user, because root
         * may write everywhere. */
        const char *place = recording_path("");
        chmod(place, 0755);
        pid_t pid = fork();
        if (pid == 0) {
            const es_run_info run = recording_run();
            const es_recorder_options options =
                recording_options(recording_path("mine.db"), &run);
            es_recorder *recorder;
            if (setgid(65534) != 0 || setuid(65534) != 0 ||
                access(getenv("ENTROPY_RECORDER"), X_OK) != 0)
                _exit(77);
            es_status status = es_recorder_open(&recorder, &options);
            _exit(status == ES_EIO && strstr(es_message(), "mine.db") ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            es_skip("another user cannot run the programs here");
        assert_int_equal(WEXITSTATUS(status), 0);
    } else {
        const es_run_info run = recording_run();
        const char *place = recording_path("closed");
        assert_int_equal(mkdir(place, 0555), 0);
        const es_recorder_options options =
            recording_options(recording_path("closed/x.db"), &run);
        expect_refusal(&options, ES_EIO, "closed/x.db");
    }
}

TEST(a_second_writer_learns_the_first_ones_pid)
{
    const char *path = recording_path("two.db");
    es_recorder *first = recording_open(path);
    char pid[32];
    snprintf(pid, sizeof pid, "process %d", (int)first->child.pid);
    const es_run_info run = recording_run();
    const es_recorder_options options = recording_options(path, &run);
    es_recorder *second;
    assert_int_equal(es_recorder_open(&second, &options), ES_ELOCKED);
    assert_null(second);
    assert_non_null(strstr(es_message(), pid));
    close_well(first, 0);
    es_assert_ok(es_recorder_open(&second, &options));
    es_assert_ok(es_recorder_close(second, ES_RUN_FINISHED, NULL));
}

/* --- resuming -------------------------------------------------------------*/

#define UUID "00000000-0000-4000-8000-000000000001"

static es_recorder *resume(const char *path, int64_t step)
{
    es_run_info run = recording_run();
    run.uuid = UUID;
    es_recorder_options options = recording_options(path, &run);
    options.resume_step = step;
    es_recorder *recorder;
    es_assert_ok(es_recorder_open(&recorder, &options));
    return recorder;
}

TEST(a_resumed_run_continues)
{
    const char *path = recording_path("resume.db");
    es_recorder *recorder = resume(path, 0);
    int series[4];
    float wrong[CELLS] = {1, 2, 3};
    recording_declare(recorder, series);
    for (int64_t step = 0; step < 60; step++)
        recording_push(recorder, series, 0, step);
    for (int64_t step = 60; step < 100; step++)
        es_recorder_push(recorder, series[0], step, wrong, CELLS);
    es_recorder_event(recorder, 10, "early", ES_SEVERITY_INFO, "stays");
    es_recorder_event(recorder, 70, "late", ES_SEVERITY_INFO, "goes");
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FAILED, NULL));

    recorder = resume(path, 60);
    recording_declare(recorder, series);
    for (int64_t step = 60; step < 90; step++)
        recording_push(recorder, series, 0, step);
    close_well(recorder, 30);
    assert_int_equal(recording_check(path, 0, 0), 90);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
    assert_true(recording_event(path, "early", NULL, NULL));
    assert_false(recording_event(path, "late", NULL, NULL));

    es_run_info run = recording_run();
    run.uuid = UUID;
    run.n_head++;
    const es_recorder_options options = recording_options(path, &run);
    es_assert_status(ES_EFORMAT, "5 layers of 7 heads",
                     es_recorder_open(&recorder, &options));
}

TEST(a_refused_series_does_not_affect_others)
{
    const char *path = recording_path("shape.db");
    es_recorder *recorder = resume(path, 0);
    int odd, series[4];
    es_assert_ok(es_recorder_series(recorder, &odd, "odd", ES_SHAPE_RUN,
                                    ES_PHASE_TRAIN, NULL));
    close_well(recorder, 0);

    recorder = resume(path, 0);
    float values[CELLS] = {0.5F};
    recording_declare(recorder, series);
    recording_push(recorder, series, 0, 0);
    es_assert_ok(es_recorder_series(recorder, &odd, "odd", ES_SHAPE_LAYER,
                                    ES_PHASE_TRAIN, NULL));
    for (int64_t step = 1; step < 40; step++) {
        es_recorder_push(recorder, odd, step, values, LAYERS);
        recording_push(recorder, series, 0, step);
        recording_push(recorder, series, 2, step - 1);
    }
    es_recorder_report report;
    es_assert_status(ES_EFORMAT, "series odd",
                     es_recorder_close(recorder, ES_RUN_FINISHED, &report));
    assert_int_equal(report.pushed, 118);
    assert_int_equal(report.committed, 79);
    assert_int_equal(report.lost, 39);
    assert_int_equal(recording_check(path, 0, 0), 40);
    assert_int_equal(recording_check(path, 2, 0), 39);
    assert_int_equal(recording_status(path), ES_RUN_FINISHED);
    char data[256];
    assert_true(recording_event(path, "refused", NULL, data));
    assert_string_equal(data, "{\"refused\":39}");
}

/* --- threads --------------------------------------------------------------*/

struct pusher {
    es_recorder *recorder;
    const int *series;
    int which;
    uint64_t pushed, refused;
};

static void *push_many(void *argument)
{
    struct pusher *pusher = argument;
    for (int64_t step = 0; step < 20000; step++) {
        es_status status = recording_push(pusher->recorder, pusher->series,
                                          pusher->which, step);
        pusher->pushed += status == ES_OK;
        pusher->refused += status == ES_EARGUMENT;
    }
    return NULL;
}

TEST(two_threads_at_once_are_refused)
{
    const char *path = recording_path("threads.db");
    es_recorder *recorder = recording_open(path);
    int series[4];
    pthread_t thread;
    recording_declare(recorder, series);
    struct pusher here = {recorder, series, 1, 0, 0};
    struct pusher there = {recorder, series, 2, 0, 0};
    pthread_create(&thread, NULL, push_many, &there);
    push_many(&here);
    pthread_join(thread, NULL);
    assert_int_equal(here.pushed + here.refused, 20000);
    assert_int_equal(there.pushed + there.refused, 20000);
    close_well(recorder, here.pushed + there.pushed);
    recording_remove(path);
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
