/* Tests names, shapes and initial values of parameters. */
#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/params.h"
#include "hooks/trainer/verify.h"
#include "tests/support/reference_case.h"
#include "tests/support/test.h"

static es_model_config config_of(const char *arch)
{
    es_model_config config;
    es_model_config_default(&config);
    es_assert_ok(es_arch_parse(&config.arch, arch));
    config.n_layer = 2;
    config.n_head = 4;
    config.d_model = 12;
    config.ctx = 5;
    config.vocab = 7;
    return config;
}

/* --- comparison with the reference cases --------------------------------- */

static int count_arrays(const es_verify_case *it, const char *folder)
{
    const es_safetensors *file = it->arrays.file;
    int n = 0;
    for (size_t i = 0; i < file->n; i++)
        n += strstr(file->tensors[i].name, folder) == file->tensors[i].name;
    return n;
}

/* Checks that the case has a tensor of the right shape for every array, and no
 * other tensor. */
static void check_case(const char *path)
{
    AUTO_BY(es_verify_case_free) es_verify_case it;
    AUTO_BY(es_params_free) es_params params;
    int n_state = 0;
    es_assert_ok(es_verify_case_read(&it, path));
    es_assert_ok(es_params_list(&params, &it.config));
    for (size_t i = 0; i < params.n; i++) {
        const es_param *param = &params.table[i];
        const bool state = param->group == ES_GROUP_STATE;
        size_t dims[ES_PARAM_MAX_DIMS];
        for (int k = 0; k < ES_PARAM_MAX_DIMS; k++)
            dims[k] = (size_t)param->dims[k];
        AUTO_BY(es_npy_free) es_npy array = {0};
        n_state += state;
        char t[ES_PARAM_NAME_MAX];
        const char *name =
            es_temperatures_name(t, sizeof t, param->name) ? t : param->name;
        if (es_verify_array_read(&array, &it, state ? "state" : "params",
                                 name) != ES_OK ||
            es_npy_expect(&array, name, ES_NPY_F4, param->n_dims, dims) !=
                ES_OK)
            fail_msg("%s: %s", path, es_message());
        assert_int_equal(array.n, param->n);
    }
    assert_int_equal(count_arrays(&it, "state/"), n_state);
    assert_int_equal(count_arrays(&it, "params/"), (int)params.n - n_state);
}

TEST(arrays_match_the_reference_cases)
{
    es_ref_each_case(check_case);
}

/* --- the table ------------------------------------------------------------ */

static const es_param *get(const es_params *params, const char *name)
{
    for (size_t i = 0; i < params->n; i++)
        if (strcmp(params->table[i].name, name) == 0)
            return &params->table[i];
    fail_msg("no array %s", name);
    return NULL;
}

TEST(arrays_have_order_and_no_overlap)
{
    es_model_config config = config_of("EReg(SM(t)+LN+LR(layer)+WNorm(QK))");
    AUTO_BY(es_params_free) es_params params;
    es_assert_ok(es_params_list(&params, &config));
    assert_string_equal(params.table[0].name, "wte");
    assert_string_equal(params.table[1].name, "wpe");
    assert_string_equal(params.table[2].name, "h.0.ln_1.weight");
    assert_string_equal(params.table[params.n - 1].name, "ln_f.bias");
    /* Check that no two arrays overlap, and that each is aligned and within its
     * group. */
    for (size_t i = 0; i < params.n; i++) {
        const es_param *a = &params.table[i];
        assert_true(a->offset % 16 == 0);
        assert_true(a->offset >= params.group[a->group]);
        assert_true(a->offset + a->n <= params.group[a->group + 1]);
        for (size_t j = 0; j < i; j++) {
            const es_param *b = &params.table[j];
            assert_true(a->offset >= b->offset + b->n ||
                        b->offset >= a->offset + a->n);
        }
        assert_ptr_equal(es_params_find(&params, a->layer, a->role), a);
    }
    assert_null(es_params_find(&params, 0, ES_ROLE_ALPHA));
}

TEST(arrays_are_in_their_groups)
{
    es_model_config config =
        config_of("SM(t)+LN+LR(global)+WNorm(QK)+SNorm(FFN)");
    AUTO_BY(es_params_free) es_params p;
    config.bias = ES_BIAS_QK;
    es_assert_ok(es_params_list(&p, &config));
    assert_int_equal(get(&p, "wte")->group, ES_GROUP_DECAY);
    assert_int_equal(get(&p, "h.1.mlp.c_fc.weight")->group, ES_GROUP_DECAY);
    assert_int_equal(get(&p, "slope")->group, ES_GROUP_SLOPE);
    assert_int_equal(get(&p, "h.0.attn.log_t")->group, ES_GROUP_PLAIN);
    assert_int_equal(get(&p, "h.0.attn.c_attn.g")->group, ES_GROUP_PLAIN);
    assert_int_equal(get(&p, "h.0.ln_2.weight")->group, ES_GROUP_PLAIN);
    assert_int_equal(get(&p, "h.0.mlp.c_fc.u")->group, ES_GROUP_STATE);
    assert_int_equal(get(&p, "h.0.mlp.c_fc.u")->n_trainable, 0);
    assert_int_equal(get(&p, "h.0.attn.c_attn.bias")->n_trainable, 24);
    assert_int_equal(get(&p, "h.0.attn.c_attn.g")->n_trainable, 24);
    assert_int_equal(get(&p, "h.0.attn.c_attn.weight")->n_trainable, 432);
}

TEST(a_removed_ffn_has_no_arrays)
{
    static const char *const archs[] = {"SM+LN+ScFuFFNi2", "SM+LN+NoFFN",
                                        "SM+LN+G+NoFFN[0-1]+WNorm(FFN)"};
    for (size_t k = 0; k < sizeof archs / sizeof *archs; k++) {
        es_model_config config = config_of(archs[k]);
        AUTO_BY(es_params_free) es_params params;
        es_assert_ok(es_params_list(&params, &config));
        for (size_t i = 0; i < params.n; i++)
            assert_true(!strstr(params.table[i].name, "mlp") &&
                        !strstr(params.table[i].name, "ln_2"));
    }
}

/* --- initial values ------------------------------------------------------ */

static void draw(float *out, const es_params *params,
                 const es_model_config *config, const char *name)
{
    es_param_draw(out, get(params, name), config, 2);
}

TEST(each_kind_of_initial_value_is_drawn)
{
    es_model_config config =
        config_of("EReg(SM(t)+LN+LR(layer,0.25)+SNorm(FFN))");
    AUTO_BY(es_params_free) es_params params;
    float out[1024];
    config.t_init = 0.125;
    es_assert_ok(es_params_list(&params, &config));
    draw(out, &params, &config, "h.1.attn.log_t");
    assert_true(out[0] == logf(0.125f) && out[19] == logf(0.125f));
    draw(out, &params, &config, "h.1.attn.theta");
    assert_true(out[0] == 0.5f && out[3] == 0.5f);
    draw(out, &params, &config, "h.0.mlp.slope");
    assert_true(out[0] == 0.25f);
    draw(out, &params, &config, "ln_f.weight");
    assert_true(out[0] == 1 && out[11] == 1);
    draw(out, &params, &config, "h.0.attn.c_attn.bias");
    assert_true(out[0] == 0 && out[35] == 0);
    draw(out, &params, &config, "h.0.mlp.c_fc.u");
    double norm = 0;
    for (int i = 0; i < 48; i++)
        norm += (double)out[i] * (double)out[i];
    assert_true(fabs(norm - 1) < 1e-6);
}

/* If two architectures have an array in common, its initial values are the same
 * in both. Another seed or another array has other values. */
TEST(initial_values_depend_on_name_and_seed_only)
{
    es_model_config one = config_of("SM"), two = config_of("SM+LN+G");
    es_params a, b;
    float first[432], second[432];
    two.n_layer = 5;
    es_assert_ok(es_params_list(&a, &one));
    es_assert_ok(es_params_list(&b, &two));
    draw(first, &a, &one, "h.1.attn.c_attn.weight");
    draw(second, &b, &two, "h.1.attn.c_attn.weight");
    assert_memory_equal(first, second, sizeof first);
    draw(second, &b, &two, "h.2.attn.c_attn.weight");
    assert_memory_not_equal(first, second, sizeof first);
    two.seed++;
    draw(second, &b, &two, "h.1.attn.c_attn.weight");
    assert_memory_not_equal(first, second, sizeof first);
    es_params_free(&a);
    es_params_free(&b);
}

/* --- random numbers ------------------------------------------------------- */

/* Compares the generator with the published known answers of Philox-4x32-10. */
TEST(philox_gives_the_published_answers)
{
    uint32_t out[4];
    es_random_block(out, (uint32_t[4]){0, 0, 0, 0}, (uint32_t[2]){0, 0});
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    const uint32_t ones = UINT32_MAX;
    es_random_block(out, (uint32_t[4]){ones, ones, ones, ones},
                    (uint32_t[2]){ones, ones});
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
    assert_int_equal(out[2], 0xa20bc7c6);
    assert_int_equal(out[3], 0x6d5451fd);
}

TEST(normal_numbers_have_their_moments)
{
    enum { N = 200001 };
    float few[7];
    AUTO_FREE float *out = malloc(N * sizeof *out);
    double sum[5] = {0};
    es_random_normal(out, N, 0.02, 42, 7, 2);
    for (int i = 0; i < N; i++)
        for (int k = 1; k < 5; k++)
            sum[k] += pow((double)out[i] / 0.02, k) / N;
    assert_true(fabs(sum[1]) < 0.01 && fabs(sum[3]) < 0.05);
    assert_true(fabs(sum[2] - 1) < 0.02 && fabs(sum[4] - 3) < 0.1);
    /* If fewer numbers are drawn, they are the first numbers of a longer draw,
     * with any number of threads. */
    es_random_normal(few, 7, 0.02, 42, 7, 1);
    assert_memory_equal(out, few, sizeof few);
}
