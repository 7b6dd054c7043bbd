/** Chooses the member of a history, or the column of a table, that has the
 *  steps. */
#ifndef ES_IMPORT_STEPS_H
#define ES_IMPORT_STEPS_H

#include "cli/exchange/import.h"

#define ES_STEP_KEYS 5 /* number of usual names */

/** The numbers that one counter would give. */
typedef struct es_step_count {
    char name[ES_STEP_KEY_MAX]; /* as the file spells it */
    size_t n_rows;              /* rows with a step from 0 on */
    size_t n_attention;         /* numbers of heads and layers in these rows */
    size_t n_numbers;           /* all numbers in these rows */
} es_step_count;

/** Counts of all counters. Zero-initialised: empty. */
typedef struct es_step_keys {
    es_step_count counts[ES_STEP_KEYS];
} es_step_keys;

/** Returns the index of a usual name, in any case; -1 for other names. */
int es_step_key_of(const char *name);

/** Adds a row in which `name`, a usual name, has a step. */
void es_step_keys_add(es_step_keys *keys, const char *name, size_t n_attention,
                      size_t n_numbers);

/**
 * Chooses the counter with the most numbers of heads and layers, or, if the
 * file has none, with the most numbers; if several have the same count, the
 * first of trainer/global_step, train/global_step, global_step, step, _step.
 * Returns its name, borrowed from `keys`; NULL if no row has a step. Reports
 * the alternatives.
 */
const char *es_step_keys_choose(const es_step_keys *keys,
                                es_import_report *report);

#endif
