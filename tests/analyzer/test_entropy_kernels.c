/* Compares every variant of the kernels that this machine can run with the
   double-precision reference. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- functions inside the kernels ----------------------------------------- */

static void test_entropy_kernels__exp2_is_accurate(void **state)
{
    const es_entropy_kernels *set = variant(state);
    float x[4096], y[4096];
    for (int i = 0; i < 4096; i++)
        x[i] = -126 + (float)i * (253.9F / 4095);
    set->exp2(y, x, 4096);
    for (int i = 0; i < 4096; i++)
        assert_close((double)y[i] / exp2((double)x[i]), 1, 2e-7);
    const float exact[16] = {0, -1, -2, -126, 5, NAN, 127};
    set->exp2(y, exact, 16);
    for (int i = 0; i < 16; i++)
        assert_close((double)y[i], exp2((double)exact[i]), 0);
}

static void test_entropy_kernels__log2_is_accurate(void **state)
{
    const es_entropy_kernels *set = variant(state);
    float x[4096], y[4096];
    for (int i = 0; i < 4096; i++)
        x[i] = (float)exp2(-125 + i * (252.0 / 4095));
    set->log2(y, x, 4096);
    for (int i = 0; i < 4096; i++) {
        double wanted = log2((double)x[i]);
        assert_close((double)y[i], wanted, 1.5e-7 * (1 + fabs(wanted)));
    }
    for (int i = 0; i < 4096; i++)
        x[i] = 1 + (float)(i - 2048) * 1e-4F;
    set->log2(y, x, 4096);
    for (int i = 0; i < 4096; i++)
        assert_close((double)y[i], log2((double)x[i]), 1.5e-7);
    const float odd[16] = {1, 2, 0.5F, -1, -0.25F, NAN, INFINITY};
    set->log2(y, odd, 16);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == -1);
    assert_true(isnan(y[3]) && isnan(y[4]));
    assert_true(!isfinite(y[5] * odd[5]));
    assert_true(!isfinite(y[6] * odd[6]));
}

/* --- shapes ----------------------------------------------------------------
 */

static void test_entropy_kernels__weights_of_every_shape_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const double spreads[] = {0, 1, 4, 12};
    for (size_t i = 0; i < n_test_shapes; i++) {
        const es_attention_shape *shape = &test_shapes[i];
        float *att = new_weights(shape, spreads[i % 4], i);
        row_buffers got = new_rows(n_rows(shape));
        run_probs(set, &got.rows, att, shape, 1);
        assert_probs(&got.rows, att, shape, 1);
        assert_sentinels(&got);
        free_rows(&got);
        free(att);
    }
}

static void test_entropy_kernels__queries_of_every_shape_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const double scales[] = {1, 0.01, 6, 0};
    for (size_t i = 0; i < n_test_shapes; i++) {
        const es_attention_shape *shape = &test_shapes[i];
        size_t n = n_rows(shape) * (size_t)shape->head_width;
        float *q = new_normals(n, scales[i % 4], 2 * i);
        float *k = new_normals(n_key_floats(shape), 1, 2 * i + 1);
        row_buffers got = new_rows(n_rows(shape));
        run_qk(set, &got.rows, q, k, NULL, shape, 1);
        assert_qk(&got.rows, q, k, NULL, shape, 1);
        assert_sentinels(&got);
        free_rows(&got);
        free(k);
        free(q);
    }
}

/**
 * Tests heads so wide that they need many blocks of keys, and heads wider than
 * the kernels can pack. The first query and the first key consist of ones, so
 * their product equals the width of the head.
 */
static void test_entropy_kernels__wide_heads_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const int widths[] = {ES_QK_WIDTH_SPLIT, 600, ES_QK_WIDTH_MAX,
                          ES_QK_WIDTH_MAX + 1};
    for (int i = 0; i < 4; i++) {
        es_attention_shape shape = SHAPE(1, 1, 5, 330, widths[i], false);
        size_t width = (size_t)shape.head_width;
        float *q = new_normals(5 * width, 1, 5),
              *k = new_normals(330 * width, 1, 6);
        for (size_t c = 0; c < width; c++)
            q[c] = k[c] = 1;
        row_buffers got = new_rows(5);
        run_qk(set, &got.rows, q, k, NULL, &shape, 1);
        assert_qk(&got.rows, q, k, NULL, &shape, 1);
        assert_sentinels(&got);
        free_rows(&got);
        free(k);
        free(q);
    }
}

static void test_entropy_kernels__long_rows_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 3, 4096, 64, false);
    for (int i = 0; i < 3; i++) {
        float *q = new_normals(3 * 64, (double[]){0, 1, 100}[i], 11);
        float *k = new_normals(4096 * 64, i == 2 ? 100 : 1, 12);
        float *att = new_weights(&shape, (double[]){0, 2, 12}[i], 13);
        row_buffers got = new_rows(3);
        run_qk(set, &got.rows, q, k, NULL, &shape, 1);
        assert_qk(&got.rows, q, k, NULL, &shape, 1);
        run_probs(set, &got.rows, att, &shape, 1);
        assert_probs(&got.rows, att, &shape, 1);
        free_rows(&got);
        free(att);
        free(k);
        free(q);
    }
}

/**
 * Compares every 97th row of a causal context of 2,100 tokens. A context this
 * long is computed in several groups of rows and several blocks of keys.
 */
static void test_entropy_kernels__a_long_context_agrees(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 2100, 2100, 64, true);
    float *q = new_normals(2100 * 64, 1, 21);
    float *k = new_normals(2100 * 64, 1, 22);
    float *att = new_weights(&shape, 3, 23);
    row_buffers got = new_rows(2100);
    run_qk(set, &got.rows, q, k, NULL, &shape, 0);
    assert_qk(&got.rows, q, k, NULL, &shape, 97);
    run_probs(set, &got.rows, att, &shape, 0);
    assert_probs(&got.rows, att, &shape, 97);
    free_rows(&got);
    free(att);
    free(k);
    free(q);
}

/* --- values ----------------------------------------------------------------
 */

/**
 * Compares rows of 21 weights. Each row alternates two weights that may cause
 * errors, such as 0, NaN, subnormal or very large weights.
 */
static void test_entropy_kernels__odd_weights_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const float pairs[][2] = {
        {0, 0},           {-0.0F, 0},      {1, 0},         {0, 1},
        {1e-41F, 1e-45F}, {1e-9F, 1e-10F}, {0.5F, 3},      {200, 1e4F},
        {1e30F, 1},       {FLT_MAX, 0},    {1e-30F, 1},    {FLT_MIN, 0.25F},
        {-0.5F, 0.5F},    {NAN, 0.5F},     {INFINITY, 1},  {-INFINITY, 1},
        {0.99999994F, 0}, {1.0000001F, 0}, {-1e-3F, 1e-3F}};
    enum { ROWS = sizeof pairs / sizeof pairs[0], KEYS = 21 };
    float att[ROWS * KEYS];
    es_attention_shape shape = SHAPE(1, 1, ROWS, KEYS, 0, false);
    row_buffers got = new_rows(ROWS);
    for (int i = 0; i < ROWS * KEYS; i++)
        att[i] = pairs[i / KEYS][i % KEYS % 2];
    run_probs(set, &got.rows, att, &shape, 1);
    assert_probs(&got.rows, att, &shape, 1);
    assert_true(got.rows.entropy[0] == 0 && !signbit(got.rows.entropy[0]));
    assert_sentinels(&got);
    free_rows(&got);
}

/**
 * If many weights are near the epsilon 1e-9 that is added inside the
 * logarithm, this epsilon dominates the entropy.
 */
static void test_entropy_kernels__weights_near_epsilon_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    static float att[2 * 4096];
    es_attention_shape shape = SHAPE(1, 1, 2, 4096, 0, false);
    row_buffers got = new_rows(2);
    for (int i = 0; i < 2 * 4096; i++)
        att[i] = i < 4096 ? 1e-9F : 3e-10F;
    run_probs(set, &got.rows, att, &shape, 1);
    assert_probs(&got.rows, att, &shape, 1);
    assert_close((double)got.rows.entropy[0], 4096e-9 * -log(2e-9), 5e-7);
    free_rows(&got);
}

/**
 * Replaces the weights of a row by NaN or infinity, one at a time. The kernels
 * must detect and count this weight, and it must not affect the other rows.
 */
static void
test_entropy_kernels__a_nonfinite_weight_stays_in_its_row(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 35, 35, 0, true);
    float *att = new_weights(&shape, 1, 31);
    row_buffers got = new_rows(35);
    for (int j = 0; j < 35; j++) {
        float *weight = &att[34 * 35 + j], saved = *weight;
        *weight = (float[]){NAN, INFINITY, -INFINITY}[j % 3];
        run_probs(set, &got.rows, att, &shape, 1);
        assert_probs(&got.rows, att, &shape, 1);
        assert_int_equal(got.rows.nonfinite[34], 1);
        assert_true(isnan(got.rows.entropy[34]));
        assert_int_equal(got.rows.nonfinite[33], 0);
        *weight = saved;
    }
    free_rows(&got);
    free(att);
}

/**
 * Puts a NaN or an infinity into the keys, one key at a time. The key must not
 * affect the rows that do not see it.
 */
static void
test_entropy_kernels__a_nonfinite_key_stays_in_rows_that_see_it(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 35, 35, 6, true);
    float *q = new_normals(35 * 6, 1, 41), *k = new_normals(35 * 6, 1, 42);
    row_buffers got = new_rows(35);
    for (int j = 0; j < 35; j++) {
        float *number = &k[j * 6 + j % 6], saved = *number;
        *number = (float[]){NAN, INFINITY, -INFINITY}[j % 3];
        run_qk(set, &got.rows, q, k, NULL, &shape, 1);
        assert_qk(&got.rows, q, k, NULL, &shape, 1);
        for (int i = 0; i < 35; i++)
            assert_int_equal(got.rows.nonfinite[i], i < j ? 0 : i + 1);
        *number = saved;
    }
    for (int i = 0; i < 35; i++) {
        float *number = &q[i * 6 + 2], saved = *number;
        *number = i % 2 ? NAN : -INFINITY;
        run_qk(set, &got.rows, q, k, NULL, &shape, 1);
        assert_qk(&got.rows, q, k, NULL, &shape, 1);
        assert_int_equal(got.rows.nonfinite[i], i + 1);
        *number = saved;
    }
    free_rows(&got);
    free(k);
    free(q);
}

/**
 * Tests scores of -inf among finite scores, infinite products, and scores of
 * 1e4 and of 1e37.
 */
static void test_entropy_kernels__huge_scores_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 1, 6, 19, 1, false);
    float q[6] = {1, 1e4F, -1e4F, 1e37F, FLT_MAX, 0}, k[19];
    row_buffers got = new_rows(6);
    for (int j = 0; j < 19; j++)
        k[j] = (float)(j - 9) / 9;
    run_qk(set, &got.rows, q, k, NULL, &shape, 1);
    assert_qk(&got.rows, q, k, NULL, &shape, 1);
    assert_close((double)got.rows.max_logit[2], 1e4, 0);
    assert_close((double)got.rows.entropy[2], 0, 1e-30);
    k[7] = -INFINITY;
    run_qk(set, &got.rows, q, k, NULL, &shape, 1);
    assert_qk(&got.rows, q, k, NULL, &shape, 1);
    assert_int_equal(got.rows.nonfinite[0], 19);
    k[7] = 3; /* q[4] k[7] overflows */
    run_qk(set, &got.rows, q, k, NULL, &shape, 1);
    assert_qk(&got.rows, q, k, NULL, &shape, 1);
    assert_int_equal(got.rows.nonfinite[4], 19);
    assert_int_equal(got.rows.nonfinite[3], 0);
    const float cold[6] = {1, 1, 1, 1e-4F, 1, 1}; /* q[3] k[7] / t overflows */
    run_qk(set, &got.rows, q, k, cold, &shape, 1);
    assert_qk(&got.rows, q, k, cold, &shape, 1);
    assert_int_equal(got.rows.nonfinite[3], 19);
    free_rows(&got);
}

static void test_entropy_kernels__temperatures_scale_scores(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(2, 3, 7, 7, 5, true);
    float *q = new_normals(n_rows(&shape) * 5, 0.1, 51);
    float *k = new_normals(n_key_floats(&shape), 0.1, 52);
    float t[21];
    row_buffers got = new_rows(n_rows(&shape));
    for (int i = 0; i < 21; i++)
        t[i] = 0.05F + (float)i / 7;
    t[1] = 0;
    t[9] = -2;
    t[10] = 1e-4F;
    t[13] = INFINITY;
    t[17] = NAN;
    t[20] = 1e38F;
    run_qk(set, &got.rows, q, k, t, &shape, 1);
    assert_qk(&got.rows, q, k, t, &shape, 1);
    assert_close((double)got.rows.entropy[13], log(7), 1e-6);
    assert_true(isnan(got.rows.entropy[17]) && isnan(got.rows.entropy[38]));
    assert_int_equal(got.rows.nonfinite[17], 4);
    free_rows(&got);
    free(k);
    free(q);
}

/* --- reference files -------------------------------------------------------
 */

/**
 * Compares two arrays by the norm of their difference over the finite entries.
 * Entries must be finite in both arrays or in neither.
 */
static void compare_arrays(const float *got, const float *wanted, size_t n)
{
    double off = 0, norm = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(isfinite(got[i]), isfinite(wanted[i]));
        if (!isfinite(wanted[i]))
            continue;
        finite++;
        off += pow((double)got[i] - (double)wanted[i], 2);
        norm += pow((double)wanted[i], 2);
    }
    assert_close(sqrt(off), 0, 1e-4 * sqrt(norm) + 1e-6 * sqrt((double)finite));
}

static void check_case(const entropy_case *loaded, void *user)
{
    const es_entropy_kernels *set = user;
    const es_attention_shape *shape = &loaded->shape;
    size_t n = n_rows(shape);
    row_buffers got = new_rows(n);
    float entropy[8];
    int64_t odd_weights[8];
    const es_heads heads = {.size = sizeof heads,
                            .entropy = entropy,
                            .nonfinite_weights = odd_weights};
    if (loaded->from_qk) {
        run_qk(set, &got.rows, loaded->q, loaded->k, loaded->temperature, shape,
               2);
        compare_arrays(got.rows.lse, loaded->lse, n);
        assert_qk(&got.rows, loaded->q, loaded->k, loaded->temperature, shape,
                  1);
    } else {
        run_probs(set, &got.rows, loaded->att, shape, 2);
        assert_probs(&got.rows, loaded->att, shape, 1);
    }
    compare_arrays(got.rows.entropy, loaded->row_entropy, n);
    assert_true(shape->n_heads <= 8);
    assert_int_equal(es_rows_reduce(&heads, &got.rows, shape->n_batch,
                                    shape->n_heads, shape->n_queries),
                     ES_OK);
    for (int h = 0; h < shape->n_heads; h++) {
        assert_close((double)entropy[h], (double)loaded->entropy[h], 1e-6);
        assert_int_equal(odd_weights[h], loaded->nonfinite[h]);
    }
    free_rows(&got);
}

static void test_entropy_kernels__reference_files_agree(void **state)
{
    const es_entropy_kernels *set = variant(state);
    each_entropy_case(check_case, (void *)(intptr_t)set);
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_kernels__exp2_is_accurate),
        VARIANT_CASE(test_entropy_kernels__log2_is_accurate),
        VARIANT_CASE(test_entropy_kernels__weights_of_every_shape_agree),
        VARIANT_CASE(test_entropy_kernels__queries_of_every_shape_agree),
        VARIANT_CASE(test_entropy_kernels__wide_heads_agree),
        VARIANT_CASE(test_entropy_kernels__long_rows_agree),
        VARIANT_CASE(test_entropy_kernels__a_long_context_agrees),
        VARIANT_CASE(test_entropy_kernels__odd_weights_agree),
        VARIANT_CASE(test_entropy_kernels__weights_near_epsilon_agree),
        VARIANT_CASE(test_entropy_kernels__a_nonfinite_weight_stays_in_its_row),
        VARIANT_CASE(
            test_entropy_kernels__a_nonfinite_key_stays_in_rows_that_see_it),
        VARIANT_CASE(test_entropy_kernels__huge_scores_agree),
        VARIANT_CASE(test_entropy_kernels__temperatures_scale_scores),
        VARIANT_CASE(test_entropy_kernels__reference_files_agree),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
