/** Chooses the member of a history, or the column of a table, that provides the
 *  steps. */
#ifndef ES_IMPORT_STEPS_H
#define ES_IMPORT_STEPS_H

#include "cli/exchange/import.h"

#define ES_STEP_KEYS 5 /* number of usual names of counters */

/** How many numbers would be imported with the steps of one counter. */
typedef struct es_step_count {
    char name[ES_STEP_KEY_MAX]; /* spelled as in the file */
    size_t n_rows;              /* rows in which this counter is a non-negative
                                   integer */
    size_t n_attention;         /* numbers of heads and layers in these rows */
    size_t n_numbers;           /* all numbers in these rows */
} es_step_count;

/** The counts of all counters. A zero-initialised list is empty. */
typedef struct es_step_keys {
    es_step_count counts[ES_STEP_KEYS];
} es_step_keys;

/** Returns the index of a usual counter name, in any case; -1 for other
 *  names. */
int es_step_key_of(const char *name);

/** Adds a row in which the counter `name`, a usual name, has a valid step. */
void es_step_keys_add(es_step_keys *keys, const char *name, size_t n_attention,
                      size_t n_numbers);

/**
 * Chooses the counter whose rows have the most numbers of heads and layers, or,
 * if the file has none, the most numbers. Of counters with equal counts, the
 * first of trainer/global_step, train/global_step, global_step, step, _step is
 * chosen. Returns the counter's name, borrowed from `keys`; NULL if no row has
 * a step. Writes the alternatives to the report.
 */
const char *es_step_keys_choose(const es_step_keys *keys,
                                es_import_report *report);

#endif
