/**
 * Who watches the runs of a PostgreSQL database: which there are, which have
 * changed, and when an alert came. A connection of its own stays open, LISTENs,
 * and is made anew, after 1, 2, 4 ... 60 s, when it was lost.
 */
#ifndef ES_POSTGRES_WATCH_H
#define ES_POSTGRES_WATCH_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_remote_watch es_remote_watch;

/** Does not connect. ES_OK, ES_EUSAGE (the URL, or its where=), ES_EIO (no
 *  libpq), ES_ENOMEM. */
es_status es_remote_watch_open(es_remote_watch **out,
                               const char *url) ES_MUST_USE;

/** NULL is fine. */
void es_remote_watch_close(es_remote_watch *watch);

/**
 *   url       of one run, borrowed during the call
 *   revision  another one after each push that changed the run
 *
 * What it returns ends the walk if it is not ES_OK.
 */
typedef es_status es_remote_watch_handler(void *user, const char *url,
                                          int64_t revision);

/**
 * Calls `handler` for each run that the URL names, in the order of their URLs'
 * letters.
 *
 * ES_OK; ES_EIO: the database cannot be reached, or it is too early to try
 * again: the message is that of the last try; es_postgres_fail's errors; what
 * the handler returned.
 */
es_status es_remote_watch_list(es_remote_watch *watch,
                               es_remote_watch_handler *handler,
                               void *user) ES_MUST_USE;

/** To be polled for input; -1: there is no connection. */
int es_remote_watch_fd(const es_remote_watch *watch);

/** Takes what has arrived. True: an alert came, or the connection was lost. */
bool es_remote_watch_heard(es_remote_watch *watch);

/** A number that is another one when any of the runs of a URL has changed; 0:
 *  it cannot be known. */
int64_t es_remote_state(const char *url);

#endif
