/** Which member of a history's lines, or column of a table, has the steps. */
#ifndef ES_IMPORT_STEPS_H
#define ES_IMPORT_STEPS_H

#include "cli/exchange/import.h"

#define ES_STEP_KEYS 5 /* names that people use */

/** What one of them would give. */
typedef struct es_step_count {
    char name[ES_STEP_KEY_MAX]; /* as the file spells it */
    size_t n_rows;              /* that have a step from 0 on */
    size_t n_attention;         /* numbers of heads and layers in these */
    size_t n_numbers;           /* all numbers */
} es_step_count;

/** Zero is empty. */
typedef struct es_step_keys {
    es_step_count counts[ES_STEP_KEYS];
} es_step_keys;

/** Which of the names it is, in any case; -1: none. */
int es_step_key_of(const char *name);

/** A row in which `name`, which is one of them, is a step. */
void es_step_keys_add(es_step_keys *keys, const char *name, size_t n_attention,
                      size_t n_numbers);

/**
 * The one with the most numbers of heads and layers, in a file without these
 * with the most numbers; of equal ones trainer/global_step, train/global_step,
 * global_step, step, _step. NULL: no row has a step. Says in the report what
 * there was to choose from. Borrowed from `keys`.
 */
const char *es_step_keys_choose(const es_step_keys *keys,
                                es_import_report *report);

#endif
