/*
 * Prints the completion scripts for bash, zsh and fish from the tables of
 * options. The scripts complete the names of options and verbs; zsh and fish
 * also show a description of each.
 */
#include "analyzer/base/completions.h"

#include <string.h>

const char *const es_shells[] = {"bash", "zsh", "fish", NULL};

static const char *name_of(const es_program *program)
{
    return program->commands[0]->name;
}

/* Writes the shell function's name: "_entropy_scan" for "entropy-scan". */
static void function_name(char *out, size_t size, const char *program)
{
    snprintf(out, size, "_%s", program);
    for (; *out; out++)
        if (*out == '-')
            *out = '_';
}

/* --- bash -----------------------------------------------------------------*/

void es_options_print_completion(FILE *out, const es_command *command)
{
    const char *blank = "";
    fprintf(out, "    %s) words=\"",
            strchr(command->name, ' ') ? es_command_verb(command) : "''");
    for (size_t i = 0; i < command->n_options; i++) {
        const es_option *option = &command->options[i];
        if (!es_command_shows(command, option))
            continue;
        bool has_value = option->argument && option->argument[0] != '[';
        fprintf(out, "%s--%s%s", blank, option->name, has_value ? "=" : "");
        blank = " ";
    }
    fputs("\" ;;\n", out);
}

static void print_bash(FILE *out, const es_program *program)
{
    const char *name = name_of(program);
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

/* --- options in zsh and fish ---------------------------------------------- */

/* Prints text for use within single quotes: replaces a quote by `quote` and
 * puts a backslash before each character of `special`. */
static void print_quoted(FILE *out, const char *text, const char *quote,
                         const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static bool is_optional(const es_option *option)
{
    return option->argument && option->argument[0] == '[';
}

static bool takes_file(const es_option *option)
{
    return option->argument && (strstr(option->argument, "FILE") ||
                                strstr(option->argument, "DIR"));
}

static void print_choices(FILE *out, const es_option *option)
{
    for (int i = 0; option->choices[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
}

/* --- zsh ------------------------------------------------------------------*/

static void print_zsh_help(FILE *out, const char *help)
{
    print_quoted(out, help, "'\\''", "[]\\");
}

/* Prints the name of an option's argument. Leaves out the brackets of an
   optional argument, such as "[FILE]". */
static void print_argument(FILE *out, const es_option *option)
{
    char name[64];
    const size_t n = strlen(option->argument) - 2U * is_optional(option);
    snprintf(name, sizeof name, "%.*s", (int)n,
             option->argument + is_optional(option));
    print_quoted(out, name, "'\\''", ":\\");
}

/* Prints the part of a zsh specification that follows the option's name:
   "[help]" or, if the option takes a value, "[help]:VALUE:action". */
static void print_zsh_rest(FILE *out, const es_option *option)
{
    fputc('[', out);
    print_zsh_help(out, option->help);
    fputc(']', out);
    if (option->argument) {
        fprintf(out, "%s", is_optional(option) ? "::" : ":");
        print_argument(out, option);
        fputc(':', out);
        if (option->type == ES_OPTION_CHOICE) {
            fputc('(', out);
            print_choices(out, option);
            fputc(')', out);
        } else if (takes_file(option)) {
            fputs("_files", out);
        }
    }
    fputs("' \\\n", out);
}

static void print_zsh_option(FILE *out, const es_option *option)
{
    char both[64] = "";
    if (option->letter)
        snprintf(both, sizeof both, "(-%c --%s)", option->letter, option->name);
    fprintf(out, "            '%s--%s%s", both, option->name,
            !option->argument     ? ""
            : is_optional(option) ? "=-"
                                  : "=");
    print_zsh_rest(out, option);
    if (!option->letter)
        return;
    fprintf(out, "            '%s-%c%s", both, option->letter,
            option->argument ? "+" : "");
    print_zsh_rest(out, option);
}

static void print_zsh_branch(FILE *out, const es_command *command)
{
    const char *verb = es_command_verb(command);
    fprintf(out, "    %s)\n        _arguments -s -S \\\n", *verb ? verb : "''");
    for (size_t i = 0; i < command->n_options; i++)
        if (es_command_shows(command, &command->options[i]))
            print_zsh_option(out, &command->options[i]);
    fputs("            '*:file:_files' ;;\n", out);
}

static void print_zsh(FILE *out, const es_program *program)
{
    char function[64];
    function_name(function, sizeof function, name_of(program));
    fprintf(out,
            "#compdef %s\n\n%s() {\n    local verb=\n    local -a verbs=(\n",
            name_of(program), function);
    for (size_t i = 1; i < program->n; i++) {
        fprintf(out, "        '%s:", es_command_verb(program->commands[i]));
        print_zsh_help(out, program->commands[i]->summary);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    (( CURRENT == 2 )) && _describe -t verbs verb verbs\n"
          "    (( CURRENT > 2 )) && [[ -n ${(M)verbs:#${words[2]}:*} ]] && "
          "verb=${words[2]}\n"
          "    case $verb in\n",
          out);
    for (size_t i = 0; i < program->n; i++)
        print_zsh_branch(out, program->commands[i]);
    fprintf(out, "    esac\n}\n\n%s \"$@\"\n", function);
}

/* --- fish -----------------------------------------------------------------*/

static void print_fish_text(FILE *out, const char *text)
{
    fputs(" -d '", out);
    print_quoted(out, text, "\\'", "\\");
    fputs("'\n", out);
}

/* Prints fish's option -n 'CONDITION'. The condition holds if the verb was
   given or, for the program's own options, if no verb was given. */
static void print_fish_condition(FILE *out, const es_program *program,
                                 const es_command *command)
{
    fprintf(out, "complete -c %s -n '", name_of(program));
    if (command != program->commands[0]) {
        fprintf(out, "__fish_seen_subcommand_from %s'",
                es_command_verb(command));
        return;
    }
    fputs("not __fish_seen_subcommand_from", out);
    for (size_t i = 1; i < program->n; i++)
        fprintf(out, " %s", es_command_verb(program->commands[i]));
    fputc('\'', out);
}

static void print_fish_option(FILE *out, const es_program *program,
                              const es_command *command,
                              const es_option *option)
{
    print_fish_condition(out, program, command);
    fprintf(out, " -l %s", option->name);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (option->argument && !is_optional(option))
        fputs(takes_file(option) ? " -r" : " -x", out);
    if (option->type == ES_OPTION_CHOICE) {
        fputs(" -a '", out);
        print_choices(out, option);
        fputc('\'', out);
    }
    print_fish_text(out, option->help);
}

static void print_fish(FILE *out, const es_program *program)
{
    for (size_t i = 1; i < program->n; i++) {
        fprintf(out, "complete -c %s -n __fish_use_subcommand -a %s",
                name_of(program), es_command_verb(program->commands[i]));
        print_fish_text(out, program->commands[i]->summary);
    }
    for (size_t i = 0; i < program->n; i++) {
        const es_command *command = program->commands[i];
        for (size_t k = 0; k < command->n_options; k++)
            if (es_command_shows(command, &command->options[k]))
                print_fish_option(out, program, command, &command->options[k]);
    }
}

/* --- all shells ----------------------------------------------------------- */

void es_program_print_completions(FILE *out, const es_program *program,
                                  const char *shell)
{
    if (strcmp(shell, "zsh") == 0)
        print_zsh(out, program);
    else if (strcmp(shell, "fish") == 0)
        print_fish(out, program);
    else
        print_bash(out, program);
}
