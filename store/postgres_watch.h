/**
 * Watches the runs of a PostgreSQL database: lists the runs, detects changed
 * runs, and waits for alerts. A separate connection for LISTEN stays open; if
 * it is lost, it is reopened after 1, 2, 4 ... 60 s.
 */
#ifndef ES_POSTGRES_WATCH_H
#define ES_POSTGRES_WATCH_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_remote_watch es_remote_watch;

/**
 * Creates a watch without connecting to the server. Returns ES_OK, ES_EUSAGE
 * (the URL or its parameter where= is invalid), ES_EIO (no libpq), ES_ENOMEM.
 */
es_status es_remote_watch_open(es_remote_watch **out,
                               const char *url) ES_MUST_USE;

/** Closes the connection and frees `watch`, which may be NULL. */
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
 * Calls `handler` for each run that the URL names, in alphabetical order of the
 * runs' URLs.
 *
 * Returns ES_OK; ES_EIO if the database is unreachable, or if it is too early
 * for the next attempt to connect (with the message of the last attempt); the
 * errors of es_postgres_fail; the handler's return value.
 */
es_status es_remote_watch_list(es_remote_watch *watch,
                               es_remote_watch_handler *handler,
                               void *user) ES_MUST_USE;

/** Returns a descriptor to poll for input; -1 if there is no connection. */
int es_remote_watch_fd(const es_remote_watch *watch);

/** Reads the received data. Returns true if an alert has arrived or the
 * connection is lost. */
bool es_remote_watch_heard(es_remote_watch *watch);

#endif
