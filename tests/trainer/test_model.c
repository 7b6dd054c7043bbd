/* Tests a model's parameters, passes and steps, and checks which results a NaN
 * or an infinity affects. */
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* --- the optimiser -------------------------------------------------------- */

static float value_of(const es_small_model *s, const char *name)
{
    size_t index = es_small_find(s, name);
    float values[512];
    size_t n = es_model_parameter(s->model, index).n;
    assert_true(n <= 512);
    es_assert_ok(es_model_get(s->model, index, values, n));
    return values[n - 1];
}

/* If all gradients are 0, only weight decay changes parameters. It must change
 * matrices only. */
TEST(only_matrices_decay)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    double norm = 9;
    static const char *const decaying[] = {
        "wte", "wpe", "h.0.attn.c_attn.weight", "h.1.mlp.c_proj.weight"};
    static const char *const others[] = {"h.0.ln_1.weight", "h.1.ln_2.bias",
                                         "ln_f.weight", "h.1.attn.c_attn.bias",
                                         "h.0.mlp.c_fc.bias"};
    float before[4], kept[5];
    for (size_t i = 0; i < 4; i++)
        before[i] = value_of(&s, decaying[i]);
    for (size_t i = 0; i < 5; i++)
        kept[i] = value_of(&s, others[i]);
    es_model_zero_gradients(s.model);
    norm = es_small_update(&s, NULL, 0.5);
    assert_true(norm == 0);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabsf(value_of(&s, decaying[i]) - 0.95f * before[i]) <
                    1e-6f);
    for (size_t i = 0; i < 5; i++)
        assert_true(value_of(&s, others[i]) == kept[i]);
}

/* A slope decays only with --slope-decay. */
TEST(a_slope_decays_on_request)
{
    static const char *const names[] = {"h.1.mlp.slope", "slope"};
    for (int i = 0; i < 4; i++) {
        es_model_config config =
            es_small_config(i % 2 ? "SM+LR(global)" : "SM+LR(layer)");
        es_train_config train;
        es_train_config_default(&train);
        train.slope_decay = i / 2;
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        float before = value_of(&s, names[i % 2]);
        es_model_zero_gradients(s.model);
        es_small_update(&s, &train, 0.5);
        float want = i / 2 ? 0.95f * before : before;
        assert_true(fabsf(value_of(&s, names[i % 2]) - want) < 1e-7f);
    }
}

/* Takes a step and returns the change of one weight. Because eps is much larger
 * than any gradient, the change is lr * g / eps, which is linear in the
 * gradient g. */
static double movement(double clip, double *norm)
{
    es_train_config train;
    es_train_config_default(&train);
    train.clip = clip;
    train.beta1 = train.beta2 = train.weight_decay = 0;
    train.eps = 1e6;
    es_small_model s = es_small_open_arch("SM+LN+G");
    double before = (double)value_of(&s, "ln_f.bias");
    es_small_gradients(&s);
    es_assert_ok(es_model_update(s.model, &train, 1e6, norm));
    double moved = before - (double)value_of(&s, "ln_f.bias");
    es_small_close(&s);
    return moved;
}

TEST(gradients_are_clipped_by_their_norm)
{
    double norm, same;
    double free_step = movement(0, &norm);
    assert_true(norm > 0.5 && fabs(free_step) > 1e-3);
    double clipped = movement(norm / 4, &same);
    assert_true(same == norm);
    assert_true(fabs(clipped - free_step / 4) < 1e-5 * fabs(free_step));
    assert_true(fabs(movement(2 * norm, &same) - free_step) <
                1e-6 * fabs(free_step));
}

/* With --bias qk the v part of the bias does not change. The k part adds the
 * same value to all scores of a row; its gradient consists of rounding errors
 * and may be 0. */
TEST(a_frozen_bias_stays)
{
    es_model_config config = es_small_config("SM+R");
    config.bias = ES_BIAS_QK;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    float before[36], after[36];
    size_t index = es_small_find(&s, "h.1.attn.c_attn.bias");
    es_assert_ok(es_model_get(s.model, index, before, 36));
    es_small_gradients(&s);
    es_small_update(&s, NULL, 1e-2);
    es_assert_ok(es_model_get(s.model, index, after, 36));
    for (int i = 0; i < 12; i++)
        assert_true(after[i] != before[i]);
    for (int i = 24; i < 36; i++)
        assert_true(after[i] == before[i]);
}

TEST(trainable_numbers_are_counted)
{
    es_model_config config = es_small_config("SM+LN+G");
    const size_t d = 12, per_layer = 4 * d + 3 * d * d + 3 * d + d * d + d +
                                     2 * (2 * d * d) + 2 * d + d;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    assert_int_equal(es_model_n_parameters(s.model),
                     11 * d + 5 * d + 2 * per_layer + 2 * d);
    es_small_close(&s);
    config.bias = ES_BIAS_QK;
    s = es_small_open(&config);
    assert_int_equal(es_model_n_parameters(s.model),
                     11 * d + 5 * d + 2 * d +
                         2 * (per_layer - d - d - 2 * d - d));
}

/* --- trouble -------------------------------------------------------------- */

/* A NaN in a q column of head 1 of layer 1 makes this head, and everything in
 * later layers, NaN. */
TEST(a_nan_weight_spoils_its_head_and_later_layers)
{
    es_model_config config = es_small_config("SM+LN+G");
    config.n_layer = 3;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    size_t index = es_small_find(&s, "h.1.attn.c_attn.weight");
    AUTO_FREE float *weights = malloc(12 * 36 * sizeof *weights);
    double rows[9], weights_of[9], entropy[9];
    float count[3], rms[3];
    es_assert_ok(es_model_get(s.model, index, weights, 12 * 36));
    weights[5 * 36 + 4] = NAN;
    es_assert_ok(es_model_set(s.model, index, weights, 12 * 36));
    es_small_forward(&s);
    assert_true(isnan(s.losses.loss));
    es_model_heads(rows, s.model, ES_HEAD_NONFINITE_ROWS);
    es_model_heads(weights_of, s.model, ES_HEAD_NONFINITE_WEIGHTS);
    es_model_heads(entropy, s.model, ES_HEAD_ENTROPY);
    es_model_activation_stats(s.model, count, rms);
    for (int h = 0; h < 9; h++) {
        bool bad = h == 4 || h >= 6;
        assert_int_equal(rows[h], bad ? 10 : 0);
        /* 1 + 2 + 3 + 4 + 5 weights in each of two sequences */
        assert_int_equal(weights_of[h], bad ? 30 : 0);
        assert_int_equal(isnan(entropy[h]) != 0, bad);
    }
    assert_true(count[0] == 0 && isfinite(rms[0]) && rms[0] > 0);
    assert_true(count[1] == 120 && count[2] == 120 && isnan(rms[1]));
}

/* If the gradient is not finite, it is not clipped, and the step makes
 * parameters NaN. */
TEST(a_step_without_a_finite_gradient_is_taken)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+G");
    double norm = 0;
    float wte[132];
    es_assert_ok(es_model_get(s.model, 0, wte, 132));
    wte[3 * 12] = INFINITY; /* the embedding of token 3, which is the first
                               token of the micro-batch */
    es_assert_ok(es_model_set(s.model, 0, wte, 132));
    es_small_forward(&s);
    assert_true(!isfinite(s.losses.loss));
    es_model_zero_gradients(s.model);
    es_assert_ok(es_model_backward(s.model, 1));
    norm = es_small_update(&s, NULL, 1e-3);
    assert_true(!isfinite(norm));
    es_assert_ok(es_model_get(s.model, 0, wte, 132));
    assert_true(isnan(wte[3 * 12]));
    es_small_forward(&s);
    assert_true(isnan(s.losses.loss));
}

TEST(an_impossible_configuration_is_refused)
{
    es_model *model = (es_model *)&model;
    es_model_config config = es_small_config("SM");
    config.n_head = 5;
    assert_int_equal(es_model_new(&model, &config, &es_cpu_ops, 1), ES_EUSAGE);
    assert_null(model);
}

TEST(too_large_a_model_is_refused)
{
    es_model_config config = es_small_config("SM");
    es_model *model;
    config.n_layer = 1024;
    config.d_model = 1 << 16;
    config.n_head = 1 << 8;
    config.batch = 1 << 12;
    config.ctx = 1 << 14;
    config.mlp_mult = 64;
    assert_int_equal(es_model_new(&model, &config, &es_cpu_ops, 1), ES_ENOMEM);
    assert_null(model);
}

TEST(wrong_calls_are_refused)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    float few[3];
    assert_int_equal(es_model_backward(s.model, 1), ES_EARGUMENT);
    es_small_forward(&s);
    es_assert_ok(es_model_backward(s.model, 1));
    assert_int_equal(es_model_backward(s.model, 1), ES_EARGUMENT);
    assert_int_equal(es_model_get(s.model, 0, few, 3), ES_EARGUMENT);
    assert_int_equal(es_model_get(s.model, 1000, few, 3), ES_EARGUMENT);
    s.tokens[4] = 11;
    es_assert_status(
        ES_EFORMAT, "token 4",
        es_model_forward(s.model, &s.losses, s.tokens, s.targets, true, false));
    s.tokens[4] = 0;
    s.targets[9] = -1;
    es_assert_status(
        ES_EFORMAT, "target 9",
        es_model_forward(s.model, &s.losses, s.tokens, s.targets, true, false));
}

TEST(without_targets_there_is_no_loss)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM+LN+G");
    es_small_forward(&s);
    float first = es_model_logits(s.model)[100];
    es_assert_ok(
        es_model_forward(s.model, &s.losses, s.tokens, NULL, false, false));
    assert_true(isnan(s.losses.loss) && isnan(s.losses.ce));
    assert_true(es_model_logits(s.model)[100] == first);
    assert_int_equal(es_model_backward(s.model, 1), ES_EARGUMENT);
}

/* This model is created without memory for gradients and for the optimiser's
 * moments. */
TEST(a_forward_only_model_refuses_training)
{
    es_model_config config = es_small_config("EReg(SM(t)+LN+G)");
    AUTO_BY(es_small_close) es_small_model both = es_small_open(&config);
    config.forward_only = true;
    AUTO_BY(es_small_close) es_small_model one = es_small_open(&config);
    es_train_config train;
    float values[64] = {0};
    double norm;
    es_train_config_default(&train);
    es_small_forward(&both);
    es_small_forward(&one);
    assert_true(one.losses.loss <= both.losses.loss &&
                one.losses.loss >= both.losses.loss);
    size_t bias = es_small_find(&one, "ln_f.bias");
    size_t n = es_model_parameter(one.model, bias).n;
    assert_int_equal(es_model_backward(one.model, 1), ES_EARGUMENT);
    assert_int_equal(es_model_update(one.model, &train, 1, &norm),
                     ES_EARGUMENT);
    assert_int_equal(es_model_get_gradient(one.model, bias, values, n),
                     ES_EARGUMENT);
    assert_int_equal(
        es_model_set_moment(one.model, ES_MOMENT_FIRST, bias, values, n),
        ES_EARGUMENT);
    es_model_zero_gradients(one.model);
}
