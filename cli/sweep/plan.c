/* From a spec to its runs: every combination of values, each with a name that
 * is safe as a file's, and a command line; and back from a stored one. */
#include "cli/sweep/plan.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/delivery/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "entropy-train"

/* Which value each axis has: arch, seed, then the keys of the grid. */
typedef struct choice {
    const es_sweep_spec *spec;
    size_t n_axes;
    const es_sweep_option *axes[ES_SWEEP_OPTIONS_MOST + 2];
    size_t index[ES_SWEEP_OPTIONS_MOST + 2];
} choice;

static const char *value_of(const choice *chosen, size_t i)
{
    return chosen->axes[i]->values[chosen->index[i]];
}

/* False after the last one. */
static bool next(choice *chosen)
{
    for (size_t i = chosen->n_axes; i-- > 0;) {
        if (++chosen->index[i] < chosen->axes[i]->n)
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

static es_status make_name(char **out, const choice *chosen)
{
    char name[ES_SWEEP_NAME_MAX + 2] = "";
    for (size_t i = 0; i < chosen->n_axes; i++) {
        size_t n = strlen(name);
        if (i && n + 1 < sizeof name)
            snprintf(name + n, sizeof name - n, "_%s", chosen->axes[i]->key);
        add_readable(name, sizeof name, value_of(chosen, i));
    }
    /* no hidden file, and no option of a program that is given the name */
    if (name[0] == '.' || name[0] == '-')
        name[0] = '_';
    if (strlen(name) > ES_SWEEP_NAME_MAX)
        return es_fail(ES_EUSAGE,
                       "%s: the name %.60s... would be longer than %d bytes: "
                       "have fewer keys in [grid]",
                       chosen->spec->path, name, ES_SWEEP_NAME_MAX);
    return es_copy_text(out, name);
}

/* --- command lines --------------------------------------------------------*/

/* An option without a value is given as true, or false. `argv` has capacity
   for two more. */
static es_status add_option(char **argv, const char *key, const char *value)
{
    char dashed[256];
    if (strcmp(value, "false") == 0)
        return ES_OK;
    while (*argv)
        argv++;
    snprintf(dashed, sizeof dashed, "--%s", key);
    es_status status = es_copy_text(&argv[0], dashed);
    return status < 0 || strcmp(value, "true") == 0
               ? status
               : es_copy_text(&argv[1], value);
}

static es_status make_command(es_sweep_run *run, const choice *chosen)
{
    static const char *const first[] = {"config", "data"};
    const es_sweep_spec *spec = chosen->spec;
    const es_sweep_option *own = es_sweep_spec_find(spec, "program", false);
    es_status status;
    if ((status = es_alloc(&run->argv, 2 * spec->n + 8, sizeof *run->argv,
                           "a sweep")) < 0 ||
        (status = es_copy_text(&run->argv[0], own ? own->values[0] : PROGRAM)) <
            0)
        return status;
    for (size_t i = 0; i < 2; i++)
        if ((own = es_sweep_spec_find(spec, first[i], false)) &&
            (status = add_option(run->argv, own->key, own->values[0])) < 0)
            return status;
    for (size_t i = 0; i < spec->n; i++)
        if (spec->options[i].section == ES_SWEEP_TRAIN &&
            (status = add_option(run->argv, spec->options[i].key,
                                 spec->options[i].values[0])) < 0)
            return status;
    for (size_t i = 0; i < chosen->n_axes; i++)
        if ((status = add_option(run->argv, chosen->axes[i]->key,
                                 value_of(chosen, i))) < 0)
            return status;
    return add_option(run->argv, "name", run->name);
}

/* --- the plan -------------------------------------------------------------*/

/* Some file systems do not distinguish case. */
static int by_name(const void *a, const void *b)
{
    return strcasecmp(*(char *const *)a, *(char *const *)b);
}

static es_status check_names(const es_sweep_plan *plan, const char *path)
{
    const char **names;
    es_status status = es_alloc(&names, plan->n, sizeof *names, "a sweep");
    if (status < 0)
        return status;
    for (size_t i = 0; i < plan->n; i++)
        names[i] = plan->runs[i].name;
    qsort(names, plan->n, sizeof *names, by_name);
    for (size_t i = 1; i < plan->n && status == ES_OK; i++)
        if (strcasecmp(names[i - 1], names[i]) == 0)
            status = es_fail(ES_EUSAGE,
                             "%s: two runs would be called %s: a value is "
                             "there twice, or two differ in signs alone",
                             path, names[i]);
    free(names);
    return status;
}

es_status es_sweep_plan_make(es_sweep_plan *out, const es_sweep_spec *spec)
{
    choice chosen = {.spec = spec, .n_axes = 2};
    size_t n = 1;
    *out = (es_sweep_plan){.runs = NULL};
    chosen.axes[0] = es_sweep_spec_find(spec, "arch", false);
    chosen.axes[1] = es_sweep_spec_find(spec, "seed", false);
    for (size_t i = 0; i < spec->n; i++)
        if (spec->options[i].section == ES_SWEEP_GRID)
            chosen.axes[chosen.n_axes++] = &spec->options[i];
    for (size_t i = 0; i < chosen.n_axes; i++) {
        n *= chosen.axes[i]->n;
        if (n > ES_SWEEP_RUNS_MOST)
            return es_fail(ES_EUSAGE, "%s: more than %d runs", spec->path,
                           ES_SWEEP_RUNS_MOST);
    }
    es_status status = es_alloc(&out->runs, n, sizeof *out->runs, "a sweep");
    if (status < 0)
        return status;
    do {
        es_sweep_run *run = &out->runs[out->n++];
        if ((status = make_name(&run->name, &chosen)) < 0 ||
            (status = make_command(run, &chosen)) < 0)
            return status;
    } while (next(&chosen));
    return check_names(out, spec->path);
}

/* Takes "--out FILE" and the like, which the folder adds, off the end. */
static bool drop_pair(char **argv, const char *key)
{
    size_t n = 0;
    while (argv[n])
        n++;
    if (n < 3 || strcmp(argv[n - 2], key) != 0)
        return false;
    free(argv[n - 1]);
    free(argv[n - 2]);
    argv[n - 2] = argv[n - 1] = NULL;
    return true;
}

es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line)
{
    *out = (es_sweep_plan){.n = 0};
    es_status status = es_alloc(&out->runs, 1, sizeof *out->runs, "a sweep");
    if (status < 0)
        return status;
    es_sweep_run *run = &out->runs[out->n++];
    if ((status = es_copy_text(&run->name, name)) < 0)
        return status;
    status = es_words_split(&run->argv, line);
    if (status == ES_EUSAGE)
        return es_fail(ES_EFORMAT, "%s.cmd: not a command line", name);
    if (status < 0)
        return status;
    if (drop_pair(run->argv, "--out") &&
        (!es_sweep_run_has(run, "--checkpoint-every") ||
         drop_pair(run->argv, "--checkpoint")))
        return ES_OK;
    return es_fail(ES_EFORMAT, "%s.cmd: not a sweep's command line", name);
}

void es_sweep_plan_free(es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        es_sweep_run *run = &plan->runs[i];
        es_words_free(run->argv);
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
