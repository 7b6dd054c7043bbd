/** Ids seen before, as hashes: so that the ledger is queried once for each. */
#ifndef ES_KNOWN_H
#define ES_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Zero, or with a seed nobody can guess, is an empty set. */
typedef struct es_known {
    uint64_t seed;
    uint64_t *slots; /* (n_slots), a power of two; 0: free */
    size_t n_slots, n;
} es_known;

uint64_t es_known_hash(const es_known *known, const char *id); /* never 0 */
bool es_known_has(const es_known *known, uint64_t hash);

/** Without memory it stays unknown, which costs time alone. */
void es_known_add(es_known *known, uint64_t hash);
void es_known_free(es_known *known);

#endif
