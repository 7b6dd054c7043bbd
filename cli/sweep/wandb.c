/* Reads a sweep.yaml of Weights & Biases with libyaml, and converts it to the
 * description of a sweep (es_sweep_spec): the file's parameters become keys of
 * [grid] or [random], and its command becomes the key `command`. An unsupported
 * setting that affects the search is refused. */
#include "cli/sweep/wandb.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

enum { DEPTH_MOST = 64 };

typedef struct reader {
    es_sweep_spec *spec;
    yaml_document_t document;
    bool random;
    const char *program;
    const yaml_node_t *command;
    size_t n_words; /* number of words in spec->command */
} reader;

bool es_sweep_is_wandb(const char *path)
{
    return es_text_ends(path, ".yaml") || es_text_ends(path, ".yml");
}

/* --- nodes ----------------------------------------------------------------*/

static es_status refuse(const reader *r, const yaml_node_t *node,
                        const char *name, const char *why)
{
    return es_fail(ES_EUSAGE, "%s:%zu: %.60s: %s", r->spec->path,
                   node->start_mark.line + 1, name, why);
}

/* Returns the text of a YAML scalar; "" for other kinds of nodes. */
static const char *text_of(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE
               ? (const char *)node->data.scalar.value
               : "";
}

/* Returns the value of a YAML scalar as Python would print the value. */
static const char *value_of(const yaml_node_t *node)
{
    static const char *const words[][2] = {
        {"true", "True"}, {"false", "False"}, {"null", "None"}};
    const char *text = text_of(node);
    bool plain = node->type == YAML_SCALAR_NODE &&
                 node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    for (size_t i = 0; plain && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

static const yaml_node_t *node_at(reader *r, int index)
{
    return yaml_document_get_node(&r->document, index);
}

static const yaml_node_t *member(reader *r, const yaml_node_t *map,
                                 const char *key)
{
    if (map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start;
         pair < map->data.mapping.pairs.top; pair++)
        if (strcmp(text_of(node_at(r, pair->key)), key) == 0)
            return node_at(r, pair->value);
    return NULL;
}

/* --- words of the command -------------------------------------------------*/

/* Appends a word to the command. Braces are doubled so that they are not read
 * as placeholders, except in {run} and {name} if `placeholders` is true. */
static es_status add_word(reader *r, const char *before, const char *text,
                          bool placeholders)
{
    es_sweep_spec *spec = r->spec;
    char *word = NULL;
    size_t size = 0;
    FILE *out = es_text_stream(&word, &size);
    if (!out)
        return es_fail(ES_ENOMEM, "out of memory for a command line");
    fputs(before, out);
    while (*text) {
        size_t n = strncmp(text, "{run}", 5) == 0    ? 5
                   : strncmp(text, "{name}", 6) == 0 ? 6
                                                     : 0;
        if (placeholders && n) {
            fprintf(out, "%.*s", (int)n, text);
            text += n;
            continue;
        }
        if (*text == '{' || *text == '}')
            putc(*text, out);
        putc(*text++, out);
    }
    es_status status = ES_OK;
    if (fclose(out) != 0)
        status = es_fail(ES_ENOMEM, "out of memory for a command line");
    else
        status = es_grow(&spec->command, r->n_words + 2, sizeof *spec->command,
                         "a command line");
    if (status < 0) {
        free(word);
        return status;
    }
    spec->command[r->n_words++] = word;
    spec->command[r->n_words] = NULL;
    return ES_OK;
}

/* Appends an argument "--KEY={KEY}" for each parameter, or "--KEY=VALUE" if the
 * parameter is constant. */
static es_status add_arguments(reader *r, const yaml_node_t *parameters,
                               const char *dashes)
{
    es_status status = ES_OK;
    for (yaml_node_pair_t *pair = parameters->data.mapping.pairs.start;
         status == ES_OK && pair < parameters->data.mapping.pairs.top; pair++) {
        const char *key = text_of(node_at(r, pair->key));
        const yaml_node_t *value = member(r, node_at(r, pair->value), "value");
        char word[300];
        if (value) {
            snprintf(word, sizeof word, "%s%.128s=", dashes, key);
            status = add_word(r, word, value_of(value), false);
        } else {
            snprintf(word, sizeof word, "%s%.128s={%.128s}", dashes, key, key);
            status = add_word(r, word, "", false);
        }
    }
    return status;
}

static es_status add_item(reader *r, const yaml_node_t *item, const char *text,
                          const yaml_node_t *parameters)
{
    if (strcmp(text, "${env}") == 0)
        return add_word(r, "", "/usr/bin/env", false);
    if (strcmp(text, "${interpreter}") == 0)
        return add_word(r, "", "python", false);
    if (strcmp(text, "${program}") == 0)
        return r->program && *r->program
                   ? add_word(r, "", r->program, false)
                   : refuse(r, item, text, "the key program is missing");
    if (strcmp(text, "${args}") == 0)
        return add_arguments(r, parameters, "--");
    if (strcmp(text, "${args_no_hyphens}") == 0)
        return add_arguments(r, parameters, "");
    if (strstr(text, "${"))
        return refuse(r, item, text,
                      "expected ${env}, ${interpreter}, ${program}, ${args} or "
                      "${args_no_hyphens}, each as a separate item");
    return add_word(r, "", text, true);
}

static es_status read_command(reader *r, const yaml_node_t *parameters)
{
    static const char *const usual[] = {"${env}", "${interpreter}",
                                        "${program}", "${args}"};
    const yaml_node_t *command = r->command;
    es_status status = ES_OK;
    r->spec->command_line =
        (int)(command ? command : parameters)->start_mark.line + 1;
    if (!command) {
        for (size_t i = 0; i < 4 && status == ES_OK; i++)
            status = add_item(r, parameters, usual[i], parameters);
        return status;
    }
    if (command->type != YAML_SEQUENCE_NODE ||
        command->data.sequence.items.start == command->data.sequence.items.top)
        return refuse(r, command, "command", "expected a list of words");
    for (yaml_node_item_t *item = command->data.sequence.items.start;
         status == ES_OK && item < command->data.sequence.items.top; item++) {
        const yaml_node_t *word = node_at(r, *item);
        status = add_item(r, word, text_of(word), parameters);
    }
    return status;
}

/* --- parameters -----------------------------------------------------------*/

static es_status add_value(es_sweep_option *to, const char *text)
{
    es_status status =
        es_grow(&to->values, to->n + 1, sizeof *to->values, "a sweep");
    if (status == ES_OK &&
        (status = es_copy_text(&to->values[to->n], text)) == ES_OK)
        to->n++;
    return status;
}

static es_status add_values(reader *r, es_sweep_option *to,
                            const yaml_node_t *list)
{
    es_status status = r->random ? add_value(to, "choice") : ES_OK;
    if (list->type != YAML_SEQUENCE_NODE ||
        list->data.sequence.items.start == list->data.sequence.items.top)
        return refuse(r, list, to->key, "values: expected a list");
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         status == ES_OK && item < list->data.sequence.items.top; item++) {
        const yaml_node_t *value = node_at(r, *item);
        if (value->type != YAML_SCALAR_NODE)
            return refuse(r, value, to->key, "expected numbers or strings");
        if (to->n == ES_SWEEP_VALUES_MOST)
            return refuse(r, value, to->key, "more than 1000 values");
        status = add_value(to, value_of(value));
    }
    return status;
}

/* Returns the name of a parameter's distribution. If the parameter has only
 * bounds, the distribution is uniform, over whole numbers if both bounds are
 * whole. */
static const char *distribution_of(reader *r, const yaml_node_t *map)
{
    const yaml_node_t *name = member(r, map, "distribution");
    int64_t whole;
    if (name)
        return text_of(name);
    return es_int_parse(&whole, text_of(member(r, map, "min")), INT64_MIN,
                        INT64_MAX) == ES_OK &&
                   es_int_parse(&whole, text_of(member(r, map, "max")),
                                INT64_MIN, INT64_MAX) == ES_OK
               ? "int_uniform"
               : "uniform";
}

static es_status add_distribution(reader *r, es_sweep_option *to,
                                  const yaml_node_t *map)
{
    static const char *const names[][2] = {
        {"uniform", "uniform"},
        {"log_uniform_values", "log-uniform"},
        {"q_uniform", "q-uniform"},
        {"int_uniform", "int-uniform"}};
    const char *name = distribution_of(r, map), *ours = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            ours = names[i][1];
    if (!ours)
        return refuse(r, map, to->key,
                      "expected value, values, or distribution uniform, "
                      "log_uniform_values, q_uniform, int_uniform, categorical "
                      "or constant");
    if (!r->random)
        return refuse(r, map, to->key,
                      "method grid needs values, not a distribution");
    const yaml_node_t *low = member(r, map, "min"),
                      *high = member(r, map, "max");
    const yaml_node_t *step = member(r, map, "q");
    if (!low || !high)
        return refuse(r, map, to->key, "expected min and max");
    es_status status;
    if ((status = add_value(to, ours)) < 0 ||
        (status = add_value(to, text_of(low))) < 0 ||
        (status = add_value(to, text_of(high))) < 0)
        return status;
    return strcmp(ours, "q-uniform") == 0
               ? add_value(to, step ? text_of(step) : "1")
               : ES_OK;
}

static es_status read_parameter(reader *r, const yaml_node_t *key,
                                const yaml_node_t *map)
{
    es_sweep_spec *spec = r->spec;
    const char *name = text_of(key);
    const yaml_node_t *values = member(r, map, "values");
    if (map->type != YAML_MAPPING_NODE || member(r, map, "parameters") ||
        member(r, map, "probabilities"))
        return refuse(r, key, name,
                      "expected value, values or a distribution; nested "
                      "parameters and probabilities are not supported");
    if (member(r, map, "value"))
        return member(r, map, "value")->type == YAML_SCALAR_NODE
                   ? ES_OK
                   : refuse(r, key, name, "expected a number or a string");
    if (spec->n == ES_SWEEP_OPTIONS_MOST)
        return refuse(r, key, name, "more than 64 parameters");
    es_status status =
        es_grow(&spec->options, spec->n + 1, sizeof *spec->options, "a sweep");
    if (status < 0)
        return status;
    es_sweep_option *option = &spec->options[spec->n++];
    *option = (es_sweep_option){.section =
                                    r->random ? ES_SWEEP_RANDOM : ES_SWEEP_GRID,
                                .line = (int)key->start_mark.line + 1};
    if ((status = es_copy_text(&option->key, name)) < 0)
        return status;
    return values ? add_values(r, option, values)
                  : add_distribution(r, option, map);
}

/* --- the file -------------------------------------------------------------*/

static es_status read_method(reader *r, const yaml_node_t *node)
{
    const char *method = text_of(node);
    r->random = strcmp(method, "random") == 0;
    if (r->random || strcmp(method, "grid") == 0)
        return ES_OK;
    return refuse(r, node, "method",
                  strcmp(method, "bayes") == 0
                      ? "bayes is not supported: use random, or Optuna"
                      : "expected grid or random");
}

static es_status read_cap(reader *r, const yaml_node_t *node)
{
    int64_t n;
    if (es_int_parse(&n, text_of(node), 1, ES_SWEEP_RUNS_MOST) != ES_OK)
        return refuse(r, node, "run_cap", es_message());
    if (!r->random)
        return refuse(r, node, "run_cap", "allowed only with method random");
    if (!r->spec->n_draws)
        r->spec->n_draws = (size_t)n;
    return ES_OK;
}

static es_status check_members(reader *r, const yaml_node_t *root)
{
    static const char *const known[] = {
        "method",      "parameters",      "program", "command",
        "run_cap",     "early_terminate", "metric",  "name",
        "description", "project",         "entity"};
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = node_at(r, pair->key);
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(known[i], text_of(key)) != 0)
            i++;
        if (i == n)
            return refuse(r, key, text_of(key), "not supported in a sweep");
    }
    return ES_OK;
}

static es_status read_root(reader *r, bool *terminates)
{
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    es_status status;
    if (!root || root->type != YAML_MAPPING_NODE)
        return es_fail(ES_EUSAGE, "%s: expected method, program and parameters",
                       r->spec->path);
    const yaml_node_t *method = member(r, root, "method");
    const yaml_node_t *parameters = member(r, root, "parameters");
    const yaml_node_t *cap = member(r, root, "run_cap");
    if (!method || !parameters || parameters->type != YAML_MAPPING_NODE)
        return refuse(r, root, method ? "parameters" : "method", "is missing");
    r->program = text_of(member(r, root, "program"));
    r->command = member(r, root, "command");
    *terminates = member(r, root, "early_terminate");
    if ((status = check_members(r, root)) < 0 ||
        (status = read_method(r, method)) < 0 ||
        (cap && (status = read_cap(r, cap)) < 0))
        return status;
    for (yaml_node_pair_t *pair = parameters->data.mapping.pairs.start;
         status == ES_OK && pair < parameters->data.mapping.pairs.top; pair++)
        status =
            read_parameter(r, node_at(r, pair->key), node_at(r, pair->value));
    return status == ES_OK ? read_command(r, parameters) : status;
}

/* Returns true if the YAML is nested too deeply, and rewinds the file. This is
 * checked before libyaml loads the file, because libyaml needs time quadratic
 * in the depth. */
static bool is_too_deep(FILE *file)
{
    yaml_parser_t parser;
    yaml_event_t event;
    int depth = 0;
    bool more = yaml_parser_initialize(&parser);
    if (!more)
        return false;
    yaml_parser_set_input_file(&parser, file);
    while (more && depth <= DEPTH_MOST && yaml_parser_parse(&parser, &event)) {
        const yaml_event_type_t type = event.type;
        depth +=
            (type == YAML_SEQUENCE_START_EVENT ||
             type == YAML_MAPPING_START_EVENT) -
            (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT);
        more = type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    rewind(file);
    return depth > DEPTH_MOST;
}

es_status es_sweep_wandb_read(es_sweep_spec *spec, bool *terminates)
{
    reader r = {.spec = spec};
    yaml_parser_t parser;
    es_status status = ES_OK;
    *terminates = false;
    spec->is_wandb = true;
    struct stat about;
    if (stat(spec->path, &about) == 0 && !S_ISREG(about.st_mode))
        return es_fail(ES_EIO, "%s: not a regular file", spec->path);
    FILE *file = fopen(spec->path, "re");
    if (!file)
        return es_fail(ES_EIO, "%s: cannot read: %s", spec->path,
                       strerror(errno));
    if (!yaml_parser_initialize(&parser)) {
        fclose(file);
        return es_fail(ES_ENOMEM, "out of memory for a sweep");
    }
    yaml_parser_set_input_file(&parser, file);
    if (is_too_deep(file)) {
        status = es_fail(
            ES_EUSAGE,
            "%s: nested more than %d levels deep: a sweep needs only a few",
            spec->path, DEPTH_MOST);
    } else if (yaml_parser_load(&parser, &r.document)) {
        status = read_root(&r, terminates);
        yaml_document_delete(&r.document);
    } else {
        status =
            es_fail(ES_EUSAGE, "%s:%zu: not YAML: %s", spec->path,
                    parser.problem_mark.line + 1,
                    parser.problem ? parser.problem : "cannot read the file");
    }
    yaml_parser_delete(&parser);
    fclose(file);
    return status;
}
