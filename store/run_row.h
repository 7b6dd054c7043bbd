/** Writes a summary of a run as one row, so that plain SQL need not read BLOBs.
 */
#ifndef ES_RUN_ROW_H
#define ES_RUN_ROW_H

#include "analyzer/heads/bands.h"
#include "store/writer.h"

/** The SQL that creates the table `summary`. */
extern const char es_run_row_sql[];

/** The summary of a run. A float that was not recorded is es_missing(). */
typedef struct es_run_row {
    int64_t step; /* step of the values, or ES_UNKNOWN */
    float loss, ppl, eval_loss, eval_ppl;
    double ceiling, largest; /* nats; NaN if unknown */
    es_bands bands; /* number of heads in each band of the ceiling; n_heads is 0
                       without entropies */
    es_severity severity; /* highest severity of the current flags */
    const char *flags;    /* the current flags as text, or "ok" */
} es_run_row;

/**
 * Writes the row of a run into the table `summary`, and creates the table if it
 * does not exist; readers of run files ignore this table. A number that was not
 * recorded is NULL, and one that is not finite is the text 'NaN', 'inf' or
 * '-inf', so `WHERE eval_ppl < 20` selects neither.
 *
 *   uuid  uuid of a run in the file
 *
 * Returns ES_OK; ES_ENOTFOUND: no such run; ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run_row(es_writer *writer, const char *uuid,
                            const es_run_row *row) ES_MUST_USE;

#endif
