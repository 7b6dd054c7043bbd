#include "cli/alerts/rules/rules_internal.h"

#include "cli/output/json_members.h"

#include <math.h>

static void put_flags(FILE *out, const es_flag_rules *flags)
{
    es_flag_kind section = ES_FLAG_NAN;
    fputs("{", out);
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++) {
        const es_rules_threshold *of = &es_rules_thresholds[i];
        if (of->section != section)
            fprintf(out, "%s\"%s\":{", i ? "}," : "",
                    es_flag_name(of->section));
        es_json_name(out, of->key, of->section != section);
        es_json_digits(out, es_rules_threshold_get(flags, of));
        section = of->section;
    }
    fputs("}", out); /* of the last section */
}

static es_status put_rule(FILE *out, const es_rule *rule)
{
    fprintf(out, "{\"name\":\"%s\"", rule->name);
    es_status status = es_json_text(out, "series", rule->series);
    if (status != ES_OK)
        return status;
    fprintf(out, ",\"phase\":\"%s\",\"aggregate\":\"%s\",\"comparison\":\"%s\"",
            rule->eval ? "eval" : "train",
            es_rule_aggregate_name(rule->aggregate),
            es_rule_comparison_name(rule->comparison));
    es_json_number(out, "threshold", rule->threshold, "missing");
    fprintf(out, ",\"reference\":\"%s\"",
            rule->reference == ES_RULE_NUMBER
                ? "number"
                : es_rule_reference_name(rule->reference));
    es_json_number(out, "share",
                   rule->aggregate == ES_RULE_SHARE ? rule->share : NAN,
                   "missing");
    es_json_number(out, "end", rule->end, "missing");
    es_json_integer(out, "samples", rule->samples);
    es_json_number(out, "warm_up", rule->warm_up, "missing");
    es_json_integer(out, "warm_up_steps", rule->warm_up_end);
    es_json_integer(out, "cool_down", rule->cool_down);
    fprintf(out, ",\"severity\":\"%s\",\"action\":\"%s\"}",
            es_severity_name(rule->severity),
            es_rule_action_name(rule->action));
    return ES_OK;
}

es_status es_rules_file_json(FILE *out, const es_rules_file *file)
{
    es_status status = ES_OK;
    es_json_name(out, "rules", false);
    put_flags(out, &file->flags);
    es_json_name(out, "further", false);
    fputs("[", out);
    for (size_t i = 0; i < file->n && status == ES_OK; i++) {
        fputs(i ? ",\n" : "", out);
        status = put_rule(out, &file->rules[i]);
    }
    fputs("]", out);
    if (status == ES_OK)
        status = es_json_text(out, "baseline", file->baseline);
    fputs("}", out);
    return status;
}
