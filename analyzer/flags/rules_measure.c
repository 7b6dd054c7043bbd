/* Computes the two numbers that a rule compares. The first is one value
 * aggregated from a sample, or the ratio of this value to a median of past
 * values or to a baseline; the second is the limit. */
#include "analyzer/base/value.h"
#include "analyzer/flags/rules_internal.h"

#include <math.h>

#define LEAST_HISTORY 3
/* Exponent in the middle of the range 2^-20 to 2^4 that es_history covers. */
#define MIDDLE_EXPONENT (-8)

es_rule_measure es_rule_measure_of(es_rule_aggregate aggregate, const float *x,
                                   size_t n)
{
    es_rule_measure measured = {.value = NAN};
    double sum = 0, least = INFINITY, largest = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(x[i]))
            continue;
        if (!isfinite(x[i])) {
            measured.n_nonfinite++;
            continue;
        }
        measured.n_finite++;
        sum += x[i];
        least = fmin(least, x[i]);
        largest = fmax(largest, x[i]);
    }
    if (measured.n_finite > 0)
        measured.value = aggregate == ES_RULE_LAYER_MIN ? least
                         : aggregate == ES_RULE_LAYER_MAX
                             ? largest
                             : sum / (double)measured.n_finite;
    return measured;
}

bool es_rule_compare(es_rule_comparison comparison, double x, double limit)
{
    switch (comparison) {
    case ES_RULE_ABOVE:
        return x > limit;
    case ES_RULE_BELOW:
        return x < limit;
    case ES_RULE_AT_LEAST:
        return x >= limit;
    default:
        return x <= limit;
    }
}

void es_rule_history_add(es_rule_history *history, double value)
{
    if (!history->positive && value > 0) {
        history->positive = true;
        history->shift = MIDDLE_EXPONENT - ilogb(value);
    }
    es_history_add(&history->scaled, ldexp(value, history->shift));
}

/* Returns the number with which the rule compares unit i (a head, a layer or
   the run): the median of the unit's past values, or the unit's value in the
   baseline. Returns NaN before this number exists. */
static double reference_of(const es_rule_state *state, size_t i, int64_t step)
{
    if (state->histories) {
        const es_rule_history *history = &state->histories[i];
        uint32_t needed = state->rule.samples > LEAST_HISTORY
                              ? state->rule.samples
                              : LEAST_HISTORY;
        return history->scaled.n < needed
                   ? NAN
                   : ldexp(es_history_median(&history->scaled),
                           -history->shift);
    }
    bool there = state->has_baseline && state->baseline_step == step;
    return there ? state->baseline[i] : NAN;
}

double es_rule_relate(const es_rule_state *state, size_t i, double value,
                      int64_t step)
{
    if (!state->histories && !state->baseline)
        return value;
    double reference = reference_of(state, i, step);
    return reference > 0 ? value / reference : NAN;
}

double es_rule_limit(const es_rule_state *state, double threshold)
{
    return state->rule.reference == ES_RULE_CEILING ? threshold * state->ceiling
                                                    : threshold;
}
