/** Manual pages, from the tables of options. */
#ifndef ES_MANUAL_H
#define ES_MANUAL_H

#include "analyzer/base/options.h"

/** The page of one of the program's commands, in section 1 (roff): that of
 *  commands[0] is the program's, and lists the verbs. */
void es_manual_print(FILE *out, const es_program *program,
                     const es_command *command);

/** Text in roff: no line begins with a dot, a dash is a minus. */
void es_manual_text(FILE *out, const char *text);

/** "entropy-scan-import": what the page is called. */
void es_manual_name(char *out, size_t size, const es_command *command);

#endif
