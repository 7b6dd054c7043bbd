/** Completions for shells, from the tables of options. */
#ifndef ES_COMPLETIONS_H
#define ES_COMPLETIONS_H

#include "analyzer/base/options.h"

/** "bash", "zsh", "fish", NULL. */
extern const char *const es_shells[];

/** A script for one of them: for bash and fish to be sourced, for zsh a
 *  function of $fpath, "_PROGRAM". */
void es_program_print_completions(FILE *out, const es_program *program,
                                  const char *shell);

/** Of bash, one branch of a `case` over the verb (the empty string for a
 *  program without one): sets `words` to the options. */
void es_options_print_completion(FILE *out, const es_command *command);

#endif
