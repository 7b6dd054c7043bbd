/** Prints runs, one row per run, as an aligned table or as CSV. */
#ifndef ES_TABLE_H
#define ES_TABLE_H

#include "cli/output/grid.h"
#include "cli/runs/summary.h"

typedef struct es_table es_table;

es_status es_table_new(es_table **out,
                       const es_table_options *options) ES_MUST_USE;

/** Adds a row with the text of the run's fields. The summary's m, the largest
 *  entropy and upper edge of the bands, must be final. The table keeps no
 *  pointer to the summary. */
es_status es_table_add(es_table *table,
                       const es_run_summary *summary) ES_MUST_USE;

/** Prints the aligned rows, followed by a line with m, the largest entropy and
 *  upper edge of the bands, and with the policy that chose m. Prints nothing if
 *  no run was added. The caller checks the stream for errors. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_table_print(es_table *table, FILE *stream) ES_MUST_USE;

void es_table_free(es_table *table); /* table may be NULL */

/* Prints the header of the CSV output, which has one row per run. A missing
   number is an empty field; other values that are not finite are written as
   NaN, inf and -inf. The caller checks the stream for errors. */

void es_csv_header(FILE *stream);
/** Prints the CSV row of a run. Returns ES_OK or ES_ENOMEM. */
es_status es_csv_run(FILE *stream, const es_run_summary *summary) ES_MUST_USE;

#endif
