/* Reads and writes the table `attention_map` of a run file. The table is
   created with the first map, and its schema is checked before every use. */
#include "store/map.h"

#include "store/store_internal.h"

#include <string.h>

const char es_map_sql[] =
    "CREATE TABLE attention_map(\n"
    "  run_id INTEGER NOT NULL REFERENCES run,\n"
    "  phase TEXT NOT NULL CHECK(phase IN ('train', 'eval')),\n"
    "  step INTEGER NOT NULL,\n"
    "  layer INTEGER NOT NULL,\n"
    "  head INTEGER NOT NULL, -- -1: the mean over the layer's heads\n"
    "  size INTEGER NOT NULL CHECK(size BETWEEN 1 AND 64), -- cells a side\n"
    "  ctx INTEGER NOT NULL, -- tokens a side\n"
    "  crc INTEGER NOT NULL, -- CRC-32C of uuid, phase, \"attention_map\", "
    "step, then layer, head, size, ctx as int64, value\n"
    "  value BLOB NOT NULL, -- packed little-endian float32, query by query\n"
    "  PRIMARY KEY(run_id, phase, step, layer, head)\n"
    ") STRICT";

static int32_t checksum_of(const char *uuid, const es_map *map,
                           const void *value)
{
    const int64_t place[] = {map->layer, map->head, map->size, map->n_ctx};
    uint32_t series = es_checksum_of_series(uuid, map->phase, "attention_map");
    uint32_t crc =
        (uint32_t)es_checksum_of_sample(series, map->step, place, sizeof place);
    return es_checksum_of_sample(crc, map->step, value,
                                 (size_t)map->size * (size_t)map->size *
                                     sizeof(float));
}

/**
 * Sets *there to true if the file has the table attention_map. Returns
 * ES_EFORMAT if a table of this name has another schema.
 */
static es_status find_table(const es_database *database, bool *there)
{
    sqlite3_stmt *s = NULL;
    *there = false;
    es_status status = es_database_prepare(
        database, &s,
        "SELECT sql FROM sqlite_schema WHERE name = 'attention_map'");
    if (status < 0)
        return status;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(s, 0);
        *there = true;
        if (!sql || strcmp(sql, es_map_sql) != 0)
            status = es_fail(
                ES_EFORMAT,
                "%s: its table attention_map has an unknown schema: rename "
                "or drop it",
                database->path);
    } else {
        status = es_database_status(database, rc);
    }
    sqlite3_finalize(s);
    return status;
}

/* --- writing -------------------------------------------------------------- */

es_status es_map_insert(const es_database *database, int64_t run_id,
                        const char *uuid, const es_map *map,
                        const float *values)
{
    sqlite3_stmt *s = NULL;
    bool there;
    es_status status = find_table(database, &there);
    if (status < 0 ||
        (!there && (status = es_database_execute(database, es_map_sql)) < 0) ||
        (status = es_database_prepare(
             database, &s,
             "INSERT OR REPLACE INTO attention_map"
             " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")) < 0)
        return status;
    const size_t n = (size_t)map->size * (size_t)map->size;
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_text(s, 2, es_phase_name(map->phase));
    sqlite3_bind_int64(s, 3, map->step);
    sqlite3_bind_int64(s, 4, map->layer);
    sqlite3_bind_int64(s, 5, map->head);
    sqlite3_bind_int64(s, 6, map->size);
    sqlite3_bind_int64(s, 7, map->n_ctx);
    sqlite3_bind_int(s, 8, checksum_of(uuid, map, values));
    sqlite3_bind_blob64(s, 9, values, n * sizeof *values, SQLITE_STATIC);
    status = es_database_status(database, sqlite3_step(s));
    sqlite3_finalize(s);
    return status;
}

es_status es_map_cut(const es_database *database, int64_t run_id, int64_t step)
{
    sqlite3_stmt *s = NULL;
    bool there;
    es_status status = find_table(database, &there);
    if (!there)
        return status;
    /* A table of this name with another schema is left unchanged. */
    if (status < 0)
        return ES_OK;
    status = es_database_prepare(
        database, &s,
        "DELETE FROM attention_map WHERE run_id = ?1 AND step >= ?2");
    if (status < 0)
        return status;
    sqlite3_bind_int64(s, 1, run_id);
    sqlite3_bind_int64(s, 2, step);
    status = es_database_status(database, sqlite3_step(s));
    sqlite3_finalize(s);
    return status;
}

/* --- reading -------------------------------------------------------------- */

/**
 * Reads one row of the query of es_map_each. Returns ES_EFORMAT if a value
 * is out of bounds.
 */
static es_status take_map(es_map *out, sqlite3_stmt *s,
                          const es_database *database, const es_run_info *run)
{
    const char *phase = (const char *)sqlite3_column_text(s, 0);
    *out =
        (es_map){.phase = phase && strcmp(phase, "eval") == 0 ? ES_PHASE_EVAL
                                                              : ES_PHASE_TRAIN,
                 .step = sqlite3_column_int64(s, 1),
                 .layer = sqlite3_column_int64(s, 2),
                 .head = sqlite3_column_int64(s, 3),
                 .size = sqlite3_column_int64(s, 4),
                 .n_ctx = sqlite3_column_int64(s, 5)};
    if (!phase || strcmp(phase, es_phase_name(out->phase)) != 0 ||
        out->step < 0 || out->step > ES_MAX_STEP || out->layer < 0 ||
        out->layer >= run->n_layer || out->head < ES_MAP_MEAN ||
        out->head >= run->n_head || out->size < 1 || out->size > ES_MAP_MAX ||
        out->n_ctx < out->size || out->n_ctx > INT32_MAX)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: an attention map of step %lld has a "
                       "number out of bounds: restore a copy",
                       database->path, (long long)out->step);
    return ES_OK;
}

static es_status hand_out(const es_database *database, sqlite3_stmt *s,
                          const es_run_info *run, es_map_handler *handler,
                          void *user)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    es_map map;
    es_status status = take_map(&map, s, database, run);
    if (status < 0)
        return status;
    const size_t bytes = (size_t)map.size * (size_t)map.size * sizeof *values;
    const void *blob = sqlite3_column_blob(s, 7);
    if (!blob || (size_t)sqlite3_column_bytes(s, 7) != bytes ||
        sqlite3_column_int64(s, 6) != checksum_of(run->uuid, &map, blob))
        return handler(user, &map, NULL);
    memcpy(values, blob, bytes); /* the bytes are copied because `blob` may be
                                    unaligned */
    return handler(user, &map, values);
}

es_status es_map_each(const es_database *database, int64_t run_id,
                      const es_run_info *run, es_map_handler *handler,
                      void *user)
{
    sqlite3_stmt *s = NULL;
    bool there;
    es_status status = find_table(database, &there);
    if (status < 0 || !there)
        return status;
    if ((status = es_database_prepare(
             database, &s,
             "SELECT phase, step, layer, head, size, ctx, crc, value"
             " FROM attention_map WHERE run_id = ?1"
             " ORDER BY phase DESC, step, layer, head")) < 0)
        return status;
    sqlite3_bind_int64(s, 1, run_id);
    int rc = SQLITE_DONE;
    while (status == ES_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
        status = hand_out(database, s, run, handler, user);
    if (status == ES_OK)
        status = es_database_status(database, rc);
    sqlite3_finalize(s);
    return status;
}
