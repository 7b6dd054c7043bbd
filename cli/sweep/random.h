/**
 * Random search: draws values from distributions; the same seed gives the same
 * values on every machine. A draw depends on earlier draws but not on later
 * ones, and a value does not depend on the other keys, so that a search can
 * grow.
 */
#ifndef ES_SWEEP_RANDOM_H
#define ES_SWEEP_RANDOM_H

#include "analyzer/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ES_SWEEP_DISTRIBUTIONS                                                 \
    "uniform LOW HIGH, log-uniform LOW HIGH, q-uniform LOW HIGH STEP, "        \
    "int-uniform LOW HIGH or choice A B ..."

/** One key of the search. */
typedef struct es_sweep_random {
    const char *key;    /* borrowed */
    char *const *words; /* (n_words) "log-uniform", "1e-4", "1e-2"; borrowed */
    size_t n_words;
    char **drawn; /* (n_draws) written: texts, numbers with six digits; the
                     caller frees each text and the array, also on failure */
} es_sweep_random;

/**
 * Draws values for all keys; no two draws are the same in all keys.
 *
 * ES_OK; ES_EUSAGE (the message begins with the key: unknown distribution or
 * wrong bounds; or there are fewer than n_draws different draws); ES_ENOMEM.
 */
es_status es_sweep_draw(es_sweep_random *keys, size_t n_keys, size_t n_draws,
                        uint64_t seed) ES_MUST_USE;

/** Returns the FNV-1a hash of a text, in which _ counts as -. */
uint64_t es_sweep_hash(const char *text);

#endif
