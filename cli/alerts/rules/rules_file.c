/* Sets the defaults of an es_rules_file, adds the forecast rule, and checks
 * whether settings differ from the defaults. */
#include "cli/alerts/rules/rules_file.h"

#include "analyzer/base/checked.h"
#include "analyzer/flags/forecast.h"

#include <stdlib.h>
#include <string.h>

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
                           "--forecast: the rules file has a rule %s already: "
                           "leave one of them out",
                           rule.name);
    if (file->n == ES_RULES_MOST)
        return es_fail(
            ES_EUSAGE,
            "--forecast: there are %d rules already, the most allowed",
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
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *p = &es_flag_thresholds[i];
        if (es_flag_threshold_get(&flags, p) !=
            es_flag_threshold_get(&file->flags, p))
            return true;
    }
    return false;
}

bool es_rules_file_is_set(const es_rules_file *file)
{
    return file->n > 0 || es_rules_file_sets_flags(file);
}
