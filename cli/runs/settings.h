/**
 * Reads the settings of a run: its fields (cli/runs/fields.c) and the members
 * of its configuration. Finds the settings in which runs differ, and runs with
 * the same configuration.
 *
 * Settings that describe where or how a run was executed, such as "out" or
 * "threads", are incidental. Runs that differ only in the seed or in incidental
 * settings have the same configuration.
 */
#ifndef ES_RUN_SETTINGS_H
#define ES_RUN_SETTINGS_H

#include "cli/runs/summary.h"

/** Reads the settings of a run into run->settings, unless they have already
 *  been read. Labels, sorting and comparison need the settings. Returns ES_OK,
 *  ES_ENOMEM or ES_EARGUMENT. */
es_status es_run_settings_read(es_run_summary *run, es_reader *reader,
                               size_t index) ES_MUST_USE;

/** A setting in which runs differ. */
typedef struct es_difference {
    const char *key; /* key of the setting, borrowed from a run */
    size_t order;
    bool incidental, seed;
    bool column; /* true if the setting is a column of tables; other settings
                    are listed below the table */
    bool number; /* true if the value is a number in all runs that have the
                    setting */
} es_difference;

/**
 * Finds the settings in which runs differ.
 *
 *   out     (*n) settings in order of appearance, with the seed last; freed by
 *           the caller
 *   values  (n_runs,*n) the differing settings of each run, borrowed; NULL if
 *           the run lacks the setting. The caller frees the array
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_run_differences(es_difference **out, size_t *n,
                             const es_run_setting ***values,
                             const es_run_summary *const *runs,
                             size_t n_runs) ES_MUST_USE;

/** Checks if the run's architecture has the part (EReg or SM(t)) to which the
 *  setting `key` belongs. Returns 1 if the architecture has the part, 0 if not,
 *  and -1 if the setting belongs to neither part or the architecture cannot be
 *  parsed. */
int es_run_has_part(const es_run_summary *run, const char *key);

/**
 * Groups runs by configuration. The runs of a group differ only in the seed and
 * in incidental settings, such as "out" or "threads".
 *
 *   group                (n_runs) index of each run's configuration;
 *                        configurations are numbered in the order in which they
 *                        first appear
 *   values, differences  results of es_run_differences
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_run_configurations(size_t *group, size_t *n_groups,
                                const es_run_setting *const *values,
                                const es_difference *differences,
                                size_t n_differences,
                                size_t n_runs) ES_MUST_USE;

#endif
