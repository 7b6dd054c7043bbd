/**
 * Mean attention maps of forward passes (store/map.h), by layer or by head.
 *
 * Maps are computed on the host from the queries and keys of the last pass, at
 * few steps: attention itself keeps no (T,T) weights. The cost is about that of
 * this part of a forward pass with one thread: 4 T^2 d multiplications per
 * layer and sequence.
 */
#ifndef ES_MAPS_H
#define ES_MAPS_H

#include "hooks/trainer/model/model.h"
#include "store/run.h"

/** A map is the mean over this number of sequences, the first ones added. */
#define ES_MAP_SEQUENCES 16

typedef struct es_maps es_maps;

/**
 * Creates maps without sequences.
 *
 *   size   cells per side, 1..ES_MAP_MAX; at most the context
 *   heads  true: a map of each head, and their mean for each layer; false:
 *          only the mean
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_maps_new(es_maps **out, const es_model_config *config, int size,
                      bool heads) ES_MUST_USE;
void es_maps_free(es_maps *maps); /* NULL is fine */

int es_maps_size(const es_maps *maps);
int es_maps_n_heads(const es_maps *maps); /* heads with separate maps: 0 or H */

/** Removes all sequences. */
void es_maps_reset(es_maps *maps);

/** Adds the sequences of the model's last forward pass, up to ES_MAP_SEQUENCES
 *  in total. ES_OK, ES_ENOMEM. */
es_status es_maps_add(es_maps *maps, es_model *model) ES_MUST_USE;

/**
 * Writes one map: out (S,S), row-major, queries by keys. A cell is the mean
 * weight over the pairs of its block in which the query sees the key;
 * es_missing() if there is no such pair, NaN if a row was not finite. All cells
 * are missing if no sequence was added.
 *
 *   head  0..H-1 if there are maps of heads, or ES_MAP_MEAN
 */
void es_maps_get(float *out, const es_maps *maps, int layer, int head);

#endif
