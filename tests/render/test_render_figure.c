/* Tests the parts of axes: ticks, labels and positions. */
#include "render/figures/page.h"
#include "tests/support/test.h"

/* Returns true if `step` is 1, 2 or 5 times a power of ten. */
static bool is_nice(double step)
{
    double mantissa = step / pow(10, floor(log10(step) + 1e-9));
    return fabs(mantissa - 1) < 1e-6 || fabs(mantissa - 2) < 1e-6 ||
           fabs(mantissa - 5) < 1e-6;
}

static void check_ticks(double low, double high, int most)
{
    es_ticks ticks = es_ticks_make(low, high, most);
    double slack = 1e-6 * ticks.step;
    assert_in_range(ticks.n, most > 2 ? 2 : 0, most);
    assert_true(is_nice(ticks.step));
    for (int i = 0; i < ticks.n; i++) {
        double at = es_ticks_at(&ticks, i);
        assert_true(at >= low - slack && at <= high + slack);
        assert_true(fabs(at / ticks.step - round(at / ticks.step)) < 1e-4);
    }
}

TEST(labels_of_axes_have_minus_signs)
{
    char text[ES_LABEL_MAX];
    es_axis axis = es_axis_make(-2, 2, false, 0, 100, 5);
    es_axis_label(text, &axis, 0);
    assert_string_equal(text, "\xe2\x88\x92"
                              "2");
    axis = es_axis_make(1e-9, 1e-8, true, 0, 100, 5);
    es_axis_label(text, &axis, 0);
    assert_string_equal(text, "10\u207b\u2079");
    static const char *const decades[] = {"10⁻²", "1", "10²", "10⁴", "10⁶"};
    axis = es_axis_make(0.01, 1e6, true, 0, 100, 5);
    assert_int_equal(axis.ticks.n, 5);
    for (int i = 0; i < 5; i++) {
        es_axis_label(text, &axis, i);
        assert_string_equal(text, decades[i]);
    }
}

TEST(exponents_are_superscripts)
{
    static const char *const cases[][2] = {
        {"-2.5e-09", "−2.5×10⁻⁹"}, {"1e+15", "10¹⁵"},  {"-1e-07", "−10⁻⁷"},
        {"11e2", "11×10²"},        {"2e5", "2×10⁵"},   {"-3", "−3"},
        {"1.5K", "1.5K"},          {"value", "value"}, {"", ""}};
    char text[ES_LABEL_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s", cases[i][0]);
        es_label_typeset(text, sizeof text);
        assert_string_equal(text, cases[i][1]);
    }
    /* If the result would not fit into the buffer, the text stays unchanged. */
    strcpy(text, "-2.5e-09");
    es_label_typeset(text, 12);
    assert_string_equal(text, "-2.5e-09");
}

TEST(ticks_have_steps_of_one_two_or_five)
{
    static const double ranges[][2] = {
        {0, 3.87},  {0, 4},     {-1, 1},       {2.5, 3.1},
        {0, 1e-6},  {0, 32000}, {-3e38, 3e38}, {1e5, 1e5 + 1},
        {0, 1e-40}, {-7, -6.5}, {99, 12345},   {0, 9.99}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        for (int most = 3; most < 12; most++)
            check_ticks(ranges[i][0], ranges[i][1], most);
    es_ticks ticks = es_ticks_make(0, 3.87, 8);
    assert_int_equal(ticks.n, 8);
    assert_true(ticks.first == 0 && ticks.step == 0.5);
    ticks = es_ticks_make(-0.3, 0.3, 7);
    assert_int_equal(ticks.n, 7);
    assert_true(es_ticks_at(&ticks, 3) == 0);
    ticks = es_ticks_make(0, 4, 4);
    /* The ticks are 0, 2 and 4, so both ends have a tick. */
    assert_int_equal(ticks.n, 3);
}

TEST(hostile_ranges_give_finite_ticks)
{
    static const double values[] = {NAN,     INFINITY, -INFINITY, 0,
                                    DBL_MAX, -DBL_MAX, 5e-324,    -5e-324,
                                    1e300,   1,        1 + 1e-16, 1e17};
    size_t n = sizeof values / sizeof *values;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            es_ticks ticks = es_ticks_make(values[i], values[k], 8);
            char text[ES_LABEL_MAX];
            assert_in_range(ticks.n, 0, 8);
            for (int t = 0; t < ticks.n; t++) {
                assert_true(isfinite(es_ticks_at(&ticks, t)));
                es_label_value(text, &ticks, t);
                assert_null(strstr(text, "nan"));
                assert_null(strstr(text, "inf"));
            }
        }
    }
    assert_int_equal(es_ticks_make(NAN, 1, 8).n, 0);
    assert_int_equal(es_ticks_make(2, 1, 8).n, 0);
    assert_int_equal(es_ticks_make(0, INFINITY, 8).n, 0);
    assert_int_equal(es_ticks_make(0, 1, 0).n, 0);
    es_ticks one = es_ticks_make(2.5, 2.5, 8);
    assert_int_equal(one.n, 1);
    assert_true(es_ticks_at(&one, 0) == 2.5);
}

static void check_labels(double low, double high, int most,
                         const char *const *expected)
{
    es_ticks ticks = es_ticks_make(low, high, most);
    char text[ES_LABEL_MAX];
    for (int i = 0; i < ticks.n; i++) {
        assert_non_null(expected[i]);
        es_label_value(text, &ticks, i);
        assert_string_equal(text, expected[i]);
    }
    assert_null(expected[ticks.n]);
}

TEST(values_have_the_decimals_they_need)
{
    check_labels(0, 1, 5, (const char *[]){"0.0", "0.5", "1.0", NULL});
    check_labels(-2, 2, 5, (const char *[]){"-2", "-1", "0", "1", "2", NULL});
    check_labels(
        0, 0.04, 5,
        (const char *[]){"0.00", "0.01", "0.02", "0.03", "0.04", NULL});
    check_labels(0, 3e38, 5,
                 (const char *[]){"0", "1e+38", "2e+38", "3e+38", NULL});
    check_labels(3.5, 3.5, 5, (const char *[]){"3.5", NULL});
}

TEST(counts_are_printed_briefly)
{
    static const struct {
        double step;
        const char *text;
    } cases[] = {{0, "0"},           {400, "400"},
                 {999, "999"},       {1000, "1K"},
                 {2500, "2.5K"},     {32000, "32K"},
                 {1000000, "1M"},    {2.5e6, "2.5M"},
                 {-5000, "-5K"},     {100050, "100.05K"},
                 {8e13, "80T"},      {2e10, "20B"},
                 {3.4e38, "3.4e+38"}};
    char text[ES_LABEL_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_label_count(text, cases[i].step);
        assert_string_equal(text, cases[i].text);
    }
}

TEST(a_fraction_never_overflows)
{
    static const double cases[][4] = {
        /* x, low, high, expected result */
        {1, 0, 4, 0.25},     {-1, 0, 4, -0.25},
        {5, 3, 3, 0},        {0, -DBL_MAX, DBL_MAX, 0.5},
        {5, 4, 3, 0},        {DBL_MAX, -DBL_MAX, DBL_MAX, 1},
        {5, NAN, 3, 0},      {5, 0, INFINITY, 0},
        {NAN, 0, 1, 0},      {INFINITY, 0, 1, 1},
        {-INFINITY, 0, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(es_fraction(cases[i][0], cases[i][1], cases[i][2]) ==
                    cases[i][3]);
    assert_true(isfinite(es_fraction(1e300, 0, 5e-324)));
}

TEST(a_power_step_is_the_next_power_of_two)
{
    static const double cases[][2] = {
        {0.1, 1}, {1, 1}, {1.01, 2}, {5, 8}, {NAN, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(es_power_step(cases[i][0]) == cases[i][1]);
    assert_true(es_power_step(INFINITY) > 0);
}
