/* `--json` under rules of one's own: the member "rules", with the thresholds of
 * the flags by section, the further rules and the baseline. */
#include "cli/alerts/rules/rules_internal.h"

#include <math.h>

static void put_flags(es_json_writer *json, const es_flag_rules *flags)
{
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++) {
        const es_rules_threshold *row = &es_rules_thresholds[i];
        if (i == 0 || row->section != row[-1].section)
            es_json_write_object(json, es_flag_name(row->section));
        es_json_write_number(json, row->key,
                             es_rules_threshold_get(flags, row));
        if (i + 1 == ES_N_RULES_THRESHOLDS || row->section != row[1].section)
            es_json_write_end(json, "}");
    }
}

static void put_rule(es_json_writer *json, const es_rule *rule)
{
    const bool is_share = rule->aggregate == ES_RULE_SHARE;
    es_json_write_object(json, NULL);
    es_json_write_text(json, "name", rule->name);
    es_json_write_text(json, "series", rule->series);
    es_json_write_text(json, "phase", rule->eval ? "eval" : "train");
    es_json_write_text(json, "aggregate",
                       es_rule_aggregate_name(rule->aggregate));
    es_json_write_text(json, "comparison",
                       es_rule_comparison_name(rule->comparison));
    es_json_write_stated(json, "threshold", rule->threshold, "missing");
    es_json_write_text(json, "reference",
                       rule->reference == ES_RULE_NUMBER
                           ? "number"
                           : es_rule_reference_name(rule->reference));
    es_json_write_stated(json, "share", is_share ? rule->share : (double)NAN,
                         "missing");
    es_json_write_stated(json, "end", rule->end, "missing");
    es_json_write_known(json, "samples", rule->samples);
    es_json_write_stated(json, "warm_up", rule->warm_up, "missing");
    es_json_write_known(json, "warm_up_steps", rule->warm_up_end);
    es_json_write_known(json, "cool_down", rule->cool_down);
    es_json_write_text(json, "severity", es_severity_name(rule->severity));
    es_json_write_text(json, "action", es_rule_action_name(rule->action));
    es_json_write_end(json, "}");
}

void es_rules_file_json(es_json_writer *json, const es_rules_file *file)
{
    es_json_write_object(json, "rules");
    put_flags(json, &file->flags);
    es_json_write_array(json, "further");
    for (size_t i = 0; i < file->n; i++) {
        if (i)
            es_json_write_line(json);
        put_rule(json, &file->rules[i]);
    }
    es_json_write_end(json, "]");
    es_json_write_text(json, "baseline", file->baseline);
    es_json_write_end(json, "}");
}
