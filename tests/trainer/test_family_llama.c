/* Tests which settings family llama accepts and refuses. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/settings/settings.h"
#include "tests/support/families.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* --- refusals ------------------------------------------------------------- */

static es_model_config llama(const char *arch)
{
    es_model_config config = es_small_config(arch);
    config.family = ES_FAMILY_LLAMA;
    config.n_head = 6;
    return config;
}

TEST(parts_that_llama_lacks_are_refused_by_name)
{
    static const char *const archs[][2] = {
        {"SM+LN+G", "'LN'"},           {"SM(gate)+RN", "SM(gate)"},
        {"SM(clip 9)+RN", "SM(clip)"}, {"SM+RN+ScFFN", "'Sc...'"},
        {"SM+WNorm(FFN)", "'WNorm'"},  {"SM+SNorm(QK)", "'SNorm'"}};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const es_model_config config = llama(archs[i][0]);
        es_expect_config_refused(&config, archs[i][1]);
    }
    es_model_config config = llama("SM+RN+SwiGLU");
    es_assert_ok(es_model_config_check(&config));
    config.record = ES_SERIES_ALL;
    es_expect_config_refused(&config, "--record all");
    config.record = ES_SERIES_STANDARD;
    config.n_kv_head = 4;
    es_expect_config_refused(&config,
                             "--n-kv-head 4 does not divide --n-head 6");
    config.n_kv_head = -3;
    es_expect_config_refused(&config, "--n-kv-head -3");
    config.n_kv_head = 3;
    config.d_head = 5;
    es_expect_config_refused(&config, "5 wide");
    config.d_head = 1 << 16;
    es_expect_config_refused(&config, "--d-head 65536");
    config.d_head = 4;
    config.rope.base = (double)NAN;
    es_expect_config_refused(&config, "--rope-base");
    config.rope = (es_rope){1e6, 8, 4, 4, 64};
    es_expect_config_refused(&config, "--rope-scaling");
    config.rope = (es_rope){1e6, (double)NAN, 1, 4, 64};
    es_expect_config_refused(&config, "--rope-scaling");
    config.rope = (es_rope){1e6, 8, 1, 4, 64};
    config.d_ff = -1;
    es_expect_config_refused(&config, "--d-ff -1");
    config.d_ff = 7;
    es_assert_ok(es_model_config_check(&config));
}

TEST(parts_of_llama_are_refused_in_other_families)
{
    static const char *const archs[] = {"SM+RN", "SM+SwiGLU",
                                        "SM+G[0]+SwiGLU[1]"};
    for (int i = 0; i < 3; i++) {
        es_model_config config = es_small_config(archs[i]);
        es_expect_config_refused(&config, i ? "'SwiGLU'" : "'RN'");
        config.family = ES_FAMILY_PYTHIA;
        es_expect_config_refused(&config, "not pythia");
    }
    es_model_config config = es_small_config("SM+LN+G");
    config.n_kv_head = 1;
    es_expect_config_refused(&config, "--n-kv-head");
    config.n_kv_head = 0;
    config.qk_norm = true;
    es_expect_config_refused(&config, "--qk-norm");
    config.qk_norm = false;
    config.tied = true;
    es_expect_config_refused(&config, "--tied");
}

/* The test's back-end lacks the operations of family llama, as the CUDA
 * back-end does. */
TEST(a_back_end_without_the_operations_refuses_the_family)
{
    const es_model_config config = llama("SM+RN+SwiGLU");
    es_ops ops = es_cpu_ops;
    es_model *model = NULL;
    ops.spread_heads = NULL;
    assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
    assert_null(model);
    assert_non_null(
        strstr(es_message(), "--family llama: not supported by back-end"));
}

/* --- settings ------------------------------------------------------------- */

static es_settings parse(int argc, const char *const *argv)
{
    es_settings settings;
    es_settings_default(&settings, ES_VERB_TRAIN);
    es_assert_ok(es_settings_parse(&settings, argc, (char **)(uintptr_t)argv));
    return settings;
}
#define PARSE(...)                                                             \
    parse(sizeof((const char *[]){"x", __VA_ARGS__}) / sizeof(char *),         \
          (const char *[]){"x", __VA_ARGS__, NULL})

TEST(a_scaling_of_other_than_four_numbers_is_refused)
{
    static const char *const wrong[] = {"",         "8",         "8,1,4",
                                        "8,1,4,1,", "8,1,,64",   "8,-1,4,64",
                                        "8,1,4,x",  "nan,1,4,64"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        es_settings s;
        const char *argv[] = {"x", "--rope-scaling", wrong[i], NULL};
        es_settings_default(&s, ES_VERB_TRAIN);
        assert_int_equal(es_settings_parse(&s, 3, (char **)(uintptr_t)argv),
                         ES_EUSAGE);
        assert_non_null(strstr(es_message(), "rope-scaling"));
    }
}

TEST(the_family_sets_its_defaults)
{
    es_settings s = PARSE("--family", "llama");
    assert_int_equal(s.model.bias, ES_BIAS_NONE);
    assert_true(s.model.arch.rms_norm && !s.model.arch.layer_norm);
    assert_int_equal(s.model.arch.activation, ES_ACT_SWIGLU);
    s = PARSE("--bias", "qkv", "--arch", "SM+R", "--family", "llama");
    assert_int_equal(s.model.bias, ES_BIAS_QKV);
    assert_false(s.model.arch.rms_norm);
    s = PARSE("--rope-base", "5e5", "--rope-scaling", "8,1,4,8192");
    assert_true(s.model.rope.base == 5e5 && s.model.rope.factor == 8);
    assert_true(s.model.rope.low == 1 && s.model.rope.high == 4);
    assert_true(s.model.rope.original == 8192);
    AUTO_FREE char *json = es_settings_json(&s, 1);
    assert_non_null(strstr(json, "\"rope_scaling\":\"8,1,4,8192\""));
    s = PARSE("--rope-scaling", "8,1,4,8192", "--rope-scaling", "none");
    assert_true(s.model.rope.factor == 0);
    s = PARSE("--family", "gpt2");
    assert_int_equal(s.model.bias, ES_BIAS_QK);
    assert_true(s.model.arch.layer_norm);
}
