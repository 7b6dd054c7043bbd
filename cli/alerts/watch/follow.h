/**
 * Raises alerts for a run as it grows, or for an ended run as a whole. Each
 * period in which a flag or rule applies (an episode) causes an alert when it
 * begins and whenever it becomes more severe. An ended run is checked once and
 * then uses no memory.
 */
#ifndef ES_FOLLOW_H
#define ES_FOLLOW_H

#include "cli/alerts/alert.h"
#include "cli/runs/judging.h"
#include "store/layers.h"

/** Number of alerts by kind and severity. */
typedef uint32_t es_follow_counts[ES_N_FLAG_KINDS][ES_SEVERITY_CRITICAL + 1];

/**
 * State of one followed run. A struct of zeros is a run that has not been read.
 */
typedef struct es_follow {
    es_judging *judging; /* NULL before the first reading and after the run's
                            end */
    es_judge_run run;    /* properties of the run on which its alerts depend */
    es_layers *layers;   /* descriptions of the run's layers; NULL if unknown */
    es_phase phase;
    bool over;        /* true once the run has ended and has been checked
                         completely */
    uint32_t version; /* checksum of the ended run's last step, status and
                         end time when the run was checked for alerts */
    char uuid[ES_UUID_SIZE];
    es_follow_counts counts;  /* number of alerts by flag and severity */
    uint32_t *of_rules;       /* (number of rules) number of alerts of each
                                 rule; NULL before the first reading */
    char *path, *name, *arch; /* description of the run at the last reading;
                                 NULL once the run is over */
    struct es_follow_reading *reading; /* state of the current call of
                                          es_follow_read, used by the
                                          callbacks for flags and rules */
} es_follow;

typedef struct es_follow_options {
    const es_rules_file *rules; /* rules, and thresholds of the flags; borrowed;
                                   NULL for no rules and the default
                                   thresholds */
    es_alert_handler *handler;
    void *user;
} es_follow_options;

/**
 * Maximum number of reported alerts of all flags, and of each rule, in one run.
 * If a rule has more alerts, a note on standard error says so.
 */
#define ES_FOLLOW_MOST 1000

/**
 * Checks the part of run `run` that was added since the last call, and reports
 * the new alerts. If the run was replaced or changed, all of its alerts are
 * reported again.
 *
 *   known    state of the run; pass the same object with the same options at
 *            each reading; released by es_follow_end
 *   about    an alert with the run's path, uuid, name, arch and is_written; the
 *            other members are ignored
 *
 * Returns ES_OK; ES_EUSAGE if a rule does not fit the run; ES_EFORMAT, ES_EIO
 * or ES_ENOMEM; or the handler's result. After a failure the next call checks
 * the run from its start, so that no alert is lost.
 */
es_status es_follow_read(es_follow *known, es_reader *reader, size_t run,
                         const es_alert *about,
                         const es_follow_options *options) ES_MUST_USE;

/**
 * Checks n samples that were appended to a run being written, and reports the
 * new alerts. Returns the statuses of es_follow_read, or ES_DONE if nothing
 * was checked and es_follow_read must be called instead.
 */
es_status es_follow_add(es_follow *known, size_t run,
                        const es_growth_sample *samples, size_t n,
                        const es_follow_options *options) ES_MUST_USE;

void es_follow_end(es_follow *known); /* releases the state and sets the
                                         struct to zeros */

#endif
