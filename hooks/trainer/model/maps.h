/**
 * Mean attention maps of forward passes (store/map.h), by layer or by head.
 *
 * Taken on the host from the queries and keys of the last pass, at a few steps:
 * attention itself keeps no (T,T) weights. It costs about as much as that part
 * of a forward pass would with one thread: 4 T^2 d multiplications a layer and
 * sequence.
 */
#ifndef ES_MAPS_H
#define ES_MAPS_H

#include "hooks/trainer/model/model.h"
#include "store/run.h"

/** A map is the mean over this many sequences, the first ones that come. */
#define ES_MAP_SEQUENCES 16

typedef struct es_maps es_maps;

/**
 *   size   cells a side, 1..ES_MAP_MAX; the context, if that has fewer tokens
 *   heads  a map of each head, and of each layer the mean over its heads;
 *          false: that mean alone
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_maps_new(es_maps **out, const es_model_config *config, int size,
                      bool heads) ES_MUST_USE;
void es_maps_free(es_maps *maps); /* NULL is fine */

int es_maps_size(const es_maps *maps);
int es_maps_n_heads(
    const es_maps *maps); /* that have maps of their own: 0, H */

/** Forgets what was added. */
void es_maps_reset(es_maps *maps);

/** Adds the sequences of the model's last forward pass, up to ES_MAP_SEQUENCES
 *  in all. ES_OK, ES_ENOMEM. */
es_status es_maps_add(es_maps *maps, es_model *model) ES_MUST_USE;

/**
 * One map of what was added: out (S,S), row-major, queries by keys. A cell is
 * the mean weight over the pairs of its block where the query sees the key;
 * es_missing() where there is no such pair, NaN where a row of them was not
 * finite. All of it is missing where nothing was added.
 *
 *   head  0..H-1 where there are maps of heads, or ES_MAP_MEAN
 */
void es_maps_get(float *out, const es_maps *maps, int layer, int head);

#endif
