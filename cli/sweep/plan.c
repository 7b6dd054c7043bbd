/* From a spec to its runs: every combination of values, each with a name that
 * is safe as a file's, and a command line; and back from a stored one. */
#include "cli/sweep/plan.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/delivery/words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "entropy-train"

/* Which value each axis has: arch, seed, then the keys of the grid. */
typedef struct choice {
    const es_sweep_spec *spec;
    size_t n_axes;
    size_t index[ES_SWEEP_OPTIONS_MOST + 2];
} choice;

static const es_sweep_option *axis(const es_sweep_spec *spec, size_t i)
{
    return i == 0 ? &spec->arch : i == 1 ? &spec->seed : &spec->grid[i - 2];
}

static const char *value_of(const choice *chosen, size_t i)
{
    return axis(chosen->spec, i)->values[chosen->index[i]];
}

/* False after the last one. */
static bool next(choice *chosen)
{
    for (size_t i = chosen->n_axes; i-- > 0;) {
        if (++chosen->index[i] < axis(chosen->spec, i)->n)
            return true;
        chosen->index[i] = 0;
    }
    return false;
}

/* --- names ----------------------------------------------------------------*/

/* "EReg(SM(t)+ScFuFFN)" is EReg-SM-t-+ScFuFFN: nothing that a shell, a file
   system or an eye stumbles over. */
static void add_readable(char *name, size_t size, const char *text)
{
    size_t n = strlen(name);
    for (; *text && n + 1 < size; text++) {
        bool fine = isalnum((unsigned char)*text) || strchr("+-._", *text);
        if (fine || (n && name[n - 1] != '-'))
            name[n++] = fine ? *text : '-';
    }
    while (n && name[n - 1] == '-')
        n--;
    name[n] = '\0';
}

static char *name_of(const choice *chosen)
{
    char name[ES_SWEEP_NAME_MAX + 2] = "";
    for (size_t i = 0; i < chosen->n_axes; i++) {
        size_t n = strlen(name);
        if (i && n + 1 < sizeof name)
            snprintf(name + n, sizeof name - n, "_%s",
                     axis(chosen->spec, i)->key);
        add_readable(name, sizeof name, value_of(chosen, i));
    }
    /* no hidden file, and no option of a program that is given the name */
    if (name[0] == '.' || name[0] == '-')
        name[0] = '_';
    return strdup(name);
}

/* --- command lines --------------------------------------------------------*/

typedef struct words {
    char **argv;
    size_t n;
    bool failed;
} words;

static void add_word(words *line, const char *text)
{
    line->argv[line->n] = strdup(text);
    line->failed |= !line->argv[line->n++];
}

/* An option without a value is given as true, or false. */
static void add_option(words *line, const char *key, const char *value)
{
    char dashed[256];
    if (strcmp(value, "false") == 0)
        return;
    snprintf(dashed, sizeof dashed, "--%s", key);
    add_word(line, dashed);
    if (strcmp(value, "true") != 0)
        add_word(line, value);
}

static char **argv_of(const choice *chosen, const char *name)
{
    const es_sweep_spec *spec = chosen->spec;
    size_t most = 2 * (spec->n_train + chosen->n_axes) + 8;
    words line = {.argv = calloc(most, sizeof *line.argv)};
    if (!line.argv)
        return NULL;
    add_word(&line, spec->program.n ? spec->program.values[0] : PROGRAM);
    if (spec->config.n)
        add_option(&line, "config", spec->config.values[0]);
    if (spec->data.n)
        add_option(&line, "data", spec->data.values[0]);
    for (size_t i = 0; i < spec->n_train; i++)
        add_option(&line, spec->train[i].key, spec->train[i].values[0]);
    for (size_t i = 0; i < chosen->n_axes; i++)
        add_option(&line, axis(spec, i)->key, value_of(chosen, i));
    add_option(&line, "name", name);
    if (!line.failed)
        return line.argv;
    for (size_t i = 0; i < line.n; i++)
        free(line.argv[i]);
    free(line.argv);
    return NULL;
}

/* --- the plan -------------------------------------------------------------*/

static es_status count_runs(size_t *n, const es_sweep_spec *spec)
{
    *n = 1;
    for (size_t i = 0; i < spec->n_grid + 2; i++) {
        *n *= axis(spec, i)->n;
        if (*n > ES_SWEEP_RUNS_MOST)
            return es_fail(ES_EUSAGE, "%s: more than %d runs", spec->path,
                           ES_SWEEP_RUNS_MOST);
    }
    return ES_OK;
}

static es_status add_run(es_sweep_plan *plan, const choice *chosen)
{
    es_sweep_run *run = &plan->runs[plan->n++];
    run->name = name_of(chosen);
    if (run->name)
        run->argv = argv_of(chosen, run->name);
    if (!run->argv)
        return es_fail(ES_ENOMEM, "out of memory for a sweep");
    if (strlen(run->name) > ES_SWEEP_NAME_MAX)
        return es_fail(ES_EUSAGE,
                       "%s: the name %.60s... would be longer than %d bytes: "
                       "have fewer keys in [grid]",
                       chosen->spec->path, run->name, ES_SWEEP_NAME_MAX);
    return ES_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcasecmp((*(es_sweep_run *const *)a)->name,
                      (*(es_sweep_run *const *)b)->name);
}

/* Some file systems do not distinguish case. */
static es_status check_names(const es_sweep_plan *plan, const char *path)
{
    const es_sweep_run **runs;
    es_status status = es_alloc(&runs, plan->n, sizeof *runs, "a sweep");
    if (status < 0)
        return status;
    for (size_t i = 0; i < plan->n; i++)
        runs[i] = &plan->runs[i];
    qsort(runs, plan->n, sizeof *runs, by_name);
    for (size_t i = 1; i < plan->n && status == ES_OK; i++)
        if (strcasecmp(runs[i - 1]->name, runs[i]->name) == 0)
            status = es_fail(ES_EUSAGE,
                             "%s: two runs would be called %s: a value is "
                             "there twice, or two differ in signs alone",
                             path, runs[i]->name);
    free(runs);
    return status;
}

es_status es_sweep_plan_make(es_sweep_plan *out, const es_sweep_spec *spec)
{
    choice chosen = {.spec = spec, .n_axes = spec->n_grid + 2};
    size_t n = 0;
    *out = (es_sweep_plan){.runs = NULL};
    es_status status;
    if ((status = count_runs(&n, spec)) < 0 ||
        (status = es_alloc(&out->runs, n, sizeof *out->runs, "a sweep")) < 0)
        return status;
    do
        status = add_run(out, &chosen);
    while (status == ES_OK && next(&chosen));
    return status == ES_OK ? check_names(out, spec->path) : status;
}

/* Takes "--out FILE" and the like, which the folder adds, off the end. */
static bool drop_pair(char **argv, size_t *n, const char *key)
{
    if (*n < 3 || strcmp(argv[*n - 2], key) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        free(argv[--*n]);
        argv[*n] = NULL;
    }
    return true;
}

es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line)
{
    size_t n = 0;
    char **argv = NULL;
    *out = (es_sweep_plan){.runs = calloc(1, sizeof *out->runs), .n = 1};
    if (!out->runs)
        return es_fail(ES_ENOMEM, "out of memory for a sweep");
    out->runs->name = strdup(name);
    es_status status = es_words_split(&argv, line);
    if (status == ES_EUSAGE)
        return es_fail(ES_EFORMAT, "%s.cmd: not a command line", name);
    out->runs->argv = argv;
    if (status != ES_OK)
        return status;
    while (argv[n])
        n++;
    bool ours = drop_pair(argv, &n, "--out");
    if (ours && es_sweep_run_has(out->runs, "--checkpoint-every"))
        ours = drop_pair(argv, &n, "--checkpoint");
    if (!out->runs->name)
        return es_fail(ES_ENOMEM, "out of memory for a sweep");
    return ours ? ES_OK
                : es_fail(ES_EFORMAT, "%s.cmd: not a sweep's command line",
                          name);
}

void es_sweep_plan_free(es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        es_sweep_run *run = &plan->runs[i];
        for (size_t k = 0; run->argv && run->argv[k]; k++)
            free(run->argv[k]);
        free(run->argv);
        free(run->name);
    }
    free(plan->runs);
    *plan = (es_sweep_plan){.runs = NULL};
}

/* --- for people -----------------------------------------------------------*/

void es_sweep_print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._/=:,";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

bool es_sweep_run_has(const es_sweep_run *run, const char *option)
{
    for (size_t i = 1; run->argv[i]; i++)
        if (strcmp(run->argv[i], option) == 0)
            return true;
    return false;
}

char *es_sweep_command_line(const es_sweep_run *run)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        for (size_t i = 0; run->argv[i]; i++) {
            if (i)
                putc(' ', out);
            es_sweep_print_word(out, run->argv[i]);
        }
        if (es_sweep_run_has(run, "--checkpoint-every"))
            fprintf(out, " --checkpoint %s" ES_SWEEP_CHECKPOINTS, run->name);
        fprintf(out, " --out %s.db", run->name);
    }
    if (out && fclose(out) == 0)
        return text;
    free(text);
    es_fail(ES_ENOMEM, "out of memory for a command line");
    return NULL;
}
