/* Comparison of numbers within a tolerance. */
#include "tests/support/near.h"

#include <math.h>

bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance || (isnan(a) && isnan(b));
}
