/* Tests that the recorder judges the samples that it writes, and stores its
 * alerts as events of the run. */
#include "cli/runs/summary.h"
#include "tests/support/recorded.h"
#include "tests/support/recording.h"
#include "tests/support/test.h"

#define CTX 32 /* ceiling 2.55 nats */

static int declare(es_recorder *recorder, const char *name, es_phase phase)
{
    int series;
    es_assert_ok(es_recorder_series(recorder, &series, name, ES_SHAPE_HEAD,
                                    phase, NULL));
    return series;
}

/* Opens a recorder for a run that can be judged, without a warm-up and with a
 * ceiling. */
static es_recorder *start(const char *path, const char *uuid, int64_t resume,
                          int *entropy, int *logit)
{
    es_run_info run = recording_run();
    run.ctx = CTX;
    run.uuid = uuid;
    run.config = "{\"steps\":40}";
    es_recorder_options options = recording_options(path, &run);
    options.resume_step = resume;
    es_recorder *recorder = NULL;
    es_assert_ok(es_recorder_open(&recorder, &options));
    *entropy = declare(recorder, "entropy", ES_PHASE_TRAIN);
    *logit = declare(recorder, "max_logit", ES_PHASE_TRAIN);
    return recorder;
}

/* Pushes samples in which layer 3 collapses from step `fall` on and logits
 * grow; the other values are healthy. */
static void push(es_recorder *recorder, int entropy, int logit, int64_t step,
                 int64_t fall)
{
    float entropies[CELLS], logits[CELLS];
    for (int i = 0; i < CELLS; i++) {
        bool low = step >= fall && i / HEADS == 3;
        entropies[i] = low ? 0.01f : 1.0f + (float)i / 100;
        logits[i] = step >= fall + 5 ? (step >= fall + 8 ? 5000.f : 500.f) : 9;
    }
    es_assert_ok(es_recorder_push(recorder, entropy, step, entropies, CELLS));
    es_assert_ok(es_recorder_push(recorder, logit, step, logits, CELLS));
}

static void finish(es_recorder *recorder)
{
    es_assert_ok(es_recorder_close(recorder, ES_RUN_FINISHED, NULL));
}

typedef struct alert {
    int64_t step, layer;
    es_severity severity;
    char key[96], data[256];
} alert;

static size_t read_alerts(alert *out, size_t most, const char *path)
{
    const es_event *events;
    size_t n, n_alerts = 0;
    es_reader *reader = es_open_reader(path);
    es_assert_ok(es_reader_events(reader, 0, &events, &n));
    for (size_t i = 0; i < n; i++) {
        if (!events[i].dedupe || strncmp(events[i].dedupe, "alert:", 6) != 0)
            continue;
        assert_true(n_alerts < most);
        alert *a = &out[n_alerts++];
        a->step = events[i].step;
        a->layer = events[i].layer;
        a->severity = events[i].severity;
        snprintf(a->key, sizeof a->key, "%s", events[i].dedupe);
        snprintf(a->data, sizeof a->data, "%s", events[i].data);
        assert_non_null(events[i].message);
    }
    es_reader_close(reader);
    return n_alerts;
}

static void assert_alert(const alert *a, const char *key, int64_t step,
                         int64_t layer, es_severity severity)
{
    assert_string_equal(a->key, key);
    assert_int_equal(a->step, step);
    assert_true(a->layer == layer);
    assert_int_equal(a->severity, severity);
}

static void assert_the_three(const char *path)
{
    alert found[8];
    assert_int_equal(read_alerts(found, 8, path), 3);
    assert_alert(&found[0], "alert:collapse@20:critical", 22, 3,
                 ES_SEVERITY_CRITICAL);
    assert_string_equal(
        found[0].data,
        "{\"onset\":20,\"value\":1,\"threshold\":0.5,\"layers\":[3]}");
    assert_alert(&found[1], "alert:logits@25:warning", 25, ES_UNKNOWN,
                 ES_SEVERITY_WARNING);
    assert_alert(&found[2], "alert:logits@25:error", 28, ES_UNKNOWN,
                 ES_SEVERITY_ERROR);
}

/* Layer 0 is uniform and has a separate, lower ceiling, one third of the
 * ceiling of the other layers. */
TEST(layers_are_judged_by_their_own_ceilings)
{
    for (int planned = 0; planned < 2; planned++) {
        const char *path = recording_path(planned ? "planned.db" : "open.db");
        es_run_info run = recording_run();
        run.ctx = CTX;
        run.config = planned ? "{\"steps\":40,\"ceiling\":3,\"layers\":"
                               "[{\"ceiling\":0.5},{\"ceiling\":0.5},null,"
                               "null,null]}"
                             : "{\"layers\":[{\"ceiling\":0.5},"
                               "{\"ceiling\":0.5},null,null,null]}";
        es_recorder_options options = recording_options(path, &run);
        es_recorder *recorder = NULL;
        es_assert_ok(es_recorder_open(&recorder, &options));
        const int entropy = declare(recorder, "entropy", ES_PHASE_TRAIN);
        for (int64_t step = 0; step < 40; step++) {
            float x[CELLS];
            for (int i = 0; i < CELLS; i++)
                x[i] = i < 2 * HEADS ? 0.45F : 1.0F;
            es_assert_ok(es_recorder_push(recorder, entropy, step, x, CELLS));
        }
        finish(recorder);
        alert found[4];
        const size_t n = read_alerts(found, 4, path);
        assert_int_equal(n, planned ? 2 : 1);
        assert_int_equal(found[n - 1].severity,
                         planned ? ES_SEVERITY_ERROR : ES_SEVERITY_INFO);
    }
}

TEST(alerts_are_events_of_the_run)
{
    const char *path = recording_path("alerts.db");
    int entropy, logit;
    es_recorder *recorder = start(path, NULL, 0, &entropy, &logit);
    for (int64_t step = 0; step < 40; step++)
        push(recorder, entropy, logit, step, 20);
    finish(recorder);
    assert_the_three(path);
}

/* A reader that judges the finished run must find the same onsets. */
TEST(alerts_are_those_that_a_reader_finds)
{
    alert found[8];
    const char *path = recording_path("alerts.db");
    AUTO(es_run_summary) summary = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_ok(es_summary_load(&summary, reader, 0, &options));
    assert_int_equal(read_alerts(found, 8, path), 3);
    assert_int_equal(summary->n_flags, 2);
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_flag *flag = &summary->flags[i];
        char key[96];
        snprintf(key, sizeof key, "alert:%s@%lld:%s", es_flag_name(flag->kind),
                 (long long)flag->onset, es_severity_name(flag->severity));
        assert_string_equal(found[i ? 2 : 0].key, key);
    }
}

/* Resumes the run in the middle of an episode, and before the samples that
 * opened the episode. */
TEST(a_resumed_run_has_each_alert_once)
{
    static const int64_t resumed_at[] = {35, 26, 22, 21, 20, 7};
    const char *uuid = "01234567-89ab-4def-8123-456789abcdef";
    for (size_t i = 0; i < sizeof resumed_at / sizeof *resumed_at; i++) {
        const char *path = recording_path("resumed.db");
        int entropy, logit;
        recording_remove(path);
        es_recorder *recorder = start(path, uuid, 0, &entropy, &logit);
        for (int64_t step = 0; step < 37; step++)
            push(recorder, entropy, logit, step, 20);
        finish(recorder);
        recorder = start(path, uuid, resumed_at[i], &entropy, &logit);
        for (int64_t step = resumed_at[i]; step < 40; step++)
            push(recorder, entropy, logit, step, 20);
        finish(recorder);
        assert_the_three(path);
    }
}

/* Only few losses follow the resumption, so the judge must fill its window of
 * losses from the file. */
TEST(a_resumed_run_knows_its_earlier_losses)
{
    static const int64_t resumed_at[] = {0, 45, 52};
    const char *uuid = "01234567-89ab-4def-8123-456789abcdef";
    for (size_t i = 0; i < sizeof resumed_at / sizeof *resumed_at; i++) {
        const char *path = recording_path("spike.db");
        es_run_info run = recording_run();
        alert found[4];
        run.uuid = uuid;
        recording_remove(path);
        for (int part = resumed_at[i] == 0; part < 2; part++) {
            es_recorder_options options = recording_options(path, &run);
            es_recorder *recorder = NULL;
            int loss;
            options.resume_step = part ? resumed_at[i] : 0;
            es_assert_ok(es_recorder_open(&recorder, &options));
            es_assert_ok(es_recorder_series(
                recorder, &loss, "loss", ES_SHAPE_RUN, ES_PHASE_TRAIN, NULL));
            for (int64_t step = options.resume_step; step < (part ? 60 : 54);
                 step++) {
                const float value = step >= 50 && step < 55 ? 4 : 2;
                es_assert_ok(es_recorder_push(recorder, loss, step, &value, 1));
            }
            finish(recorder);
        }
        assert_int_equal(read_alerts(found, 4, path), 1);
        assert_alert(&found[0], "alert:loss_spike@50:warning", 50, ES_UNKNOWN,
                     ES_SEVERITY_WARNING);
    }
}

TEST(alerts_arrive_during_the_run)
{
    alert found[8];
    const char *path = recording_path("live.db");
    int entropy, logit;
    es_recorder *recorder = start(path, NULL, 0, &entropy, &logit);
    for (int64_t step = 0; step < 12; step++)
        push(recorder, entropy, logit, step, 5);
    es_await(read_alerts(found, 8, path) >= 2);
    assert_alert(&found[0], "alert:collapse@5:critical", 7, 3,
                 ES_SEVERITY_CRITICAL);
    finish(recorder);
}

TEST(an_infinite_logit_is_valid_json)
{
    alert found[8];
    float logits[CELLS];
    const char *path = recording_path("infinite.db");
    int entropy, logit;
    es_recorder *recorder = start(path, NULL, 0, &entropy, &logit);
    for (int i = 0; i < CELLS; i++)
        logits[i] = i == 9 ? INFINITY : 1;
    es_assert_ok(es_recorder_push(recorder, logit, 3, logits, CELLS));
    finish(recorder);
    assert_int_equal(read_alerts(found, 8, path), 2);
    assert_string_equal(found[0].key, "alert:nan@3:critical");
    assert_string_equal(found[1].key, "alert:logits@3:error");
    assert_string_equal(
        found[1].data,
        "{\"onset\":3,\"value\":null,\"threshold\":1e3,\"layers\":[1]}");
}

/* Held-out data is a separate series, which is judged only on request. */
TEST(only_the_train_phase_is_judged)
{
    alert found[8];
    float low[CELLS];
    const char *path = recording_path("eval.db");
    int entropy, logit;
    es_recorder *recorder = start(path, NULL, 0, &entropy, &logit);
    int eval = declare(recorder, "entropy", ES_PHASE_EVAL);
    for (int i = 0; i < CELLS; i++)
        low[i] = 0.001f;
    for (int64_t step = 3; step < 9; step++)
        es_assert_ok(es_recorder_push(recorder, eval, step, low, CELLS));
    finish(recorder);
    assert_int_equal(read_alerts(found, 8, path), 0);
}

TEST_GROUP(recording_setup, recording_teardown)
TEST_EACH(recording_begin, recording_end)
