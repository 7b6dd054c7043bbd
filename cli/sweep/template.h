/**
 * The command of a sweep of any program: words with placeholders. {KEY} is the
 * value of a key of the sweep, {name} the run's name, {run} its run file. Two
 * braces are one, and a closing one alone is itself. A value is part of a word
 * whatever it holds; in the script of `sh -c` it is quoted as where it stands
 * there needs.
 */
#ifndef ES_SWEEP_TEMPLATE_H
#define ES_SWEEP_TEMPLATE_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ES_SWEEP_RUN "run" /* placeholders that are no keys */
#define ES_SWEEP_NAME "name"

/** What a placeholder stands for; strings are borrowed. */
typedef struct es_sweep_value {
    const char *key, *value;
} es_sweep_value;

/** True of keys that are the same, where _ is -. */
bool es_sweep_same_key(const char *a, const char *b);

/** True if a placeholder of that key is in the words. */
bool es_sweep_template_has(char *const *words, const char *key);

/**
 * Puts values (n) into the words of a command.
 *
 *   out    the words, NULL at their end; es_words_free
 *   later  makes words that are to be filled again: {run} is left in them, and
 *          braces are doubled
 *
 * ES_OK; ES_EUSAGE (a placeholder that has no value, a brace that is not
 * closed); ES_ENOMEM.
 */
es_status es_sweep_template_fill(char ***out, char *const *words,
                                 const es_sweep_value *values, size_t n,
                                 bool later) ES_MUST_USE;

#endif
