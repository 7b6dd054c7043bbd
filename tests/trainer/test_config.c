/* Tests which configurations are refused, and with which messages. */
#include "hooks/trainer/model/config.h"
#include "tests/support/families.h"
#include "tests/support/test.h"

TEST(defaults_are_fine)
{
    es_model_config model;
    es_train_config train;
    char text[ES_ARCH_TEXT_MAX];
    es_model_config_default(&model);
    es_train_config_default(&train);
    es_assert_ok(es_model_config_check(&model));
    es_assert_ok(es_train_config_check(&train));
    es_arch_print(text, sizeof text, &model.arch);
    assert_string_equal(text, "SM+LN+G");
    assert_true(train.lr == 1e-3 && train.clip == 1 && train.warm_up == 0.05);
    assert_true(train.beta1 == 0.9 && train.beta2 == 0.999);
    assert_true(train.weight_decay == 0.1 && train.eps == 1e-8);
    assert_true(model.gamma == 0.2 && model.lambda == 1e-5);
    assert_true(model.t_init == 1 && model.theta_init == 0.5);
}

#define REFUSE(field, value, named)                                            \
    do {                                                                       \
        es_model_config config;                                                \
        es_model_config_default(&config);                                      \
        config.field = value;                                                  \
        es_expect_config_refused(&config, named);                              \
    } while (0)

TEST(a_model_out_of_range_is_refused)
{
    REFUSE(n_layer, 0, "--n-layer");
    REFUSE(n_layer, 1000000, "--n-layer");
    REFUSE(n_head, 0, "--n-head");
    REFUSE(n_head, 7, "--n-head 7 does not divide --d-model 256");
    REFUSE(d_model, -256, "--d-model");
    REFUSE(ctx, 0, "--ctx");
    REFUSE(vocab, 0, "--vocab");
    REFUSE(batch, 0, "--batch");
    REFUSE(mlp_mult, 0, "--mlp-mult");
    REFUSE(gamma, -0.1, "--gamma");
    REFUSE(gamma, (double)NAN, "--gamma");
    REFUSE(lambda, (double)INFINITY, "--lambda");
    REFUSE(t_init, 0, "--t-init");
    REFUSE(theta_init, (double)NAN, "--theta-init");
    REFUSE(dropout, 1, "--dropout");
    REFUSE(dropout, -0.1, "--dropout");
    REFUSE(ln_eps, -1, "--ln-eps");
    REFUSE(arch.n_removed, 7, "ScFuFFNi7");
    REFUSE(arch.n_removed, -1, "ScFuFFNi-1");
    REFUSE(arch.n_removed_first, 7, "ScFuFFNe7");
}

/* Each size is within its limit, but the product of the sizes overflows an
 * int. */
TEST(too_many_tokens_are_refused)
{
    es_model_config config;
    es_model_config_default(&config);
    config.ctx = 1 << 20;
    config.batch = 1 << 6;
    es_assert_ok(es_model_config_check(&config));
    config.batch = 1 << 12;
    es_expect_config_refused(&config, "--batch 4096");
}

TEST(ranges_of_layers_are_checked)
{
    es_model_config config;
    es_model_config_default(&config);
    es_assert_ok(es_arch_parse(&config.arch, "SM+LN[0-5]+ScFFN[2]+G"));
    es_assert_ok(es_model_config_check(&config));
    config.n_layer = 5;
    es_expect_config_refused(&config, "layer 5");
    config.n_layer = 6;
    config.family = ES_FAMILY_ROBERTA;
    config.bias = ES_BIAS_ALL;
    es_expect_config_refused(&config, "'LN' with a range");
    config.family = ES_FAMILY_SAS;
    config.bias = ES_BIAS_QK;
    es_assert_ok(es_model_config_check(&config));
    es_assert_ok(es_arch_parse(&config.arch, "SM+LN+NoFFN[3]+NoFFN[6]"));
    es_expect_config_refused(&config, "layer 6");
    config.n_layer = 7;
    es_assert_ok(es_model_config_check(&config));
    es_assert_ok(es_arch_parse(&config.arch, "SM+LN+NoFFN"));
    es_assert_ok(es_model_config_check(&config));
}

TEST(heads_too_narrow_to_rotate_are_refused)
{
    es_model_config config;
    es_model_config_default(&config);
    config.family = ES_FAMILY_PYTHIA;
    config.n_head = config.d_model / 2;
    es_assert_ok(es_model_config_check(&config));
    config.n_head = config.d_model;
    es_expect_config_refused(&config, "pythia");
    config.family = ES_FAMILY_GPT2;
    es_assert_ok(es_model_config_check(&config));
}

#define REFUSE_TRAIN(field, value, named)                                      \
    do {                                                                       \
        es_train_config config;                                                \
        es_train_config_default(&config);                                      \
        config.field = value;                                                  \
        assert_int_equal(es_train_config_check(&config), ES_EUSAGE);           \
        if (!strstr(es_message(), named))                                      \
            fail_msg("message '%s' does not contain '%s'", es_message(),       \
                     named);                                                   \
    } while (0)

TEST(a_training_out_of_range_is_refused)
{
    REFUSE_TRAIN(steps, 0, "--steps");
    REFUSE_TRAIN(accumulate, 0, "--accumulate");
    REFUSE_TRAIN(lr, -1, "--lr");
    REFUSE_TRAIN(lr, (double)NAN, "--lr");
    REFUSE_TRAIN(beta1, 1, "--beta1");
    REFUSE_TRAIN(beta2, -0.1, "--beta2");
    REFUSE_TRAIN(eps, 0, "--eps");
    REFUSE_TRAIN(weight_decay, -1, "--weight-decay");
    REFUSE_TRAIN(clip, -1, "--clip");
    REFUSE_TRAIN(warm_up, 1.5, "--warm-up");
    REFUSE_TRAIN(lr_min, 1, "--lr-min");
    REFUSE_TRAIN(lr_min, -1e-9, "--lr-min");
}

TEST(the_rate_warms_up_and_decays)
{
    es_train_config config;
    es_train_config_default(&config);
    config.steps = 200;
    config.lr = 2;
    /* 10 steps of warm-up, then 190 steps of decay */
    assert_true(fabs(es_schedule(&config, 0) - 0.2) <= 1e-12);
    assert_true(fabs(es_schedule(&config, 4) - 1.0) <= 1e-12);
    assert_true(fabs(es_schedule(&config, 9) - 2.0) <= 1e-12);
    assert_true(fabs(es_schedule(&config, 10) - 2.0) <= 1e-12);
    assert_true(fabs(es_schedule(&config, 105) - 1.0) <= 1e-12);
    assert_true(fabs(es_schedule(&config, 199) - 2.0 / 190) <= 1e-12);
    assert_true(es_schedule(&config, 200) == 0);
    assert_true(es_schedule(&config, 5000) == 0);
}

/* 10 steps of warm-up, then 190 steps in which the learning rate falls from 2
 * to 0.5. */
TEST(schedules_end_at_the_minimum_rate)
{
    es_train_config config;
    es_train_config_default(&config);
    config.steps = 200;
    config.lr = 2;
    config.lr_min = 0.5;
    const struct {
        es_schedule_kind kind;
        double middle, late, end;
    } all[] = {{ES_SCHEDULE_LINEAR, 1.25, 0.5 + 1.5 / 19, 0.5},
               {ES_SCHEDULE_COSINE, 1.25,
                0.5 + 0.75 * (1 - cos(3.14159265358979323846 / 19)), 0.5},
               {ES_SCHEDULE_CONSTANT, 2, 2, 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        config.schedule = all[i].kind;
        assert_true(fabs(es_schedule(&config, 4) - 1.0) <= 1e-12);
        assert_true(fabs(es_schedule(&config, 10) - 2.0) <= 1e-12);
        assert_true(fabs(es_schedule(&config, 105) - all[i].middle) <= 1e-12);
        assert_true(fabs(es_schedule(&config, 190) - all[i].late) <= 1e-12);
        assert_true(fabs(es_schedule(&config, 200) - all[i].end) <= 1e-12);
        assert_true(fabs(es_schedule(&config, 999) - all[i].end) <= 1e-12);
    }
}

TEST(the_shortest_schedules_have_a_rate)
{
    es_train_config config;
    es_train_config_default(&config);
    config.lr = 3;
    /* with a single step, 5 % of the steps round to no warm-up */
    config.steps = 1;
    assert_true(es_schedule(&config, 0) == 3);
    config.warm_up = 1;
    assert_true(es_schedule(&config, 0) == 3);
    assert_true(es_schedule(&config, 1) == 0);
    config.warm_up = 0;
    config.steps = 4;
    assert_true(es_schedule(&config, 0) == 3);
    assert_true(fabs(es_schedule(&config, 3) - 0.75) <= 1e-12);
}
