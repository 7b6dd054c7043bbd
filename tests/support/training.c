/* Runs training in a separate folder, and reads the run files that it
 * records. */
#include "tests/support/training.h"
#include "tests/support/run_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char training_folder[] = "/tmp/es_training_XXXXXX";
static char data[64], run_file[64];
static es_reader *reader; /* reader of run_file, or NULL */

static void close_reader(void)
{
    es_reader_close(reader);
    reader = NULL;
}

void training_write_data(unsigned shift)
{
    unsigned char bytes[TRAINING_N_TRAIN + TRAINING_N_HELD_OUT];
    for (size_t i = 0; i < sizeof bytes; i++) {
        size_t token = i % 31 == 30 ? i % TRAINING_VOCAB : 3 * (i % 5) + 1;
        bytes[i] =
            (unsigned char)((token + (i < TRAINING_N_TRAIN ? 0 : shift)) %
                            TRAINING_VOCAB);
    }
    es_tokens_content content = {
        TRAINING_VOCAB, 1,    TRAINING_N_TRAIN, TRAINING_N_HELD_OUT, 4, 1,
        "bytes",        bytes};
    FILE *file = fopen(data, "w");
    assert_non_null(file);
    es_assert_ok(es_tokens_write(file, &content));
    assert_int_equal(fclose(file), 0);
}

es_settings training_small(void)
{
    es_settings s;
    es_settings_default(&s, ES_VERB_TRAIN);
    s.model.n_layer = 2;
    s.model.n_head = 3;
    s.model.d_model = 12;
    s.model.ctx = 9;
    s.model.batch = 5;
    s.model.seed = 7;
    s.train.steps = 23;
    s.record_every = 4;
    s.eval_every = 10;
    s.eval_batches = 3;
    s.after_nan = 6;
    s.threads = 1;
    snprintf(s.data, sizeof s.data, "%s", data);
    return s;
}

static void on_step(void *user, const es_step *step, es_measure *measure,
                    double tokens_per_s)
{
    training_seen *s = user;
    assert_int_equal(step->step, s->n_steps);
    assert_true(tokens_per_s > 0);
    s->loss[s->n_steps] = step->losses.loss;
    s->ce[s->n_steps] = step->losses.ce;
    s->norm[s->n_steps] = step->grad_norm;
    s->lr[s->n_steps] = step->lr;
    s->measured[s->n_steps] = measure != NULL;
    s->n_steps++;
}

static void on_eval(void *user, int64_t step, const es_losses *losses)
{
    training_seen *s = user;
    s->eval_step[s->n_evals] = step;
    s->eval[s->n_evals++] = losses->ce;
}

static void on_warning(void *user, const char *message)
{
    training_seen *s = user;
    assert_int_equal(strcspn(message, "\n"), strlen(message));
    s->n_warnings++;
}

static bool should_stop(void *user)
{
    const training_seen *s = user;
    return s->stop_after > 0 && s->n_steps >= s->stop_after;
}

es_train_result training_resume(training_seen *out, const es_settings *settings,
                                const es_checkpoint *from)
{
    es_train_result result;
    es_train_watch watch = {on_step, on_eval, on_warning, should_stop, out};
    es_assert_ok(es_train(&result, settings, from, NULL, &watch));
    return result;
}

es_train_result training_run(training_seen *out, const es_settings *settings)
{
    return training_resume(out, settings, NULL);
}

es_train_result training_record(training_seen *out, es_settings settings)
{
    close_reader();
    unlink(run_file);
    snprintf(settings.out, sizeof settings.out, "%s", run_file);
    return training_run(out, &settings);
}

es_reader *training_reader(void)
{
    if (!reader)
        es_assert_ok(es_reader_open(&reader, run_file));
    return reader;
}

es_run_info training_info(void)
{
    es_run_info info;
    es_assert_ok(es_reader_run(training_reader(), 0, &info));
    return info;
}

es_series training_find(const char *name, es_phase phase)
{
    es_series series;
    es_assert_ok(es_reader_find(training_reader(), 0, name, phase, &series));
    return series;
}

int training_steps(const char *name, es_phase phase, int64_t *steps,
                   float *first_values)
{
    const es_series series = training_find(name, phase);
    es_cursor *cursor = NULL;
    const float *values;
    int n = 0;
    es_assert_ok(
        es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST, ES_STEP_LAST));
    while (es_cursor_next(cursor, &steps[n], &values) == ES_OK) {
        first_values[n++] = values[0];
        assert_true(n < TRAINING_MAX_STEPS);
    }
    es_cursor_close(cursor);
    return n;
}

void training_assert_steps(const char *name, es_phase phase,
                           const int64_t *want, int n_want)
{
    int64_t steps[TRAINING_MAX_STEPS];
    float values[TRAINING_MAX_STEPS];
    assert_int_equal(training_steps(name, phase, steps, values), n_want);
    assert_memory_equal(steps, want, (size_t)n_want * sizeof *steps);
}

void training_sample(float *out, const char *name, es_phase phase, int64_t step,
                     size_t n)
{
    const es_series series = training_find(name, phase);
    int64_t found;
    es_assert_ok(es_reader_sample(reader, &series, step, out, n, &found));
}

int training_set_up(void **state)
{
    (void)state;
    if (!mkdtemp(training_folder))
        return -1;
    snprintf(data, sizeof data, "%s/x.tok", training_folder);
    snprintf(run_file, sizeof run_file, "%s/run.db", training_folder);
    training_write_data(0);
    const char *build = getenv("BUILD");
    char recorder[4096];
    snprintf(recorder, sizeof recorder, "%s/entropy-recorder",
             build ? build : "build");
    return setenv("ENTROPY_RECORDER", recorder, 0);
}

int training_tear_down(void **state)
{
    (void)state;
    close_reader();
    unlink(data);
    unlink(run_file);
    return rmdir(training_folder);
}
