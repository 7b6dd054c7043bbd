/**
 * Draws the values of a random search from distributions. The same seed gives
 * the same values on every machine. A draw depends on earlier draws, because no
 * draw is repeated, but not on later draws. The values of a key do not depend
 * on the other keys. A search can therefore be extended later.
 */
#ifndef ES_SWEEP_RANDOM_H
#define ES_SWEEP_RANDOM_H

#include "analyzer/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ES_SWEEP_DISTRIBUTIONS                                                 \
    "uniform LOW HIGH, log-uniform LOW HIGH, q-uniform LOW HIGH STEP, "        \
    "int-uniform LOW HIGH or choice A B ..."

/** One key of the random search and its drawn values. */
typedef struct es_sweep_random {
    const char *key;    /* borrowed */
    char *const *words; /* (n_words) distribution and its arguments, such as
                           "log-uniform", "1e-4", "1e-2"; borrowed */
    size_t n_words;
    char **drawn; /* (n_draws) output: drawn values as strings, numbers with
                     six digits; the caller frees each string and the array,
                     also on failure */
} es_sweep_random;

/**
 * Draws values for all keys. Any two draws differ in at least one key.
 *
 * Returns ES_OK; ES_EUSAGE if a distribution is unknown, its bounds are wrong
 * (the message begins with the key), or n_draws different draws were not found;
 * ES_ENOMEM.
 */
es_status es_sweep_draw(es_sweep_random *keys, size_t n_keys, size_t n_draws,
                        uint64_t seed) ES_MUST_USE;

/** Returns the FNV-1a hash of a string in which each _ is replaced by -. */
uint64_t es_sweep_hash(const char *text);

#endif
