/* Holds the list of a program's tests, to which constructors add each test, the
 * main function that runs them, and a comparison of numbers. */
#include "tests/support/test.h"

#define TESTS_MOST 128

static struct CMUnitTest tests[TESTS_MOST];
static size_t n_tests;
static CMFixtureFunction each_setup, each_teardown;
static CMFixtureFunction group_setup, group_teardown;

void es_test_list(const char *name, CMUnitTestFunction function)
{
    if (n_tests < TESTS_MOST)
        tests[n_tests] =
            (struct CMUnitTest){.name = name, .test_func = function};
    n_tests++;
}

void es_test_each(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    each_setup = setup;
    each_teardown = teardown;
}

void es_test_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

/* The symbol is weak, so that a program may define its own main and list its
 * tests itself. */
__attribute__((weak)) int main(void)
{
    if (n_tests > TESTS_MOST)
        return 1;
    for (size_t i = 0; i < n_tests; i++) {
        tests[i].setup_func = each_setup;
        tests[i].teardown_func = each_teardown;
    }
    return _cmocka_run_group_tests("tests", tests, n_tests, group_setup,
                                   group_teardown);
}

bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance || (isnan(a) && isnan(b));
}
