/** The progress of a run of a sweep, read from its files. */
#ifndef ES_SWEEP_VIEW_H
#define ES_SWEEP_VIEW_H

#include "cli/alerts/rules/rules_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_sweep_stage {
    ES_SWEEP_WAITING,
    ES_SWEEP_QUEUED,      /* in Slurm's queue */
    ES_SWEEP_INTERRUPTED, /* will be run again */
    ES_SWEEP_BROKEN,      /* the training failed; will be run again */
    ES_SWEEP_RUNNING,
    ES_SWEEP_FINISHED,
    ES_SWEEP_FAILED,  /* according to its file: the loss is not finite, or an
                         exception */
    ES_SWEEP_STOPPED, /* on request of the sweep, of a watcher, or of a user */
    ES_SWEEP_N_STAGES
} es_sweep_stage;

/** Numbers are those of the last sample; texts are safe to print. */
typedef struct es_sweep_view {
    const char *name; /* name of the run; borrowed */
    es_sweep_stage stage;
    int64_t step, planned; /* ES_UNKNOWN if unknown */
    float loss;            /* es_missing() if there is none yet */
    char bands[64];        /* heads in each quarter of the ceiling: "1/2/3/0",
                              or "0/2/0/0 NaN 4" if some are not finite */
    char flags[256];       /* current flags; for a broken run, the reason */
    bool doomed;           /* has a critical flag, or a rule applies whose
                              action is to stop */
} es_sweep_view;

/** Returns "waiting", "interrupted", ... */
const char *es_sweep_stage_name(es_sweep_stage stage);

/** Returns true if the run will not be run again. */
bool es_sweep_is_done(es_sweep_stage stage);

/**
 * Reads the state of a run. Parts that cannot be read are left out.
 *
 *   rules  rules to judge by; NULL: the default thresholds
 *
 * ES_OK, also if there is no file yet; the codes of es_reader_open and
 * es_summary_load. After ES_EIO, ES_ENOMEM or ES_ELOCKED, which may be
 * temporary, the view does not show the progress of the run.
 */
es_status es_sweep_view_read(es_sweep_view *out, const char *folder,
                             const char *name,
                             const es_rules_file *rules) ES_MUST_USE;

/**
 * Does the same, but returns ES_OK for a damaged file: that run starts again.
 */
es_status es_sweep_view_read_any(es_sweep_view *out, const char *folder,
                                 const char *name,
                                 const es_rules_file *rules) ES_MUST_USE;

/** Returns the share of its steps that are done, 0 to 1; 0 if unknown. */
double es_sweep_view_share(const es_sweep_view *view);

/**
 * Prints "[########--------] 45%", or an empty bar if the progress is unknown.
 */
void es_sweep_view_bar(char *out, size_t size, const es_sweep_view *view);

#endif
