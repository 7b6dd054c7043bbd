/**
 * Declares macros that define tests. A source file of tests needs neither a
 * main function nor a list of tests:
 *
 *     TEST(a_run_without_samples_is_refused) { ... *state: the fixture ... }
 *
 *     TEST_EACH(make, remove)
 *
 * Tests run in the order of the file. This header includes the headers of C,
 * POSIX and run files that most tests need.
 */
#ifndef ES_TESTS_TEST_H
#define ES_TESTS_TEST_H

#include "analyzer/base/value.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/run_files.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEST(name)                                                             \
    static void name##_test(void **state);                                     \
    __attribute__((constructor)) static void name##_listed(void)               \
    {                                                                          \
        es_test_list(#name, name##_test);                                      \
    }                                                                          \
    static void name##_test(void **state __attribute__((unused)))

/** Set the setup and teardown functions for each test, or for the whole group;
 *  each function may be NULL. */
#define TEST_EACH(setup, teardown)                                             \
    __attribute__((constructor)) static void each_test(void)                   \
    {                                                                          \
        es_test_each(setup, teardown);                                         \
    }
#define TEST_GROUP(setup, teardown)                                            \
    __attribute__((constructor)) static void test_group(void)                  \
    {                                                                          \
        es_test_group(setup, teardown);                                        \
    }

/** Returns true if |a - b| <= tolerance, or both are NaN. */
bool near(double a, double b, double tolerance);

/** Functions that the macros TEST, TEST_EACH and TEST_GROUP call. */
void es_test_list(const char *name, CMUnitTestFunction function);
void es_test_each(CMFixtureFunction setup, CMFixtureFunction teardown);
void es_test_group(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
