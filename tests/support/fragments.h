/** Writes and joins fragments of a distributed training run in a folder, for
 *  tests. Include cmocka.h before this header. */
#ifndef ES_TESTS_FRAGMENTS_H
#define ES_TESTS_FRAGMENTS_H

#include "store/join/join.h"

#define ES_RANKS_UUID "01234567-89ab-4def-8123-456789abcdef"
#define ES_RANKS_L 3 /* number of layers of a fragment with default values */
#define ES_RANKS_H 2

/** Describes a fragment to write; members that are zero or NULL have default
 *  values. */
typedef struct es_rank_file {
    const char *name, *uuid, *ranks;
    int world, first_layer, n_layer, first_head, n_head;
} es_rank_file;

/** Open a file and begin its run, and return the run_id. open_config uses the
 *  given configuration; open uses a configuration that describes the
 *  fragment. */
int64_t es_rank_open_config(es_writer **writer, void **state,
                            const es_rank_file *file, const char *config);
int64_t es_rank_open(es_writer **writer, void **state,
                     const es_rank_file *file);
void es_rank_close(es_writer *writer, int64_t run);

/**
 * Writes one sample of n values. n determines the kind of the series: values of
 * the run, of layers or of heads.
 */
void es_rank_put(es_writer *writer, int64_t run, const char *name,
                 es_phase phase, int64_t step, const float *values, size_t n);

/** Joins the files (n) into all.db; returns the status of es_join. Appends the
 *  lines that es_join reports to es_rank_said, each with a newline. */
es_status es_rank_join(void **state, const char *const *names, size_t n);
extern char es_rank_said[4096];

#endif
