/** Prints completion scripts for shells from the tables of options. */
#ifndef ES_COMPLETIONS_H
#define ES_COMPLETIONS_H

#include "analyzer/base/options.h"

/** The supported shells: "bash", "zsh", "fish", NULL. */
extern const char *const es_shells[];

/**
 * Prints the completion script for one of es_shells. Scripts for bash and fish
 * are sourced; the one for zsh is a function "_PROGRAM" for $fpath.
 */
void es_program_print_completions(FILE *out, const es_program *program,
                                  const char *shell);

/**
 * Prints, for bash, one branch of a `case` over the verb (the empty string for
 * a program without a verb). The branch sets the shell variable `words` to the
 * options.
 */
void es_options_print_completion(FILE *out, const es_command *command);

#endif
