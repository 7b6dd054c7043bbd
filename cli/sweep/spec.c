/* Reads the file that describes a sweep. inih cannot: it takes lines of at
 * most 200 bytes, and a semicolon after a blank for the beginning of a comment,
 * which here separates two architectures. */
#include "cli/sweep/spec.h"

#include "analyzer/base/checked.h"
#include "cli/exchange/lines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum section { SECTION_NONE, SWEEP, TRAIN, GRID, SLURM } section;

typedef struct parser {
    es_sweep_spec *out;
    const char *path;
    int line;
    section section;
    es_sweep_option *open; /* what an indented line goes on with */
} parser;

/* What separates the values of a key; NULL: it has one. */
static const char *separators(const parser *p)
{
    const es_sweep_spec *spec = p->out;
    if (p->open == &spec->arch)
        return ";";
    if (p->open == &spec->seed || p->section == GRID)
        return " \t,";
    return NULL;
}

/* --- values ---------------------------------------------------------------*/

static es_status add_value(parser *p, const char *text, size_t n)
{
    es_sweep_option *option = p->open;
    if (option->n == ES_SWEEP_VALUES_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: %s: more than %d values", p->path,
                       p->line, option->key, ES_SWEEP_VALUES_MOST);
    if (option->n && !separators(p))
        return es_fail(ES_EUSAGE, "%s:%d: %s: one value%s", p->path, p->line,
                       option->key,
                       p->section == SLURM ? "" : "; several go into [grid]");
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
    const char *between = separators(p);
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

static es_sweep_option *find_own(es_sweep_spec *spec, const char *key)
{
    const struct {
        const char *key;
        es_sweep_option *option;
    } own[] = {{"arch", &spec->arch},
               {"seed", &spec->seed},
               {"data", &spec->data},
               {"config", &spec->config},
               {"program", &spec->program}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(key, own[i].key) == 0)
            return own[i].option;
    return NULL;
}

static bool has_key(const es_sweep_option *options, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(options[i].key, key) == 0)
            return true;
    return false;
}

static bool is_word_of(const char *const *words, const char *key)
{
    for (; *words; words++)
        if (strcmp(*words, key) == 0)
            return true;
    return false;
}

/* What the sweep itself says to each run or job, or would make it none. */
static bool is_reserved(const parser *p, const char *key)
{
    static const char *const of_runs[] = {"out",     "name",       "no-record",
                                          "dry-run", "help",       "resume",
                                          "version", "checkpoint", NULL};
    static const char *const of_jobs[] = {
        "array",  "error",     "help",     "job-name", "no-requeue",
        "output", "open-mode", "parsable", "requeue",  "test-only",
        "usage",  "version",   "wait",     "wrap",     NULL};
    return is_word_of(p->section == SLURM ? of_jobs : of_runs, key);
}

static es_status check_form(const parser *p, const char *key)
{
    size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (n && !key[n] && key[0] != '-')
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s:%d: '%.60s': expected an option of %s, without dashes "
                   "before it",
                   p->path, p->line, key,
                   p->section == SLURM ? "sbatch" : "entropy-train");
}

static es_status check_key(const parser *p, const char *key)
{
    es_sweep_spec *spec = p->out;
    bool of_jobs = p->section == SLURM;
    es_status status = check_form(p, key);
    if (status != ES_OK)
        return status;
    if (!of_jobs && find_own(spec, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s belongs into [sweep]", p->path,
                       p->line, key);
    if (is_reserved(p, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s is not for a sweep to set",
                       p->path, p->line, key);
    if (of_jobs ? has_key(spec->slurm, spec->n_slurm, key)
                : has_key(spec->train, spec->n_train, key) ||
                      has_key(spec->grid, spec->n_grid, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s is there already", p->path,
                       p->line, key);
    if (spec->n_train + spec->n_grid + spec->n_slurm == ES_SWEEP_OPTIONS_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: more than %d options", p->path,
                       p->line, ES_SWEEP_OPTIONS_MOST);
    return ES_OK;
}

static es_sweep_option **list_of(const parser *p, size_t **n)
{
    es_sweep_spec *spec = p->out;
    *n = p->section == TRAIN  ? &spec->n_train
         : p->section == GRID ? &spec->n_grid
                              : &spec->n_slurm;
    return p->section == TRAIN  ? &spec->train
           : p->section == GRID ? &spec->grid
                                : &spec->slurm;
}

static es_status open_option(parser *p, const char *key)
{
    size_t *n;
    es_sweep_option **list = list_of(p, &n);
    es_status status;
    if ((status = check_key(p, key)) < 0 ||
        (status = es_grow(list, *n + 1, sizeof **list, "a sweep")) < 0)
        return status;
    p->open = &(*list)[*n];
    *p->open = (es_sweep_option){.line = p->line};
    if ((status = es_copy_text(&p->open->key, key)) == ES_OK)
        ++*n;
    return status;
}

static es_status open_own(parser *p, const char *key)
{
    p->open = find_own(p->out, key);
    if (!p->open)
        return es_fail(ES_EUSAGE,
                       "%s:%d: '%.60s': expected arch, seed, data, config or "
                       "program",
                       p->path, p->line, key);
    if (p->open->key)
        return es_fail(ES_EUSAGE, "%s:%d: %s is there already", p->path,
                       p->line, key);
    p->open->line = p->line;
    return es_copy_text(&p->open->key, key);
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
    static const char *const names[] = {[SWEEP] = "[sweep]",
                                        [TRAIN] = "[train]",
                                        [GRID] = "[grid]",
                                        [SLURM] = "[slurm]"};
    for (int i = SWEEP; i <= SLURM; i++)
        if (strcmp(name, names[i]) == 0) {
            p->section = (section)i;
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
    if (!equals || p->section == SECTION_NONE)
        return es_fail(ES_EUSAGE, "%s:%d: '%.60s': expected %s", p->path,
                       p->line, text,
                       equals ? "[sweep] before" : "KEY = VALUE");
    size_t n = trimmed(&key, (size_t)(equals - text));
    text[(key - text) + (ptrdiff_t)n] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    es_status status =
        p->section == SWEEP ? open_own(p, key) : open_option(p, key);
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

static es_status give_default(parser *p, const char *key, const char *value)
{
    es_status status =
        p->section == SWEEP ? open_own(p, key) : open_option(p, key);
    return status == ES_OK ? add_value(p, value, strlen(value)) : status;
}

static es_status complete(parser *p)
{
    es_sweep_spec *spec = p->out;
    es_status status = check_open(p);
    if (status < 0)
        return status;
    if (!spec->arch.n)
        return es_fail(ES_EUSAGE, "%s: no runs: expected arch = ... in [sweep]",
                       p->path);
    p->section = SWEEP;
    if (!spec->seed.n && (status = give_default(p, "seed", "1")) < 0)
        return status;
    p->section = TRAIN;
    return has_key(spec->train, spec->n_train, "threads") ||
                   has_key(spec->grid, spec->n_grid, "threads")
               ? ES_OK
               : give_default(p, "threads", "1");
}

static es_status read_lines(es_sweep_spec *out, es_line_reader *lines,
                            const char *path)
{
    parser p = {.out = out, .path = path};
    es_line line;
    es_status status = ES_OK;
    while (status == ES_OK) {
        status = es_line_reader_next(lines, &line);
        if (status == ES_OK)
            status = read_line(&p, &line);
    }
    return status == ES_DONE ? complete(&p) : status;
}

/* Takes the lines over, and how their opening went. */
static es_status read_whole(es_sweep_spec *out, const char *path,
                            es_line_reader *lines, es_status opened)
{
    es_status status = opened;
    *out = (es_sweep_spec){.path = NULL};
    if (status == ES_OK && (status = es_copy_text(&out->path, path)) == ES_OK)
        status = read_lines(out, lines, path);
    es_line_reader_close(lines);
    return status;
}

es_status es_sweep_spec_parse(es_sweep_spec *out, FILE *stream,
                              const char *path)
{
    es_line_reader *lines = NULL;
    es_status status = es_line_reader_new(&lines, stream, path);
    return read_whole(out, path, lines, status);
}

es_status es_sweep_spec_read(es_sweep_spec *out, const char *path)
{
    es_line_reader *lines = NULL;
    es_status status = es_line_reader_open(&lines, path);
    return read_whole(out, path, lines, status);
}

static void free_option(es_sweep_option *option)
{
    for (size_t i = 0; i < option->n; i++)
        free(option->values[i]);
    free(option->values);
    free(option->key);
}

void es_sweep_spec_free(es_sweep_spec *spec)
{
    es_sweep_option *own[] = {&spec->arch, &spec->seed, &spec->data,
                              &spec->config, &spec->program};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free_option(own[i]);
    for (size_t i = 0; i < spec->n_train; i++)
        free_option(&spec->train[i]);
    for (size_t i = 0; i < spec->n_grid; i++)
        free_option(&spec->grid[i]);
    for (size_t i = 0; i < spec->n_slurm; i++)
        free_option(&spec->slurm[i]);
    free(spec->train);
    free(spec->grid);
    free(spec->slurm);
    free(spec->path);
    *spec = (es_sweep_spec){.path = NULL};
}
