/* A set of 64-bit hashes with open addressing. It saves queries of the ledger
 * and may forget, but never invents: the seed keeps a hostile run from
 * choosing ids that collide. */
#include "cli/alerts/watch/known.h"

#include <stdlib.h>

uint64_t es_known_hash(const es_known *known, const char *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ known->seed;
    for (; *id; id++) { /* FNV-1a, stirred: the low bits choose the slot */
        hash = (hash ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}

static uint64_t *slot_of(uint64_t *slots, size_t n_slots, uint64_t hash)
{
    size_t i = (size_t)hash & (n_slots - 1);
    while (slots[i] && slots[i] != hash)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

bool es_known_has(const es_known *known, uint64_t hash)
{
    return known->n_slots && *slot_of(known->slots, known->n_slots, hash);
}

static bool grow(es_known *known)
{
    size_t n = known->n_slots ? 2 * known->n_slots : 64;
    uint64_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < known->n_slots; i++)
        if (known->slots[i])
            *slot_of(slots, n, known->slots[i]) = known->slots[i];
    free(known->slots);
    known->slots = slots;
    known->n_slots = n;
    return true;
}

void es_known_add(es_known *known, uint64_t hash)
{
    if (es_known_has(known, hash))
        return;
    if (2 * (known->n + 1) > known->n_slots && !grow(known))
        return;
    *slot_of(known->slots, known->n_slots, hash) = hash;
    known->n++;
}

void es_known_free(es_known *known)
{
    free(known->slots);
    *known = (es_known){0};
}
