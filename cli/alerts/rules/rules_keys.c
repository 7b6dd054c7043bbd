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
    const char *place = (const char *)flags + threshold->offset;
    int count;
    double value;
    if (threshold->range == ES_RULES_COUNT) {
        memcpy(&count, place, sizeof count);
        return count;
    }
    memcpy(&value, place, sizeof value);
    return value;
}

void es_rules_threshold_set(es_flag_rules *flags,
                            const es_rules_threshold *threshold, double value)
{
    char *place = (char *)flags + threshold->offset;
    int count = threshold->range == ES_RULES_COUNT ? (int)value : 0;
    if (threshold->range == ES_RULES_COUNT)
        memcpy(place, &count, sizeof count);
    else
        memcpy(place, &value, sizeof value);
}

const char *const es_rules_keys[ES_N_RULES_KEYS] = {
    [ES_RULES_KEY_SERIES] = "series",
    [ES_RULES_KEY_PHASE] = "phase",
    [ES_RULES_KEY_AGGREGATE] = "aggregate",
    [ES_RULES_KEY_ABOVE + ES_RULE_ABOVE] = "above",
    [ES_RULES_KEY_ABOVE + ES_RULE_BELOW] = "below",
    [ES_RULES_KEY_ABOVE + ES_RULE_AT_LEAST] = "at_least",
    [ES_RULES_KEY_ABOVE + ES_RULE_AT_MOST] = "at_most",
    [ES_RULES_KEY_SHARE_OF] = "share",
    [ES_RULES_KEY_END] = "end",
    [ES_RULES_KEY_SAMPLES] = "samples",
    [ES_RULES_KEY_WARM_UP] = "warm_up",
    [ES_RULES_KEY_COOL_DOWN] = "cool_down",
    [ES_RULES_KEY_SEVERITY] = "severity",
    [ES_RULES_KEY_ACTION] = "action",
};

bool es_rules_is_text(const char *value)
{
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)value[i]))
            return false;
    return n > 0 && n <= ES_RULES_TEXT_MOST && value[0] != ';' &&
           es_text_is_utf8(value, n);
}

/* What a key may say, for messages. */
static const char *const expected[ES_N_RULES_KEYS] = {
    [ES_RULES_KEY_SERIES] = "the name of a series, such as entropy",
    [ES_RULES_KEY_PHASE] = "train or eval",
    [ES_RULES_KEY_AGGREGATE] =
        "head, layer_mean, layer_min, layer_max, share or run",
    [ES_RULES_KEY_SHARE_OF] = "a share from 0 to 1",
    [ES_RULES_KEY_END] =
        "a number, in the units of the threshold and without their name",
    [ES_RULES_KEY_SAMPLES] = "a number from 1 to 1000000",
    [ES_RULES_KEY_WARM_UP] = "a share of the planned steps, such as 0.05, or "
                             "a number of them, such as 200 steps",
    [ES_RULES_KEY_COOL_DOWN] = "a number from 0 to 1000000",
    [ES_RULES_KEY_SEVERITY] = "info, warning, error or critical",
    [ES_RULES_KEY_ACTION] = "none or stop",
};

static bool set_series(es_rule *rule, const char *value)
{
    bool fine = es_rules_is_text(value);
    if (fine)
        memcpy(rule->series, value, strlen(value) + 1);
    return fine;
}

static bool set_phase(es_rule *rule, const char *value)
{
    rule->eval = strcmp(value, "eval") == 0;
    return rule->eval || strcmp(value, "train") == 0;
}

static bool set_aggregate(es_rule *rule, const char *value)
{
    for (int i = 0; i < ES_N_RULE_AGGREGATES; i++) {
        rule->aggregate = (es_rule_aggregate)i;
        if (strcmp(value, es_rule_aggregate_name(rule->aggregate)) == 0)
            return true;
    }
    return false;
}

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
    double share = 0;
    int64_t end = 0;
    bool fine = false;
    int n = sscanf(value, "%63s %63s %7s %c", first, steps, word, &rest);
    if (n == 1)
        fine = set_share(&share, first);
    else if (n == 2 && strcmp(steps, "steps") == 0)
        fine = es_int_parse(&end, first, 0, ES_MAX_STEP) == ES_OK;
    else if (n == 3 && strcmp(word, "steps") == 0)
        fine = set_share(&share, first) &&
               es_int_parse(&end, steps, 0, ES_MAX_STEP) == ES_OK;
    rule->warm_up = share;
    rule->warm_up_end = end;
    return fine;
}

static bool set_severity(es_rule *rule, const char *value)
{
    for (int i = ES_SEVERITY_INFO; i <= ES_SEVERITY_CRITICAL; i++) {
        rule->severity = (es_severity)i;
        if (strcmp(value, es_severity_name(rule->severity)) == 0)
            return true;
    }
    return false;
}

static bool set_action(es_rule *rule, const char *value)
{
    bool stop = strcmp(value, "stop") == 0;
    rule->action = stop ? ES_RULE_STOP : ES_RULE_NO_ACTION;
    return stop || strcmp(value, "none") == 0;
}

static bool set(es_rule *rule, es_rules_key key, const char *value)
{
    switch (key) {
    case ES_RULES_KEY_SERIES:
        return set_series(rule, value);
    case ES_RULES_KEY_PHASE:
        return set_phase(rule, value);
    case ES_RULES_KEY_AGGREGATE:
        return set_aggregate(rule, value);
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
        return set_severity(rule, value);
    case ES_RULES_KEY_ACTION:
        return set_action(rule, value);
    default:
        return set_threshold(rule, key, value);
    }
}

es_status es_rules_set(es_rule *rule, es_rules_key key, const char *value,
                       const char *place)
{
    if (set(rule, key, value))
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s: %s = '%.40s': %s", place, es_rules_keys[key],
                   value,
                   expected[key] ? expected[key]
                                 : "a number, alone or followed by ceiling, "
                                   "history or baseline");
}

/* The second threshold lies on the near side of the first. */
static bool is_easier(const es_rule *rule)
{
    if (rule->aggregate == ES_RULE_SHARE)
        return rule->end >= 0 && rule->end <= rule->share;
    if (rule->comparison == ES_RULE_BELOW ||
        rule->comparison == ES_RULE_AT_MOST)
        return rule->end >= rule->threshold;
    return rule->end <= rule->threshold;
}

static es_status check_end(const es_rule *rule, const char *path, int line)
{
    bool share = rule->aggregate == ES_RULE_SHARE;
    bool falling = rule->comparison == ES_RULE_BELOW ||
                   rule->comparison == ES_RULE_AT_MOST;
    if (isnan(rule->end) || is_easier(rule))
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%.120s:%d: end = %g: a number of at %s %g, the %s that "
                   "opens an episode",
                   path, line, rule->end, falling && !share ? "least" : "most",
                   share ? rule->share : rule->threshold,
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
