/**
 * Reads the runs of a PostgreSQL database (postgres_schema.h). The rows of the
 * runs that a URL names are loaded into a private database, which no other
 * connection can open. The table `sample` of the private database is virtual;
 * its rows are fetched on request: for small runs all samples of several runs
 * at once, for large runs a part of one series. One transaction reads
 * everything, so that all data is from the moment when the URL was opened or
 * refreshed.
 */
#ifndef ES_POSTGRES_IN_H
#define ES_POSTGRES_IN_H

#include "store/store_internal.h"

/**
 * Number of seconds without a push after which a run no longer counts as being
 * written.
 */
#define ES_REMOTE_SILENT_S 900

/**
 * Creates the private database, sets the handle of `database`, which must be
 * zeroed, to it, and loads the runs. The caller must call es_remote_close, then
 * es_database_close, also on failure.
 *
 * Returns ES_OK; the errors of es_postgres_url_read and es_postgres_open;
 * ES_EFORMAT if the database lacks our tables; ES_EVERSION; ES_EUSAGE if where=
 * is invalid.
 */
es_status es_remote_open(es_remote **out, es_database *database,
                         const char *url) ES_MUST_USE;

/**
 * Loads the current state of the runs again. Reconnects if the connection was
 * lost.
 */
es_status es_remote_refresh(es_remote *remote) ES_MUST_USE;

/**
 * Frees `remote`. Must be called before es_database_close. `remote` may be
 * NULL.
 */
void es_remote_close(es_remote *remote);

/**
 * Returns true if any run is still being written, which means that it has not
 * ended and was pushed recently.
 */
bool es_remote_is_written(const es_remote *remote);

/**
 * Returns true if the run with the id `run_id` in the private database is still
 * being written.
 */
bool es_remote_is_run_written(const es_remote *remote, int64_t run_id);

/**
 * Loads the attention maps of the run with the id `run_id` in the private
 * database, and drops the maps of other runs.
 */
es_status es_remote_load_maps(es_remote *remote, int64_t run_id,
                              const char *uuid) ES_MUST_USE;

/** Returns the URL of one run in *out, which the caller must free. */
es_status es_remote_run_url(char **out, const es_remote *remote,
                            const char *uuid) ES_MUST_USE;

#endif
