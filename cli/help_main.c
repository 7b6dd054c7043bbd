/* entropy-scan help */
#include "cli/command.h"

#include <string.h>

enum { MAN, COMPLETION, HELP };

static const es_option options[] = {
    [MAN] = {"man", 0, NULL, "print the body of the manual page (roff)"},
    [COMPLETION] = {"completion", 0, NULL, "print the completions for bash"},
    [HELP] = ES_HELP_OPTION,
};

const es_command es_help_command = {
    .name = "entropy-scan help",
    .synopsis = "[VERB]",
    .summary = "say what a verb does",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

typedef struct arguments {
    const es_verb *verb; /* NULL: the program */
    bool man, completion;
} arguments;

static es_status no_verb(const char *name)
{
    char verbs[256] = "";
    for (size_t i = 0; i < es_n_verbs; i++) {
        size_t n = strlen(verbs);
        snprintf(verbs + n, sizeof verbs - n, "%s%s", i ? ", " : "",
                 es_verb_name(es_verbs[i]));
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
        to->verb = es_verb_find(value);
        return to->verb ? ES_OK : no_verb(value);
    case MAN:
        to->man = true;
        return ES_OK;
    case COMPLETION:
        to->completion = true;
        return ES_OK;
    default:
        return es_command_help(&es_help_command);
    }
}

/* The sections after NAME: who installs it writes the title. */
static void print_man(void)
{
    es_options_print_man(stdout, es_scan_verb.command);
    for (size_t i = 0; i < es_n_verbs; i++)
        es_options_print_man(stdout, es_verbs[i]->command);
}

static void print_completion(void)
{
    fputs("_entropy_scan()\n{\n"
          "    local words= word=${COMP_WORDS[COMP_CWORD]} "
          "verb=${COMP_WORDS[1]}\n"
          "    local verbs='",
          stdout);
    for (size_t i = 0; i < es_n_verbs; i++)
        printf("%s%s", i ? " " : "", es_verb_name(es_verbs[i]));
    fputs("'\n"
          "    [[ $COMP_CWORD -gt 1 && \" $verbs \" == *\" $verb \"* ]] || "
          "verb=\n"
          "    case $verb in\n",
          stdout);
    es_options_print_completion(stdout, es_scan_verb.command);
    for (size_t i = 0; i < es_n_verbs; i++)
        es_options_print_completion(stdout, es_verbs[i]->command);
    fputs("    esac\n"
          "    [[ $COMP_CWORD -eq 1 || $verb == help ]] && "
          "words+=\" $verbs\"\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "}\n"
          "complete -o default -F _entropy_scan entropy-scan\n",
          stdout);
}

int es_help_main(int argc, char **argv)
{
    arguments given = {0};
    es_status status =
        es_options_parse(&es_help_command, argc, argv, take, &given);
    if (status == ES_OK && given.man + given.completion + !!given.verb > 1)
        status = es_fail(ES_EUSAGE, "--man, --completion and a verb exclude "
                                    "each other");
    if (status != ES_OK)
        return es_command_exit(status);
    const es_verb *verb = given.verb ? given.verb : &es_scan_verb;
    if (given.man)
        print_man();
    else if (given.completion)
        print_completion();
    else
        es_command_help(verb->command);
    return 0;
}
