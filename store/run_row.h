/**
 * Writes a summary of each run as one row of a table, so that queries in plain
 * SQL need not parse BLOBs.
 */
#ifndef ES_RUN_ROW_H
#define ES_RUN_ROW_H

#include "analyzer/heads/bands.h"
#include "store/writer.h"

/** The SQL statement that creates the table `summary`. */
extern const char es_run_row_sql[];

/** The summary of a run. A float that was not recorded is es_missing(). */
typedef struct es_run_row {
    int64_t step; /* step at which the values were recorded, or ES_UNKNOWN */
    float loss, ppl, eval_loss, eval_ppl;
    double ceiling, largest; /* ceiling of a head, and largest entropy of a
                                head, in nats; NaN if unknown */
    es_bands bands; /* number of heads in each quarter of the range from 0 to
                       the ceiling; n_heads is 0 if the run has no entropies */
    es_severity severity; /* highest severity of the current flags */
    const char *flags;    /* the current flags as text, or "ok" */
} es_run_row;

/**
 * Writes the row of a run into the table `summary`, and creates the table if it
 * does not exist. Readers of run files ignore this table. A number that was not
 * recorded is stored as NULL, and a number that is not finite as the text
 * 'NaN', 'inf' or '-inf', so that `WHERE eval_ppl < 20` selects neither.
 *
 *   uuid  uuid of a run in the file
 *
 * Returns ES_OK; ES_ENOTFOUND if there is no such run; ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run_row(es_writer *writer, const char *uuid,
                            const es_run_row *row) ES_MUST_USE;

#endif
