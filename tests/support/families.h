/**
 * Declares checks for the tests of model families and of configurations.
 */
#ifndef ES_TESTS_FAMILIES_H
#define ES_TESTS_FAMILIES_H

#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"

/**
 * Fails the test, with the output of verify, unless a reference case passes
 * with 1, 2 and 3 threads.
 */
void es_expect_case(const char *path, const es_ops *ops,
                    es_precision precision);

/**
 * Fails the test unless the configuration is refused with a message that
 * contains `named`.
 */
void es_expect_config_refused(const es_model_config *config, const char *named);

#endif
