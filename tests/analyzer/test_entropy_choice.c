/* Tests the choice of kernels: the fastest supported variant is used, and
   faulty kernels are detected. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static void test_entropy_choice__all_sets_agree_with_the_reference(void **state)
{
    size_t n;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n);
    (void)state;
    assert_int_equal(n, 4);
    assert_int_equal(all[n - 1]->needs, ES_VECTORS_PLAIN);
    for (size_t i = 0; i < n; i++)
        if (es_vectors_supported(all[i]->needs))
            assert_true(es_entropy_kernels_agree(all[i]));
}

/* Other test programs test only the variants that this processor supports. This
 * test prints the names of the variants that are skipped. */
static void test_entropy_choice__skipped_kernels_are_named(void **state)
{
    size_t n;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n);
    (void)state;
    for (size_t i = 0; i < n; i++)
        if (!es_vectors_supported(all[i]->needs)) {
            print_message("# skipped: this processor has no %s\n",
                          all[i]->name);
            skip();
        }
}

static void
test_entropy_choice__the_fastest_supported_set_is_chosen(void **state)
{
    size_t n, i = 0;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n);
    (void)state;
    while (!es_vectors_supported(all[i]->needs))
        i++;
    assert_ptr_equal(es_entropy_kernels_choose(all, n), all[i]);
    assert_string_equal(es_entropy_variant(), all[i]->name);
    assert_ptr_equal(es_entropy_kernels_choose(all + n - 1, 1), all[n - 1]);
}

/* Each of the following kernels has one fault in a single row, such as a faulty
   compiler or machine might cause. */

static void probs_one_row_off(const es_entropy_part *part)
{
    es_entropy_kernels_plain.probs(part);
    part->rows.floats[ES_ROW_ENTROPY][part->end - 1 - part->first] += 2e-4F;
}

static void probs_counts_nothing(const es_entropy_part *part)
{
    es_entropy_kernels_plain.probs(part);
    for (int i = 0; i < part->end - part->first; i++)
        part->rows.nonfinite[i] = 0;
}

static void probs_hides_nan(const es_entropy_part *part)
{
    es_entropy_kernels_plain.probs(part);
    for (int i = 0; i < part->end - part->first; i++)
        if (isnan(part->rows.floats[ES_ROW_ENTROPY][i]))
            part->rows.floats[ES_ROW_ENTROPY][i] = 0;
}

static void probs_sees_masked(const es_entropy_part *part)
{
    es_entropy_keys keys = *part->keys;
    es_entropy_part all = *part;
    keys.causal = false;
    all.keys = &keys;
    es_entropy_kernels_plain.probs(&all);
}

static void probs_does_nothing(const es_entropy_part *part)
{
    (void)part;
}

static void qk_one_row_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_ENTROPY][0] *= 1.001F;
    part->rows.floats[ES_ROW_ENTROPY][0] += 1e-3F;
}

static void qk_lse_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_LSE][(part->end - part->first) / 2] += 1e-3F;
}

static void qk_logit_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_MAX_LOGIT][1] += 1e-3F;
}

static void qk_sink_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_SINK][1] += 1e-3F;
}

static void qk_missing_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_MISSING][3] += 1e-3F;
}

static void qk_forgets_the_learnt_sink(const es_entropy_part *part,
                                       float *scratch)
{
    es_entropy_part without = *part;
    without.sink_logit = NULL;
    es_entropy_kernels_plain.qk(&without, scratch);
}

static void qk_distance_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_DISTANCE][part->end - 1 - part->first] *= 1.0001F;
}

static void qk_distance_signed(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    for (int i = 0; i < part->end - part->first; i++)
        part->rows.floats[ES_ROW_DISTANCE][i] =
            -part->rows.floats[ES_ROW_DISTANCE][i];
}

static void qk_top_off(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    part->rows.floats[ES_ROW_TOP][2] -= 1e-3F;
}

static void qk_counts_nothing(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    for (int i = 0; i < part->end - part->first; i++)
        part->rows.nonfinite[i] = 0;
}

static void qk_hides_nan(const es_entropy_part *part, float *scratch)
{
    es_entropy_kernels_plain.qk(part, scratch);
    for (int i = 0; i < part->end - part->first; i++)
        if (isnan(part->rows.floats[ES_ROW_ENTROPY][i]))
            part->rows.floats[ES_ROW_ENTROPY][i] = 0;
}

static void qk_drops_last_key(const es_entropy_part *part, float *scratch)
{
    es_entropy_keys keys = *part->keys;
    es_entropy_part fewer = *part;
    keys.n--;
    fewer.keys = &keys;
    es_entropy_kernels_plain.qk(&fewer, scratch);
}

static void test_entropy_choice__faulty_kernels_are_detected(void **state)
{
    void (*probs[])(const es_entropy_part *) = {
        probs_one_row_off, probs_counts_nothing, probs_hides_nan,
        probs_sees_masked, probs_does_nothing};
    void (*qk[])(const es_entropy_part *, float *) = {
        qk_one_row_off,    qk_lse_off,         qk_logit_off,
        qk_sink_off,       qk_missing_off,     qk_forgets_the_learnt_sink,
        qk_distance_off,   qk_distance_signed, qk_top_off,
        qk_counts_nothing, qk_hides_nan,       qk_drops_last_key};
    const int n_probs = sizeof probs / sizeof probs[0];
    const int n = n_probs + (int)(sizeof qk / sizeof qk[0]);
    (void)state;
    for (int i = 0; i < n; i++) {
        es_entropy_kernels faulty = es_entropy_kernels_plain;
        if (i < n_probs)
            faulty.probs = probs[i];
        else
            faulty.qk = qk[i - n_probs];
        const es_entropy_kernels *const sets[] = {&faulty,
                                                  &es_entropy_kernels_plain};
        assert_false(es_entropy_kernels_agree(&faulty));
        assert_ptr_equal(es_entropy_kernels_choose(sets, 2),
                         &es_entropy_kernels_plain);
    }
    assert_true(es_entropy_kernels_agree(&es_entropy_kernels_plain));
}

static void *read_variant(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)es_entropy_variant();
}

static void test_entropy_choice__many_threads_may_be_first(void **state)
{
    pthread_t threads[16];
    (void)state;
    for (int i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_variant, NULL),
                         0);
    for (int i = 0; i < 16; i++) {
        void *name;
        assert_int_equal(pthread_join(threads[i], &name), 0);
        assert_ptr_equal(name, es_entropy_variant());
    }
}

static void test_entropy_choice__scratch_fits_every_shape(void **state)
{
    (void)state;
    for (int width = 1; width <= ES_QK_WIDTH_MAX; width++)
        for (int n_keys = 1; n_keys < 1 << 20; n_keys = n_keys * 3 + 1) {
            es_attention_shape shape =
                SHAPE(1, 1, 1 << 20, n_keys, width, true);
            int block = es_qk_block(n_keys, width);
            assert_true(es_qk_scratch(&shape) * sizeof(float) < 1 << 20);
            assert_true(block % 16 == 0 && block > 0);
            assert_true(block >= n_keys || block % ES_QK_CHUNK == 0 ||
                        block < ES_QK_CHUNK);
        }
}

static void test_entropy_choice__bad_shapes_are_refused(void **state)
{
    const es_attention_shape good = SHAPE(1, 4, 1, 1, 1, true);
    es_attention_shape bad[13];
    row_buffers got = new_rows(4), untouched = new_rows(4);
    const float x = 1;
    const es_entropy_input in = {.data = &x};
    (void)state;
    for (int i = 0; i < 13; i++)
        bad[i] = good;
    bad[0].n_batch = 0;
    bad[1].n_heads = -1;
    bad[2].n_queries = 0;
    bad[3].n_keys = -1;
    bad[4].n_keys = INT_MAX;
    bad[5].n_queries = (1 << 30) + 1;
    bad[6].n_kv_heads = 3;
    bad[7].n_kv_heads = -2;
    bad[8].n_kv_heads = 8;
    bad[9].query_offset = INT_MIN;
    bad[10].query_offset = INT_MAX;
    bad[11].head_width = 0;
    bad[12].head_width = -1;
    for (int i = 0; i < 13; i++) {
        assert_int_equal(es_entropy_probs(&got.rows, &in, &bad[i], 1),
                         i < 11 ? ES_EARGUMENT : ES_OK);
        if (i < 11)
            assert_same_rows(&got, &untouched);
        assert_int_equal(
            es_qk_statistics(&got.rows, NULL, &in, &in, &bad[i], 1),
            ES_EARGUMENT);
    }
    assert_string_equal(es_message(), "attention entropy: a size is below 1");
    free_rows(&untouched);
    free_rows(&got);
}

/** The public functions must give the same results as the chosen kernels. */
static void
test_entropy_choice__public_functions_use_the_chosen_set(void **state)
{
    es_attention_shape shape = SHAPE(2, 1, 40, 40, 8, true);
    float *q = new_normals(2 * 40 * 8, 1, 1),
          *k = new_normals(2 * 40 * 8, 1, 2);
    float *att = new_normals(2 * 40 * 40, 0.1, 3);
    const es_entropy_input weights = weights_at(att, &shape);
    const es_entropy_input queries = queries_at(q, &shape);
    const es_entropy_input keys = keys_at(k, &shape);
    row_buffers got = new_rows(80);
    (void)state;
    for (int i = 0; i < 2 * 40 * 40; i++)
        att[i] = fabsf(att[i]);
    assert_int_equal(es_entropy_probs(&got.rows, &weights, &shape, 0), ES_OK);
    assert_probs(&got.rows, att, &shape, 1);
    assert_int_equal(
        es_qk_statistics(&got.rows, NULL, &queries, &keys, &shape, 0), ES_OK);
    assert_qk(&got.rows, q, k, NULL, &shape, 1);
    assert_sentinels(&got);
    free_rows(&got);
    free(att);
    free(k);
    free(q);
}

int main(void)
{
    /* The test with many threads comes first, because the kernels are chosen at
       the first call in the process. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy_choice__many_threads_may_be_first),
        cmocka_unit_test(
            test_entropy_choice__all_sets_agree_with_the_reference),
        cmocka_unit_test(test_entropy_choice__skipped_kernels_are_named),
        cmocka_unit_test(
            test_entropy_choice__the_fastest_supported_set_is_chosen),
        cmocka_unit_test(test_entropy_choice__faulty_kernels_are_detected),
        cmocka_unit_test(test_entropy_choice__scratch_fits_every_shape),
        cmocka_unit_test(test_entropy_choice__bad_shapes_are_refused),
        cmocka_unit_test(
            test_entropy_choice__public_functions_use_the_chosen_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
