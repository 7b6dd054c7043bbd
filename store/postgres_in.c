/* Loads runs from PostgreSQL into a private database with the tables of a run
   file. All rows except samples are copied; reading them from the private
   database also checks them. */
#include "store/postgres_in_internal.h"

#include "analyzer/base/checked.h"
#include "store/postgresql/postgres_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FETCHED 1000 /* number of rows fetched at once */

/* --- the tables ----------------------------------------------------------- */

static es_status make_tables(es_remote *remote)
{
    es_database *database = remote->database;
    es_status status = es_database_open_private(database);
    if (status < 0)
        return status;
    database->refusal = remote->refusal;
    if ((status = es_database_status(database, es_remote_add_sample(remote))) <
        0)
        return status;
    return es_schema_make_private(database);
}

es_status es_remote_begin(const es_remote *remote)
{
    PGresult *result;
    es_status status =
        es_postgres_take_snapshot(&result, remote->postgres,
                                  "SELECT max(schema) FROM entropy_scan.about");
    if (status < 0)
        return status;
    const int version =
        es_pq.ntuples(result) ? atoi(es_pq.getvalue(result, 0, 0)) : 0;
    es_pq.clear(result);
    if (version > ES_POSTGRES_VERSION)
        return es_fail(ES_EVERSION,
                       "%s: schema %d is newer than this program's %d: upgrade "
                       "entropy-scan",
                       remote->postgres->base, version, ES_POSTGRES_VERSION);
    if (version < 1)
        return es_fail(ES_EFORMAT, "%s: not a database of runs (schema %d)",
                       remote->postgres->base, version);
    return ES_OK;
}

/* --- rows ----------------------------------------------------------------- */

/**
 * Receives the rows of a query. `take` replaces the row's ids of runs and
 * series by those of the private database and inserts the row.
 */
typedef struct target {
    es_remote *remote;
    sqlite3_stmt *insert;
    const PGresult *rows;
    int row;
    es_status (*take)(struct target *target);
} target;

static const char *text_of(const target *t, int column)
{
    return es_pq.getisnull(t->rows, t->row, column)
               ? NULL
               : es_pq.getvalue(t->rows, t->row, column);
}

static int64_t number_of(const target *t, int column)
{
    const char *text = text_of(t, column);
    return text ? strtoll(text, NULL, 10) : ES_UNKNOWN;
}

/**
 * Binds columns [from, to) of the current row as text; column i is bound to
 * parameter i + 1. SQLite converts the text to a number where the STRICT table
 * has a number column.
 */
static void bind(const target *t, int from, int to)
{
    for (int i = from; i < to; i++)
        es_bind_text(t->insert, i + 1, text_of(t, i));
}

static es_status insert(const target *t)
{
    const int rc = sqlite3_step(t->insert);
    es_status status = es_database_status(t->remote->database, rc);
    sqlite3_reset(t->insert);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = ((const es_remote_place *)a)->id;
    const int64_t y = ((const es_remote_place *)b)->id;
    return (x > y) - (x < y);
}

es_remote_run *es_remote_find_run(const es_remote *remote, int64_t id)
{
    const es_remote_place key = {.id = id};
    const es_remote_place *place =
        remote->n_runs
            ? bsearch(&key, remote->places, remote->n_runs, sizeof key, by_id)
            : NULL;
    return place ? &remote->runs[place->run] : NULL;
}

static es_status place_runs(es_remote *remote)
{
    es_status status = es_alloc(&remote->places, remote->n_runs,
                                sizeof *remote->places, "runs");
    if (status < 0 || !remote->n_runs)
        return status;
    for (size_t i = 0; i < remote->n_runs; i++)
        remote->places[i] = (es_remote_place){remote->runs[i].id, i};
    qsort(remote->places, remote->n_runs, sizeof *remote->places, by_id);
    return ES_OK;
}

/**
 * Finds the run whose id is in column 0 of the current row. Returns NULL if the
 * run was added after the runs were loaded.
 */
static es_remote_run *run_of(const target *t)
{
    return es_remote_find_run(t->remote, number_of(t, 0));
}

static es_status take_run(target *t)
{
    es_remote *remote = t->remote;
    es_status status =
        es_reserve_next(&remote->runs, remote->n_runs, sizeof *remote->runs);
    if (status < 0)
        return status;
    es_remote_run *run = &remote->runs[remote->n_runs++];
    *run = (es_remote_run){.id = number_of(t, 0),
                           .n_layer = number_of(t, 5),
                           .n_head = number_of(t, 6),
                           .is_written = text_of(t, 20)[0] == 't'};
    snprintf(run->month, sizeof run->month, "%s", text_of(t, 19));
    bind(t, 1, 19);
    sqlite3_bind_int64(t->insert, 1, (sqlite3_int64)remote->n_runs);
    return insert(t);
}

static size_t values_of(const char *shape, const es_remote_run *run)
{
    for (int i = ES_SHAPE_RUN; shape && i <= ES_SHAPE_HEAD; i++)
        if (strcmp(shape, es_shape_name((es_shape)i)) == 0)
            return es_shape_values((es_shape)i, run->n_layer, run->n_head);
    return 0;
}

/**
 * Finds or adds the kind (phase and name) of a series. A linear search
 * suffices, because there are only about as many kinds as standard series.
 */
static es_status find_kind(size_t *out, es_remote *remote, const char *name,
                           const char *phase)
{
    char *text;
    es_status status =
        es_reserve_next(&remote->kinds, remote->n_kinds, sizeof *remote->kinds);
    if (status < 0)
        return status;
    if (asprintf(&text, "%c%s", phase ? *phase : ' ', name ? name : "") < 0)
        return es_fail(ES_ENOMEM, "out of memory for a series");
    for (*out = 0; *out < remote->n_kinds; ++*out)
        if (strcmp(remote->kinds[*out].name, text) == 0) {
            free(text);
            return ES_OK;
        }
    remote->kinds[remote->n_kinds++] = (es_remote_kind){.name = text};
    return ES_OK;
}

static es_status take_series(target *t)
{
    es_remote *remote = t->remote;
    es_remote_run *run = run_of(t);
    if (!run)
        return ES_OK;
    es_status status = es_reserve_next(&remote->series, remote->n_series,
                                       sizeof *remote->series);
    if (status < 0)
        return status;
    if (run->n_series++ == 0)
        run->first_series = remote->n_series;
    size_t kind = 0;
    if ((status = find_kind(&kind, remote, text_of(t, 1), text_of(t, 3))) < 0)
        return status;
    const es_remote_series series = {.run = (size_t)(run - remote->runs),
                                     .kind = kind,
                                     .number = number_of(t, 5),
                                     .n_values = values_of(text_of(t, 2), run),
                                     .n_samples = number_of(t, 6),
                                     .first = ES_UNKNOWN,
                                     .last = ES_UNKNOWN};
    remote->series[remote->n_series++] = series;
    bind(t, 1, 5);
    sqlite3_bind_int64(t->insert, 1, (sqlite3_int64)series.run + 1);
    sqlite3_bind_int64(t->insert, 6, (sqlite3_int64)remote->n_series);
    return insert(t);
}

static es_status take_event(target *t)
{
    const es_remote_run *run = run_of(t);
    if (!run)
        return ES_OK;
    bind(t, 1, 10);
    sqlite3_bind_int64(t->insert, 1, run - t->remote->runs + 1);
    return insert(t);
}

static es_status take_rows(target *t, PGresult *rows)
{
    es_status status = ES_OK;
    t->rows = rows;
    for (t->row = 0; t->row < es_pq.ntuples(rows) && status == ES_OK; t->row++)
        status = t->take(t);
    es_pq.clear(rows);
    return status;
}

static es_status fetch_rows(target *t, const char *name)
{
    char fetch[64];
    int n;
    snprintf(fetch, sizeof fetch, "FETCH %d FROM %s", FETCHED, name);
    do {
        PGresult *rows;
        es_status status =
            es_postgres_query(&rows, t->remote->postgres, fetch, 0, NULL);
        if (status < 0)
            return status;
        n = es_pq.ntuples(rows);
        if ((status = take_rows(t, rows)) < 0)
            return status;
    } while (n == FETCHED);
    return ES_OK;
}

/**
 * Loads the rows of a query. Conditions on entropy_scan.run are appended to
 * `query`, followed by `order`, which is the ORDER BY clause.
 *
 *   name        name of the cursor that is used for many rows
 *   insert_sql  INSERT statement for a row; parameter 1 is the run's id in the
 *               private database
 *   take        converts and inserts one row
 */
static es_status load(es_remote *remote, const char *name, const char *query,
                      const char *order, const char *insert_sql,
                      es_status (*take)(target *))
{
    target t = {.remote = remote, .take = take};
    char *sql = NULL;
    es_status status =
        es_database_prepare(remote->database, &t.insert, insert_sql);
    if (status < 0)
        return status;
    PGresult *result = NULL;
    const bool is_one = remote->url.run != NULL; /* a single run has few rows,
                                                    so no cursor is needed */
    if (asprintf(&sql, "%s%s%s%s%s%s", is_one ? "" : "DECLARE ",
                 is_one ? "" : name, is_one ? "" : " NO SCROLL CURSOR FOR ",
                 query, remote->where, order) < 0) {
        sql = NULL;
        status = es_fail(ES_ENOMEM, "out of memory");
    }
    if (status == ES_OK)
        status = es_postgres_query(&result, remote->postgres, sql,
                                   remote->n_parameters,
                                   (const char *const *)remote->parameters);
    if (status == ES_OK && is_one) {
        status = take_rows(&t, result);
    } else if (status == ES_OK) {
        es_pq.clear(result);
        status = fetch_rows(&t, name);
    }
    free(sql);
    sqlite3_finalize(t.insert);
    return status;
}

/* Orders the runs by the files from which they were pushed, in the order in
 * which es_paths_expand lists these files. */
#define BY_SOURCE " ORDER BY run.source || '.db' COLLATE \"C\", run.run_id"
#define OF_RUNS " JOIN entropy_scan.run USING (run_id) WHERE true"

static es_status load_rows(es_remote *remote)
{
    char silent[32], query[512];
    es_status status;
    snprintf(silent, sizeof silent, "%d", ES_REMOTE_SILENT_S);
    snprintf(query, sizeof query,
             "SELECT run_id, uuid, name, arch, family, n_layer, n_head, "
             "d_model, ctx, vocab, batch, seed, config, program, host, "
             "started_at, ended_at, status, last_step, month, "
             "status = 'running' AND changed_at > now() - interval '%s s'"
             " FROM entropy_scan.run WHERE true",
             silent);
    if ((status = load(remote, "es_runs", query, BY_SOURCE,
                       "INSERT INTO run VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
                       " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
                       take_run)) < 0 ||
        (status = place_runs(remote)) < 0 ||
        (status = load(remote, "es_series",
                       "SELECT series.run_id, series.name, shape, phase, unit,"
                       " series, n_samples FROM entropy_scan.series" OF_RUNS,
                       BY_SOURCE ", series",
                       "INSERT INTO series VALUES(?6, ?1, ?2, ?3, ?4, ?5)",
                       take_series)) < 0)
        return status;
    return load(
        remote, "es_events",
        "SELECT event.run_id, event.step, kind, severity, layer, head,"
        " message, data, coalesce(at, ''), CASE WHEN starts_with(dedupe,"
        " run.uuid || '/') THEN dedupe ELSE run.uuid || '/' || dedupe END"
        " FROM entropy_scan.event" OF_RUNS,
        " ORDER BY event.run_id, number",
        "INSERT INTO event(run_id, step, kind, severity, layer, head, message,"
        " data, at, dedupe) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        take_event);
}

static void forget(es_remote *remote)
{
    es_remote_rows_release(remote->block);
    remote->block = NULL;
    free(remote->runs);
    free(remote->places);
    free(remote->series);
    remote->runs = NULL;
    remote->places = NULL;
    remote->series = NULL;
    remote->n_runs = remote->n_series = 0;
    remote->maps_of = 0;
}

static es_status read_all(es_remote *remote)
{
    es_status status;
    if ((status = es_remote_begin(remote)) < 0 ||
        (status = es_database_execute(
             remote->database, "BEGIN; DELETE FROM event; DELETE FROM series;"
                               "DELETE FROM run;"
                               "DROP TABLE IF EXISTS attention_map")) < 0)
        return status;
    forget(remote);
    status = load_rows(remote);
    es_status ended = es_database_execute(
        remote->database, status == ES_OK ? "COMMIT" : "ROLLBACK");
    return status < 0 ? status : ended;
}

/* --- opening and closing -------------------------------------------------- */

es_status es_remote_open(es_remote **out, es_database *database,
                         const char *url)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a database");
    if (status < 0)
        return status;
    es_remote *remote = *out;
    remote->database = database;
    database->owner = getpid();
    if ((status = es_postgres_url_read(&remote->url, url)) < 0 ||
        (status = es_copy_text(&database->path, remote->url.shown)) < 0 ||
        (status = es_copy_text(&database->file, remote->url.shown)) < 0 ||
        (status = es_remote_where_read(remote)) < 0 ||
        (status = es_postgres_open(&remote->postgres, &remote->url, false)) <
            0 ||
        (status = make_tables(remote)) < 0)
        return status;
    return read_all(remote);
}

es_status es_remote_refresh(es_remote *remote)
{
    if (remote->postgres && es_postgres_is_lost(remote->postgres)) {
        es_postgres_close(remote->postgres);
        remote->postgres = NULL;
    }
    es_status status = ES_OK;
    if (!remote->postgres)
        status = es_postgres_open(&remote->postgres, &remote->url, false);
    return status == ES_OK ? read_all(remote) : status;
}

void es_remote_close(es_remote *remote)
{
    if (!remote)
        return;
    forget(remote);
    for (size_t i = 0; i < remote->n_kinds; i++)
        free(remote->kinds[i].name);
    free(remote->kinds);
    es_postgres_close(remote->postgres);
    es_remote_where_free(remote);
    es_postgres_url_free(&remote->url);
    remote->database->refusal = NULL;
    free(remote);
}

bool es_remote_is_written(const es_remote *remote)
{
    for (size_t i = 0; i < remote->n_runs; i++)
        if (remote->runs[i].is_written && !remote->runs[i].left_out)
            return true;
    return false;
}

bool es_remote_is_run_written(const es_remote *remote, int64_t run_id)
{
    return remote->runs[run_id - 1].is_written;
}

/**
 * The URL contains the conditions on members of the configuration, too, because
 * they are evaluated when the run is read.
 */
es_status es_remote_run_url(char **out, const es_remote *remote,
                            const char *uuid)
{
    const char *base = remote->url.base;
    const char *where =
        remote->n_conditions ? strstr(remote->url.shown, "where=") : NULL;
    const int n_where = where ? (int)strcspn(where, "&") : 0;
    if (asprintf(out, "%s%crun=%s%s%.*s", base, strchr(base, '?') ? '&' : '?',
                 uuid, n_where ? "&" : "", n_where, where ? where : "") < 0) {
        *out = NULL;
        return es_fail(ES_ENOMEM, "out of memory for a URL");
    }
    return ES_OK;
}
