/**
 * Alerts: the recorder judges the samples of the train phase as it writes
 * them, by the built-in rules, and puts what it finds among the run's events.
 *
 * An event's kind is the flag's, its step that of the sample at which it was
 * found, its dedupe key "alert:KIND@ONSET:SEVERITY", so that an episode is
 * reported once for each severity it reaches, whatever is read, written or
 * resumed twice. Its data:
 * {"onset":130,"value":0.75,"threshold":0.5,"layers":[9,10]}.
 */
#ifndef ES_ALERT_H
#define ES_ALERT_H

#include "analyzer/flags/flags.h"
#include "store/layers.h"
#include "store/writer.h"

/** Events of one recording; what comes after is left to the readers. */
#define ES_ALERTS_MOST 1000

/** Zero: nothing is judged. */
typedef struct es_alerts {
    es_writer *writer; /* borrowed */
    int64_t run_id;
    int n_layers;
    es_layers *layers;  /* whose ceilings the judge goes by; or NULL */
    es_judge *judge;    /* NULL: nothing is judged */
    void *now, *before; /* (size) the judge, and its state to go back to */
    size_t size;
    int n, n_before; /* events */
    int64_t step;    /* of the sample being judged */
    es_status status;
} es_alerts;

/**
 * Starts judging a run that was opened by es_writer_run. What a resumed run
 * has before `resume_step` is read from the file, so that the judge goes on
 * as if it had never stopped.
 *
 *   path  the run file
 *   run   n_layer, n_head, ctx
 *
 * ES_OK; ES_ENOMEM; ES_EIO, ES_EFORMAT if the file cannot be read: es_alerts
 * is then zero, and recording can go on.
 */
es_status es_alerts_open(es_alerts *alerts, const char *path, es_writer *writer,
                         int64_t run_id, const es_run_info *run,
                         int64_t resume_step) ES_MUST_USE;

/** Judges a sample (n values) of the train phase; es_writer_event's status. */
es_status es_alerts_push(es_alerts *alerts, es_judge_series series,
                         int64_t step, const float *values,
                         size_t n) ES_MUST_USE;

/** A transaction begins; it failed: everything since is forgotten. */
void es_alerts_keep(es_alerts *alerts);
void es_alerts_undo(es_alerts *alerts);

/** The run is over: judges what only its end can show. */
es_status es_alerts_finish(es_alerts *alerts) ES_MUST_USE;

void es_alerts_close(es_alerts *alerts);

#endif
