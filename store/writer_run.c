/* Adds runs to a file, resumes runs from a step, and ends them. */
#include "store/esf_index.h"
#include "store/map.h"
#include "store/writer_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"

#include <stdlib.h>
#include <string.h>

/* --- known runs ----------------------------------------------------------- */

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

/* --- runs ---------------------------------------------------------------- */

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
        es_status status = es_writer_check_text(writer, texts[i].name,
                                                texts[i].text, ES_MAX_TEXT);
        if (status < 0)
            return status;
    }
    return es_writer_check_json(writer, "config", info->config);
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
    status = es_writer_step(writer, s);
    sqlite3_clear_bindings(s);
    if (status < 0)
        return status;
    *run_id = sqlite3_last_insert_rowid(writer->database.handle);
    if ((status = es_writer_seal(writer, ES_SQL_RUN_ROW, *run_id)) < 0 ||
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
        status = es_writer_step(writer, s);
    }
    return status < 0 ? status : es_writer_cut_maps(writer, run_id, step);
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
    es_status status = es_writer_step(writer, s);
    sqlite3_clear_bindings(s);
    if (status < 0 ||
        (status = es_writer_seal(writer, ES_SQL_RUN_ROW, run_id)) < 0 ||
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
 * Adds those members of ENTROPY_RUN_CONFIG to `config` that it lacks. Sets *out
 * to the result, which the caller must free, or to NULL if `config` lacks no
 * member.
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
    status = es_writer_step(writer, s);
    sqlite3_clear_bindings(s);
    run->has_ended = run_status != ES_RUN_RUNNING;
    if (status == ES_OK)
        status = es_writer_seal(writer, ES_SQL_RUN_ROW, run_id);
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
