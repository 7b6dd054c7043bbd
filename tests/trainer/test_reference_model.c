/* Compares the double-precision reference model with the reference cases. Other
 * tests compare the trainer with this model, so it must be verified itself. */
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/params.h"
#include "hooks/trainer/verify.h"
#include "tests/support/reference_case.h"
#include "tests/support/test.h"

/* Expects that an array of the case equals the model's results in double. Some
 * arrays are stored as float32, so they may differ by the rounding error. */
static void expect(const char *dir, const char *folder, const char *name,
                   const double *got, size_t n, double tolerance)
{
    AUTO_FREE double *want = es_ref_case_array(dir, folder, name, n);
    double distance = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        distance += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    if (!(sqrt(distance) <= tolerance * (sqrt(norm) + sqrt((double)n) * 1e-3)))
        fail_msg("%s/%s/%s: the error has the norm %g, the expected values "
                 "have the norm %g",
                 dir, folder, name, sqrt(distance), sqrt(norm));
}

/* Returns an entropy computed from weights that are not normalised, as in the
 * older cases of PowerSoftmax. */
static double entropy_of(const es_ref_result *result,
                         const es_model_config *config, int row)
{
    const double entropy = result->rows[ES_ROW_ENTROPY][row];
    return config->arch.attention == ES_SOFTMAX
               ? entropy
               : es_verify_entropy_as_is(entropy,
                                         result->rows[ES_ROW_MISSING][row]);
}

static void expect_heads(const char *dir, const es_ref_result *result,
                         const es_model_config *config)
{
    const int B = config->batch, H = config->n_head, T = config->ctx;
    const int n = config->n_layer * H;
    AUTO_FREE double *heads = calloc((size_t)n, sizeof *heads);
    for (int l = 0; l < config->n_layer; l++)
        for (int b = 0; b < B; b++)
            for (int h = 0; h < H; h++)
                for (int i = 0; i < T; i++)
                    heads[l * H + h] +=
                        entropy_of(result, config,
                                   ((l * B + b) * H + h) * T + i) /
                        (B * T);
    expect(dir, "out", "entropy", heads, (size_t)n, 1e-7);
}

static void expect_outputs(const char *dir, const es_ref_case *it,
                           const es_ref_result *result)
{
    const es_model_config *config = &it->model->config;
    const size_t n = (size_t)(config->batch * config->ctx);
    expect(dir, "out", "loss", &result->loss, 1, 1e-12);
    expect(dir, "out", "ce", &result->ce, 1, 1e-12);
    expect(dir, "out", "ereg", &result->ereg, 1, 1e-12);
    expect(dir, "out", "logits", result->logits, n * (size_t)config->vocab,
           1e-7);
    const size_t n_rows = n * (size_t)(config->n_head * config->n_layer);
    AUTO_FREE double *entropies = calloc(n_rows, sizeof *entropies);
    for (size_t i = 0; i < n_rows; i++)
        entropies[i] = entropy_of(result, config, (int)i);
    expect(dir, "out", "row_entropy", entropies, n_rows, 1e-7);
    expect_heads(dir, result, config);
    for (size_t i = 0; i < it->model->n_arrays; i++)
        if (es_ref_is_state(it->model->names[i]))
            expect(dir, "state_after", it->model->names[i],
                   it->model->values[i], it->model->sizes[i], 1e-7);
}

/* Compares the gradient that the model computes for about two dozen elements of
 * an array with the gradient in the case. */
static void expect_gradient(const char *dir, const es_ref_case *it,
                            es_ref_result *result, size_t index)
{
    const es_ref_model *model = it->model;
    const char *name = model->names[index];
    const size_t n = model->sizes[index], stride = 1 + n / 24;
    char t[ES_PARAM_NAME_MAX];
    const bool is_log = es_temperatures_name(t, sizeof t, name);
    AUTO_FREE double *want =
        es_ref_case_array(dir, "grads", is_log ? t : name, n);
    /* a case stores dL/dt; the gradient for ln t is t * dL/dt */
    for (size_t i = 0; is_log && i < n; i++)
        want[i] *= exp(model->values[index][i]);
    double distance = 0, norm = 0, count = 0;
    for (size_t i = 0; i < n; i += stride, count++) {
        double got = es_ref_model_gradient(model, result, it->tokens,
                                           it->targets, index, i);
        distance += (got - want[i]) * (got - want[i]);
        norm += want[i] * want[i];
    }
    if (!(sqrt(distance) <= 1e-6 * sqrt(norm) + 1e-8 * sqrt(count)))
        fail_msg("%s: gradient of %s: the error has the norm %g, the gradient "
                 "has the norm %g",
                 dir, name, sqrt(distance), sqrt(norm));
}

static void expect_gradients(const char *dir, const es_ref_case *it,
                             es_ref_result *result)
{
    for (size_t i = 0; i < it->model->n_arrays; i++) {
        /* In two cases an input of ReLU is exactly 0, which tests the
         * derivative at this point. A central difference would be wrong
         * there. */
        const bool on_kink = result->clearance <= 0 &&
                             strstr(it->model->names[i], "c_fc.weight");
        if (!es_ref_is_state(it->model->names[i]) && !on_kink)
            expect_gradient(dir, it, result, i);
    }
}

static void check_case(const char *dir)
{
    es_ref_case it = es_ref_case_read(dir);
    es_ref_result *result = es_ref_result_new(&it.model->config);
    es_ref_model_iterate(it.model);
    es_ref_model_run(it.model, result, it.tokens, it.targets);
    expect_outputs(dir, &it, result);
    expect_gradients(dir, &it, result);
    es_ref_result_free(result);
    es_ref_case_free(&it);
}

/* Reference cases whose entropy is computed with log(weight + 1e-9). The other
 * cases use the trainer's definition, log(weight). */
static const char *const names[] = {"g01_sm_ln_g",
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
                                    "g25_sm_scfuffn_wnorm_ffn",
                                    "p01_sm_ln_g",
                                    "p02_sm_r",
                                    "p03_ereg_smt_scfuffn"};

TEST(the_double_model_matches_the_reference)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_case(es_ref_case_path(names[i]));
}
