/* Tests the table of operations that measures times: training has the same
 * result with the table, and the times of the phases add up. */
#include "hooks/trainer/cpu/phases.h"
#include "hooks/trainer/cpu/team.h"
#include "hooks/trainer/model/model.h"
#include "tests/support/test.h"

#include <time.h>

enum { N = 3 * 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes a step on three sequences of seven tokens; returns the duration in
 * seconds, and the loss. */
static double take_step(double *loss, es_model *model)
{
    int32_t tokens[N];
    es_train_config train;
    es_losses losses;
    double norm;
    for (int i = 0; i < N; i++)
        tokens[i] = i * 5 % 11;
    es_train_config_default(&train);
    const double start = now();
    es_model_zero_gradients(model);
    es_assert_ok(es_model_forward(model, &losses, tokens, tokens, true, true));
    es_assert_ok(es_model_backward(model, 1));
    es_assert_ok(es_model_update(model, &train, 1e-2, &norm));
    *loss = losses.loss;
    return now() - start;
}

static es_model *open_model(const char *arch, es_family family,
                            const es_ops *ops, int n_threads)
{
    es_model *model;
    es_model_config config;
    es_model_config_default(&config);
    config.family = family;
    config.n_layer = 3;
    config.n_head = 2;
    config.d_model = 8;
    config.ctx = 7;
    config.batch = 3;
    config.vocab = 11;
    es_assert_ok(es_arch_parse(&config.arch, arch));
    es_assert_ok(es_model_new(&model, &config, ops, n_threads));
    return model;
}

static void check_phases(const char *arch, es_family family, int n_threads,
                         const bool there[ES_N_CPU_PHASES])
{
    es_ops timed;
    double seconds[ES_N_CPU_PHASES], loss, want, sum = 0;
    es_cpu_phases_wrap(&timed, &es_cpu_ops);
    es_model *model = open_model(arch, family, &timed, n_threads);
    es_model *plain = open_model(arch, family, &es_cpu_ops, n_threads);
    es_cpu_phases_take(seconds);
    for (int i = 0; i < 2; i++) {
        const double took = take_step(&loss, model);
        take_step(&want, plain);
        assert_true(loss == want);
        es_cpu_phases_take(seconds);
        sum = 0;
        for (int k = 0; k < ES_CPU_WAITING; k++) {
            assert_int_equal(seconds[k] > 0, there[k]);
            sum += seconds[k];
        }
        assert_true(sum > 0 && sum <= took);
        assert_true(seconds[ES_CPU_WAITING] <= sum);
        assert_int_equal(seconds[ES_CPU_WAITING] > 0, n_threads > 1);
    }
    es_cpu_phases_take(seconds);
    for (int k = 0; k < ES_N_CPU_PHASES; k++)
        assert_true(seconds[k] == 0);
    es_model_free(model);
    es_model_free(plain);
}

TEST(a_timed_step_gives_the_same_result_and_its_phases_cover_it)
{
    const bool all[ES_N_CPU_PHASES] = {true, true, true, true, true,
                                       true, true, true, true, false};
    bool plain[ES_N_CPU_PHASES];
    memcpy(plain, all, sizeof all);
    plain[ES_CPU_NORMS] = plain[ES_CPU_OTHER] = false;
    check_phases("SM+G", ES_FAMILY_GPT2, 1, plain);
    check_phases("EReg(SM+LN+G+WNorm(QKVO,FFN))", ES_FAMILY_PYTHIA, 2, all);
    plain[ES_CPU_NORMS] = plain[ES_CPU_OTHER] = true;
    check_phases("SM+RN+SwiGLU", ES_FAMILY_LLAMA, 2, plain);
    check_phases("SM+ScFFN", ES_FAMILY_SAS, 2, plain);
    plain[ES_CPU_NORMS] = false;
    check_phases("SM+ScFuFFN", ES_FAMILY_GPT2, 3, plain);
}

static _Atomic bool is_done;

/* Makes the other thread's share end 5 ms after the caller's share. */
static void hold_up(void *argument, es_share share)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    (void)argument;
    while (share.thread == 1 && !is_done)
        nanosleep(&pause, NULL);
    if (share.thread == 1)
        nanosleep(&pause, NULL);
    is_done = true;
}

TEST(waiting_is_counted_on_request)
{
    es_team *team;
    double waited = 0;
    es_assert_ok(es_team_new(&team, 2));
    es_team_time(team, &waited);
    es_team_run(team, hold_up, NULL);
    assert_true(waited > 0);
    es_team_time(team, NULL);
    waited = 0;
    is_done = false;
    es_team_run(team, hold_up, NULL);
    assert_true(waited == 0);
    es_team_free(team);
}
