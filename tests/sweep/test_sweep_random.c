/**
 * Tests the distributions of random search, and that draws are reproducible.
 */
#include "cli/alerts/delivery/words.h"
#include "cli/sweep/plan.h"
#include "cli/sweep/random.h"
#include "tests/support/test.h"

#include <math.h>

#define N 2000

static int enter_folder(void **state)
{
    return es_folder_make(state) || chdir(*state);
}

static void plan_of(es_sweep_plan *plan, const char *text, size_t n_draws)
{
    es_sweep_spec spec;
    es_file_write("s.ini", text, strlen(text));
    es_assert_ok(es_sweep_spec_read(&spec, "s.ini", n_draws));
    es_assert_ok(es_sweep_plan_make(plan, &spec));
    es_sweep_spec_free(&spec);
}

/* Draws N values of one key and sorts the values. The search has a second key,
 * so that draws differ even if values of the first key are equal. */
static void draw(double out[N], const char *distribution)
{
    AUTO_FREE char **words = NULL;
    char other[] = "uniform", low[] = "0", high[] = "1";
    char *others[] = {other, low, high};
    es_assert_ok(es_words_split(&words, distribution));
    size_t n_words = 0;
    while (words[n_words])
        n_words++;
    es_sweep_random keys[] = {{.key = "x", .words = words, .n_words = n_words},
                              {.key = "other", .words = others, .n_words = 3}};
    es_assert_ok(es_sweep_draw(keys, 2, N, 7));
    for (size_t i = 0; i < N; i++) {
        out[i] = strtod(keys[0].drawn[i], NULL);
        free(keys[0].drawn[i]);
        free(keys[1].drawn[i]);
    }
    free(keys[0].drawn);
    free(keys[1].drawn);
    for (size_t i = 0; i < n_words; i++)
        free(words[i]);
}

static double share_below(const double *values, double limit)
{
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        n += values[i] < limit;
    return (double)n / N;
}

/* The share of the N draws that fall into an interval must be within 4 standard
 * deviations of the expected share. */
TEST(draws_follow_their_distribution)
{
    static const struct {
        const char *text;
        double low, high, limit, share;
    } cases[] = {
        {"uniform -1 3", -1, 3, 0, 0.25},
        {"log-uniform 1e-4 1e-2", 1e-4, 1e-2, 1e-3, 0.5},
        {"log_uniform 1e-5 1e1", 1e-5, 10, 1e-4, 1.0 / 6},
        {"q-uniform 0 1 0.25", 0, 1, 0.2, 0.125},
        {"int-uniform 3 6", 3, 6, 4, 0.25},
        {"int-uniform 3 6", 3, 6, 6, 0.75},
        {"choice 1 5 9 13", 1, 13, 5, 0.25},
        {"choice 1 5 9 13", 1, 13, 13, 0.75},
    };
    double values[N];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double share = cases[i].share;
        draw(values, cases[i].text);
        for (size_t k = 0; k < N; k++)
            assert_true(values[k] >= cases[i].low &&
                        values[k] <= cases[i].high);
        double tolerance = 4 * sqrt(share * (1 - share) / N);
        assert_true(fabs(share_below(values, cases[i].limit) - share) <=
                    tolerance);
    }
    draw(values, "q-uniform 0 1 0.25");
    for (size_t k = 0; k < N; k++)
        assert_true(4 * values[k] == floor(4 * values[k]));
}

#define SEARCH                                                                 \
    "[sweep]\ncommand = x {lr} {w} {run}\nn = 3\n[random]\n"                   \
    "lr = log-uniform 1e-4 1e-2\nw = choice a b\n"

/* A search must draw the same values again, even if draws or keys have been
 * added to the spec. */
TEST(the_same_file_draws_the_same_runs)
{
    AUTO_BY(es_sweep_plan_free) es_sweep_plan three, more, other, wider;
    plan_of(&three, SEARCH, 0);
    assert_int_equal(three.n, 3);
    plan_of(&more, SEARCH, 40);
    assert_int_equal(more.n, 40);
    plan_of(&other, SEARCH "[sweep]\nrandom-seed = 1\n", 0);
    plan_of(&wider,
            "[sweep]\narch = A; B\nn = 3\n[random]\n"
            "lr = log-uniform 1e-4 1e-2\nw = choice a b\nz = uniform 0 1\n"
            "[grid]\nsteps = 1 2\n",
            0);
    assert_int_equal(wider.n, 12);
    for (size_t i = 0; i < 3; i++) {
        char *middle = three.runs[i].name;
        assert_string_equal(middle, more.runs[i].name);
        assert_string_not_equal(middle, other.runs[i].name);
        /* each draw is combined with all values in [grid]; arch changes more
         * slowly than steps */
        assert_ptr_equal(strstr(wider.runs[4 * i].name, "A_"),
                         wider.runs[4 * i].name);
        assert_ptr_equal(strstr(wider.runs[4 * i + 2].name, "B_"),
                         wider.runs[4 * i + 2].name);
        assert_non_null(strstr(wider.runs[4 * i].name, middle));
        assert_non_null(strstr(wider.runs[4 * i + 3].name, middle));
    }
}

TEST(no_draw_is_repeated)
{
    AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
    plan_of(&plan,
            "[sweep]\ncommand = x {a} {b} {run}\nn = 6\n[random]\n"
            "a = choice u v\nb = int-uniform 1 3\n",
            0);
    assert_int_equal(plan.n, 6); /* all six draws differ, because two runs of
                                    the same name would be refused */
}

TEST(invalid_searches_are_refused)
{
    static const struct {
        const char *text, *message;
    } all[] = {
        {"n = 2\n[random]\nlr = uniform 1",
         "s.ini: lr: 'uniform': expected " ES_SWEEP_DISTRIBUTIONS},
        {"n = 2\n[random]\nlr = uniform 1 2 3",
         "s.ini: lr: 'uniform': expected " ES_SWEEP_DISTRIBUTIONS},
        {"n = 2\n[random]\nlr = normal 1 2",
         "s.ini: lr: 'normal': expected " ES_SWEEP_DISTRIBUTIONS},
        {"n = 2\n[random]\nlr = choice",
         "s.ini: lr: 'choice': expected " ES_SWEEP_DISTRIBUTIONS},
        {"n = 2\n[random]\nlr = uniform 1 x", "s.ini: lr: 'x' is not a number"},
        {"n = 2\n[random]\nlr = uniform 2 2",
         "s.ini: lr: expected a low and a high bound"},
        {"n = 2\n[random]\nlr = uniform nan 2",
         "s.ini: lr: 'nan' is not a number"},
        {"n = 2\n[random]\nlr = log-uniform 0 2",
         "s.ini: lr: the bounds of log-uniform must be above 0"},
        {"n = 2\n[random]\nlr = q-uniform 0 2 0",
         "s.ini: lr: the step must be above 0"},
        {"n = 2\n[random]\nlr = int-uniform 0.5 2",
         "s.ini: lr: the bounds of int-uniform must be whole numbers"},
        {"n = 3\n[random]\nlr = choice a b",
         "s.ini: found only 2 different draws: use a smaller "
         "n, or [grid]"},
        {"n = 0\n[random]\nlr = choice a b",
         "s.ini:2: n: 0 is not in 1..10000"},
        {"n = 3\n[grid]\nlr = 1",
         "s.ini: draws without a distribution: expected KEY = uniform LOW HIGH "
         "or similar in [random]"},
        {"[random]\nlr = choice a b",
         "s.ini: the number of draws is missing: expected n = ... in [sweep], "
         "or --draws N"},
        {"n = 3\nrandom-seed = x\n[random]\nlr = choice a b",
         "s.ini:3: random-seed: 'x' is not a whole number"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        es_sweep_spec spec;
        char text[512];
        int n = snprintf(text, sizeof text,
                         "[sweep]\n%s\n[sweep]\ncommand = x {lr} {run}\n",
                         all[i].text);
        es_file_write("s.ini", text, (size_t)n);
        assert_int_equal(es_sweep_spec_read(&spec, "s.ini", 0), ES_EUSAGE);
        assert_string_equal(es_message(), all[i].message);
        es_sweep_spec_free(&spec);
    }
}

/* The name is truncated and ends in a hash of the full name, so that names
 * which differ only at their end stay different. */
TEST(a_name_that_is_too_long_is_shortened)
{
    char text[2048] = "[sweep]\ncommand = x {run}", keys[1024] = "\n[grid]\n";
    for (char c = 'a'; c < 'u'; c++) {
        snprintf(text + strlen(text), 64, " {long_key_%c}", c);
        snprintf(keys + strlen(keys), 64, "long_key_%c = 12%s\n", c,
                 c == 't' ? " 13" : "");
    }
    strcat(text, keys);
    AUTO_BY(es_sweep_plan_free) es_sweep_plan plan;
    plan_of(&plan, text, 0);
    assert_int_equal(plan.n, 2);
    assert_int_equal(strlen(plan.runs[0].name), ES_SWEEP_NAME_MAX);
    assert_memory_equal(plan.runs[0].name, "long_key_a12_long_key_b12_", 26);
    assert_string_not_equal(plan.runs[0].name, plan.runs[1].name);
}

TEST_GROUP(enter_folder, es_folder_remove)
