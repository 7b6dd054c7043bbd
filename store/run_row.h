/** A summary of a run in one row, for plain SQL without reading any BLOB. */
#ifndef ES_RUN_ROW_H
#define ES_RUN_ROW_H

#include "analyzer/flags/bands.h"
#include "store/writer.h"

/** The SQL that creates the table `summary`. */
extern const char es_run_row_sql[];

/** The numbers of a run. A float that was not recorded is es_missing(). */
typedef struct es_run_row {
    int64_t step; /* step of the numbers; or ES_UNKNOWN */
    float loss, ppl, eval_loss, eval_ppl;
    double ceiling, largest; /* nats; NaN: unknown */
    es_bands bands; /* bands relative to the ceiling; n_heads is 0 if there are
                       none */
    es_severity severity; /* highest severity of the current flags */
    const char *flags;    /* the current flags in words, or "ok" */
} es_run_row;

/**
 * Writes the row of a run into the table `summary`, and creates the table if it
 * does not exist: a fifth table, which readers of run files ignore. A number
 * that was not recorded is NULL; one that is not finite is the text 'NaN',
 * 'inf' or '-inf'; `WHERE eval_ppl < 20` therefore selects neither.
 *
 *   uuid  of a run in the file
 *
 * ES_OK; ES_ENOTFOUND: no such run; ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run_row(es_writer *writer, const char *uuid,
                            const es_run_row *row) ES_MUST_USE;

#endif
