/** What the verbs of a program have in common: help, manual, completions. */
#ifndef ES_HELP_H
#define ES_HELP_H

#include "analyzer/base/options.h"

/** A verb by its name; NULL if there is none. */
const es_command *es_program_find(const es_program *program, const char *verb);

/** The verb whose name is most like the word; NULL if none is alike. */
const char *es_program_nearest(const es_program *program, const char *word);

/** Runs the command that the first word names, or that without a verb, on the
 *  words from its own name on. Returns the exit code. */
int es_program_run(const es_program *program, int argc, char **argv);

/** Words of `text` from column `indent` on, where the line is already, in lines
 *  of `width` columns. */
void es_help_print_wrapped(FILE *out, const char *text, int indent, int width);

/** The --help text of one command. `width` columns, at least 40. */
void es_options_print_help(FILE *out, const es_command *command, int width);

/** The --help text of one of its commands, `width` columns; commands[0] lists
 *  the verbs too. */
void es_program_print_help(FILE *out, const es_program *program,
                           const es_command *command, int width);

/** The options of a verb "help", for its es_command. */
#define ES_N_HELP_OPTIONS 4
extern const es_option es_help_options[ES_N_HELP_OPTIONS];
#define ES_HELP_SYNOPSIS "[VERB]"
#define ES_HELP_SUMMARY "say what a verb does"

/**
 * The verb "help" itself: help [VERB|TOPIC] [--man], help --completion=SHELL.
 *
 *   help  the command whose options are es_help_options
 *
 * ES_OK, ES_EUSAGE.
 */
es_status es_program_help(FILE *out, const es_program *program,
                          const es_command *help, int argc, char **argv,
                          int width) ES_MUST_USE;

#endif
