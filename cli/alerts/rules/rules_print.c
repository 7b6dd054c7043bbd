/* Prints a rules file for `entropy-scan rules`. Reading the printed text gives
 * the same values; its comments and examples are the manual of the format. Also
 * writes the member "rules" of `--json`. */
#include "cli/alerts/rules/rules_file.h"

#include "analyzer/base/text.h"

#include <inttypes.h>
#include <math.h>

static void print_number(FILE *out, const char *key, double value,
                         const char *end)
{
    char number[ES_FLOAT_TEXT_MAX];
    fprintf(out, "%s = %s%s", key, es_double_print(number, value), end);
}

static void print_rule(FILE *out, const es_rule *rule)
{
    const char *reference = es_rule_reference_name(rule->reference);
    fprintf(out, "\n[rule %s]\nseries = %s\nphase = %s\naggregate = %s\n",
            rule->name, rule->series, rule->eval ? "eval" : "train",
            es_rule_aggregate_name(rule->aggregate));
    print_number(out, es_rule_comparison_name(rule->comparison),
                 rule->threshold, *reference ? " " : "");
    fprintf(out, "%s\n", reference);
    if (rule->aggregate == ES_RULE_SHARE)
        print_number(out, "share", rule->share, "\n");
    if (!isnan(rule->end))
        print_number(out, "end", rule->end, "\n");
    fprintf(out, "samples = %" PRIu32 "\n", rule->samples);
    if (rule->warm_up > 0 || rule->warm_up_end == 0)
        print_number(out, "warm_up", rule->warm_up, "");
    else
        fputs("warm_up =", out);
    if (rule->warm_up_end > 0)
        fprintf(out, " %" PRId64 " steps", rule->warm_up_end);
    fprintf(out, "\ncool_down = %" PRIu32 "\nseverity = %s\naction = %s\n",
            rule->cool_down, es_severity_name(rule->severity),
            es_rule_action_name(rule->action));
}

static const char introduction[] =
    "# Rules of entropy-scan, applied with --rules FILE. "
    "A value that is not set\n"
    "# keeps the default printed here. Lines "
    "that begin with # or ; are comments.\n";

static const char format[] =
    "\n"
    "# Further rules, any number of them:\n"
    "#   [rule NAME]  NAME appears among the flags\n"
    "#   series       any series of the run; phase: train or eval (train)\n"
    "#   aggregate    the value compared: every head, every layer's "
    "layer_mean,\n"
    "#                layer_min or layer_max, the share of heads for which "
    "the\n"
    "#                comparison holds, or the run's value: run (head)\n"
    "#   above, below, at_least, at_most: one of them, with a number; followed "
    "by\n"
    "#                ceiling, history or baseline it is a multiple of "
    "ln(T!)/T, of\n"
    "#                the median so far, of the baseline's value at the step\n"
    "#   share        with aggregate share: the least share of heads (0.5)\n"
    "#   end          a second threshold: an episode lasts until it is passed\n"
    "#                (the first threshold)\n"
    "#   samples      number of consecutive samples that open an episode (1)\n"
    "#   warm_up      start of the run that is not judged: a share of the "
    "planned\n"
    "#                steps, or N steps "
    "(0)\n"
    "#   cool_down    number of samples after an episode that open no other "
    "(0)\n"
    "#   severity     info, warning, error or critical (warning)\n"
    "#   action       none, or stop: watch stops the training (none)\n"
    "# NaN and missing values are never compared: they neither open nor end "
    "an\n"
    "# episode. Each example works without its semicolons.\n";

static const char examples_text[] =
    "\n; [rule sharp-head]\n"
    "; series = max_logit\n"
    "; aggregate = head\n"
    "; above = 50\n"
    "; end = 40\n"
    "\n; [rule layer-fades]\n"
    "; series = entropy\n"
    "; aggregate = layer_mean\n"
    "; below = 0.5 history\n"
    "; samples = 5\n"
    "; warm_up = 0.05\n"
    "; severity = error\n"
    "\n; [rule all-heads-high]\n"
    "; series = entropy\n"
    "; aggregate = layer_min\n"
    "; at_least = 0.9 ceiling\n"
    "; warm_up = 200 steps\n"
    "\n; [rule no-head-left]\n"
    "; series = entropy\n"
    "; aggregate = layer_max\n"
    "; at_most = 0.05 ceiling\n"
    "; severity = critical\n"
    "; action = stop\n"
    "\n; [rule below-baseline]\n"
    "; series = entropy\n"
    "; aggregate = share\n"
    "; below = 0.5 baseline\n"
    "; share = 0.25\n"
    "; end = 0.2\n"
    "; cool_down = 10\n"
    "\n; [rule loss-jumps]\n"
    "; series = loss\n"
    "; aggregate = run\n"
    "; above = 1.5 history\n"
    "; samples = 3\n"
    "\n"
    "# Rules with \"baseline\" compare with this run, which "
    "needs the same\n"
    "# numbers of layers and heads.\n"
    "; [baseline]\n"
    "; run = baseline.db\n";

/* Prints the section of a flag: its heading, such as "[collapse]", its meaning,
 * and its thresholds. */
static void print_flag(FILE *out, es_flag_kind kind, const es_flag_rules *flags)
{
    const es_flag_info *info = es_flag_info_at(kind);
    char severities[ES_FLAG_SEVERITIES_MAX];
    fprintf(out, "\n# %s\n# severity: %s\n[%s]\n", info->meaning,
            es_flag_severities(severities, info), info->name);
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *row = &es_flag_thresholds[i];
        if (row->kind != kind)
            continue;
        fprintf(out, "# %s\n", row->comment);
        const double value = es_flag_threshold_get(flags, row);
        if (row->range == ES_THRESHOLD_COUNT)
            fprintf(out, "%s = %.0f\n", row->key, value);
        else
            print_number(out, row->key, value, "\n");
    }
}

void es_rules_file_print(FILE *out, const es_rules_file *file, bool examples)
{
    fputs(introduction, out);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
        print_flag(out, (es_flag_kind)kind, &file->flags);
    fputs(format, out);
    if (examples)
        fputs(examples_text, out);
    for (size_t i = 0; i < file->n; i++)
        print_rule(out, &file->rules[i]);
    if (file->baseline)
        fprintf(out, "\n[baseline]\nrun = %s\n", file->baseline);
}

/* --- JSON ----------------------------------------------------------------- */

static void put_flags(es_json_writer *json, const es_flag_rules *flags)
{
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *row = &es_flag_thresholds[i];
        if (i == 0 || row->kind != row[-1].kind)
            es_json_write_object(json, es_flag_name(row->kind));
        es_json_write_number(json, row->key, es_flag_threshold_get(flags, row));
        if (i + 1 == ES_N_FLAG_THRESHOLDS || row->kind != row[1].kind)
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
