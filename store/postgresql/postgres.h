/**
 * Connections to PostgreSQL, by a URL or what else libpq understands. What
 * libpq takes from elsewhere it does here: PGHOST and the like, PGSERVICE and
 * service files, PGPASSWORD, ~/.pgpass.
 *
 * A password is in no message and in nothing that is printed: what is shown of
 * a URL lacks it. In this process the shown one opens the same database.
 */
#ifndef ES_POSTGRES_H
#define ES_POSTGRES_H

#include "store/postgresql/libpq.h"
#include <stdbool.h>
#include <sys/types.h>

/** A database as it was named. Parameters of ours are no part of what libpq
 *  is given. */
typedef struct es_postgres_url {
    char *conninfo; /* for libpq, with the password */
    char *base;     /* the same without: postgresql://user@host/db?service=x */
    char *shown;    /* that with parameters of ours, for messages and tables */
    char *where;    /* conditions, decoded; NULL: none */
    char *run;      /* a uuid, decoded; NULL: none */
} es_postgres_url;

/** It begins as a URL of PostgreSQL does: postgresql://, or postgres://. */
bool es_postgres_is_url(const char *path);

/**
 * Reads a URL or, for writers, libpq's KEYWORD=VALUE pairs, into a zeroed
 * `out`: es_postgres_url_free it in either case.
 *
 * ES_OK; ES_EUSAGE: no URL that libpq reads, an @ that is not written as %40,
 * a parameter of ours twice or empty; ES_EIO: no libpq; ES_ENOMEM.
 */
es_status es_postgres_url_read(es_postgres_url *out,
                               const char *text) ES_MUST_USE;
void es_postgres_url_free(es_postgres_url *url);

/**
 * Overwrites a URL by what is shown of it, which is no longer. This process
 * knows the password from then on. Returns as es_postgres_url_read.
 */
es_status es_postgres_hide_password(char *url) ES_MUST_USE;

typedef struct es_postgres {
    PGconn *connection;
    char *base; /* es_postgres_url's: messages begin with it */
    bool is_writer;
    pid_t owner; /* the process that opened it */
} es_postgres;

/**
 * Connects: within 10 s, unless the URL or PGCONNECT_TIMEOUT says otherwise.
 * Text is UTF-8, times are UTC. A reader's transactions are read-only. One
 * that was closed shortly before may be used again.
 *
 * ES_OK; ES_EIO: no server, no such database, a password that is refused or
 * missing; ES_ENOMEM.
 */
es_status es_postgres_open(es_postgres **out, const es_postgres_url *url,
                           bool is_writer) ES_MUST_USE;

/** NULL is fine. An open transaction is undone; in a forked child the
 *  connection is only forgotten. */
void es_postgres_close(es_postgres *postgres);

/**
 * Begins a reader's transaction, in which everything stays as it is now; an
 * earlier one ends. One exchange with the server.
 *
 *   out    what its first query, of less than 128 bytes, returns; es_pq.clear
 *          it
 */
es_status es_postgres_take_snapshot(PGresult **out, es_postgres *postgres,
                                    const char *query) ES_MUST_USE;

/** A command without rows. Returns as es_postgres_fail. */
es_status es_postgres_execute(es_postgres *postgres,
                              const char *sql) ES_MUST_USE;

/**
 * A query, or a command, with text parameters (n), NULL for NULL.
 *
 *   out   text; es_pq.clear it, also on failure (NULL then)
 */
es_status es_postgres_query(PGresult **out, es_postgres *postgres,
                            const char *sql, int n,
                            const char *const *parameters) ES_MUST_USE;

/**
 * es_fail for what a statement returned, which may be NULL, and clears it.
 *
 * ES_EIO: the connection was lost, no right, no space, a disk's error, a
 * shutdown; ES_ELOCKED: a lock, or a transaction to be tried again; ES_EFORMAT:
 * no tables of ours, or others; ES_ENOMEM; ES_EARGUMENT: a constraint.
 */
es_status es_postgres_fail(es_postgres *postgres, PGresult *result);

/** The connection is no more: to be opened again. */
bool es_postgres_is_lost(const es_postgres *postgres);

#endif
