/* Names of flags, severities and judged series, and the default thresholds. */
#include "analyzer/flags/flags.h"

#include <string.h>

static const char *const flag_names[] = {
    [ES_FLAG_NAN] = "nan",
    [ES_FLAG_COLLAPSE] = "collapse",
    [ES_FLAG_OVERLOAD] = "overload",
    [ES_FLAG_LOGITS] = "logits",
};

const char *es_flag_name(es_flag_kind kind)
{
    return flag_names[kind];
}

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

void es_flag_rules_default(es_flag_rules *out)
{
    *out = (es_flag_rules){
        .collapse_head = 0.05,
        .collapse_share = 0.5,
        .collapse_history = 0.1,
        .collapse_samples = 3,
        .collapse_layers = 3,
        .overload_head = 0.75,
        .overload_warning = 0.20,
        .overload_error = 0.40,
        .overload_samples = 10,
        .overload_steps = 1000,
        .warm_up = 0.05,
        .logits_warning = 100,
        .logits_error = 1000,
    };
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
