/**
 * The settings of a run: its own fields (cli/runs/fields.c) and the members of
 * its configuration; those in which runs differ; which runs are one
 * configuration.
 *
 * A setting that says where or how a run was made but not what was done (out,
 * threads, ...) is incidental: it makes no other configuration, and neither
 * does the seed.
 */
#ifndef ES_RUN_SETTINGS_H
#define ES_RUN_SETTINGS_H

#include "cli/runs/summary.h"

/** Fills in run->settings, once, of a summary that was loaded: whoever labels,
 *  sorts or compares runs needs them. ES_OK, ES_ENOMEM, ES_EARGUMENT. */
es_status es_run_settings_read(es_run_summary *run, es_reader *reader,
                               size_t index) ES_MUST_USE;

/** A setting in which runs differ. */
typedef struct es_difference {
    const char *key; /* a run's */
    size_t order;
    bool incidental, seed;
    bool column; /* of the tables; the others are named below them */
    bool number; /* in all runs that have it */
} es_difference;

/**
 * The settings in which runs differ.
 *
 *   out  (*n) in the order they came, the seed last; for the caller to free
 *   values  (n_runs,*n) of each run, borrowed; NULL: absent; to be freed
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_run_differences(es_difference **out, size_t *n,
                             const es_run_setting ***values,
                             const es_run_summary *const *runs,
                             size_t n_runs) ES_MUST_USE;

/** Whether the run's architecture has the part that a setting is of, EReg or
 *  SM(t): 1; 0: it has not; -1: of no such part, or the notation is another. */
int es_run_has_part(const es_run_summary *run, const char *key);

/**
 * Which runs are of one configuration: they differ in the seed and in
 * incidental settings alone.
 *
 *   group  (n_runs) number of each run's configuration, in the order in which
 *          their first runs come
 *   values, differences  of es_run_differences
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_run_configurations(size_t *group, size_t *n_groups,
                                const es_run_setting *const *values,
                                const es_difference *differences,
                                size_t n_differences,
                                size_t n_runs) ES_MUST_USE;

#endif
