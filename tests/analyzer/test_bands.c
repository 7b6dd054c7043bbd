/**
 * Tests the ceiling of the entropy, the choices of the maximum m, and the four
 * bands below m, with closed forms, with values at the edges of bands, and with
 * the published figures.
 */
#include "analyzer/base/text.h"
#include "analyzer/heads/bands.h"
#include "tests/support/paper.h"
#include "tests/support/test.h"

TEST(ceiling_is_the_log_factorial)
{
    double log_factorial = 0;
    for (int n = 1; n <= 2048; n++) {
        log_factorial += log(n);
        double exact = log_factorial / n;
        assert_true(near(es_ceiling(n), exact, 1e-12 * (1 + exact)));
    }
    assert_true(es_ceiling(1) == 0);
    assert_true(near(es_ceiling(2), log(2) / 2, 1e-15));
    assert_true(near(es_ceiling(128), 3.878, 5e-4));
    assert_true(es_ceiling(128) < log(128));
    assert_true(isnan(es_ceiling(0)));
    assert_true(isnan(es_ceiling(-5)));
}

TEST(a_lower_edge_belongs_to_its_band)
{
    const float x[] = {0.0F,   0.999F, 1.0F, 1.999F, 2.0F,
                       2.999F, 3.0F,   3.9F, 4.0F,   -0.0F};
    es_bands bands;
    es_bands_count(&bands, x, 10, 4.0);
    assert_int_equal(bands.counts[0], 3);
    assert_int_equal(bands.counts[1], 2);
    assert_int_equal(bands.counts[2], 2);
    assert_int_equal(bands.counts[3], 3);
    assert_int_equal(bands.n_heads, 10);
}

TEST(values_outside_count_in_the_nearest_band)
{
    const float x[] = {-1e-6F, -3.0F, 4.5F, 1e30F};
    es_bands bands;
    es_bands_count(&bands, x, 4, 4.0);
    assert_int_equal(bands.counts[0], 2);
    assert_int_equal(bands.counts[3], 2);
}

TEST(nonfinite_is_never_low)
{
    const float x[] = {NAN, INFINITY, -INFINITY, es_missing(), 0.5F};
    es_bands bands;
    es_bands_count(&bands, x, 5, 4.0);
    assert_int_equal(bands.counts[0], 1);
    assert_int_equal(bands.nonfinite, 3);
    assert_int_equal(bands.missing, 1);
    assert_int_equal(bands.n_heads, 4);
    assert_true(near(es_bands_fraction(&bands, 0), 0.25, 0));
    assert_true(near(es_bands_balanced(&bands), 0, 0));
}

TEST(without_heads_fractions_are_nan)
{
    const float x[] = {es_missing()};
    es_bands bands;
    es_bands_count(&bands, x, 1, 4.0);
    assert_int_equal(bands.n_heads, 0);
    assert_true(isnan(es_bands_fraction(&bands, 2)));
    assert_true(isnan(es_bands_balanced(&bands)));
    es_bands_count(&bands, x, 0, 4.0);
    assert_int_equal(bands.missing, 0);
    assert_true(isnan(es_bands_fraction(&bands, 0)));
}

TEST(without_a_maximum_all_heads_are_low)
{
    const float x[] = {0.0F, 0.0F, NAN};
    const double edges[] = {NAN, 0.0, -1.0};
    for (size_t i = 0; i < 3; i++) {
        es_bands bands;
        es_bands_count(&bands, x, 3, edges[i]);
        assert_int_equal(bands.counts[0], 2);
        assert_int_equal(bands.nonfinite, 1);
    }
}

TEST(nonfinite_is_never_the_largest)
{
    const float x[] = {NAN, -2.0F, -1.5F, es_missing(), INFINITY, -INFINITY};
    assert_true(near(es_largest_finite(x, 6), -1.5, 0));
    assert_true(isnan(es_largest_finite(x, 1)));
    assert_true(isnan(es_largest_finite(x, 0)));
    assert_true(isnan(es_largest_finite(x + 3, 3)));
}

TEST(policies_are_parsed)
{
    static const char *const names[] = {"observed", "run", "ceiling", "logT"};
    es_max max;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(es_max_parse(&max, names[i]), ES_OK);
        assert_int_equal(max.policy, i);
        assert_string_equal(es_max_name(max.policy), names[i]);
    }
    assert_int_equal(es_max_parse(&max, "3.5"), ES_OK);
    assert_int_equal(max.policy, ES_MAX_NUMBER);
    assert_true(near(max.number, 3.5, 0));
    assert_string_equal(es_max_name(max.policy), "number");
}

TEST(bad_policies_are_usage_errors)
{
    static const char *const bad[] = {"",    "logt", "0",    "-1",    "nan",
                                      "inf", "3x",   "run ", "1e999", "number"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        es_max max = {.policy = ES_MAX_RUN};
        assert_int_equal(es_max_parse(&max, bad[i]), ES_EUSAGE);
        assert_non_null(strstr(es_message(), "observed"));
        assert_int_equal(max.policy, ES_MAX_RUN);
    }
}

TEST(each_policy_has_its_value)
{
    const double expected[] = {3.0, 2.0, 4.5, log(128), 1.25};
    for (int i = 0; i <= ES_MAX_NUMBER; i++) {
        es_max max = {.policy = (es_max_policy)i, .number = 1.25};
        assert_true(near(es_max_value(&max, 3, 2, 4.5, 128), expected[i], 0));
        bool needs_ctx = i == ES_MAX_CEILING || i == ES_MAX_LOGT;
        assert_true(isnan(es_max_value(&max, 3, 2, NAN, 0)) == needs_ctx);
    }
}

/* Returns by how many of the 144 heads `count` differs from the nearest count
   whose percentage is printed as `percent`. */
static int heads_off(size_t count, int percent)
{
    int best = ES_PAPER_VALUES;
    for (int n = 0; n <= ES_PAPER_VALUES; n++) {
        int distance = abs(n - (int)count);
        if (lround(100.0 * n / ES_PAPER_VALUES) == percent && distance < best)
            best = distance;
    }
    return best;
}

/* The expected shares of heads, in percent, are from the published bar chart
   and, for SM, from the text of the paper; -1 means that no share is published.
   The entropies were read off a figure with two decimals; this rounding moves
   at most two of 144 heads to another band. */
TEST(published_models_have_their_shares)
{
    static const struct {
        const char *arch;
        int percent[ES_N_BANDS];
    } published[] = {
        {"SM+LN+G", {4, 14, 74, 8}}, {"SM+LN+R", {6, 16, 74, 3}},
        {"SM+G", {1, 18, 23, 58}},   {"SM+R", {3, 20, 53, 24}},
        {"SM", {33, -1, -1, 45}},
    };
    float values[5][ES_PAPER_VALUES];
    double observed = NAN;
    for (size_t i = 0; i < 5; i++) {
        es_paper_heatmap(values[i], published[i].arch);
        observed =
            fmax(observed, es_largest_finite(values[i], ES_PAPER_VALUES));
    }
    assert_true(near(observed, 3.87, 1e-6));
    for (size_t i = 0; i < 5; i++) {
        es_bands bands;
        es_bands_count(&bands, values[i], ES_PAPER_VALUES, observed);
        assert_int_equal(bands.n_heads, 144);
        for (int b = 0; b < ES_N_BANDS; b++) {
            assert_true(published[i].percent[b] < 0 ||
                        heads_off(bands.counts[b], published[i].percent[b]) <=
                            2);
        }
    }
}
