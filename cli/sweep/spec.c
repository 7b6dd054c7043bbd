/* Reads the file that describes a sweep. inih is not used, because it accepts
 * at most 200 bytes per line and treats a semicolon after a blank as the start
 * of a comment; in a spec, a semicolon separates two architectures. */
#include "analyzer/base/checked.h"
#include "cli/alerts/delivery/words.h"
#include "cli/exchange/lines.h"
#include "cli/output/print.h"
#include "cli/sweep/plan.h"
#include "cli/sweep/template.h"
#include "cli/sweep/wandb.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    es_sweep_spec *out;
    const char *path;
    int line;
    es_sweep_section section;
    es_sweep_option *open; /* option that was read last; an indented line after
                              the option continues its value */
} parser;

const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm)
{
    for (size_t i = 0; i < spec->n; i++)
        if (es_sweep_same_key(spec->options[i].key, key) &&
            (spec->options[i].section == ES_SWEEP_SLURM) == slurm)
            return &spec->options[i];
    return NULL;
}

/* --- values ---------------------------------------------------------------*/

/* Returns the characters that separate the values of a key; NULL if the key may
 * have only one value. */
static const char *separators(const es_sweep_option *option)
{
    if (es_sweep_is_own(option, "arch"))
        return ";";
    return es_sweep_is_axis(option) ? " \t," : NULL;
}

/* Appends a continuation line, which is the first n bytes of `text`, to the
 * value of the key `command`. */
static es_status lengthen(es_sweep_option *option, const char *text, size_t n)
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
    if (option->n && es_sweep_is_own(option, "command"))
        return lengthen(option, text, n);
    if (option->n == ES_SWEEP_VALUES_MOST)
        return es_fail(ES_EUSAGE, "%s:%d: %s: more than %d values", p->path,
                       p->line, option->key, ES_SWEEP_VALUES_MOST);
    if (option->n && !separators(option))
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
    bool slurm = p->section == ES_SWEEP_SLURM, own = es_sweep_is_own_key(key);
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
                       equals ? "[sweep] before" : "KEY = VALUE");
    size_t n = trimmed(&key, (size_t)(equals - text));
    text[(key - text) + (ptrdiff_t)n] = '\0';
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

/* --- whole file ----------------------------------------------------------- */

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
    return es_sweep_spec_complete(out);
}
