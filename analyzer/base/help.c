#include "analyzer/base/help.h"

#include <string.h>

enum { MAN, COMPLETION, HELP };

const es_option es_help_options[ES_N_HELP_OPTIONS] = {
    [MAN] = {"man", 0, NULL, "print the body of the manual page (roff)"},
    [COMPLETION] = {"completion", 0, NULL, "print the completions for bash"},
    [HELP] = {"help", 'h', NULL, "print this and exit"},
};
const char *es_command_verb(const es_command *command)
{
    const char *blank = strchr(command->name, ' ');
    return blank ? blank + 1 : "";
}

const es_command *es_program_find(const es_program *program, const char *verb)
{
    for (size_t i = 1; i < program->n; i++)
        if (strcmp(verb, es_command_verb(program->commands[i])) == 0)
            return program->commands[i];
    return NULL;
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

/* "_entropy_scan" of "entropy-scan". */
static void function_name(char *out, size_t size, const char *program)
{
    snprintf(out, size, "_%s", program);
    for (; *out; out++)
        if (*out == '-')
            *out = '_';
}

void es_program_print_completions(FILE *out, const es_program *program)
{
    const char *name = program->commands[0]->name;
    char function[64];
    function_name(function, sizeof function, name);
    fprintf(out,
            "%s()\n{\n"
            "    local words= word=${COMP_WORDS[COMP_CWORD]} "
            "verb=${COMP_WORDS[1]}\n"
            "    local verbs='",
            function);
    for (size_t i = 1; i < program->n; i++)
        fprintf(out, "%s%s", i > 1 ? " " : "",
                es_command_verb(program->commands[i]));
    fputs("'\n"
          "    [[ $COMP_CWORD -gt 1 && \" $verbs \" == *\" $verb \"* ]] || "
          "verb=\n"
          "    case $verb in\n",
          out);
    for (size_t i = 0; i < program->n; i++)
        es_options_print_completion(out, program->commands[i]);
    fprintf(out,
            "    esac\n"
            "    [[ $COMP_CWORD -eq 1 || $verb == help ]] && "
            "words+=\" $verbs\"\n"
            "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
            "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
            "}\n"
            "complete -o default -F %s %s\n",
            function, name);
}

/* --- the verb ------------------------------------------------------------- */

typedef struct arguments {
    const es_program *program;
    const es_command *verb; /* NULL: the program */
    bool man, completion, help;
} arguments;

static es_status no_verb(const es_program *program, const char *name)
{
    char verbs[256] = "";
    for (size_t i = 1; i < program->n; i++) {
        size_t n = strlen(verbs);
        snprintf(verbs + n, sizeof verbs - n, "%s%s", i > 1 ? ", " : "",
                 es_command_verb(program->commands[i]));
    }
    return es_fail(ES_EUSAGE, "%s: no such verb: there are %s", name, verbs);
}

static es_status take(void *user, int option, const char *value)
{
    arguments *to = user;
    switch (option) {
    case ES_OPTION_ARGUMENT:
        if (to->verb)
            return es_fail(ES_EUSAGE, "help says one thing at a time");
        to->verb = es_program_find(to->program, value);
        return to->verb ? ES_OK : no_verb(to->program, value);
    case MAN:
        to->man = true;
        return ES_OK;
    case COMPLETION:
        to->completion = true;
        return ES_OK;
    default:
        to->help = true;
        return ES_OK;
    }
}

es_status es_program_help(FILE *out, const es_program *program,
                          const es_command *help, int argc, char **argv,
                          int width)
{
    arguments given = {.program = program};
    es_status status = es_options_parse(help, argc, argv, take, &given);
    if (status != ES_OK)
        return status;
    if (given.man + given.completion + given.help + !!given.verb > 1)
        return es_fail(ES_EUSAGE, "--man, --completion and a verb exclude "
                                  "each other");
    if (given.man)
        es_program_print_manual(out, program);
    else if (given.completion)
        es_program_print_completions(out, program);
    else if (given.help)
        es_program_print_help(out, program, help, width);
    else
        es_program_print_help(out, program,
                              given.verb ? given.verb : program->commands[0],
                              width);
    return ES_OK;
}
