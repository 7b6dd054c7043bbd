/** How far a run of a sweep is, read from its files. */
#ifndef ES_SWEEP_VIEW_H
#define ES_SWEEP_VIEW_H

#include "cli/alerts/rules/rules_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_sweep_stage {
    ES_SWEEP_WAITING,
    ES_SWEEP_QUEUED,      /* Slurm has it */
    ES_SWEEP_INTERRUPTED, /* it will begin again */
    ES_SWEEP_BROKEN,      /* the training itself failed: the same */
    ES_SWEEP_RUNNING,
    ES_SWEEP_FINISHED,
    ES_SWEEP_FAILED,  /* by its file: the loss is not finite, an exception */
    ES_SWEEP_STOPPED, /* on request: of the sweep's rule, of a watcher */
    ES_SWEEP_N_STAGES
} es_sweep_stage;

/** Numbers are of the last sample; text is safe to print. */
typedef struct es_sweep_view {
    const char *name; /* of the run; borrowed */
    es_sweep_stage stage;
    int64_t step, planned; /* or ES_UNKNOWN */
    float loss;            /* es_missing(): none yet */
    char bands[64];        /* heads in each quarter of the ceiling: "1/2/3/0",
                              "0/2/0/0 NaN 4" if some are not finite */
    char flags[256];       /* what stands; of a broken run why */
    bool doomed;           /* something critical stands, or a rule whose action
                              is to stop */
} es_sweep_view;

/** "waiting", "interrupted", ... */
const char *es_sweep_stage_name(es_sweep_stage stage);

/** It will not be run again. */
bool es_sweep_is_done(es_sweep_stage stage);

/**
 * Reads a run. What cannot be read is left out of the view.
 *
 *   rules  what to judge by; NULL: the default thresholds
 *
 * ES_OK, also where there is no file yet; as es_reader_open and
 * es_summary_load: of a failure that may pass, ES_EIO, ES_ENOMEM or ES_ELOCKED,
 * the view says nothing of how far the run is.
 */
es_status es_sweep_view_read(es_sweep_view *out, const char *folder,
                             const char *name,
                             const es_rules_file *rules) ES_MUST_USE;

/** The same, but ES_OK for a file that is damaged: that run begins again. */
es_status es_sweep_view_read_any(es_sweep_view *out, const char *folder,
                                 const char *name,
                                 const es_rules_file *rules) ES_MUST_USE;

/** The share of its steps that are done, 0 to 1; 0 where it is unknown. */
double es_sweep_view_share(const es_sweep_view *view);

/** "[####----]  45%  135/300": width columns; nothing known: blanks. */
void es_sweep_view_bar(char *out, size_t size, const es_sweep_view *view);

#endif
