/* Implements a pusher: its connection, the creation of the tables, transactions
   and retention. push_run.c pushes the runs. */
#include "store/push/push.h"

#include "analyzer/base/checked.h"
#include "store/postgresql/postgres_schema.h"
#include "store/push/push_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- the tables ----------------------------------------------------------- */

/**
 * Runs a query that returns one integer. Sets *out to `missing` if the result
 * is NULL or has no row.
 */
static es_status query_integer(int64_t *out, es_postgres *postgres,
                               const char *sql, int64_t missing)
{
    PGresult *result = NULL;
    es_status status = es_postgres_query(&result, postgres, sql, 0, NULL);
    if (status == ES_OK)
        *out = es_pq.ntuples(result) < 1 || es_pq.getisnull(result, 0, 0)
                   ? missing
                   : strtoll(es_pq.getvalue(result, 0, 0), NULL, 10);
    es_pq.clear(result);
    return status;
}

/* Finds out whether the tables exist. Does not use to_regclass(), which within
 * a transaction may not see tables that another transaction has just
 * created. */
static es_status are_there(bool *out, es_postgres *postgres)
{
    int64_t there = 0;
    es_status status = query_integer(
        &there, postgres,
        "SELECT 1 FROM pg_class WHERE relname = 'about' AND relnamespace ="
        " (SELECT oid FROM pg_namespace WHERE nspname = 'entropy_scan')",
        0);
    *out = there != 0;
    return status;
}

/* Creates the tables if they do not exist. If several pushers find no tables,
 * one of them creates the tables while the others wait for the lock. */
static es_status make_tables(es_pusher *pusher)
{
    bool there;
    es_postgres *postgres = pusher->postgres;
    es_status status;
    if ((status = es_postgres_execute(
             postgres,
             "BEGIN; SELECT pg_advisory_xact_lock(" ES_POSTGRES_LOCK ")")) < 0)
        return status;
    pusher->in_transaction = true;
    status = are_there(&there, postgres);
    for (const char *const *sql = es_postgres_schema;
         status == ES_OK && !there && *sql; sql++)
        status = es_postgres_execute(postgres, *sql);
    return status < 0 ? status : es_pusher_commit(pusher);
}

static es_status check_tables(es_pusher *pusher)
{
    bool there;
    int64_t version = 0;
    es_status status = are_there(&there, pusher->postgres);
    if (status == ES_OK && !there)
        status = make_tables(pusher);
    if (status == ES_OK)
        status = query_integer(&version, pusher->postgres,
                               "SELECT schema FROM entropy_scan.about", 0);
    if (status == ES_OK && version > ES_POSTGRES_VERSION)
        status = es_fail(ES_EVERSION,
                         "%s: schema %lld is newer than this program's %d: "
                         "upgrade entropy-scan",
                         pusher->postgres->base, (long long)version,
                         ES_POSTGRES_VERSION);
    if (status == ES_OK && version < 1)
        status = es_fail(
            ES_EFORMAT,
            "%s: the schema entropy_scan was not made by this program: drop it",
            pusher->postgres->base);
    return status;
}

/* --- the connection ------------------------------------------------------- */

es_status es_pusher_connect(es_pusher *pusher)
{
    if (pusher->postgres && !es_postgres_is_lost(pusher->postgres))
        return ES_OK;
    es_postgres_close(pusher->postgres);
    pusher->postgres = NULL;
    pusher->in_transaction = false;
    es_status status = es_postgres_open(&pusher->postgres, pusher->url, true);
    if (status == ES_OK)
        status = check_tables(pusher);
    if (status < 0) {
        es_pusher_rollback(pusher);
        es_postgres_close(pusher->postgres);
        pusher->postgres = NULL;
    }
    return status;
}

es_status es_pusher_begin(es_pusher *pusher)
{
    es_status status = es_postgres_execute(
        pusher->postgres,
        "BEGIN; SELECT pg_advisory_xact_lock_shared(" ES_POSTGRES_KEEP_LOCK
        ")");
    pusher->in_transaction = status == ES_OK;
    return status;
}

es_status es_pusher_commit(es_pusher *pusher)
{
    es_status status = es_postgres_execute(pusher->postgres, "COMMIT");
    pusher->in_transaction = status < 0;
    return status;
}

void es_pusher_rollback(es_pusher *pusher)
{
    if (!pusher->postgres || !pusher->in_transaction)
        return;
    es_copy_in_abandon(&pusher->copy);
    es_pq.clear(es_pq.exec(pusher->postgres->connection, "ROLLBACK"));
    pusher->in_transaction = false;
}

bool es_pusher_may_retry(const es_pusher *pusher, es_status status)
{
    return status == ES_ELOCKED || !pusher->postgres ||
           es_postgres_is_lost(pusher->postgres);
}

/* The cause is recognised by the beginning of the error message: messages about
   the database begin with its URL, messages about the file with its path. */
bool es_pusher_is_blamed(const es_pusher *pusher, es_status status)
{
    const char *base = pusher->url->base;
    return es_pusher_may_retry(pusher, status) ||
           (status == ES_EIO && strncmp(es_message(), base, strlen(base)) == 0);
}

es_status es_pusher_open(es_pusher **out, const es_postgres_url *url,
                         double low_share)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a push");
    if (status < 0)
        return status;
    (*out)->url = url;
    (*out)->low_share = low_share;
    if ((status = es_pusher_connect(*out)) < 0) {
        es_pusher_close(*out);
        *out = NULL;
    }
    return status;
}

es_status es_pusher_open_another(es_pusher **out, const es_pusher *pusher)
{
    return es_pusher_open(out, pusher->url, pusher->low_share);
}

void es_push_counts_add(es_push_counts *to, const es_push_counts *more)
{
    to->runs += more->runs;
    to->changed += more->changed;
    to->same += more->same;
    to->samples += more->samples;
    to->cut += more->cut;
    to->events += more->events;
    to->maps += more->maps;
    to->alerts += more->alerts;
}

void es_pusher_close(es_pusher *pusher)
{
    if (!pusher)
        return;
    es_pusher_rollback(pusher);
    es_postgres_close(pusher->postgres);
    free(pusher);
}

/* --- retention ------------------------------------------------------------ */

int64_t es_push_changed_at(const es_run_info *info, int64_t file_changed_at)
{
    struct tm t = {0};
    int n = 0;
    if (!info->ended_at ||
        sscanf(info->ended_at, "%4d-%2d-%2dT%2d:%2d:%2d%n", &t.tm_year,
               &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec,
               &n) != 6 ||
        n != 19)
        return file_changed_at;
    t.tm_year -= 1900;
    t.tm_mon--;
    const time_t ended = timegm(&t), now = time(NULL);
    return ended < now ? (int64_t)ended : (int64_t)now;
}

es_status es_push_keep(es_pusher *pusher, double days, int64_t *n_runs)
{
    char text[64];
    const char *parameter = text;
    PGresult *result = NULL;
    es_status status = es_pusher_connect(pusher);
    snprintf(text, sizeof text, "%.9g", days);
    if (status == ES_OK)
        status =
            es_postgres_query(&result, pusher->postgres,
                              "SELECT entropy_scan.keep($1)", 1, &parameter);
    if (status == ES_OK)
        *n_runs = strtoll(es_pq.getvalue(result, 0, 0), NULL, 10);
    es_pq.clear(result);
    return status;
}

es_status es_push_find_last_step(es_pusher *pusher, const char *uuid,
                                 int64_t *last_step)
{
    PGresult *result = NULL;
    es_status status = es_pusher_connect(pusher);
    if (status == ES_OK)
        status = es_postgres_query(
            &result, pusher->postgres,
            "SELECT max(last_step) FROM entropy_scan.run WHERE uuid = $1", 1,
            &uuid);
    if (status == ES_OK)
        *last_step = es_pq.getisnull(result, 0, 0)
                         ? ES_UNKNOWN
                         : strtoll(es_pq.getvalue(result, 0, 0), NULL, 10);
    es_pq.clear(result);
    return status;
}
