/* Reads rules files with inih. Sections and line numbers are kept here: inih
 * cuts long section names and is silent about empty sections. Keys and their
 * values are checked by the tables of rules_keys.c. */
#include "cli/alerts/rules/rules_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/infile.h"

#include <ctype.h>
#include <ini.h>
#include <math.h>
#include <string.h>

enum { SECTION_NONE = -1, BASELINE = ES_N_FLAG_KINDS, RULE, N_SECTIONS };

typedef struct parser {
    es_rules_file *out;
    const char *path;
    const char *next, *end; /* of the text */
    int line;               /* 1-based, of what was handed out last */
    char place[160];        /* "FILE:LINE" */
    int section;
    int section_line;
    bool had[N_SECTIONS];                       /* sections, but rules */
    int threshold_lines[ES_N_RULES_THRESHOLDS]; /* 0: not set */
    int key_lines[ES_N_RULES_KEYS];             /* of this rule */
    int baseline_needed; /* the first line that does; 0: none */
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

static es_status end_section(parser *p)
{
    const es_flag_rules *flags = &p->out->flags;
    bool overload = p->section == ES_FLAG_OVERLOAD;
    double warning = overload ? flags->overload_warning : flags->logits_warning;
    double error = overload ? flags->overload_error : flags->logits_error;
    int last = p->section_line; /* to blame: the last of the section's */
    if (p->section == RULE)
        return es_rules_check(&p->out->rules[p->out->n - 1], p->key_lines,
                              p->path, p->section_line);
    if (p->section == BASELINE && !p->out->baseline)
        return es_fail(ES_EUSAGE, "%s: [baseline]: no run: add run = RUN.db",
                       place_of(p, p->section_line));
    if ((!overload && p->section != ES_FLAG_LOGITS) || warning <= error)
        return ES_OK;
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++)
        if ((int)es_rules_thresholds[i].section == p->section &&
            p->threshold_lines[i] > last)
            last = p->threshold_lines[i];
    return es_fail(ES_EUSAGE,
                   "%s: [%s]: warning is %g, above error, %g: it has to come "
                   "first",
                   place_of(p, last), es_flag_name((es_flag_kind)p->section),
                   warning, error);
}

static es_status check_name(parser *p, const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (n > ES_RULE_NAME_MAX || name[n] || !islower((unsigned char)name[0]))
        return es_fail(ES_EUSAGE,
                       "%s: rule '%.60s': a name of up to %d small letters, "
                       "digits, - and _, a letter first",
                       here(p), name, ES_RULE_NAME_MAX);
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        if (strcmp(name, es_flag_name((es_flag_kind)i)) == 0)
            return es_fail(ES_EUSAGE,
                           "%s: rule %s: a flag has that name: choose another",
                           here(p), name);
    for (size_t i = 0; i < p->out->n; i++)
        if (strcmp(name, p->out->rules[i].name) == 0)
            return es_fail(ES_EUSAGE, "%s: rule %s: there is one already",
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
    if (p->section == SECTION_NONE)
        return es_fail(ES_EUSAGE,
                       "%s: no section [%.60s]: nan, collapse, overload, "
                       "logits, baseline or rule NAME",
                       here(p), name);
    if (p->had[p->section])
        return es_fail(ES_EUSAGE, "%s: a second section [%s]", here(p), name);
    p->had[p->section] = true;
    return ES_OK;
}

/* "[name]", perhaps with a comment after it. */
static es_status parse_header(parser *p, const char *line)
{
    const char *end = strchr(line, ']');
    const char *rest = end ? end + 1 + strspn(end + 1, " \t\r\n") : NULL;
    char name[128];
    size_t n = end ? (size_t)(end - line) - 1 : 0;
    int shown = (int)strcspn(line, "\r\n");
    if (!rest || (*rest && *rest != ';' && *rest != '#') || n >= sizeof name)
        return es_fail(ES_EUSAGE, "%s: '%.*s': a section such as [collapse]",
                       here(p), shown < 60 ? shown : 60, line);
    memcpy(name, line + 1, n);
    name[n] = 0;
    return begin_section(p, name);
}

/* --- keys -----------------------------------------------------------------*/

static es_status fail_twice(parser *p, const char *key)
{
    return es_fail(ES_EUSAGE, "%s: %s: it is set above already", here(p), key);
}

static es_status set_threshold(parser *p, const es_rules_threshold *threshold,
                               const char *value)
{
    static const char *const ranges[] = {
        [ES_RULES_SHARE] = "a share from 0 to 1",
        [ES_RULES_POSITIVE] = "a number above 0",
        [ES_RULES_COUNT] = "a whole number from 1 to 1000000",
    };
    double x = 0;
    int64_t n = 0;
    bool fine;
    if (threshold->range == ES_RULES_COUNT)
        fine = es_int_parse(&n, value, 1, ES_RULES_COUNT_MOST) == ES_OK;
    else
        fine = es_double_parse(&x, value) == ES_OK && x >= 0 &&
               (threshold->range == ES_RULES_SHARE ? x <= 1 : x > 0);
    if (!fine)
        return es_fail(ES_EUSAGE, "%s: %s = '%.40s': %s", here(p),
                       threshold->key, value, ranges[threshold->range]);
    es_rules_threshold_set(&p->out->flags, threshold,
                           threshold->range == ES_RULES_COUNT ? (double)n : x);
    return ES_OK;
}

static es_status read_threshold(parser *p, const char *key, const char *value)
{
    char keys[128];
    es_text list = es_text_begin(keys, sizeof keys);
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++) {
        const es_rules_threshold *threshold = &es_rules_thresholds[i];
        if ((int)threshold->section != p->section)
            continue;
        es_text_append(&list, "%s%s", list.length ? ", " : "", threshold->key);
        if (strcmp(threshold->key, key) != 0)
            continue;
        if (p->threshold_lines[i])
            return fail_twice(p, key);
        p->threshold_lines[i] = p->line;
        return set_threshold(p, threshold, value);
    }
    return es_fail(ES_EUSAGE, "%s: [%s] has no key '%.40s': %s", here(p),
                   es_flag_name((es_flag_kind)p->section), key,
                   list.length ? keys : "it has none");
}

static bool is_comparison(int key)
{
    return key >= ES_RULES_KEY_ABOVE && key < ES_RULES_KEY_SHARE_OF;
}

static es_status read_rule_key(parser *p, const char *key, const char *value)
{
    es_rule *rule = &p->out->rules[p->out->n - 1];
    int set = 0;
    while (set < ES_N_RULES_KEYS && strcmp(key, es_rules_keys[set].name) != 0)
        set++;
    if (set == ES_N_RULES_KEYS)
        return es_fail(ES_EUSAGE,
                       "%s: a rule has no key '%.40s': series, phase, "
                       "aggregate, above, below, at_least, at_most, share, "
                       "end, samples, warm_up, cool_down, severity, action",
                       here(p), key);
    if (p->key_lines[set])
        return fail_twice(p, key);
    p->key_lines[set] = p->line;
    for (int i = 0; i < ES_N_RULES_KEYS && is_comparison(set); i++)
        if (is_comparison(i) && i != set && p->key_lines[i])
            return es_fail(ES_EUSAGE,
                           "%s: rule %s: more than one threshold: one of "
                           "above, below, at_least, at_most",
                           here(p), rule->name);
    es_status status = es_rules_set(rule, (es_rules_key)set, value, here(p));
    if (is_comparison(set) && rule->reference == ES_RULE_BASELINE &&
        !p->baseline_needed)
        p->baseline_needed = p->line;
    return status;
}

static es_status read_baseline(parser *p, const char *key, const char *value)
{
    if (strcmp(key, "run") != 0 || !es_rules_is_text(value))
        return es_fail(ES_EUSAGE, "%s: '%.40s': [baseline] has run = RUN.db",
                       here(p), key);
    if (p->out->baseline)
        return fail_twice(p, key);
    return es_copy_text(&p->out->baseline, value);
}

/* inih's; which section it is in we know better, see next_line. */
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
                            "one such as [collapse]",
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
 * Hands inih one line, as fgets does. Sections are taken here: inih cuts long
 * names, and is silent about empty sections. It takes indented lines for
 * continuations; in a rules file they are none, so blanks in front are dropped.
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
        p->status =
            es_fail(ES_EUSAGE, "%s: longer than %d bytes", here(p), size - 3);
        return NULL;
    }
    memcpy(out, from, n);
    out[n] = 0;
    if (memchr(out, 0, n))
        p->status =
            es_fail(ES_EUSAGE, "%s: a byte of 0: this is no text", here(p));
    else if (*out == '[')
        p->status = parse_header(p, out);
    return p->status == ES_OK ? out : NULL;
}

es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin so */
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
        return es_fail(ES_ENOMEM, "%s: out of memory for a line", path);
    if (p.status != ES_OK || (p.status = end_section(&p)) != ES_OK)
        return p.status;
    if (p.baseline_needed && !out->baseline)
        return es_fail(ES_EUSAGE,
                       "%s: no baseline: add [baseline] with run = RUN.db",
                       place_of(&p, p.baseline_needed));
    return ES_OK;
}

/* --- files ----------------------------------------------------------------*/

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
