/**
 * Attention maps: where the queries of a head look, on average.
 *
 * A map is what is left of a (T,T) matrix of attention weights when it is
 * averaged over sequences and over blocks of it: (S,S), S at most ES_MAP_MAX.
 * Maps are large, few, and off by default; so they have a table of their own
 * beside the four of the run file, which exists where there are maps. Programs
 * that know nothing of it leave it alone.
 */
#ifndef ES_MAP_H
#define ES_MAP_H

#include "store/reader.h"
#include "store/writer.h"

/** What makes the table. */
extern const char es_map_sql[];

/**
 * One map. A second one of the same place and step replaces the first.
 *
 *   values  (S,S) mean weights, queries by keys, row-major. NaN: a row in the
 *           block was not finite; es_missing(): no query of the block sees a
 *           key of it
 *
 * ES_OK; ES_EARGUMENT: out of bounds, nothing is changed; ES_EFORMAT: the file
 * has a table of this name that is not ours; ES_EIO.
 */
es_status es_writer_map(es_writer *writer, int64_t run_id, const es_map *map,
                        const float *values) ES_MUST_USE;

/** Those of a run from step on are deleted, as what is resumed writes them
 *  again. ES_OK, ES_EIO. */
es_status es_writer_cut_maps(es_writer *writer, int64_t run_id,
                             int64_t step) ES_MUST_USE;

/**
 * Called with each map, in order of (phase, step, layer, head), train first, a
 * layer's mean before its heads.
 *
 *   values  (S,S) borrowed during the call; NULL: they are damaged, as their
 *           checksum says
 *
 * What it returns ends the walk if it is not ES_OK.
 */
typedef es_status es_map_handler(void *user, const es_map *map,
                                 const float *values);

/**
 * Calls `handler` for the maps of a run; not once where it has none.
 *
 * ES_OK; ES_EFORMAT: the table is not ours, a map of it is out of bounds;
 * ES_EIO, ES_ENOMEM, ES_EFORK; what the handler returned.
 */
es_status es_reader_maps(es_reader *reader, size_t run, es_map_handler *handler,
                         void *user) ES_MUST_USE;

#endif
