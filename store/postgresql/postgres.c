/* Manages connections to PostgreSQL: opens connections, keeps the last closed
   connection for reuse, runs statements, and reports each error as one line
   with a remedy. */
#include "store/postgresql/postgres.h"

#include "analyzer/base/checked.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the state of this process -------------------------------------------- */

/* State of this process. The last closed connection is kept and reused when the
 * same database is opened again, because each connection costs a process on the
 * server. The passwords of URLs are kept, too. */
static struct {
    pthread_mutex_t mutex;
    es_postgres *idle;
    struct {
        char *base, *conninfo;
    } * known;
    size_t n_known;
} ours = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/**
 * Finds the connection string with the password. The caller must not free
 * *conninfo, which belongs to this process's state or to `url`.
 */
static es_status look_up(const char **conninfo, const es_postgres_url *url)
{
    size_t i = 0;
    *conninfo = url->conninfo;
    while (i < ours.n_known && strcmp(ours.known[i].base, url->base) != 0)
        i++;
    if (strcmp(url->conninfo, url->base) == 0) { /* the URL has no password */
        if (i < ours.n_known)
            *conninfo = ours.known[i].conninfo;
        return ES_OK;
    }
    if (i < ours.n_known &&
        strcmp(ours.known[i].conninfo, url->conninfo) == 0) {
        *conninfo = ours.known[i].conninfo;
        return ES_OK;
    }
    char *base = NULL, *copy = NULL;
    es_status status;
    if ((status = es_copy_text(&base, url->base)) < 0 ||
        (status = es_copy_text(&copy, url->conninfo)) < 0 ||
        (status = es_grow(&ours.known, ours.n_known + 1, sizeof *ours.known,
                          "databases")) < 0) {
        free(base);
        free(copy);
        return status;
    }
    if (i == ours.n_known)
        ours.known[ours.n_known++].base = base;
    else
        free(base); /* the earlier connection string may be in use, so it is not
                       freed */
    ours.known[i].conninfo = copy;
    *conninfo = copy;
    return ES_OK;
}

static void discard(es_postgres *postgres)
{
    if (!postgres)
        return;
    if (postgres->connection && postgres->owner == getpid())
        es_pq.finish(postgres->connection);
    free(postgres->base);
    free(postgres);
}

es_status es_postgres_hide_password(char *text)
{
    es_postgres_url url = {0};
    const char *conninfo;
    es_status status = es_postgres_url_read(&url, text);
    if (status == ES_OK) {
        pthread_mutex_lock(&ours.mutex);
        status = look_up(&conninfo, &url);
        pthread_mutex_unlock(&ours.mutex);
    }
    if (status == ES_OK) {
        const size_t n = strlen(text);
        memset(text, '\0', n);
        memcpy(text, url.shown, strlen(url.shown));
    }
    es_postgres_url_free(&url);
    return status;
}

/**
 * Takes the idle connection for reuse. Returns NULL if it is a connection to
 * another database, or if the server has closed it.
 */
static es_postgres *take_idle(const es_postgres_url *url, bool is_writer)
{
    es_postgres *idle = ours.idle;
    if (!idle || idle->owner != getpid() || idle->is_writer != is_writer ||
        strcmp(idle->base, url->base) != 0)
        return NULL;
    ours.idle = NULL;
    /* Reading pending input detects that the server has closed the
       connection. */
    if (is_writer ? es_postgres_execute(idle, "SELECT 1") == ES_OK
                  : es_pq.consumeInput(idle->connection) &&
                        !es_postgres_is_lost(idle))
        return idle;
    discard(idle);
    return NULL;
}

/* --- errors --------------------------------------------------------------- */

static void cut_line(char *text)
{
    size_t n = strcspn(text, "\r\n");
    while (n && (text[n - 1] == ' ' || text[n - 1] == '.'))
        n--;
    text[n] = '\0';
}

static es_status fail_connection(const es_postgres *postgres)
{
    char reason[400];
    PGconn *c = postgres->connection;
    const char *remedy = "check host, port, database and user";
    if (es_pq.connectionNeedsPassword(c))
        remedy = "give a password by ~/.pgpass or PGPASSWORD";
    else if (es_pq.connectionUsedPassword(c))
        remedy = "check user, password and database";
    snprintf(reason, sizeof reason, "%s", es_pq.errorMessage(c));
    cut_line(reason);
    return es_fail(ES_EIO, "%s: %s: %s", postgres->base,
                   reason[0] ? reason : "cannot connect", remedy);
}

static const struct {
    const char *state; /* SQLSTATE or its first characters */
    es_status status;
    const char *remedy;
} remedies[] = {
    {"57P", ES_EIO, "the server ended the connection: try again"},
    {"08", ES_EIO, "the connection was lost: try again"},
    {"42501", ES_EIO, "ask the database's owner to GRANT it"},
    {"25006", ES_EIO, "the server or this user may only read"},
    {"53", ES_EIO, "check the server's disk, memory and connections"},
    {"58", ES_EIO, "see the server's log"},
    {"40", ES_ELOCKED, "another program changed it in the meantime: try again"},
    {"55P03", ES_ELOCKED, "another program holds a lock: try again"},
    {"57014", ES_EIO,
     "the query was cancelled, or exceeded the server's time limit"},
    {"42P01", ES_EFORMAT,
     "not a database of runs: entropy-scan push makes one"},
    {"3F000", ES_EFORMAT,
     "not a database of runs: entropy-scan push makes one"},
    {"42", ES_EFORMAT, "its tables are not those of this program"},
    {"XX", ES_EFORMAT, "damaged: see the server's log"},
    {"23", ES_EARGUMENT, "refused"},
};

bool es_postgres_is_lost(const es_postgres *postgres)
{
    return es_pq.status(postgres->connection) != ES_CONNECTION_OK;
}

es_status es_postgres_fail(es_postgres *postgres, PGresult *result)
{
    const char *state = NULL, *words = NULL;
    es_status status = ES_EIO;
    const char *remedy = "the database reported this error";
    char reason[400];
    if (result) {
        state = es_pq.resultErrorField(result, ES_PG_SQLSTATE);
        words = es_pq.resultErrorField(result, ES_PG_MESSAGE);
    }
    for (size_t i = 0; state && i < sizeof remedies / sizeof *remedies; i++)
        if (strncmp(state, remedies[i].state, strlen(remedies[i].state)) == 0) {
            status = remedies[i].status;
            remedy = remedies[i].remedy;
            break;
        }
    if (!state)
        remedy = "the connection was lost: try again";
    snprintf(reason, sizeof reason, "%s",
             words ? words : es_pq.errorMessage(postgres->connection));
    cut_line(reason);
    es_pq.clear(result);
    return es_fail(status, "%s: %s: %s", postgres->base,
                   reason[0] ? reason : "no answer", remedy);
}

static es_status check_owner(const es_postgres *postgres)
{
    if (postgres->owner == getpid())
        return ES_OK;
    return es_fail(ES_EFORK,
                   "%s: opened before a fork: open it again in this process",
                   postgres->base);
}

/* --- opening -------------------------------------------------------------- */

static void ignore(void *user, const char *message)
{
    (void)user, (void)message;
}

static es_status connect_to(es_postgres *postgres, const char *conninfo)
{
    enum { CAPACITY = 64 };
    const char *keywords[CAPACITY] = {"fallback_application_name",
                                      "tcp_user_timeout", "keepalives_idle"};
    const char *values[CAPACITY] = {"entropy-scan", "30000", "30"};
    int n = 3;
    if (!getenv("PGCONNECT_TIMEOUT")) {
        keywords[n] = "connect_timeout";
        values[n++] = "10";
    }
    es_libpq_option *options = es_pq.conninfoParse(conninfo, NULL);
    for (es_libpq_option *o = options; o && o->keyword && n < CAPACITY - 2; o++)
        if (o->val) { /* if a keyword occurs twice, libpq uses the last value */
            keywords[n] = o->keyword;
            values[n++] = o->val;
        }
    keywords[n] = "client_encoding";
    values[n++] = "UTF8";
    postgres->connection = es_pq.connectdbParams(keywords, values, 0);
    es_pq.conninfoFree(options);
    if (!postgres->connection)
        return es_fail(ES_ENOMEM, "%s: out of memory", postgres->base);
    if (es_postgres_is_lost(postgres))
        return fail_connection(postgres);
    es_pq.setNoticeProcessor(postgres->connection, ignore, NULL);
    if (es_pq.serverVersion(postgres->connection) < 120000)
        return es_fail(ES_EVERSION, "%s: PostgreSQL %d: 12 or later is needed",
                       postgres->base,
                       es_pq.serverVersion(postgres->connection) / 10000);
    /* Sequential scans are disabled for writers, because PostgreSQL would plan
     * them while the tables are small, and keep these plans when the tables
     * have grown. */
    return es_postgres_execute(
        postgres, postgres->is_writer
                      ? "SET TimeZone = 'UTC'; SET DateStyle = ISO;"
                        "SET enable_seqscan = off"
                      : "SET TimeZone = 'UTC'; SET DateStyle = ISO;"
                        "SET default_transaction_read_only = on");
}

static es_status open_new(es_postgres **out, const es_postgres_url *url,
                          bool is_writer)
{
    const char *conninfo;
    es_status status = es_alloc(out, 1, sizeof **out, "a database");
    if (status < 0)
        return status;
    (*out)->owner = getpid();
    (*out)->is_writer = is_writer;
    if ((status = es_copy_text(&(*out)->base, url->base)) < 0 ||
        (status = look_up(&conninfo, url)) < 0)
        return status;
    return connect_to(*out, conninfo);
}

es_status es_postgres_open(es_postgres **out, const es_postgres_url *url,
                           bool is_writer)
{
    es_status status = ES_OK;
    pthread_mutex_lock(&ours.mutex);
    *out = take_idle(url, is_writer);
    if (!*out && (status = open_new(out, url, is_writer)) < 0) {
        discard(*out);
        *out = NULL;
    }
    pthread_mutex_unlock(&ours.mutex);
    return status;
}

void es_postgres_close(es_postgres *postgres)
{
    if (!postgres)
        return;
    if (postgres->owner != getpid() || es_postgres_is_lost(postgres)) {
        discard(postgres);
        return;
    }
    PGresult *result = es_pq.exec(postgres->connection, "ROLLBACK; UNLISTEN *");
    const bool is_sound =
        result && es_pq.resultStatus(result) == ES_PGRES_COMMAND_OK;
    es_pq.clear(result);
    pthread_mutex_lock(&ours.mutex);
    es_postgres *old = ours.idle;
    ours.idle = is_sound ? postgres : old;
    pthread_mutex_unlock(&ours.mutex);
    discard(is_sound ? old : postgres);
}

/* --- statements ----------------------------------------------------------- */

es_status es_postgres_execute(es_postgres *postgres, const char *sql)
{
    es_status status = check_owner(postgres);
    if (status < 0)
        return status;
    PGresult *result = es_pq.exec(postgres->connection, sql);
    const int outcome = result ? es_pq.resultStatus(result) : -1;
    if (outcome != ES_PGRES_COMMAND_OK && outcome != ES_PGRES_TUPLES_OK)
        return es_postgres_fail(postgres, result);
    es_pq.clear(result);
    return ES_OK;
}

es_status es_postgres_query(PGresult **out, es_postgres *postgres,
                            const char *sql, int n,
                            const char *const *parameters)
{
    *out = NULL;
    es_status status = check_owner(postgres);
    if (status < 0)
        return status;
    PGresult *result = es_pq.execParams(postgres->connection, sql, n, NULL,
                                        parameters, NULL, NULL, 0);
    const int outcome = result ? es_pq.resultStatus(result) : -1;
    if (outcome != ES_PGRES_COMMAND_OK && outcome != ES_PGRES_TUPLES_OK)
        return es_postgres_fail(postgres, result);
    *out = result;
    return ES_OK;
}

es_status es_postgres_take_snapshot(PGresult **out, es_postgres *postgres,
                                    const char *query)
{
    char sql[256];
    *out = NULL;
    snprintf(sql, sizeof sql,
             "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; %s",
             query);
    es_status status = check_owner(postgres);
    if (status < 0)
        return status;
    PGresult *result = es_pq.exec(postgres->connection, sql);
    if (!result || es_pq.resultStatus(result) != ES_PGRES_TUPLES_OK)
        return es_postgres_fail(postgres, result);
    *out = result;
    return ES_OK;
}
