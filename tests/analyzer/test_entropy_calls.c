/* Tests which arguments es_qk_statistics accepts and refuses, and the
   statistics that it returns if the input is not finite, is missing, or is
   difficult for float32. */
#include "analyzer/base/value.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { B = 2, H = 3, T = 9, D = 5, N = B * H * T };

/** The arguments of a call on random numbers: B=2 H=3 T=S=9 D=5, causal. */
typedef struct call {
    es_attention_shape shape;
    float q[N * D], k[N * D];
    float entropy[N], missing[N], mean[H], mean_missing[H], distance[H];
    int64_t finite[H], odd[H];
    es_entropy_input queries, keys;
    es_rows rows;
    es_heads heads;
} call;

static void start_call(call *c)
{
    const es_attention_shape shape = SHAPE(B, H, T, T, D, true);
    uint64_t seed = 1;
    *c = (call){.shape = shape};
    for (int i = 0; i < N * D; i++) {
        c->q[i] = (float)random_normal(&seed);
        c->k[i] = (float)random_normal(&seed);
    }
    for (int i = 0; i < N; i++)
        c->entropy[i] = c->missing[i] = -7;
    c->queries = queries_at(c->q, &shape);
    c->keys = keys_at(c->k, &shape);
    c->rows = (es_rows){
        .size = sizeof c->rows, .entropy = c->entropy, .missing = c->missing};
    c->heads = (es_heads){.size = sizeof c->heads,
                          .entropy = c->mean,
                          .missing = c->mean_missing,
                          .distance = c->distance,
                          .finite_rows = c->finite,
                          .nonfinite_rows = c->odd};
}

static es_status run(call *c)
{
    return es_qk_statistics(&c->rows, &c->heads, &c->queries, &c->keys,
                            &c->shape, 2);
}

static void assert_refused(call *c, const char *word)
{
    assert_int_equal(run(c), ES_EARGUMENT);
    assert_non_null(strstr(es_message(), word));
    for (int i = 0; i < N; i++)
        assert_true(c->entropy[i] == -7);
    start_call(c);
}

static void
test_entropy_calls__structs_of_other_header_versions_are_accepted(void **state)
{
    /* A struct with one more member, as a newer header would define it. */
    struct {
        es_attention_shape shape;
        int64_t more;
    } newer = {.more = 0};
    call old, c;
    (void)state;
    start_call(&c);
    assert_int_equal(run(&c), ES_OK);
    start_call(&old);
    /* The struct of an older version without learnt sinks. The library must not
     * read the members that follow in this version. */
    old.shape.size = offsetof(es_attention_shape, sink_logits);
    old.shape.time_limit = -1;
    old.rows.size = offsetof(es_rows, missing);
    assert_int_equal(run(&old), ES_OK);
    assert_memory_equal(old.entropy, c.entropy, sizeof c.entropy);
    assert_true(old.missing[0] == -7 && c.missing[0] == 0);
    newer.shape = c.shape;
    newer.shape.size = sizeof newer;
    assert_int_equal(
        es_qk_statistics(&c.rows, NULL, &c.queries, &c.keys, &newer.shape, 1),
        ES_OK);
    newer.more = 1;
    assert_int_equal(
        es_qk_statistics(&c.rows, NULL, &c.queries, &c.keys, &newer.shape, 1),
        ES_EARGUMENT);
    assert_non_null(strstr(es_message(), "install a newer library"));
}

static void test_entropy_calls__arguments_out_of_range_are_refused(void **state)
{
    const int32_t falling[] = {0, 9, 3}, late[] = {1, 3, 9},
                  long_[] = {0, 3, 10};
    const int32_t negative[] = {3, -1};
    call c;
    (void)state;
    start_call(&c);
    c.shape.size = 0;
    assert_refused(&c, "sizeof (es_attention_shape)");
    c.heads.size = 3;
    assert_refused(&c, "sizeof (es_heads)");
    c.shape.scale = -1;
    assert_refused(&c, "scale");
    c.shape.scale = 1e-31;
    assert_refused(&c, "scale is 1e-31");
    c.shape.scale = (double)INFINITY;
    assert_refused(&c, "scale is inf");
    c.shape.softcap = (double)NAN;
    assert_refused(&c, "softcap");
    c.shape.softcap = 2e30;
    assert_refused(&c, "softcap");
    c.keys.data = NULL;
    assert_refused(&c, "an input is NULL");
    c.queries.data = NULL;
    assert_refused(&c, "an input is NULL");
    c.shape.time_limit = (double)INFINITY;
    assert_refused(&c, "time_limit");
    c.shape.window = -2;
    assert_refused(&c, "window");
    c.shape.query_starts = falling;
    assert_refused(&c, "query_starts");
    c.shape.query_starts = late;
    assert_refused(&c, "query_starts");
    c.shape.query_starts = long_;
    assert_refused(&c, "query_starts");
    c.shape.key_starts = falling;
    assert_refused(&c, "set both");
    c.shape.key_lengths = negative;
    assert_refused(&c, "sequence 1");
    c.queries.type = (es_entropy_type)7;
    assert_refused(&c, "type 7");
    c.shape.window = 3;
    assert_int_equal(es_entropy_probs(&c.rows, &c.queries, &c.shape, 1),
                     ES_EARGUMENT);
}

static void test_entropy_calls__missing_arguments_are_refused(void **state)
{
    call c;
    (void)state;
    start_call(&c);
    assert_int_equal(
        es_qk_statistics(&c.rows, NULL, NULL, &c.keys, &c.shape, 1),
        ES_EARGUMENT);
    assert_int_equal(
        es_qk_statistics(&c.rows, NULL, &c.queries, NULL, &c.shape, 1),
        ES_EARGUMENT);
    assert_int_equal(
        es_qk_statistics(&c.rows, NULL, &c.queries, &c.keys, NULL, 1),
        ES_EARGUMENT);
    assert_int_equal(es_entropy_probs(&c.rows, NULL, &c.shape, 1),
                     ES_EARGUMENT);
    assert_int_equal(es_entropy_probs(NULL, &c.queries, &c.shape, 1),
                     ES_EARGUMENT);
    assert_true(c.entropy[0] == -7);
    /* A call without any output computes nothing and succeeds. */
    assert_int_equal(
        es_qk_statistics(NULL, NULL, &c.queries, &c.keys, &c.shape, 1), ES_OK);
}

/** If all sequences are empty, there are no rows, and the statistics of all
 *  heads are missing. */
static void test_entropy_calls__empty_sequences_are_missing(void **state)
{
    const int32_t starts[B + 1] = {0};
    call c;
    (void)state;
    start_call(&c);
    c.shape.query_starts = starts;
    assert_int_equal(run(&c), ES_OK);
    for (int i = 0; i < H * T; i++)
        assert_true(es_is_missing(c.entropy[i]));
    for (int h = 0; h < H; h++)
        assert_true(es_is_missing(c.mean[h]) && c.finite[h] == 0);
}

static void test_entropy_calls__late_results_are_missing(void **state)
{
    call c;
    (void)state;
    start_call(&c);
    c.shape.time_limit = 1e-12;
    assert_int_equal(run(&c), ES_DONE);
    for (int i = 0; i < N; i++)
        assert_true(es_is_missing(c.entropy[i]));
    for (int h = 0; h < H; h++) {
        assert_true(es_is_missing(c.mean[h]) && es_is_missing(c.distance[h]));
        assert_true(c.finite[h] == 0 && c.odd[h] == 0);
    }
    c.shape.time_limit = 1e6;
    assert_int_equal(run(&c), ES_OK);
    assert_true(isfinite(c.mean[0]) && c.finite[0] == B * T);
}

/** Head 0 has no sink, head 1 has a sink, head 2 has an invalid sink. */
static void test_entropy_calls__a_sink_takes_its_share_or_all(void **state)
{
    float broken[] = {-INFINITY, 0.5F, INFINITY};
    call plain, c;
    (void)state;
    start_call(&plain);
    assert_int_equal(run(&plain), ES_OK);
    for (int i = 0; i < 2; i++) {
        start_call(&c);
        c.shape.sink_logits = broken;
        assert_int_equal(run(&c), ES_OK);
        assert_memory_equal(c.entropy, plain.entropy, 2 * T * sizeof(float));
        assert_true(c.mean_missing[0] == 0 && plain.mean_missing[1] == 0);
        assert_true(c.mean_missing[1] > 0.05F && c.mean_missing[1] < 0.9F);
        assert_true(isnan(c.mean[2]) && !es_is_missing(c.mean[2]));
        assert_true(isnan(c.missing[2 * T]) && c.odd[2] == B * T);
        broken[2] = NAN;
    }
}

/**
 * A softcap turns an infinite product into a finite score, but the row must
 * still be counted as non-finite.
 */
static void
test_entropy_calls__a_softcap_does_not_hide_an_infinity(void **state)
{
    call c;
    (void)state;
    start_call(&c);
    c.shape.softcap = 20;
    /* Make one number of key 4 in head 1 of the first sequence infinite. */
    c.k[(T + 4) * D] = INFINITY;
    assert_int_equal(run(&c), ES_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(isnan(c.entropy[i]), i >= T + 4 && i < 2 * T);
    assert_true(c.odd[1] == T - 4 && c.finite[1] == (B - 1) * T + 4);
    assert_true(isfinite(c.mean[1]));
}

/**
 * The statistics of heads can be requested without those of rows. They have the
 * same bits for every number of threads.
 */
static void test_entropy_calls__heads_are_the_same_without_rows(void **state)
{
    call c, alone;
    (void)state;
    start_call(&c);
    start_call(&alone);
    assert_int_equal(run(&c), ES_OK);
    assert_int_equal(es_qk_statistics(NULL, &alone.heads, &alone.queries,
                                      &alone.keys, &alone.shape, 1),
                     ES_OK);
    assert_memory_equal(c.mean, alone.mean, sizeof c.mean);
    assert_memory_equal(c.distance, alone.distance, sizeof c.distance);
    assert_memory_equal(c.finite, alone.finite, sizeof c.finite);
    for (int i = 0; i < N; i++)
        assert_true(alone.entropy[i] == -7);
}

static void test_entropy_calls__a_forked_child_can_call(void **state)
{
    call c;
    int status;
    (void)state;
    start_call(&c);
    assert_int_equal(run(&c), ES_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        call other;
        start_call(&other);
        _exit(run(&other) != ES_OK ||
              memcmp(other.entropy, c.entropy, sizeof c.entropy) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- difficult for float32 ------------------------------------------------ */

enum { LONG = 300, WIDTH = 64 };

/**
 * Returns the largest difference between the entropies of a kernel variant and
 * those of the reference.
 */
static double deviation(const es_entropy_kernels *set, const float *q,
                        const float *k)
{
    const es_attention_shape shape = SHAPE(1, 1, LONG, LONG, WIDTH, true);
    row_buffers got = new_rows(LONG);
    double most = 0;
    run_qk(set, &got.rows, q, k, NULL, &shape, 2);
    const es_entropy_input in = queries_at(q, &shape),
                           keys = keys_at(k, &shape);
    for (size_t i = 0; i < LONG; i++) {
        const es_ref_row row = reference_row(&in, &keys, NULL, &shape, i);
        /* The reference adds the papers' 1e-9 to the weight inside the
         * logarithm; the kernels do not. */
        most = fmax(most, fabs((double)got.rows.entropy[i] -
                               row.values[ES_ROW_ENTROPY]) -
                              (double)(i + 1) * 1e-9);
    }
    free_rows(&got);
    return most;
}

static void test_entropy_calls__large_scores_are_exact(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (double scale = 0.1; scale < 2e5; scale *= 4) {
        float *q = new_normals(LONG * WIDTH, scale, 1);
        float *k = new_normals(LONG * WIDTH, 1, 2);
        assert_close(deviation(set, q, k), 0, 1e-5);
        free(k);
        free(q);
    }
}

/**
 * All scores share a large common part, which makes the rounding of their
 * differences coarse.
 */
static void
test_entropy_calls__a_massive_channel_costs_no_accuracy(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (int i = 0; i < 12; i++) {
        const float size = (float[]){10, 30, 100, 1000}[i % 4];
        float *q = new_normals(LONG * WIDTH, (double[]){0.3, 1, 10}[i / 4], 3);
        float *k = new_normals(LONG * WIDTH, 1, 4);
        for (int j = 0; j < LONG; j++) {
            q[j * WIDTH] += size;
            k[j * WIDTH] += size;
        }
        assert_close(deviation(set, q, k), 0, 1e-5);
        free(k);
        free(q);
    }
}

/**
 * Some channels are large in the queries and other channels are large in the
 * keys, so the logits are small compared with the rounding errors of the
 * individual products.
 */
static void test_entropy_calls__large_channels_apart_keep_logits(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape shape = SHAPE(1, 1, LONG, LONG, WIDTH, true);
    for (double scale = 0.1; scale < 40; scale *= 3) {
        float *q = new_normals(LONG * WIDTH, scale, 7);
        float *k = new_normals(LONG * WIDTH, 1, 8);
        for (int j = 0; j < LONG; j++) {
            q[j * WIDTH + 3] *= 100;
            k[j * WIDTH + 5] *= 100;
        }
        row_buffers got = new_rows(LONG);
        run_qk(set, &got.rows, q, k, NULL, &shape, 1);
        const es_entropy_input in = queries_at(q, &shape);
        const es_entropy_input keys = keys_at(k, &shape);
        for (size_t i = 0; i < LONG; i++) {
            const es_ref_row row = reference_row(&in, &keys, NULL, &shape, i);
            const double size = 1 + fabs(row.values[ES_ROW_MAX_LOGIT]);
            assert_close((double)got.rows.max_logit[i],
                         row.values[ES_ROW_MAX_LOGIT], 1e-5 * size);
            assert_close((double)got.rows.lse[i], row.values[ES_ROW_LSE],
                         1e-5 * size);
        }
        assert_close(deviation(set, q, k), 0, 1e-5);
        free_rows(&got);
        free(k);
        free(q);
    }
}

/**
 * Tests rows with an entropy of about 0.01, as in a collapse, for scores of
 * every size. Either the score of one key is 6.5 above all other scores, which
 * are equal, or the other scores are spread out.
 */
static void test_entropy_calls__a_collapsing_row_is_exact(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (float common = 0; common < 3e4F; common = 4 * common + 10) {
        float *q = new_normals(LONG * WIDTH, 0, 5);
        float *k = new_normals(LONG * WIDTH, 0.5, 6);
        for (int j = 0; j < LONG; j++) {
            q[j * WIDTH] = 8;
            q[j * WIDTH + 1] = 1;
            k[j * WIDTH] = j == 0 ? 13 : (float)(j % 3);
            k[j * WIDTH + 1] = 8 * common;
        }
        const es_attention_shape shape = SHAPE(1, 1, LONG, LONG, WIDTH, true);
        const es_entropy_input in = queries_at(q, &shape);
        const es_entropy_input keys = keys_at(k, &shape);
        const double e = reference_row(&in, &keys, NULL, &shape, LONG - 1)
                             .values[ES_ROW_ENTROPY];
        assert_true(e > 0.005 && e < 0.05);
        assert_close(deviation(set, q, k), 0, 1e-5);
        free(k);
        free(q);
    }
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_calls__large_scores_are_exact),
        VARIANT_CASE(test_entropy_calls__a_massive_channel_costs_no_accuracy),
        VARIANT_CASE(test_entropy_calls__large_channels_apart_keep_logits),
        VARIANT_CASE(test_entropy_calls__a_collapsing_row_is_exact),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_entropy_calls__structs_of_other_header_versions_are_accepted),
        cmocka_unit_test(
            test_entropy_calls__arguments_out_of_range_are_refused),
        cmocka_unit_test(test_entropy_calls__missing_arguments_are_refused),
        cmocka_unit_test(test_entropy_calls__empty_sequences_are_missing),
        cmocka_unit_test(test_entropy_calls__late_results_are_missing),
        cmocka_unit_test(test_entropy_calls__a_sink_takes_its_share_or_all),
        cmocka_unit_test(
            test_entropy_calls__a_softcap_does_not_hide_an_infinity),
        cmocka_unit_test(test_entropy_calls__heads_are_the_same_without_rows),
        cmocka_unit_test(test_entropy_calls__a_forked_child_can_call),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
