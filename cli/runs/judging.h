/**
 * Evaluates the flags of a run and the rules of a rules file on the run's
 * samples. A finished run is read once. A growing run is read repeatedly, each
 * time from the end of the last reading; the final result is the same as if it
 * had been read once.
 */
#ifndef ES_JUDGING_H
#define ES_JUDGING_H

#include "cli/alerts/rules/rules_file.h"
#include "store/growth.h"
#include "store/reader.h"

typedef struct es_judging_options {
    es_judge_run run;
    es_phase phase;             /* phase (train or eval) in which flags are
                                   evaluated; each rule names its own phase */
    const es_rules_file *rules; /* borrowed until es_judging_close; NULL for the
                                   default thresholds and no rules */
    es_episode_handler *flag;   /* called for each episode, a period in which a
                                   flag is active; if NULL, only rules are
                                   evaluated */
    es_rule_handler *rule;
    void *user;
    bool growing; /* true if the run will be read again; handlers are then
                     called when an episode opens or its severity rises, not
                     when it ends */
} es_judging_options;

typedef struct es_judging es_judging;

/** Creates the state for evaluating the flags and rules of a run; copies the
 *  options. Returns ES_OK or ES_ENOMEM. */
es_status es_judging_open(es_judging **out,
                          const es_judging_options *options) ES_MUST_USE;

/**
 * Evaluates flags and rules on the samples that were added since the last
 * reading of this run. If `growing` is false, this function may be called only
 * once.
 *
 *   reader  reader of the same file, opened or refreshed since the last reading
 *
 * Returns ES_OK; ES_DONE if samples that were already evaluated no longer
 * exist, for example because the run was resumed from an earlier step (the
 * caller must then evaluate the run again from the start); ES_EUSAGE if a rule
 * does not fit its series, or the baseline does not fit the run; ES_EFORMAT,
 * ES_EIO, ES_ENOMEM. After any status but ES_OK, only es_judging_close is
 * allowed.
 */
es_status es_judging_read(es_judging *judging, es_reader *reader,
                          size_t run) ES_MUST_USE;

/**
 * Evaluates flags and rules on n samples that were appended since the last
 * reading. The result is the same as that of es_judging_read, but no reader is
 * needed. Samples of other runs are skipped.
 *
 * Returns ES_OK. Returns ES_DONE if nothing was evaluated and the caller must
 * call es_judging_read instead, because the run was not read before, a series
 * is new, the steps of a series decrease, or a rule compares with a baseline.
 * Returns ES_ENOMEM, after which only es_judging_close is allowed.
 */
es_status es_judging_add(es_judging *judging, size_t run,
                         const es_growth_sample *samples, size_t n) ES_MUST_USE;

/** Returns true if at least one sample of the series of rule `rule` was read. A
 *  rule cannot hold before the first sample of its series. */
bool es_judging_heard(const es_judging *judging, size_t rule);

/** Returns the number of values, NaN or infinite, that rule `rule` could not
 *  compare. */
uint64_t es_judging_nonfinite(const es_judging *judging, size_t rule);

/** Returns the step of the sample that was evaluated last. For use in
 *  handlers. */
int64_t es_judging_step(const es_judging *judging);

/** Ends the evaluation of the run. Calls the handlers for flags and rules whose
 *  result depends on the end of the run. */
void es_judging_finish(es_judging *judging);

void es_judging_close(es_judging *judging); /* judging may be NULL */

#endif
