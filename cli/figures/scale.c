/* Colour scales that suit a series: where they begin, and when they are
 * logarithmic. */
#include "cli/figures/scale.h"

#include <string.h>

#define HUGE_RANGE 1000.0 /* largest to smallest, for logarithmic colours */

void es_value_range_add(es_value_range *range, float value)
{
    double x = (double)value;
    if (!isfinite(x))
        return;
    range->low = fmin(range->low, x);
    range->high = fmax(range->high, x);
    range->zero = range->zero || x == 0;
    if (x > 0)
        range->least_positive = fmin(range->least_positive, x);
}

static bool is_entropy(const char *series)
{
    return strncmp(series, "entropy", 7) == 0;
}

static bool begins_at_zero(const char *series)
{
    static const char *const names[] = {"sink", "missing_mass",
                                        "nonfinite_rows", "nonfinite_weights",
                                        "nan_activations"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(series, names[i]) == 0)
            return true;
    return is_entropy(series);
}

es_series_scale es_series_scale_make(const char *series,
                                     const es_value_range *range, double top,
                                     double ceiling)
{
    bool amount = begins_at_zero(series);
    double low = amount ? fmin(range->low, 0) : range->low;
    es_series_scale scale = {isfinite(low) ? low : 0, top, false};
    if (low >= 0 && !is_entropy(series) &&
        top >= HUGE_RANGE * range->least_positive) {
        scale.logarithmic = true;
        scale.low =
            range->zero ? range->least_positive / 2 : range->least_positive;
    }
    if (top <= low && amount)
        scale.high = is_entropy(series) && ceiling > low ? ceiling : low + 1;
    else if (top < low)
        scale.high = low;
    return scale;
}
