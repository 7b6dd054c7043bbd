/* Tests --inference polynomial: polynomials of small error give results close
 * to those of the exact model, inputs outside the intervals are counted but not
 * clipped, and models without a polynomial form are refused. */
#include "hooks/trainer/model/measure.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

#include "analyzer/base/value.h"
#include "hooks/trainer/cpu/cpu.h"

AUTO_OF(es_measure, es_measure_free)

enum { L = 2, H = 3, D = 12, T = 5, B = 2, N = B * T, V = 11 };

static es_model_config polynomial(const char *arch)
{
    es_model_config config = es_small_config(arch);
    config.inference = ES_INFERENCE_POLYNOMIAL;
    config.polynomial = (es_approximation_choice){.error = 1e-6, .margin = 1.5};
    return config;
}

/* Runs the model once on the micro-batch of `s`, and chooses polynomials that
 * suit the inputs of this run. */
static bool choose(es_small_model *s)
{
    es_model_set_polynomials(s->model, ES_POLYNOMIAL_OBSERVE);
    es_small_forward(s);
    const bool complete = es_model_choose_polynomials(s->model);
    es_model_set_polynomials(s->model, ES_POLYNOMIAL_ON);
    return complete;
}

static void copy_logits(float out[N * V], es_small_model *s)
{
    const float *logits = es_model_logits(s->model);
    assert_non_null(logits);
    memcpy(out, logits, N * V * sizeof *out);
}

/* --- accuracy ------------------------------------------------------------ */

static void expect_close(const char *arch, es_family family)
{
    es_model_config config = polynomial(arch);
    config.family = family;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    float exact[N * V], found[N * V];
    double entropies[2][L * H], missing[2][L * H];
    es_small_forward(&s);
    copy_logits(exact, &s);
    es_model_heads(entropies[0], s.model, ES_HEAD_ENTROPY);
    es_model_heads(missing[0], s.model, ES_HEAD_MISSING_MASS);
    assert_null(es_model_findings(s.model));
    assert_true(choose(&s));
    es_small_forward(&s);
    copy_logits(found, &s);
    es_model_heads(entropies[1], s.model, ES_HEAD_ENTROPY);
    es_model_heads(missing[1], s.model, ES_HEAD_MISSING_MASS);
    for (int i = 0; i < N * V; i++)
        if (!near((double)found[i], (double)exact[i], 2e-3))
            fail_msg("%s: logit %d: %g, exact %g", arch, i, (double)found[i],
                     (double)exact[i]);
    for (int i = 0; i < L * H; i++) {
        assert_true(near(entropies[0][i], entropies[1][i], 2e-3));
        assert_true(near(missing[0][i], missing[1][i], 2e-3));
    }
    const es_findings *all = es_model_findings(s.model);
    for (size_t i = 0; i < es_model_n_sites(&config); i++) {
        assert_int_equal(all[i].n_outside, 0);
        assert_true(all[i].error <= 2e-3);
        assert_true(all[i].rounding <= 2e-3);
    }
}

TEST(good_polynomials_match_the_exact_model)
{
    static const char *const all[] = {"PSM(2,0.1,plain)+LN+GS",
                                      "PSM(4,0.1,plain,length)+LN+G",
                                      "PSM(2,1e-5)+LN+GT",
                                      "PSM(2,9,plain)",
                                      "PSM(2,9,plain,length T)+ScFuFFNi1",
                                      "PSM(2,0.1,plain)+LN[0]+GS+ScFFN[1]",
                                      "PSM(2,0.1,plain)+LN+GS+NoFFN[0]",
                                      "PSM(2,0.1,plain)+LN+R[1]+NoFFN[1]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect_close(all[i], ES_FAMILY_GPT2);
    expect_close("PSM(2,0.1,plain)+LN+GS", ES_FAMILY_PYTHIA);
}

TEST(observing_changes_no_bit)
{
    const es_model_config config = polynomial("PSM(4,0.1,plain)+LN+GS");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    float exact[N * V], found[N * V];
    es_small_forward(&s);
    copy_logits(exact, &s);
    es_model_set_polynomials(s.model, ES_POLYNOMIAL_OBSERVE);
    es_small_forward(&s);
    copy_logits(found, &s);
    assert_memory_equal(exact, found, sizeof exact);
    /* Each use of a polynomial has counted the inputs of the polynomial: one
     * per row of attention, per inner value of the FFN, or per row of a
     * norm. */
    const es_findings *all = es_model_findings(s.model);
    assert_int_equal(all[es_site_number(1, ES_SITE_ATTN)].n, B * H * T);
    assert_int_equal(all[es_site_number(1, ES_SITE_ACT)].n, N * 2 * D);
    assert_int_equal(all[es_site_number(1, ES_SITE_NORM_2)].n, N);
    assert_int_equal(all[es_site_number(L, ES_SITE_ATTN)].n, N);
}

/* --- inputs outside the intervals ---------------------------------------- */

static void scale(es_small_model *s, const char *name, float factor)
{
    float values[D * 3 * D];
    const size_t index = es_small_find(s, name);
    const size_t n = es_model_parameter(s->model, index).n;
    assert_true(n <= sizeof values / sizeof *values);
    es_assert_ok(es_model_get(s->model, index, values, n));
    for (size_t i = 0; i < n; i++)
        values[i] *= factor;
    es_assert_ok(es_model_set(s->model, index, values, n));
}

static const float *detail_of(es_measure *m, es_detail detail)
{
    assert_true(es_measure_has_detail(m, detail));
    return es_measure_detail(m, detail);
}

/* Multiplies an array of layer 1 by `factor` after the polynomials have been
 * chosen, and expects that inputs outside the intervals are counted. */
static void expect_outside(const char *name, float factor, es_detail clipped,
                           es_detail error, float least)
{
    const es_model_config config = polynomial("PSM(4,0.1,plain)+LN+GS");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_measure) m = NULL;
    es_assert_ok(es_measure_new(&m, s.config));
    assert_true(choose(&s));
    scale(&s, name, factor);
    es_small_forward(&s);
    es_measure_add(m, s.model);
    const float *count = detail_of(m, clipped);
    assert_true(count[0] == 0);
    assert_true(count[1] > 0 && count[1] < N * 2 * D);
    const float *worst = detail_of(m, error);
    assert_true(worst[0] <= 1e-3f);
    assert_true(!(worst[1] <= least)); /* possibly infinite */
}

TEST(inputs_outside_the_interval_are_counted_and_diverge)
{
    expect_outside("h.1.mlp.c_fc.weight", 6, ES_DETAIL_CLIPPED_ACT,
                   ES_DETAIL_APPROX_ERROR_ACT, 100);
    expect_outside("h.1.attn.c_attn.weight", 3, ES_DETAIL_CLIPPED_ATTN,
                   ES_DETAIL_APPROX_ERROR_ATTN, 100);
}

/* The counts and errors of the model's last norm are added to those of the last
 * layer. */
TEST(passes_are_added_up_by_layer)
{
    const es_model_config config = polynomial("PSM(2,0.1,plain)+LN+GS");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_measure) m = NULL;
    es_assert_ok(es_measure_new(&m, s.config));
    assert_true(choose(&s));
    scale(&s, "wte", 100);
    for (int i = 0; i < 2; i++) {
        es_small_forward(&s);
        es_measure_add(m, s.model);
    }
    const es_findings *all = es_measure_findings(m);
    const float *count = detail_of(m, ES_DETAIL_CLIPPED_NORM);
    for (int layer = 0; layer < L; layer++) {
        uint64_t sum = 0;
        for (size_t i = 2; i < (layer == L - 1 ? 5 : 4); i++)
            sum += all[(size_t)layer * 4 + i].n_outside;
        assert_true(near((double)count[layer], (double)sum, 0));
    }
    assert_int_equal(all[es_site_number(0, ES_SITE_NORM_1)].n, 2 * N);
    assert_int_equal(all[es_site_number(0, ES_SITE_NORM_1)].n_outside, 2 * N);
    es_measure_reset(m);
    assert_false(es_measure_has_detail(m, ES_DETAIL_CLIPPED_NORM));
}

TEST(nan_and_infinity_count_as_outside_and_give_nan_errors)
{
    static const float planted[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        const es_model_config config = polynomial("PSM(4,0.1,plain)+LN+GS");
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        AUTO(es_measure) m = NULL;
        es_assert_ok(es_measure_new(&m, s.config));
        assert_true(choose(&s));
        scale(&s, "h.1.mlp.c_fc.bias", planted[i]);
        es_small_forward(&s);
        es_measure_add(m, s.model);
        const float *count = detail_of(m, ES_DETAIL_CLIPPED_ACT);
        assert_true(count[0] == 0 && count[1] == N * 2 * D);
        const float *error = detail_of(m, ES_DETAIL_APPROX_ERROR_ACT);
        assert_true(isfinite(error[0]));
        assert_true(isnan(error[1]) && !es_is_missing(error[1]));
        /* the last norm reads the output of this FFN, so the inputs of the norm
         * are outside the interval, too */
        count = detail_of(m, ES_DETAIL_CLIPPED_NORM);
        assert_true(count[0] == 0 && count[1] == N);
        assert_true(isnan(s.losses.ce));
    }
}

TEST(a_layer_without_the_function_has_a_missing_value)
{
    const es_model_config config = polynomial("PSM(2,0.1,plain)+G[1-1]+LN");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_measure) m = NULL;
    es_assert_ok(es_measure_new(&m, s.config));
    assert_true(choose(&s));
    es_small_forward(&s);
    es_measure_add(m, s.model);
    const float *count = detail_of(m, ES_DETAIL_CLIPPED_ACT);
    assert_true(es_is_missing(count[0]) && count[1] == 0);
    assert_true(es_detail_exists(s.model, ES_DETAIL_APPROX_ERROR_ACT));
}

TEST(a_layer_without_norms_has_no_polynomial_of_norms)
{
    es_model_config config = polynomial("PSM(2,0.1,plain)+GS+LN[0]");
    config.final_norm = ES_FINAL_OFF;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_measure) m = NULL;
    es_assert_ok(es_measure_new(&m, s.config));
    assert_true(choose(&s));
    es_small_forward(&s);
    es_measure_add(m, s.model);
    const float *count = detail_of(m, ES_DETAIL_CLIPPED_NORM);
    assert_true(count[0] == 0 && es_is_missing(count[1]));
}

TEST(without_finite_inputs_there_is_no_polynomial)
{
    const es_model_config config = polynomial("PSM(4,0.1,plain)+LN+GS");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    scale(&s, "h.1.mlp.c_fc.bias", NAN);
    assert_false(choose(&s));
    es_small_forward(&s);
    assert_true(isnan(s.losses.ce));
    const es_findings *all = es_model_findings(s.model);
    assert_int_equal(all[es_site_number(1, ES_SITE_ACT)].n_outside, N * 2 * D);
    assert_int_equal(all[es_site_number(0, ES_SITE_ACT)].n_outside, 0);
    const es_polynomial p = es_model_polynomial(s.model, 1, ES_SITE_ACT);
    assert_true(isnan(p.in.low) && isnan(p.in.high));
}

/* --- operations ----------------------------------------------------------- */

enum { ROWS = 37, WIDTH = 6 };

static es_findings norm_with(float y[ROWS * WIDTH], const float *x,
                             int n_threads, const es_inverse_root *how)
{
    static const float weight[WIDTH] = {1, 2, -1, 0.5f, 3, 1};
    static const float bias[WIDTH] = {0, 1, 0, -1, 0, 0.25f};
    const es_extents largest = {.n_rows = ROWS,
                                .width = WIDTH,
                                .n_ctx = 1,
                                .n_head = 1,
                                .head_width = WIDTH};
    es_findings found = es_findings_start();
    es_backend *backend = NULL;
    es_assert_ok(es_cpu_ops.open(&backend, n_threads));
    es_assert_ok(es_cpu_ops.prepare(backend, &largest));
    es_cpu_ops.polynomial->norm(
        backend, how ? (es_mem *)(void *)y : NULL, (es_mem *)(void *)&found,
        (const es_mem *)(const void *)x, (const es_mem *)(const void *)weight,
        (const es_mem *)(const void *)bias, ROWS, WIDTH, 1e-5f, how);
    es_cpu_ops.close(backend);
    for (int i = 0; how && i < ROWS * WIDTH; i++)
        y[i] = (y[i] - bias[i % WIDTH]) / weight[i % WIDTH];
    return found;
}

TEST(a_norm_has_the_error_of_its_polynomial_on_any_threads)
{
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    /* three Newton steps are too few for variances from 0.01 to 2 */
    const es_inverse_root how = {{0.01, 2}, 3};
    double worst = 0, low = INFINITY, high = 0;
    uint64_t seed = 5, n_outside = 0;
    es_test_fill(x, ROWS * WIDTH, 3, &seed);
    for (int i = 0; i < ROWS; i++) {
        const float *row = x + i * WIDTH;
        double mean = 0, variance = 1e-5;
        for (int c = 0; c < WIDTH; c++)
            mean += (double)row[c] / WIDTH;
        for (int c = 0; c < WIDTH; c++)
            variance += pow((double)row[c] - mean, 2) / WIDTH;
        const double root = es_invert_root_f64(&how, variance);
        for (int c = 0; c < WIDTH; c++)
            worst = fmax(worst, fabs(((double)row[c] - mean) *
                                     (root - 1 / sqrt(variance))));
        n_outside += !(variance >= 0.01 && variance <= 2);
        low = fmin(low, variance);
        high = fmax(high, variance);
    }
    assert_true(n_outside > 0 && n_outside < ROWS);
    const es_findings one = norm_with(y, x, 1, &how);
    assert_true(near(one.error / worst, 1, 1e-4));
    assert_true(near(one.low / low, 1, 1e-5));
    assert_true(near(one.high / high, 1, 1e-5));
    assert_int_equal(one.n, ROWS);
    assert_int_equal(one.n_outside, n_outside);
    const es_findings three = norm_with(y, x, 3, &how);
    assert_memory_equal(&one, &three, sizeof one);
    const es_findings seen = norm_with(y, x, 2, NULL);
    assert_int_equal(seen.n_outside, 0);
    assert_true(near(seen.high / high, 1, 1e-5));
}

/* --- depth and refusals -------------------------------------------------- */

static void expect_levels(const char *arch, es_family family, int first,
                          int second, int model)
{
    es_model_config config = polynomial(arch);
    config.family = family;
    config.polynomial.factors = 12; /* attention then needs 4 + 2 + 12
                                       multiplicative levels */
    config.polynomial.steps = 7;    /* a norm then needs 2 * 7 + 3
                                       multiplicative levels */
    config.polynomial.degree = 31;  /* an FFN then needs 2 + 6 multiplicative
                                       levels */
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    assert_true(choose(&s));
    assert_int_equal(es_model_levels(s.model, 0), first);
    assert_int_equal(es_model_levels(s.model, 1), second);
    assert_int_equal(es_model_levels(s.model, L), model);
}

TEST(levels_add_up_along_the_longest_path)
{
    static const char whole[] = "PSM(4,0.1,plain)+LN+GS";
    expect_levels(whole, ES_FAMILY_GPT2, 17 + 18 + 17 + 8, 60, 2 * 60 + 17 + 1);
    expect_levels(whole, ES_FAMILY_PYTHIA, 17 + 18, 35, 2 * 35 + 17 + 1);
    /* the second layer has neither norms nor an activation */
    expect_levels("PSM(4,0.1,plain)+LN[0]+GS+ScFuFFN[1]", ES_FAMILY_GPT2, 60,
                  18 + 1, 60 + 19 + 17 + 1);
    /* the first layer has only a norm and the attention */
    expect_levels("PSM(4,0.1,plain)+LN+GS+NoFFN[0]", ES_FAMILY_GPT2, 17 + 18,
                  60, 35 + 60 + 17 + 1);
}

static void expect_refused(const es_model_config *config, const es_ops *ops,
                           const char *why)
{
    es_model *model = NULL;
    assert_int_equal(es_model_new(&model, config, ops, 1), ES_EUSAGE);
    assert_null(model);
    if (!strstr(es_message(), why) ||
        !strstr(es_message(), "--inference polynomial"))
        fail_msg("message '%s' does not contain '%s'", es_message(), why);
}

TEST(models_without_a_polynomial_form_are_refused_by_name)
{
    static const char *const all[][2] = {
        {"SM+LN+GS", "'SM'"},          {"SM(t)+LN+GS", "'SM'"},
        {"RA+LN+GS", "'RA'"},          {"PSM(4,gate)+LN+GS", "PSM(gate)"},
        {"PSM(4)+LN+R", "'R'"},        {"PSM(4)+LN+G[0-0]+R[1-1]", "'R'"},
        {"PSM(4)+LN+LR(0.1)", "'LR'"}, {"PSM(4)+LN+LR(layer)", "'LR'"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const es_model_config config = polynomial(all[i][0]);
        expect_refused(&config, &es_cpu_ops, all[i][1]);
    }
    es_model_config config = polynomial("PSM(4)+RN+SwiGLU");
    config.family = ES_FAMILY_LLAMA;
    config.bias = ES_BIAS_NONE;
    expect_refused(&config, &es_cpu_ops, "'RN'");
    config = polynomial("PSM(4)+LN+GS");
    config.emulate = ES_EMULATE_FP16;
    expect_refused(&config, &es_cpu_ops, "--emulate");
}

TEST(another_precision_or_back_end_is_refused)
{
    const es_model_config config = polynomial("PSM(4)+LN+GS");
    es_ops other = es_cpu_ops;
    other.name = "cuda";
    other.polynomial = NULL;
    expect_refused(&config, &other, "back-end cuda");
    expect_refused(&config, &es_cpu_bf16_ops, "fp32");
}
