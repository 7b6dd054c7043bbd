/**
 * Connects to PostgreSQL, by a URL or any other form that libpq understands.
 * The usual sources of libpq apply: PGHOST and the like, PGSERVICE and service
 * files, PGPASSWORD, ~/.pgpass.
 *
 * Passwords never appear in messages or other output: the shown form of a URL
 * has none. Within this process the shown form still opens the same database.
 */
#ifndef ES_POSTGRES_H
#define ES_POSTGRES_H

#include "store/postgresql/libpq.h"
#include <stdbool.h>
#include <sys/types.h>

/** A database as the user named it. Our parameters `where` and `run` are not
 * passed to libpq. */
typedef struct es_postgres_url {
    char *conninfo; /* connection string for libpq, with the password */
    char *base;  /* without the password: postgresql://user@host/db?service=x */
    char *shown; /* `base` with our parameters, for messages and tables */
    char *where; /* conditions, decoded; NULL without where= */
    char *run;   /* a uuid, decoded; NULL without run= */
} es_postgres_url;

/** Returns true if the path begins with postgresql:// or postgres://. */
bool es_postgres_is_url(const char *path);

/**
 * Reads a URL or, for writers, libpq's KEYWORD=VALUE pairs, into a zeroed
 * `out`; call es_postgres_url_free in either case.
 *
 * Returns ES_OK; ES_EUSAGE: libpq does not accept the URL, an @ is not written
 * as %40, or one of our parameters occurs twice or is empty; ES_EIO: libpq is
 * missing; ES_ENOMEM.
 */
es_status es_postgres_url_read(es_postgres_url *out,
                               const char *text) ES_MUST_USE;
void es_postgres_url_free(es_postgres_url *url);

/** Overwrites a URL with its shown form, which is not longer. This process
 * remembers the password. Same statuses as es_postgres_url_read. */
es_status es_postgres_hide_password(char *url) ES_MUST_USE;

typedef struct es_postgres {
    PGconn *connection;
    char *base; /* URL without the password, the beginning of messages */
    bool is_writer;
    pid_t owner; /* process that opened the connection */
} es_postgres;

/**
 * Connects; the timeout is 10 s unless the URL or PGCONNECT_TIMEOUT sets
 * another one. Text is UTF-8, times are UTC. A reader's transactions are
 * read-only. A recently closed connection may be reused.
 *
 * Returns ES_OK; ES_EIO: no server, no such database, a wrong or missing
 * password; ES_ENOMEM.
 */
es_status es_postgres_open(es_postgres **out, const es_postgres_url *url,
                           bool is_writer) ES_MUST_USE;

/** Closes a connection, which may be NULL. An open transaction is rolled back;
 *  a forked child only frees the object and leaves the connection alone. */
void es_postgres_close(es_postgres *postgres);

/**
 * Ends an earlier transaction of a reader and begins a new one, which sees the
 * current state of the database. One round trip to the server.
 *
 *   out    result of `query` (fewer than 128 bytes); free it with es_pq.clear
 */
es_status es_postgres_take_snapshot(PGresult **out, es_postgres *postgres,
                                    const char *query) ES_MUST_USE;

/** Runs a command that returns no rows. Returns ES_OK; the errors of
 *  es_postgres_fail.
 */
es_status es_postgres_execute(es_postgres *postgres,
                              const char *sql) ES_MUST_USE;

/**
 * Runs a query or a command with n text parameters; a NULL pointer is SQL's
 * NULL.
 *
 *   out   result with values as text; NULL on failure; free it with es_pq.clear
 */
es_status es_postgres_query(PGresult **out, es_postgres *postgres,
                            const char *sql, int n,
                            const char *const *parameters) ES_MUST_USE;

/**
 * Calls es_fail for a statement's result, which may be NULL, and clears the
 * result.
 *
 * ES_EIO: the connection was lost, no permission, no space, a disk error, a
 * shutdown; ES_ELOCKED: a lock, or a transaction to be retried; ES_EFORMAT: our
 * tables are missing or differ; ES_ENOMEM; ES_EARGUMENT: a constraint.
 */
es_status es_postgres_fail(es_postgres *postgres, PGresult *result);

/** Returns true if the connection is lost; the caller then has to open a new
 * one. */
bool es_postgres_is_lost(const es_postgres *postgres);

#endif
