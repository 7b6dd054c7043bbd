/* Returns the names of severities, the verdict on a flag as text (such as "too
 * short to judge"), and finds the series that the flags use by name. */
#include "analyzer/flags/flags.h"

#include <string.h>

static const char *const severity_names[] = {
    [ES_SEVERITY_NONE] = "none",         [ES_SEVERITY_INFO] = "info",
    [ES_SEVERITY_WARNING] = "warning",   [ES_SEVERITY_ERROR] = "error",
    [ES_SEVERITY_CRITICAL] = "critical",
};

const char *es_severity_name(es_severity severity)
{
    return severity_names[severity];
}

bool es_flag_is_too_short(es_flag_kind kind, es_severity severity)
{
    return kind == ES_FLAG_OVERLOAD && severity == ES_SEVERITY_INFO;
}

const char *es_flag_verdict(es_flag_kind kind, es_severity severity)
{
    return es_flag_is_too_short(kind, severity) ? "too short to judge"
                                                : es_severity_name(severity);
}

static const char *const series_names[] = {
    [ES_JUDGE_ENTROPY] = "entropy",
    [ES_JUDGE_NONFINITE_ROWS] = "nonfinite_rows",
    [ES_JUDGE_NAN_ACTIVATIONS] = "nan_activations",
    [ES_JUDGE_MAX_LOGIT] = "max_logit",
    [ES_JUDGE_LOSS] = "loss",
};

es_judge_series es_judge_series_of(const char *name)
{
    for (int i = 0; i < ES_JUDGE_OTHER; i++)
        if (strcmp(name, series_names[i]) == 0)
            return (es_judge_series)i;
    return ES_JUDGE_OTHER;
}
