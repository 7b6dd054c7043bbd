/** Where one of a reader's runs is, for who opens it again. */
#ifndef ES_RUN_PLACE_H
#define ES_RUN_PLACE_H

#include "store/reader.h"

typedef struct es_run_place {
    char *path;    /* for es_reader_open; to be freed */
    size_t number; /* of the run in it, from 1 */
    size_t n_runs; /* that it has */
} es_run_place;

/**
 * A run file is the place of all of its runs; the runs that a URL of
 * PostgreSQL names have one each, which fetches no other.
 *
 * ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
es_status es_reader_place(es_run_place *out, const es_reader *reader,
                          size_t run) ES_MUST_USE;

/** As es_reader_is_written; in PostgreSQL, whether this run was pushed of
 *  late and has not ended. */
es_status es_reader_is_run_written(const es_reader *reader, size_t run,
                                   bool *out) ES_MUST_USE;

#endif
