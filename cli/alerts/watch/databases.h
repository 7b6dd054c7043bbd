/**
 * Lists the runs in the PostgreSQL databases that a watcher reads. Each
 * database is named by a URL.
 */
#ifndef ES_DATABASES_H
#define ES_DATABASES_H

#include "cli/runs/tree.h"
#include "store/postgres_watch.h"
#include "store/run_place.h"

typedef struct es_watch_database {
    const char *root; /* URL of the database; borrowed */
    es_remote_watch *watch;
    es_paths urls;      /* URL of each run in the newest complete list */
    int64_t *revisions; /* revision of each of the urls.n runs, which changes
                           with each push */
    bool lost;          /* true if the database is unreachable and this has been
                           reported */
} es_watch_database;

typedef struct es_watch_databases {
    es_watch_database *list; /* (n) */
    size_t n;
} es_watch_databases;

/**
 * Appends the URLs of the runs in a database to `out`. If the database is
 * unreachable, reports this once and appends the runs of the last complete
 * list.
 *
 * Returns ES_OK; ES_EIO or a similar status if the database is unreachable and
 * has never been read; ES_EUSAGE; ES_ENOMEM.
 */
es_status es_watch_database_read(es_paths *out, es_watch_databases *databases,
                                 const char *root) ES_MUST_USE;

/**
 * Returns a stamp that contains the revision of the run `url` in the newest
 * list of the database's runs, so that the stamp changes with each push.
 */
es_stamp es_watch_database_stamp(const es_watch_databases *databases,
                                 const char *url);

/**
 * Returns true if the database of the run `url` was unreachable at the last
 * attempt.
 */
bool es_watch_database_is_lost(const es_watch_databases *databases,
                               const char *url);

void es_watch_databases_close(es_watch_databases *databases);

#endif
