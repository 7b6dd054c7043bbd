/* Tests QK-Clip: which heads are scaled and by which factor, and that the step
 * changes nothing else. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/model/parameter_series.h"
#include "tests/support/arrays.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { L = 2, H = 3, D = 12, T = 5, B = 2, N_HEADS = L * H };

AUTO_OF(es_model, es_model_free)

/* --- operations ----------------------------------------------------------- */

VARIANT_TEST(only_finite_logits_above_tau_give_a_factor)
{
    const float inf = INFINITY;
    float largest[] = {-inf, -9, 0, 8, nextafterf(8, 9), 32, 3e38f, inf, NAN};
    float want[] = {1, 1, 1, 1, 0, 0.5f, 0, 1, 1}, got[9];
    es_control control = {.skips = 0};
    want[4] = sqrtf(8 / largest[4]);
    want[6] = sqrtf(8 / largest[6]);
    es_cpu_ops.qk_factors(the_cpu, mem(got), mem(largest), 8, 9, mem(&control));
    assert_memory_equal(got, want, sizeof want);
    assert_true(got[4] <= 1 && got[6] > 0);
    control.skips = 1;
    es_cpu_ops.qk_factors(the_cpu, mem(got), mem(largest), 8, 9, mem(&control));
    for (int i = 0; i < 9; i++)
        assert_true(got[i] == 1);
}

VARIANT_TEST(only_q_and_k_of_a_head_are_scaled)
{
    enum { ROWS = 7 };
    const float factors[H] = {0.5f, 1, 0.25f};
    float *x = array(ROWS * 3 * D, 1), *want = copy(x, ROWS * 3 * D);
    /* This element belongs to head 1, whose factor is 1, so its bits must stay
     * the same. */
    x[D / H] = want[D / H] = NAN;
    for (int i = 0; i < ROWS * 3 * D; i++)
        if (i % (3 * D) < 2 * D)
            want[i] *= factors[i % D / (D / H)];
    want[D / H] = NAN;
    es_cpu_ops.scale_heads(the_cpu, mem(x), mem((float *)factors), ROWS, H, D);
    assert_memory_equal(x, want, ROWS * 3 * D * sizeof *x);
}

/* Compares the largest logit of each head, as returned by largest_logits, with
 * the maximum of the rows' largest logits. The results of exactly n_nan heads
 * must be NaN. */
static void check_largest(const es_attention *of, float *qkv, int n_nan)
{
    enum { ROWS = B * H * 33 };
    const int n = of->n_batch * of->n_ctx, n_head = of->n_head;
    float *y = array(n * of->d_model, 0);
    float *saved = array(n * n_head * ES_N_SAVED, 0);
    float got[H] = {-INFINITY, -INFINITY, 1e30f};
    float *rows = array(ROWS, 0), *entropy = array(ROWS, 0);
    const es_row_mem statistics = {
        .array = {
            [ES_ROW_ENTROPY] = mem(entropy), [ES_ROW_MAX_LOGIT] = mem(rows)}};
    es_cpu_ops.attention(the_cpu, mem(y), mem(saved), &statistics, mem(qkv),
                         of);
    es_cpu_ops.largest_logits(the_cpu, mem(got), mem(saved), of);
    for (int h = 0; h < n_head; h++) {
        float want = h == 2 ? 1e30f : -INFINITY;
        int bad = 0;
        for (int i = 0; i < n; i++) {
            const int b = i / of->n_ctx, t = i % of->n_ctx;
            const float x = rows[(b * n_head + h) * of->n_ctx + t];
            bad += !isfinite(x);
            want = fmaxf(want, x);
        }
        assert_int_equal(bad, h == 0 ? n_nan : 0);
        if (bad)
            assert_true(isnan(got[h]));
        else
            assert_true(fabsf(got[h] - want) <= 1e-6f * fabsf(want));
    }
    /* A NaN that `out` already contains must remain. */
    got[1] = NAN;
    es_cpu_ops.largest_logits(the_cpu, mem(got), mem(saved), of);
    assert_true(isnan(got[1]));
}

VARIANT_TEST(attention_leaves_the_largest_logit_of_each_head)
{
    const int sizes[][2] = {{33, 6}, {5, 12}, {1, 3}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const int n_ctx = sizes[i / 2][0], d = sizes[i / 2][1];
        float *log_t = array(H * n_ctx, 1);
        es_attention of = {.n_batch = B,
                           .n_ctx = n_ctx,
                           .n_head = H,
                           .d_model = d,
                           .log_t = i % 2 ? mem(log_t) : NULL};
        float *qkv = array(B * n_ctx * 3 * d, 2);
        check_largest(&of, qkv, 0);
        /* make only the last query of the first sequence NaN */
        qkv[(n_ctx - 1) * 3 * d] = NAN;
        check_largest(&of, qkv, 1);
        qkv[(n_ctx - 1) * 3 * d] = INFINITY;
        check_largest(&of, qkv, 1);
    }
}

/* --- models --------------------------------------------------------------- */

static void factors_of(float out[N_HEADS], const es_small_model *s)
{
    es_parameter_series_read(out, s->model, ES_PARAMETER_QK_CLIP);
}

/* Reads the largest logit of each head in the last measured pass. */
static void logits_of(double out[N_HEADS], const es_small_model *s)
{
    es_model_heads(out, s->model, ES_HEAD_MAX_LOGIT);
}

/* Returns the factor by which column c of c_attn is scaled: the factor of the
 * column's head, or 1 for a column of v. */
static float of_column(const float *factors, int layer, size_t c)
{
    return c < 2 * D ? factors[layer * H + (int)(c % D) / (D / H)] : 1;
}

/* Takes a training step with `arch`, and one with `plain`, which is the same
 * architecture without QK-Clip. Only the columns of q and k in the array
 * `scaled` may differ. Returns the number of heads that were scaled. */
static int check_step(const char *arch, const char *plain, double tau,
                      const char *scaled)
{
    AUTO_BY(es_small_close) es_small_model s = es_small_open_arch(arch);
    AUTO_BY(es_small_close) es_small_model other = es_small_open_arch(plain);
    double logits[N_HEADS];
    float factors[N_HEADS];
    int n_scaled = 0;
    es_small_gradients(&s);
    es_small_gradients(&other);
    logits_of(logits, &s);
    es_small_update(&s, NULL, 1e-3);
    es_small_update(&other, NULL, 1e-3);
    factors_of(factors, &s);
    for (int i = 0; i < N_HEADS; i++) {
        const double want = logits[i] > tau ? sqrt(tau / logits[i]) : 1;
        assert_true(fabs((double)factors[i] - want) <= 1e-6);
        n_scaled += factors[i] != 1;
    }
    for (size_t i = 0; i < es_model_n_arrays(s.model); i++) {
        const es_parameter parameter = es_model_parameter(s.model, i);
        float *got = array(parameter.n, 0), *want = array(parameter.n, 0);
        es_assert_ok(es_model_get(s.model, i, got, parameter.n));
        es_assert_ok(es_model_get(other.model, i, want, parameter.n));
        const bool is_scaled = strstr(parameter.name, scaled) ||
                               strstr(parameter.name, "c_attn.bias");
        for (size_t k = 0; is_scaled && k < parameter.n; k++)
            want[k] *= of_column(factors, parameter.name[2] - '0', k % (3 * D));
        if (memcmp(got, want, parameter.n * sizeof *got) != 0)
            fail_msg("%s: %s", arch, parameter.name);
    }
    es_test_release();
    return n_scaled;
}

TEST(heads_above_tau_are_scaled_and_nothing_else)
{
    const char *const weight = "c_attn.weight", *const g = "c_attn.g";
    /* The largest logits of the heads are between 1.6 and 59, so tau = 2 scales
     * some heads. */
    const int n = check_step("SM(clip 2)", "SM", 2, weight);
    assert_true(n > 0 && n < N_HEADS);
    assert_int_equal(check_step("SM(clip 1e-3)", "SM", 1e-3, weight), N_HEADS);
    assert_int_equal(check_step("SM(clip 100)", "SM", 100, weight), 0);
    assert_true(check_step("SM(t,clip 0.3,gate)+LN+ScFFN",
                           "SM(t,gate)+LN+ScFFN", 0.3, weight) > 0);
    assert_true(check_step("EReg(SM(clip 0.3)+LN+G)", "EReg(SM+LN+G)", 0.3,
                           weight) > 0);
    assert_true(
        check_step("SM(clip 0.3)+LN+WNorm(QK)", "SM+LN+WNorm(QK)", 0.3, g) > 0);
    assert_true(check_step("SM(clip 0.3)+LN+WNorm(FFN)", "SM+LN+WNorm(FFN)",
                           0.3, weight) > 0);
}

/* Takes a step with learning rate 0 and repeats the forward pass. With the same
 * inputs, the logits of the first layer's heads must be at most tau. */
static void check_after(const char *arch, es_family family, double tau)
{
    es_model_config config = es_small_config(arch);
    double before[N_HEADS], after[N_HEADS];
    config.family = family;
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    es_small_gradients(&s);
    logits_of(before, &s);
    es_small_update(&s, NULL, 0);
    es_small_forward(&s);
    logits_of(after, &s);
    for (int h = 0; h < H; h++) {
        const double want = before[h] > tau ? tau : before[h];
        assert_true(fabs(after[h] - want) <= 1e-5 * want + 1e-7);
    }
    assert_true(before[0] > tau || before[1] > tau || before[2] > tau);
}

TEST(the_same_inputs_give_tau_after_the_step)
{
    check_after("SM(clip 0.25)", ES_FAMILY_GPT2, 0.25);
    check_after("SM(t, clip 0.25)+LN+G", ES_FAMILY_GPT2, 0.25);
    check_after("SM(clip 0.25)+LN+G", ES_FAMILY_PYTHIA, 0.25);
    check_after("SM(clip 0.25)+LN+WNorm(QKV)", ES_FAMILY_GPT2, 0.25);
    check_after("SM(clip 0.25)+LN+WNorm(QKV)[0]", ES_FAMILY_GPT2, 0.25);
    check_after("SM(clip 0.25)+LN+WNorm(QKV)[1]", ES_FAMILY_GPT2, 0.25);
}

/* --- micro-batches -------------------------------------------------------- */

static es_status draw(void *user, int32_t *tokens, int32_t *targets, int i)
{
    const int first = *(const int *)user;
    for (int k = 0; k < B * T; k++) {
        tokens[k] = (k * 7 + 3 + (first + i) * (k % 3)) % 11;
        targets[k] = (k * 5 + 1 + i) % 11;
    }
    return ES_OK;
}

/* Takes a step of n micro-batches with learning rate 0, starting with
 * micro-batch `first`. */
static void step_of(float factors[N_HEADS], es_small_model *s, int n, int first)
{
    es_train_config train;
    es_outcome outcome;
    const es_step_plan plan = {.n_batches = n, .draw = draw, .user = &first};
    es_train_config_default(&train);
    es_assert_ok(es_model_run_step(s->model, &outcome, &plan, &train));
    factors_of(factors, s);
}

/* Tests a step that runs as one sequence and a step that runs as separate
 * passes, both without measuring. */
TEST(the_largest_logit_covers_all_micro_batches)
{
    const int counts[] = {3, ES_MAX_UNROLLED + 1};
    for (int k = 0; k < 2; k++) {
        float got[N_HEADS], one[N_HEADS], want[N_HEADS];
        int n_from_later = 0;
        for (int i = 0; i < N_HEADS; i++)
            want[i] = 1;
        for (int i = 0; i < counts[k]; i++) {
            AUTO_BY(es_small_close)
            es_small_model s = es_small_open_arch("SM(clip 0.01)+LN+R");
            step_of(one, &s, 1, i);
            for (int h = 0; h < N_HEADS; h++) {
                n_from_later += i > 0 && one[h] < want[h];
                want[h] = fminf(want[h], one[h]);
            }
        }
        AUTO_BY(es_small_close)
        es_small_model s = es_small_open_arch("SM(clip 0.01)+LN+R");
        step_of(got, &s, counts[k], 0);
        assert_memory_equal(got, want, sizeof want);
        assert_true(n_from_later > 0);
        /* The next step computes the largest logits anew. In the first layer
         * they equal tau, so no head is scaled again. */
        step_of(got, &s, counts[k], 0);
        for (int h = 0; h < H; h++)
            assert_true(fabsf(got[h] - 1) <= 1e-5f);
    }
}

/* --- values that are not finite ------------------------------------------ */

/* A NaN in q of one head of the first layer must not prevent the scaling of
 * other heads. */
TEST(a_head_with_a_nan_keeps_its_weights)
{
    AUTO_BY(es_small_close)
    es_small_model s = es_small_open_arch("SM(clip 0.01)");
    const size_t index = es_small_find(&s, "h.1.attn.c_attn.bias");
    float bias[3 * D], factors[N_HEADS];
    es_assert_ok(es_model_get(s.model, index, bias, 3 * D));
    bias[D / H] = NAN; /* a bias of head 1 in layer 1 */
    es_assert_ok(es_model_set(s.model, index, bias, 3 * D));
    es_small_gradients(&s);
    es_small_update(&s, NULL, 0);
    factors_of(factors, &s);
    for (int i = 0; i < N_HEADS; i++)
        assert_true(i == H + 1 ? factors[i] == 1 : factors[i] < 1);
}

TEST(a_skipped_step_scales_nothing)
{
    AUTO_BY(es_small_close)
    es_small_model s = es_small_open_arch("SM(clip 0.01)");
    const size_t weight = es_small_find(&s, "h.0.attn.c_attn.weight");
    const size_t bias = es_small_find(&s, "h.1.mlp.c_proj.bias");
    float before[D * 3 * D], after[D * 3 * D], x[D], factors[N_HEADS];
    es_train_config train;
    es_outcome outcome;
    es_train_config_default(&train);
    es_assert_ok(es_model_get(s.model, bias, x, D));
    /* An infinite bias after the last attention leaves all attention logits
     * finite, but the step is skipped. */
    x[D - 1] = INFINITY;
    es_assert_ok(es_model_set(s.model, bias, x, D));
    es_assert_ok(es_model_get(s.model, weight, before, D * 3 * D));
    es_model_zero_gradients(s.model);
    es_model_begin(s.model, false, &train, 1e-3);
    es_assert_ok(es_model_pass(s.model, s.tokens, s.targets, true));
    es_assert_ok(es_model_backward(s.model, 1));
    es_assert_ok(es_model_take_step(s.model, &train, true));
    es_assert_ok(es_model_end(s.model, &outcome));
    assert_true(outcome.skipped);
    es_assert_ok(es_model_get(s.model, weight, after, D * 3 * D));
    assert_memory_equal(before, after, sizeof before);
    factors_of(factors, &s);
    for (int i = 0; i < N_HEADS; i++)
        assert_true(factors[i] == 1);
}

/* --- precision and threads ------------------------------------------------ */

/* Computes the factors of QK-Clip in a step with learning rate 0 on the given
 * back-end. */
static void factors_on(float out[N_HEADS], const es_ops *ops, int n_threads,
                       bool emulates)
{
    es_model_config config = es_small_config("SM(t,clip 0.02)+LN+G");
    es_train_config train;
    es_outcome outcome;
    AUTO(es_model) model = NULL;
    int first = 4;
    const es_step_plan plan = {.n_batches = 2, .draw = draw, .user = &first};
    config.emulate = emulates ? ES_EMULATE_FP16 : ES_EMULATE_NONE;
    es_train_config_default(&train);
    es_assert_ok(es_model_new(&model, &config, ops, n_threads));
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const es_parameter parameter = es_model_parameter(model, i);
        float *values = array(parameter.n, 0.7);
        if (strstr(parameter.name, "c_attn"))
            es_assert_ok(es_model_set(model, i, values, parameter.n));
    }
    es_assert_ok(es_model_run_step(model, &outcome, &plan, &train));
    es_parameter_series_read(out, model, ES_PARAMETER_QK_CLIP);
    es_test_release();
    es_test_seed(1);
}

TEST(every_precision_and_number_of_threads_scales_alike)
{
    float one[N_HEADS], many[N_HEADS], narrow[N_HEADS], half[N_HEADS];
    es_test_seed(1);
    factors_on(one, &es_cpu_ops, 1, false);
    factors_on(many, &es_cpu_ops, 4, false);
    factors_on(narrow, &es_cpu_bf16_ops, 2, false);
    factors_on(half, &es_cpu_ops, 2, true);
    assert_memory_equal(one, many, sizeof one);
    for (int i = 0; i < N_HEADS; i++) {
        assert_true(one[i] < 0.9f);
        assert_true(fabsf(narrow[i] - one[i]) <= 0.02f * one[i]);
        assert_true(fabsf(half[i] - one[i]) <= 2e-3f * one[i]);
        assert_true(half[i] != one[i] && narrow[i] != one[i]);
    }
}

TEST(models_without_steps_have_no_factors)
{
    es_model_config config = es_small_config("SM(clip 3)");
    assert_true(es_parameter_series_exists(&config, ES_PARAMETER_QK_CLIP));
    config.forward_only = true;
    assert_false(es_parameter_series_exists(&config, ES_PARAMETER_QK_CLIP));
    config = es_small_config("SM(gate)");
    assert_false(es_parameter_series_exists(&config, ES_PARAMETER_QK_CLIP));
}
