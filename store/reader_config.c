/* Configurations of runs, which SQLite's JSON functions take apart: on a
   connection without a file, so that its statements are prepared once and not
   for each reader. One that is not in use is kept for the next call. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The members of the object ?1, and nothing of what is none. */
#define MEMBERS                                                                \
    "json_each(CASE WHEN json_valid(?1) THEN CASE json_type(?1) WHEN 'object'" \
    " THEN ?1 END END)"
#define MEMBER_COLUMNS                                                         \
    "key, type, CASE type WHEN 'null' THEN 'null' WHEN 'true' THEN 'true'"     \
    " WHEN 'false' THEN 'false' ELSE value END, value"

enum {
    SQL_NUMBER,  /* what the JSON ?1 has at the path ?2 */
    SQL_CONFIG,  /* the object ?1 without blanks; NULL if it is none */
    SQL_MEMBERS, /* of an object that has no other inside, as most */
    SQL_NESTED,  /* of any */
    N_SQL
};

static const char *const sql_text[N_SQL] = {
    [SQL_NUMBER] =
        "SELECT CASE WHEN json_valid(?1) THEN json_extract(?1, ?2) END",
    [SQL_CONFIG] = "SELECT CASE WHEN json_valid(?1) THEN"
                   " CASE json_type(?1) WHEN 'object' THEN json(?1) END END",
    [SQL_MEMBERS] = "SELECT " MEMBER_COLUMNS " FROM " MEMBERS,
    [SQL_NESTED] =
        "WITH RECURSIVE member(key, type, value, depth) AS ("
        " SELECT key, type, value, 1 FROM " MEMBERS
        " UNION ALL SELECT member.key || '.' || inner.key, inner.type,"
        " inner.value, depth + 1"
        " FROM member, json_each(member.value) AS inner"
        " WHERE member.type = 'object' AND depth < 8)"
        "SELECT " MEMBER_COLUMNS " FROM member"
        " WHERE type <> 'object' OR value = '{}' OR depth = 8"};

/* --- connections ---------------------------------------------------------- */

typedef struct parser {
    es_database database; /* its path is the reader's */
    sqlite3_stmt *statements[N_SQL];
} parser;

static _Atomic(parser *) spare;

static void close_parser(parser *p)
{
    if (!p)
        return;
    es_database_finalise_all(&p->database, p->statements, N_SQL);
    p->database.path = NULL;
    es_database_close(&p->database);
    free(p);
}

static void put_back(parser *p)
{
    close_parser(atomic_exchange(&spare, p));
}

/** A statement of a connection that nobody else uses until it is put back. */
static es_status take(parser **out, sqlite3_stmt **statement,
                      const es_reader *reader, int sql)
{
    parser *p = atomic_exchange(&spare, NULL);
    es_status status = ES_OK;
    *out = NULL;
    if (!p && (status = es_alloc(&p, 1, sizeof *p, "a configuration")) < 0)
        return status;
    p->database.path = reader->database.path;
    p->database.owner = getpid(); /* without a file a fork takes nothing away */
    if (!p->database.handle)
        status = es_database_open_private(&p->database);
    if (status == ES_OK && !p->statements[sql])
        status = es_database_prepare(&p->database, &p->statements[sql],
                                     sql_text[sql]);
    if (status < 0) {
        close_parser(p);
        return status;
    }
    *out = p;
    *statement = p->statements[sql];
    return ES_OK;
}

static void end(parser *p, sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    put_back(p);
}

/** The configuration of a run; *out is NULL if it has none. */
static es_status find_config(const char **out, const es_reader *reader,
                             size_t index)
{
    const es_stored_run *run = es_reader_find_run(reader, index);
    *out = NULL;
    if (!run)
        return ES_EARGUMENT;
    *out = run->info.config;
    return es_database_check_owner(&reader->database);
}

/* --- members -------------------------------------------------------------- */

/** A number of a run's configuration, in the type that it has there; the other
 *  is NULL or left alone, as both are where it has none. */
static es_status read_number(es_reader *reader, size_t index, const char *path,
                             int64_t *integer, double *real)
{
    parser *p;
    sqlite3_stmt *s;
    const char *config;
    es_status status = find_config(&config, reader, index);
    if (status < 0 || !config ||
        (status = take(&p, &s, reader, SQL_NUMBER)) < 0)
        return status;
    es_bind_text(s, 1, config);
    es_bind_text(s, 2, path);
    int rc = sqlite3_step(s);
    int type = rc == SQLITE_ROW ? sqlite3_column_type(s, 0) : SQLITE_NULL;
    if (type == SQLITE_INTEGER && integer)
        *integer = sqlite3_column_int64(s, 0);
    if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && real)
        *real = sqlite3_column_double(s, 0);
    status = es_database_status(&p->database, rc);
    end(p, s);
    return status;
}

es_status es_reader_planned_steps(es_reader *reader, size_t index, int64_t *out)
{
    int64_t steps = 0;
    es_status status = read_number(reader, index, "$.steps", &steps, NULL);
    *out = steps > 0 ? steps : ES_UNKNOWN;
    return status;
}

es_status es_reader_ceiling(es_reader *reader, size_t index, double *out)
{
    double ceiling = NAN;
    es_status status = read_number(reader, index, "$.ceiling", NULL, &ceiling);
    *out = ceiling > 0 && isfinite(ceiling) ? ceiling : NAN;
    return status;
}

es_status es_reader_config(es_reader *reader, size_t index, char **out)
{
    parser *p;
    sqlite3_stmt *s;
    const char *config;
    *out = NULL;
    es_status status = find_config(&config, reader, index);
    if (status < 0 || !config ||
        (status = take(&p, &s, reader, SQL_CONFIG)) < 0)
        return status;
    es_bind_text(s, 1, config);
    int rc = sqlite3_step(s);
    status = es_database_status(&p->database, rc);
    if (rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        status = es_copy_text(out, text);
        if (!text)
            status = es_fail(ES_ENOMEM, "out of memory for a configuration");
    }
    end(p, s);
    return status;
}

static es_config_kind config_kind_of(const char *type)
{
    static const struct {
        const char *type;
        es_config_kind kind;
    } kinds[] = {
        {"null", ES_CONFIG_NULL},     {"true", ES_CONFIG_BOOLEAN},
        {"false", ES_CONFIG_BOOLEAN}, {"integer", ES_CONFIG_NUMBER},
        {"real", ES_CONFIG_NUMBER},   {"text", ES_CONFIG_TEXT},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].kind;
    return ES_CONFIG_NESTED;
}

/** Calls the handler for the member in the statement's row. */
static es_status pass_member(const es_reader *reader, sqlite3_stmt *s,
                             es_config_handler *handler, void *user)
{
    const char *type = (const char *)sqlite3_column_text(s, 1);
    es_config_member member = {
        .key = (const char *)sqlite3_column_text(s, 0),
        .text = (const char *)sqlite3_column_text(s, 2),
        .number = sqlite3_column_double(s, 3),
    };
    if (!member.key || !type || !member.text)
        return es_fail(ES_ENOMEM, "%s: out of memory", reader->database.path);
    member.kind = config_kind_of(type);
    if (member.kind != ES_CONFIG_NUMBER)
        member.number = NAN;
    return handler(user, &member);
}

es_status es_reader_config_each(es_reader *reader, size_t index,
                                es_config_handler *handler, void *user)
{
    parser *p;
    sqlite3_stmt *s;
    const char *config;
    es_status status = find_config(&config, reader, index);
    if (status < 0 || !config)
        return status;
    const char *object = strchr(config, '{');
    const bool nested = object && strchr(object + 1, '{');
    if ((status = take(&p, &s, reader, nested ? SQL_NESTED : SQL_MEMBERS)) < 0)
        return status;
    es_bind_text(s, 1, config);
    int rc = SQLITE_DONE;
    while (status == ES_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
        status = pass_member(reader, s, handler, user);
    if (status == ES_OK)
        status = es_database_status(&p->database, rc);
    end(p, s);
    return status;
}
