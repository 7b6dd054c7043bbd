/**
 * Tests that list themselves, in the order of the file:
 *
 *     ES_TEST(test_x__a_run_without_samples_is_refused) { ... state ... }
 *
 *     int main(void) { return es_test_main(NULL, NULL, make, remove); }
 *
 * or, with a folder for all of them, ES_TEST_MAIN(make, remove).
 */
#ifndef ES_TESTS_LISTED_H
#define ES_TESTS_LISTED_H

#include "tests/support/cmocka_all.h"

#define ES_TEST(name)                                                          \
    static void name(void **state);                                            \
    __attribute__((constructor)) static void name##_listed(void)               \
    {                                                                          \
        es_test_list(#name, name);                                             \
    }                                                                          \
    static void name(void **state __attribute__((unused)))

/** For ES_TEST. */
void es_test_list(const char *name, CMUnitTestFunction function);

/** Runs all of them: around the group, and around each. NULL: nothing. */
int es_test_main(CMFixtureFunction group_setup,
                 CMFixtureFunction group_teardown, CMFixtureFunction setup,
                 CMFixtureFunction teardown);

/** main, of a file whose fixtures are the group's. */
#define ES_TEST_MAIN(group_setup, group_teardown)                              \
    int main(void)                                                             \
    {                                                                          \
        return es_test_main(group_setup, group_teardown, NULL, NULL);          \
    }

#endif
