/* The double reference against closed forms and the reference files. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include "analyzer/base/value.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define EPSILON 1e-9

static double entropy_of(const float *att, int n)
{
    return es_ref_row_probs((es_numbers){.data = att}, n, NULL).entropy;
}

static es_ref_row row_qk(const float *q, const float *k, ptrdiff_t k_row, int n,
                         int width, float temperature)
{
    return es_ref_row_qk((es_numbers){.data = q}, (es_numbers){.data = k},
                         k_row, n, NULL, width, temperature);
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
    /* A denormal has the logarithm of the 1e-9. */
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
        assert_true(isnan(row.entropy) && isnan(row.sink));
        assert_int_equal(row.nonfinite, counts[i]);
    }
    /* A negative weight is finite, its logarithm is not. */
    es_ref_row row = es_ref_row_probs(
        (es_numbers){.data = (float[]){0.5F, -0.25F}}, 2, NULL);
    assert_true(isnan(row.entropy));
    assert_int_equal(row.nonfinite, 0);
    assert_close(row.sink, 0.5, 0);
}

/** A NaN of the input may not become "missing" in the output. */
static void test_entropy_reference__nan_is_not_missing(void **state)
{
    (void)state;
    float entropy, sink;
    float att = es_missing();
    es_rows rows = {.entropy = &entropy, .sink = &sink};
    es_attention_shape shape = SHAPE(1, 1, 1, 1, 0, true);
    es_entropy_input in = {.data = &att};
    es_ref_entropy(&rows, &in, NULL, NULL, &shape);
    assert_true(isnan(entropy) && !es_is_missing(entropy));
    assert_true(isnan(sink) && !es_is_missing(sink));
}

static void test_entropy_reference__flat_scores_give_log_n(void **state)
{
    (void)state;
    const float q[3] = {0}, k[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9};
    for (int n = 1; n <= 4; n++) {
        es_ref_row row = row_qk(q, k, 3, n, 3, 1);
        assert_close(row.entropy, -log(1.0 / n + EPSILON), 1e-15);
        assert_close(row.lse, log(n), 1e-15);
        assert_close(row.max_logit, 0, 0);
        assert_close(row.sink, 1.0 / n, 1e-15);
    }
}

static void test_entropy_reference__two_scores_have_a_closed_form(void **state)
{
    (void)state;
    const float q[2] = {2, 1}, k[6] = {3, -1, 99, 0, 99, 2};
    /* Rows of k are 4 apart: scores 5 and 200 over t sqrt(2). */
    for (int i = 0; i < 3; i++) {
        float t = (float[]){1, 40, 0.5F}[i];
        double low = 5 / ((double)t * sqrt(2)), gap = 195 / 5 * low;
        double a = 1 / (1 + exp(gap)), b = 1 / (1 + exp(-gap));
        es_ref_row row = row_qk(q, k, 4, 2, 2, t);
        assert_close(row.max_logit, low + gap, 1e-12);
        assert_close(row.lse, low + gap + log1p(exp(-gap)), 1e-12);
        assert_close(row.sink, a, 1e-14);
        assert_close(row.entropy, -a * log(a + EPSILON) - b * log(b + EPSILON),
                     1e-14);
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
        assert_true(isnan(row.entropy) && isnan(row.lse));
        assert_true(isnan(row.max_logit) && isnan(row.sink));
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
    /* Three keys from some position on: offset, rows, limits. */
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

/** What is wanted was computed in double and then rounded to float. */
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
    es_head_stats heads[8];
    (void)user;
    assert_true(shape->n_heads <= 8);
    es_ref_entropy(&got.rows, &in, k, loaded->temperature, shape);
    for (size_t i = 0; i < got.n; i++) {
        es_ref_row row = reference_row(&in, k, loaded->temperature, shape, i);
        check_rounded(row.entropy, loaded->row_entropy[i]);
        assert_close((double)got.rows.entropy[i], row.entropy,
                     HALF_ULP * fabs(row.entropy));
        if (k)
            check_rounded(row.lse, loaded->lse[i]);
    }
    es_rows_reduce(heads, &got.rows, shape->n_batch, shape->n_heads,
                   shape->n_queries);
    for (int h = 0; h < shape->n_heads; h++) {
        /* Its rows are rounded, the wanted mean is of unrounded ones. */
        assert_close(heads[h].entropy, (double)loaded->entropy[h],
                     2 * HALF_ULP * fabs((double)loaded->entropy[h]) + 1e-13);
        assert_int_equal(heads[h].nonfinite_weights, loaded->nonfinite[h]);
    }
    assert_sentinels(&got);
    free_rows(&got);
}

static void test_entropy_reference__reference_files_agree(void **state)
{
    (void)state;
    if (each_entropy_case(check_case, NULL) == 0) {
        print_message("# no reference files: set ES_SHARED\n");
        skip();
    }
}

/* Two sequences, three heads, two queries: (B,H,T). */
static float entropies[] = {1, 3,   NAN, NAN, 2,    4,
                            5, NAN, NAN, NAN, 0.5F, INFINITY};
static float logits[] = {7, 8, NAN, NAN, -3, -2, 9, NAN, NAN, NAN, -5, 99};
static float sinks[] = {0.5F,  0.25F, NAN, NAN, 0,    1,
                        0.75F, NAN,   NAN, NAN, 0.5F, 0.9F};
static int32_t counts[] = {0, 0, 2, 2, 0, 0, 0, 1, 2, 2, 0, 0};

static void test_entropy_reference__rows_become_heads(void **state)
{
    (void)state;
    es_rows rows = {.entropy = entropies,
                    .max_logit = logits,
                    .sink = sinks,
                    .nonfinite = counts};
    es_head_stats out[3];
    es_rows_reduce(out, &rows, 2, 3, 2);
    assert_close(out[0].entropy, 3, 0);
    assert_close(out[0].entropy_min, 2, 0);
    assert_close(out[0].entropy_max, 5, 0);
    assert_close(out[0].max_logit, 9, 0);
    assert_close(out[0].sink, 0.5, 0);
    assert_int_equal(out[0].nonfinite_rows, 1);
    assert_int_equal(out[0].nonfinite_weights, 1);
    assert_true(isnan(out[1].entropy) && isnan(out[1].entropy_min));
    assert_true(isnan(out[1].entropy_max) && isnan(out[1].max_logit));
    assert_true(isnan(out[1].sink));
    assert_int_equal(out[1].nonfinite_rows, 4);
    assert_int_equal(out[1].nonfinite_weights, 8);
    assert_close(out[2].entropy, 6.5 / 3, 1e-15);
    assert_close(out[2].entropy_min, 0.5, 0);
    assert_close(out[2].max_logit, -2, 0);
    assert_close(out[2].sink, 0.5, 0);
    assert_int_equal(out[2].nonfinite_rows, 1);
}

static void
test_entropy_reference__outputs_that_are_null_reduce_to_nan(void **state)
{
    (void)state;
    es_rows rows = {.entropy = entropies};
    es_head_stats out;
    es_rows_reduce(&out, &rows, 1, 1, 2);
    assert_close(out.entropy, 2, 0);
    assert_close(out.entropy_min, 2, 0);
    assert_true(isnan(out.max_logit) && isnan(out.sink));
    assert_int_equal(out.nonfinite_weights, 0);
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
        cmocka_unit_test(test_entropy_reference__rows_become_heads),
        cmocka_unit_test(
            test_entropy_reference__outputs_that_are_null_reduce_to_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
