/**
 * Writes and reads attention maps, which show the average attention of a head's
 * queries to its keys.
 *
 * A map is a (T,T) matrix of attention weights, averaged over sequences and
 * over blocks of the matrix to (S,S), where S is at most ES_MAP_MAX. Maps are
 * large, rare and off by default; therefore they have a separate table in the
 * run file, which is created with the first map. Programs that do not know the
 * table ignore it.
 */
#ifndef ES_MAP_H
#define ES_MAP_H

#include "store/run.h"

struct es_reader;
struct es_writer;

/** The SQL statement that creates the table. */
extern const char es_map_sql[];

/**
 * Writes one map. Replaces an existing map of the same phase, step, layer and
 * head.
 *
 *   values  (S,S) mean weights, queries by keys, row-major. NaN if a row in the
 *           block was not finite; es_missing() if no query of the block sees
 *           any of the block's keys
 *
 * Returns ES_OK; ES_EARGUMENT if an argument is out of bounds; ES_EFORMAT if
 * the file has a table of this name with another schema; ES_EIO. After
 * ES_EARGUMENT the file is unchanged.
 */
es_status es_writer_map(struct es_writer *writer, int64_t run_id,
                        const es_map *map, const float *values) ES_MUST_USE;

/**
 * Receives each map in order of (phase, step, layer, head): the train phase
 * first, and the mean of a layer before the layer's heads.
 *
 *   values  (S,S) borrowed during the call; NULL if their checksum does not
 *           match
 *
 * A return value other than ES_OK ends the iteration.
 */
typedef es_status es_map_handler(void *user, const es_map *map,
                                 const float *values);

/**
 * Calls `handler` for each map of a run.
 *
 * Returns ES_OK, even if the run has no maps; ES_EFORMAT if the table has
 * another schema, or a map is out of bounds; ES_EIO, ES_ENOMEM or ES_EFORK; or
 * the handler's return value.
 */
es_status es_reader_maps(struct es_reader *reader, size_t run,
                         es_map_handler *handler, void *user) ES_MUST_USE;

#endif
