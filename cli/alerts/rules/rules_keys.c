/* What the keys of a rule may say. */
#include "cli/alerts/rules/rules_internal.h"

#include "analyzer/base/text.h"
#include "store/run.h"

#include <ctype.h>
#include <math.h>
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
    {ES_FLAG_LOGITS, "warning", offsetof(es_flag_rules, logits_warning),
     ES_RULES_POSITIVE, "a max_logit above this"},
    {ES_FLAG_LOGITS, "error", offsetof(es_flag_rules, logits_error),
     ES_RULES_POSITIVE, "a max_logit above this"},
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

bool es_rules_is_text(const char *value)
{
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)value[i]))
            return false;
    return n > 0 && n <= ES_RULES_TEXT_MOST && value[0] != ';' &&
           es_text_is_utf8(value, n);
}

#define THRESHOLD "a number, alone or followed by ceiling, history or baseline"

const es_rules_key_row es_rules_keys[ES_N_RULES_KEYS] = {
    [ES_RULES_KEY_SERIES] = {"series", "the name of a series, such as entropy"},
    [ES_RULES_KEY_PHASE] = {"phase", "train or eval"},
    [ES_RULES_KEY_AGGREGATE] = {"aggregate",
                                "head, layer_mean, layer_min, layer_max, share "
                                "or run"},
    [ES_RULES_KEY_ABOVE + ES_RULE_ABOVE] = {"above", THRESHOLD},
    [ES_RULES_KEY_ABOVE + ES_RULE_BELOW] = {"below", THRESHOLD},
    [ES_RULES_KEY_ABOVE + ES_RULE_AT_LEAST] = {"at_least", THRESHOLD},
    [ES_RULES_KEY_ABOVE + ES_RULE_AT_MOST] = {"at_most", THRESHOLD},
    [ES_RULES_KEY_SHARE_OF] = {"share", "a share from 0 to 1"},
    [ES_RULES_KEY_END] = {"end", "a number, in the units of the threshold and "
                                 "without their name"},
    [ES_RULES_KEY_SAMPLES] = {"samples", "a number from 1 to 1000000"},
    [ES_RULES_KEY_WARM_UP] = {"warm_up",
                              "a share of the planned steps, such as 0.05, or "
                              "a number of them, such as 200 steps"},
    [ES_RULES_KEY_COOL_DOWN] = {"cool_down", "a number from 0 to 1000000"},
    [ES_RULES_KEY_SEVERITY] = {"severity", "info, warning, error or critical"},
    [ES_RULES_KEY_ACTION] = {"action", "none or stop"},
};

/* "0.05 ceiling". */
static bool set_threshold(es_rule *rule, es_rules_key key, const char *value)
{
    char number[64] = "";
    size_t n = strcspn(value, " \t");
    const char *name = value + n + strspn(value + n, " \t");
    int i = 0;
    while (i < ES_N_RULE_REFERENCES &&
           strcmp(name, es_rule_reference_name((es_rule_reference)i)) != 0)
        i++;
    memcpy(number, value, n < sizeof number ? n : 0);
    rule->comparison = (es_rule_comparison)(key - ES_RULES_KEY_ABOVE);
    rule->reference = (es_rule_reference)i;
    return i < ES_N_RULE_REFERENCES &&
           es_double_parse(&rule->threshold, number) == ES_OK;
}

static bool set_share(double *out, const char *value)
{
    return es_double_parse(out, value) == ES_OK && *out >= 0 && *out <= 1;
}

static bool set_count(uint32_t *out, int64_t least, const char *value)
{
    int64_t n;
    if (es_int_parse(&n, value, least, ES_RULES_COUNT_MOST) != ES_OK)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* "0.05" of the planned steps, or "200 steps", or "0.05 200 steps". */
static bool set_warm_up(es_rule *rule, const char *value)
{
    char first[64], steps[64], word[8], rest;
    int n = sscanf(value, "%63s %63s %7s %c", first, steps, word, &rest);
    rule->warm_up = 0;
    rule->warm_up_end = 0;
    if (n == 1)
        return set_share(&rule->warm_up, first);
    if (n == 2)
        return strcmp(steps, "steps") == 0 &&
               es_int_parse(&rule->warm_up_end, first, 0, ES_MAX_STEP) == ES_OK;
    return n == 3 && strcmp(word, "steps") == 0 &&
           set_share(&rule->warm_up, first) &&
           es_int_parse(&rule->warm_up_end, steps, 0, ES_MAX_STEP) == ES_OK;
}

static bool set(es_rule *rule, es_rules_key key, const char *value)
{
    int i = 0;
    switch (key) {
    case ES_RULES_KEY_SERIES:
        if (!es_rules_is_text(value))
            return false;
        memcpy(rule->series, value, strlen(value) + 1);
        return true;
    case ES_RULES_KEY_PHASE:
        rule->eval = strcmp(value, "eval") == 0;
        return rule->eval || strcmp(value, "train") == 0;
    case ES_RULES_KEY_AGGREGATE:
        while (i < ES_N_RULE_AGGREGATES &&
               strcmp(value, es_rule_aggregate_name((es_rule_aggregate)i)) != 0)
            i++;
        rule->aggregate = (es_rule_aggregate)i;
        return i < ES_N_RULE_AGGREGATES;
    case ES_RULES_KEY_SHARE_OF:
        return set_share(&rule->share, value);
    case ES_RULES_KEY_END:
        return es_double_parse(&rule->end, value) == ES_OK;
    case ES_RULES_KEY_SAMPLES:
        return set_count(&rule->samples, 1, value);
    case ES_RULES_KEY_WARM_UP:
        return set_warm_up(rule, value);
    case ES_RULES_KEY_COOL_DOWN:
        return set_count(&rule->cool_down, 0, value);
    case ES_RULES_KEY_SEVERITY:
        for (i = ES_SEVERITY_INFO; i <= ES_SEVERITY_CRITICAL; i++) {
            rule->severity = (es_severity)i;
            if (strcmp(value, es_severity_name(rule->severity)) == 0)
                return true;
        }
        return false;
    case ES_RULES_KEY_ACTION:
        rule->action =
            strcmp(value, "stop") == 0 ? ES_RULE_STOP : ES_RULE_NO_ACTION;
        return rule->action == ES_RULE_STOP || strcmp(value, "none") == 0;
    default:
        return set_threshold(rule, key, value);
    }
}

es_status es_rules_set(es_rule *rule, es_rules_key key, const char *value,
                       const char *place)
{
    return set(rule, key, value) ? ES_OK
                                 : es_fail(ES_EUSAGE, "%s: %s = '%.40s': %s",
                                           place, es_rules_keys[key].name,
                                           value, es_rules_keys[key].expected);
}

/* The second threshold has to lie on the near side of the first. */
static es_status check_end(const es_rule *rule, const char *path, int line)
{
    bool share = rule->aggregate == ES_RULE_SHARE;
    bool falling = !share && (rule->comparison == ES_RULE_BELOW ||
                              rule->comparison == ES_RULE_AT_MOST);
    double first = share ? rule->share : rule->threshold;
    bool easier = falling ? rule->end >= first : rule->end <= first;
    if (isnan(rule->end) || (easier && (!share || rule->end >= 0)))
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%.120s:%d: end = %g: a number of at %s %g, the %s that "
                   "opens an episode",
                   path, line, rule->end, falling ? "least" : "most", first,
                   share ? "share" : "threshold");
}

es_status es_rules_check(const es_rule *rule, const int lines[ES_N_RULES_KEYS],
                         const char *path, int header)
{
    bool compares = false;
    for (int i = 0; i < ES_N_RULE_COMPARISONS; i++)
        compares = compares || lines[ES_RULES_KEY_ABOVE + i];
    if (!lines[ES_RULES_KEY_SERIES])
        return es_fail(ES_EUSAGE,
                       "%.120s:%d: rule %s: no series: add series = NAME", path,
                       header, rule->name);
    if (!compares)
        return es_fail(ES_EUSAGE,
                       "%.120s:%d: rule %s: no threshold: one of above, below, "
                       "at_least, at_most",
                       path, header, rule->name);
    if (lines[ES_RULES_KEY_SHARE_OF] && rule->aggregate != ES_RULE_SHARE)
        return es_fail(ES_EUSAGE,
                       "%.120s:%d: rule %s: share needs aggregate = share",
                       path, lines[ES_RULES_KEY_SHARE_OF], rule->name);
    return check_end(rule, path, lines[ES_RULES_KEY_END]);
}
