/**
 * Tests statistics over the seeds of two configurations: compares them with
 * scipy's results, and checks the reasons for missing statistics.
 */
#include "analyzer/statistics/inference.h"
#include "tests/support/compared.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

/* The compared files of the current test. */
static es_compared_files of;
static json_t *root; /* JSON of the comparison; NULL before a comparison */

static void release(void)
{
    if (root)
        es_compared_free(&of);
    json_decref(root);
    root = NULL;
}

static int clean(void **state)
{
    release();
    return es_folder_remove(state);
}

/* Checks that a number is missing. */
static void missing_at(const char *place)
{
    char member[128];
    snprintf(member, sizeof member, "%s_state", place);
    assert_string_equal(es_json_text_at(root, member), "missing");
}

/* Compares the seeds of two configurations, given the logarithms of their final
 * perplexities. */
static void compare_evidence(void **state, const float *a, size_t n_a,
                             const float *b, size_t n_b)
{
    const char *files[8];
    char names[8][32];
    for (size_t i = 0; i < n_a + n_b; i++) {
        const float end = i < n_a ? a[i] : b[i - n_a];
        snprintf(names[i], sizeof names[i], "%zu.db", i);
        files[i] = names[i];
        const es_compared_written run = {.file = names[i],
                                         .name = names[i],
                                         .arch = i < n_a ? "SM+LN" : "SM",
                                         .n_layer = 2,
                                         .n_head = 3,
                                         .seed = (int64_t)i,
                                         .low = i < n_a ? 1.5F : 1,
                                         .evals = {5, 4, 3, end},
                                         .logit = 50};
        es_compare_write(state, &run);
    }
    release();
    es_compare_files(&of, state, files, n_a + n_b, files[n_a], ES_STEP_LAST);
    root = es_compared_parsed(&of);
}

/* The expected values come from scipy 1.17.1, ttest_ind(equal_var=False) and
 * t.interval, for float32(exp([1.75, 1.25, 1.5])) and float32(exp([2, 2.25])).
 * seeds_p is 1/10: the five values can be divided into groups of three and two
 * in 10 ways, and only this division has so large a distance. */
TEST(seeds_are_tested_against_those_of_the_baseline)
{
    const float a[] = {1.75F, 1.25F, 1.5F}, b[] = {2, 2.25F};
    compare_evidence(state, a, 3, b, 2);
    if (!es_stats_gsl()) {
        assert_string_equal(
            es_json_text_at(root, "configurations.0.interval.reason"),
            "built without GSL");
        return;
    }
    es_json_assert_near(root, "configurations.0.interval.low", 1.75593907);
    es_json_assert_near(root, "configurations.0.interval.high", 7.395150758);
    es_json_assert_near(root, "configurations.0.evidence.welch_t",
                        -3.122363062);
    es_json_assert_near(root, "configurations.0.evidence.welch_freedom",
                        1.795561273);
    es_json_assert_near(root, "configurations.0.evidence.welch_p",
                        0.1019138383);
    es_json_assert_near(root, "configurations.0.evidence.welch_p_holm",
                        0.1019138383);
    es_json_assert_near(root, "configurations.0.evidence.ppl_low",
                        -9.811045291);
    es_json_assert_near(root, "configurations.0.evidence.ppl_high",
                        2.085343164);
    es_json_assert_near(root, "configurations.0.evidence.hedges_g",
                        -2.225885991);
    es_json_assert_near(root, "configurations.0.evidence.seeds_p", 0.1);
    assert_true(
        json_is_null(es_json_at(root, "configurations.0.evidence.ppl_reason")));
    assert_true(json_number_value(es_json_at(
                    root, "configurations.0.evidence.layers_p")) < 0.05);
}

TEST(missing_statistics_have_a_reason)
{
    const float same[] = {2, 2, 2}, nan[] = {1.5F, NAN};
    if (!es_stats_gsl())
        es_skip("built without GSL");
    compare_evidence(state, same, 3, same, 2);
    missing_at("configurations.0.interval.low");
    assert_string_equal(
        es_json_text_at(root, "configurations.0.interval.reason"),
        "equal values");
    missing_at("configurations.0.evidence.welch_p");
    missing_at("configurations.0.evidence.hedges_g");
    es_json_assert_near(root, "configurations.0.evidence.ppl_difference", 0);
    assert_string_equal(
        es_json_text_at(root, "configurations.0.evidence.ppl_reason"),
        "equal values");
    compare_evidence(state, same, 3, nan, 2); /* one run has a NaN loss */
    assert_string_equal(
        es_json_text_at(root, "configurations.1.interval.reason"),
        "few values");
    missing_at("configurations.0.evidence.seeds_p");
    missing_at("configurations.0.evidence.ppl_difference");
    assert_string_equal(
        es_json_text_at(root, "configurations.0.evidence.ppl_reason"),
        "few values");
}

TEST_EACH(es_folder_make, clean)
