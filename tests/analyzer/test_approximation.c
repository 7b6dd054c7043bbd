/* Tests polynomial approximations of divisions, roots and gates: compares them
   with the exact functions and with published tables, and evaluates them
   outside their intervals. */
#include "analyzer/polynomial/approximation.h"
#include "analyzer/polynomial/polynomial.h"
#include "tests/support/test.h"

#include <float.h>

static double worst_of_division(const es_division *how)
{
    double worst = 0;
    for (int i = 0; i <= 1000; i++) {
        const double x =
            how->in.low * pow(how->in.high / how->in.low, i / 1000.0);
        worst = fmax(worst, fabs(es_divide_f64(how, x) * x - 1));
    }
    return worst;
}

/* With the number of factors that es_polynomial_inverse returns, the division
   has at most the requested error; with one factor fewer its error is
   larger. */
TEST(a_division_has_its_error_with_the_factors_of_the_table)
{
    static const double ks[] = {10, 100, 512, 1e3, 1e4, 1e6};
    static const double errors[] = {1e-2, 1e-3, 1e-4, 1e-6};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
            const int n = es_polynomial_inverse(ks[i], errors[k]).iterations;
            es_division how = {.in = {0.3, 0.3 * ks[i]}, .factors = n};
            assert_true(worst_of_division(&how) <= errors[k] * (1 + 1e-6));
            how.factors = n - 1;
            assert_true(worst_of_division(&how) > errors[k]);
        }
}

/* The expected errors are from PowerSoftmax, figure 7: errors of the inverse of
   x + epsilon in [epsilon, 1 + epsilon]. */
TEST(the_published_errors_of_an_inverse_are_those_of_the_polynomial)
{
    static const struct {
        double epsilon;
        int factors;
        double error;
    } rows[] = {{1e-4, 8, 9.5e3}, {1e-4, 10, 8.2e3}, {1e-4, 12, 4.4e3},
                {1e-3, 8, 6.0e2}, {1e-3, 10, 1.3e2}, {1e-3, 12, 0.28},
                {1e-2, 8, 0.63},  {1e-2, 10, 1.6e-7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double epsilon = rows[i].epsilon;
        const es_division how = {.in = {epsilon, 1 + epsilon},
                                 .factors = rows[i].factors};
        const double worst = es_division_error(&how);
        assert_true(near(worst / rows[i].error, 1, 0.05));
    }
}

/* The last row of the published table reports an error of 7e-15, which is the
   precision of float64 for numbers near 10. */
TEST(an_inverse_ends_at_the_precision_of_its_numbers)
{
    const es_division how = {{0.1, 1.1}, 12};
    const double worst = es_division_error(&how);
    assert_true(worst > 0 && worst <= 1.4e-14);
}

TEST(a_root_has_its_error_with_the_steps_of_the_table)
{
    static const double ks[] = {67, 750, 1e3, 1e4};
    static const double errors[] = {1e-2, 1e-3, 1e-6};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
            const int n = es_polynomial_rsqrt(ks[i], errors[k]).iterations;
            double worst[2] = {0, 0};
            for (int j = 0; j <= 1000; j++)
                for (int less = 0; less < 2; less++) {
                    const es_inverse_root how = {{2, 2 * ks[i]}, n - less};
                    const double x = 2 * pow(ks[i], j / 1000.0);
                    worst[less] =
                        fmax(worst[less],
                             fabs(es_invert_root_f64(&how, x) * sqrt(x) - 1));
                }
            assert_true(worst[0] <= errors[k] * (1 + 1e-6));
            assert_true(worst[1] > errors[k]);
        }
}

TEST(gates_are_exact_at_their_nodes_and_close_between_them)
{
    static const es_activation kinds[] = {ES_ACT_GELU, ES_ACT_GELU_TANH,
                                          ES_ACT_GELU_SIGMOID};
    es_gate gate;
    for (int i = 0; i < 3; i++) {
        assert_true(es_gate_make(&gate, kinds[i], 31, 6));
        for (int k = 0; k < 32; k++) {
            const double x = 6 * cos(M_PI * (k + 0.5) / 32);
            assert_true(
                near(es_gate_f64(&gate, x), es_gate_exact(kinds[i], x), 1e-13));
        }
        const double error = es_gate_error(&gate);
        assert_true(error > 1e-12 && error < 1e-2);
        assert_true(near((double)es_gate_f32(&gate, 1.25f),
                         es_gate_f64(&gate, 1.25), 32 * FLT_EPSILON));
    }
    /* GS, the approximation x * sigmoid(1.702 * x) of GELU, differs from GELU
     * by at most 0.0203. It differs by this much at x = 2.27. */
    assert_true(near(fabs(2.27 * (es_gate_exact(ES_ACT_GELU_SIGMOID, 2.27) -
                                  es_gate_exact(ES_ACT_GELU, 2.27))),
                     0.0203, 1e-4));
}

TEST(a_polynomial_diverges_outside_its_interval)
{
    es_gate gate;
    const es_division how = {{1, 100}, 9};
    const es_inverse_root root = {{1, 100}, 9};
    assert_true(fabs(es_divide_f64(&how, 150)) > 1e10);
    assert_true(!(fabs(es_invert_root_f64(&root, 600)) < 1e3));
    assert_true(es_gate_make(&gate, ES_ACT_GELU_SIGMOID, 31, 5));
    assert_true(fabs(es_gate_f64(&gate, 10)) > 1e10);
}

TEST(an_invalid_gate_is_refused)
{
    es_gate gate;
    assert_false(es_gate_make(&gate, ES_ACT_RELU, 7, 1));
    assert_false(es_gate_make(&gate, ES_ACT_SWIGLU, 7, 1));
    assert_false(es_gate_make(&gate, ES_ACT_GELU, 0, 1));
    assert_false(es_gate_make(&gate, ES_ACT_GELU, ES_GATE_MOST_DEGREE + 1, 1));
    assert_false(es_gate_make(&gate, ES_ACT_GELU, 7, (double)NAN));
    assert_false(es_gate_make(&gate, ES_ACT_GELU, 7, 0));
}

/* --- PowerSoftmax --------------------------------------------------------- */

static const float scores[5] = {0.5f, -1.25f, 2, 0.75f, -0.1f};

TEST(exact_weights_are_those_of_each_form)
{
    static const struct {
        bool plain;
        es_row_length length;
        double epsilon, scale; /* scale: the row length that multiplies the
                                  epsilon */
    } forms[] = {{true, ES_LENGTH_NONE, 0.1, 1},
                 {true, ES_LENGTH_VISIBLE, 0.1, 5},
                 {false, ES_LENGTH_CONTEXT, 0.01, 7},
                 {true, ES_LENGTH_NONE, 0, 1}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const es_power_form form = {
            4, forms[f].epsilon, forms[f].plain, forms[f].length, 7, 1};
        const double c = forms[f].plain ? 1 : 2 + 1e-6;
        double weights[5], sum = forms[f].epsilon * forms[f].scale;
        for (int j = 0; j < 5; j++)
            sum += pow((double)scores[j] / c, 4);
        es_power_weigh_exact(weights, &form, scores, 5);
        for (int j = 0; j < 5; j++)
            assert_true(
                near(weights[j], pow((double)scores[j] / c, 4) / sum, 1e-14));
    }
}

/* The plain form divides all scores by a constant, the unit, which cancels: any
 * unit gives the same weights. */
TEST(polynomial_weights_of_a_plain_form_are_the_exact_ones)
{
    for (int length = ES_LENGTH_NONE; length <= ES_LENGTH_CONTEXT; length++)
        for (double unit = 0.5; unit < 5; unit *= 2) {
            const es_power_form form = {4, 0.1, true, (es_row_length)length,
                                        7, unit};
            const double d = es_power_denominator(&form, scores, 5);
            const es_division how = {{d / 3, d * 3}, 9};
            double want[5], found[5];
            float single[5];
            es_power_weigh_exact(want, &form, scores, 5);
            assert_true(near(es_power_weigh_f64(found, &form, &how, scores, 5),
                             d, 1e-14 * d));
            es_power_weigh_f32(single, &form, &how, scores, 5);
            for (int j = 0; j < 5; j++) {
                assert_true(near(found[j], want[j], 1e-12));
                assert_true(near((double)single[j], want[j], 64 * FLT_EPSILON));
            }
        }
}

/* The denominator used in training contains an additional epsilon, which the
   polynomial form leaves out. */
TEST(polynomial_weights_of_the_stable_form_differ_by_its_epsilon)
{
    const double epsilon = 1e-3;
    const es_power_form form = {4, epsilon, false, ES_LENGTH_NONE, 5, 2};
    const double d = es_power_denominator(&form, scores, 5);
    const es_division how = {{d / 2, d * 2}, 9};
    double want[5], found[5], largest = 0;
    es_power_weigh_exact(want, &form, scores, 5);
    es_power_weigh_f64(found, &form, &how, scores, 5);
    for (int j = 0; j < 5; j++) {
        const double alone = pow((double)scores[j] / 2, 4) / d;
        assert_true(near(found[j], alone, 1e-12));
        largest = fmax(largest, fabs(found[j] - want[j]));
    }
    double sum = 0;
    for (int j = 0; j < 5; j++)
        sum += found[j];
    assert_true(near(sum, 1, 1e-12));
    assert_true(largest <= epsilon);
    assert_true(largest > epsilon / 10);
}

TEST(a_row_without_a_finite_sum_has_no_weights)
{
    static const float zeros[2] = {0, 0};
    static const float infinite[2] = {1, INFINITY};
    const es_power_form form = {2, 0, true, ES_LENGTH_NONE, 2, 1};
    double weights[2];
    es_power_weigh_exact(weights, &form, zeros, 2);
    assert_true(isnan(weights[0]) && isnan(weights[1]));
    es_power_weigh_exact(weights, &form, infinite, 2);
    assert_true(isnan(weights[0]) && isnan(weights[1]));
}

/* --- findings and choices ------------------------------------------------- */

TEST(inputs_that_are_not_finite_are_outside_and_in_no_range)
{
    static const double inputs[] = {2, 5, (double)NAN, INFINITY, -INFINITY, 9};
    const es_interval interval = {1, 8};
    es_findings all = es_findings_start(), part = es_findings_start();
    for (int i = 0; i < 6; i++)
        es_findings_add_input(i % 2 ? &all : &part, inputs[i], &interval);
    es_findings_merge(&all, &part);
    assert_int_equal(all.n, 6);
    assert_int_equal(all.n_outside, 4);
    assert_true(near(all.low, 2, 0) && near(all.high, 9, 0));
    part = es_findings_start();
    for (int i = 0; i < 6; i++)
        es_findings_add_input(&part, inputs[i], NULL);
    assert_int_equal(part.n_outside, 3);
}

TEST(a_nan_stays_the_largest)
{
    es_findings all = es_findings_start(), more = es_findings_start();
    es_findings_add_size(&all, NAN);
    es_findings_add_size(&all, 3);
    es_findings_add_result(&all, 1, 2, 4);
    es_findings_add_result(&more, NAN, 1, 1);
    assert_true(isnan(all.largest) && near(all.error, 3, 0));
    es_findings_merge(&all, &more);
    es_findings_add_result(&all, 1, 1, 1);
    assert_true(isnan(all.error) && isnan(all.rounding));
}

static es_findings found_between(double low, double high)
{
    es_findings found = es_findings_start();
    es_findings_add_input(&found, low, NULL);
    es_findings_add_input(&found, high, NULL);
    return found;
}

TEST(approximations_are_chosen_from_the_findings)
{
    const es_approximation_choice choice = {.error = 1e-3, .margin = 2};
    const es_findings found = found_between(1, 100);
    es_division division;
    es_inverse_root root;
    es_gate gate;
    assert_true(es_division_choose(&division, &choice, &found, 0));
    assert_true(near(division.in.low, 0.5, 0) &&
                near(division.in.high, 200, 0));
    assert_int_equal(division.factors,
                     es_polynomial_inverse(400, 1e-3).iterations);
    assert_true(es_division_choose(&division, &choice, &found, 0.9));
    assert_true(division.in.low < (double)0.9f);
    assert_true(near(division.in.low, 0.9, 8 * (double)FLT_EPSILON));
    assert_true(es_inverse_root_choose(&root, &choice, &found));
    assert_int_equal(root.steps, es_polynomial_rsqrt(400, 1e-3).iterations);
    const es_findings numbers = found_between(-4, 3);
    assert_true(es_gate_choose(&gate, &choice, &numbers, ES_ACT_GELU));
    assert_true(near(gate.range, 8, 0));
    assert_true(es_gate_error(&gate) <= 1e-3);
    assert_true(es_gate_make(&gate, ES_ACT_GELU, gate.degree / 2, 8));
    assert_true(es_gate_error(&gate) > 1e-3);
}

TEST(requested_sizes_are_used)
{
    const es_approximation_choice choice = {30, 9, 9, 1e-3, 1};
    const es_findings found = found_between(1, 100);
    es_division division;
    es_inverse_root root;
    es_gate gate;
    assert_true(es_division_choose(&division, &choice, &found, 0));
    assert_true(es_inverse_root_choose(&root, &choice, &found));
    assert_true(es_gate_choose(&gate, &choice, &found, ES_ACT_GELU_SIGMOID));
    assert_int_equal(division.factors, 30);
    assert_int_equal(root.steps, 9);
    assert_int_equal(gate.degree, 9);
}

TEST(no_more_factors_are_chosen_than_float32_can_use)
{
    const es_approximation_choice choice = {.error = 1e-3, .margin = 1};
    const es_findings found = found_between(1e-12, 1);
    es_division division;
    assert_true(es_division_choose(&division, &choice, &found, 0));
    assert_int_equal(division.factors, ES_DIVISION_MOST_FACTORS);
}

TEST(nothing_is_chosen_without_findings)
{
    const es_approximation_choice choice = {.error = 1e-3, .margin = 2};
    const es_findings nothing = es_findings_start();
    const es_findings zeros = found_between(0, 1);
    es_division division;
    es_inverse_root root;
    es_gate gate;
    assert_false(es_division_choose(&division, &choice, &nothing, 0));
    assert_false(es_division_choose(&division, &choice, &zeros, 0));
    assert_false(es_inverse_root_choose(&root, &choice, &nothing));
    assert_false(es_inverse_root_choose(&root, &choice, &zeros));
    assert_false(es_gate_choose(&gate, &choice, &nothing, ES_ACT_GELU));
    assert_false(es_gate_choose(&gate, &choice, &zeros, ES_ACT_RELU));
}

TEST(levels_count_products_in_sequence)
{
    assert_int_equal(es_attention_levels(4, 12), 18);
    assert_int_equal(es_attention_levels(6, 12), 19);
    assert_int_equal(es_norm_levels(7), 17);
    assert_int_equal(es_activation_levels(31), 6);
}
