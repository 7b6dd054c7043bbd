/* Tests weights from the trainer's own checkpoints. Every array is loaded into
   a model of the same architecture, and into models with additional parts that
   do not change the function. */
#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/files/weights.h"
#include "tests/support/scratch.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/**
 * Saves a model as a checkpoint in the file `es_scratch_file`, and returns the
 * model.
 */
static es_small_model save_model(es_model_config config)
{
    es_small_model s = es_small_open(&config);
    es_settings settings;
    es_settings_default(&settings, ES_VERB_TRAIN);
    settings.model = config;
    es_checkpoint_state state = {.step = 41,
                                 .uuid = "01234567-89ab-4def-8123-456789abcdef",
                                 .name = "own",
                                 .threads = 1,
                                 .last = {.loss = 1, .ce = 1},
                                 .eval = {.loss = NAN, .ce = NAN, .ereg = NAN}};
    if (es_checkpoint_write(es_scratch_file, s.model, &settings, &state) !=
        ES_OK)
        fail_msg("%s", es_message());
    return s;
}

static es_weights *open_weights(void)
{
    es_weights *weights = NULL;
    es_assert_ok(es_weights_open(&weights, es_scratch_file, 0, false));
    return weights;
}

static es_model *load(const es_weights *weights, const es_model_config *config,
                      const char *want_note)
{
    char note[256];
    es_model *model = NULL;
    es_assert_ok(es_model_new(&model, config, &es_cpu_ops, 2));
    es_assert_ok(es_weights_load(model, weights, note, sizeof note));
    assert_string_equal(note, want_note);
    return model;
}

/**
 * Runs a forward pass over the tokens of `s` and returns the logits (B,T,V).
 */
static const float *logits_of(es_model *model, const es_small_model *s)
{
    es_losses losses;
    es_assert_ok(
        es_model_forward(model, &losses, s->tokens, NULL, false, true));
    return es_model_logits(model);
}

TEST(every_architecture_is_restored)
{
    static const char *const archs[] = {"SM+LN+G",
                                        "EReg(SM(t)+LR(layer,0.2))",
                                        "EReg(SM(t)+ScFuFFNi1)",
                                        "SM+LR(global,0.3)",
                                        "PSM(4)+LN+GT",
                                        "SM+WNorm(QKV,FFN)",
                                        "SM+SNorm(QKVO,FFN)",
                                        "SM+ScFFN"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (int family = 0; family < 2; family++) {
            es_model_config config = es_small_config(archs[i]);
            config.family = (es_family)family;
            config.bias = i % 2 ? ES_BIAS_QK : ES_BIAS_NONE;
            AUTO_BY(es_small_close) es_small_model s = save_model(config);
            es_weights *weights = open_weights();
            assert_int_equal(weights->step, 41);
            assert_string_equal(weights->maker, "entropy-train");
            config = weights->config;
            assert_int_equal(config.batch, 2);
            config.seed = 99;
            es_model *model = load(weights, &config, "");
            size_t n = (size_t)(s.n * config.vocab) * sizeof(float);
            assert_memory_equal(logits_of(model, &s), logits_of(s.model, &s),
                                n);
            es_model_free(model);
            es_weights_close(weights);
        }
}

/* The file temperatures.safetensors (see test_checkpoint.c) contains
   temperatures, one of which is negative. */
TEST(temperatures_of_an_older_file_are_converted)
{
    es_weights *weights;
    float of_weights[12], of_checkpoint[12];
    es_assert_ok(es_weights_open(
        &weights, "tests/files/temperatures.safetensors", 0, false));
    es_model *model = load(weights, &weights->config, "");
    es_checkpoint *file;
    es_model *other;
    es_assert_ok(es_checkpoint_open(&file, weights->path));
    es_assert_ok(es_model_new(&other, &weights->config, &es_cpu_ops, 1));
    es_assert_ok(es_checkpoint_load(other, file));
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        if (!strstr(es_model_parameter(model, i).name, "log_t"))
            continue;
        es_assert_ok(es_model_get(model, i, of_weights, 12));
        es_assert_ok(es_model_get(other, i, of_checkpoint, 12));
        assert_memory_equal(of_weights, of_checkpoint, sizeof of_weights);
        assert_true(of_weights[3] < -5);
    }
    es_checkpoint_close(file);
    es_model_free(other);
    es_model_free(model);
    es_weights_close(weights);
}

TEST(weights_may_be_used_with_a_shorter_context)
{
    enum { SHORT = 3 };
    es_model_config config = es_small_config("SM(t)+R");
    config.batch = 1;
    AUTO_BY(es_small_close) es_small_model s = save_model(config);
    es_weights *weights = open_weights();
    config.ctx = SHORT; /* the file's temperatures form a matrix (H,T), so they
                           do not fit another context */
    es_model *model = load(weights, &config, "");
    const float *whole = logits_of(s.model, &s);
    const float *first = logits_of(model, &s);
    for (int i = 0; i < SHORT * config.vocab; i++)
        assert_true(fabsf(first[i] - whole[i]) <=
                    1e-5f * (1 + fabsf(whole[i])));
    config.ctx = 6;
    assert_int_equal(es_weights_check(weights, &config), ES_EUSAGE);
    config.family = ES_FAMILY_PYTHIA;
    assert_int_equal(es_weights_check(weights, &config), ES_EUSAGE);
    es_model_free(model);
    es_weights_close(weights);
}

/**
 * Asserts that weights saved from a model of architecture `from` compute the
 * same function in a model of architecture `to`.
 */
static void assert_neutral(const char *from, const char *to, es_bias bias,
                           const char *note)
{
    es_model_config config = es_small_config(from);
    config.bias = ES_BIAS_QK;
    AUTO_BY(es_small_close) es_small_model s = save_model(config);
    es_weights *weights = open_weights();
    es_assert_ok(es_arch_parse(&config.arch, to));
    config.bias = bias;
    es_model *model = load(weights, &config, note);
    const float *want = logits_of(s.model, &s), *have = logits_of(model, &s);
    for (int i = 0; i < s.n * config.vocab; i++)
        assert_true(fabsf(have[i] - want[i]) <= 1e-4f);
    es_model_free(model);
    es_weights_close(weights);
}

TEST(parts_that_change_nothing_may_be_added)
{
    assert_neutral("SM", "EReg(SM)", ES_BIAS_QK,
                   "arrays missing from the weights start at their initial "
                   "values: h.0.attn.theta");
    assert_neutral("EReg(SM+R)", "SM+R", ES_BIAS_QK,
                   "the thresholds in the weights are ignored");
    assert_neutral("SM", "SM+ScFFN", ES_BIAS_QK,
                   "arrays missing from the weights start at their initial "
                   "values: h.0.mlp.alpha, h.0.mlp.beta");
    assert_neutral("SM+LN+R[0]", "SM+LN+R[0]+ScFFN[1]", ES_BIAS_QK,
                   "arrays missing from the weights start at their initial "
                   "values: h.1.mlp.alpha, h.1.mlp.beta");
    assert_neutral("SM+LR(0.05)", "SM+LR(layer,0.05)", ES_BIAS_QK,
                   "arrays missing from the weights start at their initial "
                   "values: h.0.mlp.slope");
    assert_neutral("SM+LR(layer,0.1)", "SM+LR(layer,0.3)", ES_BIAS_QK, "");
    assert_neutral("SM+LN+G", "SM+LN+G", ES_BIAS_ALL,
                   "arrays missing from the weights start at their initial "
                   "values: h.0.attn.c_proj.bias, "
                   "h.0.mlp.c_fc.bias, h.0.mlp.c_proj.bias");
}

/* Loads weights into a model whose attention is another function of the same
   arrays, as in the paper's continual training. Each array must be unchanged,
   and a note must report that the function differs. */
TEST(another_attention_uses_the_same_arrays)
{
    static const char *const pairs[][2] = {
        {"SM+LN+G", "PSM(4)+LN+G"},
        {"SM+GT", "PSM(2,plain)+GS"},
        {"PSM(4)+R", "SM+R"},
        {"PSM(4)+LN+G", "PSM(2,length)+LN+GS"},
        {"SM(gate)", "PSM(4,gate)"},
        {"SM+R", "RA+R"},
        {"SM+LN[0]+G+ScFFN[1]", "PSM(4)+LN[0]+G+ScFFN[1]"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        es_model_config config = es_small_config(pairs[i][0]);
        char note[128];
        AUTO_BY(es_small_close) es_small_model s = save_model(config);
        es_weights *weights = open_weights();
        es_assert_ok(es_arch_parse(&config.arch, pairs[i][1]));
        snprintf(note, sizeof note,
                 "weights of %s continue as %s, which computes a "
                 "different function",
                 pairs[i][0], pairs[i][1]);
        es_model *model = load(weights, &config, note);
        for (size_t a = 0; a < es_model_n_arrays(model); a++) {
            const size_t n = es_model_parameter(model, a).n;
            AUTO_FREE float *want = calloc(n, sizeof *want);
            AUTO_FREE float *have = calloc(n, sizeof *have);
            es_assert_ok(es_model_get(s.model, a, want, n));
            es_assert_ok(es_model_get(model, a, have, n));
            assert_memory_equal(have, want, n * sizeof *have);
        }
        es_model_free(model);
        es_weights_close(weights);
    }
}

TEST(parts_that_change_the_function_are_refused)
{
    static const char *const pairs[][2] = {{"SM(t)", "SM"},
                                           {"SM+ScFFN", "SM"},
                                           {"SM+R", "SM+ScFFN"},
                                           {"SM+LR(0.05)", "SM+LR(layer,0.06)"},
                                           {"SM+LR(layer)", "SM+LR(global)"},
                                           {"SM", "SM+WNorm(FFN)"},
                                           {"SM+ScFuFFN", "SM+ScFuFFNi1"},
                                           {"SM+GS", "SM+G"},
                                           {"SM+G", "PSM(4)+GT"},
                                           {"SM(t)", "PSM(4)"},
                                           {"SM(gate)+R", "RA+R"},
                                           {"SM+LR(layer)", "SM+LR(0.01)"},
                                           {"SM+WNorm(QK)", "SM+SNorm(QK)"},
                                           {"SM+LN", "SM+LN[0]"},
                                           {"SM+G[0]", "SM+ScFFN[0]+G[1]"},
                                           {"SM+G", "SM+G+ScFFN[1]"},
                                           {"SM", "SM+ScFuFFN[0]"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        es_model_config config = es_small_config(pairs[i][0]);
        AUTO_BY(es_small_close) es_small_model s = save_model(config);
        es_weights *weights = open_weights();
        es_assert_ok(es_weights_check(weights, &config));
        es_assert_ok(es_arch_parse(&config.arch, pairs[i][1]));
        if (es_weights_check(weights, &config) != ES_EUSAGE)
            fail_msg("%s became %s", pairs[i][0], pairs[i][1]);
        es_weights_close(weights);
    }
}

TEST_GROUP(es_scratch_open, es_scratch_close)
