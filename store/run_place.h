/**
 * Finds the path or URL under which one of a reader's runs is stored, so that a
 * caller can open the run again, and distinguishes files from databases.
 */
#ifndef ES_RUN_PLACE_H
#define ES_RUN_PLACE_H

#include "store/reader.h"

typedef struct es_run_place {
    char *path;    /* path or URL for es_reader_open; the caller must free it */
    size_t number; /* number of the run in `path`, from 1 */
    size_t n_runs; /* number of runs in `path` */
} es_run_place;

/**
 * Finds where the run with index `run` is stored. For a run file, *out contains
 * the path of the file. For a PostgreSQL URL, it contains a URL that names only
 * this run.
 *
 * Returns ES_OK, ES_EARGUMENT, ES_ENOMEM.
 */
es_status es_reader_place(es_run_place *out, const es_reader *reader,
                          size_t run) ES_MUST_USE;

/**
 * Sets *out to true if a run is still being written. For a file this is the
 * result of es_reader_is_written. In PostgreSQL a run is being written if it
 * has not ended and was pushed recently.
 */
es_status es_reader_is_run_written(const es_reader *reader, size_t run,
                                   bool *out) ES_MUST_USE;

/** Returns true if the path is the URL of a database instead of a file. */
bool es_path_is_url(const char *path);

/**
 * Overwrites a path with its displayed form, which contains no password, is not
 * longer, and can still be opened by this process. Does nothing for a file.
 * Returns ES_OK; ES_EUSAGE, ES_EIO or ES_ENOMEM if a URL cannot be parsed.
 */
es_status es_path_hide_password(char *path) ES_MUST_USE;

/**
 * Returns a number that changes whenever any of the runs that a URL names
 * changes. Returns 0 if the state is unknown, and for a file.
 */
int64_t es_path_state(const char *path);

#endif
