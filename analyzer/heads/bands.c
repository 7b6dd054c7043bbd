/* Computes the ceiling of a head's entropy, the maximum m for the policy that
   the user selected, and the bands below m. Shared by flags, rules, tables and
   figures. */
#include "analyzer/heads/bands.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include <math.h>
#include <string.h>

double es_ceiling(int n_queries)
{
    int sign; /* lgamma_r, because lgamma would write to a global variable */
    if (n_queries < 1)
        return NAN;
    return lgamma_r((double)n_queries + 1, &sign) / n_queries;
}

static const char *const policy_names[] = {
    [ES_MAX_OBSERVED] = "observed", [ES_MAX_RUN] = "run",
    [ES_MAX_CEILING] = "ceiling",   [ES_MAX_LOGT] = "logT",
    [ES_MAX_NUMBER] = "number",
};

const char *es_max_name(es_max_policy policy)
{
    return policy_names[policy];
}

es_status es_max_parse(es_max *out, const char *text)
{
    double number;
    for (int i = ES_MAX_OBSERVED; i < ES_MAX_NUMBER; i++) {
        if (strcmp(text, policy_names[i]) == 0) {
            *out = (es_max){.policy = (es_max_policy)i};
            return ES_OK;
        }
    }
    if (es_double_parse(&number, text) || !(number > 0))
        return es_fail(ES_EUSAGE,
                       "unknown maximum '%s': expected observed, run, ceiling, "
                       "logT or a number above 0",
                       text);
    *out = (es_max){.policy = ES_MAX_NUMBER, .number = number};
    return ES_OK;
}

double es_max_value(const es_max *max, double observed, double run,
                    double ceiling, int ctx)
{
    switch (max->policy) {
    case ES_MAX_OBSERVED:
        return observed;
    case ES_MAX_RUN:
        return run;
    case ES_MAX_CEILING:
        return ceiling;
    case ES_MAX_LOGT:
        return ctx < 1 ? NAN : log(ctx);
    case ES_MAX_NUMBER:
        return max->number;
    }
    return NAN;
}

double es_largest_finite(const float *x, size_t n)
{
    double largest = NAN;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && !(x[i] <= largest))
            largest = x[i];
    return largest;
}

static int band_of(double value, double m)
{
    if (!(m > 0))
        return 0;
    return (value >= m / 4) + (value >= m / 2) + (value >= 3 * (m / 4));
}

void es_bands_count(es_bands *out, const float *entropy, size_t n, double m)
{
    *out = (es_bands){.n_heads = 0};
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(entropy[i])) {
            out->missing++;
            continue;
        }
        out->n_heads++;
        if (isfinite(entropy[i]))
            out->counts[band_of(entropy[i], m)]++;
        else
            out->nonfinite++;
    }
}

double es_bands_fraction(const es_bands *bands, int band)
{
    if (bands->n_heads == 0)
        return NAN;
    return (double)bands->counts[band] / (double)bands->n_heads;
}

double es_bands_balanced(const es_bands *bands)
{
    if (bands->n_heads == 0)
        return NAN;
    return (double)(bands->counts[1] + bands->counts[2]) /
           (double)bands->n_heads;
}
