/**
 * The `command` of a sweep: words with placeholders. {KEY} is the value of a
 * key of the sweep, {name} the run's name, {run} its run file. Two braces stand
 * for one; a single closing brace stands for itself. A value is always part of
 * its word, whatever characters it contains; in the script of `sh -c` it is
 * quoted as its position requires.
 */
#ifndef ES_SWEEP_TEMPLATE_H
#define ES_SWEEP_TEMPLATE_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ES_SWEEP_RUN "run" /* placeholders that are not keys */
#define ES_SWEEP_NAME "name"

/** The value of a placeholder; strings are borrowed. */
typedef struct es_sweep_value {
    const char *key, *value;
} es_sweep_value;

/** True if the keys are equal; _ counts as -. */
bool es_sweep_same_key(const char *a, const char *b);

/** True if the words contain a placeholder with this key. */
bool es_sweep_template_has(char *const *words, const char *key);

/**
 * Replaces the placeholders in the words of a command by values (n).
 *
 *   out    the words, terminated by NULL; release with es_words_free
 *   later  makes words that will be filled again: keeps {run}, and doubles
 *          braces
 *
 * ES_OK; ES_EUSAGE (a placeholder without a value, a brace that is not closed);
 * ES_ENOMEM.
 */
es_status es_sweep_template_fill(char ***out, char *const *words,
                                 const es_sweep_value *values, size_t n,
                                 bool later) ES_MUST_USE;

#endif
