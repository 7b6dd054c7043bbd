/* Defines the tables of a run file for each version of the schema, and checks
   whether a file has these tables. */
#include "store/store_internal.h"

#include <string.h>

/* The table sample has a rowid, because in a table without rowids SQLite stores
 * at most a quarter of a page of each row in place, and the samples of 16 x 16
 * heads would take four times their size. The column crc precedes the value,
 * because SQLite would otherwise read all pages of a long value to find crc.
 *
 * The table row_checksum is optional: files without it are read and resumed
 * without row checksums, and programs that do not know it ignore it. Checksums
 * are in a separate table and not in the rows, so that they need no new schema
 * version.
 *
 * SQLite stores these CREATE statements in the file, and readers compare them
 * byte by byte. Therefore any change of a statement requires a new
 * ES_SCHEMA_VERSION. */
static const struct {
    const char *name, *sql;
} tables[] = {
    {"run",
     "CREATE TABLE run(\n"
     "  run_id INTEGER PRIMARY KEY,\n"
     "  uuid TEXT NOT NULL UNIQUE CHECK(length(uuid) = 36),\n"
     "  name TEXT NOT NULL,\n"
     "  arch TEXT,\n"
     "  family TEXT,\n"
     "  n_layer INTEGER NOT NULL CHECK(n_layer BETWEEN 1 AND 4096),\n"
     "  n_head INTEGER NOT NULL CHECK(n_head BETWEEN 1 AND 4096),\n"
     "  d_model INTEGER,\n"
     "  ctx INTEGER,\n"
     "  vocab INTEGER,\n"
     "  batch INTEGER,\n"
     "  seed INTEGER,\n"
     "  config TEXT, -- a JSON object\n"
     "  program TEXT,\n"
     "  host TEXT,\n"
     "  started_at TEXT NOT NULL, -- ISO 8601, UTC\n"
     "  ended_at TEXT,\n"
     "  status TEXT NOT NULL\n"
     "    CHECK(status IN ('running', 'finished', 'failed', 'stopped')),\n"
     "  last_step INTEGER,        -- NULL before the first sample\n"
     "  CHECK(n_layer * n_head <= 1048576)\n"
     ") STRICT"},
    {"series",
     "CREATE TABLE series(\n"
     "  series_id INTEGER PRIMARY KEY,\n"
     "  run_id INTEGER NOT NULL REFERENCES run,\n"
     "  name TEXT NOT NULL,\n"
     "  shape TEXT NOT NULL CHECK(shape IN ('run', 'layer', 'head')),\n"
     "  phase TEXT NOT NULL CHECK(phase IN ('train', 'eval')),\n"
     "  unit TEXT NOT NULL,\n"
     "  UNIQUE(run_id, name, phase)\n"
     ") STRICT"},
    {"sample",
     "CREATE TABLE sample(\n"
     "  series_id INTEGER NOT NULL REFERENCES series,\n"
     "  step INTEGER NOT NULL,\n"
     "  crc INTEGER NOT NULL, -- CRC-32C of uuid, phase, name, step, value\n"
     "  value BLOB NOT NULL, -- packed little-endian float32, layer-major\n"
     "  PRIMARY KEY(series_id, step)\n"
     ") STRICT"},
    {"event",
     "CREATE TABLE event(\n"
     "  event_id INTEGER PRIMARY KEY,\n"
     "  run_id INTEGER NOT NULL REFERENCES run,\n"
     "  step INTEGER,\n"
     "  kind TEXT NOT NULL,\n"
     "  severity INTEGER NOT NULL -- 0 none, info, warning, error, 4 critical\n"
     "    CHECK(severity BETWEEN 0 AND 4),\n"
     "  layer INTEGER,\n"
     "  head INTEGER,\n"
     "  message TEXT,\n"
     "  data TEXT, -- JSON\n"
     "  at TEXT NOT NULL, -- ISO 8601, UTC\n"
     "  dedupe TEXT UNIQUE -- the run's uuid, a slash, the event's own key\n"
     ") STRICT"},
    {"row_checksum",
     "CREATE TABLE row_checksum(\n"
     "  of_table TEXT NOT NULL CHECK(of_table IN ('run', 'series', 'event')),\n"
     "  id INTEGER NOT NULL, -- run_id, series_id, event_id\n"
     "  crc INTEGER NOT NULL, -- CRC-32C of the row's other columns: of each "
     "its type (1 integer, 3 text, 5 NULL), then the integer, or the text's "
     "length and the text; last_step is NULL while the run is running\n"
     "  PRIMARY KEY(of_table, id)\n"
     ") STRICT, WITHOUT ROWID"},
};

#define N_TABLES (sizeof tables / sizeof *tables)

static bool is_optional(size_t table)
{
    return strcmp(tables[table].name, "row_checksum") == 0;
}

/* The table sample of schema 1, which has no checksums. The other tables of
   schema 1 are the same. */
static const char sample_1[] =
    "CREATE TABLE sample(\n"
    "  series_id INTEGER NOT NULL REFERENCES series,\n"
    "  step INTEGER NOT NULL,\n"
    "  value BLOB NOT NULL, -- packed little-endian float32, layer-major\n"
    "  PRIMARY KEY(series_id, step)\n"
    ") STRICT";

static int create_tables(sqlite3 *handle)
{
    char pragmas[96];
    sqlite3_snprintf(sizeof pragmas, pragmas,
                     "PRAGMA application_id=%d; PRAGMA user_version=%d",
                     ES_APPLICATION_ID, ES_SCHEMA_VERSION);
    int rc = sqlite3_exec(handle, pragmas, NULL, NULL, NULL);
    for (size_t i = 0; i < N_TABLES && rc == SQLITE_OK; i++)
        rc = sqlite3_exec(handle, tables[i].sql, NULL, NULL, NULL);
    return rc;
}

es_status es_schema_image(unsigned char **out, size_t *n)
{
    sqlite3 *handle = NULL;
    sqlite3_int64 size = 0;
    unsigned char *image = NULL;
    if (sqlite3_open(":memory:", &handle) == SQLITE_OK &&
        create_tables(handle) == SQLITE_OK)
        image = sqlite3_serialize(handle, "main", &size, 0);
    es_status status = ES_OK;
    if (!image)
        status = es_fail(ES_EINTERNAL, "cannot create a run file: %s",
                         handle ? sqlite3_errmsg(handle) : "out of memory");
    sqlite3_close(handle);
    if (status < 0)
        return status;
    /* The value 2 at offsets 18 and 19 of an SQLite file turns on WAL mode. */
    image[18] = image[19] = 2;
    *out = image;
    *n = (size_t)size;
    return ES_OK;
}

es_status es_schema_make_private(es_database *database)
{
    es_status status = es_database_execute(
        database, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"
                  "PRAGMA cache_size=-1024; BEGIN");
    for (size_t i = 0; i < N_TABLES && status == ES_OK; i++)
        if (strcmp(tables[i].name, "sample") != 0 && !is_optional(i))
            status = es_database_execute(database, tables[i].sql);
    if (status == ES_OK)
        status = es_database_execute(database, "COMMIT");
    database->schema = ES_SCHEMA_VERSION;
    return status;
}

es_status es_schema_check_id(const es_database *database, uint32_t id)
{
    if (id == ES_APPLICATION_ID)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: not a run file: a database of another program "
                   "(application_id %lu)",
                   database->path, (unsigned long)id);
}

static es_status check_version(es_database *database)
{
    int64_t version = 0, id = 0;
    es_status status;
    if ((status = es_database_integer(database, "PRAGMA application_id", &id)) <
            0 ||
        (status = es_schema_check_id(database, (uint32_t)id)) < 0 ||
        (status = es_database_integer(database, "PRAGMA user_version",
                                      &version)) < 0)
        return status;
    if (version > ES_SCHEMA_VERSION)
        return es_fail(ES_EVERSION,
                       "%s: schema %lld is newer than this program's %d: "
                       "upgrade entropy-scan",
                       database->path, (long long)version, ES_SCHEMA_VERSION);
    if (version < 1)
        return es_fail(ES_EFORMAT, "%s: not a run file: schema %lld",
                       database->path, (long long)version);
    database->schema = (int)version;
    return ES_OK;
}

const char *es_schema_sql(size_t table)
{
    return table < N_TABLES ? tables[table].sql : NULL;
}

static const char *sql_of(int table, int schema)
{
    return schema == 1 && strcmp(tables[table].name, "sample") == 0
               ? sample_1
               : tables[table].sql;
}

static int find_table(const char *name)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (sqlite3_stricmp(name, tables[i].name) == 0)
            return (int)i;
    return -1;
}

/**
 * Checks one row (type, name, table, sql) of the file's schema. If it is one of
 * our tables, sets its bit in `seen`. Ignores other tables and views.
 */
static es_status check_object(const es_database *database,
                              sqlite3_stmt *statement, unsigned *seen)
{
    const char *column[4];
    for (int i = 0; i < 4; i++) {
        column[i] = (const char *)sqlite3_column_text(statement, i);
        if (!column[i] && i < 3)
            return es_fail(ES_EFORMAT,
                           "%s: damaged: an object of its schema has no name: "
                           "restore a copy",
                           database->path);
    }
    int ours = find_table(column[2]);
    if (ours < 0)
        return ES_OK;
    bool index = strcmp(column[0], "index") == 0;
    if (index && !column[3])
        return ES_OK; /* the index that SQLite creates for a UNIQUE
                         constraint */
    if (strcmp(column[0], "table") != 0)
        return es_fail(
            ES_EFORMAT,
            "%s: not a valid run file: it has an additional %s %s: drop it",
            database->path, index ? "index" : "trigger", column[1]);
    if (!column[3] || strcmp(column[3], sql_of(ours, database->schema)) != 0)
        return es_fail(ES_EFORMAT,
                       "%s: not a valid run file: its table %s differs",
                       database->path, tables[ours].name);
    *seen |= 1u << ours;
    return ES_OK;
}

static es_status check_tables(es_database *database)
{
    sqlite3_stmt *statement = NULL;
    unsigned seen = 0;
    int rc = SQLITE_OK;
    es_status status = es_database_prepare(database, &statement,
                                           "SELECT type, name, tbl_name, sql "
                                           "FROM sqlite_schema");
    while (status == ES_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
        status = check_object(database, statement, &seen);
    if (status == ES_OK)
        status = es_database_status(database, rc);
    sqlite3_finalize(statement);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < N_TABLES; i++) {
        const bool there = seen & 1u << i;
        if (is_optional(i))
            database->has_row_checksums = there;
        else if (!there)
            return es_fail(ES_EFORMAT, "%s: not a run file: no table %s",
                           database->path, tables[i].name);
    }
    return ES_OK;
}

es_status es_schema_check(es_database *database)
{
    es_status status = check_version(database);
    return status < 0 ? status : check_tables(database);
}
