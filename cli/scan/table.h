/** Runs, one line each: as a table for people, and as CSV. */
#ifndef ES_TABLE_H
#define ES_TABLE_H

#include "cli/output/grid.h"
#include "cli/runs/summary.h"

typedef struct es_table es_table;

es_status es_table_new(es_table **out,
                       const es_table_options *options) ES_MUST_USE;

/** One line. Keeps its text, not the summary, whose m must be final. */
es_status es_table_add(es_table *table,
                       const es_run_summary *summary) ES_MUST_USE;

/** Prints the lines aligned, and m with its policy under them. The caller
 *  checks the stream for errors. Nothing if no run was added. ES_OK or
 *  ES_ENOMEM. */
es_status es_table_print(es_table *table, FILE *stream) ES_MUST_USE;

void es_table_free(es_table *table); /* NULL is fine */

/* `--csv`: one line a run under a header that does not change. A missing number
   is an empty field; NaN, inf and -inf are spelled so. The caller checks the
   stream for errors. */

void es_csv_header(FILE *stream);
/** ES_OK or ES_ENOMEM. */
es_status es_csv_run(FILE *stream, const es_run_summary *summary) ES_MUST_USE;

#endif
