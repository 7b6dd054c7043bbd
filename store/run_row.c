/* Writes the table `summary` of a run file, which `entropy-scan merge` fills
   for queries in plain SQL. The table is not part of the schema, and readers
   ignore it. */
#include "store/run_row.h"

#include "analyzer/base/value.h"
#include "store/writer_internal.h"

#include <math.h>

/* Columns of the type ANY store numbers as numbers and 'NaN' as text. */
const char es_run_row_sql[] =
    "CREATE TABLE IF NOT EXISTS summary(\n"
    "  run_id INTEGER PRIMARY KEY REFERENCES run,\n"
    "  step INTEGER,\n"
    "  loss ANY,\n"
    "  ppl ANY,\n"
    "  eval_loss ANY,\n"
    "  eval_ppl ANY,\n"
    "  ceiling ANY, -- ln(T!)/T, nats\n"
    "  largest ANY, -- entropy of a head, nats\n"
    "  heads INTEGER NOT NULL,\n"
    "  lowest INTEGER NOT NULL,  -- heads in [0,m/4), m the ceiling\n"
    "  lower INTEGER NOT NULL,   -- [m/4,m/2)\n"
    "  upper INTEGER NOT NULL,   -- [m/2,3m/4)\n"
    "  highest INTEGER NOT NULL, -- [3m/4,m]\n"
    "  nonfinite INTEGER NOT NULL,\n"
    "  severity INTEGER NOT NULL, -- 0 none, info, warning, error, 4 critical\n"
    "  flags TEXT NOT NULL\n"
    ") STRICT";

static const char insert[] =
    "INSERT OR REPLACE INTO summary VALUES"
    "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

static void bind_value(sqlite3_stmt *s, int index, double x)
{
    if (isfinite(x))
        sqlite3_bind_double(s, index, x);
    else
        es_bind_text(s, index, isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf");
}

static void bind_measured(sqlite3_stmt *s, int index, float x)
{
    if (es_is_missing(x))
        sqlite3_bind_null(s, index);
    else
        bind_value(s, index, (double)x);
}

static void bind_known(sqlite3_stmt *s, int index, double x)
{
    if (isnan(x))
        sqlite3_bind_null(s, index);
    else
        bind_value(s, index, x);
}

static es_status put_row(es_writer *writer, const char *uuid,
                         const es_run_row *row)
{
    int64_t run_id, n_layer, n_head;
    sqlite3_stmt *s = NULL;
    const es_database *database = &writer->database;
    es_status status =
        es_writer_find_run(writer, &run_id, &n_layer, &n_head, uuid);
    if (status < 0)
        return status;
    if (!run_id)
        return es_fail(ES_ENOTFOUND, "%s: has no run %s", database->path, uuid);
    if ((status = es_database_execute(database, es_run_row_sql)) < 0 ||
        (status = es_database_prepare(database, &s, insert)) < 0)
        return status;
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_number(s, 2, row->step);
    bind_measured(s, 3, row->loss);
    bind_measured(s, 4, row->ppl);
    bind_measured(s, 5, row->eval_loss);
    bind_measured(s, 6, row->eval_ppl);
    bind_known(s, 7, row->ceiling);
    bind_known(s, 8, row->largest);
    sqlite3_bind_int64(s, 9, (int64_t)row->bands.n_heads);
    for (int i = 0; i < ES_N_BANDS; i++)
        sqlite3_bind_int64(s, 10 + i, (int64_t)row->bands.counts[i]);
    sqlite3_bind_int64(s, 14, (int64_t)row->bands.nonfinite);
    sqlite3_bind_int(s, 15, (int)row->severity);
    es_bind_text(s, 16, row->flags);
    status = es_database_step(&writer->database, s);
    sqlite3_finalize(s);
    return status;
}

es_status es_writer_run_row(es_writer *writer, const char *uuid,
                            const es_run_row *row)
{
    bool own;
    es_status status = es_writer_enter(writer, &own);
    if (status < 0)
        return status;
    return es_writer_leave(writer, own, put_row(writer, uuid, row));
}
