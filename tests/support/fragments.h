/** Fragments of a distributed training for tests, written and joined in a
 *  folder. Include cmocka first. */
#ifndef ES_TESTS_FRAGMENTS_H
#define ES_TESTS_FRAGMENTS_H

#include "store/join/join.h"

#define ES_RANKS_UUID "01234567-89ab-4def-8123-456789abcdef"
#define ES_RANKS_L 3 /* of the usual fragment */
#define ES_RANKS_H 2

/** A fragment that is written; what is zero or NULL is the usual. */
typedef struct es_rank_file {
    const char *name, *uuid, *ranks;
    int world, first_layer, n_layer, first_head, n_head;
} es_rank_file;

/** Begins its run, with this configuration or its own; returns run_id. */
int64_t es_rank_open_config(es_writer **writer, void **state,
                            const es_rank_file *file, const char *config);
int64_t es_rank_open(es_writer **writer, void **state,
                     const es_rank_file *file);
void es_rank_close(es_writer *writer, int64_t run);

/** One sample of a series of run, layer or head shape, as n says. */
void es_rank_put(es_writer *writer, int64_t run, const char *name,
                 es_phase phase, int64_t step, const float *values, size_t n);

/** Joins the files (n) into all.db; returns what es_join does. Its lines are
 *  es_rank_said, each with its end. */
es_status es_rank_join(void **state, const char *const *names, size_t n);
extern char es_rank_said[4096];

#endif
