/* The list of a test program's tests, which constructors fill in before main.
 */
#include "tests/support/listed.h"

#define TESTS_MOST 128

static struct CMUnitTest tests[TESTS_MOST];
static size_t n_tests;

void es_test_list(const char *name, CMUnitTestFunction function)
{
    if (n_tests < TESTS_MOST)
        tests[n_tests] = (struct CMUnitTest){name, function, NULL, NULL, NULL};
    n_tests++;
}

int es_test_main(CMFixtureFunction group_setup,
                 CMFixtureFunction group_teardown, CMFixtureFunction setup,
                 CMFixtureFunction teardown)
{
    if (n_tests > TESTS_MOST)
        return 1;
    for (size_t i = 0; i < n_tests; i++) {
        tests[i].setup_func = setup;
        tests[i].teardown_func = teardown;
    }
    return _cmocka_run_group_tests("tests", tests, n_tests, group_setup,
                                   group_teardown);
}
