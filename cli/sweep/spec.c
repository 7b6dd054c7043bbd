/* Reads the file that describes a sweep. inih cannot: it takes lines of at
 * most 200 bytes, and a semicolon after a blank for the beginning of a comment,
 * which here separates two architectures. */
#include "analyzer/base/checked.h"
#include "cli/exchange/lines.h"
#include "cli/sweep/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    es_sweep_spec *out;
    const char *path;
    int line;
    es_sweep_section section;
    es_sweep_option *open; /* what an indented line goes on with: the last */
} parser;

static bool is_word_of(const char *const *words, const char *key)
{
    while (*words && strcmp(*words, key) != 0)
        words++;
    return *words;
}

const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm)
{
    for (size_t i = 0; i < spec->n; i++)
        if (strcmp(spec->options[i].key, key) == 0 &&
            (spec->options[i].section == ES_SWEEP_SLURM) == slurm)
            return &spec->options[i];
    return NULL;
}

/* --- values ---------------------------------------------------------------*/

/* What separates the values of a key; NULL: it has one. */
static const char *separators(const es_sweep_option *option)
{
    bool own = option->section == ES_SWEEP_OWN;
    if (own && strcmp(option->key, "arch") == 0)
        return ";";
    if (option->section == ES_SWEEP_GRID ||
        (own && strcmp(option->key, "seed") == 0))
        return " \t,";
    return NULL;
}

static es_status add_value(parser *p, const char *text, size_t n)
{
    es_sweep_option *option = p->open;
    if (option->n == ES_SWEEP_VALUES_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: %s: more than %d values", p->path,
                       p->line, option->key, ES_SWEEP_VALUES_MOST);
    if (option->n && !separators(option))
        return es_fail(
            ES_EUSAGE, "%s:%d: %s: one value%s", p->path, p->line, option->key,
            p->section == ES_SWEEP_SLURM ? "" : "; several go into [grid]");
    es_status status;
    if ((status = es_grow(&option->values, option->n + 1,
                          sizeof *option->values, "a sweep")) < 0 ||
        (status = es_alloc(&option->values[option->n], n + 1, 1, "a sweep")) <
            0)
        return status;
    memcpy(option->values[option->n++], text, n);
    return ES_OK;
}

static size_t trimmed(const char **text, size_t n)
{
    while (n && strchr(" \t", **text)) {
        ++*text;
        n--;
    }
    while (n && strchr(" \t", (*text)[n - 1]))
        n--;
    return n;
}

static es_status add_values(parser *p, const char *text)
{
    es_status status = ES_OK;
    const char *between = separators(p->open);
    while (*text && status == ES_OK) {
        size_t n = between ? strcspn(text, between) : strlen(text);
        const char *value = text;
        size_t length = trimmed(&value, n);
        if (length)
            status = add_value(p, value, length);
        text += n + (text[n] != '\0');
    }
    return status;
}

/* --- keys -----------------------------------------------------------------*/

static es_status check_key(const parser *p, const char *key)
{
    static const char *const own[] = {"arch",   "seed",    "data",
                                      "config", "program", NULL};
    /* What the sweep itself says to each run or job, or would make it none. */
    static const char *const of_runs[] = {"out",     "name",       "no-record",
                                          "dry-run", "help",       "resume",
                                          "version", "checkpoint", NULL};
    static const char *const of_jobs[] = {
        "array",  "error",     "help",     "job-name", "no-requeue",
        "output", "open-mode", "parsable", "requeue",  "test-only",
        "usage",  "version",   "wait",     "wrap",     NULL};
    bool slurm = p->section == ES_SWEEP_SLURM, is_own = is_word_of(own, key);
    size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-");
    size_t n_options = 0;
    for (size_t i = 0; i < p->out->n; i++)
        n_options += p->out->options[i].section != ES_SWEEP_OWN;
    if (p->section == ES_SWEEP_OWN) {
        if (!is_own)
            return es_fail(ES_EUSAGE,
                           "%s:%d: '%.60s': expected arch, seed, data, config "
                           "or program",
                           p->path, p->line, key);
    } else if (!n || key[n] || key[0] == '-') {
        return es_fail(ES_EUSAGE,
                       "%s:%d: '%.60s': expected an option of %s, without "
                       "dashes before it",
                       p->path, p->line, key,
                       slurm ? "sbatch" : "entropy-train");
    } else if (!slurm && is_own) {
        return es_fail(ES_EUSAGE, "%s:%d: %s belongs into [sweep]", p->path,
                       p->line, key);
    } else if (is_word_of(slurm ? of_jobs : of_runs, key)) {
        return es_fail(ES_EUSAGE, "%s:%d: %s is not for a sweep to set",
                       p->path, p->line, key);
    }
    if (es_sweep_spec_find(p->out, key, slurm))
        return es_fail(ES_EUSAGE, "%s:%d: %s is there already", p->path,
                       p->line, key);
    if (p->section != ES_SWEEP_OWN && n_options == ES_SWEEP_OPTIONS_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: more than %d options", p->path,
                       p->line, ES_SWEEP_OPTIONS_MOST);
    return ES_OK;
}

static es_status open_option(parser *p, const char *key)
{
    es_sweep_spec *spec = p->out;
    es_status status;
    if ((status = check_key(p, key)) < 0 ||
        (status = es_grow(&spec->options, spec->n + 1, sizeof *spec->options,
                          "a sweep")) < 0)
        return status;
    p->open = &spec->options[spec->n];
    *p->open = (es_sweep_option){.section = p->section, .line = p->line};
    if ((status = es_copy_text(&p->open->key, key)) == ES_OK)
        spec->n++;
    return status;
}

/* --- lines ----------------------------------------------------------------*/

static es_status check_open(const parser *p)
{
    if (!p->open || p->open->n)
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s:%d: %s: no value", p->path, p->open->line,
                   p->open->key);
}

static es_status read_section(parser *p, const char *name)
{
    static const char *const names[] = {[ES_SWEEP_OWN] = "[sweep]",
                                        [ES_SWEEP_TRAIN] = "[train]",
                                        [ES_SWEEP_GRID] = "[grid]",
                                        [ES_SWEEP_SLURM] = "[slurm]"};
    for (int i = ES_SWEEP_OWN; i <= ES_SWEEP_SLURM; i++)
        if (strcmp(name, names[i]) == 0) {
            p->section = (es_sweep_section)i;
            p->open = NULL;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE,
                   "%s:%d: '%.60s': expected [sweep], [train], [grid] or "
                   "[slurm]",
                   p->path, p->line, name);
}

static es_status read_key(parser *p, char *text)
{
    char *equals = strchr(text, '=');
    const char *key = text;
    if (!equals || p->section == ES_SWEEP_NO_SECTION)
        return es_fail(ES_EUSAGE, "%s:%d: '%.60s': expected %s", p->path,
                       p->line, text,
                       equals ? "[sweep] before" : "KEY = VALUE");
    size_t n = trimmed(&key, (size_t)(equals - text));
    text[(key - text) + (ptrdiff_t)n] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    es_status status = open_option(p, key);
    return status == ES_OK ? add_values(p, equals + 1) : status;
}

static es_status read_line(parser *p, const es_line *line)
{
    const char *text = line->text;
    p->line = (int)line->number;
    size_t n = trimmed(&text, line->n);
    if (line->cut || memchr(line->text, '\0', line->n))
        return es_fail(ES_EUSAGE, "%s:%d: expected text", p->path, p->line);
    if (!n || *text == '#' || *text == ';')
        return ES_OK;
    line->text[(text - line->text) + (ptrdiff_t)n] = '\0';
    if (text != line->text && p->open)
        return add_values(p, text);
    es_status status = check_open(p);
    if (status != ES_OK)
        return status;
    return *text == '[' ? read_section(p, text)
                        : read_key(p, line->text + (text - line->text));
}

/* --- the whole ------------------------------------------------------------*/

static es_status give_default(parser *p, es_sweep_section section,
                              const char *key)
{
    p->section = section;
    if (es_sweep_spec_find(p->out, key, false))
        return ES_OK;
    es_status status = open_option(p, key);
    return status == ES_OK ? add_value(p, "1", 1) : status;
}

es_status es_sweep_spec_read(es_sweep_spec *out, const char *path)
{
    parser p = {.out = out, .path = path};
    es_line_reader *lines = NULL;
    es_line line;
    es_status status;
    *out = (es_sweep_spec){.path = NULL};
    if ((status = es_line_reader_open(&lines, path)) < 0 ||
        (status = es_copy_text(&out->path, path)) < 0)
        goto done;
    while ((status = es_line_reader_next(lines, &line)) == ES_OK)
        if ((status = read_line(&p, &line)) < 0)
            goto done;
    if (status < 0 || (status = check_open(&p)) < 0)
        goto done;
    if (!es_sweep_spec_find(out, "arch", false))
        status = es_fail(ES_EUSAGE,
                         "%s: no runs: expected arch = ... in [sweep]", path);
    else if ((status = give_default(&p, ES_SWEEP_OWN, "seed")) == ES_OK)
        status = give_default(&p, ES_SWEEP_TRAIN, "threads");
done:
    es_line_reader_close(lines);
    return status;
}

void es_sweep_spec_free(es_sweep_spec *spec)
{
    for (size_t i = 0; i < spec->n; i++) {
        es_sweep_option *option = &spec->options[i];
        for (size_t k = 0; k < option->n; k++)
            free(option->values[k]);
        free(option->values);
        free(option->key);
    }
    free(spec->options);
    free(spec->path);
    *spec = (es_sweep_spec){.path = NULL};
}
