/* Reads the configurations of runs with SQLite's JSON functions. Uses a
   connection to an in-memory database, so that statements are prepared only
   once and not for each reader. One idle connection is kept for the next
   call. */
#include "store/layers.h"
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Malformed JSON makes a statement fail, which parsed_status() treats as a
   result without rows. The statement could test json_valid() instead, but
   before SQLite 3.42 json_valid() returns 0 if memory is short, and the run
   would then seem to have no configuration. */

/* Selects the members of the object ?1. There are no rows if ?1 is not an
 * object. */
#define MEMBERS "json_each(CASE json_type(?1) WHEN 'object' THEN ?1 END)"
#define MEMBER_COLUMNS                                                         \
    "key, type, CASE type WHEN 'null' THEN 'null' WHEN 'true' THEN 'true'"     \
    " WHEN 'false' THEN 'false' ELSE value END, value"

/* Selects the elements of the array "layers" if it contains at least one
   object. The check is needed because other programs may store a number or a
   list of numbers under this name. */
#define LAYERS                                                                 \
    "json_each(CASE WHEN json_type(?1, '$.layers') = 'array' AND EXISTS"       \
    " (SELECT 1 FROM json_each(?1, '$.layers') WHERE type = 'object')"         \
    " THEN ?1 END, '$.layers')"
#define LAYER_OBJECT "CASE type WHEN 'object' THEN value END"

enum {
    SQL_NUMBER,   /* value at path ?2 of the JSON ?1 */
    SQL_CONFIG,   /* object ?1 without blanks; NULL if ?1 is not an object */
    SQL_MEMBERS,  /* members of an object that contains no objects, which is the
                     usual case */
    SQL_NESTED,   /* members of an object that contains objects */
    SQL_LAYERS,   /* elements of the array "layers" */
    SQL_CEILINGS, /* ceilings of each layer, either one number or one number per
                     head */
    N_SQL
};

static const char *const sql_text[N_SQL] = {
    [SQL_NUMBER] = "SELECT json_extract(?1, ?2)",
    [SQL_CONFIG] = "SELECT CASE json_type(?1) WHEN 'object' THEN json(?1) END",
    [SQL_MEMBERS] = "SELECT " MEMBER_COLUMNS " FROM " MEMBERS,
    [SQL_NESTED] =
        "WITH RECURSIVE member(key, type, value, depth) AS ("
        " SELECT key, type, value, 1 FROM " MEMBERS
        " UNION ALL SELECT member.key || '.' || inner.key, inner.type,"
        " inner.value, depth + 1"
        " FROM member, json_each(member.value) AS inner"
        " WHERE member.type = 'object' AND depth < 8)"
        "SELECT " MEMBER_COLUMNS " FROM member"
        " WHERE type <> 'object' OR value = '{}' OR depth = 8",
    [SQL_LAYERS] =
        "SELECT type, json_type(object, '$.name'),"
        " json_extract(object, '$.name'), json_type(object, '$.kind'),"
        " json_extract(object, '$.kind'), json_type(object, '$.ceiling'),"
        " json_array_length(object, '$.ceiling')"
        " FROM (SELECT key, type, " LAYER_OBJECT " AS object FROM " LAYERS ")"
        " ORDER BY key",
    [SQL_CEILINGS] =
        "SELECT layer.key, layer.of, head.type, head.value"
        " FROM (SELECT key, object, json_type(object, '$.ceiling') AS of"
        " FROM (SELECT key, " LAYER_OBJECT " AS object FROM " LAYERS ")) AS"
        " layer, json_each(layer.object, '$.ceiling') AS head"
        " WHERE layer.of IN ('integer', 'real') OR layer.of = 'array'"
        " AND json_array_length(layer.object, '$.ceiling') = ?2"
        " ORDER BY layer.key, head.id"};

/* --- connections ---------------------------------------------------------- */

typedef struct parser {
    es_database database; /* its path is borrowed from the reader */
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

/**
 * Takes a connection for exclusive use until return_parser is called. Sets
 * *statement to the connection's statement number `sql`.
 */
static es_status borrow_parser(parser **out, sqlite3_stmt **statement,
                               const es_reader *reader, int sql)
{
    parser *p = atomic_exchange(&spare, NULL);
    es_status status = ES_OK;
    *out = NULL;
    if (!p && (status = es_alloc(&p, 1, sizeof *p, "a configuration")) < 0)
        return status;
    p->database.path = reader->database.path;
    p->database.owner = getpid(); /* a forked child may use the connection,
                                     because it has no file */
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

static void return_parser(parser *p, sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    put_back(p);
}

/**
 * Converts a result of sqlite3_step to a status. If the text is not JSON,
 * returns the status for the end of the rows.
 */
static es_status parsed_status(const parser *p, int rc)
{
    return rc == SQLITE_ERROR ? ES_OK : es_database_status(&p->database, rc);
}

/** Finds the configuration of a run. Sets *out to NULL if the run has none. */
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

/**
 * Reads a number of a run's configuration. Sets *integer if the number is an
 * integer, and *real if it is any number; either pointer may be NULL. Changes
 * neither if there is no number at this path.
 */
static es_status read_number(es_reader *reader, size_t index, const char *path,
                             int64_t *integer, double *real)
{
    parser *p;
    sqlite3_stmt *s;
    const char *config;
    es_status status = find_config(&config, reader, index);
    if (status < 0 || !config ||
        (status = borrow_parser(&p, &s, reader, SQL_NUMBER)) < 0)
        return status;
    es_bind_text(s, 1, config);
    es_bind_text(s, 2, path);
    int rc = sqlite3_step(s);
    int type = rc == SQLITE_ROW ? sqlite3_column_type(s, 0) : SQLITE_NULL;
    if (type == SQLITE_INTEGER && integer)
        *integer = sqlite3_column_int64(s, 0);
    if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && real)
        *real = sqlite3_column_double(s, 0);
    status = parsed_status(p, rc);
    return_parser(p, s);
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
        (status = borrow_parser(&p, &s, reader, SQL_CONFIG)) < 0)
        return status;
    es_bind_text(s, 1, config);
    int rc = sqlite3_step(s);
    status = parsed_status(p, rc);
    if (rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        status = es_copy_text(out, text);
        if (!text)
            status = es_fail(ES_ENOMEM, "out of memory for a configuration");
    }
    return_parser(p, s);
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

/** Calls the handler for the member in the current row of the statement. */
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
    if ((status = borrow_parser(&p, &s, reader,
                                nested ? SQL_NESTED : SQL_MEMBERS)) < 0)
        return status;
    es_bind_text(s, 1, config);
    int rc = SQLITE_DONE;
    while (status == ES_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
        status = pass_member(reader, s, handler, user);
    if (status == ES_OK)
        status = parsed_status(p, rc);
    return_parser(p, s);
    return status;
}

/* --- layers ---------------------------------------------------------------*/

static const char *const kind_names[ES_N_LAYER_KINDS] = {
    [ES_LAYER_UNKNOWN] = "",        [ES_LAYER_FULL] = "full",
    [ES_LAYER_WINDOW] = "window",   [ES_LAYER_CROSS] = "cross",
    [ES_LAYER_ENCODER] = "encoder", [ES_LAYER_LINEAR] = "linear",
    [ES_LAYER_SPARSE] = "sparse",
};

const char *es_layer_kind_name(es_layer_kind kind)
{
    return kind_names[kind];
}

/* Returns the kind of layers with this name, or ES_LAYER_UNKNOWN if this
 * version of the program does not know the name. */
static es_layer_kind layer_kind_of(const char *name)
{
    for (int i = 1; i < ES_N_LAYER_KINDS; i++)
        if (strcmp(name, kind_names[i]) == 0)
            return (es_layer_kind)i;
    return ES_LAYER_UNKNOWN;
}

static bool is_type(sqlite3_stmt *s, int column, const char *type)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text && strcmp(text, type) == 0;
}

/* Returns true if the optional member in `column` is missing or null. */
static bool is_absent(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL ||
           is_type(s, column, "null");
}

static bool is_number(sqlite3_stmt *s, int column)
{
    return is_type(s, column, "integer") || is_type(s, column, "real");
}

/* Reads a row of SQL_LAYERS into the layer with index `at`. */
static es_status read_layer(es_layers *to, size_t at, sqlite3_stmt *s)
{
    if (!is_type(s, 0, "object")) {
        to->n_malformed += !is_type(s, 0, "null");
        return ES_OK;
    }
    const char *name = (const char *)sqlite3_column_text(s, 2);
    const char *kind = (const char *)sqlite3_column_text(s, 4);
    const bool fits = is_number(s, 5) || (is_type(s, 5, "array") &&
                                          sqlite3_column_int64(s, 6) ==
                                              (sqlite3_int64)to->n_heads);
    to->n_malformed += !is_absent(s, 5) && !fits;
    if (is_type(s, 3, "text") && kind)
        to->list[at].kind = layer_kind_of(kind);
    else
        to->n_malformed += !is_absent(s, 3);
    to->has_kinds = to->has_kinds || to->list[at].kind != ES_LAYER_UNKNOWN;
    if (is_type(s, 1, "text") && name && *name)
        return es_copy_text(&to->list[at].name, name);
    to->n_malformed += !is_absent(s, 1) && !is_type(s, 1, "text");
    return ES_OK;
}

/* Reads a row of SQL_CEILINGS, which contains the ceiling of all heads of a
   layer, or of the head with number `head`. */
static es_status read_ceiling(es_layers *to, size_t head, sqlite3_stmt *s)
{
    const size_t n_heads = to->n_heads, n_values = to->n_layers * n_heads;
    const bool each = is_type(s, 1, "array");
    const double ceiling = sqlite3_column_double(s, 3);
    if (!is_number(s, 2) || !isfinite(ceiling) || ceiling < 0) {
        to->n_malformed += !is_type(s, 2, "null");
        return ES_OK;
    }
    if (!to->ceilings) {
        es_status status =
            es_alloc(&to->ceilings, n_values, sizeof *to->ceilings, "ceilings");
        if (status < 0)
            return status;
        for (size_t i = 0; i < n_values; i++)
            to->ceilings[i] = NAN;
    }
    double *row = to->ceilings + (size_t)sqlite3_column_int64(s, 0) * n_heads;
    for (size_t h = each ? head : 0; h < (each ? head + 1 : n_heads); h++)
        row[h] = ceiling;
    return ES_OK;
}

static es_status read_list(es_layers *to, parser *p, sqlite3_stmt *s)
{
    es_status status = ES_OK;
    size_t n = 0;
    int rc = SQLITE_DONE;
    while (status == ES_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (n < to->n_layers)
            status = read_layer(to, n, s);
        n++;
    }
    if (status == ES_OK)
        status = parsed_status(p, rc);
    if (status < 0 || n == 0 || n == to->n_layers)
        return status < 0 ? status : n == 0 ? ES_DONE : ES_OK;
    for (size_t l = 0; l < to->n_layers; l++) {
        free(to->list[l].name);
        to->list[l] = (es_layer){.name = NULL};
    }
    to->n_malformed = n;
    to->has_kinds = false;
    return ES_DONE;
}

static es_status read_ceilings(es_layers *to, parser *p, sqlite3_stmt *s)
{
    es_status status = ES_OK;
    int64_t layer = -1;
    size_t head = 0;
    int rc = SQLITE_DONE;
    sqlite3_bind_int64(s, 2, (sqlite3_int64)to->n_heads);
    while (status == ES_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        head = sqlite3_column_int64(s, 0) == layer ? head + 1 : 0;
        layer = sqlite3_column_int64(s, 0);
        status = read_ceiling(to, head, s);
    }
    return status < 0 ? status : parsed_status(p, rc);
}

/* Runs SQL_LAYERS or SQL_CEILINGS on a configuration. */
static es_status read_part(es_layers *to, const es_reader *reader,
                           const char *config, int sql)
{
    parser *p;
    sqlite3_stmt *s;
    es_status status = borrow_parser(&p, &s, reader, sql);
    if (status < 0)
        return status;
    es_bind_text(s, 1, config);
    status = sql == SQL_LAYERS ? read_list(to, p, s) : read_ceilings(to, p, s);
    return_parser(p, s);
    return status;
}

es_status es_reader_layers(es_layers **out, es_reader *reader, size_t run)
{
    const char *config;
    es_layers *layers = NULL;
    es_status status = find_config(&config, reader, run);
    *out = NULL;
    if (status < 0 || !config || !strstr(config, "\"layers\""))
        return status;
    const es_run_info *info = &reader->contents.runs[run].info;
    if ((status = es_alloc(&layers, 1, sizeof *layers, "layers")) < 0)
        return status;
    layers->n_layers = (size_t)info->n_layer;
    layers->n_heads = (size_t)info->n_head;
    if ((status = es_alloc(&layers->list, layers->n_layers,
                           sizeof *layers->list, "layers")) == ES_OK &&
        (status = read_part(layers, reader, config, SQL_LAYERS)) == ES_OK)
        status = read_part(layers, reader, config, SQL_CEILINGS);
    if (status < 0 || (status == ES_DONE && !layers->n_malformed)) {
        es_layers_free(layers);
        return status < 0 ? status : ES_OK;
    }
    *out = layers;
    return ES_OK;
}

void es_layers_free(es_layers *layers)
{
    if (!layers)
        return;
    for (size_t l = 0; layers->list && l < layers->n_layers; l++)
        free(layers->list[l].name);
    free(layers->list);
    free(layers->ceilings);
    free(layers);
}

static bool is_same_name(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool es_layers_equal(const es_layers *a, const es_layers *b)
{
    if (!a || !b)
        return a == b;
    if (a->n_layers != b->n_layers || a->n_heads != b->n_heads ||
        !a->ceilings != !b->ceilings)
        return false;
    for (size_t l = 0; l < a->n_layers; l++)
        if (a->list[l].kind != b->list[l].kind ||
            !is_same_name(a->list[l].name, b->list[l].name))
            return false;
    return !a->ceilings ||
           memcmp(a->ceilings, b->ceilings,
                  a->n_layers * a->n_heads * sizeof *a->ceilings) == 0;
}

/* --- judging --------------------------------------------------------------*/

static bool is_finished_import(const es_run_info *info)
{
    static const char import[] = "entropy-scan import";
    return info->status == ES_RUN_FINISHED && info->program &&
           strncmp(info->program, import, sizeof import - 1) == 0;
}

es_status es_reader_judged(es_judge_run *out, es_reader *reader, size_t run,
                           const es_layers *layers)
{
    const es_stored_run *stored = es_reader_find_run(reader, run);
    es_status status;
    if (!stored)
        return ES_EARGUMENT;
    const es_run_info *info = &stored->info;
    const bool has_ctx = info->ctx >= 1 && info->ctx <= INT_MAX;
    *out = (es_judge_run){.n_layers = (int)info->n_layer,
                          .n_heads = (int)info->n_head,
                          .ctx = has_ctx ? (int)info->ctx : 0,
                          .ceilings = layers ? layers->ceilings : NULL};
    if ((status = es_reader_planned_steps(reader, run, &out->planned_steps)) <
            0 ||
        (status = es_reader_ceiling(reader, run, &out->ceiling)) < 0)
        return status;
    out->is_open_ended =
        out->planned_steps == ES_UNKNOWN && !is_finished_import(info);
    return ES_OK;
}
