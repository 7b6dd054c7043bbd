/* Tests --preset: the table of the papers' configurations, and which options
 * override a preset. */
#include "hooks/trainer/dry_run.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static es_status parse(es_settings *out, char **words)
{
    int n = 0;
    while (words[n])
        n++;
    es_settings_default(out, ES_VERB_TRAIN);
    return es_settings_parse(out, n, words);
}
#define PARSE(out, ...)                                                        \
    parse(out, (char *[]){"entropy-train", __VA_ARGS__, NULL})

static int set_up(void **state)
{
    /* Name a CUDA library that does not exist, so that the result is the same
     * on every machine. */
    setenv("ENTROPY_TRAIN_CUDA", "/nonexistent.so", 1);
    return es_scratch_open(state);
}

static void ignore(const char *what)
{
    (void)what;
}

static char *describe(const es_settings *settings)
{
    char *text = es_settings_json(settings, 0);
    assert_non_null(text);
    return text;
}

TEST(every_preset_passes_a_dry_run_and_reads_back)
{
    es_preset preset = {.is_tiny = false};
    size_t n = 0;
    for (; es_preset_next(&preset); n++) {
        es_settings s, again;
        char arch[ES_ARCH_TEXT_MAX];
        es_assert_ok(PARSE(&s, "--dry-run", "--preset", preset.name));
        es_assert_ok(es_settings_check(&s));
        es_assert_ok(es_dry_run(&s, NULL, ignore));
        es_arch_print(arch, sizeof arch, &s.model.arch);
        assert_string_equal(arch, preset.arch);
        FILE *file = fopen(es_scratch_file, "w");
        es_settings_write(file, &s);
        fclose(file);
        es_assert_ok(PARSE(&again, "--config", es_scratch_file));
        es_assert_ok(es_dry_run(&again, NULL, ignore));
        AUTO_FREE char *text = describe(&s), *twice = describe(&again);
        assert_string_equal(text, twice);
    }
    assert_int_equal(n, 210);
}

/* If the size in a preset's name matched no line of the table of options, the
 * preset would silently have the default model. Checks that every preset has
 * the published model. */
TEST(the_model_matches_the_name_of_the_preset)
{
    for (es_preset preset = {.is_tiny = false}; es_preset_next(&preset);) {
        es_settings s;
        char family[16];
        int n_layer, ctx;
        es_assert_ok(PARSE(&s, "--preset", preset.name));
        assert_int_equal(
            sscanf(preset.name, "%15[a-z0-9]-l%d-t%d", family, &n_layer, &ctx),
            3);
        assert_string_equal(es_family_names[s.model.family], family);
        assert_int_equal(s.model.n_layer, n_layer);
        /* an image has a class token in addition to its patches */
        const int n_class = strcmp(family, "vit") == 0;
        assert_int_equal(s.model.ctx,
                         preset.is_tiny ? (ctx - n_class) / 4 + n_class : ctx);
        assert_true(preset.is_tiny ? s.model.d_model <= 64
                                   : s.model.d_model >= 384);
        assert_true(s.train.steps == 1600 || !preset.is_tiny ||
                    strstr(preset.options, "steps="));
        const bool is_half =
            !preset.is_tiny && (s.model.family == ES_FAMILY_GPT2 ||
                                s.model.family == ES_FAMILY_PYTHIA);
        assert_int_equal(s.precision, is_half ? ES_FP16 : ES_FP32);
        assert_string_equal(s.backend, is_half ? "cuda" : "cpu");
        assert_true(preset.figure[0]);
    }
}

TEST(preset_names_are_unique)
{
    for (es_preset a = {.is_tiny = false}; es_preset_next(&a);)
        for (es_preset b = a; es_preset_next(&b);)
            assert_string_not_equal(a.name, b.name);
}

/* Compares the options that some presets set with the published values. */
TEST(presets_set_the_published_options)
{
    es_settings s;
    es_assert_ok(
        PARSE(&s, "--preset", "gpt2-l12-t128-ereg-sm-t-scfuffn-gamma0.3"));
    assert_true(s.model.gamma == 0.3 && s.model.lambda == 1e-5);
    assert_true(s.model.t_init == 0.01 && s.model.dropout == 0.1);
    es_assert_ok(PARSE(&s, "--preset", "gpt2-l12-t512-ereg-sm-t-scfuffn-tiny"));
    assert_true(s.model.gamma == 0.2 && s.model.lambda == 0.0032);
    assert_true(s.model.t_init == 1 && !(s.model.dropout > 0));
    es_assert_ok(PARSE(&s, "--preset", "gpt2-l12-t512-sm-ln-g"));
    assert_int_equal(s.train.schedule, ES_SCHEDULE_COSINE);
    assert_int_equal(s.model.vocab, 16384);
    es_assert_ok(PARSE(&s, "--preset", "pythia-l24-t512-psm-4-1e-4-ln-g"));
    assert_int_equal(s.model.d_model, 2048);
    assert_true(s.model.arch.power_epsilon == 1e-4 && s.train.lr == 4e-5);
    assert_true(s.model.range_weight[ES_RANGE_ATTN] == 1e-4 &&
                s.model.range_weight[ES_RANGE_ACT] == 1e-3);
    assert_int_equal(s.model.vocab, 0);
    assert_int_equal(s.train.schedule, ES_SCHEDULE_LINEAR);
    es_assert_ok(PARSE(&s, "--preset",
                       "roberta-l12-t512-psm-6-1e-4-ln-g-range-attn0.01-"
                       "steps1250"));
    assert_true(s.model.range_weight[ES_RANGE_ATTN] == 0.01);
    assert_int_equal(s.train.steps, 1250);
    es_assert_ok(PARSE(&s, "--preset", "gpt2-l12-t128-sm-final-normon"));
    assert_int_equal(s.model.final_norm, ES_FINAL_ON);
}

/* Options override a preset wherever --preset is on the command line. */
TEST(a_preset_is_overridden_by_a_configuration_and_by_options)
{
    static char preset[] = "--preset=pythia-l6-t128-sm-ln-g-tiny";
    es_settings s;
    es_scratch_write("batch = 3\nctx = 7\n", 18);
    char *orders[][6] = {
        {"", preset, "--ctx=9", "--config", es_scratch_file, NULL},
        {"", "--config", es_scratch_file, preset, "--n-layer=2", NULL},
        {"", "--n-layer=2", "--config", es_scratch_file, preset, NULL}};
    for (size_t i = 0; i < 3; i++) {
        es_assert_ok(parse(&s, orders[i]));
        assert_int_equal(s.model.batch, 3);
        assert_int_equal(s.model.ctx, 7);
        assert_int_equal(s.model.n_layer, i == 0 ? 6 : 2);
        assert_int_equal(s.model.d_model, 64);
        assert_int_equal(s.model.family, ES_FAMILY_PYTHIA);
    }
    /* A configuration file may name a preset, too. */
    es_scratch_write("preset = gpt2-l18-t128-sm-scffn\nbatch = 3\n", 42);
    es_assert_ok(PARSE(&s, "--config", es_scratch_file));
    assert_int_equal(s.model.n_layer, 18);
    assert_int_equal(s.model.batch, 3);
}

TEST(a_resumed_training_ignores_the_preset)
{
    es_settings s;
    es_assert_ok(
        PARSE(&s, "--preset", "gpt2-l18-t128-sm-scffn", "--resume", "x"));
    assert_int_equal(s.model.n_layer, 6);
}

TEST(an_unknown_preset_is_refused_with_a_remedy)
{
    static const struct {
        char *name;
        const char *says;
    } cases[] = {
        {"gpt2-l12-t128-sm-lng", "did you mean gpt2-l12-t128-sm-ln-g?"},
        {"gpt2-l12-t128-ereg-sm-t-scfuffni6-tinny",
         "did you mean gpt2-l12-t128-ereg-sm-t-scfuffni6-tiny?"},
        {"bloom", "--preset list"},
        {"", "--preset list"}};
    es_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE(&s, "--preset", cases[i].name), ES_EUSAGE);
        if (!strstr(es_message(), cases[i].says) ||
            strncmp(es_message(), "--preset '", 10) != 0)
            fail_msg("%s", es_message());
    }
    es_assert_ok(PARSE(&s, "--preset", ES_PRESETS_LIST));
}

TEST_GROUP(set_up, es_scratch_close)
