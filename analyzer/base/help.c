/*
 * The texts for users that are made of the tables of options: --help, the
 * manual page; and the verb "help", which prints them and completions.
 */
#include "analyzer/base/help.h"

#include "analyzer/base/completions.h"
#include "analyzer/base/text.h"

#include <string.h>

/* --- one command ----------------------------------------------------------*/

/* "-o, --output=FILE", "    --heatmap[=FILE]" */
static void print_names(char *out, size_t size, const es_option *option)
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

/* Words of `text` from column `indent` on, lines of `width` at most. */
static void print_wrapped(FILE *out, const char *text, int indent, int width)
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

/* The help of an option, with its default. */
static void print_sentence(char *out, size_t size, const es_command *command,
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

void es_options_print_help(FILE *out, const es_command *command, int width)
{
    enum { INDENT = 30 };
    char names[128], sentence[512];
    fprintf(out, "%s - %s\n\nusage: %s %s\n", command->name, command->summary,
            command->name, command->synopsis);
    if (command->n_options)
        fputc('\n', out);
    for (size_t i = 0; i < command->n_options; i++) {
        const es_option *option = &command->options[i];
        if (!es_command_takes(command, option))
            continue;
        print_names(names, sizeof names, option);
        print_sentence(sentence, sizeof sentence, command, option);
        int printed = fprintf(out, "  %s", names);
        fprintf(out, printed < INDENT ? "%*s" : "\n%*s",
                printed < INDENT ? INDENT - printed : INDENT, "");
        print_wrapped(out, sentence, INDENT, width < 40 ? 40 : width);
    }
    if (command->details)
        fprintf(out, "\n%s\n", command->details);
}

/* Text in roff: no line may begin with a dot, a dash is a minus. */
static void print_roff(FILE *out, const char *text)
{
    for (bool start = true; *text; start = *text == '\n', text++) {
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '-' || *text == '\\')
            fputs(*text == '-' ? "\\-" : "\\e", out);
        else
            fputc(*text, out);
    }
}

void es_options_print_man(FILE *out, const es_command *command)
{
    fputs(".SS ", out);
    print_roff(out, command->name);
    fputc(' ', out);
    print_roff(out, command->synopsis);
    fputc('\n', out);
    print_roff(out, command->summary);
    fputs(".\n", out);
    for (size_t i = 0; i < command->n_options; i++) {
        char names[128], sentence[512];
        const es_option *option = &command->options[i];
        if (!es_command_takes(command, option))
            continue;
        print_names(names, sizeof names, option);
        print_sentence(sentence, sizeof sentence, command, option);
        fputs(".TP\n.B ", out);
        print_roff(out, names + strspn(names, " "));
        fputc('\n', out);
        print_roff(out, sentence);
        fputs(".\n", out);
    }
    if (command->details) {
        fputs(".PP\n", out);
        print_roff(out, command->details);
        fputc('\n', out);
    }
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
                           const es_command *command, int width)
{
    es_options_print_help(out, command, width);
    if (command != program->commands[0] || program->n < 2)
        return;
    fputs("\nverbs:\n", out);
    for (size_t i = 1; i < program->n; i++)
        fprintf(out, "  %-28s%s\n", es_command_verb(program->commands[i]),
                program->commands[i]->summary);
}

void es_program_print_manual(FILE *out, const es_program *program)
{
    for (size_t i = 0; i < program->n; i++)
        es_options_print_man(out, program->commands[i]);
}

/* --- the verb help --------------------------------------------------------*/

typedef struct arguments {
    const char *verb; /* NULL: the program */
    bool man, help;
    const char *completion; /* a shell; NULL: none */
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
    return es_fail(ES_EUSAGE, "%s '%.40s': there are %s", where, value, known);
}

static es_status take_verb(void *field, const es_option *option,
                           const char *value, const char *where)
{
    const char **verb = field;
    (void)option, (void)where;
    if (*verb)
        return es_fail(ES_EUSAGE, "help says one thing at a time");
    *verb = value;
    return ES_OK;
}

const es_option es_help_options[ES_N_HELP_OPTIONS] = {
    {.name = NULL, ES_OPT_CALL(arguments, verb, take_verb)},
    {"man", 0, NULL, "print the body of the manual page (roff)",
     ES_OPT_FLAG(arguments, man)},
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
    return es_fail(ES_EUSAGE, "%s: no such verb: there are %s", name, names);
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
    if (given.verb && !(command = es_program_find(program, given.verb)))
        return no_verb(program, given.verb);
    if (given.man + !!given.completion + given.help + !!given.verb > 1)
        return es_fail(ES_EUSAGE, "--man, --completion and a verb exclude "
                                  "each other");
    if (given.man)
        es_program_print_manual(out, program);
    else if (given.completion)
        es_program_print_completions(out, program, given.completion);
    else
        es_program_print_help(out, program, given.help ? help : command, width);
    return ES_OK;
}
