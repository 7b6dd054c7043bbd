/* Completes the spec of a sweep after its file was read: checks that the keys
 * are allowed and agree with the command, sets defaults, and draws the values
 * of a random search. */
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/alerts/delivery/words.h"
#include "cli/sweep/plan.h"
#include "cli/sweep/random.h"
#include "cli/sweep/template.h"

#include <stdlib.h>
#include <string.h>

static bool is_word_of(const char *const *words, const char *key)
{
    while (*words && strcmp(*words, key) != 0)
        words++;
    return *words;
}

static const char *const own_keys[] = {"arch",   "seed",        "data",
                                       "config", "program",     "command",
                                       "n",      "random-seed", NULL};

bool es_sweep_is_own_key(const char *key)
{
    return is_word_of(own_keys, key);
}

bool es_sweep_is_own(const es_sweep_option *option, const char *key)
{
    return option->section == ES_SWEEP_OWN && strcmp(option->key, key) == 0;
}

bool es_sweep_is_axis(const es_sweep_option *option)
{
    return option->section == ES_SWEEP_GRID ||
           option->section == ES_SWEEP_RANDOM ||
           es_sweep_is_own(option, "arch") || es_sweep_is_own(option, "seed");
}

/* --- keys and the command -------------------------------------------------*/

#define LETTERS "abcdefghijklmnopqrstuvwxyz"

/* Returns true for the keys n and random-seed of [sweep]. */
static bool is_of_random(const es_sweep_option *option)
{
    return es_sweep_is_own(option, "n") ||
           es_sweep_is_own(option, "random-seed");
}

/* Checks the key of an option in the spec. The key must be an option of
 * entropy-train or sbatch, or a placeholder of the command. */
static es_status check_option(const es_sweep_spec *spec,
                              const es_sweep_option *option)
{
    /* Options that a spec must not contain, because the sweep sets them for
     * each run or job, or because they prevent training or submitting. */
    static const char *const of_runs[] = {"out",     "name",       "no-record",
                                          "dry-run", "help",       "resume",
                                          "version", "checkpoint", NULL};
    static const char *const of_jobs[] = {
        "array",  "error",     "help",     "job-name", "no-requeue",
        "output", "open-mode", "parsable", "requeue",  "test-only",
        "usage",  "version",   "wait",     "wrap",     NULL};
    static const char *const always_own[] = {"arch", "seed", "command", NULL};
    static const char *const placeholders[] = {ES_SWEEP_RUN, ES_SWEEP_NAME,
                                               NULL};
    bool slurm = option->section == ES_SWEEP_SLURM;
    bool any = spec->command && !slurm;
    const char *key = option->key;
    const char *letters = any ? LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"
                                        "0123456789"
                              : LETTERS "-0123456789";
    if (option->section != ES_SWEEP_OWN && !slurm && !spec->is_wandb &&
        is_word_of(any ? always_own : own_keys, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s belongs in [sweep]", spec->path,
                       option->line, key);
    if (any && !es_sweep_is_axis(option) && !is_of_random(option))
        return es_fail(
            ES_EUSAGE,
            "%s:%d: %s is for entropy-train: write it into the command",
            spec->path, option->line, key);
    if (key[strspn(key, letters)] || !*key || key[0] == '-')
        return es_fail(ES_EUSAGE, "%s:%d: '%.60s': expected %s%s", spec->path,
                       option->line, key,
                       any     ? "the name of a placeholder"
                       : slurm ? "an option of sbatch"
                               : "an option of entropy-train",
                       any ? "" : ", without leading dashes");
    if (is_word_of(any ? placeholders : slurm ? of_jobs : of_runs, key))
        return es_fail(ES_EUSAGE, "%s:%d: %s cannot be set in a sweep",
                       spec->path, option->line, key);
    return ES_OK;
}

/* Removes the key `command` from the options of the spec and stores the words
 * of its value in spec->command. */
static es_status split_command(es_sweep_spec *spec)
{
    size_t i = 0;
    while (i < spec->n && !es_sweep_is_own(&spec->options[i], "command"))
        i++;
    if (i == spec->n)
        return ES_OK;
    spec->command_line = spec->options[i].line;
    es_status status =
        es_words_split(&spec->command, spec->options[i].values[0]);
    return status == ES_EUSAGE
               ? es_fail(status, "%s:%d: command: a quote is not closed",
                         spec->path, spec->command_line)
               : status;
}

/* Replaces each _ in a key by -, because users write options with either
 * character. */
static void put_dashes(char *key)
{
    for (; *key; key++)
        if (*key == '_')
            *key = '-';
}

static es_status check_keys(es_sweep_spec *spec)
{
    es_status status = split_command(spec);
    for (size_t i = 0; i < spec->n && status == ES_OK; i++) {
        es_sweep_option *option = &spec->options[i];
        if (es_sweep_is_own(option, "command"))
            continue;
        if (!spec->command || option->section == ES_SWEEP_SLURM)
            put_dashes(option->key);
        if (spec->command || option->section != ES_SWEEP_OWN)
            status = check_option(spec, option);
    }
    return status;
}

/* Checks that the command has a placeholder for every key that the sweep varies
 * and for the run file, and that its program does not vary. */
static es_status check_command(const es_sweep_spec *spec)
{
    es_sweep_value values[ES_SWEEP_OPTIONS_MOST + 3];
    size_t n = 0;
    char **filled = NULL;
    values[n++] = (es_sweep_value){ES_SWEEP_NAME, ""};
    for (size_t i = 0; i < spec->n; i++)
        if (es_sweep_is_axis(&spec->options[i]))
            values[n++] = (es_sweep_value){spec->options[i].key, ""};
    es_status status =
        es_sweep_template_fill(&filled, spec->command, values, n, true);
    es_words_free(filled);
    if (status == ES_EUSAGE)
        return es_fail(status, "%s:%d: command: %s", spec->path,
                       spec->command_line, es_message());
    if (status < 0)
        return status;
    for (size_t i = 1; i < n; i++)
        if (!es_sweep_template_has(spec->command, values[i].key))
            return es_fail(
                ES_EUSAGE,
                "%s:%d: command: {%s} is missing: the sweep varies this key",
                spec->path, spec->command_line, values[i].key);
    if (!spec->is_wandb && !es_sweep_template_has(spec->command, ES_SWEEP_RUN))
        return es_fail(
            ES_EUSAGE,
            "%s:%d: command: {run}, the run file to write, is missing",
            spec->path, spec->command_line);
    if (strpbrk(spec->command[0], "{}"))
        return es_fail(
            ES_EUSAGE,
            "%s:%d: command: %.60s: the program must be the same in all runs",
            spec->path, spec->command_line, spec->command[0]);
    return ES_OK;
}

/* --- random search --------------------------------------------------------*/

/* Reads the value of a key of [sweep] whose value must be a whole number. */
static es_status read_number(int64_t *out, const es_sweep_spec *spec,
                             const char *key, int64_t low, int64_t high)
{
    for (size_t i = 0; i < spec->n; i++)
        if (es_sweep_is_own(&spec->options[i], key) &&
            es_int_parse(out, spec->options[i].values[0], low, high) != ES_OK)
            return es_fail(ES_EUSAGE, "%s:%d: %s: %s", spec->path,
                           spec->options[i].line, key, es_message());
    return ES_OK;
}

static void free_values(es_sweep_option *option)
{
    for (size_t k = 0; k < option->n; k++)
        free(option->values[k]);
    free(option->values);
    option->values = NULL;
    option->n = 0;
}

static es_status draw_values(es_sweep_spec *spec)
{
    es_sweep_random keys[ES_SWEEP_OPTIONS_MOST];
    es_sweep_option *options[ES_SWEEP_OPTIONS_MOST];
    int64_t n = 0, seed = 0;
    size_t n_keys = 0;
    es_status status;
    for (size_t i = 0; i < spec->n; i++) {
        es_sweep_option *option = &spec->options[i];
        if (option->section != ES_SWEEP_RANDOM)
            continue;
        options[n_keys] = option;
        keys[n_keys++] = (es_sweep_random){
            .key = option->key, .words = option->values, .n_words = option->n};
    }
    if ((status = read_number(&n, spec, "n", 1, ES_SWEEP_RUNS_MOST)) < 0 ||
        (status =
             read_number(&seed, spec, "random-seed", INT64_MIN, INT64_MAX)) < 0)
        return status;
    spec->n_draws = spec->n_draws ? spec->n_draws : (size_t)n;
    if (!n_keys && spec->n_draws)
        return es_fail(ES_EUSAGE,
                       "%s: draws without a distribution: expected KEY = "
                       "uniform LOW HIGH or similar in [random]",
                       spec->path);
    if (n_keys && !spec->n_draws)
        return es_fail(
            ES_EUSAGE,
            "%s: the number of draws is missing: expected %s, or --draws N",
            spec->path, spec->is_wandb ? "run_cap" : "n = ... in [sweep]");
    if (!n_keys)
        return ES_OK;
    status = es_sweep_draw(keys, n_keys, spec->n_draws, (uint64_t)seed);
    for (size_t k = 0; k < n_keys; k++) {
        free_values(options[k]);
        options[k]->values = keys[k].drawn;
        options[k]->n = keys[k].drawn ? spec->n_draws : 0;
    }
    return status == ES_EUSAGE
               ? es_fail(status, "%s: %s", spec->path, es_message())
               : status;
}

/* --- whole spec ----------------------------------------------------------- */

static es_status give_default(es_sweep_spec *spec, es_sweep_section section,
                              const char *key)
{
    if (es_sweep_spec_find(spec, key, false))
        return ES_OK;
    es_status status =
        es_grow(&spec->options, spec->n + 1, sizeof *spec->options, "a sweep");
    if (status < 0)
        return status;
    es_sweep_option *option = &spec->options[spec->n++];
    *option = (es_sweep_option){.section = section};
    if ((status = es_copy_text(&option->key, key)) < 0 ||
        (status = es_alloc(&option->values, 1, sizeof *option->values,
                           "a sweep")) < 0)
        return status;
    option->n = 1;
    return es_copy_text(&option->values[0], "1");
}

es_status es_sweep_spec_complete(es_sweep_spec *spec)
{
    es_status status;
    if ((status = check_keys(spec)) < 0)
        return status;
    if (spec->command) {
        status = check_command(spec);
    } else if (!es_sweep_spec_find(spec, "arch", false)) {
        return es_fail(
            ES_EUSAGE,
            "%s: no runs: expected arch = ... or command = ... in [sweep]",
            spec->path);
    } else if ((status = give_default(spec, ES_SWEEP_OWN, "seed")) == ES_OK) {
        status = give_default(spec, ES_SWEEP_TRAIN, "threads");
    }
    return status == ES_OK ? draw_values(spec) : status;
}

void es_sweep_spec_free(es_sweep_spec *spec)
{
    for (size_t i = 0; i < spec->n; i++) {
        free_values(&spec->options[i]);
        free(spec->options[i].key);
    }
    es_words_free(spec->command);
    free(spec->options);
    free(spec->path);
    *spec = (es_sweep_spec){.path = NULL};
}
