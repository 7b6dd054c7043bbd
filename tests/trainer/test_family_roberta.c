/* Tests rows of padding in family roberta, and which settings the family
 * refuses. */
#include "analyzer/base/value.h"
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/families.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

static es_model_config roberta(const char *arch)
{
    es_model_config config = es_small_config(arch);
    config.family = ES_FAMILY_ROBERTA;
    config.bias = ES_BIAS_ALL;
    return config;
}

/* --- padding -------------------------------------------------------------- */

enum { PADDING = 10 };

/* Two sequences of 5 tokens; the second ends with 2 padding tokens. */
static const int32_t tokens[10] = {1, 2, 3, 4, 5, 6, 7, 8, PADDING, PADDING};

TEST(the_embedding_of_padding_does_not_matter)
{
    es_model_config config = roberta("SM+LN+G");
    es_model *model = NULL;
    es_losses first, again;
    int32_t targets[10];
    float *logits;
    config.padding = PADDING;
    const size_t n = 10 * (size_t)config.vocab;
    for (int i = 0; i < 10; i++)
        targets[i] = i == 1 || i == 7 ? tokens[i] : ES_NO_TARGET;
    es_assert_ok(es_model_new(&model, &config, &es_cpu_ops, 2));
    es_assert_ok(es_model_forward(model, &first, tokens, targets, false, true));
    const float *entropy = es_model_rows(model, ES_ROW_ENTROPY);
    for (int i = 0; i < 2 * 2 * 3 * 5; i++) /* (L,B,H,T) */
        assert_int_equal(es_is_missing(entropy[i]),
                         i / 15 % 2 == 1 && i % 5 >= 3);
    logits = test_malloc(n * sizeof *logits);
    memcpy(logits, es_model_logits(model), n * sizeof *logits);
    /* Change the padding token's embedding, which must not change any
     * result. */
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter wte = es_model_parameter(model, i);
        if (!strstr(wte.name, "word_embeddings"))
            continue;
        float *values = test_malloc(wte.n * sizeof *values);
        es_assert_ok(es_model_get(model, i, values, wte.n));
        for (int c = 0; c < config.d_model; c++)
            values[PADDING * config.d_model + c] += 3;
        es_assert_ok(es_model_set(model, i, values, wte.n));
        test_free(values);
    }
    es_assert_ok(es_model_forward(model, &again, tokens, NULL, false, false));
    const float *other = es_model_logits(model);
    for (int i = 0; i < 8; i++)
        for (int v = 0; v < config.vocab; v++)
            if (v != PADDING)
                assert_true(other[i * config.vocab + v] ==
                            logits[i * config.vocab + v]);
    test_free(logits);
    es_model_free(model);
}

/* --- refusals ------------------------------------------------------------- */

TEST(parts_that_the_family_lacks_are_refused_by_name)
{
    static const struct {
        const char *arch, *named;
    } archs[] = {
        {"SM+G", "architecture without 'LN'"}, {"SM(gate)+LN+G", "'SM(gate)'"},
        {"SM(clip 9)+LN+G", "'SM(clip)'"},     {"SM+LN+ScFFN", "'Sc...'"},
        {"SM+LN+G+WNorm(FFN)", "'WNorm'"},     {"SM+LN+G+SNorm(QK)", "'SNorm'"},
        {"SM+LN+SwiGLU", "'SwiGLU'"},          {"SM+LN+NoFFN", "'NoFFN'"},
        {"SM+LN+G+NoFFN[1]", "'NoFFN'"}};
    es_ops ops = es_cpu_ops;
    es_model *model = NULL;
    es_model_config config;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        config = roberta(archs[i].arch);
        es_expect_config_refused(&config, archs[i].named);
    }
    config = roberta("PSM(6)+LN+G");
    es_assert_ok(es_model_config_check(&config));
    config.bias = ES_BIAS_QK;
    es_expect_config_refused(&config, "--bias");
    config = roberta("SM+LN+G");
    config.record = ES_SERIES_ALL;
    es_expect_config_refused(&config, "--record all");
    config.record = ES_SERIES_CORE;
    config.mask = config.vocab;
    es_expect_config_refused(&config,
                             "--mask-token 11: outside the vocabulary of 11");
    config.mask = config.padding = 4;
    es_expect_config_refused(&config,
                             "--mask-token 4 is also the token of --padding");
    config.padding = 11;
    es_expect_config_refused(&config, "--padding 11");
    config = es_small_config("SM+LN+G");
    config.mask = 2;
    es_expect_config_refused(&config,
                             "--mask-token: only for --family roberta");
    config = roberta("SM+LN+G");
    ops.attention_whole_backward = NULL;
    assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
    assert_non_null(
        strstr(es_message(), "--family roberta: not supported by back-end"));
}
