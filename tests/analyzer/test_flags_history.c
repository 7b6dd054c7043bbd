/** Tests the median of a layer's past mean entropies, which the flag collapse
 *  uses. */
#include "analyzer/flags/flags_internal.h"
#include "tests/support/chance.h"
#include "tests/support/test.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(the_median_is_exact_to_a_64th)
{
    double values[300];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        es_history history = {.n = 0};
        chance_seed(seed);
        assert_true(isnan(es_history_median(&history)));
        for (size_t n = 0; n < 300; n++) {
            double unit = (double)(chance_bits() >> 11) / 0x1p53;
            values[n] = exp2(-19.5 + 23.4 * unit);
            es_history_add(&history, values[n]);
            qsort(values, n + 1, sizeof *values, ascending);
            double exact = values[n / 2];
            assert_true(fabs(es_history_median(&history) - exact) <=
                        exact / 64);
        }
    }
}

TEST(the_median_is_cut_at_both_ends)
{
    es_history history = {.n = 0};
    es_history_add(&history, 0.0);
    assert_true(es_history_median(&history) == 0);
    es_history_add(&history, -3.0);
    es_history_add(&history, 1e-30);
    assert_true(es_history_median(&history) == 0);
    for (int i = 0; i < 4; i++)
        es_history_add(&history, 1e30);
    double top = es_history_median(&history);
    assert_true(top > 15.5 && top < 16);
}
