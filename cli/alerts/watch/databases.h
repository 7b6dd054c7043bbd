/** The databases of a watcher: PostgreSQL, each named by a URL, and the runs
 *  that it has. */
#ifndef ES_DATABASES_H
#define ES_DATABASES_H

#include "cli/runs/tree.h"
#include "store/postgres_watch.h"

typedef struct es_watch_database {
    const char *root; /* the URL; borrowed */
    es_remote_watch *watch;
    es_paths urls; /* of the newest list that came whole, one for each run */
    int64_t *revisions; /* (urls.n) */
    bool lost;          /* it cannot be reached, which was reported */
} es_watch_database;

typedef struct es_watch_databases {
    es_watch_database *list; /* (n) */
    size_t n;
} es_watch_databases;

bool es_path_is_database(const char *path);

/**
 * Appends the runs of a database to `out`; of one that cannot be reached, which
 * is reported once, those that it had.
 *
 * ES_OK; ES_EIO and the like: it cannot be reached, and had none yet;
 * ES_EUSAGE; ES_ENOMEM.
 */
es_status es_watch_database_read(es_paths *out, es_watch_databases *databases,
                                 const char *root) ES_MUST_USE;

/** Of a run by its URL, as the newest list has it. */
es_stamp es_watch_database_stamp(const es_watch_databases *databases,
                                 const char *url);

/** One of them could not be reached when it was tried last. */
bool es_watch_database_is_lost(const es_watch_databases *databases,
                               const char *url);

void es_watch_databases_close(es_watch_databases *databases);

#endif
