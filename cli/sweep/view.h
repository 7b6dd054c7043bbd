/** Reads the progress of a run of a sweep from the run's files. */
#ifndef ES_SWEEP_VIEW_H
#define ES_SWEEP_VIEW_H

#include "cli/alerts/rules/rules_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_sweep_stage {
    ES_SWEEP_WAITING,
    ES_SWEEP_QUEUED,      /* waits in Slurm's queue */
    ES_SWEEP_INTERRUPTED, /* the training process ended too early; the run will
                             be resumed */
    ES_SWEEP_BROKEN,      /* the training process failed; the run will be
                             started again */
    ES_SWEEP_RUNNING,
    ES_SWEEP_FINISHED,
    ES_SWEEP_FAILED,  /* the run file reports a non-finite loss or an
                         exception */
    ES_SWEEP_STOPPED, /* stopped at the request of the sweep, a watcher or a
                         user */
    ES_SWEEP_N_STAGES
} es_sweep_stage;

/**
 * State of a run. Step and loss are those of the last sample; strings are safe
 * to print on a terminal.
 */
typedef struct es_sweep_view {
    const char *name; /* name of the run; borrowed */
    es_sweep_stage stage;
    int64_t step, planned; /* last recorded step, and planned last step;
                              ES_UNKNOWN if unknown */
    float loss;            /* loss; es_missing() before the first sample */
    char bands[64];        /* numbers of heads whose entropies lie in each
                              quarter of the range up to the ceiling, such as
                              "1/2/3/0", or "0/2/0/0 NaN 4" with 4 non-finite
                              heads */
    char flags[256];       /* names of the current flags; for a broken run, the
                              reason for the failure */
    bool doomed;           /* true if the run should be stopped, because it has
                              a critical flag or a rule whose action is stop
                              applies */
} es_sweep_view;

/** Returns the name of the stage, such as "waiting" or "interrupted". */
const char *es_sweep_stage_name(es_sweep_stage stage);

/** Returns true if the run needs no further training. */
bool es_sweep_is_done(es_sweep_stage stage);

/**
 * Reads the state of a run. Members that cannot be read stay empty.
 *
 *   rules  rules and thresholds of flags; NULL: the default thresholds
 *
 * Returns ES_OK, even if there is no file yet, or a status of es_reader_open or
 * es_summary_load. After ES_EIO, ES_ENOMEM or ES_ELOCKED, which may be
 * temporary, the view does not show the progress of the run.
 */
es_status es_sweep_view_read(es_sweep_view *out, const char *folder,
                             const char *name,
                             const es_rules_file *rules) ES_MUST_USE;

/**
 * Same as es_sweep_view_read, but returns ES_OK for a damaged run file, because
 * such a run is trained again from the start.
 */
es_status es_sweep_view_read_any(es_sweep_view *out, const char *folder,
                                 const char *name,
                                 const es_rules_file *rules) ES_MUST_USE;

/**
 * Returns the share of the run's steps that are done, from 0 to 1; 0 if
 * unknown.
 */
double es_sweep_view_share(const es_sweep_view *view);

/**
 * Formats a progress bar such as "[########--------] 45%", or an empty bar if
 * the progress is unknown.
 */
void es_sweep_view_bar(char *out, size_t size, const es_sweep_view *view);

#endif
