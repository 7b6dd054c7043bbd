/*
 * Prints the help texts of --help and the manual page, both from the tables of
 * options. Also implements the verb "help", which prints them and the
 * completion scripts.
 */
#include "analyzer/base/help.h"

#include "analyzer/base/completions.h"
#include "analyzer/base/manual.h"
#include "analyzer/base/text.h"

#include <string.h>

/* --- one command ----------------------------------------------------------*/

void es_help_print_wrapped(FILE *out, const char *text, int indent, int width)
{
    int column = indent;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > indent && column + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, (size_t)n, out);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void es_options_print_help(FILE *out, const es_command *command, int width,
                           bool all)
{
    enum { INDENT = 30 };
    char names[128], sentence[512];
    fprintf(out, "%s - %s\n\nusage: %s %s\n", command->name, command->summary,
            command->name, command->synopsis);
    if (command->n_options)
        fputc('\n', out);
    for (size_t i = 0; i < command->n_options; i++) {
        const es_option *option = &command->options[i];
        if (!es_command_shows(command, option))
            continue;
        es_option_print_names(names, sizeof names, option);
        es_option_print_sentence(sentence, sizeof sentence, command, option);
        int printed = fprintf(out, "  %s", names);
        fprintf(out, printed < INDENT ? "%*s" : "\n%*s",
                printed < INDENT ? INDENT - printed : INDENT, "");
        es_help_print_wrapped(out, sentence, INDENT, width < 40 ? 40 : width);
    }
    if (command->details)
        fprintf(out, "\n%s\n", command->details);
    if (command->further && all)
        fprintf(out, "\n%s\n", command->further);
    else if (command->further)
        fprintf(out, "\n%s: see %.*shelp %s --all\n", command->further_about,
                (int)(es_command_verb(command) - command->name), command->name,
                es_command_verb(command));
}

/* --- the program ----------------------------------------------------------*/

const es_command *es_program_find(const es_program *program, const char *verb)
{
    for (size_t i = 1; i < program->n; i++)
        if (strcmp(verb, es_command_verb(program->commands[i])) == 0)
            return program->commands[i];
    return NULL;
}

const char *es_program_nearest(const es_program *program, const char *word)
{
    const char *nearest = NULL;
    size_t least = 3;
    for (size_t i = 1; i < program->n; i++) {
        const char *verb = es_command_verb(program->commands[i]);
        const size_t d = es_word_distance(word, strlen(word), verb);
        if (d < least && d < strlen(word)) {
            least = d;
            nearest = verb;
        }
    }
    return nearest;
}

int es_program_run(const es_program *program, int argc, char **argv)
{
    const es_command *verb =
        argc > 1 ? es_program_find(program, argv[1]) : NULL;
    return verb ? verb->main(argc - 1, argv + 1)
                : program->commands[0]->main(argc, argv);
}

void es_program_print_help(FILE *out, const es_program *program,
                           const es_command *command, int width, bool all)
{
    es_options_print_help(out, command, width, all);
    if (command != program->commands[0] || program->n < 2)
        return;
    fputs("\nverbs:\n", out);
    for (size_t i = 1; i < program->n; i++)
        fprintf(out, "  %-28s%s\n", es_command_verb(program->commands[i]),
                program->commands[i]->summary);
}

/* --- the verb help --------------------------------------------------------*/

typedef struct arguments {
    const char *verb; /* verb whose help is printed; NULL for the program's
                         own help */
    bool man, help, all;
    const char *completion; /* name of a shell; NULL if not given */
} arguments;

static es_status take_shell(void *field, const es_option *option,
                            const char *value, const char *where)
{
    char known[64];
    es_text list = es_text_begin(known, sizeof known);
    (void)option;
    *(const char **)field = value ? value : es_shells[0];
    for (int i = 0; es_shells[i]; i++) {
        if (strcmp(*(const char **)field, es_shells[i]) == 0)
            return ES_OK;
        es_text_append(&list, i ? ", %s" : "%s", es_shells[i]);
    }
    return es_fail(ES_EUSAGE, "%s '%.40s': expected one of %s", where, value,
                   known);
}

static es_status take_verb(void *field, const es_option *option,
                           const char *value, const char *where)
{
    const char **verb = field;
    (void)option, (void)where;
    if (*verb)
        return es_fail(ES_EUSAGE, "help takes a single verb");
    *verb = value;
    return ES_OK;
}

const es_option es_help_options[ES_N_HELP_OPTIONS] = {
    {.name = NULL, ES_OPT_CALL(arguments, verb, take_verb)},
    {"man", 0, NULL,
     "print the manual page (roff), of a verb or of the program",
     ES_OPT_FLAG(arguments, man)},
    {"all", 0, NULL, "print the complete help of a verb, as in its manual page",
     ES_OPT_FLAG(arguments, all)},
    {"completion", 0, "[SHELL]",
     "print the completions for bash, zsh or fish (bash)",
     ES_OPT_CALL(arguments, completion, take_shell)},
    {"help", 'h', NULL, "print this and exit", ES_OPT_FLAG(arguments, help)},
};

static es_status no_verb(const es_program *program, const char *name)
{
    char names[256];
    es_text verbs = es_text_begin(names, sizeof names);
    for (size_t i = 1; i < program->n; i++)
        es_text_append(&verbs, "%s%s", i > 1 ? ", " : "",
                       es_command_verb(program->commands[i]));
    return es_fail(ES_EUSAGE, "%s: unknown verb: expected one of %s", name,
                   names);
}

es_status es_program_help(FILE *out, const es_program *program,
                          const es_command *help, int argc, char **argv,
                          int width)
{
    arguments given = {.verb = NULL};
    const es_command *command = program->commands[0];
    es_status status = es_options_parse(&given, NULL, help, argc, argv);
    if (status != ES_OK)
        return status;
    if (given.verb && program->topic &&
        strcmp(given.verb, program->topic->name) == 0 && !given.completion &&
        !given.help) {
        program->topic->print(out, given.man);
        return ES_OK;
    }
    if (given.verb && !(command = es_program_find(program, given.verb)))
        return no_verb(program, given.verb);
    if (given.man + !!given.completion + given.help + given.all > 1 ||
        (given.verb && (given.completion || given.help)))
        return es_fail(ES_EUSAGE, "give only one of --man, --all, "
                                  "--completion and --help: only --man and "
                                  "--all take a verb");
    if (given.man)
        es_manual_print(out, program, command);
    else if (given.completion)
        es_program_print_completions(out, program, given.completion);
    else
        es_program_print_help(out, program, given.help ? help : command, width,
                              given.all);
    return ES_OK;
}
