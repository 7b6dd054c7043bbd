/* Writes the tables of a run file: runs, series, samples, events and maps, in
   transactions. writer.h describes the functions. The same code appends to a
   fragment, whose private database has no samples, and replays a fragment's
   records into a private database. writer_open.c opens and closes writers. The
   write-ahead log is checked when a transaction begins and when it is committed
   (writer_log.c). */
#include "store/writer_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/esf_index.h"
#include "store/map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- statements ---------------------------------------------------------- */

static const char *const sql_text[ES_N_SQL] = {
    [ES_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [ES_SQL_COMMIT] = "COMMIT",
    [ES_SQL_ROLLBACK] = "ROLLBACK",
    [ES_SQL_SAMPLE] =
        "INSERT INTO sample(rowid, series_id, step, crc, value)"
        " VALUES(?4, ?1, ?2, ?5, ?3) ON CONFLICT(series_id, step)"
        " DO UPDATE SET crc = excluded.crc, value = excluded.value",
    [ES_SQL_LAST_STEP] = "UPDATE run SET last_step = ?2 WHERE run_id = ?1",
    [ES_SQL_EVENT] =
        "INSERT INTO event(run_id, step, kind, severity, layer, head, message,"
        " data, at, dedupe) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
        " (SELECT uuid FROM run WHERE run_id = ?1) || '/' || ?10)"
        " ON CONFLICT(dedupe) DO NOTHING",
    [ES_SQL_FIND_RUN] =
        "SELECT run_id, n_layer, n_head FROM run WHERE uuid = ?1",
    [ES_SQL_ADD_RUN] =
        "INSERT INTO run(uuid, name, arch, family, n_layer, n_head, d_model,"
        " ctx, vocab, batch, seed, config, program, host, started_at, ended_at,"
        " status) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
        " ?13, ?14, ?15, ?16, ?17)",
    [ES_SQL_RESUME_RUN] =
        "UPDATE run SET status = 'running', ended_at = NULL,"
        " config = coalesce(?2, config), program = coalesce(?3, program),"
        " host = coalesce(?4, host) WHERE run_id = ?1",
    [ES_SQL_RESUME_SAMPLES] =
        "DELETE FROM sample WHERE step >= ?2 AND series_id IN"
        " (SELECT series_id FROM series WHERE run_id = ?1)",
    [ES_SQL_RESUME_EVENTS] =
        "DELETE FROM event WHERE run_id = ?1 AND step >= ?2",
    [ES_SQL_FIND_LAST_STEP] = "SELECT max((SELECT max(step) FROM sample"
                              " WHERE sample.series_id = series.series_id))"
                              " FROM series WHERE run_id = ?1",
    [ES_SQL_END_RUN] =
        "UPDATE run SET status = ?2, ended_at = ?3 WHERE run_id = ?1",
    [ES_SQL_FIND_SERIES] = "SELECT series_id, shape FROM series"
                           " WHERE run_id = ?1 AND name = ?2 AND phase = ?3",
    [ES_SQL_ADD_SERIES] = "INSERT INTO series(run_id, name, shape, phase, unit)"
                          " VALUES(?1, ?2, ?3, ?4, ?5)",
    [ES_SQL_IS_JSON] = "SELECT json_valid(?1)",
    [ES_SQL_COUNT_SERIES] = "SELECT count(*) FROM series WHERE run_id = ?1",
    [ES_SQL_RUN_ROW] = "SELECT " ES_RUN_COLUMNS " FROM run WHERE run_id = ?1",
    [ES_SQL_SERIES_ROW] =
        "SELECT " ES_SERIES_COLUMNS " FROM series WHERE series_id = ?1",
    [ES_SQL_EVENT_ROW] =
        "SELECT " ES_EVENT_COLUMNS " FROM event WHERE event_id = ?1",
    [ES_SQL_CHECKSUM] =
        "INSERT OR REPLACE INTO row_checksum VALUES(?1, ?2, ?3)",
    [ES_SQL_RESUME_CHECKSUMS] =
        "DELETE FROM row_checksum WHERE of_table = 'event' AND id IN"
        " (SELECT event_id FROM event WHERE run_id = ?1 AND step >= ?2)",
};

static const char sample_sql_1[] =
    "INSERT INTO sample(rowid, series_id, step, value) VALUES(?4, ?1, ?2, ?3)"
    " ON CONFLICT(series_id, step) DO UPDATE SET value = excluded.value";

es_status es_writer_prepare(es_writer *writer)
{
    const char *sql[ES_N_SQL];
    memcpy(sql, sql_text, sizeof sql);
    if (writer->database.schema == 1)
        sql[ES_SQL_SAMPLE] = sample_sql_1;
    for (int i = ES_SQL_RUN_ROW;
         i <= ES_SQL_RESUME_CHECKSUMS && !writer->database.has_row_checksums;
         i++)
        sql[i] = NULL;
    if (writer->database.samples) /* samples are added to the index instead of a
                                     table, so these statements are not
                                     needed */
        sql[ES_SQL_SAMPLE] = sql[ES_SQL_RESUME_SAMPLES] = NULL;
    es_status status = es_database_prepare_all(
        &writer->database, writer->statements, sql, ES_N_SQL);
    writer->ready = status == ES_OK;
    return status;
}

/**
 * Writes the checksum of a row. Must be called within the transaction that
 * changed the row. Does nothing in a file without the table row_checksum.
 *
 *   row   ES_SQL_RUN_ROW, ES_SQL_SERIES_ROW or ES_SQL_EVENT_ROW
 */
static es_status seal_row(es_writer *writer, int row, int64_t id)
{
    sqlite3_stmt *s = writer->statements[row];
    sqlite3_stmt *put = writer->statements[ES_SQL_CHECKSUM];
    if (!s)
        return ES_OK;
    sqlite3_bind_int64(s, 1, id);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        const int n = sqlite3_column_count(s);
        sqlite3_bind_int(put, 3, es_checksum_of_columns(s, 0, n));
    }
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    if (rc != SQLITE_ROW)
        return status;
    es_bind_text(
        put, 1,
        es_row_table_name((es_row_table)(row - ES_SQL_RUN_ROW + ES_ROW_RUN)));
    sqlite3_bind_int64(put, 2, id);
    return es_database_step(&writer->database, put);
}

/**
 * Returns ES_EARGUMENT if `text` has more than `longest` bytes. `text` may be
 * NULL.
 */
static es_status check_text(const es_writer *writer, const char *name,
                            const char *text, size_t longest)
{
    if (!text || strlen(text) <= longest)
        return ES_OK;
    return es_fail(ES_EARGUMENT, "%s: %s is longer than %zu bytes",
                   writer->database.path, name, longest);
}

/** Returns ES_EARGUMENT unless `text` is NULL or valid JSON. */
static es_status check_json(const es_writer *writer, const char *name,
                            const char *text)
{
    es_status status;
    if ((status = check_text(writer, name, text, ES_MAX_TEXT)) < 0 ||
        (status = es_database_check_owner(&writer->database)) < 0 || !text)
        return status;
    sqlite3_stmt *s = writer->statements[ES_SQL_IS_JSON];
    es_bind_text(s, 1, text);
    bool valid = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return valid ? ES_OK
                 : es_fail(ES_EARGUMENT, "%s: %s is not JSON",
                           writer->database.path, name);
}

/* --- transactions -------------------------------------------------------- */

/** Writes the last step of each run to which samples were added. */
static es_status save_last_steps(es_writer *writer)
{
    for (size_t i = 0; i < writer->n_runs; i++) {
        es_written_run *run = &writer->runs[i];
        if (run->last_step == run->saved_step)
            continue;
        sqlite3_stmt *s = writer->statements[ES_SQL_LAST_STEP];
        sqlite3_bind_int64(s, 1, run->id);
        es_bind_number(s, 2, run->last_step);
        es_status status = es_database_step(&writer->database, s);
        if (status < 0 ||
            (run->has_ended &&
             (status = seal_row(writer, ES_SQL_RUN_ROW, run->id)) < 0))
            return status;
    }
    return ES_OK;
}

/**
 * Rolls back without setting an error message, because the preceding failure
 * has set one.
 */
static void roll_back(es_writer *writer)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_ROLLBACK];
    if (!sqlite3_get_autocommit(writer->database.handle)) {
        sqlite3_step(s);
        sqlite3_reset(s);
    }
    es_esf_out_rollback(writer->out);
    es_esf_index_roll_back(writer->database.samples);
    /* Pending runs are at the end of the array, so removing them does not
       change the indexes by which series refer to runs. */
    size_t n = 0;
    for (size_t i = 0; i < writer->n_series; i++)
        if (!writer->series[i].pending)
            writer->series[n++] = writer->series[i];
    writer->n_series = n;
    while (writer->n_runs > 0 && writer->runs[writer->n_runs - 1].pending)
        writer->n_runs--;
    for (size_t i = 0; i < writer->n_runs; i++)
        writer->runs[i].last_step = writer->runs[i].saved_step;
}

static es_status commit_transaction(es_writer *writer)
{
    es_status status;
    if ((status = save_last_steps(writer)) < 0 ||
        (status = es_log_check(writer)) < 0 ||
        (status = es_esf_out_commit(writer->out)) < 0 ||
        (status = es_database_step(&writer->database,
                                   writer->statements[ES_SQL_COMMIT])) < 0) {
        roll_back(writer);
        return status;
    }
    es_esf_index_commit(writer->database.samples);
    /* The runs and series added since begin are now in the file. */
    for (size_t i = 0; i < writer->n_runs; i++) {
        writer->runs[i].saved_step = writer->runs[i].last_step;
        writer->runs[i].pending = false;
    }
    for (size_t i = 0; i < writer->n_series; i++)
        writer->series[i].pending = false;
    writer->fresh = false;
    es_log_after_commit(writer);
    return ES_OK;
}

/**
 * Begins a transaction and then checks the write-ahead log, because pages that
 * SQLite reads from a log with a hole are out of date.
 */
static es_status begin_transaction(es_writer *writer)
{
    es_status status;
    if ((status = es_log_begin(writer)) < 0 ||
        (status = es_log_check(writer)) < 0)
        roll_back(writer);
    return status;
}

es_status es_writer_begin(es_writer *writer)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    if (writer->in_transaction)
        return es_fail(ES_EARGUMENT, "%s: begin within a transaction",
                       writer->database.path);
    status = begin_transaction(writer);
    writer->in_transaction = status == ES_OK;
    writer->spoilt = false;
    return status;
}

es_status es_writer_commit(es_writer *writer)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    if (!writer->in_transaction)
        return es_fail(ES_EARGUMENT, "%s: commit without begin",
                       writer->database.path);
    writer->in_transaction = false;
    if (!writer->spoilt)
        return commit_transaction(writer);
    roll_back(writer);
    return es_fail(ES_EIO,
                   "%s: an earlier call failed, so nothing of this transaction "
                   "was written",
                   writer->database.path);
}

void es_writer_rollback(es_writer *writer)
{
    if (!writer->in_transaction || writer->database.owner != getpid())
        return;
    writer->in_transaction = false;
    roll_back(writer);
}

es_status es_writer_enter(es_writer *writer, bool *own)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    *own = !writer->in_transaction;
    if (*own)
        return begin_transaction(writer);
    if (writer->spoilt)
        return es_fail(ES_EIO, "%s: this transaction failed: roll it back",
                       writer->database.path);
    return ES_OK;
}

es_status es_writer_leave(es_writer *writer, bool own, es_status status)
{
    if (own && status == ES_OK)
        return commit_transaction(writer);
    if (own)
        roll_back(writer);
    else if (status < 0)
        writer->spoilt = true;
    return status;
}

/* --- runs ----------------------------------------------------------------- */

es_written_run *es_writer_known_run(es_writer *writer, int64_t run_id)
{
    for (size_t i = writer->n_runs; i-- > 0;)
        if (writer->runs[i].id == run_id)
            return &writer->runs[i];
    es_fail(ES_EARGUMENT, "%s: no run %lld was opened for writing",
            writer->database.path, (long long)run_id);
    return NULL;
}

static es_status know_run(es_writer *writer, const es_written_run *run,
                          const char *uuid)
{
    for (size_t i = 0; i < writer->n_runs; i++) {
        if (writer->runs[i].id == run->id) {
            writer->runs[i].last_step = run->last_step;
            writer->runs[i].has_ended = run->has_ended;
            return ES_OK;
        }
    }
    es_status status =
        es_reserve_next(&writer->runs, writer->n_runs, sizeof *writer->runs);
    if (status < 0)
        return status;
    writer->runs[writer->n_runs] = *run;
    memcpy(writer->runs[writer->n_runs++].uuid, uuid, ES_UUID_SIZE);
    return ES_OK;
}

static es_status check_info(const es_writer *writer, const es_run_info *info)
{
    const char *path = writer->database.path;
    if (info->n_layer < 1 || info->n_layer > ES_MAX_LAYERS ||
        info->n_head < 1 || info->n_head > ES_MAX_HEADS ||
        info->n_layer * info->n_head > ES_MAX_VALUES)
        return es_fail(ES_EARGUMENT,
                       "%s: a run cannot have %lld layers of %lld heads", path,
                       (long long)info->n_layer, (long long)info->n_head);
    if (info->uuid && !es_uuid_is(info->uuid))
        return es_fail(ES_EARGUMENT, "%s: not a uuid: %s", path, info->uuid);
    const struct {
        const char *name, *text;
    } texts[] = {
        {"the name", info->name},     {"arch", info->arch},
        {"family", info->family},     {"program", info->program},
        {"host", info->host},         {"started_at", info->started_at},
        {"ended_at", info->ended_at},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        es_status status =
            check_text(writer, texts[i].name, texts[i].text, ES_MAX_TEXT);
        if (status < 0)
            return status;
    }
    return check_json(writer, "config", info->config);
}

es_status es_writer_find_run(es_writer *writer, int64_t *run_id,
                             int64_t *n_layer, int64_t *n_head,
                             const char *uuid)
{
    *run_id = 0;
    sqlite3_stmt *s = writer->statements[ES_SQL_FIND_RUN];
    es_bind_text(s, 1, uuid);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *run_id = sqlite3_column_int64(s, 0);
        *n_layer = sqlite3_column_int64(s, 1);
        *n_head = sqlite3_column_int64(s, 2);
    }
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    return status;
}

static void bind_run(sqlite3_stmt *s, const es_run_info *info)
{
    es_bind_text(s, 1, info->uuid);
    es_bind_text(s, 2, info->name ? info->name : "run");
    es_bind_text(s, 3, info->arch);
    es_bind_text(s, 4, info->family);
    es_bind_number(s, 5, info->n_layer);
    es_bind_number(s, 6, info->n_head);
    es_bind_number(s, 7, info->d_model);
    es_bind_number(s, 8, info->ctx);
    es_bind_number(s, 9, info->vocab);
    es_bind_number(s, 10, info->batch);
    es_bind_number(s, 11, info->seed);
    es_bind_text(s, 12, info->config);
    es_bind_text(s, 13, info->program);
    es_bind_text(s, 14, info->host);
    es_bind_text(s, 15, info->started_at);
    es_bind_text(s, 16, info->ended_at);
    es_bind_text(s, 17, es_run_status_name(info->status));
}

es_status es_writer_add_run(es_writer *writer, int64_t *run_id,
                            const es_run_info *info)
{
    es_status status = check_info(writer, info);
    if (status < 0)
        return status;
    sqlite3_stmt *s = writer->statements[ES_SQL_ADD_RUN];
    bind_run(s, info);
    status = es_database_step(&writer->database, s);
    sqlite3_clear_bindings(s);
    if (status < 0)
        return status;
    *run_id = sqlite3_last_insert_rowid(writer->database.handle);
    if ((status = seal_row(writer, ES_SQL_RUN_ROW, *run_id)) < 0 ||
        (status = es_esf_out_run(writer->out, *run_id, info, -1)) < 0)
        return status;
    return know_run(
        writer,
        &(es_written_run){.id = *run_id,
                          .n_layer = info->n_layer,
                          .n_head = info->n_head,
                          .last_step = ES_UNKNOWN,
                          .saved_step = ES_UNKNOWN,
                          .has_ended = info->status != ES_RUN_RUNNING,
                          .pending = true},
        info->uuid);
}

static es_status add_new_run(es_writer *writer, int64_t *run_id,
                             const es_run_info *info)
{
    char uuid[ES_UUID_SIZE], now[ES_TIME_SIZE];
    es_run_info made = *info;
    if (!made.uuid) {
        es_status status = es_uuid_make(uuid);
        if (status < 0)
            return status;
        made.uuid = uuid;
    }
    if (!made.started_at) {
        es_time_now(now);
        made.started_at = now;
    }
    made.ended_at = NULL;
    made.status = ES_RUN_RUNNING;
    return es_writer_add_run(writer, run_id, &made);
}

static es_status find_last_step(es_writer *writer, int64_t run_id,
                                int64_t *last)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_FIND_LAST_STEP];
    sqlite3_bind_int64(s, 1, run_id);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER)
        *last = sqlite3_column_int64(s, 0);
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    return status;
}

es_status es_writer_cut_run(es_writer *writer, int64_t run_id, int64_t step)
{
    static const int deletes[] = {
        ES_SQL_RESUME_SAMPLES, ES_SQL_RESUME_CHECKSUMS, ES_SQL_RESUME_EVENTS};
    es_status status = es_esf_index_cut(writer->database.samples, run_id, step);
    for (int i = 0; i < 3 && status == ES_OK; i++) {
        sqlite3_stmt *s = writer->statements[deletes[i]];
        if (!s)
            continue;
        sqlite3_bind_int64(s, 1, run_id);
        sqlite3_bind_int64(s, 2, step);
        status = es_database_step(&writer->database, s);
    }
    return status < 0 ? status : es_map_cut(&writer->database, run_id, step);
}

es_status es_writer_resume_run(es_writer *writer, int64_t run_id,
                               const es_run_info *info, int64_t step)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_RESUME_RUN];
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_text(s, 2, info->config);
    es_bind_text(s, 3, info->program);
    es_bind_text(s, 4, info->host);
    int64_t last = ES_UNKNOWN;
    es_status status = es_database_step(&writer->database, s);
    sqlite3_clear_bindings(s);
    if (status < 0 || (status = seal_row(writer, ES_SQL_RUN_ROW, run_id)) < 0 ||
        (status = es_writer_cut_run(writer, run_id, step)) < 0 ||
        (status = find_last_step(writer, run_id, &last)) < 0 ||
        (status = es_esf_out_run(writer->out, run_id, info, step)) < 0)
        return status;
    /* saved_step has a value that no step has, so that commit writes the run's
       last step. */
    return know_run(writer,
                    &(es_written_run){.id = run_id,
                                      .n_layer = info->n_layer,
                                      .n_head = info->n_head,
                                      .last_step = last,
                                      .saved_step = INT64_MAX,
                                      .pending = true},
                    info->uuid);
}

/**
 * Adds to `config` the members of ENTROPY_RUN_CONFIG that it does not have.
 * Sets *out to the result, which the caller must free, or to NULL if nothing
 * was added.
 */
static es_status complete_config(es_writer *writer, char **out,
                                 const char *config)
{
    /* The SQL appends the members as text, so that the existing text of the
     * configuration does not change. */
    static const char sql[] =
        "WITH own(config) AS (SELECT CASE WHEN json_valid(coalesce(?1, '{}'))"
        "  THEN trim(coalesce(?1, '{}'), x'20090a0d') END),"
        " missing(members) AS (SELECT group_concat(json_quote(key) || ':' ||"
        "  CASE type WHEN 'true' THEN type WHEN 'false' THEN type"
        "  WHEN 'object' THEN value WHEN 'array' THEN value"
        "  ELSE json_quote(value) END)"
        "  FROM json_each(CASE WHEN json_valid(?2) AND"
        "   json_type(?2) = 'object' THEN ?2 ELSE '{}' END)"
        "  WHERE key NOT IN (SELECT key FROM own, json_each(config)))"
        " SELECT substr(config, 1, length(config) - 1) ||"
        "  iif(EXISTS (SELECT 1 FROM json_each(config)), ',', '') ||"
        "  members || '}' FROM own, missing"
        " WHERE json_type(config) = 'object'";
    const char *members = secure_getenv(ES_RUN_CONFIG_VARIABLE);
    sqlite3_stmt *s = NULL;
    *out = NULL;
    if (!members || !es_text_is_utf8(members, strlen(members)))
        return ES_OK;
    es_status status = es_database_prepare(&writer->database, &s, sql);
    if (status < 0)
        return status;
    es_bind_text(s, 1, config);
    es_bind_text(s, 2, members);
    int rc = sqlite3_step(s);
    status = es_database_status(&writer->database, rc);
    if (rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL)
        status = es_copy_text(out, (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    if (*out && strlen(*out) > ES_MAX_TEXT) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static es_status find_or_add_run(es_writer *writer, int64_t *run_id,
                                 const es_run_info *info, int64_t resume_step)
{
    int64_t there = 0, n_layer = 0, n_head = 0;
    es_status status = ES_OK;
    if (info->uuid && (status = es_writer_find_run(writer, &there, &n_layer,
                                                   &n_head, info->uuid)) < 0)
        return status;
    if (there && (n_layer != info->n_layer || n_head != info->n_head))
        return es_fail(ES_EFORMAT,
                       "%s: run %s has %lld layers of %lld heads, not %lld of "
                       "%lld: record into another file",
                       writer->database.path, info->uuid, (long long)n_layer,
                       (long long)n_head, (long long)info->n_layer,
                       (long long)info->n_head);
    es_run_info completed = *info;
    char *config = NULL;
    /* a run that is resumed without a new configuration keeps its
     * configuration */
    if ((!there || info->config) &&
        (status = complete_config(writer, &config, info->config)) < 0)
        return status;
    if (config)
        completed.config = config;
    *run_id = there;
    status = there
                 ? es_writer_resume_run(writer, there, &completed, resume_step)
                 : add_new_run(writer, run_id, &completed);
    free(config);
    return status;
}

es_status es_writer_run(es_writer *writer, int64_t *run_id,
                        const es_run_info *info, int64_t resume_step)
{
    bool own;
    es_status status;
    if ((status = check_info(writer, info)) < 0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status = find_or_add_run(writer, run_id, info, resume_step);
    return es_writer_leave(writer, own, status);
}

es_status es_writer_set_end(es_writer *writer, int64_t run_id,
                            es_run_status run_status, const char *at)
{
    bool own;
    es_written_run *run = es_writer_known_run(writer, run_id);
    if (!run)
        return ES_EARGUMENT;
    es_status status = es_writer_enter(writer, &own);
    if (status < 0)
        return status;
    sqlite3_stmt *s = writer->statements[ES_SQL_END_RUN];
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_text(s, 2, es_run_status_name(run_status));
    es_bind_text(s, 3, at);
    status = es_database_step(&writer->database, s);
    sqlite3_clear_bindings(s);
    run->has_ended = run_status != ES_RUN_RUNNING;
    if (status == ES_OK)
        status = seal_row(writer, ES_SQL_RUN_ROW, run_id);
    if (status == ES_OK)
        status = es_esf_out_end(writer->out, run_id, run_status, at);
    return es_writer_leave(writer, own, status);
}

es_status es_writer_end_run(es_writer *writer, int64_t run_id,
                            es_run_status run_status)
{
    char now[ES_TIME_SIZE];
    es_time_now(now);
    return es_writer_set_end(writer, run_id, run_status,
                             run_status == ES_RUN_RUNNING ? NULL : now);
}

/* --- series --------------------------------------------------------------- */

/** Returns the index of the first series whose id is at least `id`. */
static size_t lower_bound(const es_writer *writer, int64_t id)
{
    size_t low = 0, high = writer->n_series;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (writer->series[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static es_status know_series(es_writer *writer, const es_written_series *series)
{
    size_t at = lower_bound(writer, series->id);
    if (at < writer->n_series && writer->series[at].id == series->id)
        return ES_OK;
    es_status status = es_reserve_next(&writer->series, writer->n_series,
                                       sizeof *writer->series);
    if (status < 0)
        return status;
    memmove(writer->series + at + 1, writer->series + at,
            (writer->n_series - at) * sizeof *writer->series);
    writer->series[at] = *series;
    writer->n_series++;
    return ES_OK;
}

static es_status find_series(es_writer *writer, int64_t *series_id,
                             const es_written_run *run, const char *name,
                             es_shape shape, es_phase phase)
{
    *series_id = 0;
    sqlite3_stmt *s = writer->statements[ES_SQL_FIND_SERIES];
    sqlite3_bind_int64(s, 1, run->id);
    es_bind_text(s, 2, name);
    es_bind_text(s, 3, es_phase_name(phase));
    int rc = sqlite3_step(s);
    es_status status = es_database_status(&writer->database, rc);
    if (rc == SQLITE_ROW) {
        const char *is = (const char *)sqlite3_column_text(s, 1);
        *series_id = sqlite3_column_int64(s, 0);
        if (!is || strcmp(is, es_shape_name(shape)) != 0)
            status = es_fail(ES_EFORMAT,
                             "%s: series %s has one value per %s, not per %s",
                             writer->database.path, name, is ? is : "?",
                             es_shape_name(shape));
    }
    sqlite3_reset(s);
    return status;
}

static es_status check_n_series(es_writer *writer, int64_t run_id)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_COUNT_SERIES];
    sqlite3_bind_int64(s, 1, run_id);
    int rc = sqlite3_step(s);
    bool full = rc == SQLITE_ROW && sqlite3_column_int64(s, 0) >= ES_MAX_SERIES;
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    if (!full)
        return status;
    return es_fail(ES_EARGUMENT,
                   "%s: a run has %d series at most: record heads as one "
                   "series of head shape",
                   writer->database.path, ES_MAX_SERIES);
}

static es_status add_series(es_writer *writer, int64_t *series_id,
                            int64_t run_id, const char *name, es_shape shape,
                            es_phase phase, const char *unit)
{
    es_status status = check_n_series(writer, run_id);
    if (status < 0)
        return status;
    es_shape usual_shape;
    const char *usual_unit;
    es_series_standard(&usual_shape, &usual_unit, name);
    sqlite3_stmt *s = writer->statements[ES_SQL_ADD_SERIES];
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_text(s, 2, name);
    es_bind_text(s, 3, es_shape_name(shape));
    es_bind_text(s, 4, es_phase_name(phase));
    es_bind_text(s, 5, unit ? unit : usual_unit);
    status = es_database_step(&writer->database, s);
    sqlite3_clear_bindings(s);
    *series_id = sqlite3_last_insert_rowid(writer->database.handle);
    if (status == ES_OK)
        status = seal_row(writer, ES_SQL_SERIES_ROW, *series_id);
    return status < 0
               ? status
               : es_esf_out_series(writer->out, run_id, *series_id, name, shape,
                                   phase, unit ? unit : usual_unit);
}

static es_status find_or_add_series(es_writer *writer, int64_t *series_id,
                                    const es_written_run *run, const char *name,
                                    es_shape shape, es_phase phase,
                                    const char *unit)
{
    es_status status;
    if ((status = find_series(writer, series_id, run, name, shape, phase)) < 0)
        return status;
    if (!*series_id && (status = add_series(writer, series_id, run->id, name,
                                            shape, phase, unit)) < 0)
        return status;
    return know_series(
        writer,
        &(es_written_series){
            .id = *series_id,
            .run = (size_t)(run - writer->runs),
            .n_values = es_shape_values(shape, run->n_layer, run->n_head),
            .crc = es_checksum_of_series(run->uuid, phase, name),
            .pending = true,
        });
}

es_status es_writer_series(es_writer *writer, int64_t *series_id,
                           int64_t run_id, const char *name, es_shape shape,
                           es_phase phase, const char *unit)
{
    bool own;
    const es_written_run *run = es_writer_known_run(writer, run_id);
    if (!run)
        return ES_EARGUMENT;
    if (!name || !name[0])
        return es_fail(ES_EARGUMENT, "%s: a series needs a name",
                       writer->database.path);
    if ((unsigned)shape > ES_SHAPE_HEAD || (unsigned)phase > ES_PHASE_EVAL)
        return es_fail(ES_EARGUMENT, "%s: series %s: unknown shape or phase",
                       writer->database.path, name);
    es_status status;
    if ((status = check_text(writer, "a series' name", name, ES_MAX_NAME)) <
            0 ||
        (status = check_text(writer, "a series' unit", unit, ES_MAX_NAME)) <
            0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status =
        find_or_add_series(writer, series_id, run, name, shape, phase, unit);
    return es_writer_leave(writer, own, status);
}

/* --- samples -------------------------------------------------------------- */

static const es_written_series *known_series(const es_writer *writer,
                                             int64_t series_id)
{
    size_t at = lower_bound(writer, series_id);
    if (at < writer->n_series && writer->series[at].id == series_id)
        return &writer->series[at];
    es_fail(ES_EARGUMENT, "%s: no series %lld was opened for writing",
            writer->database.path, (long long)series_id);
    return NULL;
}

static es_status put_sample(es_writer *writer, const es_written_series *series,
                            int64_t step, const float *values)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_SAMPLE];
    const size_t size = series->n_values * sizeof *values;
    if (writer->out)
        return es_esf_out_sample(
            writer->out, writer->runs[series->run].id, series->id, step,
            es_checksum_of_sample(series->crc, step, values, size), values,
            series->n_values);
    sqlite3_bind_int64(s, 1, series->id);
    sqlite3_bind_int64(s, 2, step);
    sqlite3_bind_blob64(s, 3, values, size, SQLITE_STATIC);
    /*
     * The rowid is chosen so that the samples of a series are adjacent; reading
     * a series then reads only that series' pages. Nothing else relies on the
     * rowid. If the rowid is already used (steps beyond 32 bits, or a file
     * after VACUUM), SQLite chooses another rowid.
     */
    if (series->id > 0 && series->id <= INT32_MAX)
        sqlite3_bind_int64(s, 4,
                           series->id << 32 | (step & INT64_C(0xffffffff)));
    else
        sqlite3_bind_null(s, 4);
    if (writer->database.schema > 1)
        sqlite3_bind_int(
            s, 5, es_checksum_of_sample(series->crc, step, values, size));
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    if (rc == SQLITE_CONSTRAINT_ROWID) {
        sqlite3_bind_null(s, 4);
        rc = sqlite3_step(s);
    }
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    return status;
}

es_status es_writer_sample(es_writer *writer, int64_t series_id, int64_t step,
                           const float *values, size_t n)
{
    bool own;
    const es_written_series *series = known_series(writer, series_id);
    if (!series)
        return ES_EARGUMENT;
    if (n != series->n_values)
        return es_fail(
            ES_EARGUMENT, "%s: a sample of series %lld has %zu values, not %zu",
            writer->database.path, (long long)series_id, series->n_values, n);
    if (step < 0 || step > ES_MAX_STEP)
        return es_fail(ES_EARGUMENT, "%s: step %lld is out of range",
                       writer->database.path, (long long)step);
    es_status status = es_writer_enter(writer, &own);
    if (status < 0)
        return status;
    status = put_sample(writer, series, step, values);
    es_written_run *run = &writer->runs[series->run];
    if (status == ES_OK && step > run->last_step)
        run->last_step = step; /* ES_UNKNOWN, the value before the first sample,
                                  is less than every step */
    return es_writer_leave(writer, own, status);
}

es_status es_writer_place(es_writer *writer, int64_t series_id, int64_t step,
                          int64_t place)
{
    const es_written_series *series = known_series(writer, series_id);
    if (!series)
        return ES_EARGUMENT;
    if (step < 0 || step > ES_MAX_STEP)
        return es_fail(ES_EFORMAT, "%s: damaged: step %lld is out of range",
                       writer->database.path, (long long)step);
    es_written_run *run = &writer->runs[series->run];
    if (step > run->last_step)
        run->last_step = step;
    return es_esf_index_put(writer->database.samples, series_id, step, place);
}

/* --- events --------------------------------------------------------------- */

static es_status put_event(es_writer *writer, int64_t run_id,
                           const es_event *event)
{
    char now[ES_TIME_SIZE];
    es_time_now(now);
    sqlite3_stmt *s = writer->statements[ES_SQL_EVENT];
    sqlite3_bind_int64(s, 1, run_id);
    es_bind_number(s, 2, event->step);
    es_bind_text(s, 3, event->kind);
    sqlite3_bind_int(s, 4, (int)event->severity);
    es_bind_number(s, 5, event->layer);
    es_bind_number(s, 6, event->head);
    es_bind_text(s, 7, event->message);
    es_bind_text(s, 8, event->data);
    es_bind_text(s, 9, event->at ? event->at : now);
    es_bind_text(s, 10, event->dedupe);
    es_status status = es_database_step(&writer->database, s);
    sqlite3_clear_bindings(s);
    es_event dated = *event;
    if (!dated.at)
        dated.at = now;
    if (status < 0 || sqlite3_changes(writer->database.handle) == 0)
        return status; /* the run already has an event with this dedupe key */
    const int64_t id = sqlite3_last_insert_rowid(writer->database.handle);
    if ((status = seal_row(writer, ES_SQL_EVENT_ROW, id)) < 0)
        return status;
    return es_esf_out_event(writer->out, run_id, &dated);
}

es_status es_writer_event(es_writer *writer, int64_t run_id,
                          const es_event *event)
{
    bool own;
    if (!es_writer_known_run(writer, run_id))
        return ES_EARGUMENT;
    if (!event->kind || (unsigned)event->severity > ES_SEVERITY_CRITICAL)
        return es_fail(ES_EARGUMENT, "%s: an event needs a kind and a severity",
                       writer->database.path);
    const char *texts[] = {event->kind, event->message, event->at,
                           event->dedupe};
    es_status status;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((status = check_text(writer, "an event's text", texts[i],
                                 ES_MAX_TEXT)) < 0)
            return status;
    if ((status = check_json(writer, "an event's data", event->data)) < 0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status = put_event(writer, run_id, event);
    return es_writer_leave(writer, own, status);
}

/* --- attention maps ------------------------------------------------------- */

static es_status check_map(const es_writer *writer, const es_written_run *run,
                           const es_map *map, const float *values)
{
    const char *path = writer->database.path;
    if ((unsigned)map->phase > ES_PHASE_EVAL || map->step < 0 ||
        map->step > ES_MAX_STEP)
        return es_fail(ES_EARGUMENT,
                       "%s: attention map: step or phase out of range", path);
    if (map->layer < 0 || map->layer >= run->n_layer ||
        map->head < ES_MAP_MEAN || map->head >= run->n_head)
        return es_fail(
            ES_EARGUMENT,
            "%s: attention map of layer %lld, head %lld: the run has %lld "
            "layers of %lld heads",
            path, (long long)map->layer, (long long)map->head,
            (long long)run->n_layer, (long long)run->n_head);
    if (!values || map->size < 1 || map->size > ES_MAP_MAX ||
        map->n_ctx < map->size || map->n_ctx > INT32_MAX)
        return es_fail(
            ES_EARGUMENT,
            "%s: attention map of %lld cells per side for %lld tokens: "
            "expected 1 to %d cells, and at most one per token",
            path, values ? (long long)map->size : 0, (long long)map->n_ctx,
            ES_MAP_MAX);
    return ES_OK;
}

es_status es_writer_map(es_writer *writer, int64_t run_id, const es_map *map,
                        const float *values)
{
    bool own;
    es_written_run *run = es_writer_known_run(writer, run_id);
    if (!run)
        return ES_EARGUMENT;
    es_status status;
    if ((status = check_map(writer, run, map, values)) < 0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status = writer->out ? es_esf_out_map(writer->out, run->id, map, values)
                         : es_map_insert(&writer->database, run->id, run->uuid,
                                         map, values);
    if (status == ES_OK && map->step > run->last_step)
        run->last_step = map->step;
    return es_writer_leave(writer, own, status);
}

/* --- private databases of fragments --------------------------------------- */

es_status es_writer_attach(es_writer **out, const es_database *database)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a fragment's tables");
    if (status < 0)
        return status;
    (*out)->database = *database;
    (*out)->log.none = true;
    return es_writer_prepare(*out);
}

void es_writer_detach(es_writer *writer)
{
    if (!writer)
        return;
    es_database_finalise_all(&writer->database, writer->statements, ES_N_SQL);
    free(writer->runs);
    free(writer->series);
    free(writer);
}

es_status es_writer_forget(es_writer *writer)
{
    writer->n_runs = writer->n_series = 0;
    es_esf_index_clear(writer->database.samples);
    return es_database_execute(&writer->database,
                               "DELETE FROM event;"
                               "DELETE FROM series; DELETE FROM run;"
                               "DROP TABLE IF EXISTS attention_map");
}
