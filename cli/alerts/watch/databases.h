/**
 * The PostgreSQL databases of a watcher, each named by a URL, and their runs.
 */
#ifndef ES_DATABASES_H
#define ES_DATABASES_H

#include "cli/runs/tree.h"
#include "store/postgres_watch.h"

typedef struct es_watch_database {
    const char *root; /* URL of the database; borrowed */
    es_remote_watch *watch;
    es_paths urls;      /* URL of each run in the newest complete list */
    int64_t *revisions; /* (urls.n) revision of each run */
    bool lost;          /* it cannot be reached, which was reported */
} es_watch_database;

typedef struct es_watch_databases {
    es_watch_database *list; /* (n) */
    size_t n;
} es_watch_databases;

bool es_path_is_database(const char *path);

/**
 * Appends the runs of a database to `out`. If it cannot be reached, which is
 * reported once, appends the runs of the last list.
 *
 * ES_OK; ES_EIO and similar: it cannot be reached and has never been read;
 * ES_EUSAGE; ES_ENOMEM.
 */
es_status es_watch_database_read(es_paths *out, es_watch_databases *databases,
                                 const char *root) ES_MUST_USE;

/** Returns the revision of the run `url` in the newest list, as a stamp. */
es_stamp es_watch_database_stamp(const es_watch_databases *databases,
                                 const char *url);

/**
 * True if the database of the run `url` could not be reached when it was last
 * tried.
 */
bool es_watch_database_is_lost(const es_watch_databases *databases,
                               const char *url);

void es_watch_databases_close(es_watch_databases *databases);

#endif
