/**
 * Declares the functions of libpq, PostgreSQL's client library, that store/
 * uses. libpq is loaded when a database is opened, so programs can be built and
 * run without it. Names, numbers and signatures are those of libpq-fe.h, whose
 * binary interface has not changed since PostgreSQL 9; a test compares them
 * with libpq-fe.h.
 */
#ifndef ES_LIBPQ_H
#define ES_LIBPQ_H

#include "analyzer/base/status.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

typedef struct es_libpq_option { /* PQconninfoOption */
    char *keyword, *envvar, *compiled, *val, *label, *dispchar;
    int dispsize;
} es_libpq_option;

typedef struct es_libpq_notify { /* PGnotify */
    char *relname;
    int be_pid;
    char *extra;
    struct es_libpq_notify *next;
} es_libpq_notify;

enum {
    ES_CONNECTION_OK = 0,
    ES_PGRES_COMMAND_OK = 1,
    ES_PGRES_TUPLES_OK = 2,
    ES_PGRES_COPY_OUT = 3,
    ES_PGRES_COPY_IN = 4,
    ES_PG_SQLSTATE = 'C',
    ES_PG_MESSAGE = 'M',
    ES_PG_DETAIL = 'D'
};

typedef void es_libpq_notice(void *user, const char *message);

/* Lists functions of libpq. `use` is a macro that is called with each
   function's return type, name without the prefix PQ, and parameters. */
#define ES_LIBPQ_CONNECTION(use)                                               \
    use(es_libpq_option *, conninfoParse,                                      \
        (const char *, char **)) use(void, conninfoFree, (es_libpq_option *))  \
        use(PGconn *, connectdbParams,                                         \
            (const char *const *, const char *const *, int))                   \
            use(void, finish, (PGconn *)) use(int, status, (const PGconn *))   \
                use(char *, errorMessage, (const PGconn *))                    \
                    use(int, connectionNeedsPassword, (const PGconn *))        \
                        use(int, connectionUsedPassword, (const PGconn *))     \
                            use(int, serverVersion, (const PGconn *)) use(     \
                                int, socket, (const PGconn *))                 \
                                use(int, consumeInput, (PGconn *)) use(        \
                                    es_libpq_notify *, notifies, (PGconn *))   \
                                    use(es_libpq_notice *, setNoticeProcessor, \
                                        (PGconn *, es_libpq_notice *, void *))
#define ES_LIBPQ_QUERIES(use)                                                  \
    use(PGresult *, exec, (PGconn *, const char *))                            \
        use(PGresult *, execParams,                                            \
            (PGconn *, const char *, int, const unsigned *,                    \
             const char *const *, const int *, const int *, int))              \
            use(PGresult *, prepare,                                           \
                (PGconn *, const char *, const char *, int, const unsigned *)) \
                use(PGresult *, execPrepared,                                  \
                    (PGconn *, const char *, int, const char *const *,         \
                     const int *, const int *,                                 \
                     int)) use(PGresult *, getResult, (PGconn *))              \
                    use(int, putCopyData, (PGconn *, const char *, int))       \
                        use(int, putCopyEnd, (PGconn *, const char *))         \
                            use(int, getCopyData, (PGconn *, char **, int))    \
                                use(void, freemem, (void *))
#define ES_LIBPQ_RESULTS(use)                                                  \
    use(int, resultStatus, (const PGresult *))                                 \
        use(char *, resultErrorField, (const PGresult *, int))                 \
            use(char *, cmdTuples, (PGresult *))                               \
                use(int, ntuples, (const PGresult *))                          \
                    use(char *, getvalue, (const PGresult *, int, int))        \
                        use(int, getlength, (const PGresult *, int, int))      \
                            use(int, getisnull, (const PGresult *, int, int))  \
                                use(void, clear, (PGresult *))
#define ES_LIBPQ(use)                                                          \
    ES_LIBPQ_CONNECTION(use) ES_LIBPQ_QUERIES(use) ES_LIBPQ_RESULTS(use)

#define ES_LIBPQ_MEMBER(returned, name, parameters) returned(*name) parameters;
typedef struct es_libpq {
    ES_LIBPQ(ES_LIBPQ_MEMBER)
} es_libpq;

/** The loaded functions, set by es_libpq_load. */
extern es_libpq es_pq;

/**
 * Loads libpq unless it is already loaded. Returns ES_OK; ES_EIO if libpq.so.5
 * is not installed. May be called by any thread.
 */
es_status es_libpq_load(void) ES_MUST_USE;

#endif
