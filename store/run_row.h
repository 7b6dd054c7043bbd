/** A run in one row, for plain SQL: no BLOB has to be read. */
#ifndef ES_RUN_ROW_H
#define ES_RUN_ROW_H

#include "analyzer/flags/bands.h"
#include "store/writer.h"

/** What makes the table `summary`. */
extern const char es_run_row_sql[];

/** A float that was not recorded is es_missing(). */
typedef struct es_run_row {
    int64_t step; /* of the numbers; or ES_UNKNOWN */
    float loss, ppl, eval_loss, eval_ppl;
    double ceiling, largest; /* nats; NaN: unknown */
    es_bands bands;          /* of the ceiling; n_heads 0: none */
    es_severity severity;    /* that stands */
    const char *flags;       /* that stand, in words; "ok" */
} es_run_row;

/**
 * Puts the row of a run into the table `summary`, which it makes where it is
 * not there: a fifth table, which readers of run files leave alone. A number
 * that was not recorded is NULL; one that is not finite is the text 'NaN',
 * 'inf' or '-inf'; so `WHERE eval_ppl < 20` finds neither.
 *
 *   uuid  of a run of the file
 *
 * ES_OK; ES_ENOTFOUND: no such run; ES_EIO, ES_ELOCKED.
 */
es_status es_writer_run_row(es_writer *writer, const char *uuid,
                            const es_run_row *row) ES_MUST_USE;

#endif
