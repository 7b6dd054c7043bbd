/* Whole models against the double model: outputs, and gradients by central
 * differences. */
#include "hooks/trainer/verify.h"
#include "tests/support/listed.h"
#include "tests/support/reference_model.h"
#include "tests/support/reference_ops.h"
#include "tests/support/run_files.h"
#include "tests/support/small_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- against the double model --------------------------------------------- */

static void check_outputs(es_small_model *s, const es_ref_result *want)
{
    const size_t n_logits = (size_t)(s->n * s->config->vocab);
    const size_t n_rows =
        (size_t)(s->n * s->config->n_layer * s->config->n_head);
    const double loss = want->loss;
    assert_true(fabs(s->losses.loss - loss) <= 2e-6 * fabs(loss) + 1e-6);
    es_test_expect_close("logits", es_model_logits(s->model), want->logits,
                         n_logits);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        const float *got = es_model_rows(s->model, (es_row_statistic)i);
        if (got && i != ES_ROW_LSE)
            es_test_expect_close(es_row_statistic_names[i], got, want->rows[i],
                                 n_rows);
    }
}

/* Twenty entries of an array, or all if there are fewer. */
static void check_array(const es_small_model *s, const es_ref_model *ref,
                        es_ref_result *result, size_t index)
{
    const es_parameter parameter = es_model_parameter(s->model, index);
    const size_t stride = 1 + parameter.n / 21;
    float *got = calloc(parameter.n, sizeof *got);
    double *want = calloc(parameter.n, sizeof *want);
    size_t n = 0;
    es_assert_ok(es_model_get_gradient(s->model, index, got, parameter.n));
    for (size_t i = 0; i < parameter.n; i += stride, n++) {
        got[n] = got[i];
        want[n] =
            es_ref_model_gradient(ref, result, s->tokens, s->targets, index, i);
    }
    es_test_expect_close(parameter.name, got, want, n);
    free(got);
    free(want);
}

static void check_model(const es_model_config *config)
{
    es_small_model s = es_small_open(config);
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
    es_small_close(&s);
}

static const char *const built[] = {"SM",
                                    "SM+G",
                                    "SM+GT",
                                    "SM+R",
                                    "SM+LN",
                                    "SM+LN+G",
                                    "SM+LN+R",
                                    "SM+LN+GT",
                                    "SM(t)",
                                    "SM+LR(0.05)",
                                    "SM+LN+LR(layer)",
                                    "SM(t)+LR(global,0.2)",
                                    "SM+ScFFN",
                                    "SM+LN+ScFFN",
                                    "SM+ScFuFFN",
                                    "SM+LN+ScFuFFN",
                                    "SM+ScFuFFNi1",
                                    "SM(t)+LN+ScFuFFNi2",
                                    "PSM(2)",
                                    "PSM(4)+LN+G",
                                    "PSM(8,0)+R",
                                    "PSM(6,0.3)+ScFuFFN"};

ES_TEST(test_gradients__architectures)
{
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        es_model_config config = es_small_config(built[i]);
        config.d_model = 6;
        check_model(&config);
    }
}

ES_TEST(test_gradients__entropy_regularisation)
{
    static const char *const archs[] = {
        "EReg(SM+LN+G)", "EReg(SM(t)+ScFuFFN)", "EReg(SM(t)+LR(layer))",
        "EReg(PSM(4)+LN+G)", "EReg(PSM(2,0.2)+ScFFN)"};
    for (size_t i = 0; i < 2 * sizeof archs / sizeof *archs; i++) {
        es_model_config config = es_small_config(archs[i / 2]);
        config.d_model = 6;
        config.lambda = 0.3;
        config.gamma = 0.1;
        config.ereg_reduce = i % 2 ? ES_EREG_MEAN : ES_EREG_TOKEN;
        check_model(&config);
    }
}

ES_TEST(test_gradients__biases_and_final_norm)
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

ES_TEST(test_gradients__sizes)
{
    const int sizes[][7] = {/* L, H, d, T, V, B, m */
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

/* Every reference case that can be built passes, these among them. */
ES_TEST(test_gradients__reference_cases)
{
    static const char *const cases[] = {"g01_sm_ln_g",
                                        "g02_sm_ln_gt",
                                        "g03_sm_ln_r",
                                        "g04_sm_r",
                                        "g05_sm",
                                        "g06_sm_lr_fixed",
                                        "g07_sm_lr_layer",
                                        "g08_sm_lr_global",
                                        "g09_sm_wnorm_ffn",
                                        "g10_sm_wnorm_qk",
                                        "g11_sm_wnorm_qkvo_ffn",
                                        "g12_sm_snorm_qk_ffn",
                                        "g13_sm_snorm_qkv_ffn",
                                        "g14_sm_scffn",
                                        "g15_sm_scfuffn_t1",
                                        "g16_smt_scfuffn",
                                        "g17_ereg_smt_scfuffn",
                                        "g18_ereg_smt_scfuffni6",
                                        "g19_ereg_sm_ln_r_mean",
                                        "g20_ereg_sm_ln_r_token",
                                        "g21_psm2",
                                        "g22_psm4_ln_g",
                                        "g23_psm8_r",
                                        "g24_sm_r_final",
                                        "g25_sm_scfuffn_wnorm_ffn"};
    enum { N = sizeof cases / sizeof *cases };
    const char *shared = getenv("ES_SHARED"), *dirs[N];
    char paths[N][512];
    es_verify_counts counts;
    for (size_t i = 0; i < N; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/reference/train/%s",
                 shared ? shared : "../shared", cases[i]);
        dirs[i] = paths[i];
    }
    if (access(dirs[0], R_OK) != 0)
        skip();
    FILE *out = tmpfile();
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        es_assert_ok(
            es_verify(out, dirs, N, &es_cpu_ops, ES_FP32, n_threads, &counts));
        assert_int_equal(counts.passed, N);
    }
    fclose(out);
}

ES_TEST_MAIN(NULL, NULL)
