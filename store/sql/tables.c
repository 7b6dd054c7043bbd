/* Implements the tables run, series, sample and event of a query, each of which
   contains the rows of all run files of the query. They are virtual tables: the
   query's own connection has no file open, so that only the four tables of a
   file are accessible. k times ES_SQL_FILE_IDS is added to the ids of runs,
   series and events of the file with index k, so that the ids of different
   files are distinct. */
#include "store/sql/query.h"
#include "store/sql/source.h"
#include "store/store_internal.h"

#include <string.h>

typedef struct table_form {
    const char *name, *declaration, *columns; /* name and CREATE TABLE statement
                                                 of the virtual table; columns
                                                 to select in a file of
                                                 schema 2 */
    const char *columns_1; /* columns to select in a file of schema 1; NULL if
                              they are the same */
    int n_columns;
    const char *keys[3]; /* name of a column whose conditions become part of the
                            query on a file; NULL for other columns */
    unsigned ids; /* bit i is set if column i contains ids of runs, series or
                     events */
} table_form;

static const table_form forms[] = {
    {"run",
     "CREATE TABLE x(run_id INTEGER, uuid TEXT, name TEXT, arch TEXT,"
     " family TEXT, n_layer INTEGER, n_head INTEGER, d_model INTEGER,"
     " ctx INTEGER, vocab INTEGER, batch INTEGER, seed INTEGER, config TEXT,"
     " program TEXT, host TEXT, started_at TEXT, ended_at TEXT, status TEXT,"
     " last_step INTEGER)",
     "run_id, uuid, name, arch, family, n_layer, n_head, d_model, ctx, vocab,"
     " batch, seed, config, program, host, started_at, ended_at, status,"
     " last_step",
     NULL,
     19,
     {"run_id"},
     1},
    {"series",
     "CREATE TABLE x(series_id INTEGER, run_id INTEGER, name TEXT, shape TEXT,"
     " phase TEXT, unit TEXT)",
     "series_id, run_id, name, shape, phase, unit",
     NULL,
     6,
     {"series_id", "run_id"},
     3},
    {"sample",
     "CREATE TABLE x(series_id INTEGER, step INTEGER, crc INTEGER, value BLOB)",
     "series_id, step, crc, value",
     "series_id, step, NULL, value",
     4,
     {"series_id", "step"},
     1},
    {"event",
     "CREATE TABLE x(event_id INTEGER, run_id INTEGER, step INTEGER, kind TEXT,"
     " severity INTEGER, layer INTEGER, head INTEGER, message TEXT, data TEXT,"
     " at TEXT, dedupe TEXT)",
     "event_id, run_id, step, kind, severity, layer, head, message, data, at,"
     " dedupe",
     NULL,
     11,
     {"event_id", "run_id", "step"},
     3},
};
enum { N_FORMS = sizeof forms / sizeof *forms, MAX_KEYS = 3 };

/* The user data that SQLite keeps for a virtual table's module. */
typedef struct table_module {
    es_sql_sources *sources;
    const table_form *form;
} table_module;

typedef struct union_table {
    sqlite3_vtab base;
    table_module module;
} union_table;

typedef struct union_cursor {
    sqlite3_vtab_cursor base;
    char *where;
    sqlite3_value *given[4 * MAX_KEYS];
    bool is_id[4 * MAX_KEYS];
    int n_given;
    size_t source;
    sqlite3_stmt *query;
    sqlite3_int64 row_number;
} union_cursor;

static int table_connect(sqlite3 *db, void *module, int argc,
                         const char *const *argv, sqlite3_vtab **out,
                         char **message)
{
    (void)argc, (void)argv, (void)message;
    const table_module *given = module;
    union_table *table = sqlite3_malloc64(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->module = *given;
    int rc = sqlite3_declare_vtab(db, given->form->declaration);
    if (rc == SQLITE_OK)
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    if (rc == SQLITE_OK)
        *out = &table->base;
    else
        sqlite3_free(table);
    return rc;
}

static int table_disconnect(sqlite3_vtab *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

static const char *operator_of(unsigned char op, bool is_id)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return "=";
    case SQLITE_INDEX_CONSTRAINT_GT:
        return is_id ? NULL : ">";
    case SQLITE_INDEX_CONSTRAINT_GE:
        return is_id ? NULL : ">=";
    case SQLITE_INDEX_CONSTRAINT_LT:
        return is_id ? NULL : "<";
    case SQLITE_INDEX_CONSTRAINT_LE:
        return is_id ? NULL : "<=";
    default:
        return NULL;
    }
}

/* Chooses the conditions that become part of the query on a file. Sets idxStr
   to "COLUMN OPERATOR" for each of them; xFilter gets their right-hand sides in
   the same order. */
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const table_form *form = ((union_table *)base)->module.form;
    int n = 0;
    double cost = 1e5;
    sqlite3_str *plan = sqlite3_str_new(NULL);
    for (int i = 0; i < info->nConstraint && n < 4 * MAX_KEYS; i++) {
        int column = info->aConstraint[i].iColumn;
        if (!info->aConstraint[i].usable || column < 0 || column >= MAX_KEYS ||
            !form->keys[column])
            continue;
        const char *comparison =
            operator_of(info->aConstraint[i].op, form->ids >> column & 1);
        if (!comparison)
            continue;
        sqlite3_str_appendf(plan, "%c%-2s", 'a' + column, comparison);
        info->aConstraintUsage[i].argvIndex = ++n;
        cost *= comparison[0] == '=' ? 1e-2 : 0.25;
    }
    info->idxStr = sqlite3_str_finish(plan);
    info->needToFreeIdxStr = 1;
    info->estimatedCost = cost;
    info->estimatedRows = (sqlite3_int64)(cost < 1 ? 1 : cost);
    return n && !info->idxStr ? SQLITE_NOMEM : SQLITE_OK;
}

static int table_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    union_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static void end_query(union_cursor *cursor)
{
    sqlite3_finalize(cursor->query);
    sqlite3_free(cursor->where);
    while (cursor->n_given > 0)
        sqlite3_value_free(cursor->given[--cursor->n_given]);
    cursor->query = NULL;
    cursor->where = NULL;
}

static int table_close(sqlite3_vtab_cursor *base)
{
    end_query((union_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static const union_table *table_of(const union_cursor *cursor)
{
    return (const union_table *)cursor->base.pVtab;
}

static const es_sql_source *source_of(const union_cursor *cursor)
{
    const es_sql_sources *sources = table_of(cursor)->module.sources;
    return cursor->source < sources->n ? &sources->list[cursor->source] : NULL;
}

static int prepare_query(union_cursor *cursor, const es_sql_source *source)
{
    const table_form *form = table_of(cursor)->module.form;
    int rc = SQLITE_ERROR;
    for (int schema = 2; schema > 0 && rc == SQLITE_ERROR; schema--) {
        const char *columns =
            schema == 1 && form->columns_1 ? form->columns_1 : form->columns;
        char *sql =
            sqlite3_mprintf("SELECT %s FROM \"%w\".%s WHERE 1%s", columns,
                            source->schema, form->name, cursor->where);
        if (!sql)
            return SQLITE_NOMEM;
        rc = sqlite3_prepare_v2(source->handle, sql, -1, &cursor->query, NULL);
        sqlite3_free(sql);
    }
    for (int i = 0; rc == SQLITE_OK && i < cursor->n_given; i++)
        rc = cursor->is_id[i]
                 ? sqlite3_bind_int64(cursor->query, i + 1,
                                      sqlite3_value_int64(cursor->given[i]) -
                                          source->offset)
                 : sqlite3_bind_value(cursor->query, i + 1, cursor->given[i]);
    return rc;
}

/* Moves to the next row. If the current file has no more rows, continues with
   the next file. */
static int find_row(union_cursor *cursor)
{
    const es_sql_source *source;
    while ((source = source_of(cursor))) {
        int rc = cursor->query ? SQLITE_OK : prepare_query(cursor, source);
        if (rc == SQLITE_OK)
            rc = sqlite3_step(cursor->query);
        if (rc == SQLITE_ROW)
            return SQLITE_OK;
        if (rc != SQLITE_DONE) {
            sqlite3_free(cursor->base.pVtab->zErrMsg);
            cursor->base.pVtab->zErrMsg =
                sqlite3_mprintf("%s", sqlite3_errmsg(source->handle));
            return rc;
        }
        sqlite3_finalize(cursor->query);
        cursor->query = NULL;
        cursor->source++;
    }
    return SQLITE_OK;
}

static int table_filter(sqlite3_vtab_cursor *base, int number, const char *plan,
                        int argc, sqlite3_value **argv)
{
    (void)number;
    union_cursor *cursor = (union_cursor *)base;
    const table_form *form = table_of(cursor)->module.form;
    end_query(cursor);
    cursor->source = 0;
    cursor->row_number = 0;
    sqlite3_str *where = sqlite3_str_new(NULL);
    int rc = SQLITE_OK;
    for (int i = 0; i < argc && rc == SQLITE_OK; i++) {
        int column = plan[3 * i] - 'a';
        bool is_id = form->ids >> column & 1;
        /* A condition on an id with a value that is not an integer is left to
           SQLite, which checks all conditions again. */
        if (is_id && sqlite3_value_type(argv[i]) != SQLITE_INTEGER)
            continue;
        sqlite3_value *copy = sqlite3_value_dup(argv[i]);
        rc = copy ? SQLITE_OK : SQLITE_NOMEM;
        if (rc != SQLITE_OK)
            break;
        cursor->is_id[cursor->n_given] = is_id;
        cursor->given[cursor->n_given++] = copy;
        sqlite3_str_appendf(where, " AND %s %.2s ?%d", form->keys[column],
                            plan + 3 * i + 1, cursor->n_given);
    }
    bool empty = sqlite3_str_length(where) == 0;
    cursor->where = sqlite3_str_finish(where);
    if (empty)
        cursor->where = sqlite3_mprintf("");
    if (rc == SQLITE_OK && !cursor->where)
        rc = SQLITE_NOMEM;
    return rc == SQLITE_OK ? find_row(cursor) : rc;
}

static int table_next(sqlite3_vtab_cursor *base)
{
    ((union_cursor *)base)->row_number++;
    return find_row((union_cursor *)base);
}

static int table_eof(sqlite3_vtab_cursor *base)
{
    return !source_of((const union_cursor *)base);
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *out,
                        int column)
{
    const union_cursor *cursor = (const union_cursor *)base;
    const table_form *form = table_of(cursor)->module.form;
    if (column < 0 || column >= form->n_columns)
        return SQLITE_OK;
    if (column < MAX_KEYS && form->ids >> column & 1)
        sqlite3_result_int64(out, sqlite3_column_int64(cursor->query, column) +
                                      source_of(cursor)->offset);
    else
        sqlite3_result_value(out, sqlite3_column_value(cursor->query, column));
    return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const union_cursor *)base)->row_number;
    return SQLITE_OK;
}

/* xCreate is NULL because the tables exist from the start, and users cannot
   create further ones. */
static const sqlite3_module union_module = {
    .iVersion = 1,
    .xConnect = table_connect,
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xDestroy = table_disconnect,
    .xOpen = table_open,
    .xClose = table_close,
    .xFilter = table_filter,
    .xNext = table_next,
    .xEof = table_eof,
    .xColumn = table_column,
    .xRowid = table_rowid,
};

int es_sql_add_tables(sqlite3 *handle, es_sql_sources *sources)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < N_FORMS && rc == SQLITE_OK; i++) {
        table_module *module = sqlite3_malloc64(sizeof *module);
        if (!module)
            return SQLITE_NOMEM;
        *module = (table_module){sources, &forms[i]};
        rc = sqlite3_create_module_v2(handle, forms[i].name, &union_module,
                                      module, sqlite3_free);
    }
    return rc;
}
