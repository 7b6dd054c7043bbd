/** Chooses the member of a history, or the column of a table, that provides the
 *  steps. */
#ifndef ES_IMPORT_STEPS_H
#define ES_IMPORT_STEPS_H

#include "cli/exchange/import.h"

#define ES_STEP_KEYS 5 /* number of usual names of step counters */

/**
 * A step counter of the file, and the number of values that could be imported
 * if it provided the steps.
 */
typedef struct es_step_count {
    char name[ES_STEP_KEY_MAX]; /* spelled as in the file */
    size_t n_rows;              /* rows in which this counter is a non-negative
                                   integer */
    /* Number of values of heads or layers in the rows with this counter. */
    size_t n_attention;
    size_t n_numbers; /* number of all values in the rows with this counter */
} es_step_count;

/** The counts for all step counters. A zero-initialised list is empty. */
typedef struct es_step_keys {
    es_step_count counts[ES_STEP_KEYS];
} es_step_keys;

/**
 * Returns the index of `name`, in upper or lower case, in the list of usual
 * names of step counters, or -1 if the list does not contain the name.
 */
int es_step_key_of(const char *name);

/** Adds a row in which the counter `name` has a valid step. The name must be in
 *  the list of usual names of step counters. The row has n_attention numbers of
 *  heads and layers, and n_numbers in total. */
void es_step_keys_add(es_step_keys *keys, const char *name, size_t n_attention,
                      size_t n_numbers);

/**
 * Chooses the counter whose rows have the most numbers of heads and layers. If
 * the file has no such numbers, chooses the counter whose rows have the most
 * numbers. If counters have equal counts, chooses the first in the order
 * trainer/global_step, train/global_step, global_step, step, _step. Returns the
 * counter's name, borrowed from `keys`; NULL if no row has a step. Writes the
 * names of the other counters to the report.
 */
const char *es_step_keys_choose(const es_step_keys *keys,
                                es_import_report *report);

#endif
