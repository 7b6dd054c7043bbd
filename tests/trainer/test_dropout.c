/* Tests dropout: every variant of the kernels drops the same elements, the
 * backward pass drops the elements that the forward pass has dropped,
 * evaluations drop none, and a step has the same result whether it runs as one
 * sequence or as separate passes. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/trainer.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"
#include "tests/support/training.h"
#include "tests/support/variants.h"

AUTO_OF(es_trainer, es_trainer_free)

enum { N = 4 * 1237 + 3 };

static es_mem *mem(void *floats)
{
    return (es_mem *)floats;
}

/* --- the mask ------------------------------------------------------------- */

/* Compares the generator with the published known answers of Philox-4x32-10
 * (Salmon et al.). */
TEST(the_generator_is_philox)
{
    uint32_t zero[4] = {0}, ones[4];
    const uint32_t of_zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    const uint32_t of_ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    memset(ones, 0xff, sizeof ones);
    es_philox(zero, 0, 0);
    es_philox(ones, UINT32_MAX, UINT32_MAX);
    assert_memory_equal(zero, of_zero, sizeof zero);
    assert_memory_equal(ones, of_ones, sizeof ones);
}

static void run(float *y, const float *r, const float *x,
                const es_cpu_kernels *kernels, const es_dropout *how,
                uint64_t pass, int n_threads)
{
    es_backend *cpu;
    es_assert_ok(es_cpu_ops.open(&cpu, n_threads));
    if (kernels)
        cpu->kernels = kernels;
    es_cpu_ops.dropout(cpu, mem(y), mem((void *)(uintptr_t)r),
                       mem((void *)(uintptr_t)x), how, mem(&pass), N);
    es_cpu_ops.close(cpu);
}

TEST(every_variant_drops_by_the_counter_alone)
{
    static float x[N], r[N], y[N];
    const es_dropout how = {
        .rate = 0.3f, .seed = UINT64_C(0x123456789), .place = 5, .offset = 3};
    const es_drop_mask mask = es_drop_mask_of(&how, UINT64_C(0x700000000));
    uint64_t seed = 7;
    es_test_fill(x, N, 2, &seed);
    es_test_fill(r, N, 2, &seed);
    EACH_VARIANT(kernels)
    for (int n_threads = 1; n_threads < 4; n_threads++) {
        run(y, r, x, *kernels, &how, UINT64_C(0x700000000), n_threads);
        for (size_t i = 0; i < N; i++) {
            float factors[4];
            es_drop_factors(factors, &mask, i / 4);
            assert_true(fabsf(y[i] - (r[i] + factors[i % 4] * x[i])) <= 1e-6f);
        }
        run(y, NULL, x, *kernels, &how, UINT64_C(0x700000000), n_threads);
        for (size_t i = 0; i < N; i++)
            assert_true((y[i] == 0) != (fabsf(y[i]) > fabsf(x[i])));
    }
}

/* The fraction of dropped elements must be within four standard deviations of
 * the dropout rate, and no two masks may be equal. */
TEST(each_pass_and_place_drops_its_share_independently)
{
    static float x[N], y[5][N];
    const es_dropout base = {.rate = 0.1f, .seed = 1, .place = 2};
    es_dropout of_seed = base, of_place = base, later = base;
    of_seed.seed = 2;
    of_place.place = 3;
    later.offset = 1;
    for (int i = 0; i < N; i++)
        x[i] = 1;
    run(y[0], NULL, x, NULL, &base, 4, 1);
    run(y[1], NULL, x, NULL, &of_seed, 4, 1);
    run(y[2], NULL, x, NULL, &of_place, 4, 1);
    run(y[3], NULL, x, NULL, &base, 5, 1);
    run(y[4], NULL, x, NULL, &later, 4, 1);
    assert_memory_equal(y[3], y[4], sizeof y[3]);
    for (int k = 0; k < 4; k++) {
        int n = 0, both = 0;
        for (int i = 0; i < N; i++) {
            n += y[k][i] == 0;
            both += k > 0 && y[k][i] == 0 && y[0][i] == 0;
        }
        assert_true(fabs(n / (double)N - 0.1) <= 4 * sqrt(0.09 / N));
        assert_true(k == 0 ||
                    fabs(both / (double)N - 0.01) <= 4 * sqrt(0.0099 / N));
    }
}

/* --- the model ------------------------------------------------------------ */

static es_model_config config_of(const char *arch, es_family family)
{
    es_model_config config = es_small_config(arch);
    config.family = family;
    config.dropout = 0.2;
    return config;
}

/* Adds h times its gradient to every parameter. */
static void move(es_model *model, double h)
{
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter p = es_model_parameter(model, i);
        AUTO_FREE float *x = calloc(p.n, sizeof *x);
        AUTO_FREE float *g = calloc(p.n, sizeof *g);
        es_assert_ok(es_model_get(model, i, x, p.n));
        es_assert_ok(es_model_get_gradient(model, i, g, p.n));
        for (size_t k = 0; p.trainable && k < p.n; k++)
            x[k] += (float)(h * (double)g[k]);
        es_assert_ok(es_model_set(model, i, x, p.n));
    }
}

static double squares_of(es_model *model)
{
    double sum = 0;
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter p = es_model_parameter(model, i);
        AUTO_FREE float *g = calloc(p.n, sizeof *g);
        es_assert_ok(es_model_get_gradient(model, i, g, p.n));
        for (size_t k = 0; p.trainable && k < p.n; k++)
            sum += (double)g[k] * (double)g[k];
    }
    return sum;
}

/* Takes a small step of size h along the gradient, which must increase the loss
 * by h times the gradient's squared norm. */
static void check_gradient(const char *arch, es_family family)
{
    const es_model_config config = config_of(arch, family);
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    es_small_gradients(&s);
    const double want = squares_of(s.model), h = 1e-3 / sqrt(want);
    double losses[2];
    for (int i = 0; i < 2; i++) {
        move(s.model, i ? -2 * h : h);
        es_small_forward(&s);
        losses[i] = s.losses.loss;
    }
    const double got = (losses[0] - losses[1]) / (2 * h);
    if (!(fabs(got - want) <= 5e-3 * want))
        fail_msg("%s: %g, not %g", arch, got, want);
}

TEST(gradients_drop_the_same_elements_as_the_pass)
{
    static const char *const archs[] = {"SM+LN+G", "SM+R", "SM+ScFFN",
                                        "SM(t)+ScFuFFNi1",
                                        "SM+LN[0]+G+ScFFN[1]"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        check_gradient(archs[i], ES_FAMILY_GPT2);
        check_gradient(archs[i], ES_FAMILY_PYTHIA);
    }
}

TEST(evaluations_drop_nothing)
{
    es_model_config config = config_of("SM+LN+G", ES_FAMILY_GPT2);
    es_losses losses[2];
    for (int i = 0; i < 2; i++) {
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        es_assert_ok(es_model_forward(s.model, &losses[i], s.tokens, s.targets,
                                      false, true));
        es_small_forward(&s);
        assert_int_equal(s.losses.ce != losses[i].ce, config.dropout > 0);
        config.dropout = 0;
    }
    assert_true(losses[0].ce == losses[1].ce);
}

static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    const es_small_model *s = user;
    for (int k = 0; k < s->n; k++) {
        tokens[k] = (s->tokens[k] + i) % s->config->vocab;
        targets[k] = s->targets[k];
    }
    return ES_OK;
}

/* Returns the loss of a step with two micro-batches, the eleventh and twelfth
 * of the training run. The step runs as one sequence of operations, or as
 * separate passes if a step with another number of micro-batches has been run
 * before. */
static double step_of_two(bool as_passes, uint64_t pass)
{
    const es_model_config config = config_of("SM+LN+R", ES_FAMILY_GPT2);
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    es_train_config train;
    es_outcome out;
    es_train_config_default(&train);
    es_step_plan plan = {.n_batches = 1, .draw = draw, .user = &s};
    if (as_passes)
        es_assert_ok(es_model_run_step(s.model, &out, &plan, &train));
    plan.n_batches = 2;
    plan.pass = pass;
    es_assert_ok(es_model_run_step(s.model, &out, &plan, &train));
    return out.losses.ce + out.grad_norm;
}

TEST(a_step_drops_the_same_as_one_sequence_and_as_passes)
{
    assert_true(step_of_two(false, 10) == step_of_two(true, 10));
    assert_true(step_of_two(false, 10) != step_of_two(false, 11));
}

/* --- a training ----------------------------------------------------------- */

static double loss_at_two(double dropout, uint64_t seed)
{
    es_settings s = training_small();
    es_step done;
    s.model.dropout = dropout;
    s.model.seed = seed;
    AUTO(es_trainer) trainer = NULL;
    es_assert_ok(es_trainer_new(&trainer, &s));
    for (int64_t step = 0; step < 3; step++)
        es_assert_ok(es_trainer_step(trainer, &done, step, false));
    return done.losses.loss;
}

TEST(a_training_is_reproducible)
{
    assert_true(loss_at_two(0.1, 1) == loss_at_two(0.1, 1));
    assert_true(loss_at_two(0.1, 1) != loss_at_two(0, 1));
}

TEST_GROUP(training_set_up, training_tear_down)
