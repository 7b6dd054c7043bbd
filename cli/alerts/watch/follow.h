/**
 * Judging a run as it grows, or the whole of one that has ended: what opens or
 * rises is an alert. An ended run is judged once, and costs no memory then.
 */
#ifndef ES_FOLLOW_H
#define ES_FOLLOW_H

#include "cli/alerts/alert.h"
#include "cli/runs/judging.h"
#include "store/layers.h"

/** By kind and severity. */
typedef uint32_t es_follow_counts[ES_N_FLAG_KINDS][ES_SEVERITY_CRITICAL + 1];

/** What is known of one run. Zero: nothing. */
typedef struct es_follow {
    es_judging *judging; /* NULL: not begun, or over */
    es_judge_run run;    /* what it goes by */
    es_layers *layers;   /* of the run; or NULL */
    es_phase phase;
    bool over;        /* all of it is judged */
    uint32_t version; /* of the run as it was then */
    char uuid[ES_UUID_SIZE];
    es_follow_counts counts;  /* alerts of flags */
    uint32_t *of_rules;       /* (n rules) alerts of each; NULL: not begun */
    char *path, *name, *arch; /* of the run at the last reading; of one that is
                                 over NULL, as the layers are */
    struct es_follow_reading *reading; /* during es_follow_read */
} es_follow;

typedef struct es_follow_options {
    const es_rules_file *rules; /* borrowed; NULL: flags by the default
                                   thresholds; else flags are judged only if
                                   it sets one */
    es_alert_handler *handler;
    void *user;
} es_follow_options;

/** Alerts of a rule in one run that are handed on; that there are more is
 *  reported on standard error. Of flags there are as many as the recorder
 * writes. */
#define ES_FOLLOW_MOST 1000

/**
 * Judges what run `run` of a reader has come to since the last time, and hands
 * on the alerts that are new: all of them again if it is another run, or
 * other than it was.
 *
 *   known    the same one, with the same options, at each reading of the run;
 *            es_follow_end
 *   about    path, uuid, name, arch, written: of the run; the alerts' own
 *            members are filled in
 *
 * ES_OK; ES_EUSAGE (a rule does not fit the run), ES_EFORMAT, ES_EIO,
 * ES_ENOMEM; what the handler returned. After a failure the next call begins
 * anew: nothing is lost.
 */
es_status es_follow_read(es_follow *known, es_reader *reader, size_t run,
                         const es_alert *about,
                         const es_follow_options *options) ES_MUST_USE;

/** The same of samples (n) that were appended to a run that is written.
 * ES_DONE: nothing was judged, es_follow_read has to. */
es_status es_follow_add(es_follow *known, size_t run,
                        const es_growth_sample *samples, size_t n,
                        const es_follow_options *options) ES_MUST_USE;

void es_follow_end(es_follow *known); /* leaves zero */

#endif
