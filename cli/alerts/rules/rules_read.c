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
    char at[160];           /* "FILE:LINE" */
    int section;
    int section_line;
    bool had[N_SECTIONS];                       /* sections, but rules */
    int threshold_lines[ES_N_RULES_THRESHOLDS]; /* 0: not set */
    int key_lines[ES_N_RULES_KEYS];             /* of this rule */
    int baseline_needed; /* the first line that does; 0: none */
    es_status status;
} parser;

static const char *at_line(parser *of, int line)
{
    snprintf(of->at, sizeof of->at, "%.120s:%d", of->path, line);
    return of->at;
}

static const char *here(parser *of)
{
    return at_line(of, of->line);
}

/* --- sections -------------------------------------------------------------*/

/* Which line to blame: the last of the section's. */
static int last_threshold_line(const parser *of)
{
    int last = of->section_line;
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++)
        if ((int)es_rules_thresholds[i].section == of->section &&
            of->threshold_lines[i] > last)
            last = of->threshold_lines[i];
    return last;
}

static es_status check_pair(parser *of, es_flag_kind kind, double warning,
                            double error)
{
    if (warning <= error)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s: [%s]: warning is %g, above error, %g: it has to come "
                   "first",
                   at_line(of, last_threshold_line(of)), es_flag_name(kind),
                   warning, error);
}

static es_status check_baseline(parser *of)
{
    if (of->out->baseline)
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s: [baseline]: no run: add run = RUN.db",
                   at_line(of, of->section_line));
}

static es_status end_section(parser *of)
{
    const es_flag_rules *flags = &of->out->flags;
    switch (of->section) {
    case ES_FLAG_OVERLOAD:
        return check_pair(of, ES_FLAG_OVERLOAD, flags->overload_warning,
                          flags->overload_error);
    case ES_FLAG_LOGITS:
        return check_pair(of, ES_FLAG_LOGITS, flags->logits_warning,
                          flags->logits_error);
    case BASELINE:
        return check_baseline(of);
    case RULE:
        return es_rules_check(&of->out->rules[of->out->n - 1], of->key_lines,
                              of->path, of->section_line);
    default:
        return ES_OK;
    }
}

static es_status end_file(parser *of)
{
    es_status status = end_section(of);
    if (status == ES_OK && of->baseline_needed && !of->out->baseline)
        status = es_fail(ES_EUSAGE,
                         "%s: no baseline: add [baseline] with run = RUN.db",
                         at_line(of, of->baseline_needed));
    return status;
}

static bool is_rule_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return n > 0 && n <= ES_RULE_NAME_MAX && !name[n] &&
           islower((unsigned char)name[0]);
}

static es_status check_name(parser *of, const char *name)
{
    if (!is_rule_name(name))
        return es_fail(ES_EUSAGE,
                       "%s: rule '%.60s': a name of up to %d small letters, "
                       "digits, - and _, a letter first",
                       here(of), name, ES_RULE_NAME_MAX);
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        if (strcmp(name, es_flag_name((es_flag_kind)i)) == 0)
            return es_fail(ES_EUSAGE,
                           "%s: rule %s: a flag has that name: choose another",
                           here(of), name);
    for (size_t i = 0; i < of->out->n; i++)
        if (strcmp(name, of->out->rules[i].name) == 0)
            return es_fail(ES_EUSAGE, "%s: rule %s: there is one already",
                           here(of), name);
    return ES_OK;
}

static es_status begin_rule(parser *of, const char *name)
{
    es_rules_file *out = of->out;
    es_status status = check_name(of, name);
    if (status != ES_OK)
        return status;
    if (out->n == ES_RULES_MOST)
        return es_fail(ES_EUSAGE, "%s: more than %d rules", here(of),
                       ES_RULES_MOST);
    es_rule *grown = es_resize(out->rules, out->n + 1, sizeof *grown);
    if (!grown)
        return es_fail(ES_ENOMEM, "out of memory for rules");
    out->rules = grown;
    es_rule_default(&grown[out->n]);
    memcpy(grown[out->n].name, name, strlen(name) + 1);
    out->n++;
    memset(of->key_lines, 0, sizeof of->key_lines);
    of->section = RULE;
    return ES_OK;
}

static int find_section(const char *name)
{
    if (strcmp(name, "baseline") == 0)
        return BASELINE;
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        if (strcmp(name, es_flag_name((es_flag_kind)i)) == 0)
            return i;
    return SECTION_NONE;
}

static es_status begin_section(parser *of, const char *name)
{
    es_status status = end_section(of);
    if (status != ES_OK)
        return status;
    of->section_line = of->line;
    if (strncmp(name, "rule", 4) == 0 && (name[4] == ' ' || name[4] == '\t'))
        return begin_rule(of, name + 4 + strspn(name + 4, " \t"));
    of->section = find_section(name);
    if (of->section == SECTION_NONE)
        return es_fail(ES_EUSAGE,
                       "%s: no section [%.60s]: nan, collapse, overload, "
                       "logits, baseline or rule NAME",
                       here(of), name);
    if (of->had[of->section])
        return es_fail(ES_EUSAGE, "%s: a second section [%s]", here(of), name);
    of->had[of->section] = true;
    return ES_OK;
}

/* "[name]", perhaps with a comment after it. */
static es_status parse_header(parser *of, const char *line)
{
    const char *end = strchr(line, ']');
    const char *rest = end ? end + 1 + strspn(end + 1, " \t\r\n") : NULL;
    char name[128];
    size_t n = end ? (size_t)(end - line) - 1 : 0;
    int shown = (int)strcspn(line, "\r\n");
    if (!rest || (*rest && *rest != ';' && *rest != '#') || n >= sizeof name)
        return es_fail(ES_EUSAGE, "%s: '%.*s': a section such as [collapse]",
                       here(of), shown < 60 ? shown : 60, line);
    memcpy(name, line + 1, n);
    name[n] = 0;
    return begin_section(of, name);
}

/* --- keys -----------------------------------------------------------------*/

/* "head, share or samples": the keys of a flag, for a message. */
static void list_thresholds(char *out, size_t size, int section)
{
    es_text list = es_text_begin(out, size);
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++)
        if ((int)es_rules_thresholds[i].section == section)
            es_text_append(&list, "%s%s", list.length ? ", " : "",
                           es_rules_thresholds[i].key);
    if (!list.length)
        es_text_append(&list, "it has none");
}

static es_status set_threshold(parser *of, const es_rules_threshold *to,
                               const char *value)
{
    static const char *const ranges[] = {
        [ES_RULES_SHARE] = "a share from 0 to 1",
        [ES_RULES_POSITIVE] = "a number above 0",
        [ES_RULES_COUNT] = "a whole number from 1 to 1000000",
    };
    double x;
    int64_t n;
    bool fine;
    if (to->range == ES_RULES_COUNT) {
        fine = es_int_parse(&n, value, 1, ES_RULES_COUNT_MOST) == ES_OK;
        x = fine ? (double)n : 0;
    } else {
        fine = es_double_parse(&x, value) == ES_OK && x >= 0 &&
               (to->range == ES_RULES_SHARE ? x <= 1 : x > 0);
    }
    if (!fine)
        return es_fail(ES_EUSAGE, "%s: %s = '%.40s': %s", here(of), to->key,
                       value, ranges[to->range]);
    es_rules_threshold_set(&of->out->flags, to, x);
    return ES_OK;
}

static es_status twice(parser *of, const char *key)
{
    return es_fail(ES_EUSAGE, "%s: %s: it is set above already", here(of), key);
}

static es_status take_threshold(parser *of, const char *key, const char *value)
{
    char keys[128];
    for (size_t i = 0; i < ES_N_RULES_THRESHOLDS; i++) {
        const es_rules_threshold *to = &es_rules_thresholds[i];
        if ((int)to->section != of->section || strcmp(to->key, key) != 0)
            continue;
        if (of->threshold_lines[i])
            return twice(of, key);
        of->threshold_lines[i] = of->line;
        return set_threshold(of, to, value);
    }
    list_thresholds(keys, sizeof keys, of->section);
    return es_fail(ES_EUSAGE, "%s: [%s] has no key '%.40s': %s", here(of),
                   es_flag_name((es_flag_kind)of->section), key, keys);
}

static bool is_comparison(int key)
{
    return key >= ES_RULES_KEY_ABOVE && key < ES_RULES_KEY_SHARE_OF;
}

static es_status set_key(parser *of, es_rules_key key, const char *value)
{
    es_rule *rule = &of->out->rules[of->out->n - 1];
    for (int i = 0; i < ES_N_RULES_KEYS && is_comparison((int)key); i++)
        if (is_comparison(i) && i != (int)key && of->key_lines[i])
            return es_fail(ES_EUSAGE,
                           "%s: rule %s: more than one threshold: one of "
                           "above, below, at_least, at_most",
                           here(of), rule->name);
    es_status status = es_rules_set(rule, key, value, here(of));
    if (is_comparison((int)key) && rule->reference == ES_RULE_BASELINE &&
        !of->baseline_needed)
        of->baseline_needed = of->line;
    return status;
}

static es_status take_rule(parser *of, const char *key, const char *value)
{
    for (int i = 0; i < ES_N_RULES_KEYS; i++) {
        if (strcmp(key, es_rules_keys[i]) != 0)
            continue;
        if (of->key_lines[i])
            return twice(of, key);
        of->key_lines[i] = of->line;
        return set_key(of, (es_rules_key)i, value);
    }
    return es_fail(ES_EUSAGE,
                   "%s: a rule has no key '%.40s': series, phase, aggregate, "
                   "above, below, at_least, at_most, share, end, samples, "
                   "warm_up, cool_down, severity, action",
                   here(of), key);
}

static es_status take_baseline(parser *of, const char *key, const char *value)
{
    if (strcmp(key, "run") != 0 || !es_rules_is_text(value))
        return es_fail(ES_EUSAGE, "%s: '%.40s': [baseline] has run = RUN.db",
                       here(of), key);
    if (of->out->baseline)
        return twice(of, key);
    of->out->baseline = strdup(value);
    return of->out->baseline ? ES_OK
                             : es_fail(ES_ENOMEM, "out of memory for a path");
}

/* inih's; which section it is in we know better, see next_line. */
static int take_key(void *user, const char *section, const char *key,
                    const char *value)
{
    parser *of = user;
    (void)section;
    if (of->status != ES_OK)
        return 0;
    if (of->section == SECTION_NONE)
        of->status = es_fail(ES_EUSAGE,
                             "%s: '%.40s' before the first section: begin with "
                             "one such as [collapse]",
                             here(of), key);
    else if (of->section == RULE)
        of->status = take_rule(of, key, value);
    else if (of->section == BASELINE)
        of->status = take_baseline(of, key, value);
    else
        of->status = take_threshold(of, key, value);
    return of->status == ES_OK;
}

/* --- lines ----------------------------------------------------------------*/

/*
 * Hands inih one line, as fgets does. Sections are taken here: inih cuts long
 * names, and is silent about empty sections. It takes indented lines for
 * continuations; in a rules file they are none, so blanks in front are dropped.
 */
static char *next_line(char *out, int size, void *user)
{
    parser *of = user;
    if (of->status != ES_OK || of->next == of->end)
        return NULL;
    const char *from = of->next;
    const char *stop = memchr(from, '\n', (size_t)(of->end - from));
    of->next = stop ? stop + 1 : of->end;
    of->line++;
    while (from < of->next && *from != '\n' && isspace((unsigned char)*from))
        from++;
    size_t n = (size_t)(of->next - from);
    if (n + 2 > (size_t)size) {
        of->status =
            es_fail(ES_EUSAGE, "%s: longer than %d bytes", here(of), size - 3);
        return NULL;
    }
    memcpy(out, from, n);
    out[n] = 0;
    if (memchr(out, 0, n))
        of->status =
            es_fail(ES_EUSAGE, "%s: a byte of 0: this is no text", here(of));
    else if (*out == '[')
        of->status = parse_header(of, out);
    return of->status == ES_OK ? out : NULL;
}

es_status es_rules_file_parse(es_rules_file *out, const char *path,
                              const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin so */
    parser of = {.out = out, .path = path, .section = SECTION_NONE};
    es_rules_file_default(out);
    of.next = text;
    of.end = text + n;
    if (n >= 3 && memcmp(text, mark, 3) == 0)
        of.next += 3;
    int wrong = ini_parse_stream(next_line, &of, take_key, &of);
    if (wrong > 0 && (of.status == ES_OK || wrong < of.line))
        return es_fail(ES_EUSAGE, "%s: expected KEY = VALUE or [SECTION]",
                       at_line(&of, wrong));
    if (wrong < 0 && of.status == ES_OK)
        return es_fail(ES_ENOMEM, "%s: out of memory for a line", path);
    return of.status == ES_OK ? end_file(&of) : of.status;
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
        const es_rules_threshold *of = &es_rules_thresholds[i];
        if (es_rules_threshold_get(&flags, of) !=
            es_rules_threshold_get(&file->flags, of))
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
