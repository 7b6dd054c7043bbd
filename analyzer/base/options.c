/*
 * Parses options with getopt_long; the rows of a table describe the options.
 * Also sets and prints the typed variables in which option values are stored,
 * and suggests names for misspelled options. help.c prints the help texts from
 * the same rows.
 */
#include "analyzer/base/options.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

/* --- one value ------------------------------------------------------------*/

static es_status set_flag(bool *field, const char *value, const char *where)
{
    *field = !value || strcmp(value, "true") == 0;
    if (*field || strcmp(value, "false") == 0)
        return ES_OK;
    return es_fail(ES_EUSAGE, "%s: '%s' is neither true nor false", where,
                   value);
}

static es_status wrong_value(const es_option *option, const char *value,
                             const char *where)
{
    return es_fail(ES_EUSAGE, "%s '%.40s': expected %s", where, value,
                   option->expects);
}

static es_status set_int(void *field, const es_option *option,
                         const char *value, const char *where)
{
    int64_t number;
    if (es_int_parse(&number, value, option->least, option->most) != ES_OK)
        return option->expects
                   ? wrong_value(option, value, where)
                   : es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    if (option->size == sizeof(int))
        *(int *)field = (int)number;
    else
        memcpy(field, &number, sizeof number);
    return ES_OK;
}

static es_status set_real(double *field, const es_option *option,
                          const char *value, const char *where)
{
    double number;
    bool is_number = es_double_parse(&number, value) == ES_OK;
    if (is_number && number >= option->low && number <= option->high) {
        *field = number;
        return ES_OK;
    }
    if (option->expects)
        return wrong_value(option, value, where);
    if (!is_number)
        return es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    char low[ES_FLOAT_TEXT_MAX], high[ES_FLOAT_TEXT_MAX];
    return es_fail(ES_EUSAGE, "%s: %s is not between %s and %s", where, value,
                   es_number_print(low, option->low, 10),
                   es_number_print(high, option->high, 10));
}

static es_status set_copy(char *field, const es_option *option,
                          const char *value, const char *where)
{
    if (!*value || strlen(value) >= option->size)
        return es_fail(ES_EUSAGE, "%s: must have 1 to %zu bytes", where,
                       option->size - 1);
    strcpy(field, value);
    return ES_OK;
}

static es_status set_choice(void *field, const es_option *option,
                            const char *value, const char *where)
{
    char list[128];
    es_text names = es_text_begin(list, sizeof list);
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], value) == 0) {
            memcpy(field, &i, sizeof i);
            return ES_OK;
        }
        es_text_append(&names, i ? ", %s" : "%s", option->choices[i]);
    }
    return option->expects
               ? wrong_value(option, value, where)
               : es_fail(ES_EUSAGE,
                         "%s: unknown value '%s': expected one of %s", where,
                         value, list);
}

es_status es_option_set(void *target, const es_option *option,
                        const char *value, const char *where)
{
    void *field = (char *)target + option->offset;
    const int constant = (int)option->least;
    switch (option->type) {
    case ES_OPTION_FLAG:
        return set_flag(field, value, where);
    case ES_OPTION_INT:
        return set_int(field, option, value, where);
    case ES_OPTION_REAL:
        return set_real(field, option, value, where);
    case ES_OPTION_TEXT:
        *(const char **)field = value;
        return ES_OK;
    case ES_OPTION_COPY:
        return set_copy(field, option, value, where);
    case ES_OPTION_CHOICE:
        return set_choice(field, option, value, where);
    case ES_OPTION_SET:
        memcpy(field, &constant, sizeof constant);
        return ES_OK;
    case ES_OPTION_CALL:
        return option->read(field, option, value, where);
    case ES_OPTION_END:
        return ES_DONE;
    case ES_OPTION_LIST:
        break;
    }
    return es_fail(ES_EINTERNAL, "%s: a list cannot be set from a single value",
                   where);
}

void es_option_print(char *out, size_t size, const void *target,
                     const es_option *option)
{
    const void *field = (const char *)target + option->offset;
    char number[ES_FLOAT_TEXT_MAX];
    snprintf(out, size, "%s", "");
    if (option->type == ES_OPTION_FLAG)
        snprintf(out, size, *(const bool *)field ? "true" : "false");
    else if (option->type == ES_OPTION_INT && option->size == sizeof(int))
        snprintf(out, size, "%d", *(const int *)field);
    else if (option->type == ES_OPTION_INT)
        snprintf(out, size, "%" PRId64, *(const int64_t *)field);
    else if (option->type == ES_OPTION_REAL)
        snprintf(out, size, "%s",
                 es_double_print(number, *(const double *)field));
    else if (option->type == ES_OPTION_COPY)
        snprintf(out, size, "%s", (const char *)field);
    else if (option->type == ES_OPTION_CHOICE)
        snprintf(out, size, "%s", option->choices[*(const int *)field]);
    else if (option->print)
        option->print(out, size, field);
}

/* --- rows as text --------------------------------------------------------- */

void es_option_print_names(char *out, size_t size, const es_option *option)
{
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (!option->argument)
        snprintf(out, size, "%s--%s", letter, option->name);
    else if (option->argument[0] == '[')
        snprintf(out, size, "%s--%s[=%s", letter, option->name,
                 option->argument + 1);
    else
        snprintf(out, size, "%s--%s=%s", letter, option->name,
                 option->argument);
}

void es_option_print_sentence(char *out, size_t size, const es_command *command,
                              const es_option *option)
{
    char printed[64] = "";
    const char *value = option->value;
    const bool is_hidden = option->tags & command->hides;
    if (!value && command->defaults && !is_hidden &&
        option->type != ES_OPTION_FLAG) {
        es_option_print(printed, sizeof printed, command->defaults(command),
                        option);
        value = printed;
    }
    snprintf(out, size, value && *value ? "%s (%.60s)" : "%s", option->help,
             value);
}

/* --- the command line -----------------------------------------------------*/

/* The table converted for getopt_long. Long options get numbers from
   FIRST_LONG, above all character codes. */
enum { FIRST_LONG = 256 };

typedef struct getopt_tables {
    struct option longs[ES_MAX_OPTIONS + 1];
    char letters[3 * ES_MAX_OPTIONS + 2];
} getopt_tables;

typedef struct parsing {
    void *target;
    bool *given;
    const es_command *command;
    int argc;
} parsing;

const char *es_command_verb(const es_command *command)
{
    const char *blank = strchr(command->name, ' ');
    return blank ? blank + 1 : "";
}

bool es_command_takes(const es_command *command, const es_option *option)
{
    return option->name && (!command->takes || option->tags & command->takes);
}

bool es_command_shows(const es_command *command, const es_option *option)
{
    return es_command_takes(command, option) && !(option->tags & command->old);
}

static void make_tables(getopt_tables *out, const es_command *command)
{
    /* A leading ':' makes getopt distinguish a missing value from an unknown
       option. */
    char *letter = out->letters;
    struct option *entry = out->longs;
    *letter++ = ':';
    for (size_t i = 0; i < command->n_options; i++) {
        const es_option *option = &command->options[i];
        const int kind = !option->argument            ? no_argument
                         : option->argument[0] == '[' ? optional_argument
                                                      : required_argument;
        if (!es_command_takes(command, &command->options[i]))
            continue;
        *entry++ = (struct option){
            .name = option->name, .has_arg = kind, .val = FIRST_LONG + (int)i};
        if (!option->letter)
            continue;
        *letter++ = option->letter;
        for (int colons = 0; colons < kind; colons++)
            *letter++ = ':';
    }
}

/* Returns the entry of the option table that getopt's result `found` refers to;
   NULL if there is none. */
static const es_option *found_option(const es_command *command, int found)
{
    if (found >= FIRST_LONG)
        return &command->options[found - FIRST_LONG];
    for (size_t i = 0; i < command->n_options; i++)
        if (es_command_takes(command, &command->options[i]) &&
            command->options[i].letter == found)
            return &command->options[i];
    return NULL;
}

/* --- unknown options ------------------------------------------------------ */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Computes the Levenshtein distance with only one row of the distance table. */
size_t es_word_distance(const char *a, size_t n, const char *b)
{
    size_t row[64], m = strlen(b);
    if (n > 63 || m > 63)
        return 99;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            row[j] = min3(row[j] + 1, row[j - 1] + 1,
                          diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

static bool is_known(const es_command *command, const char *name, size_t n)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (es_command_takes(command, &command->options[i]) &&
            strncmp(command->options[i].name, name, n) == 0)
            return true;
    return false;
}

/* Option names of other training programs, each with the name of the same
   option in this program. Users may write dashes or underscores. */
static const char *const names_of_others[][2] = {
    {"learning-rate", "lr"},
    {"max-lr", "lr"},
    {"min-lr", "lr-min"},
    {"batch-size", "batch"},
    {"per-device-train-batch-size", "batch"},
    {"micro-batch-size", "batch"},
    {"gradient-accumulation-steps", "accumulate"},
    {"grad-accum", "accumulate"},
    {"max-steps", "steps"},
    {"max-iters", "steps"},
    {"iterations", "steps"},
    {"epochs", "steps"},
    {"num-train-epochs", "steps"},
    {"warmup-steps", "warm-up"},
    {"warmup-ratio", "warm-up"},
    {"warmup", "warm-up"},
    {"lr-scheduler-type", "schedule"},
    {"scheduler", "schedule"},
    {"block-size", "ctx"},
    {"seq-len", "ctx"},
    {"seq-length", "ctx"},
    {"max-seq-length", "ctx"},
    {"context-length", "ctx"},
    {"hidden-size", "d-model"},
    {"n-embd", "d-model"},
    {"num-layers", "n-layer"},
    {"num-hidden-layers", "n-layer"},
    {"num-heads", "n-head"},
    {"num-attention-heads", "n-head"},
    {"vocab-size", "vocab"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"wd", "weight-decay"},
    {"dtype", "precision"},
    {"bf16", "precision"},
    {"fp16", "precision"},
    {"device", "backend"},
    {"num-threads", "threads"},
    {"resume-from-checkpoint", "resume"},
    {"output-dir", "checkpoint"},
    {"save-steps", "checkpoint-every"},
    {"eval-steps", "eval-every"},
    {"logging-steps", "log-every"},
    {"dataset", "data"},
    {"train-data", "data"},
    {"out", "output"},
    {"cmap", "colormap"},
    {"palette", "colormap"},
    {"filter", "where"},
    {"order-by", "sort"},
    {"diff", "compare"},
    {"plot", "figure"},
    {"live", "follow"},
    {"silent", "quiet"}};

/* Returns this program's name for the option that other programs call `name` (n
 * characters); NULL if the table does not contain `name` or the command lacks
 * the option. */
static const char *own_name(const es_command *command, const char *name,
                            size_t n)
{
    const size_t n_names = sizeof names_of_others / sizeof *names_of_others;
    for (size_t i = 0; i < n_names; i++) {
        const char *theirs = names_of_others[i][0];
        size_t at = 0;
        while (at < n && theirs[at] == (name[at] == '_' ? '-' : name[at]))
            at++;
        if (at == n && !theirs[at] &&
            is_known(command, names_of_others[i][1],
                     strlen(names_of_others[i][1])))
            return names_of_others[i][1];
    }
    return NULL;
}

static es_status bad_option(const es_command *command, const char *word)
{
    if (optopt && optopt < FIRST_LONG)
        return es_fail(ES_EUSAGE, "-%c: no such option: see %s --help", optopt,
                       command->name);
    const char *name = word + 2;
    size_t n = strcspn(name, "=");
    if (optopt)
        return es_fail(ES_EUSAGE, "--%.*s takes no value", (int)n, name);
    if (n && is_known(command, name, n))
        return es_fail(ES_EUSAGE, "--%.*s is short for several options: %s",
                       (int)n, name, "write it out");
    const char *other = own_name(command, name, n);
    size_t best_distance = other ? 0 : 4;
    for (size_t i = 0; i < command->n_options; i++) {
        if (!es_command_takes(command, &command->options[i]))
            continue;
        size_t d = es_word_distance(name, n, command->options[i].name);
        if (d < best_distance) {
            best_distance = d;
            other = command->options[i].name;
        }
    }

    if (other)
        return es_fail(ES_EUSAGE, "--%.*s: no such option: did you mean --%s?",
                       (int)n, name, other);
    return es_fail(ES_EUSAGE, "--%.*s: no such option: see %s --help", (int)n,
                   name, command->name);
}

/* --- parsing --------------------------------------------------------------*/

/* Appends a string to the target of a list option. The first call allocates
   space for all of argv. */
static es_status add_text(const parsing *p, const es_option *option,
                          const char *value)
{
    char ***texts = (void *)((char *)p->target + option->offset);
    size_t *n = (void *)((char *)p->target + option->count);
    if (option->most > 0 && *n >= (size_t)option->most)
        return es_fail(ES_EUSAGE, "--%s: more than %" PRId64 " names",
                       option->name, option->most);
    es_status status = ES_OK;
    if (!*texts)
        status = es_alloc(texts, (size_t)p->argc, sizeof **texts, "arguments");
    if (status == ES_OK)
        (*texts)[(*n)++] = (char *)(uintptr_t)value;
    return status;
}

static es_status take_option(const parsing *p, const es_option *option,
                             const char *value)
{
    char where[64];
    snprintf(where, sizeof where, "--%s", option->name);
    if (p->given)
        p->given[option - p->command->options] = true;
    return option->type == ES_OPTION_LIST
               ? add_text(p, option, value)
               : es_option_set(p->target, option, value, where);
}

/* Stores a positional argument in the target of the option whose name is NULL.
 * This entry of the option table describes positional arguments. */
static es_status take_argument(const parsing *p, const char *value)
{
    const unsigned takes = p->command->takes;
    const es_option *row = p->command->options;
    const es_option *end = row + p->command->n_options;
    while (row < end && (row->name || (takes && !(row->tags & takes))))
        row++;
    if (row == end)
        return es_fail(ES_EUSAGE, "'%s': %s takes no argument", value,
                       p->command->name);
    if (row->type == ES_OPTION_LIST)
        return add_text(p, row, value);
    if (row->type == ES_OPTION_TEXT) {
        const char **text = (void *)((char *)p->target + row->offset);
        if (*text)
            return es_fail(ES_EUSAGE, "%s, %s: give one file at a time", *text,
                           value);
    }
    return es_option_set(p->target, row, value, value);
}

es_status es_options_parse(void *target, bool *given, const es_command *command,
                           int argc, char **argv)
{
    const parsing p = {target, given, command, argc};
    getopt_tables tables = {0};
    es_status status = ES_OK;
    make_tables(&tables, command);
    optind = 0; /* 0 makes glibc reset its whole parsing state, even within a
                   group of short options */
    opterr = 0;
    while (status == ES_OK && argc > 0) {
        const char *word = argv[optind > 0 && optind < argc ? optind : 1];
        int found = getopt_long(argc, argv, tables.letters, tables.longs, NULL);
        if (found == -1)
            break;
        if (found == '?')
            return bad_option(command, optind > 1 ? argv[optind - 1] : word);
        if (found == ':') {
            const es_option *option = found_option(command, optopt);
            return es_fail(ES_EUSAGE, "--%s needs a value: --%s=%s",
                           option->name, option->name, option->argument);
        }
        status = take_option(&p, found_option(command, found), optarg);
    }
    for (int i = optind; status == ES_OK && i < argc; i++)
        status = take_argument(&p, argv[i]);
    return status;
}

es_status es_options_default(void *target, const es_command *command)
{
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < command->n_options; i++)
        if (es_command_takes(command, &command->options[i]) &&
            command->options[i].value)
            status = es_option_set(target, &command->options[i],
                                   command->options[i].value,
                                   command->options[i].name);
    return status;
}

bool es_options_has(const es_command *command, const bool *given,
                    const char *name)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (es_command_takes(command, &command->options[i]) &&
            strcmp(command->options[i].name, name) == 0)
            return given[i];
    return false;
}
