/* Colour scales that suit a series: where they begin, and when they are
 * logarithmic. */
#include "cli/figures/scale.h"

#include "analyzer/heads/heads.h"

#include <string.h>

#define HUGE_RANGE 1000.0 /* largest to smallest, for logarithmic colours */

void es_value_range_add(es_value_range *range, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)values[i];
        if (!isfinite(x))
            continue;
        range->low = fmin(range->low, x);
        range->high = fmax(range->high, x);
        range->zero = range->zero || x == 0;
        if (x > 0)
            range->least_positive = fmin(range->least_positive, x);
    }
}

double es_drawing_top(const es_drawing *drawing)
{
    double top = NAN;
    for (size_t i = 0; i < drawing->n; i++)
        top = es_peak_of(top, drawing->runs[i]->m);
    return top;
}

es_series_scale es_drawing_scale(const es_drawing *drawing,
                                 const es_value_range *range, double top)
{
    const char *series = drawing->runs[0]->series;
    const es_head_statistic *head = es_head_statistic_find(series);
    bool is_entropy = strncmp(series, "entropy", 7) == 0;
    bool amount = head ? head->is_amount
                       : is_entropy || strcmp(series, "nan_activations") == 0;
    double ceiling = NAN, low = amount ? fmin(range->low, 0) : range->low;
    es_series_scale scale = {isfinite(low) ? low : 0, top, false};
    for (size_t i = 0; i < drawing->n; i++)
        ceiling = es_peak_of(ceiling, drawing->runs[i]->ceiling);
    if (low >= 0 && !is_entropy && top >= HUGE_RANGE * range->least_positive) {
        scale.logarithmic = true;
        scale.low =
            range->zero ? range->least_positive / 2 : range->least_positive;
    }
    if (top <= low && amount)
        scale.high = is_entropy && ceiling > low ? ceiling : low + 1;
    else if (top < low)
        scale.high = low;
    return scale;
}
