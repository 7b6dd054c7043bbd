/** The table of runs: one line a run, for people. */
#ifndef ES_TABLE_H
#define ES_TABLE_H

#include "cli/output/grid.h"
#include "cli/runs/summary.h"
#include <stdio.h>

/** What suits a stream: its terminal's width, colours only on a terminal and
 *  never with NO_COLOR or TERM=dumb. */
void es_table_options_for(es_table_options *out, FILE *stream);

typedef struct es_table es_table;

es_status es_table_new(es_table **out,
                       const es_table_options *options) ES_MUST_USE;

/** One line. Keeps its text, not the summary, whose m must be final. */
es_status es_table_add(es_table *table,
                       const es_run_summary *summary) ES_MUST_USE;

/** Prints the lines aligned, and m with its policy under them. The caller
 *  checks the stream for errors. Nothing if no run was added. */
void es_table_print(const es_table *table, FILE *stream);

/** The line that says what m is: its value where all runs share it, its policy,
 *  the unit, and the series if that is not entropy. Any text: it is escaped. */
void es_table_print_max(FILE *stream, es_max_policy policy, double m,
                        const char *unit, const char *series);

void es_table_free(es_table *table); /* NULL is fine */

#endif
