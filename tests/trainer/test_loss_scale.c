/* Tests dynamic scaling of the loss on a CPU back-end that scales the loss and
 * whose gradients overflow at a small value. */
#include "hooks/trainer/ranks/transport.h"
#include "hooks/trainer/train_record.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

#include <pthread.h>

AUTO_OF(es_trainer, es_trainer_free)

/* Limit beyond which gradients of logits overflow. In a step of 5 x 9 rows with
 * a scale of 65536 the largest gradient is about 1400, so the scale must be
 * halved four times, or three times for smaller gradients. */
static float largest = 100;

/* In this thread, each call of `overflow` whose number is a multiple of
 * `period` makes large gradients infinite. If `period` is 0, no call does. */
static _Thread_local int period = 1, n_calls;

static void overflow(es_backend *backend, es_mem *logits, const es_mem *lse,
                     const es_mem *targets, float scale, const es_mem *control,
                     int n_rows, int vocab, int stride)
{
    es_cpu_ops.cross_entropy_backward(backend, logits, lse, targets, scale,
                                      control, n_rows, vocab, stride);
    float *gradient = (float *)(void *)logits;
    if (period == 0 || ++n_calls % period != 0)
        return;
    for (int i = 0; i < n_rows * vocab; i++)
        if (fabsf(gradient[i]) > largest)
            gradient[i] = copysignf(INFINITY, gradient[i]);
}

static es_ops scaling;

static int set_up(void **state)
{
    scaling = es_cpu_ops;
    scaling.scales_loss = true;
    scaling.cross_entropy_backward = overflow;
    return training_set_up(state);
}

static es_trainer *open_on(const es_settings *settings, const es_ops *ops)
{
    es_trainer *trainer = NULL;
    es_assert_ok(es_trainer_new_on(&trainer, settings, ops));
    return trainer;
}

static es_step take(es_trainer *trainer, int64_t step)
{
    es_step done;
    es_assert_ok(es_trainer_step(trainer, &done, step, false));
    return done;
}

/* Expects that two models have the same parameters and moments. */
static void expect_same(es_model *a, es_model *b)
{
    for (size_t i = 0; i < es_model_n_arrays(a); i++) {
        const size_t n = es_model_parameter(a, i).n, bytes = n * sizeof(float);
        float *x = malloc(bytes), *y = malloc(bytes);
        assert_true(x && y);
        es_assert_ok(es_model_get(a, i, x, n));
        es_assert_ok(es_model_get(b, i, y, n));
        assert_memory_equal(x, y, bytes);
        es_assert_ok(es_model_get_moment(a, ES_MOMENT_SECOND, i, x, n));
        es_assert_ok(es_model_get_moment(b, ES_MOMENT_SECOND, i, y, n));
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
}

TEST(the_scale_halves_and_doubles)
{
    es_loss_scale now = {ES_LOSS_SCALE_START, 1234};
    now = es_loss_scale_next(now, false);
    assert_true(now.scale == 32768 && now.good_steps == 0);
    for (int i = 0; i < 1999; i++)
        now = es_loss_scale_next(now, true);
    assert_true(now.scale == 32768 && now.good_steps == 1999);
    now = es_loss_scale_next(now, true);
    assert_true(now.scale == 65536 && now.good_steps == 0);
    for (int i = 0; i < 40; i++)
        now = es_loss_scale_next(now, false);
    assert_true(now.scale == 1);
    for (int i = 0; i < 40 * ES_LOSS_SCALE_PATIENCE; i++)
        now = es_loss_scale_next(now, true);
    assert_true(now.scale == ES_LOSS_SCALE_LARGEST);
}

/* Expects that steps that overflow change nothing. Once the scale is small
 * enough, results must equal those without a scale, because multiplication by a
 * power of two changes no mantissa. */
static void check_steps(const char *arch)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, arch));
    s.model.lambda = 0.1;
    s.train.clip = 0.25;
    es_trainer *scaled = open_on(&s, &scaling), *fresh = open_on(&s, &scaling);
    es_trainer *plain = open_on(&s, &es_cpu_ops);
    int skipped = 0;
    for (int64_t step = 0; step < 12; step++) {
        const es_step got = take(scaled, step);
        assert_true(got.loss_scale == ldexp(1, 16 - skipped));
        if (got.skipped) {
            assert_true(step == skipped);
            assert_true(!isfinite(got.grad_norm));
            assert_true(isfinite(got.losses.loss));
            assert_true(es_model_n_updates(scaled->model) == 0);
            expect_same(scaled->model, fresh->model);
            skipped++;
            continue;
        }
        const es_step want = take(plain, step);
        assert_true(got.losses.loss == want.losses.loss);
        assert_true(got.grad_norm == want.grad_norm);
        expect_same(scaled->model, plain->model);
    }
    assert_true(skipped == 3 || skipped == 4);
    assert_true(es_model_n_updates(scaled->model) == 12 - skipped);
    assert_true(scaled->loss_scale.good_steps == 12 - skipped);
    assert_false(scaled->saw_nan);
    es_trainer_free(scaled);
    es_trainer_free(fresh);
    es_trainer_free(plain);
}

TEST(steps_that_overflow_are_skipped)
{
    check_steps("SM+LN+G");
    check_steps("EReg(SM(t)+ScFuFFNi1)");
    check_steps("SM+R+WNorm(QK)");
}

/* --- two ranks, one of which overflows ----------------------------------- */

enum { N_STEPS = 9 };

typedef struct rank {
    es_trainer *trainer;
    es_step steps[N_STEPS];
    es_status status;
} rank;

static es_trainer *open_rank(int number, int world, bool fixed_order)
{
    es_settings s = training_small();
    s.rank = number;
    s.world = world;
    s.fixed_order = fixed_order;
    s.train.accumulate = 2 / world;
    return open_on(&s, &scaling);
}

static void take_steps(rank *r, es_transport *transport)
{
    char note[ES_MESSAGE_MAX];
    r->status =
        es_model_set_ranks(r->trainer->model, transport,
                           r->trainer->settings.fixed_order, note, sizeof note);
    for (int64_t step = 0; r->status == ES_OK && step < N_STEPS; step++)
        r->status = es_trainer_step(r->trainer, &r->steps[step], step, false);
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    char path[128];
    bool reports;
    es_transport *transport = NULL;
    snprintf(path, sizeof path, "%s/ranks", training_folder);
    const es_transport_options options = {.rank = r->trainer->settings.rank,
                                          .world = 2,
                                          .rendezvous = path,
                                          .timeout_s = 60};
    period = options.rank;
    r->status = es_transport_open(&transport, &reports, &options);
    if (r->status == ES_OK)
        take_steps(r, transport);
    if (r->status == ES_OK)
        r->status = es_transport_wait(transport);
    es_transport_close(transport);
    return NULL;
}

/* Makes the second of two micro-batches overflow, or all micro-batches of rank
 * 1. */
static void check_ranks(bool fixed_order)
{
    rank one = {.trainer = open_rank(0, 1, fixed_order)}, two[2];
    pthread_t threads[2];
    period = 2;
    n_calls = 0;
    take_steps(&one, NULL);
    period = 1;
    assert_int_equal(one.status, ES_OK);
    for (int r = 0; r < 2; r++) {
        two[r] = (rank){.trainer = open_rank(r, 2, fixed_order)};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &two[r]),
                         0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    assert_true(one.steps[0].skipped && !one.steps[N_STEPS - 1].skipped);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(two[r].status, ES_OK);
        for (int i = 0; i < N_STEPS; i++) {
            const es_step *got = &two[r].steps[i], *want = &one.steps[i];
            assert_true(got->skipped == want->skipped);
            assert_true(got->loss_scale == want->loss_scale);
            assert_true(fabs(got->losses.loss - want->losses.loss) <=
                        (fixed_order ? 0 : 1e-6));
        }
        if (fixed_order)
            expect_same(two[r].trainer->model, one.trainer->model);
        expect_same(two[r].trainer->model, two[0].trainer->model);
    }
    for (int r = 0; r < 2; r++)
        es_trainer_free(two[r].trainer);
    es_trainer_free(one.trainer);
}

TEST(ranks_skip_the_steps_in_which_one_overflows)
{
    check_ranks(true);
    check_ranks(false);
}

/* Gradients that are read from the model do not include the scale. */
TEST(gradients_are_reported_without_the_scale)
{
    es_settings s = training_small();
    es_trainer *scaled = open_on(&s, &scaling);
    es_trainer *plain = open_on(&s, &es_cpu_ops);
    float x[12], y[12];
    scaled->loss_scale.scale = 256;
    take(scaled, 0);
    take(plain, 0);
    for (size_t i = 0; i < es_model_n_arrays(plain->model); i++) {
        if (es_model_parameter(plain->model, i).n != 12)
            continue;
        es_assert_ok(es_model_get_gradient(scaled->model, i, x, 12));
        es_assert_ok(es_model_get_gradient(plain->model, i, y, 12));
        assert_memory_equal(x, y, sizeof x);
    }
    es_trainer_free(scaled);
    es_trainer_free(plain);
}

/* A smaller scale cannot make a loss finite, so the step is not repeated with a
 * smaller scale: it is measured at once, and the parameters stay unchanged. */
TEST(no_scale_repairs_a_nan)
{
    es_settings s = training_small();
    AUTO(es_trainer) trainer = open_on(&s, &scaling);
    float bias[12] = {[3] = NAN};
    size_t i = 0;
    while (strcmp(es_model_parameter(trainer->model, i).name,
                  "h.1.ln_1.bias") != 0)
        i++;
    es_assert_ok(es_model_set(trainer->model, i, bias, 12));
    const es_step first = take(trainer, 0), second = take(trainer, 1);
    assert_true(isnan(first.losses.loss) && first.measured && first.skipped);
    assert_true(isnan(second.losses.loss) && !second.measured);
    assert_true(es_model_n_updates(trainer->model) == 0);
    take(trainer, 2);
}

/* A step that overflows at the minimum scale is taken and reported. */
TEST(at_the_minimum_scale_a_step_is_taken)
{
    es_settings s = training_small();
    AUTO(es_trainer) trainer = open_on(&s, &scaling);
    largest = 1e-6f;
    trainer->loss_scale.scale = 2;
    es_step step = take(trainer, 0);
    assert_true(step.skipped && step.loss_scale == 2);
    assert_true(es_model_n_updates(trainer->model) == 0);
    step = take(trainer, 1);
    largest = 100;
    assert_true(!step.skipped && !isfinite(step.grad_norm));
    assert_true(isfinite(step.losses.loss));
    assert_true(es_model_n_updates(trainer->model) == 1);
    assert_true(trainer->loss_scale.scale == 1);
}

TEST(a_checkpoint_keeps_the_scale)
{
    es_settings s = training_small();
    es_trainer *from = open_on(&s, &scaling), *to = open_on(&s, &scaling);
    char path[128];
    es_checkpoint *checkpoint = NULL;
    for (int64_t step = 0; step < 9; step++)
        take(from, step);
    es_checkpoint_state kept = {.step = 9,
                                .tokens_checksum = from->tokens->checksum,
                                .loss_scale = from->loss_scale};
    snprintf(kept.uuid, sizeof kept.uuid, "%s", from->uuid);
    es_settings_run_name(kept.name, &s);
    snprintf(path, sizeof path, "%s/scaled.safetensors", training_folder);
    es_assert_ok(
        es_checkpoint_write(path, from->model, &from->settings, &kept));
    es_assert_ok(es_checkpoint_open(&checkpoint, path));
    es_assert_ok(es_trainer_resume(to, checkpoint));
    assert_true(to->loss_scale.scale == from->loss_scale.scale);
    assert_true(to->loss_scale.good_steps == from->loss_scale.good_steps);
    assert_true(to->loss_scale.scale < ES_LOSS_SCALE_START);
    for (int64_t step = 9; step < 12; step++)
        assert_true(take(from, step).losses.loss == take(to, step).losses.loss);
    expect_same(from->model, to->model);
    es_checkpoint_close(checkpoint);
    remove(path);
    es_trainer_free(from);
    es_trainer_free(to);
}

TEST(the_run_records_the_scale)
{
    es_settings s = training_small();
    es_train_record *record = NULL;
    char path[128];
    float value;
    snprintf(path, sizeof path, "%s/run.db", training_folder);
    remove(path);
    es_trainer *trainer = open_on(&s, &scaling);
    es_assert_ok(es_train_record_open(&record, trainer, path));
    for (int64_t step = 0; step < 6; step++) {
        const es_step done = take(trainer, step);
        es_train_record_step(record, &done, trainer->measure, 1);
    }
    es_assert_ok(es_train_record_close(record, ES_RUN_FINISHED));
    es_trainer_free(trainer);
    training_sample(&value, "loss_scale", ES_PHASE_TRAIN, 0, 1);
    assert_true(value == 65536);
    training_sample(&value, "loss_scale", ES_PHASE_TRAIN, 2, 1);
    assert_true(value == 16384);
}

TEST_GROUP(set_up, training_tear_down)
