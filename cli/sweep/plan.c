/* Expands a spec into its runs: each combination of values gets a command line
 * and a name that is safe as a file name. Also restores a run from a stored
 * command line. */
#include "cli/sweep/plan.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "cli/alerts/delivery/words.h"
#include "cli/slurm/query.h"
#include "cli/sweep/random.h"
#include "cli/sweep/template.h"
#include "store/writer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "entropy-train"
/* Text with which a stored command line begins if it was made from the key
 * `command` of a spec. */
#define CONFIG ES_RUN_CONFIG_VARIABLE "="

/* A combination of values. The axes are arch, seed, and the keys of the grid
 * and of the random search; `index` contains the index of the current value of
 * each axis. */
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

/* Advances to the next combination; returns false after the last combination.
 * All keys of a random search advance together, because a draw has a value for
 * each of them. */
static bool next_combination(choice *chosen)
{
    bool any = false;
    for (size_t i = chosen->n_axes; i-- > 0;) {
        if (chosen->axes[i]->section == ES_SWEEP_RANDOM)
            continue;
        if (++chosen->index[i] < chosen->axes[i]->n)
            return true;
        chosen->index[i] = 0;
    }
    for (size_t i = 0; i < chosen->n_axes; i++)
        if (chosen->axes[i]->section == ES_SWEEP_RANDOM)
            any = ++chosen->index[i] < chosen->axes[i]->n;
    return any;
}

/* --- names ----------------------------------------------------------------*/

/* Appends text such as "EReg(SM(t)+ScFuFFN)" as EReg-SM-t-+ScFuFFN, without
 * characters that are special in a shell or a file name. */
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
    char name[1 << 16] = "";
    for (size_t i = 0; i < chosen->n_axes; i++) {
        size_t n = strlen(name);
        const char *key = chosen->axes[i]->key;
        if (n + 1 < sizeof name && strcmp(key, "arch") != 0)
            snprintf(name + n, sizeof name - n, "%s%s", i ? "_" : "", key);
        add_readable(name, sizeof name, value_of(chosen, i));
    }
    if (!*name)
        snprintf(name, sizeof name, "run");
    /* A "." at the start would make a hidden file, and a "-" a name that
     * programs parse as an option. */
    if (name[0] == '.' || name[0] == '-')
        name[0] = '_';
    if (strlen(name) > ES_SWEEP_NAME_MAX)
        snprintf(name + ES_SWEEP_NAME_MAX - 17, 18, "-%016" PRIx64,
                 es_sweep_hash(name));
    return es_copy_text(out, name);
}

/* --- command lines --------------------------------------------------------*/

/* Appends an option to the command line. An option without an argument is
 * appended if its value in the spec is true, and omitted if it is false. `argv`
 * must have space for two more words. */
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

/* --- commands from the spec ----------------------------------------------- */

/* Writes a value as JSON: a number, true, false, or text. */
static void write_value(es_json_writer *json, const char *key,
                        const char *value)
{
    int64_t whole;
    double number;
    bool is_true = strcasecmp(value, "true") == 0;
    if (es_int_parse(&whole, value, INT64_MIN, INT64_MAX) == ES_OK)
        es_json_write_integer(json, key, whole);
    else if (es_double_parse(&number, value) == ES_OK)
        es_json_write_double(json, key, number);
    else if (is_true || strcasecmp(value, "false") == 0)
        es_json_write_bool(json, key, is_true);
    else
        es_json_write_text(json, key, value);
}

/* Composes a JSON object with the values of the swept keys. The keys are
 * written with _ instead of -, as in the configuration of a program. */
static es_status make_config(char **out, const choice *chosen)
{
    size_t size = 0;
    FILE *stream = es_text_stream(out, &size);
    es_json_writer json = {.stream = stream};
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for a configuration");
    es_json_write_object(&json, NULL);
    for (size_t i = 0; i < chosen->n_axes; i++) {
        char key[256];
        snprintf(key, sizeof key, "%s", chosen->axes[i]->key);
        for (char *c = key; *c; c++)
            if (*c == '-')
                *c = '_';
        write_value(&json, key, value_of(chosen, i));
    }
    es_json_write_end(&json, "}");
    return fclose(stream) == 0
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for a configuration");
}

static es_status fill_command(es_sweep_run *run, const choice *chosen)
{
    es_sweep_value values[ES_SWEEP_OPTIONS_MOST + 3] = {
        {ES_SWEEP_NAME, run->name}};
    size_t n = 1;
    for (size_t i = 0; i < chosen->n_axes; i++)
        values[n++] =
            (es_sweep_value){chosen->axes[i]->key, value_of(chosen, i)};
    es_status status = make_config(&run->config, chosen);
    return status < 0 ? status
                      : es_sweep_template_fill(
                            &run->argv, chosen->spec->command, values, n, true);
}

/* --- the plan -------------------------------------------------------------*/

/* Compares names without regard to case, because some file systems ignore
 * case. */
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
            status = es_fail(
                ES_EUSAGE,
                "%s: two runs would be called %s: a value appears twice, or "
                "two values differ only in special characters",
                path, names[i]);
    free(names);
    return status;
}

static bool has_axis(const choice *chosen, const es_sweep_option *option)
{
    for (size_t i = 0; i < chosen->n_axes; i++)
        if (chosen->axes[i] == option)
            return true;
    return false;
}

es_status es_sweep_plan_make(es_sweep_plan *out, const es_sweep_spec *spec)
{
    static const char *const first[] = {"arch", "seed"};
    choice chosen = {.spec = spec};
    size_t n = spec->n_draws ? spec->n_draws : 1;
    *out = (es_sweep_plan){.runs = NULL};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if ((chosen.axes[chosen.n_axes] =
                 es_sweep_spec_find(spec, first[i], false)))
            chosen.n_axes++;
    for (size_t i = 0; i < spec->n; i++)
        if (es_sweep_is_axis(&spec->options[i]) &&
            !has_axis(&chosen, &spec->options[i]))
            chosen.axes[chosen.n_axes++] = &spec->options[i];
    for (size_t i = 0; i < chosen.n_axes; i++) {
        if (chosen.axes[i]->section != ES_SWEEP_RANDOM)
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
            (status = spec->command ? fill_command(run, &chosen)
                                    : make_command(run, &chosen)) < 0)
            return status;
    } while (next_combination(&chosen));
    return check_names(out, spec->path);
}

/* Removes an option with its argument, such as "--out FILE", from the end of
 * the command line, because the argument depends on the folder. */
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

bool es_sweep_line_is_command(const char *line)
{
    return strncmp(line, CONFIG, strlen(CONFIG)) == 0;
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
    if (es_sweep_line_is_command(line) && run->argv[1]) {
        status = es_copy_text(&run->config, run->argv[0] + strlen(CONFIG));
        free(run->argv[0]);
        for (size_t i = 0; (run->argv[i] = run->argv[i + 1]);)
            i++;
        return status;
    }
    if (drop_pair(run->argv, "--out") &&
        (!es_sweep_run_has(run, "--checkpoint-every") ||
         drop_pair(run->argv, "--checkpoint")))
        return ES_OK;
    return es_fail(ES_EFORMAT, "%s.cmd: not the command line of a sweep", name);
}

void es_sweep_plan_free(es_sweep_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        es_sweep_run *run = &plan->runs[i];
        es_words_free(run->argv);
        free(run->config);
        free(run->name);
    }
    free(plan->runs);
    *plan = (es_sweep_plan){.runs = NULL};
}

/* --- text ----------------------------------------------------------------- */

bool es_sweep_run_has(const es_sweep_run *run, const char *option)
{
    for (size_t i = 1; !run->config && run->argv[i]; i++)
        if (strcmp(run->argv[i], option) == 0)
            return true;
    return false;
}

char *es_sweep_command_line(const es_sweep_run *run)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = es_text_stream(&text, &size);
    if (out) {
        if (run->config) {
            fputs(CONFIG, out);
            es_slurm_print_word(out, run->config);
            putc(' ', out);
        }
        for (size_t i = 0; run->argv[i]; i++) {
            if (i)
                putc(' ', out);
            es_slurm_print_word(out, run->argv[i]);
        }
        if (es_sweep_run_has(run, "--checkpoint-every"))
            fprintf(out, " --checkpoint %s" ES_SWEEP_CHECKPOINTS, run->name);
        if (!run->config)
            fprintf(out, " --out %s.db", run->name);
    }
    if (out && fclose(out) == 0)
        return text;
    free(text);
    es_fail(ES_ENOMEM, "out of memory for a command line");
    return NULL;
}
