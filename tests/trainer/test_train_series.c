/* Tests which series a run has, and the values of the series of the model's
 * parameters. */
#include "hooks/trainer/trainer.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

AUTO_OF(es_trainer, es_trainer_free)

enum { L = 2, H = 3, LH = L * H, T = 9, STEPS = 5 };

static es_settings settings_of(const char *arch, es_family family)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, arch));
    s.model.family = family;
    s.train.steps = STEPS;
    s.train.lr = 0.03;
    s.record_every = 2;
    return s;
}

/* --- existing series ----------------------------------------------------- */

static const char *const always[] = {"entropy",
                                     "entropy_min",
                                     "entropy_max",
                                     "nonfinite_rows",
                                     "nonfinite_weights",
                                     "sink",
                                     "max_logit",
                                     "nan_activations",
                                     "act_rms",
                                     "loss",
                                     "ce",
                                     "distance",
                                     "top"};
static const char *const sometimes[] = {
    "missing_mass", "theta", "t_mean", "t_min", "t_max",
    "alpha",        "beta",  "slope",  "ereg",  "qk_clip"};

static bool has(const char *name, es_phase phase)
{
    es_series series;
    es_status status =
        es_reader_find(training_reader(), 0, name, phase, &series);
    assert_true(status == ES_OK || status == ES_ENOTFOUND);
    return status == ES_OK && series.last_step != ES_UNKNOWN;
}

static void check_series(const char *arch, es_family family, const char *own)
{
    training_seen seen = {0};
    training_record(&seen, settings_of(arch, family));
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        for (int phase = ES_PHASE_TRAIN; phase <= ES_PHASE_EVAL; phase++)
            if (!has(always[i], (es_phase)phase))
                fail_msg("%s: no %s", arch, always[i]);
    for (size_t i = 0; i < sizeof sometimes / sizeof *sometimes; i++) {
        const char *name = sometimes[i];
        const bool wanted = strstr(own, name) != NULL;
        const bool is_parameter =
            strcmp(name, "missing_mass") != 0 && strcmp(name, "ereg") != 0;
        const bool evaluated = wanted && !is_parameter;
        if (has(name, ES_PHASE_TRAIN) != wanted ||
            has(name, ES_PHASE_EVAL) != evaluated)
            fail_msg("%s: series %s should %sexist", arch, name,
                     wanted ? "" : "not ");
    }
}

TEST(each_architecture_has_its_series)
{
    static const struct {
        const char *arch;
        es_family family;
        const char *own;
    } table[] = {
        {"SM", ES_FAMILY_GPT2, ""},
        {"SM+LN+G", ES_FAMILY_PYTHIA, ""},
        {"SM+LR(0.05)", ES_FAMILY_GPT2, ""},
        {"SM+LN+LR(layer)", ES_FAMILY_GPT2, "slope"},
        {"SM+LR(global,0.2)", ES_FAMILY_PYTHIA, "slope"},
        {"SM(t)+LN+R", ES_FAMILY_GPT2, "t_mean t_min t_max"},
        {"SM(clip 9)", ES_FAMILY_GPT2, "qk_clip"},
        {"SM(t,clip 9,gate)+LN", ES_FAMILY_PYTHIA,
         "t_mean t_min t_max qk_clip"},
        {"PSM(2)+LN+G", ES_FAMILY_GPT2, "missing_mass"},
        {"SM+WNorm(QKV)+SNorm(FFN)", ES_FAMILY_GPT2, ""},
        {"SM+ScFFN", ES_FAMILY_GPT2, "alpha beta"},
        {"SM+ScFuFFN", ES_FAMILY_PYTHIA, "alpha beta"},
        {"SM+ScFuFFNi1", ES_FAMILY_GPT2, "alpha beta"},
        {"SM+ScFFN[1]+LR(layer)[0]", ES_FAMILY_GPT2, "alpha beta slope"},
        {"SM+LN[0]+G+ScFuFFN[0]", ES_FAMILY_PYTHIA, "alpha beta"},
        {"EReg(SM+LN+R)", ES_FAMILY_GPT2, "theta ereg"},
        {"EReg(PSM(4)+LN+LR(layer))", ES_FAMILY_GPT2,
         "missing_mass theta slope ereg"},
        {"EReg(SM(t)+ScFuFFNi1)", ES_FAMILY_PYTHIA,
         "theta t_mean t_min t_max alpha beta ereg"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_series(table[i].arch, table[i].family, table[i].own);
}

/* --- their values --------------------------------------------------------- */

/* Reads a parameter of the model; writes n missing values if the model has no
 * such parameter. */
static void read_parameter(float *out, es_model *model, const char *name,
                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = es_missing();
    for (size_t i = 0; i < es_model_n_arrays(model); i++)
        if (strcmp(es_model_parameter(model, i).name, name) == 0)
            es_assert_ok(es_model_get(model, i, out, n));
}

static void read_layers(float *out, es_model *model, const char *name, size_t n)
{
    char full[64];
    for (int layer = 0; layer < L; layer++) {
        snprintf(full, sizeof full, "h.%d.%s", layer, name);
        read_parameter(out + (size_t)layer * n, model, full, n);
    }
}

/* Compares the samples of a run at a step with `want`, which was read from a
 * separate trainer. The trainer uses the same seed, so the values have the same
 * bits. */
static void expect_series(const char *series, int64_t step, const float *want,
                          size_t n)
{
    float got[LH];
    training_sample(got, series, ES_PHASE_TRAIN, step, n);
    if (memcmp(got, want, n * sizeof *got) != 0)
        fail_msg("%s at step %d: %g, not %g", series, (int)step, (double)got[0],
                 (double)want[0]);
}

static void expect_temperatures(es_model *model, int64_t step)
{
    float t[LH][T], mean[LH], low[LH], high[LH];
    const bool is_direct = es_model_config_of(model)->arch.direct;
    read_layers(t[0], model, is_direct ? "attn.t" : "attn.log_t", H * T);
    for (int i = 0; !is_direct && i < LH * T; i++)
        t[i / T][i % T] = expf(t[i / T][i % T]);
    for (int h = 0; h < LH; h++) {
        double sum = 0;
        low[h] = high[h] = t[h][0];
        for (int i = 0; i < T; i++) {
            sum += (double)t[h][i];
            low[h] = fminf(low[h], t[h][i]);
            high[h] = fmaxf(high[h], t[h][i]);
        }
        mean[h] = (float)(sum / T);
    }
    expect_series("t_mean", step, mean, LH);
    expect_series("t_min", step, low, LH);
    expect_series("t_max", step, high, LH);
    if (step > 0)
        assert_true(low[1] < mean[1] && mean[1] < high[1]);
}

static es_trainer *open_trainer(const es_settings *settings)
{
    es_trainer *trainer = NULL;
    es_assert_ok(es_trainer_new(&trainer, settings));
    return trainer;
}

static void expect_step(es_model *model, int64_t step)
{
    const es_arch *arch = &es_model_config_of(model)->arch;
    float values[LH];
    if (arch->entropy_reg) {
        read_layers(values, model, "attn.theta", H);
        expect_series("theta", step, values, LH);
    }
    if (arch->temperature)
        expect_temperatures(model, step);
    if (arch->ffn != ES_FFN_TWO) {
        read_layers(values, model, "mlp.alpha", 1);
        expect_series("alpha", step, values, L);
        for (int l = 0; l < L; l++)
            assert_true(es_is_missing(values[l]) ==
                        (es_arch_parts(arch, l).ffn == ES_FFN_TWO ||
                         !es_arch_has_ffn(arch, l, L)));
        read_layers(values, model, "mlp.beta", 1);
        expect_series("beta", step, values, L);
    }
    if (arch->slope_kind != ES_SLOPE_FIXED) {
        read_layers(values, model, "mlp.slope", 1);
        for (int l = 0; l < L; l++)
            if (es_arch_parts(arch, l).slope_kind == ES_SLOPE_GLOBAL)
                read_parameter(values + l, model, "slope", 1);
        expect_series("slope", step, values, L);
    }
}

static void check_values(const char *arch, int accumulate)
{
    es_settings s = settings_of(arch, ES_FAMILY_GPT2);
    es_step done;
    training_seen seen = {0};
    s.model.lambda = 0.1;
    s.train.accumulate = accumulate;
    training_record(&seen, s);
    AUTO(es_trainer) trainer = open_trainer(&s);
    for (int64_t step = 0; step < STEPS; step++) {
        if (step % 2 == 0)
            expect_step(trainer->model, step);
        es_assert_ok(es_trainer_step(trainer, &done, step, false));
    }
}

TEST(series_are_the_parameters_of_the_step)
{
    check_values("EReg(SM(t)+ScFuFFNi1)", 1);
    check_values("EReg(SM(t)+ScFFN)", 2);
    check_values("EReg(SM(t,direct)+ScFFN)", 2);
    check_values("SM+LN+LR(layer)", 1);
    check_values("SM+LR(global,0.2)", 2);
    check_values("SM+LR(global,0.2)[1]+G[0]", 1);
    check_values("SM+LN[1]+ScFFN[1]+LR(layer)[0]", 1);
}

/* --- single values ------------------------------------------------------- */

/* Checks all values of a head series with n values (members) per head. The
 * series belongs to a parameter with `size` values per layer; the members of
 * head h are its values from `first` + h n on. */
static void expect_members(es_model *model, int64_t step, const char *series,
                           const char *parameter, size_t size, size_t first,
                           size_t n)
{
    float all[L * 64], want[LH];
    char name[ES_PARAMETER_MEMBER_SIZE];
    read_layers(all, model, parameter, size);
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < LH; i++) {
            const float x = all[i / H * size + first + i % H * n + k];
            want[i] = strcmp(series, "t") == 0 ? expf(x) : x;
        }
        snprintf(name, sizeof name, "%s.%zu", series, k);
        expect_series(name, step, want, LH);
    }
    snprintf(name, sizeof name, "%s.%zu", series, n);
    assert_false(has(name, ES_PHASE_TRAIN));
}

static void expect_whole(es_model *model, int64_t step)
{
    enum { D = 12, WIDTH = D / H };
    const es_model_config *config = es_model_config_of(model);
    const bool fused = config->arch.ffn == ES_FFN_FUSED;
    const size_t wide = (size_t)config->mlp_mult * D;
    expect_members(model, step, "g_q", "attn.c_attn.g", 3 * D, 0, WIDTH);
    expect_members(model, step, "g_v", "attn.c_attn.g", 3 * D, 2 * D, WIDTH);
    if (fused) {
        expect_members(model, step, "t", "attn.log_t", H * T, 0, T);
        expect_members(model, step, "g_fc", "mlp.w.g", D, 0, WIDTH);
        return;
    }
    expect_members(model, step, "g_o", "attn.c_proj.g", D, 0, WIDTH);
    expect_members(model, step, "g_fc", "mlp.c_fc.g", wide, 0, wide / H);
    expect_members(model, step, "g_proj", "mlp.c_proj.g", D, 0, WIDTH);
}

static void check_whole(const char *arch)
{
    es_settings s = settings_of(arch, ES_FAMILY_GPT2);
    es_step done;
    training_seen seen = {0};
    s.record = ES_SERIES_ALL;
    training_record(&seen, s);
    /* individual values (members) are recorded in every tenth record and in the
     * last step */
    const int64_t steps[] = {0, STEPS - 1};
    training_assert_steps("g_q.1", ES_PHASE_TRAIN, steps, 2);
    AUTO(es_trainer) trainer = open_trainer(&s);
    for (int64_t step = 0; step < STEPS; step++) {
        if (step == 0 || step == STEPS - 1)
            expect_whole(trainer->model, step);
        es_assert_ok(es_trainer_step(trainer, &done, step, false));
    }
}

TEST(all_records_single_temperatures_and_gains)
{
    check_whole("SM(t)+ScFuFFNi1+WNorm(QKV,FFN)");
    assert_false(has("g_o.0", ES_PHASE_TRAIN));
    assert_false(has("g_proj.0", ES_PHASE_TRAIN));
    check_whole("SM+R+WNorm(QKVO,FFN)");
    assert_false(has("t.0", ES_PHASE_TRAIN));
}

/* The FFN of the last layer is fused into a single matrix, so this layer has
 * fewer gains of WNorm. */
TEST(all_records_the_gains_of_ffns_of_different_kinds)
{
    enum { D = 12, WIDE = 2 * D };
    es_settings s =
        settings_of("SM+R[0]+ScFuFFN[1]+WNorm(FFN)", ES_FAMILY_GPT2);
    training_seen seen = {0};
    float two[WIDE], fused[D], want[LH];
    s.record = ES_SERIES_ALL;
    s.model.mlp_mult = WIDE / D;
    training_record(&seen, s);
    AUTO(es_trainer) trainer = open_trainer(&s);
    read_parameter(two, trainer->model, "h.0.mlp.c_fc.g", WIDE);
    read_parameter(fused, trainer->model, "h.1.mlp.w.g", D);
    for (int k = 0; k < WIDE / H; k++) {
        char name[ES_PARAMETER_MEMBER_SIZE];
        for (int h = 0; h < H; h++) {
            want[h] = two[h * (WIDE / H) + k];
            want[H + h] = k < D / H ? fused[h * (D / H) + k] : es_missing();
        }
        snprintf(name, sizeof name, "g_fc.%d", k);
        expect_series(name, 0, want, LH);
    }
    training_sample(want, "g_proj.0", ES_PHASE_TRAIN, 0, LH);
    assert_true(isfinite(want[0]) && es_is_missing(want[H]));
}

TEST(standard_records_no_single_values)
{
    es_settings s = settings_of("SM(t)+R+WNorm(QK)", ES_FAMILY_GPT2);
    training_seen seen = {0};
    s.record = ES_SERIES_STANDARD;
    training_record(&seen, s);
    assert_true(has("t_mean", ES_PHASE_TRAIN) && has("g_q", ES_PHASE_TRAIN));
    assert_false(has("t.0", ES_PHASE_TRAIN) || has("g_q.0", ES_PHASE_TRAIN));
}

/* --- special values ------------------------------------------------------ */

static void read_series(float *out, es_small_model *s, es_parameter_series of)
{
    es_outcome outcome;
    es_model_begin(s->model, true, NULL, 0);
    es_assert_ok(es_model_end(s->model, &outcome));
    es_parameter_series_read(out, s->model, of);
}

TEST(temperatures_are_those_of_their_logarithms)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch("SM(t)");
    float log_t[15], out[LH];
    for (int i = 0; i < 15; i++)
        log_t[i] = logf(1 + 0.25f * (float)(i % 5));
    log_t[5] = logf(2e-5f);
    log_t[6] = -INFINITY;
    es_assert_ok(
        es_model_set(s.model, es_small_find(&s, "h.1.attn.log_t"), log_t, 15));
    read_series(out, &s, ES_PARAMETER_T_MIN);
    assert_true(out[3] == 1 && out[4] == 0 && out[5] == 1);
    read_series(out, &s, ES_PARAMETER_T_MEAN);
    assert_true(fabsf(out[3] - 1.5f) < 1e-6f);
    assert_true(fabsf(out[4] - 1.050004f) < 1e-6f);
    read_series(out, &s, ES_PARAMETER_T_MAX);
    assert_true(fabsf(out[3] - 2) < 1e-6f && fabsf(out[4] - 2) < 1e-6f);
}

/* With the published initial value and learning rate, every temperature of a
 * query that sees more than one key still changes in the last twenty steps. */
TEST(temperatures_keep_moving_from_the_published_start)
{
    enum { N = H * T };
    es_settings s = settings_of("SM(t)", ES_FAMILY_GPT2);
    float at_40[N] = {0}, at_60[N];
    es_step done;
    s.train.steps = 100;
    s.train.lr = 1e-3;
    s.model.t_init = 0.01;
    AUTO(es_trainer) trainer = open_trainer(&s);
    for (int64_t step = 0; step < 60; step++) {
        es_assert_ok(es_trainer_step(trainer, &done, step, false));
        if (step == 39)
            read_parameter(at_40, trainer->model, "h.1.attn.log_t", N);
    }
    read_parameter(at_60, trainer->model, "h.1.attn.log_t", N);
    for (int i = 0; i < N; i++)
        assert_int_equal(fabsf(at_60[i] - at_40[i]) > 1e-6f, i % T > 0);
}

TEST(nan_is_not_missing)
{
    AUTO_BY(es_small_close)
    es_small_model s = es_small_open_arch("EReg(SM(t)+ScFuFFNi1)");
    float log_t[15], out[LH];
    for (int i = 0; i < 15; i++)
        log_t[i] = 0;
    log_t[7] = es_missing();
    const float theta[3] = {0.5f, es_missing(), INFINITY}, alpha = -NAN;
    es_model_set(s.model, es_small_find(&s, "h.0.attn.log_t"), log_t, 15);
    es_model_set(s.model, es_small_find(&s, "h.1.attn.theta"), theta, 3);
    es_model_set(s.model, es_small_find(&s, "h.0.mlp.alpha"), &alpha, 1);
    for (int i = ES_PARAMETER_T_MEAN; i <= ES_PARAMETER_T_MAX; i++) {
        read_series(out, &s, (es_parameter_series)i);
        assert_true(out[0] == 1 && out[2] == 1);
        assert_true(isnan(out[1]) && !es_is_missing(out[1]));
    }
    read_series(out, &s, ES_PARAMETER_THETA);
    assert_true(out[3] == 0.5f && isinf(out[5]));
    assert_true(isnan(out[4]) && !es_is_missing(out[4]));
    read_series(out, &s, ES_PARAMETER_ALPHA);
    assert_true(isnan(out[0]) && !es_is_missing(out[0]));
    assert_true(es_is_missing(out[1]));
}

TEST_GROUP(training_set_up, training_tear_down)
