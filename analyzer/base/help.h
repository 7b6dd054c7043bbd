/**
 * Dispatches to the verbs of a program, prints their --help texts and
 * implements the verb "help".
 */
#ifndef ES_HELP_H
#define ES_HELP_H

#include "analyzer/base/options.h"

/**
 * Returns the command whose verb is `verb`; NULL if the program has no such
 * verb.
 */
const es_command *es_program_find(const es_program *program, const char *verb);

/**
 * Returns the verb whose name is most similar to `word`; NULL if none is
 * similar.
 */
const char *es_program_nearest(const es_program *program, const char *word);

/**
 * Runs the command whose verb is argv[1] and passes argv from the verb on. If
 * argv[1] is not a verb, runs commands[0] with all of argv. Returns the exit
 * code.
 */
int es_program_run(const es_program *program, int argc, char **argv);

/**
 * Prints the words of `text` and a newline, breaking lines at `width` columns
 * and indenting them by `indent`. The current line must already be at column
 * `indent`.
 */
void es_help_print_wrapped(FILE *out, const char *text, int indent, int width);

/**
 * Prints the --help text of one command in `width` columns, at least 40.
 *
 *   all  true: also print command->further; false: name the command that prints
 *        it
 */
void es_options_print_help(FILE *out, const es_command *command, int width,
                           bool all);

/**
 * Prints the --help text of one of the program's commands in `width` columns.
 * For commands[0] it also lists the verbs.
 */
void es_program_print_help(FILE *out, const es_program *program,
                           const es_command *command, int width, bool all);

/** Options of the verb "help", for the es_command of each program. */
#define ES_N_HELP_OPTIONS 5
extern const es_option es_help_options[ES_N_HELP_OPTIONS];
#define ES_HELP_SYNOPSIS "[VERB]"
#define ES_HELP_SUMMARY "say what a verb does"

/**
 * Runs the verb "help": help [VERB|TOPIC] [--man|--all], help
 * --completion=SHELL.
 *
 *   help  the command whose options are es_help_options
 *
 * Returns ES_OK or ES_EUSAGE.
 */
es_status es_program_help(FILE *out, const es_program *program,
                          const es_command *help, int argc, char **argv,
                          int width) ES_MUST_USE;

#endif
