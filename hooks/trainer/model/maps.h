/**
 * Computes the mean attention maps of forward passes (store/map.h) for each
 * layer or each head.
 *
 * Maps are computed on the host from the queries and keys of the last pass,
 * because the attention operations keep no (T,T) weights. Compute maps in few
 * steps only, because they cost 4 * T^2 * d multiplications per layer and
 * sequence, about as much as attention in a forward pass with one thread.
 */
#ifndef ES_MAPS_H
#define ES_MAPS_H

#include "hooks/entropyscan.h"
#include "hooks/trainer/model/model.h"

/** Maximum number of sequences in the mean of a map; further sequences are
 *  ignored. */
#define ES_MAP_SEQUENCES 16

typedef struct es_maps es_maps;

/**
 * Creates maps to which no sequence has been added yet.
 *
 *   size   number of cells per side, from 1 to ES_MAP_MAX, at most the context
 *   heads  true: a map of each head and the mean map of each layer; false: only
 *          the mean map
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_maps_new(es_maps **out, const es_model_config *config, int size,
                      bool heads) ES_MUST_USE;
void es_maps_free(es_maps *maps); /* NULL is allowed */

int es_maps_size(const es_maps *maps);
/* Returns the number of heads with separate maps: 0 or H. */
int es_maps_n_heads(const es_maps *maps);

/** Removes all sequences from the maps. */
void es_maps_reset(es_maps *maps);

/** Adds the sequences of the model's last forward pass, up to ES_MAP_SEQUENCES
 *  in total. Returns ES_OK or ES_ENOMEM. */
es_status es_maps_add(es_maps *maps, es_model *model) ES_MUST_USE;

/**
 * Writes one map to out (S,S), row-major, with queries as rows and keys as
 * columns. A cell stands for a block of pairs of a query and a key, and
 * contains the mean weight of the pairs whose query sees the key. A cell is
 * es_missing() if its block has no such pair or no sequence was added, and NaN
 * if a row of weights was not finite.
 *
 *   head  0..H-1 if there are maps of heads, or ES_MAP_MEAN
 */
void es_maps_get(float *out, const es_maps *maps, int layer, int head);

#endif
