/** The verbs of entropy-scan, and what all of them do alike. */
#ifndef ES_COMMAND_H
#define ES_COMMAND_H

#include "analyzer/base/help.h"
#include "cli/runs/summary.h"

/** Some of several inputs failed, the rest was done. The other exit codes are
 *  es_exit_code's, and 1: --check found something. */
#define ES_EXIT_SOME_FAILED 4

/** argv[0] is the verb, or the program. Returns the process's exit code; the
 *  messages have been printed. */
typedef int es_verb_main(int argc, char **argv);

extern const es_program es_scan_program;

/** What a verb of that name does; NULL if there is none. */
es_verb_main *es_verb_find(const char *name);

/** Columns of standard output; 80 where it is no terminal. */
int es_terminal_width(void);

/** The last line of every option table. */
#define ES_HELP_OPTION                                                         \
    {                                                                          \
        "help", 'h', NULL, "print this and exit"                               \
    }

/** Prints the command's help. Returns ES_DONE: parsing has nothing more to do,
 *  and the exit code is 0. */
es_status es_command_help(const es_command *command);

/** Prints the message of a failure; returns the exit code. */
int es_command_exit(es_status status);

/** train or eval. ES_OK or ES_EUSAGE. */
es_status es_command_phase(es_phase_choice *out, const char *text) ES_MUST_USE;

/** The argument of a verb that takes one file. ES_OK; ES_EUSAGE if *to has
 *  one already. */
es_status es_command_one_file(const char **to, const char *value) ES_MUST_USE;

es_verb_main es_import_main, es_export_main, es_merge_main, es_report_main,
    es_rules_main, es_watch_main, es_sweep_main, es_help_main, es_scan_main;
extern const es_command es_import_command, es_export_command, es_merge_command,
    es_report_command, es_rules_command, es_watch_command, es_sweep_command,
    es_help_command, es_scan_command;

#endif
