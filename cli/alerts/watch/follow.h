/**
 * Judges a run as it grows, or a run that has ended as a whole; each episode
 * that opens or becomes more severe is an alert. An ended run is judged once
 * and then uses no memory.
 */
#ifndef ES_FOLLOW_H
#define ES_FOLLOW_H

#include "cli/alerts/alert.h"
#include "cli/runs/judging.h"
#include "store/layers.h"

/** Number of alerts by kind and severity. */
typedef uint32_t es_follow_counts[ES_N_FLAG_KINDS][ES_SEVERITY_CRITICAL + 1];

/** State of one run. All zero: nothing is known. */
typedef struct es_follow {
    es_judging *judging; /* NULL: not begun, or over */
    es_judge_run run;    /* the run's properties that judging depends on */
    es_layers *layers;   /* layers of the run, or NULL */
    es_phase phase;
    bool over;        /* the whole run has been judged */
    uint32_t version; /* checksum of the run when it was judged */
    char uuid[ES_UUID_SIZE];
    es_follow_counts counts;  /* alerts of flags */
    uint32_t *of_rules;       /* (n rules) number of alerts of each; NULL: not
                                 begun */
    char *path, *name, *arch; /* description of the run at the last reading;
                                 NULL, as layers is, once the run is over */
    struct es_follow_reading *reading; /* set during es_follow_read only */
} es_follow;

typedef struct es_follow_options {
    const es_rules_file *rules; /* borrowed; NULL: flags by the default
                                   thresholds; otherwise flags are judged only
                                   if it sets a threshold */
    es_alert_handler *handler;
    void *user;
} es_follow_options;

/**
 * Most alerts of a rule in one run that are reported; a note on standard error
 * says if there are more. Alerts of flags are as many as the recorder writes.
 */
#define ES_FOLLOW_MOST 1000

/**
 * Judges the part of run `run` that was added since the last call and reports
 * the new alerts. If the run was replaced or changed, all of its alerts are
 * reported again.
 *
 *   known    the same object, with the same options, at each reading of
 *            the run; released by es_follow_end
 *   about    path, uuid, name, arch and is_written of the run; the members
 *            that describe the alert are filled in here
 *
 * ES_OK; ES_EUSAGE (a rule does not fit the run), ES_EFORMAT, ES_EIO,
 * ES_ENOMEM; the handler's result. After a failure the next call starts again:
 * no alert is lost.
 */
es_status es_follow_read(es_follow *known, es_reader *reader, size_t run,
                         const es_alert *about,
                         const es_follow_options *options) ES_MUST_USE;

/**
 * Does the same for samples (n) that were appended to a run that is being
 * written. ES_DONE: nothing was judged, call es_follow_read.
 */
es_status es_follow_add(es_follow *known, size_t run,
                        const es_growth_sample *samples, size_t n,
                        const es_follow_options *options) ES_MUST_USE;

void es_follow_end(es_follow *known); /* leaves all zero */

#endif
