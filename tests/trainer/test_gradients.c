/* Compares whole models with the double-precision reference model. Outputs are
 * compared directly, gradients with central differences of the reference
 * model's loss. */
#include "tests/support/families.h"
#include "tests/support/reference_case.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* --- against the double model --------------------------------------------- */

static void check_outputs(es_small_model *s, const es_ref_result *want)
{
    const size_t n_logits = (size_t)(s->n * s->config->vocab);
    const size_t n_rows =
        (size_t)(s->n * s->config->n_layer * s->config->n_head);
    const double loss = want->loss;
    assert_true(fabs(s->losses.loss - loss) <= 2e-6 * fabs(loss) + 1e-6);
    assert_true(fabs(s->losses.range - want->range) <=
                2e-6 * want->range + 1e-6);
    es_test_expect_close("logits", es_model_logits(s->model), want->logits,
                         n_logits);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        const float *got = es_model_rows(s->model, (es_row_statistic)i);
        if (got && i != ES_ROW_LSE)
            es_test_expect_close(es_row_statistic_names[i], got, want->rows[i],
                                 n_rows);
    }
}

/* Compares twenty elements of an array's gradient, or all elements if there are
 * fewer. */
static void check_array(const es_small_model *s, const es_ref_model *ref,
                        es_ref_result *result, size_t index)
{
    const es_parameter parameter = es_model_parameter(s->model, index);
    const size_t stride = 1 + parameter.n / 21;
    AUTO_FREE float *got = calloc(parameter.n, sizeof *got);
    AUTO_FREE double *want = calloc(parameter.n, sizeof *want);
    size_t n = 0;
    es_assert_ok(es_model_get_gradient(s->model, index, got, parameter.n));
    for (size_t i = 0; i < parameter.n; i += stride, n++) {
        got[n] = got[i];
        want[n] =
            es_ref_model_gradient(ref, result, s->tokens, s->targets, index, i);
    }
    /* PowerSoftmax multiplies the relative error of scores by its power */
    const double power = s->config->arch.power;
    es_test_expect_within(parameter.name, got, want, n,
                          fmax(2e-5, 5e-6 * power), 1e-6);
}

static void check_model(const es_model_config *config)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open(config);
    es_ref_model *ref = es_ref_model_copy(s.model);
    es_ref_result *result = es_ref_result_new(config);
    es_small_forward(&s);
    es_ref_model_iterate(ref);
    es_ref_model_run(ref, result, s.tokens, s.targets);
    check_outputs(&s, result);
    es_model_zero_gradients(s.model);
    es_assert_ok(es_model_backward(s.model, 1));
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++)
        check_array(&s, ref, result, i);
    es_ref_result_free(result);
    es_ref_model_free(ref);
}

static const char *const built[] = {"SM",
                                    "SM+G[1]",
                                    "SM+LN+LR(0.3)[0]+R[1]",
                                    "SM+ScFuFFNe1",
                                    "SM+G",
                                    "SM+GT",
                                    "SM+GS",
                                    "SM+R",
                                    "SM+LN",
                                    "SM+LN+G",
                                    "SM+LN+R",
                                    "SM+LN+GT",
                                    "SM(t)",
                                    "SM(t,direct)",
                                    "SM+LR(0.05)",
                                    "SM+LN+LR(layer)",
                                    "SM(t)+LR(global,0.2)",
                                    "SM+ScFFN",
                                    "SM+LN+ScFFN",
                                    "SM+ScFuFFN",
                                    "SM+LN+ScFuFFN",
                                    "SM+ScFuFFNi1",
                                    "SM(t)+LN+ScFuFFNi2",
                                    "SM(gate)",
                                    "SM(gate)+LN+G",
                                    "SM(t,gate)+ScFuFFN",
                                    "SM(gate)+LN+WNorm(QKVO,FFN)",
                                    "SM(gate)+R+SNorm(FFN)",
                                    "PSM(4,gate)+LN+G",
                                    "PSM(2)",
                                    "PSM(4)+LN+G",
                                    "PSM(8,0)+R",
                                    "PSM(6,0.3)+ScFuFFN",
                                    "PSM(2,plain)+LN+G",
                                    "PSM(4,0.1,plain)",
                                    "PSM(4,0.1,length)+LN+GS",
                                    "PSM(2,0.05,lengthT)",
                                    "PSM(2,0.1,plain,length)+R",
                                    "RA",
                                    "RA(T,gate)+LN+G"};

TEST(every_architecture_matches_finite_differences)
{
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        es_model_config config = es_small_config(built[i]);
        config.d_model = 6;
        check_model(&config);
    }
}

/* Some of these models have no FFN at all, some have one head. */
TEST(models_without_ffns_match_finite_differences)
{
    static const char *const archs[] = {
        "SM+LN+NoFFN",
        "SM(t)+NoFFN",
        "EReg(SM(t,gate)+LN[0]+NoFFN+WNorm(QKVO))",
        "PSM(2)+LN+NoFFN",
        "SM+LN+G+NoFFN[0]",
        "SM+G[0]+NoFFN[0]",
        "SM+LN+LR(layer)+ScFFN[1]+NoFFN[0-1]",
        "SM+LR(global)+NoFFN[1]+SNorm(QKV,FFN)",
        "SM(clip 3)+LN+ScFFN+NoFFN[1]+WNorm(QK,FFN)[1]+SNorm(FFN)[0]",
        "EReg(SM(t)+ScFuFFN+NoFFN[1])"};
    const int sizes[][3] = {{2, 1, 5}, {2, 3, 6}, {3, 1, 4}, {4, 2, 6}};
    const size_t n = sizeof archs / sizeof *archs;
    for (size_t i = 0; i < 8 * n; i++) {
        es_model_config config = es_small_config(archs[i / 8]);
        config.family = i % 2 ? ES_FAMILY_PYTHIA : ES_FAMILY_GPT2;
        config.n_layer = sizes[i / 2 % 4][0];
        config.n_head = sizes[i / 2 % 4][1];
        config.d_model = sizes[i / 2 % 4][2];
        config.lambda = config.gamma = 0.1;
        check_model(&config);
    }
    es_model_config smallest = es_small_config("SM+NoFFN");
    smallest.n_layer = smallest.n_head = smallest.d_model = 1;
    smallest.ctx = smallest.vocab = smallest.batch = smallest.mlp_mult = 1;
    check_model(&smallest);
}

TEST(entropy_regularisation_matches_finite_differences)
{
    static const char *const archs[] = {"EReg(SM+LN+G)",
                                        "EReg(SM(t)+ScFuFFN)",
                                        "EReg(SM(t,direct)+ScFuFFN)",
                                        "EReg(SM(t)+LR(layer))",
                                        "EReg(PSM(4)+LN+G)",
                                        "EReg(PSM(2,0.2)+ScFFN)",
                                        "EReg(SM(t,gate)+ScFFN)",
                                        "EReg(PSM(2,0.2,plain))",
                                        "EReg(PSM(4,0.1,length)+G)",
                                        "EReg(RA+LN+G)"};
    for (size_t i = 0; i < 2 * sizeof archs / sizeof *archs; i++) {
        es_model_config config = es_small_config(archs[i / 2]);
        config.d_model = 6;
        config.lambda = 0.3;
        config.gamma = 0.1;
        config.ereg_reduce = i % 2 ? ES_EREG_MEAN : ES_EREG_TOKEN;
        check_model(&config);
    }
}

/* Tests each range loss separately, and all together. */
TEST(range_losses_match_finite_differences)
{
    static const char *const archs[] = {"PSM(4)+LN+G",
                                        "PSM(2,plain)+LN+GS",
                                        "PSM(4,0.1,length)+LN+GT",
                                        "EReg(PSM(2)+LN+G[1])",
                                        "PSM(2)+LN+ScFFN",
                                        "SM+LN+LR(layer)",
                                        "SM(t,gate)+LN+R",
                                        "RA+LN+G",
                                        "PSM(2)+LN+G+NoFFN[1]",
                                        "PSM(2)+LN+GS[0]+NoFFN[0]"};
    const size_t n = sizeof archs / sizeof *archs;
    for (size_t i = 0; i < n + ES_N_RANGES; i++) {
        es_model_config config = es_small_config(archs[i < n ? i : 0]);
        config.d_model = 6;
        config.family = i % 2 ? ES_FAMILY_GPT2 : ES_FAMILY_PYTHIA;
        for (size_t r = 0; r < ES_N_RANGES; r++)
            if ((i < n || i - n == r) &&
                es_model_config_has_input(&config, (es_range_kind)r))
                config.range_weight[r] = 0.1 * (double)(r + 1);
        check_model(&config);
    }
}

TEST(biases_and_final_norm_match_finite_differences)
{
    const es_bias biases[] = {ES_BIAS_ALL, ES_BIAS_QK, ES_BIAS_NONE};
    for (size_t i = 0; i < 3; i++) {
        es_model_config config = es_small_config("SM+LN+G");
        config.d_model = 6;
        config.bias = biases[i];
        config.final_norm = ES_FINAL_OFF;
        check_model(&config);
        config = es_small_config("SM+R");
        config.d_model = 6;
        config.bias = biases[i];
        config.final_norm = ES_FINAL_ON;
        check_model(&config);
    }
}

TEST(any_epsilon_of_layer_norm_matches_finite_differences)
{
    es_model_config config = es_small_config("SM+LN+R");
    config.ln_eps = 3;
    check_model(&config);
}

TEST(every_size_matches_finite_differences)
{
    const int sizes[][7] = {/* sizes L, H, d, T, V, B, m */
                            {1, 1, 1, 1, 1, 1, 1},  {3, 1, 5, 1, 2, 3, 4},
                            {1, 5, 5, 7, 3, 1, 1},  {2, 1, 7, 11, 5, 1, 3},
                            {1, 1, 18, 3, 4, 2, 1}, {1, 1, 3, 37, 6, 1, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        es_model_config config = es_small_config(i % 2 ? "SM+LN+G" : "SM+GT");
        config.n_layer = sizes[i][0];
        config.n_head = sizes[i][1];
        config.d_model = sizes[i][2];
        config.ctx = sizes[i][3];
        config.vocab = sizes[i][4];
        config.batch = sizes[i][5];
        config.mlp_mult = sizes[i][6];
        check_model(&config);
    }
}

/* Family pythia rotates q and k, and has parallel sub-blocks and a separate
 * output matrix. */
TEST(family_pythia_matches_finite_differences)
{
    static const char *const archs[] = {"SM",
                                        "SM+LN",
                                        "SM+LN+G",
                                        "SM+LN+GT",
                                        "SM+ScFFN",
                                        "SM+LN+ScFFN",
                                        "SM+ScFuFFN",
                                        "SM+LN+ScFuFFNi1",
                                        "SM(t)+LN+G",
                                        "EReg(SM(t)+ScFuFFNi2)",
                                        "SM(gate)",
                                        "SM(gate)+LN+G",
                                        "SM(t,gate)+LN+ScFFN"};
    const int sizes[][3] = {{1, 3, 15}, {7, 1, 2}, {5, 3, 6}}; /* sizes T, H,
                                                                  d */
    for (size_t i = 0; i < sizeof archs / sizeof *archs + 3; i++) {
        const bool sized = i < 3;
        es_model_config config =
            es_small_config(sized ? "SM+LN+G" : archs[i - 3]);
        config.family = ES_FAMILY_PYTHIA;
        config.ctx = sized ? sizes[i][0] : config.ctx;
        config.n_head = sized ? sizes[i][1] : config.n_head;
        /* heads of width 5, unless the size is given */
        config.d_model = sized ? sizes[i][2] : 15;
        config.lambda = 0.1;
        config.gamma = 0.1;
        check_model(&config);
    }
}

static void check_case(const char *path)
{
    es_expect_case(path, &es_cpu_ops, ES_FP32);
}

TEST(every_reference_case_passes)
{
    es_ref_each_case(check_case);
}
