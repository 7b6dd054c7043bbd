/* Records the calls of the import parsers as text, with one line per call, such
 * as "L2 H3", "head:train:entropy" or "0@0 1 2 ...". The texts of several
 * parses are appended to each other. */
#ifndef ES_TESTS_SUPPORT_IMPORT_CALLS_H
#define ES_TESTS_SUPPORT_IMPORT_CALLS_H

#include "cli/exchange/import.h"

#include <stdio.h>

extern char calls_heard[1 << 16];
/* the sink of the calls; a test may replace its functions */
extern es_import_sink calls_sink;
extern es_import_options calls_options;
extern es_import_report calls_report;

es_status calls_of_stream(FILE *stream); /* parses the stream and closes it */
es_status calls_of_bytes(const void *bytes, size_t n);

void assert_calls(const char *text, const char *calls);
void assert_refused(const char *text, const char *message);

#endif
