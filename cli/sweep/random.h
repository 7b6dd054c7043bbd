/**
 * Random search: values drawn from distributions, the same for the same seed
 * wherever they are drawn. A draw depends on the draws before it, but not on
 * how many follow, and a value not on the other keys: a search can grow.
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
    char **drawn; /* (n_draws) written: texts, the numbers of six digits; each
                     to be freed, and the array, also on failure */
} es_sweep_random;

/**
 * Draws values for all keys; no two draws are the same in all of them.
 *
 * ES_OK; ES_EUSAGE (the message begins with the key: no such distribution,
 * wrong bounds; or there are fewer than n_draws different ones); ES_ENOMEM.
 */
es_status es_sweep_draw(es_sweep_random *keys, size_t n_keys, size_t n_draws,
                        uint64_t seed) ES_MUST_USE;

/** FNV-1a of a text, where _ is -. */
uint64_t es_sweep_hash(const char *text);

#endif
