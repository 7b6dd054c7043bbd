/** Text of unknown origin on a stream. */
#ifndef ES_PRINT_H
#define ES_PRINT_H

#include "analyzer/base/text.h"
#include <stdio.h>

/** es_text_escape to a stream; prints nothing if memory is out. */
void es_print_escaped(FILE *out, const char *text, es_escape kind);

/** "entropy-scan: TEXT" and a line end on standard error, safe for a
 *  terminal. */
void es_print_note(const char *fmt, ...) ES_PRINTF(1, 2);

#endif
