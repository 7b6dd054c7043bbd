/* Reads the file that describes a sweep, or lets wandb.c read it, and completes
 * the spec: checks that the keys are allowed and agree with the command, sets
 * defaults, and draws the values of a random search. inih is not used, because
 * it accepts at most 200 bytes per line and treats a semicolon after a blank as
 * the start of a comment; in a spec, a semicolon separates two architectures.
 */
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/alerts/delivery/words.h"
#include "cli/exchange/lines.h"
#include "cli/output/print.h"
#include "cli/sweep/plan.h"
#include "cli/sweep/random.h"
#include "cli/sweep/template.h"
#include "cli/sweep/wandb.h"

#include <stdlib.h>
#include <string.h>

/* --- options of a spec ---------------------------------------------------- */

static bool is_word_of(const char *const *words, const char *key)
{
    while (*words && strcmp(*words, key) != 0)
        words++;
    return *words;
}

/* Keys that the section [sweep] accepts. */
static const char *const own_keys[] = {"arch",   "seed",        "data",
                                       "config", "program",     "command",
                                       "n",      "random-seed", NULL};

/* Returns true if `option` sets the key `key` of the section [sweep]. */
static bool is_own(const es_sweep_option *option, const char *key)
{
    return option->section == ES_SWEEP_OWN && strcmp(option->key, key) == 0;
}

bool es_sweep_is_axis(const es_sweep_option *option)
{
    return option->section == ES_SWEEP_GRID ||
           option->section == ES_SWEEP_RANDOM || is_own(option, "arch") ||
           is_own(option, "seed");
}

const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm)
{
    for (size_t i = 0; i < spec->n; i++)
        if (es_sweep_same_key(spec->options[i].key, key) &&
            (spec->options[i].section == ES_SWEEP_SLURM) == slurm)
            return &spec->options[i];
    return NULL;
}

/* --- values of a file ----------------------------------------------------- */

typedef struct parser {
    es_sweep_spec *out;
    const char *path;
    int line;
    es_sweep_section section;
    es_sweep_option *open; /* option that was read last; an indented line after
                              the option continues its value */
} parser;

/* Returns the characters that separate the values of a key; NULL if the key may
 * have only one value. */
static const char *find_separators(const es_sweep_option *option)
{
    if (is_own(option, "arch"))
        return ";";
    return es_sweep_is_axis(option) ? " \t," : NULL;
}

/* Appends a continuation line, which is the first n bytes of `text`, to the
 * value of the key `command`. */
static es_status append_line(es_sweep_option *option, const char *text,
                             size_t n)
{
    size_t before = strlen(option->values[0]);
    es_status status =
        es_grow(&option->values[0], before + n + 2, 1, "a sweep");
    if (status == ES_OK)
        sprintf(option->values[0] + before, " %.*s", (int)n, text);
    return status;
}

static es_status add_value(parser *p, const char *text, size_t n)
{
    es_sweep_option *option = p->open;
    if (option->n && is_own(option, "command"))
        return append_line(option, text, n);
    if (option->n == ES_SWEEP_VALUES_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: %s: more than %d values", p->path,
                       p->line, option->key, ES_SWEEP_VALUES_MOST);
    if (option->n && !find_separators(option))
        return es_fail(
            ES_EUSAGE, "%s:%d: %s: expected one value%s", p->path, p->line,
            option->key,
            p->section == ES_SWEEP_SLURM ? "" : "; use [grid] for several");
    es_status status;
    if ((status = es_grow(&option->values, option->n + 1,
                          sizeof *option->values, "a sweep")) < 0 ||
        (status = es_alloc(&option->values[option->n], n + 1, 1, "a sweep")) <
            0)
        return status;
    memcpy(option->values[option->n++], text, n);
    return ES_OK;
}

static size_t trim_blanks(const char **text, size_t n)
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
    const char *between = find_separators(p->open);
    while (*text && status == ES_OK) {
        size_t n = between ? strcspn(text, between) : strlen(text);
        const char *value = text;
        size_t length = trim_blanks(&value, n);
        if (length)
            status = add_value(p, value, length);
        text += n + (text[n] != '\0');
    }
    return status;
}

/* --- keys of a file ------------------------------------------------------- */

static es_status check_key(const parser *p, const char *key)
{
    bool slurm = p->section == ES_SWEEP_SLURM, own = is_word_of(own_keys, key);
    size_t n_options = 0;
    for (size_t i = 0; i < p->out->n; i++)
        n_options += p->out->options[i].section != ES_SWEEP_OWN;
    if (p->section == ES_SWEEP_OWN && !own)
        return es_fail(ES_EUSAGE,
                       "%s:%d: '%.60s': expected arch, seed, data, config, "
                       "program, command, n or random-seed",
                       p->path, p->line, key);
    if (es_sweep_spec_find(p->out, key, slurm))
        return es_fail(ES_EUSAGE, "%s:%d: %s is already set", p->path, p->line,
                       key);
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

/* --- lines of a file ------------------------------------------------------ */

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
                                        [ES_SWEEP_RANDOM] = "[random]",
                                        [ES_SWEEP_SLURM] = "[slurm]"};
    for (int i = ES_SWEEP_OWN; i <= ES_SWEEP_SLURM; i++)
        if (strcmp(name, names[i]) == 0) {
            p->section = (es_sweep_section)i;
            p->open = NULL;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE,
                   "%s:%d: '%.60s': expected [sweep], [train], [grid], "
                   "[random] or [slurm]",
                   p->path, p->line, name);
}

static es_status read_key(parser *p, char *text)
{
    char *equals = strchr(text, '=');
    const char *key = text;
    if (!equals || p->section == ES_SWEEP_NO_SECTION)
        return es_fail(ES_EUSAGE, "%s:%d: '%.60s': expected %s", p->path,
                       p->line, text,
                       equals ? "[sweep] above it" : "KEY = VALUE");
    size_t n = trim_blanks(&key, (size_t)(equals - text));
    text[(key - text) + (ptrdiff_t)n] = '\0';
    es_status status = open_option(p, key);
    return status == ES_OK ? add_values(p, equals + 1) : status;
}

static es_status read_line(parser *p, const es_line *line)
{
    const char *text = line->text;
    p->line = (int)line->number;
    size_t n = trim_blanks(&text, line->n);
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

static es_status read_lines(es_sweep_spec *out, const char *path)
{
    parser p = {.out = out, .path = path};
    es_line_reader *lines = NULL;
    es_line line;
    es_status status = es_line_reader_open(&lines, path);
    while (status == ES_OK &&
           (status = es_line_reader_next(lines, &line)) == ES_OK)
        status = read_line(&p, &line);
    es_line_reader_close(lines);
    return status == ES_DONE ? check_open(&p) : status;
}

/* --- keys and the command ------------------------------------------------- */

#define LETTERS "abcdefghijklmnopqrstuvwxyz"

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
    if (any && !es_sweep_is_axis(option) && !is_own(option, "n") &&
        !is_own(option, "random-seed"))
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
    while (i < spec->n && !is_own(&spec->options[i], "command"))
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
        if (is_own(option, "command"))
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

/* --- random search -------------------------------------------------------- */

/* Reads the value of a key of [sweep] whose value must be a whole number. */
static es_status read_number(int64_t *out, const es_sweep_spec *spec,
                             const char *key, int64_t low, int64_t high)
{
    for (size_t i = 0; i < spec->n; i++)
        if (is_own(&spec->options[i], key) &&
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

/* Checks a spec that was read, adds defaults and draws values. */
static es_status complete_spec(es_sweep_spec *spec)
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

es_status es_sweep_spec_read(es_sweep_spec *out, const char *path,
                             size_t n_draws)
{
    *out = (es_sweep_spec){.n_draws = n_draws};
    es_status status;
    bool terminates = false;
    if ((status = es_copy_text(&out->path, path)) < 0 ||
        (status = es_sweep_is_wandb(path)
                      ? es_sweep_wandb_read(out, &terminates)
                      : read_lines(out, path)) < 0)
        return status;
    if (terminates)
        es_print_note("%s: early_terminate is ignored: runs are stopped by "
                      "their flags and by --rules",
                      path);
    return complete_spec(out);
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
