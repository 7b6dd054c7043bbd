/* Colour scales that suit a series: where they begin, and when they are
 * logarithmic. */
#include "cli/figures/scale.h"

#include "analyzer/heads/heads.h"

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
    const es_head_statistic *head = es_head_statistic_find(series);
    return head ? head->is_amount
                : is_entropy(series) || strcmp(series, "nan_activations") == 0;
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
