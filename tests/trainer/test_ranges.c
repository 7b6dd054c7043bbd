/* Tests range losses: the largest |input| and its gradient, in single
 * operations and in whole models, and which settings are refused.
 * test_gradients.c compares gradients of whole models with finite
 * differences. */
#include "analyzer/base/value.h"
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/model/measure.h"
#include "hooks/trainer/model/ranges.h"
#include "tests/support/arrays.h"
#include "tests/support/attention_problem.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

AUTO_OF(es_measure, es_measure_free)

/* --- operations ----------------------------------------------------------- */

static es_peak find(float *x, size_t n)
{
    es_peak peak = {.sum = 5, .largest = 2};
    es_cpu_ops.find_peak(the_cpu, mem(&peak), mem(x), n);
    return peak;
}

VARIANT_TEST(the_first_of_the_largest_is_found)
{
    const size_t sizes[] = {1, 7, 8192, 8193, 100000, 2200000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i], at = n / 2, later = n - 1;
        float *x = array((int)n, 1); /* all values are in [-1, 1) */
        x[at] = -3;
        x[later] = 3;
        es_peak peak = find(x, n);
        /* if n is 1, `at` equals `later`, so x[at] is 3 instead of -3 */
        const float sign = at == later ? 1 : -1;
        assert_true(peak.size == 3 && peak.sign == sign && peak.index == at);
        assert_true(peak.sum == 8 && peak.largest == 3);
        x[at] = -INFINITY;
        peak = find(x, n);
        assert_true(peak.size == INFINITY && peak.index == at);
    }
}

VARIANT_TEST(a_nan_is_the_largest_and_zeros_have_no_sign)
{
    float x[] = {1, -INFINITY, NAN, 2, NAN}, zeros[3] = {0};
    es_peak peak = find(x, 5);
    assert_true(isnan(peak.size) && isnan(peak.sign) && isnan(peak.largest));
    assert_true(isnan(peak.sum) && peak.index == 2);
    peak = find(zeros, 3);
    assert_true(peak.size == 0 && peak.sign == 0 && peak.largest == 2);
}

VARIANT_TEST(one_number_is_pulled_by_its_sign)
{
    float dx[] = {1, 2, 3};
    es_peak peak = {.size = 7, .sign = -1, .index = 1};
    es_mem *const of = mem(&peak);
    es_control control = {.loss_scale = 4};
    es_cpu_ops.pull_peak(the_cpu, mem(dx), of, 0.5f, NULL);
    assert_true(dx[0] == 1 && dx[1] == 1.5f && dx[2] == 3);
    es_cpu_ops.pull_peak(the_cpu, mem(dx), of, 0.5f, mem(&control));
    assert_true(dx[0] == 1 && dx[1] == -0.5f && dx[2] == 3);
}

/* Computes one score of a problem with plain loops. */
static double score(const attention_problem *p, int b, int h, int i, int j)
{
    const int d = p->n_head * p->width;
    const float *row = p->qkv + (b * p->n_ctx + i) * 3 * d + h * p->width;
    const float *key = p->qkv + (b * p->n_ctx + j) * 3 * d + d + h * p->width;
    double sum = 0;
    for (int c = 0; c < p->width; c++)
        sum += (double)row[c] * (double)key[c];
    return sum / sqrt(p->width);
}

static void expect_pulled(const attention_problem *p, const es_peak *peak,
                          const float *before, int b, int h, int i, int j)
{
    const int d = p->n_head * p->width, width = p->width;
    const int q = (b * p->n_ctx + i) * 3 * d + h * width;
    const int k = (b * p->n_ctx + j) * 3 * d + d + h * width;
    for (int at = 0; at < p->n_batch * p->n_ctx * 3 * d; at++) {
        double want = (double)before[at];
        const double factor = 0.25 * (double)peak->sign / sqrt(width);
        if (at >= q && at < q + width)
            want += factor * (double)p->qkv[k + at - q];
        if (at >= k && at < k + width)
            want += factor * (double)p->qkv[q + at - k];
        assert_true(fabs((double)p->dqkv[at] - want) <=
                    1e-6 * (1 + fabs(want)));
    }
}

static void check_scores(attention_problem *p, const es_cpu_kernels *kernels,
                         const es_sight *sight)
{
    const int32_t *tokens = (const int32_t *)(const void *)sight->tokens;
    const int T = p->n_ctx, H = p->n_head;
    const size_t n = 3 * p->n_values;
    es_backend *backend = attention_backend(kernels, p, 2);
    const es_attention attention = attention_shape(p);
    es_peak peak = {0};
    es_mem *const of = mem(&peak);
    int best = 0;
    double largest = -1;
    const es_extents sizes = {.n_rows = p->n_batch * T,
                              .width = 3 * attention.d_model,
                              .n_ctx = T,
                              .n_head = H,
                              .head_width = p->width,
                              .sees_all = sight->all};
    es_assert_ok(es_cpu_ops.prepare(backend, &sizes));
    if (sight->all)
        es_cpu_ops.attention_whole(backend, mem(p->y), mem(p->saved), NULL,
                                   mem(p->qkv), sight->tokens, sight->padding,
                                   &attention);
    else
        es_cpu_ops.attention(backend, mem(p->y), mem(p->saved), NULL,
                             mem(p->qkv), &attention);
    es_cpu_ops.find_score_peak(backend, of, mem(p->qkv), mem(p->saved),
                               &attention, sight);
    for (int at = 0; at < p->n_batch * H * T * T; at++) {
        const int i = at / T % T, head = at / T / T;
        const int32_t *own = tokens ? tokens + head / H * T : NULL;
        if (sight->all ? own && (own[i] == 3 || own[at % T] == 3) : at % T > i)
            continue;
        const double s = score(p, head / H, head % H, i, at % T);
        if (fabs(s) > largest)
            best = at;
        largest = fmax(largest, fabs(s));
    }
    const int i = best / T % T, b = best / T / T / H, h = best / T / T % H;
    assert_int_equal(peak.index, best);
    assert_true(fabs((double)peak.size - largest) <= 1e-5 * largest);
    assert_true(peak.sign == (score(p, b, h, i, best % T) > 0 ? 1 : -1));
    float *before = copy(p->dqkv, (int)n);
    es_cpu_ops.pull_score_peak(backend, mem(p->dqkv), mem(p->qkv), of,
                               &attention, 0.25f, NULL);
    expect_pulled(p, &peak, before, b, h, i, best % T);
    es_cpu_ops.close(backend);
    es_test_release();
}

/* Covers heads that are processed in bundles and in tiles. Scores of keys that
 * a query does not see must be ignored. */
TEST(the_largest_visible_score_is_found_and_pulled)
{
    static const int shapes[][4] = {/* B, T, H, width */
                                    {1, 1, 1, 1},
                                    {2, 33, 3, 5},
                                    {3, 21, 5, 4},
                                    {1, 71, 2, 16}};
    for (int i = 0; i < 8; i++) {
        const int *s = shapes[i / 2];
        EACH_ATTENTION(p, kernels, attention_open(s[0], s[1], s[2], s[3]))
        {
            p.power = 4;
            p.plain = i % 2;
            check_scores(&p, *kernels, &(es_sight){.all = false});
        }
    }
}

/* The padding is before, between or after the tokens; one sequence consists of
 * padding only. */
TEST(encoders_see_all_but_padding)
{
    enum { B = 3, T = 21 };
    for (int i = 0; i < 4; i++) {
        int32_t tokens[B * T];
        for (int t = 0; t < B * T; t++)
            tokens[t] = t < 4 || t == 9 || t / T == 1 || t > 50 ? 3 : 5;
        const es_sight sight = {
            .all = true, .tokens = i % 2 ? mem(tokens) : NULL, .padding = 3};
        EACH_ATTENTION(p, kernels, attention_open(B, T, 2, i / 2 ? 4 : 5))
        {
            p.power = 6;
            check_scores(&p, *kernels, &sight);
        }
    }
}

TEST(padding_alone_has_no_score)
{
    int32_t tokens[4] = {3, 3, 3, 3};
    const es_sight sight = {.all = true, .tokens = mem(tokens), .padding = 3};
    EACH_ATTENTION(p, kernels, attention_open(1, 4, 1, 2))
    {
        p.power = 2;
        es_backend *backend = attention_backend(*kernels, &p, 2);
        const es_attention attention = attention_shape(&p);
        es_peak peak = {0};
        es_cpu_ops.find_score_peak(backend, mem(&peak), mem(p.qkv),
                                   mem(p.saved), &attention, &sight);
        assert_true(peak.size == 0 && peak.sign == 0 && peak.index == 0);
        es_cpu_ops.close(backend);
    }
}

/* --- models --------------------------------------------------------------- */

static es_model_config ranged(const char *arch)
{
    es_model_config config = es_small_config(arch);
    for (int r = 0; r < ES_N_RANGES; r++)
        if (es_model_config_has_input(&config, (es_range_kind)r))
            config.range_weight[r] = 0.25;
    return config;
}

/* The range loss is the weighted sum of the ranges (largest |input|) of all
 * layers. The range of norms is not computed in a model without norms. */
TEST(the_loss_adds_the_layers_ranges)
{
    es_model_config config = ranged("PSM(4)+G");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    double want = 0;
    es_small_forward(&s);
    assert_false(es_model_has_range(s.model, ES_RANGE_NORM));
    for (int r = 0; r < ES_RANGE_NORM; r++)
        for (int l = 0; l < config.n_layer; l++)
            want += 0.25 * (double)es_model_range(s.model, (es_range_kind)r, l);
    assert_true(want > 0.1 && fabs(s.losses.range - want) <= 1e-6 * want);
    assert_true(fabs(s.losses.loss - s.losses.ce - want) <= 1e-6 * want);
}

/* Without a range loss, ranges are not part of the core set of series. The
 * standard set includes them, and they do not change the loss. */
TEST(ranges_come_with_their_loss_or_the_standard_series)
{
    es_model_config config = es_small_config("PSM(4)+LN+G");
    AUTO_BY(es_small_close) es_small_model core = es_small_open(&config);
    config.record = ES_SERIES_STANDARD;
    AUTO_BY(es_small_close) es_small_model more = es_small_open(&config);
    es_small_forward(&core);
    es_small_forward(&more);
    for (int r = 0; r < ES_N_RANGES; r++) {
        assert_false(es_model_has_range(core.model, (es_range_kind)r));
        assert_true(es_model_has_range(more.model, (es_range_kind)r));
        assert_true(es_model_range(more.model, (es_range_kind)r, 1) > 0);
    }
    assert_true(core.losses.loss == more.losses.loss);
    assert_true(more.losses.range == 0);
}

/* Over several passes, the recorded range is the largest range of a pass, and
 * the range loss is the mean of the passes' losses. */
TEST(passes_are_combined)
{
    es_model_config config = ranged("PSM(2)+LN+GS");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    double loss[2], together;
    float own[2];
    es_outcome outcome;
    for (int i = 0; i < 2; i++) {
        s.tokens[0] = i ? 7 : 2;
        es_small_forward(&s);
        loss[i] = s.losses.range;
        own[i] = es_model_range(s.model, ES_RANGE_ACT, 0);
    }
    assert_true(loss[0] < loss[1] || loss[0] > loss[1]);
    es_model_begin(s.model, true, NULL, 0);
    for (int i = 0; i < 2; i++) {
        s.tokens[0] = i ? 7 : 2;
        es_assert_ok(es_model_pass(s.model, s.tokens, s.targets, false));
    }
    es_assert_ok(es_model_end(s.model, &outcome));
    together = (loss[0] + loss[1]) / 2;
    assert_true(fabs(outcome.losses.range - together) <= 1e-6 * together);
    assert_true(es_model_range(s.model, ES_RANGE_ACT, 0) ==
                fmaxf(own[0], own[1]));
}

/* A layer without an FFN has no activation function, so the range of its input
 * is missing, which is neither 0 nor NaN. With a NaN input, the range is
 * NaN. */
TEST(nan_differs_from_missing)
{
    es_model_config config = ranged("PSM(2)+LN+G[1]");
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    AUTO(es_measure) measure = NULL;
    es_assert_ok(es_measure_new(&measure, &config));
    es_small_forward(&s);
    es_measure_add(measure, s.model);
    assert_true(es_measure_has_detail(measure, ES_DETAIL_RANGE_ACT));
    const float *act = es_measure_detail(measure, ES_DETAIL_RANGE_ACT);
    assert_true(es_is_missing(act[0]) && act[1] > 0);
    const size_t fc = es_small_find(&s, "h.1.mlp.c_fc.weight");
    const size_t n = es_model_parameter(s.model, fc).n;
    AUTO_FREE float *values = calloc(n, sizeof *values);
    es_assert_ok(es_model_get(s.model, fc, values, n));
    values[3] = NAN;
    es_assert_ok(es_model_set(s.model, fc, values, n));
    es_small_forward(&s);
    es_measure_add(measure, s.model);
    act = es_measure_detail(measure, ES_DETAIL_RANGE_ACT);
    assert_true(es_is_missing(act[0]));
    assert_true(isnan(act[1]) && !es_is_missing(act[1]));
    assert_true(isnan(s.losses.range));
    /* further passes without a NaN do not change the NaN */
    es_small_forward(&s);
    act = es_measure_detail(measure, ES_DETAIL_RANGE_NORM);
    assert_true(isnan(act[1]) && !es_is_missing(act[1]) && act[0] > 0);
}

/* The recorded range of the last layer's norms also covers the input of the
 * final norm. */
TEST(the_range_of_norms_is_missing_in_layers_without_a_norm)
{
    static const char *const archs[] = {"PSM(2)+LN[0]+G", "PSM(2)+LN[1]+G"};
    for (int has = 0; has < 2; has++) {
        es_model_config config = ranged(archs[has]);
        config.final_norm = ES_FINAL_OFF;
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        es_small_forward(&s);
        assert_true(es_model_range(s.model, ES_RANGE_NORM, has) > 0);
        assert_true(
            es_is_missing(es_model_range(s.model, ES_RANGE_NORM, !has)));
    }
    es_model_config config = ranged(archs[0]);
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    es_small_forward(&s);
    assert_true(es_model_range(s.model, ES_RANGE_NORM, 1) > 0);
}

/* Training with a large weight of PowerSoftmax's range loss reduces the range
 * of its scores. */
TEST(a_range_loss_makes_ranges_smaller)
{
    double last[2];
    for (int i = 0; i < 2; i++) {
        es_model_config config = es_small_config("PSM(4)+LN+G");
        config.record = ES_SERIES_STANDARD;
        config.range_weight[ES_RANGE_ATTN] = i;
        config.range_weight[ES_RANGE_ACT] = i;
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        for (int step = 0; step < 60; step++) {
            es_small_gradients(&s);
            es_small_update(&s, NULL, 1e-2);
        }
        es_small_forward(&s);
        last[i] = 0;
        for (int l = 0; l < config.n_layer; l++)
            last[i] += (double)es_model_range(s.model, ES_RANGE_ATTN, l) +
                       (double)es_model_range(s.model, ES_RANGE_ACT, l);
    }
    assert_true(last[1] < 0.5 * last[0]);
}

/* --- encoders ------------------------------------------------------------- */

enum { PADDING = 10 };

static const int32_t masked[10] = {1, 2, 3, 4, 5, 6, 7, 8, PADDING, PADDING};

static double loss_of(es_model *model)
{
    es_losses losses;
    int32_t targets[10];
    for (int i = 0; i < 10; i++)
        targets[i] = i == 1 || i == 7 ? 9 : ES_NO_TARGET;
    es_assert_ok(es_model_forward(model, &losses, masked, targets, true, true));
    assert_true(losses.range > 0.01);
    return losses.loss;
}

/* Moves each array a short distance along its gradient, which must change the
 * loss by this distance times the gradient's norm. PowerSoftmax has no epsilon
 * here, so the result does not depend on its divisor c, which the backward pass
 * treats as a constant. */
TEST(range_losses_of_encoders_match_finite_differences)
{
    const double step = 2e-3;
    for (int r = 0; r < ES_N_RANGES; r++) {
        es_model_config config = es_small_config("PSM(2,0)+LN+G");
        config.family = ES_FAMILY_ROBERTA;
        config.bias = ES_BIAS_ALL;
        config.padding = PADDING;
        config.range_weight[r] = 2;
        AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
        loss_of(s.model);
        es_model_zero_gradients(s.model);
        es_assert_ok(es_model_backward(s.model, 1));
        for (size_t a = 0; a < es_model_n_arrays(s.model); a++) {
            const size_t n = es_model_parameter(s.model, a).n;
            AUTO_FREE float *g = calloc(n, sizeof *g);
            AUTO_FREE float *x = calloc(n, sizeof *x);
            AUTO_FREE float *moved = calloc(n, sizeof *moved);
            double norm = 0, loss[2];
            es_assert_ok(es_model_get_gradient(s.model, a, g, n));
            es_assert_ok(es_model_get(s.model, a, x, n));
            for (size_t i = 0; i < n; i++)
                norm += (double)g[i] * (double)g[i];
            norm = sqrt(norm);
            for (int side = 0; norm > 0 && side < 2; side++) {
                const double h = (side ? -step : step) / norm;
                for (size_t i = 0; i < n; i++)
                    moved[i] = (float)((double)x[i] + h * (double)g[i]);
                es_assert_ok(es_model_set(s.model, a, moved, n));
                loss[side] = loss_of(s.model);
            }
            es_assert_ok(es_model_set(s.model, a, x, n));
            if (norm > 0 && !(fabs((loss[0] - loss[1]) / (2 * step) - norm) <=
                              0.02 * norm + 2e-3))
                fail_msg("%s, range %d: %g, not %g",
                         es_model_parameter(s.model, a).name, r, norm,
                         (loss[0] - loss[1]) / (2 * step));
        }
    }
}

/* --- bf16 ----------------------------------------------------------------- */

/* With bf16 activations, the ranges are close to those with fp32, and bf16
 * represents them exactly. */
TEST(ranges_of_bf16_are_near_those_of_fp32)
{
    const es_model_config config = ranged("PSM(4)+LN+GS");
    const es_ops *const ops[] = {&es_cpu_ops, &es_cpu_bf16_ops};
    int32_t tokens[10], targets[10];
    double loss[2], norm[2];
    for (int i = 0; i < 10; i++) {
        tokens[i] = i * 7 % 11;
        targets[i] = i * 3 % 11;
    }
    for (int i = 0; i < 2; i++) {
        es_model *model;
        es_losses losses;
        es_train_config train;
        es_train_config_default(&train);
        es_assert_ok(es_model_new(&model, &config, ops[i], 2));
        es_assert_ok(
            es_model_forward(model, &losses, tokens, targets, true, true));
        es_model_zero_gradients(model);
        es_assert_ok(es_model_backward(model, 1));
        es_assert_ok(es_model_update(model, &train, 0, &norm[i]));
        loss[i] = losses.range;
        es_model_free(model);
    }
    assert_true(loss[0] > 0 && fabs(loss[1] / loss[0] - 1) <= 0.02);
    assert_true(fabs(norm[1] / norm[0] - 1) <= 0.1);
}

/* --- refusals ------------------------------------------------------------- */

TEST(a_range_loss_needs_its_inputs)
{
    static const struct {
        const char *arch;
        es_range_kind range;
        const char *message;
    } wrong[] = {
        {"SM+LN+G", ES_RANGE_ATTN, "--range-attn: needs an architecture with"},
        {"RA+LN+G", ES_RANGE_ATTN, "PSM(p)"},
        {"PSM(4)+LN", ES_RANGE_ACT, "--range-act: needs an architecture with"},
        {"PSM(4)+ScFuFFN", ES_RANGE_ACT, "an activation"},
        {"PSM(4)+LN+NoFFN", ES_RANGE_ACT, "an activation"},
        {"PSM(4)+G[0]+NoFFN[0]", ES_RANGE_ACT, "an activation"},
        {"PSM(4)+G", ES_RANGE_NORM, "--range-norm: needs"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        es_model_config config = es_small_config(wrong[i].arch);
        config.range_weight[wrong[i].range] = 1e-4;
        es_assert_status(ES_EUSAGE, wrong[i].message,
                         es_model_config_check(&config));
        config.range_weight[wrong[i].range] = 0;
        es_assert_ok(es_model_config_check(&config));
    }
    es_model_config config = es_small_config("PSM(4)+LN+G");
    config.range_weight[ES_RANGE_NORM] = NAN;
    es_assert_status(ES_EUSAGE, "--range-norm", es_model_config_check(&config));
    config.range_weight[ES_RANGE_NORM] = -1;
    es_assert_status(ES_EUSAGE, "0 or more", es_model_config_check(&config));
}

TEST(a_back_end_without_them_refuses_range_losses_by_name)
{
    static const char *const names[] = {"--range-attn", "--range-act",
                                        "--range-norm"};
    es_ops ops = es_cpu_ops;
    ops.find_peak = NULL;
    ops.find_score_peak = NULL;
    ops.name = "other";
    for (int i = 0; i < ES_N_RANGES; i++) {
        es_model_config config = es_small_config("PSM(4)+LN+G");
        es_model *model = NULL;
        char message[80];
        snprintf(message, sizeof message, "%s: not supported by back-end other",
                 names[i]);
        config.range_weight[i] = 1;
        es_assert_status(ES_EUSAGE, message,
                         es_model_new(&model, &config, &ops, 1));
        config.range_weight[i] = 0;
        config.record = ES_SERIES_STANDARD;
        es_assert_ok(es_model_new(&model, &config, &ops, 1));
        assert_false(es_model_has_range(model, (es_range_kind)i));
        es_model_free(model);
    }
}
