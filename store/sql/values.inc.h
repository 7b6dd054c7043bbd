/**
 * Implements es_values, a table-valued function that returns every value of
 * every sample as a row.
 *
 *     SELECT step, layer, head, value FROM es_values('entropy')
 *     WHERE step BETWEEN 100 AND 200 AND state = 'value';
 *
 * The columns are run, step, layer, head, value and state. The hidden columns
 * are series, phase, run_id and series_id, of which series and phase are the
 * function's arguments. state is 'value', 'nan', 'missing' or 'damaged'; value
 * is NULL unless state is 'value'.
 *
 * This file is included by values.c, for the connections that this program
 * opens, and by extension.c, which uses the sqlite3_ functions of the program
 * that loads it. Conditions on step, run_id, series_id, run, series and phase
 * become conditions of the query in prepare(), so that only the wanted steps
 * are read; conditions on layer and head select values within a sample. SQLite
 * checks every condition again. Files are untrusted: lengths and limits are
 * checked before values are read.
 */
#include "analyzer/base/value.h"
#include "store/sql/source.h"
#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

enum column {
    COLUMN_RUN,
    COLUMN_STEP,
    COLUMN_LAYER,
    COLUMN_HEAD,
    COLUMN_VALUE,
    COLUMN_STATE,
    COLUMN_SERIES,
    COLUMN_PHASE,
    COLUMN_RUN_ID,
    COLUMN_SERIES_ID,
    N_COLUMNS
};

static const char declaration[] =
    "CREATE TABLE x(run TEXT, step INTEGER, layer INTEGER, head INTEGER,"
    " value REAL, state TEXT, series TEXT HIDDEN, phase TEXT HIDDEN,"
    " run_id INTEGER HIDDEN, series_id INTEGER HIDDEN)";

/* Columns of the query over run, series and sample, which prepare()
 * composes. */
enum {
    ROW_RUN_ID,
    ROW_RUN,
    ROW_UUID,
    ROW_LAYERS,
    ROW_HEADS,
    ROW_SERIES_ID,
    ROW_SERIES,
    ROW_PHASE,
    ROW_SHAPE,
    ROW_STEP,
    ROW_BLOB,
    ROW_CRC
};

/* Columns of es_values whose conditions are evaluated by the query that
 * prepare() composes, with the name of each column in that query. */
static const char *const conditions[N_COLUMNS] = {
    [COLUMN_RUN] = "r.name",      [COLUMN_STEP] = "m.step",
    [COLUMN_SERIES] = "s.name",   [COLUMN_PHASE] = "s.phase",
    [COLUMN_RUN_ID] = "r.run_id", [COLUMN_SERIES_ID] = "s.series_id",
};

typedef struct values_table {
    sqlite3_vtab base; /* must be the first member, because SQLite passes its
                          address */
    es_sql_sources *sources;
    es_sql_sources own; /* list that contains only the connection itself; used
                           by the extension */
    es_sql_source source;
    char *schema;
} values_table;

typedef struct values_cursor {
    sqlite3_vtab_cursor base;
    char *where;           /* SQL text of the conditions in the current query */
    sqlite3_value **given; /* (n_given) right-hand sides of the conditions */
    bool *is_id; /* (n_given) true if the condition is on run_id or series_id */
    int n_given;
    size_t source; /* index of the source that is being read */
    sqlite3_stmt *query;
    sqlite3_int64 row_number;

    /* The following members describe the sample in the query's current row. */
    const unsigned char *bytes; /* (4 * n) bytes of the values, or NULL if
                                   the sample is damaged */
    size_t n, at;               /* number of values in the sample, and index of
                                   the current value */
    size_t n_heads;
    es_shape shape;
    sqlite3_int64 layer, head; /* layer and head to return; -1 for all layers or
                                  all heads */
} values_cursor;

/* --- the table ------------------------------------------------------------*/

static int values_fail(sqlite3_vtab *table, int rc, const char *message)
{
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("es_values: %s", message);
    return rc;
}

static int values_disconnect(sqlite3_vtab *base)
{
    values_table *table = (values_table *)base;
    sqlite3_free(table->schema);
    sqlite3_free(table);
    return SQLITE_OK;
}

/* Creates the virtual table. argv contains the names of the module, schema and
   table and, for CREATE VIRTUAL TABLE, the schema of an attached run file. */
static int values_connect(sqlite3 *db, void *sources, int argc,
                          const char *const *argv, sqlite3_vtab **out,
                          char **message)
{
    (void)message;
    values_table *table = sqlite3_malloc64(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->schema = sqlite3_mprintf("%s", argc > 3 ? argv[3] : argv[1]);
    table->source = (es_sql_source){.handle = db, .schema = table->schema};
    table->own = (es_sql_sources){.list = &table->source, .n = 1};
    table->sources = sources ? sources : &table->own;
    int rc =
        table->schema ? sqlite3_declare_vtab(db, declaration) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    if (rc == SQLITE_OK)
        *out = &table->base;
    else
        values_disconnect(&table->base);
    return rc;
}

/* --- planning -------------------------------------------------------------*/

/* Returns the SQL operator of a condition, or NULL if the condition cannot
 * become part of the query. */
static const char *operator_of(sqlite3_index_info *info, int i)
{
    int column = info->aConstraint[i].iColumn;
    if (!info->aConstraint[i].usable || column < 0)
        return NULL;
    bool text = column == COLUMN_RUN || column == COLUMN_SERIES ||
                column == COLUMN_PHASE;
    if (text && sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
        return NULL;
    if (!conditions[column] && column != COLUMN_LAYER && column != COLUMN_HEAD)
        return NULL;
    switch (info->aConstraint[i].op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return "=";
    case SQLITE_INDEX_CONSTRAINT_GT:
        return column == COLUMN_STEP ? ">" : NULL;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return column == COLUMN_STEP ? ">=" : NULL;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return column == COLUMN_STEP ? "<" : NULL;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return column == COLUMN_STEP ? "<=" : NULL;
    default:
        return NULL;
    }
}

/* Estimates the factor by which a condition reduces the number of rows to
 * read. */
static double factor_of(int column, const char *comparison)
{
    if (column == COLUMN_STEP)
        return comparison[0] == '=' ? 1e-3 : 0.25;
    return column == COLUMN_LAYER || column == COLUMN_HEAD ? 0.3 : 0.1;
}

/* Chooses the conditions that become part of the query. Sets idxStr to "COLUMN
   OPERATOR" for each of them; xFilter gets their right-hand sides in the same
   order. */
static int values_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    int n = 0;
    double cost = 1e8;
    sqlite3_str *plan = sqlite3_str_new(NULL);
    for (int i = 0; i < info->nConstraint; i++) {
        const char *comparison = operator_of(info, i);
        if (!comparison)
            continue;
        int column = info->aConstraint[i].iColumn;
        sqlite3_str_appendf(plan, "%c%-2s", 'a' + column, comparison);
        info->aConstraintUsage[i].argvIndex = ++n;
        cost *= factor_of(column, comparison);
    }
    info->idxStr = sqlite3_str_finish(plan);
    info->needToFreeIdxStr = 1;
    info->estimatedCost = cost;
    info->estimatedRows = (sqlite3_int64)(cost < 1 ? 1 : cost);
    return n && !info->idxStr ? SQLITE_NOMEM : SQLITE_OK;
}

/* --- reading --------------------------------------------------------------*/

static int values_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    values_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static void forget(values_cursor *cursor)
{
    sqlite3_finalize(cursor->query);
    sqlite3_free(cursor->where);
    for (int i = 0; i < cursor->n_given; i++)
        sqlite3_value_free(cursor->given[i]);
    sqlite3_free(cursor->given);
    sqlite3_free(cursor->is_id);
    cursor->is_id = NULL;
    cursor->query = NULL;
    cursor->where = NULL;
    cursor->given = NULL;
    cursor->n_given = 0;
}

static int values_close(sqlite3_vtab_cursor *base)
{
    forget((values_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static const es_sql_source *source_of(const values_cursor *cursor)
{
    const es_sql_sources *sources =
        ((const values_table *)cursor->base.pVtab)->sources;
    return cursor->source < sources->n ? &sources->list[cursor->source] : NULL;
}

/* Prepares the query for a file, first for schema 2 and, if that fails, for
 * schema 1, which has no checksums. */
static int prepare(values_cursor *cursor, const es_sql_source *source)
{
    int rc = SQLITE_ERROR;
    for (int schema = 2; schema > 0 && rc == SQLITE_ERROR; schema--) {
        char *sql = sqlite3_mprintf(
            "SELECT r.run_id, r.name, r.uuid, r.n_layer, r.n_head,"
            " s.series_id, s.name, s.phase, s.shape, m.step, m.value, %s"
            " FROM \"%w\".run r CROSS JOIN \"%w\".series s"
            " ON s.run_id = r.run_id CROSS JOIN \"%w\".sample m"
            " ON m.series_id = s.series_id WHERE 1%s",
            schema > 1 ? "m.crc" : "NULL", source->schema, source->schema,
            source->schema, cursor->where);
        if (!sql)
            return SQLITE_NOMEM;
        rc = sqlite3_prepare_v2(source->handle, sql, -1, &cursor->query, NULL);
        sqlite3_free(sql);
    }
    if (rc == SQLITE_ERROR)
        return values_fail(cursor->base.pVtab, rc,
                           "not a run file: open one, or name the schema of an "
                           "attached one: CREATE VIRTUAL TABLE temp.v USING "
                           "es_values(SCHEMA)");
    for (int i = 0; rc == SQLITE_OK && i < cursor->n_given; i++)
        rc = cursor->is_id[i]
                 ? sqlite3_bind_int64(cursor->query, i + 1,
                                      sqlite3_value_int64(cursor->given[i]) -
                                          source->offset)
                 : sqlite3_bind_value(cursor->query, i + 1, cursor->given[i]);
    return rc;
}

static bool find_shape(es_shape *out, const char *name)
{
    for (int i = ES_SHAPE_RUN; name && i <= ES_SHAPE_HEAD; i++)
        if (strcmp(name, es_shape_name((es_shape)i)) == 0) {
            *out = (es_shape)i;
            return true;
        }
    return false;
}

static uint32_t series_crc(sqlite3_stmt *query)
{
    const char *uuid = (const char *)sqlite3_column_text(query, ROW_UUID);
    const char *name = (const char *)sqlite3_column_text(query, ROW_SERIES);
    const char *phase = (const char *)sqlite3_column_text(query, ROW_PHASE);
    bool eval = phase && strcmp(phase, "eval") == 0;
    return es_checksum_of_series(uuid ? uuid : "",
                                 eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN,
                                 name ? name : "");
}

/* Reads the sample in the query's current row into the cursor. */
static int take_sample(values_cursor *cursor)
{
    sqlite3_stmt *query = cursor->query;
    sqlite3_int64 layers = sqlite3_column_int64(query, ROW_LAYERS);
    sqlite3_int64 heads = sqlite3_column_int64(query, ROW_HEADS);
    const char *shape = (const char *)sqlite3_column_text(query, ROW_SHAPE);
    if (layers < 1 || layers > ES_MAX_LAYERS || heads < 1 ||
        heads > ES_MAX_HEADS || layers * heads > ES_MAX_VALUES ||
        !find_shape(&cursor->shape, shape))
        return values_fail(cursor->base.pVtab, SQLITE_CORRUPT_VTAB,
                           "damaged: a run with an impossible number of layers "
                           "or heads, or an impossible shape");
    cursor->n = es_shape_values(cursor->shape, layers, heads);
    cursor->n_heads = (size_t)heads;
    cursor->at = 0;
    cursor->bytes = sqlite3_column_blob(query, ROW_BLOB);
    size_t size = (size_t)sqlite3_column_bytes(query, ROW_BLOB);
    sqlite3_int64 step = sqlite3_column_int64(query, ROW_STEP);
    if (size != cursor->n * sizeof(float))
        cursor->bytes = NULL;
    if (cursor->bytes && sqlite3_column_type(query, ROW_CRC) != SQLITE_NULL &&
        sqlite3_column_int64(query, ROW_CRC) !=
            es_checksum_of_sample(series_crc(query), step, cursor->bytes, size))
        cursor->bytes = NULL;
    return SQLITE_OK;
}

/* Returns true if the current value belongs to the layer and head that the
 * conditions select. */
static bool is_wanted(const values_cursor *cursor)
{
    sqlite3_int64 at = (sqlite3_int64)cursor->at;
    sqlite3_int64 heads = (sqlite3_int64)cursor->n_heads;
    bool by_head = cursor->shape == ES_SHAPE_HEAD;
    return (cursor->layer < 0 ||
            (by_head ? at / heads : at) == cursor->layer) &&
           (cursor->head < 0 || !by_head || at % heads == cursor->head);
}

/* Moves to the first wanted value at or after the current value, if necessary
 * by fetching further samples. */
static int settle(values_cursor *cursor)
{
    for (;;) {
        while (cursor->query && cursor->at < cursor->n) {
            if (is_wanted(cursor))
                return SQLITE_OK;
            cursor->at++;
        }
        const es_sql_source *source = source_of(cursor);
        if (!source)
            return SQLITE_OK;
        int rc = cursor->query ? SQLITE_OK : prepare(cursor, source);
        if (rc == SQLITE_OK)
            rc = sqlite3_step(cursor->query);
        cursor->n = cursor->at = 0;
        if (rc == SQLITE_ROW) {
            rc = take_sample(cursor);
        } else if (rc == SQLITE_DONE) {
            rc = sqlite3_finalize(cursor->query);
            cursor->query = NULL;
            cursor->source++;
        } else if (!cursor->base.pVtab->zErrMsg) {
            values_fail(cursor->base.pVtab, rc, sqlite3_errmsg(source->handle));
        }
        if (rc != SQLITE_OK)
            return rc;
    }
}

/* Returns the value of a condition on layer or head. Returns -1 if it is not an
   integer >= 0, so that only SQLite checks the condition. */
static sqlite3_int64 index_of(sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_INTEGER &&
                   sqlite3_value_int64(value) >= 0
               ? sqlite3_value_int64(value)
               : -1;
}

static int add_condition(values_cursor *cursor, sqlite3_str *where,
                         const char *plan, sqlite3_value *value)
{
    int column = plan[0] - 'a';
    if (column == COLUMN_LAYER)
        cursor->layer = index_of(value);
    else if (column == COLUMN_HEAD)
        cursor->head = index_of(value);
    bool is_id = column == COLUMN_RUN_ID || column == COLUMN_SERIES_ID;
    if (!conditions[column] ||
        (is_id && sqlite3_value_type(value) != SQLITE_INTEGER))
        return SQLITE_OK;
    cursor->is_id[cursor->n_given] = is_id;
    cursor->given[cursor->n_given] = sqlite3_value_dup(value);
    if (!cursor->given[cursor->n_given])
        return SQLITE_NOMEM;
    cursor->n_given++;
    sqlite3_str_appendf(where, " AND %s %.2s ?%d", conditions[column], plan + 1,
                        cursor->n_given);
    return SQLITE_OK;
}

static int values_filter(sqlite3_vtab_cursor *base, int number,
                         const char *plan, int argc, sqlite3_value **argv)
{
    (void)number;
    values_cursor *cursor = (values_cursor *)base;
    forget(cursor);
    cursor->source = 0;
    cursor->row_number = 0;
    cursor->n = cursor->at = 0;
    cursor->layer = cursor->head = -1;
    sqlite3_uint64 n = (sqlite3_uint64)argc + 1;
    cursor->given = sqlite3_malloc64(n * sizeof *cursor->given);
    cursor->is_id = sqlite3_malloc64(n * sizeof *cursor->is_id);
    if (!cursor->given || !cursor->is_id)
        return SQLITE_NOMEM;
    sqlite3_str *where = sqlite3_str_new(NULL);
    int rc = SQLITE_OK;
    for (int i = 0; i < argc && rc == SQLITE_OK; i++)
        rc = add_condition(cursor, where, plan + 3 * i, argv[i]);
    bool empty = sqlite3_str_length(where) == 0;
    cursor->where = sqlite3_str_finish(where);
    if (rc == SQLITE_OK && empty)
        cursor->where = sqlite3_mprintf("");
    if (rc == SQLITE_OK && !cursor->where)
        rc = SQLITE_NOMEM;
    return rc == SQLITE_OK ? settle(cursor) : rc;
}

static int values_next(sqlite3_vtab_cursor *base)
{
    values_cursor *cursor = (values_cursor *)base;
    cursor->row_number++;
    cursor->at++;
    return settle(cursor);
}

static int values_eof(sqlite3_vtab_cursor *base)
{
    return !source_of((const values_cursor *)base);
}

static float value_of(const values_cursor *cursor)
{
    float value;
    memcpy(&value, cursor->bytes + cursor->at * sizeof value, sizeof value);
    return value;
}

static void result_value(sqlite3_context *out, const values_cursor *cursor)
{
    if (cursor->bytes && !isnan(value_of(cursor)))
        sqlite3_result_double(out, (double)value_of(cursor));
}

static void result_state(sqlite3_context *out, const values_cursor *cursor)
{
    const char *state = "damaged";
    if (cursor->bytes)
        state = es_is_missing(value_of(cursor)) ? "missing"
                : isnan(value_of(cursor))       ? "nan"
                                                : "value";
    sqlite3_result_text(out, state, -1, SQLITE_STATIC);
}

static void result_place(sqlite3_context *out, const values_cursor *cursor,
                         bool layer)
{
    size_t heads = cursor->n_heads;
    if (cursor->shape == ES_SHAPE_HEAD)
        sqlite3_result_int64(out, (sqlite3_int64)(layer ? cursor->at / heads
                                                        : cursor->at % heads));
    else if (cursor->shape == ES_SHAPE_LAYER && layer)
        sqlite3_result_int64(out, (sqlite3_int64)cursor->at);
}

static int values_column(sqlite3_vtab_cursor *base, sqlite3_context *out,
                         int column)
{
    const values_cursor *cursor = (const values_cursor *)base;
    static const int same[N_COLUMNS] = {
        [COLUMN_RUN] = ROW_RUN,
        [COLUMN_STEP] = ROW_STEP,
        [COLUMN_SERIES] = ROW_SERIES,
        [COLUMN_PHASE] = ROW_PHASE,
    };
    if (column == COLUMN_LAYER || column == COLUMN_HEAD)
        result_place(out, cursor, column == COLUMN_LAYER);
    else if (column == COLUMN_VALUE)
        result_value(out, cursor);
    else if (column == COLUMN_STATE)
        result_state(out, cursor);
    else if (column == COLUMN_RUN_ID || column == COLUMN_SERIES_ID)
        sqlite3_result_int64(
            out, sqlite3_column_int64(cursor->query, column == COLUMN_RUN_ID
                                                         ? ROW_RUN_ID
                                                         : ROW_SERIES_ID) +
                     source_of(cursor)->offset);
    else if (column >= 0 && column < N_COLUMNS)
        sqlite3_result_value(out,
                             sqlite3_column_value(cursor->query, same[column]));
    return SQLITE_OK;
}

static int values_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const values_cursor *)base)->row_number;
    return SQLITE_OK;
}

static const sqlite3_module values_module = {
    .iVersion = 1,
    .xCreate = values_connect,
    .xConnect = values_connect,
    .xBestIndex = values_best_index,
    .xDisconnect = values_disconnect,
    .xDestroy = values_disconnect,
    .xOpen = values_open,
    .xClose = values_close,
    .xFilter = values_filter,
    .xNext = values_next,
    .xEof = values_eof,
    .xColumn = values_column,
    .xRowid = values_rowid,
};
