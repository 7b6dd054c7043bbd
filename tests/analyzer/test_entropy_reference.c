/* Compares the double-precision reference with closed forms and the reference
   files. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include "analyzer/base/value.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define EPSILON 1e-9

static double entropy_of(const float *att, int n)
{
    return es_ref_row_probs((es_numbers){.data = att}, n, NULL)
        .values[ES_ROW_ENTROPY];
}

static es_ref_row row_qk(const float *q, const float *k, ptrdiff_t k_row, int n,
                         int width, float temperature)
{
    const es_ref_query query = {.q = {.data = q},
                                .k = {.data = k},
                                .k_row = k_row,
                                .n = n,
                                .width = width,
                                .scale =
                                    1 / (sqrt(width) * (double)temperature)};
    return es_ref_row_qk(&query);
}

static void test_entropy_reference__closed_forms_are_met(void **state)
{
    (void)state;
    float uniform[13];
    for (int n = 1; n <= 13; n++) {
        for (int j = 0; j < n; j++)
            uniform[j] = 1 / (float)n;
        double a = (double)uniform[0];
        assert_close(entropy_of(uniform, n), -n * a * log(a + EPSILON), 1e-15);
    }
    assert_close(entropy_of((float[]){0, 1, 0, 0}, 4), -log1p(EPSILON), 1e-16);
    assert_close(entropy_of((float[]){0.25F, 0, 0.75F}, 3),
                 0.25 * log(4) + 0.75 * log(4.0 / 3), 3e-9);
    assert_close(entropy_of((float[]){0, -0.0F, 0}, 3), 0, 0);
    assert_close(entropy_of((float[]){3, 8}, 2), -3 * log(3) - 8 * log(8),
                 3e-9);
    /* A subnormal weight is negligible next to the 1e-9 that is added to it
     * inside the logarithm. */
    assert_close(entropy_of((float[]){1e-40F, 0}, 2),
                 (double)1e-40F * -log(EPSILON), 1e-53);
}

static void
test_entropy_reference__a_nonfinite_weight_makes_its_row_nan(void **state)
{
    (void)state;
    const float rows[][4] = {{0.5F, NAN, 0.5F, 0},
                             {INFINITY, 0, 0, 0},
                             {0, 0, 0, -INFINITY},
                             {NAN, INFINITY, NAN, 1}};
    const int counts[] = {1, 1, 1, 3};
    for (int i = 0; i < 4; i++) {
        es_ref_row row =
            es_ref_row_probs((es_numbers){.data = rows[i]}, 4, NULL);
        assert_true(isnan(row.values[ES_ROW_ENTROPY]) &&
                    isnan(row.values[ES_ROW_SINK]));
        assert_int_equal(row.nonfinite, counts[i]);
    }
    /* A negative weight is finite, but its logarithm is not. */
    es_ref_row row = es_ref_row_probs(
        (es_numbers){.data = (float[]){0.5F, -0.25F}}, 2, NULL);
    assert_true(isnan(row.values[ES_ROW_ENTROPY]));
    assert_int_equal(row.nonfinite, 0);
    assert_close(row.values[ES_ROW_SINK], 0.5, 0);
}

/** A NaN in the input must not become "missing" in the output. */
static void test_entropy_reference__nan_is_not_missing(void **state)
{
    (void)state;
    float entropy, sink;
    float att = es_missing();
    es_rows rows = {.entropy = &entropy, .sink = &sink};
    es_attention_shape shape = SHAPE(1, 1, 1, 1, 0, true);
    es_entropy_input in = {.data = &att};
    assert_int_equal(es_entropy_with(&es_entropy_kernels_reference, &rows, NULL,
                                     &in, NULL, &shape, 1),
                     ES_OK);
    assert_true(isnan(entropy) && !es_is_missing(entropy));
    assert_true(isnan(sink) && !es_is_missing(sink));
}

static void test_entropy_reference__flat_scores_give_log_n(void **state)
{
    (void)state;
    const float q[3] = {0}, k[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9};
    for (int n = 1; n <= 4; n++) {
        es_ref_row row = row_qk(q, k, 3, n, 3, 1);
        assert_close(row.values[ES_ROW_ENTROPY], -log(1.0 / n + EPSILON),
                     1e-15);
        assert_close(row.values[ES_ROW_LSE], log(n), 1e-15);
        assert_close(row.values[ES_ROW_MAX_LOGIT], 0, 0);
        assert_close(row.values[ES_ROW_SINK], 1.0 / n, 1e-15);
    }
}

static void test_entropy_reference__two_scores_have_a_closed_form(void **state)
{
    (void)state;
    const float q[2] = {2, 1}, k[6] = {3, -1, 99, 0, 99, 2};
    /* The rows of k are 4 numbers apart. The scores are 5 and 200, divided by
     * the temperature t and by sqrt(2). */
    for (int i = 0; i < 3; i++) {
        float t = (float[]){1, 40, 0.5F}[i];
        double low = 5 / ((double)t * sqrt(2)), gap = 195 / 5 * low;
        double a = 1 / (1 + exp(gap)), b = 1 / (1 + exp(-gap));
        es_ref_row row = row_qk(q, k, 4, 2, 2, t);
        assert_close(row.values[ES_ROW_MAX_LOGIT], low + gap, 1e-12);
        assert_close(row.values[ES_ROW_LSE], low + gap + log1p(exp(-gap)),
                     1e-12);
        assert_close(row.values[ES_ROW_SINK], a, 1e-14);
        assert_close(row.values[ES_ROW_ENTROPY],
                     -a * log(a + EPSILON) - b * log(b + EPSILON), 1e-14);
    }
}

static void
test_entropy_reference__a_nonfinite_score_makes_its_row_nan(void **state)
{
    (void)state;
    const float q[2] = {1, 1};
    const float keys[][4] = {{0, 0, NAN, 0},
                             {INFINITY, 0, 0, 0},
                             {0, 0, -INFINITY, 0},
                             {0, 0, FLT_MAX, FLT_MAX}};
    for (int i = 0; i < 4; i++) {
        es_ref_row row = row_qk(q, keys[i], 2, 2, 2, 1);
        assert_true(isnan(row.values[ES_ROW_ENTROPY]) &&
                    isnan(row.values[ES_ROW_LSE]));
        assert_true(isnan(row.values[ES_ROW_MAX_LOGIT]) &&
                    isnan(row.values[ES_ROW_SINK]));
        assert_int_equal(row.nonfinite, 2);
    }
    assert_int_equal(row_qk(q, keys[0], 2, 1, 2, 1).nonfinite, 0);
    assert_int_equal(row_qk(q, keys[0], 2, 1, 2, NAN).nonfinite, 1);
}

static void test_entropy_reference__a_temperature_has_a_floor(void **state)
{
    (void)state;
    const float t[] = {1e-5F, 0, -3, 1e-4F, 2, INFINITY, NAN};
    for (size_t i = 0; i < 4; i++)
        assert_true(es_temperature(t, i) == 1e-4F);
    assert_true(es_temperature(t, 4) == 2 && isinf(es_temperature(t, 5)));
    assert_true(isnan(es_temperature(t, 6)));
    assert_true(es_temperature(NULL, 9) == 1);
}

static void test_entropy_reference__an_offset_moves_the_diagonal(void **state)
{
    (void)state;
    /* Each line: a query offset, then for each row the number of keys, out of
       three, that the row sees. */
    const int limits[][7] = {
        {0, 1, 2, 3, 3, 3},       {2, 3, 3, 3, 3, 3},
        {-2, 0, 0, 1, 2, 3},      {-1, 0, 1, 2, 3, 3},
        {1 << 30, 3, 3, 3, 3, 3}, {-(1 << 30), 0, 0, 0, 0, 0}};
    es_entropy_keys keys = {.n = 3, .causal = true};
    for (int c = 0; c < 6; c++) {
        keys.offset = limits[c][0];
        for (int i = 0; i < 5; i++)
            assert_int_equal(es_visible_keys(&keys, i), limits[c][i + 1]);
    }
    keys.causal = false;
    assert_int_equal(es_visible_keys(&keys, 0), 3);
}

#define HALF_ULP (0.5 * (double)FLT_EPSILON)

/**
 * Compares with an expected value that was computed in double and rounded to
 * float.
 */
static void check_rounded(double got, float wanted)
{
    double value = isfinite(wanted) ? (double)wanted : (double)NAN;
    assert_close(got, value, HALF_ULP * fabs(value) + 1e-13);
}

static void check_case(const entropy_case *loaded, void *user)
{
    const es_attention_shape *shape = &loaded->shape;
    const es_entropy_input keys = keys_at(loaded->k, shape);
    const es_entropy_input *k = loaded->from_qk ? &keys : NULL;
    const es_entropy_input in = loaded->from_qk
                                    ? queries_at(loaded->q, shape)
                                    : weights_at(loaded->att, shape);
    row_buffers got = new_rows(n_rows(shape));
    float entropy[8];
    int64_t odd_weights[8];
    const es_heads heads = {.size = sizeof heads,
                            .entropy = entropy,
                            .nonfinite_weights = odd_weights};
    (void)user;
    assert_true(shape->n_heads <= 8);
    es_attention_shape scaled = *shape;
    scaled.temperature = loaded->temperature;
    assert_int_equal(es_entropy_with(&es_entropy_kernels_reference, &got.rows,
                                     &heads, &in, k, &scaled, 2),
                     ES_OK);
    for (size_t i = 0; i < got.n; i++) {
        es_ref_row row = reference_row(&in, k, loaded->temperature, shape, i);
        check_rounded(row.values[ES_ROW_ENTROPY], loaded->row_entropy[i]);
        assert_close((double)got.rows.entropy[i], row.values[ES_ROW_ENTROPY],
                     HALF_ULP * fabs(row.values[ES_ROW_ENTROPY]));
        if (k)
            check_rounded(row.values[ES_ROW_LSE], loaded->lse[i]);
    }
    for (int h = 0; h < shape->n_heads; h++) {
        /* The stored rows are rounded, but the expected mean was computed from
           unrounded rows. */
        assert_close((double)entropy[h], (double)loaded->entropy[h],
                     3 * HALF_ULP * fabs((double)loaded->entropy[h]) + 1e-13);
        assert_int_equal(odd_weights[h], loaded->nonfinite[h]);
    }
    assert_sentinels(&got);
    free_rows(&got);
}

static void test_entropy_reference__reference_files_agree(void **state)
{
    (void)state;
    each_entropy_case(check_case, NULL);
}

/* Two sequences, three heads, two queries: (B,H,T). */
static float entropies[] = {1, 3,   NAN, NAN, 2,    4,
                            5, NAN, NAN, NAN, 0.5F, INFINITY};
static float logits[] = {7, 8, NAN, NAN, -3, -2, 9, NAN, NAN, NAN, -5, 99};
static float sinks[] = {0.5F,  0.25F, NAN, NAN, 0,    1,
                        0.75F, NAN,   NAN, NAN, 0.5F, 0.9F};
static int32_t counts[] = {0, 0, 2, 2, 0, 0, 0, 1, 2, 2, 0, 0};

static void test_entropy_reference__rows_are_reduced_to_heads(void **state)
{
    (void)state;
    const es_rows rows = {.size = sizeof rows,
                          .entropy = entropies,
                          .max_logit = logits,
                          .sink = sinks,
                          .nonfinite = counts};
    float mean[3], low[3], high[3], logit[3], sink[3];
    int64_t finite[3], odd[3], odd_weights[3];
    const es_heads heads = {.size = sizeof heads,
                            .entropy = mean,
                            .entropy_min = low,
                            .entropy_max = high,
                            .max_logit = logit,
                            .sink = sink,
                            .finite_rows = finite,
                            .nonfinite_rows = odd,
                            .nonfinite_weights = odd_weights};
    assert_int_equal(es_rows_reduce(&heads, &rows, 2, 3, 2), ES_OK);
    assert_true(mean[0] == 3 && low[0] == 2 && high[0] == 5);
    assert_true(logit[0] == 9 && sink[0] == 0.5F);
    assert_true(finite[0] == 3 && odd[0] == 1 && odd_weights[0] == 1);
    assert_true(isnan(mean[1]) && isnan(low[1]) && isnan(high[1]));
    assert_true(isnan(logit[1]) && isnan(sink[1]));
    assert_false(es_is_missing(mean[1]) || es_is_missing(logit[1]));
    assert_true(finite[1] == 0 && odd[1] == 4 && odd_weights[1] == 8);
    assert_close((double)mean[2], 6.5 / 3, 1.2e-7);
    assert_true(low[2] == 0.5F && logit[2] == -2 && sink[2] == 0.5F);
    assert_true(finite[2] == 3 && odd[2] == 1);
}

/**
 * A head's statistic is es_missing(), not zero or another NaN, if the array of
 * its rows is NULL or all rows are missing.
 */
static void
test_entropy_reference__outputs_that_are_null_are_missing(void **state)
{
    (void)state;
    float unseen[] = {es_missing(), es_missing()};
    float mean, others[5];
    int64_t odd_weights, finite;
    es_rows rows = {.size = sizeof rows, .entropy = entropies};
    const es_heads heads = {.size = sizeof heads,
                            .entropy = &mean,
                            .max_logit = &others[0],
                            .sink = &others[1],
                            .missing = &others[2],
                            .distance = &others[3],
                            .top = &others[4],
                            .finite_rows = &finite,
                            .nonfinite_weights = &odd_weights};
    assert_int_equal(es_rows_reduce(&heads, &rows, 1, 1, 2), ES_OK);
    assert_true(mean == 2 && finite == 2 && odd_weights == 0);
    for (int i = 0; i < 5; i++)
        assert_true(es_is_missing(others[i]));
    rows.entropy = unseen;
    assert_int_equal(es_rows_reduce(&heads, &rows, 1, 1, 2), ES_OK);
    assert_true(es_is_missing(mean) && finite == 0);
    rows.entropy = NULL;
    assert_int_equal(es_rows_reduce(&heads, &rows, 1, 1, 2), ES_EARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy_reference__closed_forms_are_met),
        cmocka_unit_test(
            test_entropy_reference__a_nonfinite_weight_makes_its_row_nan),
        cmocka_unit_test(test_entropy_reference__nan_is_not_missing),
        cmocka_unit_test(test_entropy_reference__flat_scores_give_log_n),
        cmocka_unit_test(test_entropy_reference__two_scores_have_a_closed_form),
        cmocka_unit_test(
            test_entropy_reference__a_nonfinite_score_makes_its_row_nan),
        cmocka_unit_test(test_entropy_reference__a_temperature_has_a_floor),
        cmocka_unit_test(test_entropy_reference__an_offset_moves_the_diagonal),
        cmocka_unit_test(test_entropy_reference__reference_files_agree),
        cmocka_unit_test(test_entropy_reference__rows_are_reduced_to_heads),
        cmocka_unit_test(
            test_entropy_reference__outputs_that_are_null_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
