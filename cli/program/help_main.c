/* entropy-scan help */
#include "cli/program/command.h"

const es_command es_help_command = {
    .name = "entropy-scan help",
    .synopsis = ES_HELP_SYNOPSIS,
    .summary = ES_HELP_SUMMARY,
    .options = es_help_options,
    .n_options = ES_N_HELP_OPTIONS,
};

int es_help_main(int argc, char **argv)
{
    return es_command_exit(es_program_help(stdout, &es_scan_program,
                                           &es_help_command, argc, argv,
                                           es_terminal_width()));
}
