/**
 * Judging a run: passes its samples to the judge of the flags and to the rules
 * of a rules file. A finished run is read once; a growing run is read
 * repeatedly, each time from the end of the last reading, with the same result.
 */
#ifndef ES_JUDGING_H
#define ES_JUDGING_H

#include "cli/alerts/rules/rules_file.h"
#include "store/growth.h"
#include "store/reader.h"

typedef struct es_judging_options {
    es_judge_run run;
    es_phase phase;             /* phase of the flags; rules have their own */
    const es_rules_file *rules; /* borrowed until closing; NULL: the default
                                   thresholds, no rules */
    es_episode_handler *flag;   /* NULL: judge only rules */
    es_rule_handler *rule;
    void *user;
    bool growing; /* the run will be read again; handlers are called when an
                     episode opens or its severity rises, not when it ends */
} es_judging_options;

typedef struct es_judging es_judging;

/** Copies the options. Returns ES_OK or ES_ENOMEM. */
es_status es_judging_open(es_judging **out,
                          const es_judging_options *options) ES_MUST_USE;

/**
 * Judges the samples since the last reading of this run. If not `growing`,
 * there is only one reading.
 *
 *   reader  of the same file, opened or refreshed since
 *
 * Returns ES_OK; ES_DONE: samples judged before no longer exist, as after a
 * resumption from an earlier step: start again; ES_EUSAGE: a rule does not fit
 * its series, or the baseline does not fit the run; ES_EFORMAT, ES_EIO,
 * ES_ENOMEM. After any other status than ES_OK only es_judging_close is
 * allowed.
 */
es_status es_judging_read(es_judging *judging, es_reader *reader,
                          size_t run) ES_MUST_USE;

/**
 * Judges samples (n) that were appended since the last reading, with the same
 * result as es_judging_read, but without a reader. Samples of other runs are
 * skipped.
 *
 * Returns ES_OK; ES_DONE: nothing was judged, and the samples must be read with
 * es_judging_read: there was no reading yet, a series is new or steps back, or
 * a rule compares with a baseline; ES_ENOMEM, as from es_judging_read.
 */
es_status es_judging_add(es_judging *judging, size_t run,
                         const es_growth_sample *samples, size_t n) ES_MUST_USE;

/** Returns true if the series of rule `rule` has had a sample; without one the
 *  rule never holds. */
bool es_judging_heard(const es_judging *judging, size_t rule);

/** Returns the number of values that rule `rule` could not compare: NaN and
 *  infinities. */
uint64_t es_judging_nonfinite(const es_judging *judging, size_t rule);

#define ES_JUDGING_REASON_MAX 160

/** Called in a handler: returns the reason why the rule holds, in words, for
 *  rules about the forecast; NULL for others, whose value is the reason. */
const char *es_judging_reason(char out[ES_JUDGING_REASON_MAX],
                              const es_judging *judging, size_t rule);

/** Returns the step of the sample judged last; for handlers. */
int64_t es_judging_step(const es_judging *judging);

/** Ends the run. Handlers are called for results that only the end of the run
 *  shows. */
void es_judging_finish(es_judging *judging);

void es_judging_close(es_judging *judging); /* judging may be NULL */

#endif
