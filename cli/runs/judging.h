/**
 * Judging a run: feeds its samples to the judge of the flags and to the rules
 * of a rules file. A finished run is read once; one that is being written is
 * read again and again, each time from where the last reading ended, with the
 * same verdict.
 */
#ifndef ES_JUDGING_H
#define ES_JUDGING_H

#include "cli/alerts/rules/rules_file.h"
#include "store/growth.h"
#include "store/reader.h"

typedef struct es_judging_options {
    es_judge_run run;
    es_phase phase;             /* of the flags; rules have their own */
    const es_rules_file *rules; /* borrowed until the end; NULL: the default
                                   thresholds, no rule */
    es_episode_handler *flag;   /* NULL: only rules are judged */
    es_rule_handler *rule;
    void *user;
    bool growing; /* it will be read again; episodes are handed on when they
                     open or rise, and not when they are over */
} es_judging_options;

typedef struct es_judging es_judging;

/** ES_OK or ES_ENOMEM; the options are copied. */
es_status es_judging_open(es_judging **out,
                          const es_judging_options *options) ES_MUST_USE;

/**
 * Judges the samples that came since the last reading of this run; of one
 * that is not `growing` there is one reading.
 *
 *   reader  of the same file, opened or refreshed since
 *
 * ES_OK; ES_DONE: what was judged before is not there any more, as after a
 * resumption from an earlier step: begin anew; ES_EUSAGE: a rule does not fit
 * its series, or the baseline not the run; ES_EFORMAT, ES_EIO, ES_ENOMEM.
 * After anything but ES_OK only es_judging_close is allowed.
 */
es_status es_judging_read(es_judging *judging, es_reader *reader,
                          size_t run) ES_MUST_USE;

/**
 * Judges samples (n) that were appended since the last reading, of which those
 * of other runs are passed over: as es_judging_read would, without a reader.
 *
 * ES_OK; ES_DONE: nothing was judged, they are to be read: there was no reading
 * yet, a series is new or goes back, or a rule compares with a baseline;
 * ES_ENOMEM, as after es_judging_read.
 */
es_status es_judging_add(es_judging *judging, size_t run,
                         const es_growth_sample *samples, size_t n) ES_MUST_USE;

/** True once a sample of rule `rule`'s series came: without one the rule is
 *  silent, whatever happens. */
bool es_judging_heard(const es_judging *judging, size_t rule);

/** Values that rule `rule` met and could not compare: NaN and infinities. */
uint64_t es_judging_nonfinite(const es_judging *judging, size_t rule);

#define ES_JUDGING_REASON_MAX 160

/** Within a handler: why the rule holds, in words; NULL: its value says it.
 *  Of rules about the forecast. */
const char *es_judging_reason(char out[ES_JUDGING_REASON_MAX],
                              const es_judging *judging, size_t rule);

/** Step of the sample judged last: for handlers. */
int64_t es_judging_step(const es_judging *judging);

/** No more samples will come. Handlers get what only the end shows. */
void es_judging_finish(es_judging *judging);

void es_judging_close(es_judging *judging); /* NULL is fine */

#endif
