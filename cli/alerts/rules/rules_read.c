/* Reads rules files with inih. This file tracks sections and line numbers,
 * because inih truncates long section names and does not report empty sections.
 * Each key of a rule has a row in rule_keys and a case in set_key. */
#include "cli/alerts/rules/rules_file.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"
#include "store/run.h"

#include <ctype.h>
#include <ini.h>
#include <math.h>
#include <string.h>

#define TEXT_MOST 180 /* maximum length of a name or path in bytes */
#define COUNT_MOST 1000000

typedef enum rule_key {
    KEY_SERIES,
    KEY_PHASE,
    KEY_AGGREGATE,
    KEY_ABOVE, /* first of the four keys of comparisons; comparison C has the
                  key KEY_ABOVE + C */
    KEY_SHARE_OF = KEY_ABOVE + ES_N_RULE_COMPARISONS,
    KEY_END,
    KEY_SAMPLES,
    KEY_WARM_UP,
    KEY_COOL_DOWN,
    KEY_SEVERITY,
    KEY_ACTION,
    N_KEYS
} rule_key;

enum { SECTION_NONE = -1, BASELINE = ES_N_FLAG_KINDS, RULE, N_SECTIONS };

typedef struct parser {
    es_rules_file *out;
    const char *path;
    const char *next, *end; /* beginning and end of the text that has not been
                               read yet */
    int line;               /* number of the line that inih received last,
                               counted from 1 */
    char place[160];        /* "FILE:LINE" */
    int section;
    int section_line;
    bool had[N_SECTIONS];                      /* true for each section that has
                                                  been read; not used for
                                                  sections of rules */
    int threshold_lines[ES_N_FLAG_THRESHOLDS]; /* line on which each threshold
                                                  is set; 0 if it is not set */
    int key_lines[N_KEYS];                     /* line on which each key of
                                                  the current rule is set; 0
                                                  if it is not set */
    int baseline_needed; /* first line with a rule that needs a baseline; 0
                            without such a rule */
    es_status status;
} parser;

static const char *place_of(parser *p, int line)
{
    snprintf(p->place, sizeof p->place, "%.120s:%d", p->path, line);
    return p->place;
}

static const char *here(parser *p)
{
    return place_of(p, p->line);
}

/* --- sections -------------------------------------------------------------*/

/* Checks a complete rule: the rule must have a series and a threshold, its keys
 * must fit together, and the second threshold must not lie beyond the first. */
static es_status check_rule(parser *p)
{
    const es_rule *rule = &p->out->rules[p->out->n - 1];
    const int *lines = p->key_lines;
    bool share = rule->aggregate == ES_RULE_SHARE;
    bool falling = !share && (rule->comparison == ES_RULE_BELOW ||
                              rule->comparison == ES_RULE_AT_MOST);
    double first = share ? rule->share : rule->threshold;
    bool easier = falling ? rule->end >= first : rule->end <= first;
    bool compares = false;
    for (int i = 0; i < ES_N_RULE_COMPARISONS; i++)
        compares = compares || lines[KEY_ABOVE + i];
    if (!lines[KEY_SERIES])
        return es_fail(ES_EUSAGE, "%s: rule %s: no series: add series = NAME",
                       place_of(p, p->section_line), rule->name);
    if (!compares)
        return es_fail(ES_EUSAGE,
                       "%s: rule %s: no threshold: add one of above, below, "
                       "at_least, at_most",
                       place_of(p, p->section_line), rule->name);
    if (lines[KEY_SHARE_OF] && !share)
        return es_fail(ES_EUSAGE, "%s: rule %s: share needs aggregate = share",
                       place_of(p, lines[KEY_SHARE_OF]), rule->name);
    if (isnan(rule->end) || (easier && (!share || rule->end >= 0)))
        return ES_OK;
    char end[ES_FLOAT_TEXT_MAX], from[ES_FLOAT_TEXT_MAX];
    return es_fail(
        ES_EUSAGE,
        "%s: end = %s: expected at %s %s, the %s that opens an episode",
        place_of(p, lines[KEY_END]), es_number_print(end, rule->end, 6),
        falling ? "least" : "most", es_number_print(from, first, 6),
        share ? "share" : "threshold");
}

static es_status end_section(parser *p)
{
    const es_flag_rules *flags = &p->out->flags;
    bool overload = p->section == ES_FLAG_OVERLOAD;
    double warning = overload ? flags->overload_warning : flags->logits_warning;
    double error = overload ? flags->overload_error : flags->logits_error;
    int last = p->section_line; /* for messages: the last line in the section on
                                   which a threshold is set */
    if (p->section == RULE)
        return check_rule(p);
    if (p->section == BASELINE && !p->out->baseline)
        return es_fail(ES_EUSAGE, "%s: [baseline]: no run: add run = RUN.db",
                       place_of(p, p->section_line));
    if ((!overload && p->section != ES_FLAG_LOGITS) || warning <= error)
        return ES_OK;
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++)
        if ((int)es_flag_thresholds[i].kind == p->section &&
            p->threshold_lines[i] > last)
            last = p->threshold_lines[i];
    char low[ES_FLOAT_TEXT_MAX], high[ES_FLOAT_TEXT_MAX];
    return es_fail(ES_EUSAGE, "%s: [%s]: warning = %s exceeds error = %s",
                   place_of(p, last), es_flag_name((es_flag_kind)p->section),
                   es_number_print(low, warning, 6),
                   es_number_print(high, error, 6));
}

static es_status check_name(parser *p, const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (n > ES_RULE_NAME_MAX || name[n] || !islower((unsigned char)name[0]))
        return es_fail(
            ES_EUSAGE,
            "%s: rule '%.60s': expected a name of up to %d lower-case letters, "
            "digits, - and _ that begins with a letter",
            here(p), name, ES_RULE_NAME_MAX);
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        if (strcmp(name, es_flag_name((es_flag_kind)i)) == 0)
            return es_fail(
                ES_EUSAGE,
                "%s: rule %s: a flag has this name: choose another name",
                here(p), name);
    for (size_t i = 0; i < p->out->n; i++)
        if (strcmp(name, p->out->rules[i].name) == 0)
            return es_fail(
                ES_EUSAGE,
                "%s: rule %s: an earlier rule of the file has this name",
                here(p), name);
    if (p->out->n == ES_RULES_MOST)
        return es_fail(ES_EUSAGE, "%s: more than %d rules", here(p),
                       ES_RULES_MOST);
    return ES_OK;
}

static es_status begin_rule(parser *p, const char *name)
{
    es_rules_file *out = p->out;
    es_status status;
    if ((status = check_name(p, name)) < 0 ||
        (status =
             es_grow(&out->rules, out->n + 1, sizeof *out->rules, "rules")) < 0)
        return status;
    es_rule *rule = &out->rules[out->n++];
    es_rule_default(rule);
    memcpy(rule->name, name, strlen(name) + 1);
    memset(p->key_lines, 0, sizeof p->key_lines);
    p->section = RULE;
    return ES_OK;
}

static es_status begin_section(parser *p, const char *name)
{
    es_status status = end_section(p);
    if (status != ES_OK)
        return status;
    p->section_line = p->line;
    if (strncmp(name, "rule", 4) == 0 && (name[4] == ' ' || name[4] == '\t'))
        return begin_rule(p, name + 4 + strspn(name + 4, " \t"));
    p->section = strcmp(name, "baseline") == 0 ? BASELINE : SECTION_NONE;
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        if (strcmp(name, es_flag_name((es_flag_kind)i)) == 0)
            p->section = i;
    if (p->section == SECTION_NONE) {
        char flags[ES_FLAG_NAMES_MAX];
        return es_fail(
            ES_EUSAGE,
            "%s: unknown section [%.60s]: expected %s, baseline or rule NAME",
            here(p), name, es_flag_names(flags, ES_N_FLAG_KINDS));
    }
    if (p->had[p->section])
        return es_fail(ES_EUSAGE, "%s: section [%s] appears twice", here(p),
                       name);
    p->had[p->section] = true;
    return ES_OK;
}

/* Parses a section header "[name]", which a comment may follow. */
static es_status parse_header(parser *p, const char *line)
{
    const char *end = strchr(line, ']');
    const char *rest = end ? end + 1 + strspn(end + 1, " \t\r\n") : NULL;
    char name[128];
    size_t n = end ? (size_t)(end - line) - 1 : 0;
    int shown = (int)strcspn(line, "\r\n");
    if (!rest || (*rest && *rest != ';' && *rest != '#') || n >= sizeof name)
        return es_fail(ES_EUSAGE,
                       "%s: '%.*s': expected a section such as [collapse]",
                       here(p), shown < 60 ? shown : 60, line);
    memcpy(name, line + 1, n);
    name[n] = 0;
    return begin_section(p, name);
}

/* --- keys of a rule -------------------------------------------------------*/

/* Returns true if `value` is a valid name of a series or a valid path in a
 * rules file. */
static bool is_text(const char *value)
{
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)value[i]))
            return false;
    return n > 0 && n <= TEXT_MOST && value[0] != ';' &&
           es_text_is_utf8(value, n);
}

#define THRESHOLD "a number, alone or followed by ceiling, history or baseline"

static const struct {
    const char *name;
    const char *expected; /* describes the valid values, for messages */
} rule_keys[N_KEYS] = {
    [KEY_SERIES] = {"series", "the name of a series, such as entropy"},
    [KEY_PHASE] = {"phase", "train or eval"},
    [KEY_AGGREGATE] = {"aggregate",
                       "head, layer_mean, layer_min, layer_max, share "
                       "or run"},
    [KEY_ABOVE + ES_RULE_ABOVE] = {"above", THRESHOLD},
    [KEY_ABOVE + ES_RULE_BELOW] = {"below", THRESHOLD},
    [KEY_ABOVE + ES_RULE_AT_LEAST] = {"at_least", THRESHOLD},
    [KEY_ABOVE + ES_RULE_AT_MOST] = {"at_most", THRESHOLD},
    [KEY_SHARE_OF] = {"share", "a share from 0 to 1"},
    [KEY_END] = {"end", "a number alone, in the unit of the threshold"},
    [KEY_SAMPLES] = {"samples", "a number from 1 to 1000000"},
    [KEY_WARM_UP] = {"warm_up", "a share of the planned steps, such as 0.05, "
                                "or a number of steps, such as 200 steps"},
    [KEY_COOL_DOWN] = {"cool_down", "a number from 0 to 1000000"},
    [KEY_SEVERITY] = {"severity", "info, warning, error or critical"},
    [KEY_ACTION] = {"action", "none or stop"},
};

/* Parses "0.05 ceiling". */
static bool set_comparison(es_rule *rule, rule_key key, const char *value)
{
    char number[64] = "";
    size_t n = strcspn(value, " \t");
    const char *name = value + n + strspn(value + n, " \t");
    int i = 0;
    while (i < ES_N_RULE_REFERENCES &&
           strcmp(name, es_rule_reference_name((es_rule_reference)i)) != 0)
        i++;
    memcpy(number, value, n < sizeof number ? n : 0);
    rule->comparison = (es_rule_comparison)(key - KEY_ABOVE);
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
    if (es_int_parse(&n, value, least, COUNT_MOST) != ES_OK)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* Parses a warm-up: "0.05" (a share of the planned steps), "200 steps", or
 * both, written "0.05 200 steps". */
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

static bool set_key(es_rule *rule, rule_key key, const char *value)
{
    int i = 0;
    switch (key) {
    case KEY_SERIES:
        if (!is_text(value))
            return false;
        memcpy(rule->series, value, strlen(value) + 1);
        return true;
    case KEY_PHASE:
        rule->eval = strcmp(value, "eval") == 0;
        return rule->eval || strcmp(value, "train") == 0;
    case KEY_AGGREGATE:
        while (i < ES_N_RULE_AGGREGATES &&
               strcmp(value, es_rule_aggregate_name((es_rule_aggregate)i)) != 0)
            i++;
        rule->aggregate = (es_rule_aggregate)i;
        return i < ES_N_RULE_AGGREGATES;
    case KEY_SHARE_OF:
        return set_share(&rule->share, value);
    case KEY_END:
        return es_double_parse(&rule->end, value) == ES_OK;
    case KEY_SAMPLES:
        return set_count(&rule->samples, 1, value);
    case KEY_WARM_UP:
        return set_warm_up(rule, value);
    case KEY_COOL_DOWN:
        return set_count(&rule->cool_down, 0, value);
    case KEY_SEVERITY:
        for (i = ES_SEVERITY_INFO; i <= ES_SEVERITY_CRITICAL; i++) {
            rule->severity = (es_severity)i;
            if (strcmp(value, es_severity_name(rule->severity)) == 0)
                return true;
        }
        return false;
    case KEY_ACTION:
        rule->action =
            strcmp(value, "stop") == 0 ? ES_RULE_STOP : ES_RULE_NO_ACTION;
        return rule->action == ES_RULE_STOP || strcmp(value, "none") == 0;
    default:
        return set_comparison(rule, key, value);
    }
}

/* --- all keys ------------------------------------------------------------*/

static es_status fail_twice(parser *p, const char *key)
{
    return es_fail(ES_EUSAGE, "%s: %s: this key is already set above", here(p),
                   key);
}

static es_status set_threshold(parser *p, const es_flag_threshold *threshold,
                               const char *value)
{
    static const char *const ranges[] = {
        [ES_THRESHOLD_SHARE] = "a share from 0 to 1",
        [ES_THRESHOLD_POSITIVE] = "a number above 0",
        [ES_THRESHOLD_COUNT] = "a whole number from 1 to 1000000",
    };
    double x = 0;
    int64_t n = 0;
    bool fine;
    if (threshold->range == ES_THRESHOLD_COUNT)
        fine = es_int_parse(&n, value, 1, COUNT_MOST) == ES_OK;
    else
        fine = es_double_parse(&x, value) == ES_OK && x >= 0 &&
               (threshold->range == ES_THRESHOLD_SHARE ? x <= 1 : x > 0);
    if (!fine)
        return es_fail(ES_EUSAGE, "%s: %s = '%.40s': expected %s", here(p),
                       threshold->key, value, ranges[threshold->range]);
    es_flag_threshold_set(&p->out->flags, threshold,
                          threshold->range == ES_THRESHOLD_COUNT ? (double)n
                                                                 : x);
    return ES_OK;
}

static es_status read_threshold(parser *p, const char *key, const char *value)
{
    char keys[128];
    es_text list = es_text_begin(keys, sizeof keys);
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *threshold = &es_flag_thresholds[i];
        if ((int)threshold->kind != p->section)
            continue;
        es_text_append(&list, "%s%s", list.length ? ", " : "", threshold->key);
        if (strcmp(threshold->key, key) != 0)
            continue;
        if (p->threshold_lines[i])
            return fail_twice(p, key);
        p->threshold_lines[i] = p->line;
        return set_threshold(p, threshold, value);
    }
    return es_fail(ES_EUSAGE, "%s: [%s] has no key '%.40s': expected %s",
                   here(p), es_flag_name((es_flag_kind)p->section), key,
                   list.length ? keys : "no keys");
}

static bool is_comparison(int key)
{
    return key >= KEY_ABOVE && key < KEY_SHARE_OF;
}

static es_status read_rule_key(parser *p, const char *key, const char *value)
{
    es_rule *rule = &p->out->rules[p->out->n - 1];
    int set = 0;
    while (set < N_KEYS && strcmp(key, rule_keys[set].name) != 0)
        set++;
    if (set == N_KEYS)
        return es_fail(ES_EUSAGE,
                       "%s: a rule has no key '%.40s': expected series, phase, "
                       "aggregate, above, below, at_least, at_most, share, "
                       "end, samples, warm_up, cool_down, severity or action",
                       here(p), key);
    if (p->key_lines[set])
        return fail_twice(p, key);
    p->key_lines[set] = p->line;
    for (int i = 0; i < N_KEYS && is_comparison(set); i++)
        if (is_comparison(i) && i != set && p->key_lines[i])
            return es_fail(ES_EUSAGE,
                           "%s: rule %s: more than one threshold: keep one of "
                           "above, below, at_least, at_most",
                           here(p), rule->name);
    bool fine = set_key(rule, (rule_key)set, value);
    if (is_comparison(set) && rule->reference == ES_RULE_BASELINE &&
        !p->baseline_needed)
        p->baseline_needed = p->line;
    return fine ? ES_OK
                : es_fail(ES_EUSAGE, "%s: %s = '%.40s': expected %s", here(p),
                          key, value, rule_keys[set].expected);
}

static es_status read_baseline(parser *p, const char *key, const char *value)
{
    if (strcmp(key, "run") != 0 || !is_text(value))
        return es_fail(ES_EUSAGE,
                       "%s: '%.40s': expected run = RUN.db in [baseline]",
                       here(p), key);
    if (p->out->baseline)
        return fail_twice(p, key);
    return es_copy_text(&p->out->baseline, value);
}

/* Receives a key and its value from inih. `section` is ignored, because
 * next_line tracks sections. */
static int read_key(void *user, const char *section, const char *key,
                    const char *value)
{
    parser *p = user;
    (void)section;
    if (p->status != ES_OK)
        return 0;
    if (p->section == SECTION_NONE)
        p->status = es_fail(ES_EUSAGE,
                            "%s: '%.40s' before the first section: begin with "
                            "a section such as [collapse]",
                            here(p), key);
    else if (p->section == RULE)
        p->status = read_rule_key(p, key, value);
    else if (p->section == BASELINE)
        p->status = read_baseline(p, key, value);
    else
        p->status = read_threshold(p, key, value);
    return p->status == ES_OK;
}

/* --- lines ----------------------------------------------------------------*/

/*
 * Returns one line to inih, which calls this function instead of fgets. Section
 * headers are parsed here, because inih truncates long names and does not
 * report empty sections. Leading blanks are dropped, because inih would treat
 * an indented line as a continuation of the previous line.
 */
static char *next_line(char *out, int size, void *user)
{
    parser *p = user;
    if (p->status != ES_OK || p->next == p->end)
        return NULL;
    const char *from = p->next;
    const char *stop = memchr(from, '\n', (size_t)(p->end - from));
    p->next = stop ? stop + 1 : p->end;
    p->line++;
    while (from < p->next && *from != '\n' && isspace((unsigned char)*from))
        from++;
    size_t n = (size_t)(p->next - from);
    if (n + 2 > (size_t)size) {
        p->status = es_fail(ES_EUSAGE, "%s: the line is longer than %d bytes",
                            here(p), size - 3);
        return NULL;
    }
    memcpy(out, from, n);
    out[n] = 0;
    if (memchr(out, 0, n))
        p->status = es_fail(
            ES_EUSAGE, "%s: contains a NUL byte: not a text file", here(p));
    else if (*out == '[')
        p->status = parse_header(p, out);
    return p->status == ES_OK ? out : NULL;
}

es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, which some
                                                  editors write at the start */
    parser p = {.out = out, .path = path, .section = SECTION_NONE};
    es_rules_file_default(out);
    p.next = text;
    p.end = text + n;
    if (n >= 3 && memcmp(text, mark, 3) == 0)
        p.next += 3;
    int wrong = ini_parse_stream(next_line, &p, read_key, &p);
    if (wrong > 0 && (p.status == ES_OK || wrong < p.line))
        return es_fail(ES_EUSAGE, "%s: expected KEY = VALUE or [SECTION]",
                       place_of(&p, wrong));
    if (wrong < 0 && p.status == ES_OK)
        return es_fail(ES_ENOMEM, "%s: out of memory while reading a line",
                       path);
    if (p.status != ES_OK || (p.status = end_section(&p)) != ES_OK)
        return p.status;
    if (p.baseline_needed && !out->baseline)
        return es_fail(ES_EUSAGE,
                       "%s: no baseline: add [baseline] with run = RUN.db",
                       place_of(&p, p.baseline_needed));
    return ES_OK;
}

es_status es_rules_file_read(es_rules_file *out, const char *path)
{
    static const es_infile_limit limit = {ES_RULES_FILE_BYTES, "a rules file",
                                          ES_EUSAGE};
    size_t n;
    char *text;
    es_rules_file_default(out);
    es_status status = es_infile_load(&text, &n, path, &limit);
    if (status == ES_OK)
        status = es_rules_file_parse(out, path, text, n);
    free(text);
    return status;
}
