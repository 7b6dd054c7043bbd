/* Compares plain PowerSoftmax, epsilons that depend on the length, and scaled
 * ReLU attention with plain loops in double, for every variant of the kernels
 * that this machine can run, and checks the properties of these kinds of
 * attention. */
#include "tests/support/attention_problem.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

typedef struct form {
    int power;
    double epsilon;
    bool plain;
    es_row_length length;
} form;

static const form forms[] = {
    {2, 0, true, ES_LENGTH_NONE},
    {4, 0.1, true, ES_LENGTH_NONE},
    {2, 0.05, true, ES_LENGTH_VISIBLE},
    {4, 0.1, false, ES_LENGTH_VISIBLE},
    {6, 1e-3, false, ES_LENGTH_CONTEXT},
    {ES_CPU_RELU, 0, true, ES_LENGTH_VISIBLE},
    {ES_CPU_RELU, 0, true, ES_LENGTH_CONTEXT},
};
enum { N_FORMS = sizeof forms / sizeof *forms, RELU_FORM = 5 };

static attention_problem open_form(int n_batch, int n_ctx, int n_head,
                                   int width, const form *f)
{
    attention_problem p = attention_open(n_batch, n_ctx, n_head, width);
    p.power = f->power;
    p.epsilon = (float)f->epsilon;
    p.plain = f->plain;
    p.length = f->length;
    return p;
}

TEST(the_plain_loops_match_finite_differences)
{
    for (int i = 0; i < N_FORMS; i++)
        attention_check_reference_form(forms[i].power, forms[i].epsilon,
                                       forms[i].plain, forms[i].length);
}

static void check_shape(int n_batch, int n_ctx, int n_head, int width)
{
    for (int i = 0; i < 2 * N_FORMS; i++)
        EACH_ATTENTION(p, kernels,
                       open_form(n_batch, n_ctx, n_head, width, &forms[i / 2]))
        {
            /* If a weight is near 1, subtracting the weighted mean of the
             * gradients from its gradient cancels most digits. */
            p.rounding = 5e-4;
            attention_run(&p, *kernels, 2, i % 2);
            attention_check(&p, i % 2);
        }
}

TEST(every_form_matches_plain_loops)
{
    check_shape(1, 1, 1, 1);
    check_shape(2, 33, 3, 5);
    check_shape(1, 71, 2, 16);
    /* the kernels process these narrow heads in bundles */
    check_shape(3, 21, 5, 4);
    check_shape(2, 9, 5, 8);
}

/* The test's back-end lacks plain PowerSoftmax and scaled ReLU, as the CUDA
 * back-end does. */
TEST(a_back_end_without_plain_scores_refuses_them_by_name)
{
    static const char *const archs[] = {"PSM(4,plain)", "RA"};
    es_ops ops = es_cpu_ops;
    ops.weighs_plain_scores = false;
    ops.name = "other";
    for (int i = 0; i < 2; i++) {
        const es_model_config config = es_small_config(archs[i]);
        es_model *model = NULL;
        assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
        assert_null(model);
        assert_non_null(
            strstr(es_message(), i ? "RA: not supported by back-end other"
                                   : "PSM(p,plain): not supported by"));
    }
}

/* --- properties of the forms --------------------------------------------- */

/* Writes the outputs of one kind of attention to y (n_values), after
 * multiplying the queries by a factor. */
static void outputs_of(float *y, const es_cpu_kernels *kernels, const form *f,
                       float factor)
{
    attention_problem p = open_form(1, 19, 2, 3, f);
    attention_scale_queries(&p, factor);
    attention_run(&p, kernels, 1, false);
    memcpy(y, p.y, p.n_values * sizeof *y);
    attention_close(&p);
}

static double apart(const float *x, const float *y, int n)
{
    double largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, (double)fabsf(x[i] - y[i]));
    return largest;
}

/* p is even, so changing the sign of all scores does not change the outputs,
 * except with scaled ReLU. */
TEST(powers_are_even)
{
    enum { N = 19 * 6 };
    EACH_VARIANT(kernels)
    for (int i = 0; i < N_FORMS; i++) {
        float y[N], turned[N];
        outputs_of(y, *kernels, &forms[i], 1);
        outputs_of(turned, *kernels, &forms[i], -1);
        assert_int_equal(apart(y, turned, N) > 1e-5, i >= RELU_FORM);
    }
}

/* Multiplying all scores by 8 does not change the weights of plain PowerSoftmax
 * without an epsilon, or of the stable variant, which divides by the largest
 * score. */
TEST(a_plain_power_depends_on_scale_only_through_epsilon)
{
    enum { N = 19 * 6 };
    const form without = {4, 0, true, ES_LENGTH_NONE};
    const form with = {4, 1, true, ES_LENGTH_NONE};
    const form stable = {4, 1, false, ES_LENGTH_VISIBLE};
    EACH_VARIANT(kernels)
    {
        float y[N], large[N];
        outputs_of(y, *kernels, &without, 1);
        outputs_of(large, *kernels, &without, 8);
        assert_true(apart(y, large, N) < 1e-4);
        outputs_of(y, *kernels, &stable, 1);
        outputs_of(large, *kernels, &stable, 8);
        assert_true(apart(y, large, N) < 1e-4);
        outputs_of(y, *kernels, &with, 1);
        outputs_of(large, *kernels, &with, 8);
        assert_true(apart(y, large, N) > 1e-2);
    }
}

/* If S is the sum of the powers of a row's scores, each divided by the power of
 * the largest score, the weights sum to S / (L * eps + S), where L is the row's
 * length and eps the epsilon. */
TEST(the_missing_mass_is_the_share_of_epsilon)
{
    const form f = {4, 0.1, false, ES_LENGTH_VISIBLE};
    EACH_ATTENTION(p, kernels, open_form(1, 40, 1, 4, &f))
    {
        attention_run(&p, *kernels, 1, false);
        for (int i = 0; i < p.n_ctx; i++) {
            double s[40], c = 0, sum = 0;
            for (int j = 0; j <= i; j++) {
                s[j] = 0;
                for (int k = 0; k < 4; k++)
                    s[j] += (double)p.qkv[i * 12 + k] *
                            (double)p.qkv[j * 12 + 4 + k] / 2;
                c = fmax(c, fabs(s[j]));
            }
            for (int j = 0; j <= i; j++)
                sum += pow(s[j] / (c + 1e-6), 4);
            const double rest = 0.1 * (i + 1);
            assert_true(fabs((double)attention_rows(&p, ES_ROW_MISSING)[i] -
                             rest / (rest + sum)) < 1e-4);
        }
    }
}

/* Compares a sequence of n keys with a sequence that contains the same keys
 * twice. The last query of each sequence sees all keys. Returns the largest
 * difference between the outputs of these two queries, which are equal if the
 * row length L is the number of visible keys. */
static double doubled(const es_cpu_kernels *kernels, const form *f)
{
    enum { N = 23, D = 3 };
    attention_problem once = open_form(1, N, 1, D, f);
    attention_problem twice = open_form(1, 2 * N, 1, D, f);
    for (int i = 0; i < 2 * N; i++)
        memcpy(twice.qkv + i * 3 * D, once.qkv + i % N * 3 * D,
               3 * D * sizeof *once.qkv);
    attention_run(&once, kernels, 1, false);
    attention_run(&twice, kernels, 1, false);
    const double found =
        apart(once.y + (N - 1) * D, twice.y + (2 * N - 1) * D, D);
    attention_close(&once);
    attention_close(&twice);
    return found;
}

TEST(with_length_doubled_keys_change_nothing)
{
    const form by_length[] = {{4, 0.5, false, ES_LENGTH_VISIBLE},
                              {2, 0.5, true, ES_LENGTH_VISIBLE},
                              {ES_CPU_RELU, 0, true, ES_LENGTH_VISIBLE},
                              {4, 0, true, ES_LENGTH_NONE}};
    const form others[] = {{4, 5, false, ES_LENGTH_NONE},
                           {2, 50, true, ES_LENGTH_NONE}};
    EACH_VARIANT(kernels)
    {
        for (int i = 0; i < 4; i++)
            assert_true(doubled(*kernels, &by_length[i]) < 1e-5);
        for (int i = 0; i < 2; i++)
            assert_true(doubled(*kernels, &others[i]) > 1e-3);
    }
}

/* --- outside the range of float32 ---------------------------------------- */

/* Heads of width 4 are processed in bundles, heads of width 3 are processed in
 * tiles. */
static const int widths[] = {3, 4};

/* The fourth powers of these scores overflow or underflow float32, so every row
 * is NaN. */
TEST(a_plain_power_out_of_range_is_nan)
{
    const float factors[] = {1e12f, 1e-14f};
    const form f = {4, 0, true, ES_LENGTH_NONE};
    for (int i = 0; i < 4; i++)
        EACH_ATTENTION(p, kernels, open_form(4, 20, 4, widths[i % 2], &f))
        {
            attention_scale_queries(&p, factors[i / 2]);
            attention_run(&p, *kernels, 1, true);
            for (size_t r = 0; r < p.n_rows; r++) {
                assert_true(isnan(p.rows[r]));
                assert_true(attention_rows(&p, ES_ROW_NONFINITE)[r] ==
                            (float)(r % 20 + 1));
            }
            for (size_t n = 0; n < p.n_values; n++)
                assert_true(isnan(p.y[n]));
            assert_true(isnan(p.dqkv[0]));
        }
}

/* With an epsilon, scores whose powers are too small for float32 get a weight
 * of 0 instead of NaN in the plain variant of PowerSoftmax; in the stable
 * variant they get normal weights. */
TEST(an_epsilon_keeps_small_scores_from_nan)
{
    const form plain = {4, 1e-3, true, ES_LENGTH_NONE};
    const form stable = {4, 1e-3, false, ES_LENGTH_NONE};
    EACH_ATTENTION(p, kernels, open_form(1, 20, 1, 3, &plain))
    {
        attention_scale_queries(&p, 1e-14f);
        attention_run(&p, *kernels, 1, false);
        for (int i = 0; i < 20; i++) {
            assert_true(p.rows[i] == 0);
            assert_true(attention_rows(&p, ES_ROW_MISSING)[i] == 1);
        }
    }
    EACH_ATTENTION(p, kernels, open_form(1, 20, 1, 3, &stable))
    {
        attention_scale_queries(&p, 1e-4f);
        attention_run(&p, *kernels, 1, false);
        assert_true(p.rows[19] > 0.5f);
        assert_true(attention_rows(&p, ES_ROW_MISSING)[19] < 0.1f);
    }
}

/* With scaled ReLU, keys with scores below 0 have no weight. If all keys of a
 * row have such scores, the row's output and entropy are 0, and its missing
 * mass is 1. */
TEST(a_row_of_scores_below_zero_has_no_weight)
{
    EACH_ATTENTION(p, kernels, open_form(1, 20, 1, 3, &forms[RELU_FORM]))
    {
        for (int i = 0; i < 20 * 9; i++)
            p.qkv[i] = i % 9 < 3   ? fabsf(p.qkv[i]) + 0.1f
                       : i % 9 < 6 ? -fabsf(p.qkv[i]) - 0.1f
                                   : p.qkv[i];
        attention_run(&p, *kernels, 1, true);
        for (int i = 0; i < 20; i++) {
            assert_true(p.rows[i] == 0);
            assert_true(attention_rows(&p, ES_ROW_MISSING)[i] == 1);
            assert_true(attention_rows(&p, ES_ROW_MAX_LOGIT)[i] < 0);
        }
        for (int i = 0; i < 60; i++)
            assert_true(p.y[i] == 0);
        for (int i = 0; i < 180; i++)
            assert_true(p.dqkv[i] == 0);
    }
}

/* A NaN key makes one weight of each row that sees the key NaN with scaled
 * ReLU, but all weights of the row with plain PowerSoftmax. */
TEST(a_nan_key_is_counted)
{
    for (int n = 0; n < 4; n++) {
        const form *f = n / 2 ? &forms[RELU_FORM] : &forms[1];
        EACH_ATTENTION(p, kernels, open_form(4, 25, 4, widths[n % 2], f))
        {
            const int stride = 12 * widths[n % 2];
            p.qkv[17 * stride + 4 * widths[n % 2]] = NAN;
            attention_run(&p, *kernels, 1, true);
            for (int i = 0; i < 25; i++) {
                assert_int_equal(isnan(p.rows[i]) != 0, i >= 17);
                assert_true(attention_rows(&p, ES_ROW_NONFINITE)[i] ==
                            (i < 17  ? 0
                             : n / 2 ? 1
                                     : (float)(i + 1)));
                assert_int_equal(isnan(p.y[i * 4 * widths[n % 2]]) != 0,
                                 i >= 17);
            }
        }
    }
}
