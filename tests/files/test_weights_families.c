/* Tests weights of Llama, Qwen, BERT and RoBERTa in the form in which
   transformers saves them, without Python. Uses stored models whose logits are
   known, and invalid files. */
#include "hooks/trainer/files/npy.h"
#include "tests/support/test.h"
#include "tests/support/weights_case.h"

static es_verify_case case_of(const char *dir)
{
    es_verify_case it;
    es_assert_ok(es_verify_case_read(&it, dir));
    return it;
}

/* Adds the parameters of a stored model under the names that transformers
 * uses. */
static void add_arrays(es_test_tensors *to, const es_verify_case *it)
{
    es_params params = {0};
    memset(to, 0, sizeof *to);
    es_assert_ok(es_params_list(&params, &it->config));
    for (size_t i = 0; i < params.n; i++) {
        const es_param *param = &params.table[i];
        es_npy values = {0};
        es_assert_ok(es_verify_array_read(
            &values, it, param->group == ES_GROUP_STATE ? "state" : "params",
            param->name));
        es_test_tensor_add(to, param->name, values.data, param->n_dims,
                           (int64_t[]){param->dims[0], param->dims[1]});
        es_npy_free(&values);
    }
    es_params_free(&params);
}

static void expect_logits(const es_verify_case *it, const float *logits)
{
    es_npy want = {0};
    double error;
    const es_tolerance within = es_verify_tolerance(ES_FP32);
    es_assert_ok(es_verify_array_read(&want, it, "out", "logits"));
    AUTO_FREE double *got = calloc(want.n, sizeof *got);
    for (size_t i = 0; i < want.n; i++)
        got[i] = (double)logits[i];
    if (!es_verify_close(&error, got, &want, &within))
        fail_msg("%s: logits differ by %g", it->arrays.path, error);
    es_npy_free(&want);
}

/* The shortest valid config.json of each family. The number of heads must be in
   the file, because no tensor's shape determines it. */
static const char llama_config[] =
    "{\"num_attention_heads\": 4, \"rms_norm_eps\": 1e-05, "
    "\"model_type\": \"llama\", \"hidden_act\": \"silu\"}";
static const struct {
    const char *dir, *config;
} cases[] = {
    {"tests/trainer/cases/l01_llama.safetensors", llama_config},
    {"tests/trainer/cases/l02_qwen2.safetensors",
     "{\"num_attention_heads\": 2, \"rope_theta\": 1000000.0, "
     "\"tie_word_embeddings\": true, \"use_sliding_window\": false, "
     "\"max_position_embeddings\": 64, \"model_type\": \"qwen2\"}"},
    {"tests/trainer/cases/l03_qwen3.safetensors",
     "{\"num_attention_heads\": 3, \"num_key_value_heads\": 1, "
     "\"head_dim\": 6, \"intermediate_size\": 7, \"model_type\": \"qwen3\", "
     "\"layer_types\": [\"full_attention\", \"full_attention\"]}"},
    {"tests/trainer/cases/l04_llama_bias.safetensors",
     "{\"num_attention_heads\": 4, \"rms_norm_eps\": 1e-05, "
     "\"attention_bias\": true, \"mlp_bias\": true}"},
    {"tests/trainer/cases/l08_llama3.safetensors",
     "{\"num_attention_heads\": 1, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 500, \"rope_scaling\": {\"rope_type\": \"llama3\", "
     "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
     "\"original_max_position_embeddings\": 30}}"}};

TEST(each_family_gives_the_logits_of_its_case)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_verify_case it = case_of(cases[i].dir);
        es_test_tensors list;
        es_weights *weights = NULL;
        char note[256];
        add_arrays(&list, &it);
        es_weights_config_write(cases[i].config);
        es_test_tensors_write(&list, es_weights_file);
        es_assert_ok(es_weights_open(&weights, es_weights_file, 0, false));
        assert_string_equal(weights->maker, "Llama");
        es_model_config config = weights->config;
        config.ctx = it.config.ctx;
        config.batch = it.config.batch;
        assert_int_equal(config.n_kv_head, it.config.n_kv_head);
        assert_int_equal(config.bias, it.config.bias);
        AUTO_FREE float *logits =
            es_weights_logits(weights, &config, it.tokens.data, note);
        expect_logits(&it, logits);
        es_weights_close(weights);
        es_test_tensors_free(&list);
        es_verify_case_free(&it);
    }
}

/* --- refusals ------------------------------------------------------------- */

static void expect_refusal(const es_test_tensors *list, const char *config,
                           const char *named)
{
    es_weights *weights = NULL;
    if (config)
        es_weights_config_write(config);
    else
        unlink(es_weights_config);
    es_test_tensors_write(list, es_weights_file);
    const es_status status =
        es_weights_open(&weights, es_weights_file, 0, false);
    if (status != ES_EFORMAT && status != ES_EUSAGE)
        fail_msg("%s: status %d", named, status);
    assert_null(weights);
    if (!strstr(es_message(), named))
        fail_msg("message '%s' does not contain '%s'", es_message(), named);
}

#define AT "model.layers.1.self_attn."

TEST(llamas_that_cannot_be_built_are_refused_by_name)
{
    static const char *const configs[][2] = {
        {NULL, "weights of Llama need a config.json in the same folder"},
        {"{}", "give --n-head"},
        {"{\"num_attention_heads\": 5}", "into 5 heads"},
        {"{\"num_attention_heads\": 1000}", "into 1000 heads"},
        {"{\"num_attention_heads\": 16}", "a head is 1 wide"},
        {"{\"num_attention_heads\": 4, \"num_key_value_heads\": 4}",
         "num_key_value_heads in config.json is 4"},
        {"{\"num_attention_heads\": 4, \"head_dim\": 1e300}",
         "head_dim is not a valid number"},
        {"{\"num_attention_heads\": 4, \"rope_theta\": -1}", "rope_theta"},
        {"{\"num_attention_heads\": 4, \"rope_theta\": 1e999}", ""},
        {"{\"num_attention_heads\": 4, \"rope_scaling\": 7}", "rope_scaling"},
        {"{\"num_attention_heads\": 4, \"rope_scaling\": {\"type\": "
         "\"linear\"}}",
         "has type linear: expected default or llama3"},
        {"{\"num_attention_heads\": 4, \"rope_scaling\": {\"type\": "
         "\"llama3\", \"factor\": 0}}",
         "factor"},
        {"{\"num_attention_heads\": 4, \"tie_word_embeddings\": 3, "
         "\"layer_types\": [5]}",
         "layer_types"},
        {"{\"num_attention_heads\": 4, \"hidden_act\": 5}", "hidden_act"}};
    es_verify_case it = case_of(cases[0].dir);
    es_test_tensors list;
    add_arrays(&list, &it);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        expect_refusal(&list, configs[i][0], configs[i][1]);
    es_test_tensor_add(&list, AT "q_norm.weight", NULL, 1, (int64_t[]){4});
    expect_refusal(&list, llama_config, AT "q_norm.weight in a Llama model");
    es_test_tensor_remove(&list, AT "q_norm.weight");
    es_test_tensor_find(&list, AT "k_proj.weight")->dims[0] = 16;
    es_test_tensor_find(&list, AT "k_proj.weight")->dims[1] = 8;
    expect_refusal(&list, llama_config, AT "k_proj.weight has shape (16,8)");
    es_test_tensor_remove(&list, AT "k_proj.weight");
    expect_refusal(&list, llama_config, AT "k_proj.weight is missing");
    es_test_tensor_remove(&list, "model.layers.0.mlp.up_proj.weight");
    expect_refusal(&list, llama_config, "up_proj.weight is missing");
    es_test_tensors_free(&list);
    es_verify_case_free(&it);
}

/* --- BERT ----------------------------------------------------------------- */

enum { N_POSITIONS = 9, WIDTH = 4, N_VOCAB = 7 };

/* Adds the tensors of a BERT model with one layer. The embedding of token type
   0 is 5 in all elements; the embedding of each position is the position's
   index in all elements. */
static void add_bert(es_test_tensors *to, const char *prefix)
{
    es_model_config config;
    es_params params = {0};
    char name[128];
    float types[2 * WIDTH] = {5, 5, 5, 5};
    es_model_config_default(&config);
    config.family = ES_FAMILY_BERT;
    config.n_layer = 1;
    config.n_head = 2;
    config.d_model = WIDTH;
    config.ctx = N_POSITIONS;
    config.vocab = N_VOCAB;
    config.mlp_mult = 1;
    memset(to, 0, sizeof *to);
    es_assert_ok(es_params_list(&params, &config));
    for (size_t i = 0; i < params.n; i++) {
        const es_param *param = &params.table[i];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        es_test_tensor *tensor =
            es_test_tensor_add(to, name, NULL, param->n_dims,
                               (int64_t[]){param->dims[0], param->dims[1]});
        for (size_t k = 0; param->role == ES_ROLE_WPE && k < param->n; k++)
            tensor->values[k] = (float)(k / WIDTH);
    }
    es_params_free(&params);
    snprintf(name, sizeof name, "%sembeddings.token_type_embeddings.weight",
             prefix);
    es_test_tensor_add(to, name, types, 2, (int64_t[]){2, WIDTH});
    es_test_tensor_add(to, "cls.predictions.bias", NULL, 1,
                       (int64_t[]){N_VOCAB});
    snprintf(name, sizeof name, "%spooler.dense.weight", prefix);
    es_test_tensor_add(to, name, NULL, 2, (int64_t[]){WIDTH, WIDTH});
}

#define BERT(type, more)                                                       \
    "{\"model_type\": \"" type "\", \"num_attention_heads\": 2, "              \
    "\"pad_token_id\": 1" more "}"

static void expect_positions(const char *prefix, const char *text, int n,
                             float first)
{
    es_test_tensors list;
    es_weights *weights = NULL;
    es_model *model = NULL;
    char note[256];
    add_bert(&list, prefix);
    es_weights_config_write(text);
    es_test_tensors_write(&list, es_weights_file);
    es_assert_ok(es_weights_open(&weights, es_weights_file, 0, false));
    assert_int_equal(weights->config.family, ES_FAMILY_BERT);
    assert_int_equal(weights->config.ctx, n);
    assert_int_equal(weights->config.padding, 1);
    assert_true(weights->config.ln_eps == 1e-12); /* transformers' default */
    assert_string_equal(weights->maker,
                        strstr(text, "roberta") ? "RoBERTa" : "BERT");
    es_assert_ok(es_model_new(&model, &weights->config, &es_cpu_ops, 1));
    es_assert_ok(es_weights_load(model, weights, note, sizeof note));
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter parameter = es_model_parameter(model, i);
        float values[N_POSITIONS * WIDTH];
        if (!strstr(parameter.name, "position_embeddings"))
            continue;
        assert_int_equal(parameter.dims[0], n);
        es_assert_ok(es_model_get(model, i, values, parameter.n));
        for (int k = 0; k < n * WIDTH; k++)
            assert_true(values[k] == first + (float)(k / WIDTH));
    }
    es_model_free(model);
    es_weights_close(weights);
    es_test_tensors_free(&list);
}

TEST(positions_of_bert_begin_at_0_and_of_roberta_behind_padding)
{
    expect_positions("bert.", BERT("bert", ""), N_POSITIONS, 5);
    expect_positions("", BERT("bert", ", \"max_position_embeddings\": 9"),
                     N_POSITIONS, 5);
    expect_positions("roberta.", BERT("roberta", ""), N_POSITIONS - 2, 7);
    expect_positions("", BERT("roberta", ""), N_POSITIONS - 2, 7);
}

TEST(berts_that_cannot_be_built_are_refused_by_name)
{
    static const char *const configs[][2] = {
        {NULL, "weights of BERT need a config.json"},
        {"{\"num_attention_heads\": 2}", "model_type is not a string"},
        {"{\"model_type\": \"roberta\", \"pad_token_id\": null}",
         "pad_token_id is missing or too large"},
        {"{\"model_type\": \"bert\", \"pad_token_id\": -1}", "pad_token_id"},
        {"{\"model_type\": \"bert\", \"pad_token_id\": 7}", "pad_token_id"},
        {"{\"model_type\": \"bert\"}", "give --n-head"},
        {BERT("bert", ", \"is_decoder\": true"), "is_decoder"},
        {BERT("bert", ", \"hidden_size\": 5"), "hidden_size is 5"}};
    es_test_tensors list;
    add_bert(&list, "bert.");
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        expect_refusal(&list, configs[i][0], configs[i][1]);
    es_test_tensor_add(&list, "bert.encoder.layer.0.adapter.weight", NULL, 1,
                       (int64_t[]){4});
    expect_refusal(&list, BERT("bert", ""), "adapter.weight in a BERT model");
    es_test_tensors_free(&list);
}

/* --- RoBERTa -------------------------------------------------------------- */

#define EMBEDDING(what) "roberta.embeddings." what "_embeddings.weight"

/* Adds the parameters of a stored model, whose positions include the embedding
   of token type 0. The added file stores the embeddings of two token types
   separately. */
static void add_roberta(es_test_tensors *to, const es_verify_case *it)
{
    const int d = it->config.d_model;
    float types[2 * 16];
    add_arrays(to, it);
    es_test_tensor_remove(to, EMBEDDING("token_type"));
    for (int i = 0; i < 2 * d; i++)
        types[i] = 0.5F - (float)i;
    es_test_tensor_add(to, EMBEDDING("token_type"), types, 2,
                       (int64_t[]){2, d});
    es_test_tensor *positions = es_test_tensor_find(to, EMBEDDING("position"));
    for (size_t i = 0; i < positions->n; i++)
        positions->values[i] -= types[i % (size_t)d];
}

TEST(roberta_that_predicts_gives_the_logits_of_its_case)
{
    static const struct {
        const char *dir, *config;
    } all[] = {{"tests/trainer/cases/r02_roberta_padding.safetensors",
                "{\"model_type\": \"roberta\", \"num_attention_heads\": 2, "
                "\"pad_token_id\": 1, \"layer_norm_eps\": 1e-05}"},
               {"tests/trainer/cases/r03_roberta_psm6.safetensors",
                "{\"model_type\": \"roberta\", \"num_attention_heads\": 3, "
                "\"pad_token_id\": 0, \"layer_norm_eps\": 1e-05, "
                "\"hidden_act\": \"relu\"}"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        es_verify_case it = case_of(all[i].dir);
        es_test_tensors list;
        es_weights *weights = NULL;
        char note[256];
        add_roberta(&list, &it);
        es_weights_config_write(all[i].config);
        es_test_tensors_write(&list, es_weights_file);
        es_assert_ok(es_weights_open(&weights, es_weights_file, 0, false));
        assert_int_equal(weights->config.family, ES_FAMILY_BERT);
        es_weights_close(weights);
        es_assert_ok(es_weights_open(&weights, es_weights_file, 0, true));
        assert_string_equal(weights->maker, "RoBERTa");
        assert_int_equal(weights->config.family, ES_FAMILY_ROBERTA);
        assert_int_equal(weights->config.ctx, it.config.ctx);
        assert_int_equal(weights->config.padding, it.config.padding);
        es_model_config config = weights->config;
        config.arch = it.config.arch;
        config.batch = it.config.batch;
        AUTO_FREE float *logits =
            es_weights_logits(weights, &config, it.tokens.data, note);
        expect_logits(&it, logits);
        assert_int_equal(strstr(note, "a different function") != NULL, i == 1);
        es_weights_close(weights);
        es_test_tensors_free(&list);
        es_verify_case_free(&it);
    }
}

TEST_GROUP(es_weights_folder_make, es_weights_folder_remove)
