/* Rules files as values: the thresholds that they may set, and what they set
 * where they say nothing. */
#include "cli/alerts/rules/rules_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/flags/forecast.h"

#include <stdlib.h>
#include <string.h>

const es_rules_threshold es_rules_thresholds[ES_N_RULES_THRESHOLDS] = {
    {ES_FLAG_COLLAPSE, "head", offsetof(es_flag_rules, collapse_head),
     ES_RULES_POSITIVE, "a head is low below this fraction of the ceiling"},
    {ES_FLAG_COLLAPSE, "share", offsetof(es_flag_rules, collapse_share),
     ES_RULES_SHARE, "of a layer's heads that are low"},
    {ES_FLAG_COLLAPSE, "history", offsetof(es_flag_rules, collapse_history),
     ES_RULES_SHARE, "or a layer's mean below this fraction of its own median"},
    {ES_FLAG_COLLAPSE, "samples", offsetof(es_flag_rules, collapse_samples),
     ES_RULES_COUNT, "consecutive; as many as there are in a shorter run"},
    {ES_FLAG_COLLAPSE, "layers", offsetof(es_flag_rules, collapse_layers),
     ES_RULES_COUNT, "so many layers at once, and half of them, count for two"},
    {ES_FLAG_OVERLOAD, "head", offsetof(es_flag_rules, overload_head),
     ES_RULES_POSITIVE, "a head is high from this fraction of the ceiling on"},
    {ES_FLAG_OVERLOAD, "warning", offsetof(es_flag_rules, overload_warning),
     ES_RULES_SHARE, "of all heads that are high"},
    {ES_FLAG_OVERLOAD, "error", offsetof(es_flag_rules, overload_error),
     ES_RULES_SHARE, "of all heads that are high"},
    {ES_FLAG_OVERLOAD, "warm_up", offsetof(es_flag_rules, warm_up),
     ES_RULES_SHARE,
     "of the planned steps, not judged; collapse's history begins then too"},
    {ES_FLAG_OVERLOAD, "samples", offsetof(es_flag_rules, overload_samples),
     ES_RULES_COUNT, "consecutive; as many as there are in a shorter run"},
    {ES_FLAG_OVERLOAD, "steps", offsetof(es_flag_rules, overload_steps),
     ES_RULES_COUNT,
     "a training planned for fewer, whose heads have not come down, is info"},
    {ES_FLAG_LOGITS, "warning", offsetof(es_flag_rules, logits_warning),
     ES_RULES_POSITIVE, "above this"},
    {ES_FLAG_LOGITS, "error", offsetof(es_flag_rules, logits_error),
     ES_RULES_POSITIVE, "above this"},
};

double es_rules_threshold_get(const es_flag_rules *flags,
                              const es_rules_threshold *threshold)
{
    const void *place = (const char *)flags + threshold->offset;
    return threshold->range == ES_RULES_COUNT ? *(const int *)place
                                              : *(const double *)place;
}

void es_rules_threshold_set(es_flag_rules *flags,
                            const es_rules_threshold *threshold, double value)
{
    void *place = (char *)flags + threshold->offset;
    if (threshold->range == ES_RULES_COUNT)
        *(int *)place = (int)value;
    else
        *(double *)place = value;
}

void es_rules_file_default(es_rules_file *out)
{
    *out = (es_rules_file){.rules = NULL};
    es_flag_rules_default(&out->flags);
}

void es_rules_file_free(es_rules_file *file)
{
    free(file->rules);
    free(file->baseline);
    *file = (es_rules_file){.rules = NULL};
}

es_status es_rules_file_add_forecast(es_rules_file *file,
                                     es_forecast_choice choice)
{
    es_rule rule;
    es_status status;
    if (choice == ES_FORECAST_OFF)
        return ES_OK;
    es_forecast_rule(&rule, choice == ES_FORECAST_STOP ? ES_RULE_STOP
                                                       : ES_RULE_NO_ACTION);
    for (size_t i = 0; i < file->n; i++)
        if (strcmp(file->rules[i].name, rule.name) == 0)
            return es_fail(ES_EUSAGE,
                           "--forecast: there is a rule %s already: leave one "
                           "of them out",
                           rule.name);
    if (file->n == ES_RULES_MOST)
        return es_fail(ES_EUSAGE, "--forecast: there are %d rules already",
                       ES_RULES_MOST);
    status = es_grow(&file->rules, file->n + 1, sizeof *file->rules, "rules");
    if (status == ES_OK)
        file->rules[file->n++] = rule;
    return status;
}

bool es_rules_file_sets_flags(const es_rules_file *file)
{
    es_flag_rules flags;
    es_flag_rules_default(&flags);
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++) {
        const es_rules_threshold *p = &es_rules_thresholds[i];
        if (es_rules_threshold_get(&flags, p) !=
            es_rules_threshold_get(&file->flags, p))
            return true;
    }
    return false;
}

bool es_rules_file_is_set(const es_rules_file *file)
{
    return file->n > 0 || es_rules_file_sets_flags(file);
}
