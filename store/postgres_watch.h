/**
 * Watches the runs of a PostgreSQL database: lists the runs, detects changed
 * ones, and waits for alerts. A separate connection stays open with LISTEN; if
 * it is lost, it is reopened after 1, 2, 4 ... 60 s.
 */
#ifndef ES_POSTGRES_WATCH_H
#define ES_POSTGRES_WATCH_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_remote_watch es_remote_watch;

/** Creates a watch without connecting. Returns ES_OK, ES_EUSAGE (the URL or its
 *  where= is invalid), ES_EIO (no libpq), ES_ENOMEM. */
es_status es_remote_watch_open(es_remote_watch **out,
                               const char *url) ES_MUST_USE;

/** Closes the connection and frees; NULL is fine. */
void es_remote_watch_close(es_remote_watch *watch);

/**
 * Called for each run.
 *
 *   url       URL of one run, borrowed during the call
 *   revision  changes with each push that changes the run
 *
 * A return value other than ES_OK ends the iteration.
 */
typedef es_status es_remote_watch_handler(void *user, const char *url,
                                          int64_t revision);

/**
 * Calls `handler` for each run that the URL names, in alphabetical order of
 * their URLs.
 *
 * Returns ES_OK; ES_EIO: the database is unreachable, or it is too early to
 * retry (then with the last attempt's message); the errors of es_postgres_fail;
 * the handler's return value.
 */
es_status es_remote_watch_list(es_remote_watch *watch,
                               es_remote_watch_handler *handler,
                               void *user) ES_MUST_USE;

/** Returns a descriptor to poll for input; -1 if there is no connection. */
int es_remote_watch_fd(const es_remote_watch *watch);

/** Reads the received data. Returns true if an alert has arrived or the
 * connection is lost. */
bool es_remote_watch_heard(es_remote_watch *watch);

/** Returns a number that changes whenever any of the URL's runs changes; 0 if
 * the state is unknown. */
int64_t es_remote_state(const char *url);

#endif
