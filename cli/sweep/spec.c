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
static const char *separators(const parser *of)
{
    const es_sweep_spec *spec = of->out;
    if (of->open == &spec->arch)
        return ";";
    if (of->open == &spec->seed || of->section == GRID)
        return " \t,";
    return NULL;
}

static es_status no_memory(void)
{
    return es_fail(ES_ENOMEM, "out of memory for a sweep");
}

/* --- values ---------------------------------------------------------------*/

static es_status add_value(parser *of, const char *text, size_t n)
{
    es_sweep_option *to = of->open;
    if (to->n == ES_SWEEP_VALUES_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: %s: more than %d values", of->path,
                       of->line, to->key, ES_SWEEP_VALUES_MOST);
    if (to->n && !separators(of))
        return es_fail(ES_EUSAGE, "%s:%d: %s: one value%s", of->path, of->line,
                       to->key,
                       of->section == SLURM ? "" : "; several go into [grid]");
    char **grown = es_resize(to->values, to->n + 1, sizeof *grown);
    if (!grown)
        return no_memory();
    to->values = grown;
    grown[to->n] = strndup(text, n);
    if (!grown[to->n])
        return no_memory();
    to->n++;
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

static es_status add_values(parser *of, const char *text)
{
    es_status status = ES_OK;
    const char *between = separators(of);
    while (*text && status == ES_OK) {
        size_t n = between ? strcspn(text, between) : strlen(text);
        const char *value = text;
        size_t length = trimmed(&value, n);
        if (length)
            status = add_value(of, value, length);
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
static bool is_reserved(const parser *of, const char *key)
{
    static const char *const of_runs[] = {"out",     "name",       "no-record",
                                          "dry-run", "help",       "resume",
                                          "version", "checkpoint", NULL};
    static const char *const of_jobs[] = {
        "array",  "error",     "help",     "job-name", "no-requeue",
        "output", "open-mode", "parsable", "requeue",  "test-only",
        "usage",  "version",   "wait",     "wrap",     NULL};
    return is_word_of(of->section == SLURM ? of_jobs : of_runs, key);
}

static es_status check_form(const parser *of, const char *key)
{
    size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (n && !key[n] && key[0] != '-')
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s:%d: '%.60s': expected an option of %s, without dashes "
                   "before it",
                   of->path, of->line, key,
                   of->section == SLURM ? "sbatch" : "entropy-train");
}

static es_status check_key(const parser *of, const char *key)
{
    es_sweep_spec *spec = of->out;
    bool of_jobs = of->section == SLURM;
    es_status status = check_form(of, key);
    if (status != ES_OK)
        return status;
    if (!of_jobs && find_own(spec, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s belongs into [sweep]", of->path,
                       of->line, key);
    if (is_reserved(of, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s is not for a sweep to set",
                       of->path, of->line, key);
    if (of_jobs ? has_key(spec->slurm, spec->n_slurm, key)
                : has_key(spec->train, spec->n_train, key) ||
                      has_key(spec->grid, spec->n_grid, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s is there already", of->path,
                       of->line, key);
    if (spec->n_train + spec->n_grid + spec->n_slurm == ES_SWEEP_OPTIONS_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: more than %d options", of->path,
                       of->line, ES_SWEEP_OPTIONS_MOST);
    return ES_OK;
}

static es_sweep_option **list_of(const parser *of, size_t **n)
{
    es_sweep_spec *spec = of->out;
    *n = of->section == TRAIN  ? &spec->n_train
         : of->section == GRID ? &spec->n_grid
                               : &spec->n_slurm;
    return of->section == TRAIN  ? &spec->train
           : of->section == GRID ? &spec->grid
                                 : &spec->slurm;
}

static es_status open_option(parser *of, const char *key)
{
    size_t *n;
    es_sweep_option **list = list_of(of, &n);
    es_status status = check_key(of, key);
    if (status != ES_OK)
        return status;
    es_sweep_option *grown = es_resize(*list, *n + 1, sizeof *grown);
    if (!grown)
        return no_memory();
    *list = grown;
    of->open = &grown[*n];
    *of->open = (es_sweep_option){.key = strdup(key), .line = of->line};
    if (!of->open->key)
        return no_memory();
    ++*n;
    return ES_OK;
}

static es_status open_own(parser *of, const char *key)
{
    of->open = find_own(of->out, key);
    if (!of->open)
        return es_fail(ES_EUSAGE,
                       "%s:%d: '%.60s': expected arch, seed, data, config or "
                       "program",
                       of->path, of->line, key);
    if (of->open->key)
        return es_fail(ES_EUSAGE, "%s:%d: %s is there already", of->path,
                       of->line, key);
    of->open->line = of->line;
    of->open->key = strdup(key);
    return of->open->key ? ES_OK : no_memory();
}

/* --- lines ----------------------------------------------------------------*/

static es_status check_open(const parser *of)
{
    if (!of->open || of->open->n)
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s:%d: %s: no value", of->path, of->open->line,
                   of->open->key);
}

static es_status take_section(parser *of, const char *name)
{
    static const char *const names[] = {[SWEEP] = "[sweep]",
                                        [TRAIN] = "[train]",
                                        [GRID] = "[grid]",
                                        [SLURM] = "[slurm]"};
    for (int i = SWEEP; i <= SLURM; i++)
        if (strcmp(name, names[i]) == 0) {
            of->section = (section)i;
            of->open = NULL;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE,
                   "%s:%d: '%.60s': expected [sweep], [train], [grid] or "
                   "[slurm]",
                   of->path, of->line, name);
}

static es_status take_key(parser *of, char *text)
{
    char *equals = strchr(text, '=');
    const char *key = text;
    if (!equals || of->section == SECTION_NONE)
        return es_fail(ES_EUSAGE, "%s:%d: '%.60s': expected %s", of->path,
                       of->line, text,
                       equals ? "[sweep] before" : "KEY = VALUE");
    size_t n = trimmed(&key, (size_t)(equals - text));
    text[(key - text) + (ptrdiff_t)n] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    es_status status =
        of->section == SWEEP ? open_own(of, key) : open_option(of, key);
    return status == ES_OK ? add_values(of, equals + 1) : status;
}

static es_status take_line(parser *of, const es_line *line)
{
    const char *text = line->text;
    of->line = (int)line->number;
    size_t n = trimmed(&text, line->n);
    if (line->cut || memchr(line->text, '\0', line->n))
        return es_fail(ES_EUSAGE, "%s:%d: expected text", of->path, of->line);
    if (!n || *text == '#' || *text == ';')
        return ES_OK;
    line->text[(text - line->text) + (ptrdiff_t)n] = '\0';
    if (text != line->text && of->open)
        return add_values(of, text);
    es_status status = check_open(of);
    if (status != ES_OK)
        return status;
    return *text == '[' ? take_section(of, text)
                        : take_key(of, line->text + (text - line->text));
}

/* --- the whole ------------------------------------------------------------*/

static es_status give_default(parser *of, const char *key, const char *value)
{
    es_status status =
        of->section == SWEEP ? open_own(of, key) : open_option(of, key);
    return status == ES_OK ? add_value(of, value, strlen(value)) : status;
}

static es_status complete(parser *of)
{
    es_sweep_spec *spec = of->out;
    es_status status = check_open(of);
    if (status == ES_OK && !spec->arch.n)
        return es_fail(ES_EUSAGE, "%s: no runs: expected arch = ... in [sweep]",
                       of->path);
    of->section = SWEEP;
    if (status == ES_OK && !spec->seed.n)
        status = give_default(of, "seed", "1");
    of->section = TRAIN;
    if (status == ES_OK && !has_key(spec->train, spec->n_train, "threads") &&
        !has_key(spec->grid, spec->n_grid, "threads"))
        status = give_default(of, "threads", "1");
    return status;
}

static es_status read_lines(es_sweep_spec *out, es_lines *lines,
                            const char *path)
{
    parser of = {.out = out, .path = path};
    es_line line;
    es_status status = ES_OK;
    while (status == ES_OK) {
        status = es_lines_next(lines, &line);
        if (status == ES_OK)
            status = take_line(&of, &line);
    }
    return status == ES_DONE ? complete(&of) : status;
}

/* Takes the lines over, and how their opening went. */
static es_status read_whole(es_sweep_spec *out, const char *path,
                            es_lines *lines, es_status opened)
{
    es_status status = opened;
    *out = (es_sweep_spec){.path = strdup(path)};
    if (status == ES_OK && !out->path)
        status = no_memory();
    if (status == ES_OK)
        status = read_lines(out, lines, path);
    es_lines_close(lines);
    return status;
}

es_status es_sweep_spec_parse(es_sweep_spec *out, FILE *stream,
                              const char *path)
{
    es_lines *lines = NULL;
    es_status status = es_lines_new(&lines, stream, path);
    return read_whole(out, path, lines, status);
}

es_status es_sweep_spec_read(es_sweep_spec *out, const char *path)
{
    es_lines *lines = NULL;
    es_status status = es_lines_open(&lines, path);
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
