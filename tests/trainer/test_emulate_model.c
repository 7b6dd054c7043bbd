/* Tests --emulate fp16 in whole models: which values are rounded, and the
 * effect on training. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/cpu/half.h"
#include "hooks/trainer/model/operations.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

/* --- models --------------------------------------------------------------- */

static es_model_config emulated(const char *arch, es_family family)
{
    es_model_config config = es_small_config(arch);
    config.family = family;
    config.emulate = ES_EMULATE_FP16;
    return config;
}

static void expect_halves(const char *what, const es_mem *memory, int n)
{
    const float *values = es_cpu_read(memory);
    double sum = 0;
    for (int i = 0; memory && i < n; i++) {
        if (values[i] != es_half_round(values[i]))
            fail_msg("%s: %a is not rounded", what, (double)values[i]);
        sum += fabs((double)values[i]);
    }
    assert_true(!memory || n == 0 || sum > 0);
}

static void expect_full_precision(const char *what, const es_mem *memory, int n)
{
    const float *values = es_cpu_read(memory);
    int rounded = 0;
    for (int i = 0; memory && i < n; i++)
        rounded += values[i] == es_half_round(values[i]);
    if (rounded > n / 2)
        fail_msg("%s: %d of %d are rounded", what, rounded, n);
}

/* Checks all values that a forward pass stores. */
static void expect_rounded_activations(const es_model *model)
{
    const es_model_config *config = &model->config;
    const int n = es_model_n_rows(model) * config->d_model;
    const int wide = n * config->mlp_mult;
    for (int i = 0; i < config->n_layer; i++) {
        const es_layer_memory *at = &model->layers[i];
        expect_halves("x", at->x, n);
        expect_halves("u1", at->u1, n);
        expect_halves("u2", at->u2, es_model_has_ffn(model, i) ? n : 0);
        expect_halves("qkv", at->qkv, 3 * n);
        expect_halves("heads", at->heads, n);
        expect_halves("middle", at->middle, n);
        expect_halves("pre", at->pre, wide);
        expect_halves("f", at->f, n);
    }
    expect_halves("output", model->layers[config->n_layer].x, n);
    expect_halves("normed", model->normed, n);
    expect_halves("wide", model->wide, wide);
    expect_halves("logits", model->logits,
                  es_model_loss_rows(model) * config->vocab);
}

static const char *const archs[] = {"SM+LN+G",  "SM+R",
                                    "PSM(2)",   "SM+LR(layer)",
                                    "SM+ScFFN", "EReg(SM(t)+ScFuFFNi1)"};
#define N_ARCHS (sizeof archs / sizeof *archs)

static void check_activations(const char *arch, es_family family)
{
    es_model_config config = emulated(arch, family);
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    const int n = s.n * config.d_model;
    es_small_forward(&s);
    expect_rounded_activations(s.model);
    es_assert_ok(es_model_backward(s.model, 1));
    /* the backward pass recomputed layer 0 last, so `wide` holds its values */
    expect_halves("wide", s.model->wide, n * config.mlp_mult);
    expect_full_precision("dx", s.model->dx, n);
    expect_full_precision("df", s.model->df, n);
    expect_full_precision("dqkv", s.model->dwide, 3 * n);
}

TEST(every_activation_is_rounded)
{
    for (size_t i = 0; i < N_ARCHS; i++) {
        check_activations(archs[i], ES_FAMILY_GPT2);
        check_activations(archs[i], ES_FAMILY_PYTHIA);
    }
}

static float *gradient_of(es_small_model *s, size_t index, size_t n)
{
    float *out = malloc(n * sizeof *out);
    assert_non_null(out);
    es_assert_ok(es_model_get_gradient(s->model, index, out, n));
    return out;
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow((double)a[i] - (double)(b ? b[i] : 0), 2);
    return sqrt(sum);
}

/* Expects that the backward pass treats rounding as the identity. Each gradient
 * may differ from that in fp32 by 1 % of the gradient's norm plus 1e-3.
 * PowerSoftmax is not tested, because its gradient is very sensitive where the
 * scores of a row are small. */
static void check_straight_through(const char *arch, es_family family)
{
    es_model_config config = emulated(arch, family);
    /* without the penalty's tolerance gamma the penalty is a continuous
     * function, so rounding cannot make it jump */
    config.gamma = 0;
    AUTO_BY(es_small_close) es_small_model half = es_small_open(&config);
    config.emulate = ES_EMULATE_NONE;
    AUTO_BY(es_small_close) es_small_model full = es_small_open(&config);
    es_small_forward(&half);
    es_small_forward(&full);
    assert_true(half.losses.loss != full.losses.loss);
    assert_true(fabs(half.losses.loss / full.losses.loss - 1) <= 2e-3);
    es_assert_ok(es_model_backward(half.model, 1));
    es_assert_ok(es_model_backward(full.model, 1));
    for (size_t i = 0; i < es_model_n_arrays(full.model); i++) {
        const es_parameter p = es_model_parameter(full.model, i);
        float *a = gradient_of(&half, i, p.n), *b = gradient_of(&full, i, p.n);
        double off = distance(a, b, p.n), size = distance(b, NULL, p.n);
        if (!(off <= 0.01 * size + 1e-3))
            fail_msg("%s: gradient of %s: the error has the norm %g, the "
                     "gradient has the norm %g",
                     arch, p.name, off, size);
        free(a);
        free(b);
    }
}

TEST(gradients_pass_through_the_rounding)
{
    static const char *const smooth[] = {"SM+LN+G", "SM+LN+GT", "SM+LN",
                                         "SM+LN+ScFFN",
                                         "EReg(SM(t)+LN+ScFuFFNi1)"};
    for (size_t i = 0; i < sizeof smooth / sizeof *smooth; i++) {
        check_straight_through(smooth[i], ES_FAMILY_GPT2);
        check_straight_through(smooth[i], ES_FAMILY_PYTHIA);
    }
}

/* Returns a model with logits of about 1e6, which overflow in fp16 but not in
 * fp32. */
static es_small_model with_big_weights(es_emulation emulate)
{
    es_model_config config = es_small_config("SM+LN+G");
    float weight[12 * 36];
    config.emulate = emulate;
    es_small_model s = es_small_open(&config);
    size_t index = es_small_find(&s, "h.1.attn.c_attn.weight");
    es_assert_ok(es_model_get(s.model, index, weight, 12 * 36));
    for (int i = 0; i < 12 * 36; i++)
        /* scale only the columns of q and k */
        weight[i] *= i % 36 < 24 ? 600 : 1;
    es_assert_ok(es_model_set(s.model, index, weight, 12 * 36));
    es_small_forward(&s);
    return s;
}

TEST(large_weights_overflow)
{
    AUTO_BY(es_small_close)
    es_small_model half = with_big_weights(ES_EMULATE_FP16);
    AUTO_BY(es_small_close)
    es_small_model full = with_big_weights(ES_EMULATE_NONE);
    const int per_layer = half.n * 3;
    const float *entropy = es_model_rows(half.model, ES_ROW_ENTROPY);
    float nan_activations[2], rms[2];
    int bad = 0;
    for (int i = 0; i < per_layer; i++) {
        /* the outputs of layer 0 stay finite */
        assert_true(isfinite(entropy[i]));
        bad += isnan(entropy[per_layer + i]);
    }
    assert_true(bad > per_layer / 2);
    es_model_activation_stats(half.model, nan_activations, rms);
    assert_true(nan_activations[0] == 0 && nan_activations[1] > 0);
    assert_true(isnan(half.losses.loss));
    entropy = es_model_rows(full.model, ES_ROW_ENTROPY);
    for (int i = 0; i < 2 * per_layer; i++)
        assert_true(isfinite(entropy[i]));
    es_model_activation_stats(full.model, nan_activations, rms);
    assert_true(nan_activations[0] == 0 && nan_activations[1] == 0);
    assert_true(isfinite(full.losses.loss));
}

/* --- training ------------------------------------------------------------- */

TEST(training_matches_fp32)
{
    static training_seen half, full;
    es_settings settings = training_small();
    settings.train.steps = 120;
    settings.train.lr = 1e-2;
    es_train_result want = training_run(&full, &settings);
    settings.model.emulate = ES_EMULATE_FP16;
    es_train_result got = training_run(&half, &settings);
    /* training must reduce the loss */
    assert_true(full.ce[119] < 0.75 * full.ce[0]);
    assert_true(got.eval.ce != want.eval.ce);
    assert_true(fabs(got.eval.ce / want.eval.ce - 1) <= 0.02);
}

/* Returns settings without LayerNorm and with large steps, so that the residual
 * stream exceeds the range of fp16 several steps before it exceeds the range of
 * fp32. */
static es_settings growing(es_emulation emulate)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, "SM+R"));
    s.model.emulate = emulate;
    s.train.lr = 3;
    s.train.weight_decay = 0;
    s.train.steps = 40;
    return s;
}

TEST(a_failure_names_the_layer)
{
    training_seen half = {0}, full = {0};
    es_train_result result = training_record(&half, growing(ES_EMULATE_FP16));
    assert_int_equal(result.status, ES_RUN_FAILED);
    assert_true(result.nan_layer >= 0);
    const es_run_info info = training_info();
    assert_non_null(strstr(info.config, "\"emulate\":\"fp16\""));
    float bad[2];
    training_sample(bad, "nan_activations", ES_PHASE_TRAIN, result.nan_step, 2);
    for (int l = 0; l < 2; l++)
        assert_int_equal(bad[l] > 0, l >= result.nan_layer);
    char text[256], layer[32];
    snprintf(layer, sizeof layer, "output of layer %d", result.nan_layer);
    assert_non_null(
        strstr(es_train_describe_nan(text, sizeof text, &result), layer));
    es_settings settings = growing(ES_EMULATE_NONE);
    es_train_result other = training_run(&full, &settings);
    assert_true(isfinite(full.loss[result.nan_step]));
    assert_true(other.nan_step < 0 || other.nan_step > result.nan_step);
}

static es_status parse(es_settings *out, es_verb verb, char *value)
{
    char *words[] = {"entropy-train", "--emulate", value};
    es_settings_default(out, verb);
    return es_settings_parse(out, 3, words);
}

TEST(the_emulation_option_is_read)
{
    es_settings s;
    es_settings_default(&s, ES_VERB_TRAIN);
    assert_int_equal(s.model.emulate, ES_EMULATE_NONE);
    es_assert_ok(parse(&s, ES_VERB_TRAIN, "fp16"));
    assert_int_equal(s.model.emulate, ES_EMULATE_FP16);
    es_assert_ok(parse(&s, ES_VERB_TRAIN, "none"));
    assert_int_equal(s.model.emulate, ES_EMULATE_NONE);
    es_assert_status(ES_EUSAGE,
                     "--emulate: unknown value 'fp8': expected one of none, "
                     "fp16",
                     parse(&s, ES_VERB_TRAIN, "fp8"));
    es_assert_status(ES_EUSAGE, "--emulate", parse(&s, ES_VERB_BENCH, "fp16"));
}

TEST_GROUP(training_set_up, training_tear_down)
