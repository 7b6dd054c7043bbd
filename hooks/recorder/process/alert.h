/**
 * Judges the samples of the train phase by the built-in rules while the
 * recorder writes them, and stores the findings as events of the run.
 *
 * An event's kind is the name of the flag, and its step is the step of the
 * sample at which the flag was found. The dedupe key is
 * "alert:KIND@ONSET:SEVERITY", so that an episode is reported once for each
 * severity that it reaches, even if samples are read, written or resumed twice.
 * An event's data look like
 * {"onset":130,"value":0.75,"threshold":0.5,"layers":[9,10]}.
 */
#ifndef ES_ALERT_H
#define ES_ALERT_H

#include "analyzer/flags/flags.h"
#include "store/layers.h"
#include "store/writer.h"

/**
 * Maximum number of alert events of one recording. Readers judge the run
 * themselves to find further alerts.
 */
#define ES_ALERTS_MOST 1000

/**
 * The state of judging a recording. With a struct of zeros, nothing is judged.
 */
typedef struct es_alerts {
    es_writer *writer; /* borrowed */
    int64_t run_id;
    int n_layers;
    es_layers *layers;  /* descriptions of the layers, whose ceilings the
                           judge uses, or NULL */
    es_judge *judge;    /* NULL if nothing is judged */
    void *now, *before; /* (size bytes) state of the judge now and before the
                           transaction */
    size_t size;
    int n, n_before; /* number of events now and before the transaction */
    int64_t step;    /* step of the sample being judged */
    es_status status;
} es_alerts;

/**
 * Starts judging a run that es_writer_run has opened. The samples of a resumed
 * run before `resume_step` are read from the file, so that the judge continues
 * as if it had not been interrupted.
 *
 *   path  the run file
 *   run   description of the run, of which n_layer, n_head and ctx are used
 *
 * Returns ES_OK; ES_ENOMEM; ES_EIO or ES_EFORMAT if the file cannot be read. On
 * failure *alerts is set to zeros, and recording can continue without alerts.
 */
es_status es_alerts_open(es_alerts *alerts, const char *path, es_writer *writer,
                         int64_t run_id, const es_run_info *run,
                         int64_t resume_step) ES_MUST_USE;

/**
 * Judges a sample of the train phase with n values. Returns ES_OK or the
 * failure of es_writer_event.
 */
es_status es_alerts_push(es_alerts *alerts, es_judge_series series,
                         int64_t step, const float *values,
                         size_t n) ES_MUST_USE;

/**
 * es_alerts_keep saves the judge's state when a transaction begins;
 * es_alerts_undo restores it if the transaction fails.
 */
void es_alerts_keep(es_alerts *alerts);
void es_alerts_undo(es_alerts *alerts);

/** Evaluates the rules that need the end of the run. */
es_status es_alerts_finish(es_alerts *alerts) ES_MUST_USE;

void es_alerts_close(es_alerts *alerts);

#endif
