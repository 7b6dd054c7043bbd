/** Numbers that are as good as the same. */
#ifndef ES_TESTS_NEAR_H
#define ES_TESTS_NEAR_H

#include <stdbool.h>

/** |a - b| <= tolerance, or both are NaN. */
bool near(double a, double b, double tolerance);

#endif
