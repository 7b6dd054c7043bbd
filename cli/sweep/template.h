/**
 * Fills in the placeholders in the words of a sweep's `command`. {KEY} stands
 * for the value of a key of the sweep, {name} for the run's name, {run} for the
 * path of its run file. Two opening or closing braces stand for one brace; a
 * single closing brace stands for itself. A value never splits a word, whatever
 * characters the value contains. In the script of `sh -c` values are quoted for
 * the shell.
 */
#ifndef ES_SWEEP_TEMPLATE_H
#define ES_SWEEP_TEMPLATE_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Keys of the placeholders {run} and {name}, which are not keys of the spec. */
#define ES_SWEEP_RUN "run"
#define ES_SWEEP_NAME "name"

/** A placeholder's key and the value that replaces it; strings are borrowed. */
typedef struct es_sweep_value {
    const char *key, *value;
} es_sweep_value;

/**
 * Returns true if two keys are equal. The characters _ and - are treated as
 * equal.
 */
bool es_sweep_same_key(const char *a, const char *b);

/** Returns true if the words contain a placeholder with the given key. */
bool es_sweep_template_has(char *const *words, const char *key);

/**
 * Replaces the placeholders in the words of a command by the n `values`.
 *
 *   out    the words, terminated by NULL; release with es_words_free
 *   later  true if the words will be filled in a second time, when the run
 *          starts; {run} is then kept, and each brace is doubled
 *
 * Returns ES_OK; ES_EUSAGE if a placeholder has no value or a brace is not
 * closed; ES_ENOMEM.
 */
es_status es_sweep_template_fill(char ***out, char *const *words,
                                 const es_sweep_value *values, size_t n,
                                 bool later) ES_MUST_USE;

#endif
