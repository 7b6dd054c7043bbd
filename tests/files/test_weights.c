/* Tests weights that other programs saved: a model with these weights computes
   the same function, or the weights are refused with a clear message. */
#include "tests/support/test.h"
#include "tests/support/weights_case.h"

static es_weights_case *open_gpt2(void)
{
    return es_weights_case_open("g02_sm_ln_gt", "transformer.");
}

static es_weights_case *open_neox(void)
{
    return es_weights_case_open("p01_sm_ln_g", "gpt_neox.");
}

/**
 * Asserts that a model with the weights of the case `f` computes the reference
 * logits.
 */
static void assert_same_function(const es_weights_case *f)
{
    char note[256];
    AUTO(es_weights) weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    AUTO_FREE float *logits =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    assert_string_equal(note, "");
    AUTO_BY(es_npy_free) es_npy want;
    double error;
    assert_int_equal(es_verify_array_read(&want, &f->it, "out", "logits"), 0);
    AUTO_FREE double *wide = malloc(want.n * sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < want.n; i++)
        wide[i] = (double)logits[i];
    if (!es_verify_close(&error, wide, &want, &(es_tolerance){1e-4, 1e-6}))
        fail_msg("error of the logits: %g", error);
}

static void assert_config(const es_weights_case *f, const char *arch)
{
    char text[ES_ARCH_TEXT_MAX];
    AUTO(es_weights) weights = es_weights_case_read(f);
    const es_model_config *have = &weights->config;
    const es_model_config *want = &f->it.config;
    es_arch_print(text, sizeof text, &have->arch);
    assert_string_equal(text, arch);
    assert_int_equal(have->family, want->family);
    assert_int_equal(have->n_layer, want->n_layer);
    assert_int_equal(have->n_head, want->n_head);
    assert_int_equal(have->d_model, want->d_model);
    assert_int_equal(have->vocab, want->vocab);
    assert_int_equal(have->mlp_mult, want->mlp_mult);
    assert_int_equal(have->bias, ES_BIAS_ALL);
}

/* --- supported files ------------------------------------------------------ */

TEST(gpt2_weights_give_the_reference_logits)
{
    es_weights_case *f = open_gpt2();
    assert_config(f, "SM+LN+GT");
    assert_same_function(f);
    es_weights_case_close(f);
    f = es_weights_case_open("g02_sm_ln_gt", "");
    assert_same_function(f);
    es_test_tensor_remove(&f->list, "lm_head.weight");
    es_test_tensor_remove(&f->list, "h.0.attn.bias");
    assert_same_function(f);
    es_weights *weights = es_weights_case_read(f);
    assert_int_equal(weights->config.ctx, f->it.config.ctx);
    assert_string_equal(weights->maker, "GPT-2");
    es_weights_close(weights);
    es_weights_case_close(f);
}

TEST(neox_weights_give_the_reference_logits)
{
    es_weights_case *f = open_neox();
    assert_config(f, "SM+LN+G");
    assert_same_function(f);
    es_weights_case_close(f);
    f = es_weights_case_open("p01_sm_ln_g", "");
    assert_same_function(f);
    es_weights *weights = es_weights_case_read(f);
    assert_int_equal(weights->config.ctx, 0);
    assert_string_equal(weights->maker, "GPT-NeoX");
    es_weights_close(weights);
    es_weights_case_close(f);
}

/**
 * Rounds values to `digits` significant bits: 11 for float16, 8 for bfloat16.
 */
static void round_all(es_test_tensors *list, const char *type, int digits)
{
    for (size_t i = 0; i < list->n; i++) {
        es_test_tensor *tensor = &list->all[i];
        if (strcmp(tensor->type, "BOOL") == 0)
            continue;
        for (size_t j = 0; j < tensor->n; j++) {
            int exponent;
            float part = frexpf(tensor->values[j], &exponent);
            tensor->values[j] =
                exponent < -13
                    ? 0
                    : ldexpf(rintf(ldexpf(part, digits)), exponent - digits);
        }
        snprintf(tensor->type, sizeof tensor->type, "%s", type);
    }
}

static float *logits_of(const es_weights_case *f)
{
    char note[256];
    es_weights *weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    float *logits =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    es_weights_close(weights);
    return logits;
}

TEST(half_precision_is_read)
{
    static const struct {
        const char *type;
        int digits;
    } halves[] = {{"F16", 11}, {"BF16", 8}};
    for (int i = 0; i < 2; i++) {
        es_weights_case *f = open_neox();
        round_all(&f->list, "F32", halves[i].digits);
        AUTO_FREE float *want = logits_of(f);
        round_all(&f->list, halves[i].type, halves[i].digits);
        AUTO_FREE float *have = logits_of(f);
        assert_memory_equal(have, want,
                            es_weights_n_logits(&f->it.config) * sizeof *have);
        es_weights_case_close(f);
    }
}

/* In a causal model, later tokens do not change the output at earlier
   positions. */
TEST(weights_may_be_used_with_a_shorter_context)
{
    enum { SHORT = 5 };
    char note[256];
    es_weights_case *f = open_gpt2();
    assert_int_equal(f->it.config.batch, 1);
    AUTO_FREE float *whole = logits_of(f);
    es_weights *weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    config.ctx = SHORT;
    AUTO_FREE float *first =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    for (int i = 0; i < SHORT * config.vocab; i++)
        assert_true(fabsf(first[i] - whole[i]) <=
                    1e-5f * (1 + fabsf(whole[i])));
    config.ctx = f->it.config.ctx + 1;
    es_assert_status(ES_EUSAGE, "--ctx 14", es_weights_check(weights, &config));
    es_weights_close(weights);
    es_weights_case_close(f);
}

/* --- models that may use them
   ---------------------------------------------- */

static es_status check_arch(const es_weights *weights, es_model_config config,
                            const char *arch)
{
    es_assert_ok(es_arch_parse(&config.arch, arch));
    return es_weights_check(weights, &config);
}

TEST(parts_that_change_nothing_may_be_added)
{
    char note[256];
    es_weights_case *f = open_gpt2();
    es_weights *weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    const size_t n = es_weights_n_logits(&config);
    AUTO_FREE float *plain =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    es_assert_ok(es_arch_parse(&config.arch, "EReg(SM(t)+LN+GT)"));
    AUTO_FREE float *more =
        es_weights_logits(weights, &config, f->it.tokens.data, note);
    assert_string_equal(
        note, "arrays missing from the weights start at their initial values: "
              "h.0.attn.log_t, h.0.attn.theta");
    for (size_t i = 0; i < n; i++)
        assert_true(fabsf(plain[i] - more[i]) <= 1e-5f);
    config.t_init = 0.1;
    es_assert_status(ES_EUSAGE, "--t-init 1",
                     es_weights_check(weights, &config));
    es_weights_close(weights);
    es_weights_case_close(f);
}

TEST(another_model_is_refused)
{
    es_weights_case *f = open_gpt2();
    es_weights *weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    es_assert_ok(es_weights_check(weights, &config));
    const char *const others[] = {"SM+LN+G",
                                  "SM+LN+R",
                                  "SM+GT",
                                  "SM+LN",
                                  "PSM(2)+LN+R",
                                  "SM+LN+ScFFN",
                                  "SM+LN+GT+WNorm(FFN)",
                                  "SM+LN+ScFuFFN",
                                  "SM+LN+GT+SNorm(QK)"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        es_assert_status(ES_EUSAGE, "SM+LN+GT, not ",
                         check_arch(weights, config, others[i]));
    }
    const struct {
        int *field, value;
        const char *said;
    } changes[] = {{&config.n_layer, 3, "--n-layer 1, not 3"},
                   {&config.n_head, 4, "--n-head 3, not 4"},
                   {&config.d_model, 24, "--d-model 12, not 24"},
                   {&config.vocab, 8, "--vocab 7, not 8"},
                   {&config.mlp_mult, 4, "--mlp-mult 2, not 4"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        int before = *changes[i].field;
        *changes[i].field = changes[i].value;
        assert_int_equal(es_weights_check(weights, &config), ES_EUSAGE);
        if (!strstr(es_message(), changes[i].said))
            fail_msg("'%s' not in: %s", changes[i].said, es_message());
        *changes[i].field = before;
    }
    for (int i = 0; i < 3; i++) {
        es_model_config other = config;
        other.bias = i == 0 ? ES_BIAS_QK : ES_BIAS_ALL;
        other.family = i == 1 ? ES_FAMILY_PYTHIA : ES_FAMILY_GPT2;
        other.final_norm = i == 2 ? ES_FINAL_OFF : ES_FINAL_AUTO;
        assert_int_equal(es_weights_check(weights, &other), ES_EUSAGE);
    }
    es_weights_close(weights);
    es_weights_case_close(f);
}

/* --- invalid files
   ---------------------------------------------------------- */

/**
 * Asserts that the file is refused with the status `want` and a message that
 * contains `said`.
 */
static void assert_refused(es_status want, int n_head, const char *said)
{
    es_weights *weights = NULL;
    es_status status =
        es_weights_open(&weights, es_weights_file, n_head, false);
    if (status != want || weights)
        fail_msg("status %d, expected %d and a message with '%s': %s", status,
                 want, said, es_message());
    if (!strstr(es_message(), said) || strchr(es_message(), '\n'))
        fail_msg("'%s' not in: %s", said, es_message());
}

/**
 * Writes the modified tensors to a file and asserts that the file is refused
 * with a message that contains `said`.
 */
static void assert_spoilt(es_weights_case *f, const char *said)
{
    es_test_tensors_write(&f->list, es_weights_file);
    assert_refused(ES_EFORMAT, f->it.config.n_head, said);
    es_weights_case_close(f);
}

/* Names in a state dict have additional prefixes if the model was wrapped by
   DDP or torch.compile, or if single layers were compiled. */
TEST(weights_of_wrapped_models_give_the_same_logits)
{
    static const struct {
        const char *before, *in_layer;
    } cases[] = {{"_orig_mod.", ""},
                 {"module.", ""},
                 {"module._orig_mod.", ""},
                 {"_orig_mod.module.", ""},
                 {"", "_orig_mod."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_weights_case *f = open_gpt2();
        for (size_t k = 0; k < f->list.n; k++) {
            es_test_tensor *tensor = &f->list.all[k];
            char name[sizeof tensor->name];
            const char *layer = strstr(tensor->name, "h.0.");
            const int n = layer ? (int)(layer + 4 - tensor->name) : 0;
            snprintf(name, sizeof name, "%s%.*s%s%s", cases[i].before, n,
                     tensor->name, n ? cases[i].in_layer : "",
                     tensor->name + n);
            strcpy(tensor->name, name);
        }
        assert_same_function(f);
        es_weights_case_close(f);
    }
    es_weights_case *f = open_gpt2();
    const int64_t dims[1] = {12};
    es_test_tensor_add(&f->list, "module.transformer.ln_f.bias", NULL, 1, dims);
    es_test_tensors_write(&f->list, es_weights_file);
    assert_refused(ES_EFORMAT, 3, "transformer.ln_f.bias exists twice");
    es_weights_case_close(f);
}

TEST(a_missing_tensor_is_named)
{
    static const struct {
        es_weights_case *(*open)(void);
        const char *name, *said;
    } cases[] = {
        {open_gpt2, "transformer.h.0.mlp.c_proj.bias",
         "transformer.h.0.mlp.c_proj.bias is missing"},
        {open_gpt2, "transformer.wpe.weight",
         "transformer.wpe.weight is missing"},
        {open_neox, "embed_out.weight", "embed_out.weight is missing"},
        {open_neox, "gpt_neox.layers.0.attention.query_key_value.bias",
         "layers.0.attention.query_key_value.bias is missing"},
        {open_neox, "gpt_neox.embed_in.weight", "neither a checkpoint"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_weights_case *f = cases[i].open();
        es_test_tensor_remove(&f->list, cases[i].name);
        assert_spoilt(f, cases[i].said);
    }
}

TEST(an_extra_tensor_is_refused)
{
    const int64_t dims[1] = {3};
    const char *const names[][2] = {
        {"transformer.h.0.attn.c_attn.lora"},
        {"h.0.attn.bias"},
        {"transformer.h.00.attn.bias"},
        {"transformer.lm_head.weight"},
        {"wte.bias"},
        {"transformer.h.1.attn.bias", "transformer.h.1.ln_1.weight is missing"},
        {"transformer.h.1024.attn.bias"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        es_weights_case *f = open_gpt2();
        es_test_tensor_add(&f->list, names[i][0], NULL, 1, dims);
        assert_spoilt(f, names[i][1] ? names[i][1] : names[i][0]);
    }
}

TEST(wrong_shapes_are_refused)
{
    static const struct {
        es_weights_case *(*open)(void);
        const char *name;
        int64_t rows, columns; /* columns 0: a vector */
        const char *said;
    } cases[] = {
        /* the transposed shape, which a linear layer would have */
        {open_gpt2, "transformer.h.0.attn.c_attn.weight", 36, 12,
         "c_attn.weight has shape (36,12): expected (12,36)"},
        {open_neox, "gpt_neox.layers.1.attention.query_key_value.weight", 32,
         96,
         "layers.1.attention.query_key_value.weight has shape (32,96): "
         "expected (96,32)"},
        {open_gpt2, "transformer.ln_f.weight", 12, 1,
         "ln_f.weight has shape (12,1): expected (12)"},
        {open_gpt2, "transformer.wte.weight", 84, 0,
         "wte.weight has 1 dimensions, not 2"},
        {open_gpt2, "transformer.h.0.mlp.c_fc.weight", 24, 12,
         "c_fc.weight has shape (24,12): expected (12,12)"},
        {open_gpt2, "transformer.h.0.mlp.c_fc.weight", 18, 16,
         "the feed-forward width 16 is not a multiple of the model width"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_weights_case *f = cases[i].open();
        es_test_tensor *tensor = es_test_tensor_find(&f->list, cases[i].name);
        tensor->n_dims = cases[i].columns > 0 ? 2 : 1;
        tensor->dims[0] = cases[i].rows;
        tensor->dims[1] = cases[i].columns;
        assert_spoilt(f, cases[i].said);
    }
    es_weights_case *f = open_gpt2();
    strcpy(es_test_tensor_find(&f->list, "transformer.h.0.mlp.c_fc.bias")->type,
           "BOOL");
    assert_spoilt(f, "c_fc.bias does not hold floating-point numbers");
}

TEST(eight_bit_weights_are_refused_with_a_remedy)
{
    static const char *const types[] = {"F8_E4M3", "F8_E5M2"};
    for (size_t i = 0; i < 2; i++) {
        char said[64];
        es_weights_case *f = open_gpt2();
        strcpy(es_test_tensor_find(&f->list, "transformer.h.0.mlp.c_fc.bias")
                   ->type,
               types[i]);
        snprintf(said, sizeof said, "c_fc.bias has the type %s", types[i]);
        assert_spoilt(f, said);
    }
}

TEST(an_untied_output_matrix_is_refused)
{
    char note[256];
    es_weights_case *f = open_gpt2();
    es_test_tensor *head = es_test_tensor_find(&f->list, "lm_head.weight");
    head->values[head->n - 1] += 1;
    es_weights *weights = es_weights_case_read(f);
    es_model_config config = es_weights_case_config(f, weights);
    es_model *model = NULL;
    es_assert_ok(es_model_new(&model, &config, &es_cpu_ops, 1));
    es_assert_status(ES_EFORMAT, "lm_head.weight is not",
                     es_weights_load(model, weights, note, sizeof note));
    es_model_free(model);
    es_weights_close(weights);
    es_weights_case_close(f);
}

TEST(a_truncated_file_is_refused)
{
    es_weights_case *f = open_gpt2();
    es_test_tensors_write(&f->list, es_weights_file);
    assert_int_equal(truncate(es_weights_file, 3000), 0);
    assert_refused(ES_EFORMAT, 3, es_weights_file);
    assert_int_equal(unlink(es_weights_file), 0);
    assert_refused(ES_EIO, 3, es_weights_file);
    es_weights_case_close(f);
}

/* --- config.json ---------------------------------------------------------- */

TEST(the_number_of_heads_must_be_known)
{
    es_weights_case *f = open_gpt2();
    es_test_tensors_write(&f->list, es_weights_file);
    assert_refused(ES_EUSAGE, 0, "give --n-head");
    assert_refused(ES_EUSAGE, 5, "--n-head 5 does not divide");
    es_weights_config_write(
        "{\"n_head\": 3, \"n_layer\": 1, \"n_embd\": 12, \"n_inner\": "
        "null, \"activation_function\": \"gelu_new\", "
        "\"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", "
        "\"torch_dtype\": \"float32\", \"n_positions\": 13, "
        "\"time_step_limit\": [0.0, Infinity], \"x\": [NaN, -Infinity]}");
    assert_same_function(f);
    assert_refused(ES_EUSAGE, 4, "--n-head 4: ");
    es_weights *weights = NULL;
    es_assert_ok(es_weights_open(&weights, es_weights_file, 0, false));
    assert_int_equal(weights->config.n_head, 3);
    es_weights_close(weights);
    es_weights_case_close(f);
}

TEST(a_configuration_of_neox_is_read)
{
    es_weights_case *f = open_neox();
    es_weights_config_write(
        "{\"num_attention_heads\": 2, \"hidden_size\": 32, "
        "\"rotary_pct\": 0.25, \"rotary_emb_base\": 10000, "
        "\"use_parallel_residual\": true, \"hidden_act\": \"gelu\", "
        "\"max_position_embeddings\": 2048, \"vocab_size\": 7, "
        "\"layer_norm_eps\": 1e-05, \"model_type\": \"gpt_neox\", "
        "\"intermediate_size\": 64, \"num_hidden_layers\": 2, "
        "\"rope_scaling\": null, \"tie_word_embeddings\": false}");
    assert_config(f, "SM+LN+G");
    assert_same_function(f);
    es_weights *weights = es_weights_case_read(f);
    assert_int_equal(weights->config.ctx, 2048);
    es_model_config config = es_weights_case_config(f, weights);
    config.ctx = 5000; /* rotary positions do not limit the context */
    es_assert_ok(es_weights_check(weights, &config));
    es_weights_close(weights);
    es_weights_config_write("{\"hidden_act\": \"gelu_new\"}");
    assert_config(f, "SM+LN+GT");
    es_weights_config_write("{\"hidden_act\": \"quick_gelu\"}");
    assert_config(f, "SM+LN+GS");
    es_weights_case_close(f);
}

TEST(a_wrong_configuration_is_refused)
{
    static const char *const gpt2[][2] = {
        {"{\"n_head\": 3, ", "line 1"},
        {"[3]", "not a JSON object"},
        {"{\"n_head\": \"three\"}", "n_head is not a valid size"},
        {"{\"n_head\": -3}", "n_head is not a valid size"},
        {"{\"n_layer\": 12}", "n_layer is 12, but the weights have 1"},
        {"{\"n_positions\": 1024}", "n_positions is 1024"},
        {"{\"model_type\": \"gpt_neox\"}", "model_type is gpt_neox"},
        {"{\"model_type\": 3}", "model_type"},
        {"{\"layer_norm_epsilon\": -1e-6}",
         "layer_norm_epsilon is not a number"},
        {"{\"layer_norm_epsilon\": 1e31}",
         "layer_norm_epsilon is not a number"},
        {"{\"layer_norm_epsilon\": null}", "layer_norm_epsilon"},
        {"{\"layer_norm_epsilon\": Infinity}", "layer_norm_epsilon"},
        {"{\"scale_attn_weights\": false}", "scale_attn_weights is not true"},
        {"{\"scale_attn_by_inverse_layer_idx\": true}", "is not false"},
        {"{\"activation_function\": \"silu\"}", "silu"},
        {"{\"activation_function\": 7}", "activation_function"},
        {"", "line 1"},
    };
    static const char *const neox[][2] = {
        {"{\"rotary_pct\": 1.0}", "rotary_pct is not 0.25"},
        {"{\"use_parallel_residual\": false}", "use_parallel_residual"},
        {"{\"rope_scaling\": {\"factor\": 2}}", "rope_scaling is not null"},
        {"{\"rotary_emb_base\": 500000}", "rotary_emb_base is not 10000"},
        {"{\"max_position_embeddings\": 0}", "max_position_embeddings"},
    };
    for (int family = 0; family < 2; family++) {
        es_weights_case *f = family ? open_neox() : open_gpt2();
        const char *const(*table)[2] = family ? neox : gpt2;
        size_t n = family ? sizeof neox : sizeof gpt2;
        es_test_tensors_write(&f->list, es_weights_file);
        for (size_t i = 0; i < n / sizeof *table; i++) {
            es_weights_config_write(table[i][0]);
            assert_refused(ES_EFORMAT, f->it.config.n_head, table[i][1]);
        }
        es_weights_case_close(f);
    }
}

TEST_GROUP(es_weights_folder_make, es_weights_folder_remove)
