/* Watches the runs of a PostgreSQL database for entropy-scan watch: lists the
   runs in each round, and receives notifications by LISTEN between the
   rounds. */
#include "store/postgres_watch.h"

#include "analyzer/base/checked.h"
#include "store/postgres_in_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Maximum pause between two attempts to connect, in seconds. */
#define AGAIN_MOST 60

struct es_remote_watch {
    es_remote remote; /* only its URL and the conditions in the URL are used */
    int n_tries;      /* number of consecutive failed attempts to connect */
    time_t again;     /* time of the next attempt to connect, in seconds of a
                         monotonic clock */
    char problem[ES_MESSAGE_MAX];
};

static time_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

es_status es_remote_watch_open(es_remote_watch **out, const char *url)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a database's watcher");
    if (status == ES_OK &&
        ((status = es_postgres_url_read(&(*out)->remote.url, url)) < 0 ||
         (status = es_remote_where_read(&(*out)->remote)) < 0)) {
        es_remote_watch_close(*out);
        *out = NULL;
    }
    return status;
}

void es_remote_watch_close(es_remote_watch *watch)
{
    if (!watch)
        return;
    es_postgres_close(watch->remote.postgres);
    es_remote_where_free(&watch->remote);
    es_postgres_url_free(&watch->remote.url);
    free(watch);
}

/* --- the connection ------------------------------------------------------- */

static void close_connection(es_remote_watch *watch)
{
    es_postgres_close(watch->remote.postgres);
    watch->remote.postgres = NULL;
}

static es_status try_to_connect(es_remote *remote)
{
    es_status status;
    if ((status = es_postgres_open(&remote->postgres, &remote->url, false)) <
            0 ||
        (status = es_remote_begin(remote)) < 0)
        return status;
    return es_postgres_execute(remote->postgres,
                               "ROLLBACK; LISTEN entropy_scan_alert");
}

static es_status connect_to(es_remote_watch *watch)
{
    if (watch->remote.postgres)
        return ES_OK;
    if (watch->n_tries && now() < watch->again)
        return es_fail(ES_EIO, "%s", watch->problem);
    es_status status = try_to_connect(&watch->remote);
    if (status == ES_OK) {
        watch->n_tries = 0;
        return ES_OK;
    }
    snprintf(watch->problem, sizeof watch->problem, "%s", es_message());
    close_connection(watch);
    const int pause = watch->n_tries < 6 ? 1 << watch->n_tries : AGAIN_MOST;
    watch->n_tries++;
    watch->again = now() + pause;
    return es_fail(status, "%s", watch->problem);
}

int es_remote_watch_fd(const es_remote_watch *watch)
{
    return watch->remote.postgres
               ? es_pq.socket(watch->remote.postgres->connection)
               : -1;
}

bool es_remote_watch_heard(es_remote_watch *watch)
{
    es_libpq_notify *alert;
    bool heard = false;
    if (!watch->remote.postgres)
        return false;
    PGconn *connection = watch->remote.postgres->connection;
    if (!es_pq.consumeInput(connection) ||
        es_postgres_is_lost(watch->remote.postgres)) {
        close_connection(watch);
        return true;
    }
    while ((alert = es_pq.notifies(connection))) {
        heard = true;
        es_pq.freemem(alert);
    }
    return heard;
}

/* --- the runs ------------------------------------------------------------- */

static es_status hand_out(const es_remote *remote, const PGresult *rows,
                          es_remote_watch_handler *handler, void *user)
{
    es_status status = ES_OK;
    for (int i = 0; i < es_pq.ntuples(rows) && status == ES_OK; i++) {
        char *url;
        status = es_remote_run_url(&url, remote, es_pq.getvalue(rows, i, 0));
        if (status == ES_OK)
            status = handler(user, url,
                             strtoll(es_pq.getvalue(rows, i, 1), NULL, 10));
        free(url);
    }
    return status;
}

static es_status query_runs(PGresult **out, es_remote *remote, const char *what,
                            const char *order)
{
    char *sql;
    if (asprintf(&sql, "SELECT %s FROM entropy_scan.run WHERE true%s%s", what,
                 remote->where, order) < 0)
        return es_fail(ES_ENOMEM, "out of memory while building a query");
    es_status status =
        es_postgres_query(out, remote->postgres, sql, remote->n_parameters,
                          (const char *const *)remote->parameters);
    free(sql);
    return status;
}

es_status es_remote_watch_list(es_remote_watch *watch,
                               es_remote_watch_handler *handler, void *user)
{
    PGresult *rows = NULL;
    es_status status = connect_to(watch);
    if (status < 0)
        return status;
    status = query_runs(&rows, &watch->remote, "uuid, revision",
                        " ORDER BY uuid COLLATE \"C\"");
    if (status == ES_OK)
        status = hand_out(&watch->remote, rows, handler, user);
    es_pq.clear(rows);
    if (es_postgres_is_lost(watch->remote.postgres))
        close_connection(watch);
    return status;
}

int64_t es_remote_state(const char *url)
{
    es_remote_watch *watch;
    PGresult *rows = NULL;
    int64_t state = 0;
    if (es_remote_watch_open(&watch, url) < 0)
        return 0;
    es_remote *remote = &watch->remote;
    if (es_postgres_open(&remote->postgres, &remote->url, false) == ES_OK &&
        query_runs(&rows, remote, "sum(revision + 1)", "") == ES_OK)
        state = strtoll(es_pq.getvalue(rows, 0, 0), NULL, 10);
    if (rows)
        es_pq.clear(rows);
    es_remote_watch_close(watch);
    return state;
}
