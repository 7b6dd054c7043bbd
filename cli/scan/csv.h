/**
 * `--csv`: one line a run under a header that does not change. A missing
 * number is an empty field; NaN, inf and -inf are spelled so.
 */
#ifndef ES_CSV_H
#define ES_CSV_H

#include "cli/runs/summary.h"
#include <stdio.h>

/** The caller checks the stream for errors. */
void es_csv_header(FILE *stream);
/** ES_OK or ES_ENOMEM. */
es_status es_csv_run(FILE *stream, const es_run_summary *summary) ES_MUST_USE;

#endif
