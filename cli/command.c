#include "cli/command.h"

#include "cli/print.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const es_verb es_scan_verb = {&es_scan_command, es_scan_main};

static const es_verb import_verb = {&es_import_command, es_import_main};
static const es_verb export_verb = {&es_export_command, es_export_main};
static const es_verb merge_verb = {&es_merge_command, es_merge_main};
static const es_verb help_verb = {&es_help_command, es_help_main};

const es_verb *const es_verbs[] = {&import_verb, &export_verb, &merge_verb,
                                   &help_verb};
const size_t es_n_verbs = sizeof es_verbs / sizeof es_verbs[0];

const char *es_verb_name(const es_verb *verb)
{
    const char *blank = strchr(verb->command->name, ' ');
    return blank ? blank + 1 : "";
}

const es_verb *es_verb_find(const char *name)
{
    for (size_t i = 0; i < es_n_verbs; i++)
        if (strcmp(name, es_verb_name(es_verbs[i])) == 0)
            return es_verbs[i];
    return NULL;
}

static int terminal_width(void)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return known ? size.ws_col : 80;
}

es_status es_command_help(const es_command *command)
{
    es_options_print_help(stdout, command, terminal_width());
    if (command == es_scan_verb.command) {
        fputs("\nverbs:\n", stdout);
        for (size_t i = 0; i < es_n_verbs; i++)
            printf("  %-28s%s\n", es_verb_name(es_verbs[i]),
                   es_verbs[i]->command->summary);
    }
    return ES_DONE;
}

int es_command_exit(es_status status)
{
    if (status < 0)
        es_print_note("%s", es_message());
    return es_exit_code(status);
}

es_status es_command_phase(es_phase_choice *out, const char *text)
{
    if (strcmp(text, "train") != 0 && strcmp(text, "eval") != 0)
        return es_fail(ES_EUSAGE, "--phase '%.40s': train or eval", text);
    *out = text[0] == 't' ? ES_PHASE_ONLY_TRAIN : ES_PHASE_ONLY_EVAL;
    return ES_OK;
}

es_status es_command_one_file(const char **to, const char *value)
{
    if (*to)
        return es_fail(ES_EUSAGE, "%s, %s: one file at a time", *to, value);
    *to = value;
    return ES_OK;
}
