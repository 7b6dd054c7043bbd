/**
 * Connects to PostgreSQL by a URL or any other form that libpq accepts. libpq
 * also reads its usual sources: PGHOST and similar variables, PGSERVICE and
 * service files, PGPASSWORD, ~/.pgpass.
 *
 * Passwords never appear in messages or other output, because the displayed
 * form of a URL (`shown`) contains no password. This process remembers the
 * password, so that the displayed form still opens the same database.
 */
#ifndef ES_POSTGRES_H
#define ES_POSTGRES_H

#include "store/postgresql/libpq.h"
#include <stdbool.h>
#include <sys/types.h>

/**
 * A database as the user named it. The parameters `where` and `run` are those
 * of this program and are not passed to libpq.
 */
typedef struct es_postgres_url {
    char *conninfo; /* connection string for libpq, with the password */
    char *base;     /* conninfo without the password:
                       postgresql://user@host/db?service=x */
    char *shown;    /* the same as `base`, followed by where= and run= if they
                       are given; for messages and tables */
    char *where;    /* decoded conditions from the URL's parameter where=, or
                       NULL */
    char *run;      /* decoded uuid from the URL's parameter run=, or NULL */
} es_postgres_url;

/** Returns true if the path begins with postgresql:// or postgres://. */
bool es_postgres_is_url(const char *path);

/**
 * Parses a URL or, for writers, libpq's KEYWORD=VALUE pairs into `out`, which
 * must be zeroed. The caller must call es_postgres_url_free, even on failure.
 *
 * Returns ES_OK, ES_ENOMEM, or ES_EIO if libpq is missing. Returns ES_EUSAGE if
 * libpq does not accept the URL, an @ is not written as %40, or where= or run=
 * occurs twice or is empty.
 */
es_status es_postgres_url_read(es_postgres_url *out,
                               const char *text) ES_MUST_USE;
void es_postgres_url_free(es_postgres_url *url);

/**
 * Overwrites a URL with its displayed form, which contains no password and is
 * not longer. This process remembers the password. Returns the same statuses as
 * es_postgres_url_read.
 */
es_status es_postgres_hide_password(char *url) ES_MUST_USE;

typedef struct es_postgres {
    PGconn *connection;
    char *base; /* URL without the password; messages begin with it */
    bool is_writer;
    pid_t owner; /* process that opened the connection */
} es_postgres;

/**
 * Connects to a server. The timeout is 10 s unless the URL or PGCONNECT_TIMEOUT
 * sets it. Text is UTF-8, times are UTC. A reader's transactions are read-only.
 * A recently closed connection may be reused.
 *
 * Returns ES_OK or ES_ENOMEM, or ES_EIO if there is no server or no such
 * database, or if the password is wrong or missing.
 */
es_status es_postgres_open(es_postgres **out, const es_postgres_url *url,
                           bool is_writer) ES_MUST_USE;

/**
 * Closes a connection, which may be NULL. An open transaction is rolled back. A
 * forked child only frees the object and does not touch the connection.
 */
void es_postgres_close(es_postgres *postgres);

/**
 * Ends a reader's current transaction and begins a new transaction, which sees
 * the current state of the database. Takes one round trip to the server.
 *
 *   out    result of `query` (fewer than 128 bytes), which the caller must free
 *          with es_pq.clear
 */
es_status es_postgres_take_snapshot(PGresult **out, es_postgres *postgres,
                                    const char *query) ES_MUST_USE;

/** Runs a command that returns no rows. Returns ES_OK or the errors of
 *  es_postgres_fail. */
es_status es_postgres_execute(es_postgres *postgres,
                              const char *sql) ES_MUST_USE;

/**
 * Runs a query or a command with n text parameters. A NULL pointer stands for
 * SQL's NULL.
 *
 *   out   result with values as text, which the caller must free with
 *         es_pq.clear; NULL on failure
 */
es_status es_postgres_query(PGresult **out, es_postgres *postgres,
                            const char *sql, int n,
                            const char *const *parameters) ES_MUST_USE;

/**
 * Calls es_fail for the result of a failed statement, which may be NULL, and
 * clears the result.
 *
 * Returns one of these:
 *
 *   ES_EIO        the connection was lost, permission or space is missing, a
 *                 disk has failed, or the server shuts down
 *   ES_ELOCKED    another transaction holds a lock, or the transaction has to
 *                 be repeated
 *   ES_EFORMAT    our tables are missing or differ
 *   ES_EARGUMENT  a constraint is violated
 *   ES_ENOMEM     out of memory
 */
es_status es_postgres_fail(es_postgres *postgres, PGresult *result);

/**
 * Returns true if the connection is lost, so that the caller has to open a new
 * connection.
 */
bool es_postgres_is_lost(const es_postgres *postgres);

#endif
