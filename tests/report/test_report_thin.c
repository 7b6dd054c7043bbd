/* Tests that thinning a long series for a report keeps the right samples. Also
 * tests how the number of values on a page is divided among series, and base64.
 */
#include "cli/report/report.h"
#include "cli/report/thin.h"
#include "tests/support/test.h"

enum { VALUES = 3 };

/* Unusual properties of a test series whose values otherwise rise from about 1
   to 2. Sample 41 has the property. In HEALED, sample 41 is normal and one
   value of all other samples is NaN; in GONE, one value of every second sample
   is missing, too. */
typedef enum oddity {
    PLAIN,
    DIP,
    PEAK,   /* sample 41 has a peak, and sample 43 a smaller one */
    BROKEN, /* sample 41 has a NaN, and sample 43 a large negative value */
    INFINITE,
    HEALED,
    GONE,
    N_ODDITIES
} oddity;

static void make_odd(float *values, int k, oddity odd)
{
    const float at_41[N_ODDITIES] = {[DIP] = 0.25F,
                                     [PEAK] = 9,
                                     [BROKEN] = NAN,
                                     [INFINITE] = -INFINITY,
                                     [GONE] = 0.5F};
    if (k == 41 && odd != PLAIN && odd != HEALED)
        values[odd == DIP ? 1 : odd == PEAK ? 2 : 0] = at_41[odd];
    if (k == 43 && odd == PEAK)
        values[0] = 2.5F;
    if (k == 43 && odd == BROKEN)
        values[1] = -8;
    if (k != 41 && odd == HEALED)
        values[1] = NAN;
    if (k % 2 && odd == GONE)
        values[1] = es_missing();
}

/* Thins the samples 0 to n - 1, where sample k is at step 10 * k. */
static es_thin *thin(int n, size_t capacity, oddity odd)
{
    es_thin *made = NULL;
    assert_int_equal(es_thin_new(&made, VALUES, (size_t)n, capacity), ES_OK);
    for (int k = 0; k < n; k++) {
        float values[VALUES];
        for (int i = 0; i < VALUES; i++)
            values[i] = 1 + (float)(k + i) / (float)(n + 1);
        make_odd(values, k, odd);
        es_thin_push(made, 10 * k, values);
    }
    es_thin_finish(made);
    return made;
}

/* Returns the index of a step among the kept steps, or -1 if it was not
 * kept. */
static int find(const es_thin *thin, int64_t step)
{
    for (size_t i = 0; i < thin->n; i++)
        if (thin->steps[i] == step)
            return (int)i;
    return -1;
}

static void assert_in_order(const es_thin *thin, int n)
{
    const int64_t *steps = thin->steps;
    size_t kept = thin->n;
    assert_int_equal(steps[0], 0);
    assert_int_equal(steps[kept - 1], 10 * (n - 1));
    for (size_t i = 1; i < kept; i++)
        assert_true(steps[i - 1] < steps[i]);
}

TEST(a_series_that_fits_is_kept_whole)
{
    for (int n = 1; n <= 7; n++) {
        es_thin *made = thin(n, 7, PLAIN);
        assert_int_equal(made->n, n);
        assert_in_order(made, n);
        for (int k = 0; k < n; k++)
            assert_true(made->values[k * VALUES + 2] ==
                        1 + (float)(k + 2) / (float)(n + 1));
        es_thin_free(made);
    }
}

TEST(the_capacity_is_never_exceeded)
{
    for (int n = 5; n <= 200; n += 13)
        for (size_t capacity = 0; capacity < 40; capacity += 3) {
            es_thin *made = thin(n, capacity, PLAIN);
            assert_true(made->n <=
                        (capacity < ES_THIN_LEAST ? ES_THIN_LEAST : capacity));
            assert_in_order(made, n);
            es_thin_free(made);
        }
}

TEST(outliers_are_kept)
{
    for (oddity odd = DIP; odd < N_ODDITIES; odd++)
        /* Depending on n, sample 41 is the first, the last or another sample of
           its group. */
        for (int n = 100; n < 130; n++) {
            es_thin *made = thin(n, 25, odd);
            int at = find(made, 410);
            assert_true(at >= 0);
            float wanted[VALUES];
            for (int k = 0; k < VALUES; k++)
                wanted[k] = 1 + (float)(41 + k) / (float)(n + 1);
            make_odd(wanted, 41, odd);
            assert_memory_equal(made->values + at * VALUES, wanted,
                                sizeof wanted);
            es_thin_free(made);
        }
}

TEST(samples_beyond_the_number_are_ignored)
{
    es_thin *made = NULL;
    const float value = 2;
    assert_int_equal(es_thin_new(&made, 1, 2, 10), ES_OK);
    for (int step = 5; step < 9; step++)
        es_thin_push(made, step, &value);
    es_thin_finish(made);
    assert_int_equal(made->n, 2);
    assert_int_equal(made->steps[1], 6);
    es_thin_free(made);
}

/* The test vectors are those of RFC 4648, section 10. */
TEST(base64_is_that_of_rfc_4648)
{
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff\xbf", "+/+/"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        AUTO_FREE char *text = NULL;
        size_t n = 0;
        FILE *stream = open_memstream(&text, &n);
        assert_non_null(stream);
        es_report_base64(stream, vectors[i][0], strlen(vectors[i][0]));
        fclose(stream);
        assert_string_equal(text, vectors[i][1]);
    }
}

/* --- shares of the page ---------------------------------------------------*/

/* Computes the shares of n series in a page of n_values numbers. Series i has
 * n_samples[i] samples, each with a step and 9 values. */
static void allot(size_t *shares, const size_t *n_samples, size_t n,
                  size_t n_values)
{
    es_report_series series[8] = {0};
    es_report_run run = {.series = series, .n_series = n};
    es_report_data report = {.runs = &run, .n_runs = 1};
    for (size_t i = 0; i < n; i++) {
        series[i].series.n_values = 9;
        series[i].n_samples = n_samples[i];
    }
    es_report_allot(&report, n_values);
    for (size_t i = 0; i < n; i++)
        shares[i] = series[i].share;
}

TEST(small_series_leave_their_rest_to_others)
{
    size_t shares[3];
    allot(shares, (const size_t[]){10, 20, 30}, 3, 600);
    assert_int_equal(shares[0], 100); /* all series fit completely */
    assert_int_equal(shares[1], 200);
    assert_int_equal(shares[2], 300);
    allot(shares, (const size_t[]){10, 1000, 1000}, 3, 1100);
    assert_int_equal(shares[0], 100);
    /* the two long series share the rest equally */
    assert_int_equal(shares[1], 500);
    assert_int_equal(shares[2], 500);
    allot(shares, (const size_t[]){10, 30, 1000}, 3, 800);
    /* The first series leaves 700 of the page's 800 values. The second series
     * needs less than half of these values and therefore fits completely. */
    assert_int_equal(shares[1], 300);
    assert_int_equal(shares[2], 400);
    allot(shares, (const size_t[]){10, 30, 1000}, 3, 0);
    assert_true(shares[0] > 0 && shares[1] > 0 && shares[2] > 0);
}
