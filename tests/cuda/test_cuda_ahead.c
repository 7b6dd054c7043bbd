/* Tests steps that are launched before the results of the previous step are
 * known. The bits must be the same as if each step is launched after the
 * previous one has ended, even if a step is skipped or a loss is not finite. */
/* needs: nvcc */
#include "tests/support/test.h"
#include "tests/support/training.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_STEPS = 9, N_HEADS = 3 };

static int set_up(void **state)
{
    char path[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/tests/libentropytrain_cuda_host.so",
             build ? build : "build");
    if (access(path, F_OK) == 0)
        setenv("ENTROPY_TRAIN_CUDA", path, 0);
    return training_set_up(state);
}

/* Returns the operations of the CUDA back-end. Skips the test if there is no
 * library or no device. */
static const es_ops *cuda(es_precision precision)
{
    const es_ops *ops;
    es_backend *backend;
    if (!getenv("ENTROPY_TRAIN_CUDA"))
        es_skip("no nvcc");
    es_assert_ok(es_ops_find(&ops, "cuda", precision));
    if (ops->open(&backend, 0) != ES_OK)
        es_skip("no GPU");
    ops->close(backend);
    return ops;
}

static es_settings settings_of(const char *arch, double lr)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, arch));
    s.model.n_layer = 1;
    s.model.ctx = 5;
    s.model.batch = 2;
    s.train.steps = N_STEPS;
    s.train.lr = lr;
    s.train.warm_up = 0;
    s.after_nan = N_STEPS;
    return s;
}

static es_trainer *open_on(const es_settings *settings, const es_ops *ops)
{
    es_trainer *trainer = NULL;
    es_assert_ok(es_trainer_new_on(&trainer, settings, ops));
    return trainer;
}

static bool is_measured(int64_t step)
{
    return step % 3 != 1;
}

static void expect_same_step(const es_step *a, const es_step *b)
{
    assert_int_equal(a->step, b->step);
    assert_memory_equal(&a->losses, &b->losses, sizeof a->losses);
    assert_memory_equal(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm);
    assert_true(a->lr == b->lr && a->loss_scale == b->loss_scale);
    assert_int_equal(a->measured, b->measured);
    assert_int_equal(a->skipped, b->skipped);
}

static void expect_same_measures(es_trainer *a, es_trainer *b)
{
    float heads[N_HEADS];
    for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
        memcpy(heads, es_measure_heads(a->measure, (es_head_series)i),
               sizeof heads);
        assert_memory_equal(heads,
                            es_measure_heads(b->measure, (es_head_series)i),
                            sizeof heads);
    }
}

static void expect_same_model(es_model *a, es_model *b)
{
    assert_int_equal(es_model_n_updates(a), es_model_n_updates(b));
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

typedef struct outcome {
    int n_ahead, n_skipped, n_nan;
} outcome;

/* Runs two trainers to the end, one of which launches steps ahead. Compares
 * their results, and counts steps that were launched ahead, skipped steps and
 * losses that are not finite. */
static outcome compare(es_precision precision, const char *arch, double lr,
                       int accumulate)
{
    es_settings s = settings_of(arch, lr);
    outcome all = {0};
    s.train.accumulate = accumulate;
    es_trainer *ahead = open_on(&s, cuda(precision));
    es_trainer *plain = open_on(&s, cuda(precision));
    for (int64_t step = 0; step < N_STEPS; step++) {
        es_step a, b;
        /* before an evaluation, which follows step 5 here, no step may be
         * launched ahead */
        ahead->may_run_ahead = step + 1 < N_STEPS && step != 5;
        ahead->measures_next = is_measured(step + 1);
        es_assert_ok(es_trainer_step(ahead, &a, step, is_measured(step)));
        es_assert_ok(es_trainer_step(plain, &b, step, is_measured(step)));
        assert_false(plain->is_ahead);
        expect_same_step(&a, &b);
        if (a.measured)
            expect_same_measures(ahead, plain);
        all.n_ahead += ahead->is_ahead;
        all.n_skipped += a.skipped;
        all.n_nan += !isfinite(a.losses.loss);
        if (!ahead->is_ahead)
            expect_same_model(ahead->model, plain->model);
    }
    assert_int_equal(ahead->saw_nan, plain->saw_nan);
    assert_true(ahead->loss_scale.scale == plain->loss_scale.scale);
    es_trainer_free(ahead);
    es_trainer_free(plain);
    return all;
}

TEST(good_steps_are_launched_ahead)
{
    const outcome one = compare(ES_FP32, "EReg(SM(t)+LN+G)", 1e-2, 1);
    assert_true(one.n_ahead == N_STEPS - 2 && one.n_skipped == 0);
    const outcome two = compare(ES_BF16, "SM+LN+G", 1e-2, 2);
    assert_true(two.n_ahead == N_STEPS - 2 && two.n_nan == 0);
}

TEST(an_overflow_is_reported_with_its_step)
{
    const outcome all = compare(ES_FP16, "SM+LN+G", 3, 1);
    assert_true(all.n_ahead > 0 && all.n_skipped > 0);
    assert_true(all.n_skipped < N_STEPS);
}

TEST(a_non_finite_loss_is_reported_with_its_step)
{
    const outcome all = compare(ES_FP32, "SM+R", 1e12, 1);
    assert_true(all.n_ahead > 0 && all.n_nan > 0 && all.n_nan < N_STEPS);
}

/* Steps that were launched ahead may be repeated, which would apply SNorm's
 * power iteration twice. */
TEST(steps_with_spectral_norm_are_not_launched_ahead)
{
    const outcome all = compare(ES_FP32, "SM+LN+G+SNorm(QK)", 1e-2, 1);
    assert_int_equal(all.n_ahead, 0);
}

/* Evaluations, checkpoints and the end of the training loop must see the model
 * as it is directly after the preceding step, although other steps are launched
 * ahead. */
TEST(a_training_gives_the_same_numbers)
{
    static training_seen seen, plain;
    es_settings s = settings_of("SM+LN+G", 1e-2);
    const es_ops *ops = cuda(ES_FP32);
    snprintf(s.backend, sizeof s.backend, "cuda");
    s.eval_every = 5;
    memset(&seen, 0, sizeof seen);
    const es_train_result result = training_run(&seen, &s);
    assert_int_equal(result.status, ES_RUN_FINISHED);
    assert_int_equal(seen.n_steps, N_STEPS);
    assert_int_equal(seen.n_evals, 3);
    es_trainer *trainer = open_on(&s, ops);
    memset(&plain, 0, sizeof plain);
    for (int64_t step = 0; step <= N_STEPS; step++) {
        es_losses losses;
        es_step done;
        if (step % 5 == 0 || step == N_STEPS) {
            es_assert_ok(es_trainer_evaluate(trainer, &losses));
            assert_true(losses.ce == seen.eval[plain.n_evals++]);
        }
        if (step == N_STEPS)
            break;
        es_assert_ok(es_trainer_step(trainer, &done, step, false));
        assert_true(done.losses.loss == seen.loss[step]);
        assert_true(done.grad_norm == seen.norm[step]);
    }
    es_trainer_free(trainer);
}

TEST_GROUP(set_up, training_tear_down)
