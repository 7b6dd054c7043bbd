#include "cli/program/command.h"

#include "cli/output/print.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* In the order that help names them; the first has no verb. */
static const es_command *const commands[] = {
    &es_scan_command,  &es_import_command, &es_export_command,
    &es_merge_command, &es_report_command, &es_rules_command,
    &es_watch_command, &es_sweep_command,  &es_help_command};
static es_verb_main *const mains[] = {
    es_scan_main,  es_import_main, es_export_main,
    es_merge_main, es_report_main, es_rules_main,
    es_watch_main, es_sweep_main,  es_help_main};

const es_program es_scan_program = {commands,
                                    sizeof commands / sizeof *commands};

es_verb_main *es_verb_find(const char *name)
{
    for (size_t i = 1; i < es_scan_program.n; i++)
        if (strcmp(name, es_command_verb(commands[i])) == 0)
            return mains[i];
    return NULL;
}

int es_terminal_width(void)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return known ? size.ws_col : 80;
}

es_status es_command_help(const es_command *command)
{
    es_program_print_help(stdout, &es_scan_program, command,
                          es_terminal_width());
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
