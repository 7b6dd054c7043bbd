/** Prints manual pages from the tables of options. */
#ifndef ES_MANUAL_H
#define ES_MANUAL_H

#include "analyzer/base/options.h"

/**
 * Prints the manual page (roff, section 1) of one of the program's commands.
 * The page of commands[0] is the program's page and lists the verbs.
 */
void es_manual_print(FILE *out, const es_program *program,
                     const es_command *command);

/**
 * Prints text as roff: escapes a dot or quote at the start of a line, dashes
 * and backslashes.
 */
void es_manual_text(FILE *out, const char *text);

/** Writes the name of the command's page: "entropy-scan-import". */
void es_manual_name(char *out, size_t size, const es_command *command);

#endif
