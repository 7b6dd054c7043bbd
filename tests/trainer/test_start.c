/* Tests which settings are taken from a file of weights, and entropy-train
 * probe with weights that other programs have written. */
#include "hooks/trainer/fuse.h"
#include "hooks/trainer/probe.h"
#include "hooks/trainer/verify.h"
#include "tests/support/reference_case.h"
#include "tests/support/tensor_file.h"
#include "tests/support/test.h"

static char folder[] = "/tmp/es_start_XXXXXX";
static char weights[64], tokens[64], config[64];

/** Writes the weights of a reference case to a file, and the case's sequences
 *  to a token file as held-out data. */
static es_verify_case write_case(const char *name)
{
    es_test_tensors list = {.n = 0};
    es_verify_case it;
    es_assert_ok(es_verify_case_read(&it, es_ref_case_path(name)));
    es_test_tensors_of_case(&list, &it, "");
    es_test_tensors_write(&list, weights);
    es_test_tensors_free(&list);
    const es_model_config *model = &it.config;
    unsigned char bytes[256];
    size_t n = 0, at = 0;
    for (int b = 0; b < model->batch; b++) {
        for (int i = 0; i < model->ctx; i++)
            bytes[n++] = (unsigned char)((int32_t *)it.tokens.data)[at++];
        bytes[n++] = 0; /* target of the last token of a sequence */
    }
    es_tokens_content content = {
        (uint32_t)model->vocab, 1, 0, n, 0, 1, "test", bytes};
    FILE *file = fopen(tokens, "w");
    assert_non_null(file);
    es_assert_ok(es_tokens_write(file, &content));
    assert_int_equal(fclose(file), 0);
    unlink(config);
    return it;
}

/** Parses a command line of `entropy-train probe`. */
static es_settings parse(const char *n_head, char *option, char *value)
{
    char *argv[] = {"probe",     "--data", tokens, "--no-record",
                    "--threads", "1",      option, value};
    es_settings s;
    es_settings_default(&s, ES_VERB_PROBE);
    es_assert_ok(es_settings_parse(&s, option ? 8 : 6, argv));
    snprintf(s.init, sizeof s.init, "%s", weights);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(file, "{%s}", n_head);
    assert_int_equal(fclose(file), 0);
    return s;
}

/* Runs a probe on the weights and tokens of a reference case, and compares the
 * resulting entropies with those of the case. */
static void assert_entropies(const char *name, char *ctx)
{
    AUTO_BY(es_verify_case_free) es_verify_case it = write_case(name);
    es_probe_result result;
    AUTO_BY(es_npy_free) es_npy want;
    char text[64];
    snprintf(text, sizeof text, "\"%s\": %d",
             it.config.family == ES_FAMILY_GPT2 ? "n_head"
                                                : "num_attention_heads",
             it.config.n_head);
    assert_int_equal(it.config.batch, 1);
    es_settings s = parse(text, "--ctx", ctx);
    s.model.batch = 1;
    s.eval_batches = 1;
    es_assert_ok(es_probe(&result, &s, NULL));
    assert_int_equal(es_verify_array_read(&want, &it, "out", "entropy"), 0);
    assert_int_equal(result.n_layers, it.config.n_layer);
    size_t n_head = (size_t)it.config.n_head;
    for (int l = 0; l < result.n_layers; l++) {
        double mean = 0, low = INFINITY, high = -INFINITY;
        for (size_t h = 0; h < n_head; h++) {
            double e = es_npy_at(&want, (size_t)l * n_head + h);
            mean += e / (double)n_head;
            low = fmin(low, e);
            high = fmax(high, e);
        }
        assert_true(fabs(result.layers[l].entropy.mean - mean) <= 1e-5);
        assert_true(fabs(result.layers[l].lowest - low) <= 1e-5);
        assert_true(fabs(result.layers[l].highest - high) <= 1e-5);
        assert_int_equal(result.layers[l].nonfinite, 0);
        assert_true(isnan(result.layers[l].entropy.deviation));
    }
    es_probe_free(&result);
}

TEST(gpt2_has_the_reference_entropies)
{
    assert_entropies("g02_sm_ln_gt", "13");
}

TEST(neox_has_the_reference_entropies)
{
    assert_entropies("p01_sm_ln_g", "5");
}

TEST(settings_come_from_the_file)
{
    AUTO_BY(es_verify_case_free) es_verify_case it = write_case("g02_sm_ln_gt");
    es_settings s = parse("\"n_head\": 3", NULL, NULL);
    es_assert_ok(es_start_settings(&s));
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &s.model.arch);
    assert_string_equal(arch, "SM+LN+GT");
    assert_int_equal(s.model.n_layer, 1);
    assert_int_equal(s.model.n_head, 3);
    assert_int_equal(s.model.d_model, 12);
    assert_int_equal(s.model.mlp_mult, 2);
    assert_int_equal(s.model.vocab, 7);
    assert_int_equal(s.model.ctx, 13);
    assert_int_equal(s.model.bias, ES_BIAS_ALL);
    assert_int_equal(s.model.batch, 8);
    s = parse("\"n_head\": 3", "--ctx", "4");
    es_assert_ok(es_start_settings(&s));
    assert_int_equal(s.model.ctx, 4);
    s = parse("\"n_head\": 3", "--n-head", "2");
    es_assert_status(ES_EUSAGE, "--n-head 2: ", es_start_settings(&s));
    s = parse("", "--n-head", "3");
    es_assert_ok(es_start_settings(&s));
    s = parse("", NULL, NULL);
    es_assert_status(ES_EUSAGE, "give --n-head", es_start_settings(&s));
}

TEST(a_rotary_model_takes_any_context)
{
    AUTO_BY(es_verify_case_free) es_verify_case it = write_case("p01_sm_ln_g");
    es_settings s = parse("\"num_attention_heads\": 2", NULL, NULL);
    es_assert_ok(es_start_settings(&s));
    assert_int_equal(s.model.family, ES_FAMILY_PYTHIA);
    /* the default, because neither the file nor an option sets the context */
    assert_int_equal(s.model.ctx, 128);
    s = parse("\"num_attention_heads\": 2, \"max_position_embeddings\": 2048",
              NULL, NULL);
    es_assert_ok(es_start_settings(&s));
    assert_int_equal(s.model.ctx, 2048);
    s = parse("\"num_attention_heads\": 2, \"max_position_embeddings\": 2048",
              "--ctx", "4096");
    es_assert_ok(es_start_settings(&s));
    assert_int_equal(s.model.ctx, 4096);
}

/* Settings that were read from a first file must not affect the settings of a
 * second file. */
TEST(another_file_of_weights_sets_its_settings)
{
    AUTO_BY(es_verify_case_free)
    es_verify_case first = write_case("g02_sm_ln_gt");
    es_settings s = parse("\"n_head\": 3", NULL, NULL);
    es_assert_ok(es_start_settings(&s));
    AUTO_BY(es_verify_case_free)
    es_verify_case second = write_case("p01_sm_ln_g");
    es_settings other = parse("\"num_attention_heads\": 2", NULL, NULL);
    es_assert_ok(es_start_settings(&s));
    es_assert_ok(es_start_settings(&other));
    assert_int_equal(s.model.n_layer, other.model.n_layer);
    assert_int_equal(s.model.d_model, 32);
    assert_int_equal(s.model.family, ES_FAMILY_PYTHIA);
}

TEST(published_weights_have_no_linear_ffn)
{
    AUTO_BY(es_verify_case_free) es_verify_case it = write_case("g02_sm_ln_gt");
    es_settings s = parse("\"n_head\": 3", NULL, NULL);
    const es_train_watch watch = {0};
    es_fuse_result result;
    snprintf(s.fused, sizeof s.fused, "%s/fused.safetensors", folder);
    es_assert_status(ES_EUSAGE, "the FFN of SM+LN+GT is not linear",
                     es_fuse(&result, &s, &watch));
    assert_int_equal(access(s.fused, F_OK), -1);
    es_fuse_free(&result);
}

static int set_up(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    snprintf(tokens, sizeof tokens, "%s/x.tok", folder);
    snprintf(config, sizeof config, "%s/config.json", folder);
    return 0;
}

static int tear_down(void **state)
{
    unlink(weights);
    unlink(tokens);
    unlink(config);
    return rmdir(folder);
}

TEST_GROUP(set_up, tear_down)
