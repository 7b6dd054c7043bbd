/**
 * The runs of a PostgreSQL database (postgres_schema.h) for readers: a private
 * database, which no other connection sees, with the rows of the runs that a
 * URL names; `sample` is a virtual table in it, whose rows are fetched when
 * they are requested: of small runs all, and of several at once, of large ones
 * a piece of a series. All is as it was when the URL was opened, or refreshed:
 * one transaction reads it.
 */
#ifndef ES_POSTGRES_IN_H
#define ES_POSTGRES_IN_H

#include "store/store_internal.h"

/** A run of whose program nothing was pushed for so long has none any more. */
#define ES_REMOTE_SILENT_S 900

/**
 * Makes the private database of a zeroed database, as its handle, and puts the
 * runs in. es_remote_close, then es_database_close, also on failure.
 *
 * ES_OK; es_postgres_url_read's and es_postgres_open's errors; ES_EFORMAT: no
 * tables of ours; ES_EVERSION; ES_EUSAGE: where= is wrong.
 */
es_status es_remote_open(es_remote **out, es_database *database,
                         const char *url) ES_MUST_USE;

/** Everything as it is now; the connection is made anew if it was lost. */
es_status es_remote_refresh(es_remote *remote) ES_MUST_USE;

/** Before the database is disconnected. NULL is fine. */
void es_remote_close(es_remote *remote);

/** Whether one of the runs is: it has not ended, and was pushed of late. */
bool es_remote_is_written(const es_remote *remote);

/** The same of one, by its number in the private database. */
bool es_remote_is_run_written(const es_remote *remote, int64_t run_id);

/** Puts the attention maps of one run, by its number in the private database,
 *  into that; those of another one leave it. */
es_status es_remote_load_maps(es_remote *remote, int64_t run_id,
                              const char *uuid) ES_MUST_USE;

/** The URL of one run alone, to be freed. */
es_status es_remote_run_url(char **out, const es_remote *remote,
                            const char *uuid) ES_MUST_USE;

#endif
