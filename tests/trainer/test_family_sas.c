/* Tests the initial state of family sas, He and Hofmann's simplified blocks,
 * and which settings the family refuses. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/families.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* --- initial state ------------------------------------------------------- */

static es_model_config sas(const char *arch)
{
    es_model_config config = es_small_config(arch);
    config.family = ES_FAMILY_SAS;
    config.bias = ES_BIAS_QK;
    return config;
}

/* Initially, queries are 0 and gains are 1. Each row of weights is uniform, so
 * the weighted mean and the subtracted mean are equal, and each token's output
 * consists of its own values. */
TEST(attention_begins_as_the_identity)
{
    const es_model_config config = sas("SM+ScFuFFN");
    es_model *model = NULL;
    es_losses losses;
    int32_t tokens[2 * 5] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float alpha, first[12];
    es_assert_ok(es_model_new(&model, &config, &es_cpu_ops, 1));
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter parameter = es_model_parameter(model, i);
        if (strcmp(parameter.name, "h.0.mlp.alpha") == 0) {
            es_assert_ok(es_model_get(model, i, &alpha, 1));
            assert_true(alpha == 10);
        }
        if (strstr(parameter.name, "attn.q.weight"))
            assert_true(parameter.decays);
        if (strstr(parameter.name, "attn.gains"))
            assert_false(parameter.decays);
    }
    es_assert_ok(es_model_forward(model, &losses, tokens, NULL, false, true));
    const float *rows = es_model_rows(model, ES_ROW_ENTROPY);
    for (int i = 0; i < 2 * 2 * 3 * 5; i++)
        assert_true(fabs((double)rows[i] - log(i % 5 + 1)) <= 1e-5);
    /* At the start, each output depends only on its own token. If the first
     * token of a sequence changes, the logits of the second token must stay the
     * same. */
    const float *logits = es_model_logits(model);
    memcpy(first, logits + config.vocab, 11 * sizeof *first);
    tokens[0] = 9;
    es_assert_ok(es_model_forward(model, &losses, tokens, NULL, false, true));
    logits = es_model_logits(model);
    for (int v = 0; v < 11; v++)
        assert_true(fabsf(logits[config.vocab + v] - first[v]) <= 1e-5f);
    es_model_free(model);
}

/* --- refusals ------------------------------------------------------------- */

TEST(parts_that_simplified_blocks_lack_are_refused_by_name)
{
    static const char *const archs[] = {"PSM(2)", "SM(gate)", "SM(clip 9)",
                                        "SM+WNorm(FFN)", "SM+SNorm(QK)"};
    es_ops ops = es_cpu_ops;
    es_model *model = NULL;
    es_model_config config;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        config = sas(archs[i]);
        es_expect_config_refused(&config, "--family sas supports only SM");
    }
    config = sas("SM+SwiGLU");
    es_expect_config_refused(&config, "'SwiGLU'");
    config = sas("SM");
    config.dropout = 0.1;
    es_expect_config_refused(&config, "--dropout");
    config.dropout = 0;
    config.record = ES_SERIES_ALL;
    es_expect_config_refused(&config, "--record all");
    config.record = ES_SERIES_CORE;
    config.bias = ES_BIAS_ALL;
    es_expect_config_refused(&config, "--bias qk or none");
    config.bias = ES_BIAS_NONE;
    config.n_kv_head = 1;
    es_expect_config_refused(&config, "--n-kv-head");
    config.n_kv_head = 0;
    es_assert_ok(es_model_config_check(&config));
    ops.shape_heads = NULL;
    assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
    assert_non_null(
        strstr(es_message(), "--family sas: not supported by back-end"));
}
