/* Writes the row of a run to a database, and computes the digest of the row,
 * which shows a push whether the row has changed. */
#include "store/push/push_internal.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "store/crc32c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROW_UUID, ROW_N_LAYER = 4, ROW_N_HEAD, ROW_STATUS = 15, N_FIELDS = 20 };

typedef struct row {
    const char *text[N_FIELDS];
    char *owned[N_FIELDS];
    char numbers[N_FIELDS][32];
    size_t n;
    es_status status;
} row;

static void add_text(row *r, const char *text)
{
    if (r->status == ES_OK)
        r->status = es_copy_utf8(&r->owned[r->n], text);
    r->text[r->n] = r->owned[r->n];
    r->n++;
}

static void add_number(row *r, int64_t number)
{
    snprintf(r->numbers[r->n], sizeof *r->numbers, "%lld", (long long)number);
    r->text[r->n] = number == ES_UNKNOWN ? NULL : r->numbers[r->n];
    r->n++;
}

static void add_real(row *r, double number)
{
    es_double_print(r->numbers[r->n], number);
    r->text[r->n] = isfinite(number) ? r->numbers[r->n] : NULL;
    r->n++;
}

#define ROW_COLUMNS                                                            \
    "uuid, name, arch, family, n_layer, n_head, d_model, ctx, vocab, batch,"   \
    " seed, config, program, host, started_at, status, ended_at, last_step,"   \
    " ceiling, source"

/* Fills the row in the order of ROW_COLUMNS. The caller must call row_free
 * afterwards, even on failure. */
static es_status fill_row(row *r, const es_push_job *j)
{
    const es_run_info *info = &j->info;
    *r = (row){.status = ES_OK};
    add_text(r, info->uuid);
    add_text(r, info->name);
    add_text(r, info->arch);
    add_text(r, info->family);
    add_number(r, info->n_layer);
    add_number(r, info->n_head);
    add_number(r, info->d_model);
    add_number(r, info->ctx);
    add_number(r, info->vocab);
    add_number(r, info->batch);
    add_number(r, info->seed);
    add_text(r, j->config);
    add_text(r, info->program);
    add_text(r, info->host);
    add_text(r, info->started_at ? info->started_at : "");
    add_text(r, es_run_status_name(info->status));
    add_text(r, info->ended_at);
    add_number(r, info->last_step);
    add_real(r, j->ceiling);
    add_text(r, j->source->path);
    return r->status;
}

static void row_free(row *r)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        free(r->owned[i]);
}

/* Computes the digest of the row's columns except the last column, which is the
 * path of the pushed file. */
static uint32_t digest_of(const row *r)
{
    uint32_t digest = 0;
    for (size_t i = 0; i + 1 < N_FIELDS; i++) {
        const char *text = r->text[i] ? r->text[i] : "\001";
        digest = es_crc32c(digest, text, strlen(text) + 1);
    }
    return digest | 1;
}

es_status es_push_insert_run(es_push_job *j)
{
    char low[32];
    row r;
    PGresult *result = NULL;
    es_status status = fill_row(&r, j);
    const char *parameters[N_FIELDS + 2];
    memcpy(parameters, r.text, sizeof r.text);
    parameters[ROW_STATUS] = "running"; /* the status that the run has in the
                                           database until all data is written */
    parameters[ROW_STATUS + 1] = parameters[ROW_STATUS + 2] = NULL;
    parameters[N_FIELDS] = j->pushed.month;
    es_double_print(low, j->pushed.low_below);
    parameters[N_FIELDS + 1] = isfinite(j->pushed.low_below) ? low : NULL;
    if (status == ES_OK)
        status = es_postgres_query(
            &result, j->pusher->postgres,
            "INSERT INTO entropy_scan.run(" ROW_COLUMNS ", month, low_below,"
            " changed_at, revision) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9,"
            " $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,"
            " entropy_scan.add_month($21), $22, now(), 1)"
            " ON CONFLICT (uuid) DO NOTHING RETURNING run_id",
            N_FIELDS + 2, parameters);
    if (status == ES_OK && es_pq.ntuples(result) < 1)
        status = ES_DONE;
    if (status == ES_OK) {
        snprintf(j->pushed.run, sizeof j->pushed.run, "%s",
                 es_pq.getvalue(result, 0, 0));
        j->pushed.run_id = strtoll(j->pushed.run, NULL, 10);
        j->added.runs = 1;
    }
    es_pq.clear(result);
    row_free(&r);
    return status;
}

/* --- several new runs ----------------------------------------------------- */

static const char *const names[N_FIELDS] = {
    "uuid",   "name",     "arch",      "family",  "n_layer",
    "n_head", "d_model",  "ctx",       "vocab",   "batch",
    "seed",   "config",   "program",   "host",    "started_at",
    "status", "ended_at", "last_step", "ceiling", "source"};

static es_status print_run(es_json_writer *json, const es_push_job *j)
{
    row r;
    es_status status = fill_row(&r, j);
    es_json_write_object(json, NULL);
    for (size_t i = 0; i < r.n; i++)
        es_json_write_text(json, names[i], r.text[i]);
    es_json_write_text(json, "month", j->pushed.month);
    if (isfinite(j->pushed.low_below))
        es_json_write_double(json, "low_below", j->pushed.low_below);
    es_json_write_integer(json, "changed",
                          es_push_changed_at(&j->info, j->source->changed_at));
    es_json_write_end(json, "}");
    row_free(&r);
    return status;
}

static es_status print_runs(char **out, const es_push_job *jobs, size_t n)
{
    size_t size;
    es_status status = ES_OK;
    es_json_writer json = {.stream = es_text_stream(out, &size)};
    if (!json.stream)
        return es_fail(ES_ENOMEM, "out of memory for the rows of runs");
    es_json_write_array(&json, NULL);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = print_run(&json, &jobs[i]);
    es_json_write_end(&json, "]");
    if (fclose(json.stream) != 0 && status == ES_OK)
        status = es_fail(ES_ENOMEM, "out of memory for the rows of runs");
    return status;
}

static int by_uuid(const void *key, const void *job)
{
    return strcmp(key, ((const es_push_job *)job)->info.uuid);
}

es_status es_push_insert_runs(es_push_job *jobs, size_t n)
{
    char *text = NULL;
    PGresult *result = NULL;
    es_status status = print_runs(&text, jobs, n);
    const char *parameter = text;
    if (status == ES_OK)
        status = es_postgres_query(
            &result, jobs->pusher->postgres,
            "INSERT INTO entropy_scan.run(" ROW_COLUMNS ", month, low_below,"
            " changed_at, revision) SELECT uuid, name, arch, family, n_layer,"
            " n_head, d_model, ctx, vocab, batch, seed, config::json, program,"
            " host, started_at, status, ended_at, last_step, ceiling, source,"
            " month, low_below, to_timestamp(changed),"
            " 1 FROM json_to_recordset($1::json) AS x(uuid text, name text,"
            " arch text, family text, n_layer integer, n_head integer,"
            " d_model bigint, ctx bigint, vocab bigint, batch bigint,"
            " seed bigint, config text, program text, host text,"
            " started_at text, status text, ended_at text, last_step bigint,"
            " ceiling float8, source text, month date, low_below float8,"
            " changed float8)"
            " ON CONFLICT (uuid) DO NOTHING RETURNING run_id, uuid",
            1, &parameter);
    free(text);
    for (int i = 0; status == ES_OK && i < es_pq.ntuples(result); i++) {
        es_push_job *j = bsearch(es_pq.getvalue(result, i, 1), jobs, n,
                                 sizeof *jobs, by_uuid);
        if (!j)
            continue;
        snprintf(j->pushed.run, sizeof j->pushed.run, "%s",
                 es_pq.getvalue(result, i, 0));
        j->pushed.run_id = strtoll(j->pushed.run, NULL, 10);
        j->added.runs = 1;
    }
    es_pq.clear(result);
    return status;
}

/* --- updates -------------------------------------------------------------- */

es_status es_push_update_run(const es_push_job *j)
{
    row r;
    char changed_at[24];
    PGresult *result = NULL;
    es_status status = fill_row(&r, j);
    const char *parameters[N_FIELDS + 1];
    memcpy(parameters, r.text, sizeof r.text);
    snprintf(changed_at, sizeof changed_at, "%lld",
             (long long)es_push_changed_at(&j->info, j->source->changed_at));
    parameters[N_FIELDS] = changed_at;
    if (status == ES_OK)
        status = es_postgres_query(
            &result, j->pusher->postgres,
            "UPDATE entropy_scan.run SET (" ROW_COLUMNS ", changed_at) ="
            " ROW($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
            " $15, $16, $17, greatest($18, last_step), $19, $20,"
            " to_timestamp($21)) WHERE uuid = $1",
            N_FIELDS + 1, parameters);
    es_pq.clear(result);
    row_free(&r);
    return status;
}

es_status es_push_measure_run(uint32_t *digest, const es_push_job *j)
{
    row r;
    es_status status = fill_row(&r, j);
    if (status == ES_OK)
        *digest = digest_of(&r);
    row_free(&r);
    return status;
}
