/* Loads runs from PostgreSQL into a private SQLite database in memory with the
   tables of a run file. All rows except samples are copied; reading them from
   the private database also checks them.

   The table `sample` of the private database is virtual: a scan fetches the
   samples that it needs, either all samples of several small runs with one
   query, or a part of one series. This process sorts the samples by series and
   step, because the server might sort them on its disk. The attention maps of a
   run are loaded on request, because they are large and few readers need them.
 */
#include "store/postgres_in_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"
#include "store/map.h"
#include "store/postgresql/postgres_schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FETCHED 1000 /* number of rows fetched at once */

/* Maximum number of bytes of samples that one query fetches. */
#define BLOCK_BYTES (8 << 20)
/* Number of bytes of samples that one query fetches from a series of a large
 * run. */
#define PIECE_BYTES (1 << 18)

/* Number of runs whose first and last steps one query fetches. */
#define STEPS_OF 64
/* Maximum number of runs in one query for samples. */
#define BLOCK_RUNS_MOST 256
#define FROM_SAMPLE                                                            \
    " FROM entropy_scan.sample WHERE run_id = %" PRId64                        \
    " AND series = %" PRId64 " AND month = '%s' AND step BETWEEN %" PRId64     \
    " AND %" PRId64

/**
 * The name and the phase of a series. Series of different runs are of the same
 * kind if they have the same name and phase.
 */
typedef struct es_remote_kind {
    char *name;     /* first letter of the phase, followed by the series'
                       name */
    bool is_wanted; /* true if series of this kind are fetched together for
                       several runs */
} es_remote_kind;

/** A series. Its id in the private SQLite database is its index plus 1. */
typedef struct es_remote_series {
    size_t run, kind; /* indexes */
    int64_t number;
    size_t n_values;
    int64_t n_samples;   /* number of samples in the database, used only to
                            estimate sizes */
    int64_t first, last; /* first and last step; ES_UNKNOWN if there are no
                            samples */
    bool has_steps;      /* true if `first` and `last` are known */
} es_remote_series;

/** Maps a run's id in PostgreSQL to its index. */
typedef struct es_remote_place {
    int64_t id;
    size_t run; /* index */
} es_remote_place;

/** One fetched sample of a series. */
typedef struct es_remote_row {
    uint32_t series; /* index */
    int32_t crc;
    int64_t step;
    size_t at, n; /* offset and size of the value in `data`, in bytes; n is 0 if
                     the value is invalid */
} es_remote_row;

/** Fetched samples, in order of series and step. */
typedef struct es_remote_rows {
    int n_uses;
    es_remote_row *rows; /* (n) */
    size_t n;
    unsigned char *data; /* (n_data) float32, little-endian */
    size_t n_data;
    size_t first_run, end_run; /* the rows contain samples of all runs with
                                  indexes in [first_run, end_run) */
    bool *has_kind; /* for each of the remote->n_kinds kinds of series, true if
                       it was fetched; may be NULL */
} es_remote_rows;

/* --- rows ----------------------------------------------------------------- */

/**
 * Receives the rows of a query. `take` replaces the row's PostgreSQL ids of
 * runs and series by the ids in the private SQLite database, and inserts the
 * row there.
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
static void bind_columns(const target *t, int from, int to)
{
    for (int i = from; i < to; i++)
        es_bind_text(t->insert, i + 1, text_of(t, i));
}

static es_status insert_row(const target *t)
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

/**
 * Finds a run by its id in PostgreSQL. Returns NULL if the run was added after
 * the runs were loaded.
 */
static es_remote_run *find_run(const es_remote *remote, int64_t id)
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
    return find_run(t->remote, number_of(t, 0));
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
    bind_columns(t, 1, 19);
    sqlite3_bind_int64(t->insert, 1, (sqlite3_int64)remote->n_runs);
    return insert_row(t);
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
    bind_columns(t, 1, 5);
    sqlite3_bind_int64(t->insert, 1, (sqlite3_int64)series.run + 1);
    sqlite3_bind_int64(t->insert, 6, (sqlite3_int64)remote->n_series);
    return insert_row(t);
}

static es_status take_event(target *t)
{
    const es_remote_run *run = run_of(t);
    if (!run)
        return ES_OK;
    bind_columns(t, 1, 10);
    sqlite3_bind_int64(t->insert, 1, run - t->remote->runs + 1);
    return insert_row(t);
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
 *               private SQLite database
 *   take        converts and inserts one row
 */
static es_status load_query(es_remote *remote, const char *name,
                            const char *query, const char *order,
                            const char *insert_sql, es_status (*take)(target *))
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
    if ((status = load_query(
             remote, "es_runs", query, BY_SOURCE,
             "INSERT INTO run VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
             " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
             take_run)) < 0 ||
        (status = place_runs(remote)) < 0 ||
        (status =
             load_query(remote, "es_series",
                        "SELECT series.run_id, series.name, shape, phase, unit,"
                        " series, n_samples FROM entropy_scan.series" OF_RUNS,
                        BY_SOURCE ", series",
                        "INSERT INTO series VALUES(?6, ?1, ?2, ?3, ?4, ?5)",
                        take_series)) < 0)
        return status;
    return load_query(
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

/* --- fetched samples ------------------------------------------------------ */

/**
 * Decrements the use count of the rows, and frees the rows when it is 0. `rows`
 * may be NULL.
 */
static void release_rows(es_remote_rows *rows)
{
    if (!rows || --rows->n_uses > 0)
        return;
    free(rows->rows);
    free(rows->data);
    free(rows->has_kind);
    free(rows);
}

static int by_place(const void *a, const void *b)
{
    const es_remote_row *x = a, *y = b;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static void sort_rows(es_remote_rows *rows)
{
    for (size_t i = 1; i < rows->n; i++)
        if (by_place(&rows->rows[i - 1], &rows->rows[i]) > 0) {
            qsort(rows->rows, rows->n, sizeof *rows->rows, by_place);
            return;
        }
}

/** Grows the data buffer so that n more bytes fit. */
static es_status reserve_data(es_remote_rows *rows, size_t *capacity, size_t n)
{
    if (rows->n_data + n <= *capacity)
        return ES_OK;
    const size_t size =
        *capacity * 2 > rows->n_data + n ? *capacity * 2 : rows->n_data + n;
    es_status status = es_grow(&rows->data, size, 1, "samples");
    if (status == ES_OK)
        *capacity = size;
    return status;
}

/**
 * Finds a series of a run by its number in PostgreSQL. Returns its index, or
 * (size_t)-1 if the series was added after the runs were loaded.
 */
static size_t find_series(const es_remote *remote, const es_remote_run *run,
                          int64_t number)
{
    size_t low = run->first_series, high = low + run->n_series;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (remote->series[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->first_series + run->n_series &&
                   remote->series[low].number == number
               ? low
               : (size_t)-1;
}

/**
 * Adds a row with run_id, series, step, crc and, if requested, value to the
 * fetched samples.
 */
static es_status receive_row(es_remote_rows *rows, size_t *capacity,
                             const es_remote *remote, es_remote_copy *copy,
                             bool with_values)
{
    const es_remote_run *run = find_run(remote, es_remote_copy_integer(copy));
    const int64_t number = es_remote_copy_integer(copy);
    const size_t series = run ? find_series(remote, run, number) : (size_t)-1;
    if (series == (size_t)-1)
        return ES_OK;
    const size_t n = remote->series[series].n_values;
    es_status status;
    if ((status = es_reserve_next(&rows->rows, rows->n, sizeof *rows->rows)) <
            0 ||
        (with_values &&
         (status = reserve_data(rows, capacity, n * sizeof(float))) < 0))
        return status;
    es_remote_row *row = &rows->rows[rows->n++];
    *row = (es_remote_row){.series = (uint32_t)series, .at = rows->n_data};
    row->step = es_remote_copy_integer(copy);
    row->crc = (int32_t)es_remote_copy_integer(copy);
    if (with_values &&
        es_remote_copy_array(copy, rows->data + rows->n_data, n)) {
        row->n = n * sizeof(float);
        rows->n_data += row->n;
    }
    return ES_OK;
}

/** Receives all rows of a running query. */
static es_status receive_rows(es_remote_rows **out, const es_remote *remote,
                              es_remote_copy *copy, bool with_values)
{
    size_t capacity = 0;
    es_status status = es_alloc(out, 1, sizeof **out, "samples");
    if (status < 0)
        return status;
    (*out)->n_uses = 1;
    while (status == ES_OK &&
           (status = es_remote_copy_next(copy, with_values ? 5 : 4)) == ES_OK)
        status = receive_row(*out, &capacity, remote, copy, with_values);
    if (status == ES_DONE) {
        sort_rows(*out);
        return ES_OK;
    }
    release_rows(*out);
    *out = NULL;
    return status;
}

/* --- queries for samples -------------------------------------------------- */

/**
 * Writes two SQL lists for the runs [first, end). `months` lists their months.
 * `ids` lists their ids or, if `with_series` is set, a pair (run, series) such
 * as (1,2) for each wanted series.
 */
static es_status list_runs(char **ids, char **months, const es_remote *remote,
                           size_t first, size_t end, bool with_series)
{
    const char *last = "";
    size_t n;
    FILE *id = es_text_stream(ids, &n);
    FILE *month = es_text_stream(months, &n);
    for (size_t i = first; i < end && id && month; i++) {
        const es_remote_run *run = &remote->runs[i];
        if (run->left_out)
            continue;
        if (!with_series)
            fprintf(id, "%s%" PRId64, ftell(id) ? "," : "", run->id);
        for (size_t k = 0; with_series && k < run->n_series; k++) {
            const es_remote_series *s = &remote->series[run->first_series + k];
            if (remote->kinds[s->kind].is_wanted)
                fprintf(id, "%s(%" PRId64 ",%" PRId64 ")", ftell(id) ? "," : "",
                        run->id, s->number);
        }
        if (strcmp(run->month, last) != 0)
            fprintf(month, "%s'%s'", ftell(month) ? "," : "", run->month);
        last = run->month;
    }
    if (id && fclose(id) == 0 && month && fclose(month) == 0)
        return ES_OK;
    return es_fail(ES_ENOMEM, "out of memory for a query");
}

/** Returns the approximate size in bytes of all samples of a series. */
static size_t series_bytes(const es_remote_series *series)
{
    if (series->n_samples < 0 || series->n_samples > BLOCK_BYTES)
        return BLOCK_BYTES;
    return (size_t)series->n_samples *
           (series->n_values * sizeof(float) + sizeof(es_remote_row));
}

/** Returns the approximate size in bytes of the wanted series of a run. */
static size_t run_bytes(const es_remote *remote, size_t run)
{
    const es_remote_run *r = &remote->runs[run];
    size_t bytes = 0;
    for (size_t i = 0; i < r->n_series; i++) {
        const es_remote_series *s = &remote->series[r->first_series + i];
        if (remote->kinds[s->kind].is_wanted)
            bytes += series_bytes(s);
    }
    return bytes;
}

/**
 * Returns the end of the block of runs that begins with `run`. The first block
 * has only one run, because it is not known yet which kinds of series are
 * wanted.
 */
static size_t end_of_block(const es_remote *remote, size_t run)
{
    size_t end = run + 1, bytes = run_bytes(remote, run);
    while (remote->block && end < remote->n_runs &&
           end - run < BLOCK_RUNS_MOST) {
        bytes += run_bytes(remote, end);
        if (bytes > BLOCK_BYTES)
            break;
        end++;
    }
    return end;
}

static es_status note_kinds(es_remote_rows *rows, const es_remote *remote)
{
    es_status status = es_alloc(&rows->has_kind, remote->n_kinds,
                                sizeof *rows->has_kind, "samples");
    for (size_t i = 0; i < remote->n_kinds && status == ES_OK; i++)
        rows->has_kind[i] = remote->kinds[i].is_wanted;
    return status;
}

/**
 * Fetches the wanted series of a run into *remote->block. Except at the first
 * call, also fetches those of the following runs, up to BLOCK_BYTES.
 */
static es_status fetch_runs(es_remote *remote, size_t run)
{
    es_remote_copy copy = {.postgres = NULL};
    es_remote_rows *rows = NULL;
    char *ids = NULL, *months = NULL;
    const size_t end = end_of_block(remote, run);
    es_status status = list_runs(&ids, &months, remote, run, end, true);
    if (status == ES_OK)
        status = es_remote_copy_begin(
            &copy, remote->postgres,
            "SELECT run_id, series, step, crc, value FROM (VALUES %s)"
            " AS wanted(run_id, series) JOIN entropy_scan.sample"
            " USING (run_id, series) WHERE month IN (%s)",
            ids, months);
    if (status == ES_OK)
        status = receive_rows(&rows, remote, &copy, true);
    es_remote_copy_end(&copy);
    free(ids);
    free(months);
    if (status < 0)
        return status;
    if ((status = note_kinds(rows, remote)) < 0) {
        release_rows(rows);
        return status;
    }
    rows->first_run = run;
    rows->end_run = end;
    release_rows(remote->block);
    remote->block = rows;
    return ES_OK;
}

/**
 * Fetches at most `most` samples of a series with steps in [from, to]. They are
 * the last such samples if `falling` is set, else the first. Their values are
 * fetched only if `with_values` is set.
 */
static es_status fetch_piece(es_remote_rows **out, es_remote *remote,
                             size_t series, int64_t from, int64_t to,
                             size_t most, bool falling, bool with_values)
{
    const es_remote_series *s = &remote->series[series];
    const es_remote_run *run = &remote->runs[s->run];
    es_remote_copy copy = {.postgres = NULL};
    *out = NULL;
    es_status status =
        es_remote_copy_begin(&copy, remote->postgres,
                             "SELECT run_id, series, step, crc%s" FROM_SAMPLE
                             " ORDER BY step %s LIMIT %zu",
                             with_values ? ", value" : "", run->id, s->number,
                             run->month, from, to, falling ? "DESC" : "", most);
    if (status == ES_OK)
        status = receive_rows(out, remote, &copy, with_values);
    es_remote_copy_end(&copy);
    return status;
}

static void receive_steps(es_remote *remote, es_remote_copy *copy)
{
    const es_remote_run *run = find_run(remote, es_remote_copy_integer(copy));
    const int64_t number = es_remote_copy_integer(copy);
    const size_t series = run ? find_series(remote, run, number) : (size_t)-1;
    if (series == (size_t)-1)
        return;
    remote->series[series].first = es_remote_copy_integer(copy);
    remote->series[series].last = es_remote_copy_integer(copy);
}

/**
 * Finds the first and last steps of all series of a run and, with the same
 * query, of some of the following runs.
 */
static es_status find_steps(es_remote *remote, size_t run)
{
    es_remote_copy copy = {.postgres = NULL};
    char *ids = NULL, *months = NULL;
    const size_t end =
        remote->n_runs - run < STEPS_OF ? remote->n_runs : run + STEPS_OF;
#define ONE_STEP(order)                                                        \
    "(SELECT step FROM entropy_scan.sample a WHERE a.run_id = series.run_id"   \
    " AND a.series = series.series AND a.month = run.month"                    \
    " ORDER BY step " order " LIMIT 1)"
    es_status status = list_runs(&ids, &months, remote, run, end, false);
    if (status == ES_OK)
        status = es_remote_copy_begin(
            &copy, remote->postgres,
            "SELECT series.run_id, series, " ONE_STEP("") ", " ONE_STEP(
                "DESC") " FROM entropy_scan.series JOIN entropy_scan.run USING "
                        "(run_id)"
                        " WHERE series.run_id IN (%s)",
            ids);
    while (status == ES_OK && (status = es_remote_copy_next(&copy, 4)) == ES_OK)
        receive_steps(remote, &copy);
    es_remote_copy_end(&copy);
    free(ids);
    free(months);
    if (status < 0)
        return status;
    for (size_t i = run; i < end; i++)
        for (size_t k = 0; k < remote->runs[i].n_series; k++)
            remote->series[remote->runs[i].first_series + k].has_steps = true;
    return ES_OK;
}

enum { SERIES_ID, STEP, CRC, VALUE };
/* Bits of the plan that xBestIndex passes to xFilter. The arguments of xFilter
 * are in the order of the bits. */
enum { BY_SERIES = 1, FROM = 2, TO = 4, FALLING = 8, WITH_VALUES = 16 };
/* Number of samples that the first query fetches, because a statement may need
 * only one sample. */
#define FIRST_PIECE 16

typedef struct sample_table {
    sqlite3_vtab base; /* must be the first member, because SQLite passes its
                          address */
    es_remote *remote;
} sample_table;

typedef struct sample_cursor {
    sqlite3_vtab_cursor base; /* must be the first member, because SQLite passes
                                 its address */
    int plan;
    size_t series, end_series; /* index of the current series, and index after
                                  the last series to scan */
    int64_t from, to;          /* range of steps that is still to be scanned */
    size_t n_pieces;           /* number of queries for the current series so
                                  far */
    es_remote_rows *rows;      /* samples that were fetched last; NULL at the
                                  end of the scan */
    size_t at, n;              /* remaining rows are [at, n) of `rows` */
    bool is_whole; /* true if the fetched rows reach the end of the series */
    sqlite3_int64 rowid;
} sample_cursor;

/* --- position of a scan --------------------------------------------------- */

static es_remote *remote_of(const sample_cursor *cursor)
{
    return ((sample_table *)cursor->base.pVtab)->remote;
}

/**
 * Narrows the range [at, n) of fetched rows to the rows of the current series
 * with steps in [from, to].
 */
static void narrow_rows(sample_cursor *cursor)
{
    const es_remote_rows *rows = cursor->rows;
    const es_remote_row low = {.series = (uint32_t)cursor->series,
                               .step = cursor->from};
    size_t first = 0, end = rows->n;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const es_remote_row *row = &rows->rows[middle];
        if (row->series < low.series ||
            (row->series == low.series && row->step < low.step))
            first = middle + 1;
        else
            end = middle;
    }
    for (end = first; end < rows->n && rows->rows[end].series == low.series &&
                      rows->rows[end].step <= cursor->to;)
        end++;
    cursor->at = first;
    cursor->n = end;
}

static bool has_run(const es_remote_rows *rows, size_t run)
{
    return rows && run >= rows->first_run && run < rows->end_run;
}

/**
 * Sets *found to true if the series is in the block of runs that was fetched
 * last. If it is not, but the series of this kind was scanned in an earlier
 * run, first fetches a block of runs that begins with this run. A query for one
 * sample does not count as a scan if the sample has many values.
 */
static es_status find_block(bool *found, sample_cursor *cursor)
{
    es_remote *remote = remote_of(cursor);
    const es_remote_series *series = &remote->series[cursor->series];
    es_remote_kind *kind = &remote->kinds[series->kind];
    const bool is_there = has_run(remote->block, series->run);
    *found = is_there && remote->block->has_kind[series->kind];
    if (*found || !(cursor->plan & WITH_VALUES))
        return ES_OK;
    if (cursor->from < cursor->to || series->n_values == 1)
        kind->is_wanted = true;
    if (is_there && kind->is_wanted) /* The fetched block has the run but not
                                        this series. Shorten the block, so that
                                        later runs get a new block with the
                                        series. */
        remote->block->end_run = series->run + 1;
    if (is_there || !kind->is_wanted ||
        run_bytes(remote, series->run) > BLOCK_BYTES)
        return ES_OK;
    *found = true;
    return fetch_runs(remote, series->run);
}

/**
 * Sets *step to the series' first or last step, depending on the direction of
 * the scan. Needs no samples.
 */
static es_status find_end(sample_cursor *cursor, int64_t *step)
{
    es_remote *remote = remote_of(cursor);
    es_remote_series *series = &remote->series[cursor->series];
    es_status status;
    if (!series->has_steps && (status = find_steps(remote, series->run)) < 0)
        return status;
    *step = cursor->plan & FALLING ? series->last : series->first;
    return ES_OK;
}

/**
 * Makes the first or last step of the series the current row, depending on the
 * direction, without fetching samples. Most scans without values need only this
 * one row; the other rows are fetched if the scan continues.
 */
static es_status take_end(sample_cursor *cursor, bool *taken)
{
    int64_t step;
    es_status status = find_end(cursor, &step);
    *taken = status == ES_OK && (step == ES_UNKNOWN ||
                                 (step >= cursor->from && step <= cursor->to));
    if (!*taken)
        return status;
    es_remote_rows *rows = calloc(1, sizeof *rows);
    es_remote_row *row = calloc(1, sizeof *row);
    if (!rows || !row) {
        free(rows);
        free(row);
        return es_fail(ES_ENOMEM, "out of memory for a sample");
    }
    *row = (es_remote_row){.series = (uint32_t)cursor->series, .step = step};
    *rows = (es_remote_rows){
        .n_uses = 1, .rows = row, .n = step == ES_UNKNOWN ? 0 : 1};
    cursor->rows = rows;
    cursor->n = rows->n;
    cursor->is_whole = rows->n == 0;
    return ES_OK;
}

/**
 * Fetches the next rows of the current series. Sets is_whole if no rows are
 * left after them.
 */
static es_status fetch_next(sample_cursor *cursor)
{
    es_remote *remote = remote_of(cursor);
    const es_remote_series *series = &remote->series[cursor->series];
    const bool falling = cursor->plan & FALLING;
    bool taken = false;
    es_status status;
    release_rows(cursor->rows);
    cursor->rows = NULL;
    if ((status = find_block(&taken, cursor)) < 0)
        return status;
    if (taken) {
        cursor->rows = remote->block;
        cursor->rows->n_uses++;
        cursor->is_whole = true;
        narrow_rows(cursor);
        return ES_OK;
    }
    cursor->at = cursor->n = 0;
    if (cursor->n_pieces++ == 0 && !(cursor->plan & WITH_VALUES) &&
        ((status = take_end(cursor, &taken)) < 0 || taken))
        return status;
    const size_t bytes = series->n_values * sizeof(float) + 1;
    const bool is_small = series_bytes(series) <= PIECE_BYTES;
    const size_t most = falling && cursor->n_pieces == 1 ? 1
                        : cursor->n_pieces > 1 || is_small
                            ? PIECE_BYTES / bytes + 1
                            : FIRST_PIECE;
    status = fetch_piece(&cursor->rows, remote, cursor->series, cursor->from,
                         cursor->to, most, falling, cursor->plan & WITH_VALUES);
    if (status < 0)
        return status;
    cursor->n = cursor->rows->n;
    cursor->is_whole = cursor->n < most || cursor->from == cursor->to;
    return ES_OK;
}

static const es_remote_row *row_of(const sample_cursor *cursor)
{
    return &cursor->rows
                ->rows[cursor->plan & FALLING ? cursor->n - 1 : cursor->at];
}

static void begin_series(sample_cursor *cursor, int64_t from, int64_t to)
{
    cursor->from = from;
    cursor->to = to;
    cursor->n_pieces = 0;
    cursor->is_whole = false;
}

/**
 * Moves the cursor to its next row, if necessary by fetching rows or by
 * continuing with the next series. At the end of the scan, sets `rows` to NULL.
 */
static es_status settle_cursor(sample_cursor *cursor)
{
    es_status status;
    while (cursor->at >= cursor->n) {
        if (cursor->is_whole || cursor->from > cursor->to) {
            if (++cursor->series >= cursor->end_series)
                break;
            begin_series(cursor, 0, ES_MAX_STEP);
        }
        if ((status = fetch_next(cursor)) < 0)
            return status;
    }
    if (cursor->at < cursor->n)
        return ES_OK;
    release_rows(cursor->rows);
    cursor->rows = NULL;
    return ES_OK;
}

/**
 * Converts a status to a result code of SQLite, and stores the message so that
 * es_database_fail can report it.
 */
static int result_of(sample_cursor *cursor, es_status status)
{
    es_remote *remote = remote_of(cursor);
    remote->refusal[0] = '\0';
    if (status >= ES_OK)
        return SQLITE_OK;
    const char *message = es_message(), *base = remote->url.base;
    const size_t n = strlen(base);
    if (strncmp(message, base, n) == 0 && strncmp(message + n, ": ", 2) == 0)
        message += n + 2;
    strncpy(remote->refusal, message, sizeof remote->refusal - 1);
    release_rows(cursor->rows);
    cursor->rows = NULL;
    return status == ES_ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR;
}

/* --- the virtual table ---------------------------------------------------- */

static int sample_connect(sqlite3 *handle, void *user, int argc,
                          const char *const *argv, sqlite3_vtab **out,
                          char **error)
{
    (void)argc, (void)argv, (void)error;
    sample_table *table = sqlite3_malloc64(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    *table = (sample_table){.remote = user};
    int rc = sqlite3_declare_vtab(handle, "CREATE TABLE sample(series_id"
                                          " INTEGER, step INTEGER, crc INTEGER,"
                                          " value BLOB)");
    if (rc == SQLITE_OK)
        rc = sqlite3_vtab_config(handle, SQLITE_VTAB_INNOCUOUS);
    if (rc == SQLITE_OK)
        *out = &table->base;
    else
        sqlite3_free(table);
    return rc;
}

static int sample_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

/**
 * Finds a constraint on a column with one of two operators. Returns its index,
 * or -1 if there is none.
 */
static int find_constraint(const sqlite3_index_info *info, int column, int op,
                           int other)
{
    for (int i = 0; i < info->nConstraint; i++)
        if (info->aConstraint[i].usable &&
            info->aConstraint[i].iColumn == column &&
            (info->aConstraint[i].op == op || info->aConstraint[i].op == other))
            return i;
    return -1;
}

/**
 * Treats > and < like >= and <=, because SQLite also checks the condition on
 * each returned row.
 */
static int sample_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    const int eq = SQLITE_INDEX_CONSTRAINT_EQ;
    const int series = find_constraint(info, SERIES_ID, eq, eq);
    int plan = info->colUsed >> CRC ? WITH_VALUES : 0, n = 0;
    const int step = find_constraint(info, STEP, eq, eq);
    const int from =
        step >= 0 ? step
                  : find_constraint(info, STEP, SQLITE_INDEX_CONSTRAINT_GE,
                                    SQLITE_INDEX_CONSTRAINT_GT);
    const int to = step >= 0
                       ? step
                       : find_constraint(info, STEP, SQLITE_INDEX_CONSTRAINT_LE,
                                         SQLITE_INDEX_CONSTRAINT_LT);
    (void)table;
    info->estimatedCost = 1e9;
    if (series >= 0) {
        plan |= BY_SERIES;
        info->aConstraintUsage[series].argvIndex = ++n;
        info->estimatedCost = step >= 0 ? 10 : 1e4;
        if (from >= 0) {
            plan |= FROM;
            info->aConstraintUsage[from].argvIndex = ++n;
        }
        if (to >= 0 && to != from) {
            plan |= TO;
            info->aConstraintUsage[to].argvIndex = ++n;
        } else if (to >= 0) {
            plan |= TO | FROM;
        }
        if (info->nOrderBy == 1 && info->aOrderBy[0].iColumn == STEP) {
            info->orderByConsumed = 1;
            plan |= info->aOrderBy[0].desc ? FALLING : 0;
        }
    }
    info->idxNum = plan;
    info->idxStr = step >= 0 ? "=" : NULL;
    return SQLITE_OK;
}

static int sample_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    sample_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (sample_cursor){.rowid = 0};
    *out = &cursor->base;
    return SQLITE_OK;
}

static int sample_close(sqlite3_vtab_cursor *base)
{
    sample_cursor *cursor = (sample_cursor *)base;
    release_rows(cursor->rows);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int sample_filter(sqlite3_vtab_cursor *base, int plan, const char *equal,
                         int n, sqlite3_value **given)
{
    sample_cursor *cursor = (sample_cursor *)base;
    const size_t n_series = remote_of(cursor)->n_series;
    int64_t from = 0, to = ES_MAX_STEP;
    int used = 0;
    release_rows(cursor->rows);
    cursor->rows = NULL;
    cursor->at = cursor->n = 0;
    cursor->plan = plan;
    cursor->series = 0;
    cursor->end_series = n_series;
    if (plan & BY_SERIES) {
        const sqlite3_int64 id = sqlite3_value_int64(given[used++]);
        cursor->series =
            id >= 1 && (size_t)id <= n_series ? (size_t)id - 1 : n_series;
        cursor->end_series = cursor->series + 1;
    }
    if (plan & FROM && used < n && sqlite3_value_int64(given[used]) > from)
        from = sqlite3_value_int64(given[used]);
    used += plan & FROM && !equal;
    if (plan & TO && used < n && sqlite3_value_int64(given[used]) < to)
        to = sqlite3_value_int64(given[used]);
    if (cursor->series >= n_series)
        return SQLITE_OK;
    begin_series(cursor, from, to);
    return result_of(cursor, settle_cursor(cursor));
}

static int sample_next(sqlite3_vtab_cursor *base)
{
    sample_cursor *cursor = (sample_cursor *)base;
    const int64_t step = row_of(cursor)->step;
    cursor->rowid++;
    if (cursor->plan & FALLING) {
        cursor->to = step - 1;
        cursor->n--;
    } else {
        cursor->from = step + 1;
        cursor->at++;
    }
    return result_of(cursor, settle_cursor(cursor));
}

static int sample_eof(sqlite3_vtab_cursor *base)
{
    return ((sample_cursor *)base)->rows == NULL;
}

/* Returns the values without copying them. They stay valid as long as the row,
 * because the cursor holds a reference to the fetched rows. */
static int sample_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                         int column)
{
    const sample_cursor *cursor = (sample_cursor *)base;
    const es_remote_row *row = row_of(cursor);
    switch (column) {
    case SERIES_ID:
        sqlite3_result_int64(context, (sqlite3_int64)row->series + 1);
        break;
    case STEP:
        sqlite3_result_int64(context, row->step);
        break;
    case CRC:
        sqlite3_result_int(context, row->crc);
        break;
    default:
        if (row->n)
            sqlite3_result_blob64(context, cursor->rows->data + row->at, row->n,
                                  SQLITE_STATIC);
    }
    return SQLITE_OK;
}

static int sample_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((sample_cursor *)base)->rowid;
    return SQLITE_OK;
}

static const sqlite3_module sample_module = {
    .xConnect = sample_connect, /* there is no xCreate, because the table exists
                                   without a CREATE statement */
    .xBestIndex = sample_best_index,
    .xDisconnect = sample_disconnect,
    .xOpen = sample_open,
    .xClose = sample_close,
    .xFilter = sample_filter,
    .xNext = sample_next,
    .xEof = sample_eof,
    .xColumn = sample_column,
    .xRowid = sample_rowid,
};

/** Adds the virtual table `sample` to the private SQLite database. Returns
 *  SQLite's result code. */
static int add_sample_table(es_remote *remote)
{
    return sqlite3_create_module_v2(remote->database->handle, "sample",
                                    &sample_module, remote, NULL);
}

/* --- attention maps ------------------------------------------------------- */

static es_status take_map(const es_remote *remote, int64_t run_id,
                          const char *uuid, es_remote_copy *copy)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    size_t n;
    const char *phase = es_remote_copy_field(copy, &n);
    es_map map = {.phase = n && *phase == 'e' ? ES_PHASE_EVAL : ES_PHASE_TRAIN};
    map.step = es_remote_copy_integer(copy);
    map.layer = es_remote_copy_integer(copy);
    map.head = es_remote_copy_integer(copy);
    map.size = es_remote_copy_integer(copy);
    map.n_ctx = es_remote_copy_integer(copy);
    const size_t n_values = map.size > 0 && map.size <= ES_MAP_MAX
                                ? (size_t)(map.size * map.size)
                                : 0;
    if (!es_remote_copy_array(copy, (unsigned char *)values, n_values))
        return es_fail(ES_EFORMAT,
                       "%s: damaged: an attention map of step %lld is invalid",
                       copy->postgres->base, (long long)map.step);
    return es_map_insert(remote->database, run_id, uuid, &map, values);
}

/* Loads the attention maps of one run into the private SQLite database, and
   drops the maps of the run that was loaded before. */
static es_status load_maps(const es_run_source *source, int64_t run_id,
                           const char *uuid)
{
    es_remote *remote = source->state;
    es_remote_copy copy = {.postgres = NULL};
    if (remote->maps_of == run_id)
        return ES_OK;
    remote->maps_of = 0;
    es_status status = es_database_execute(
        remote->database, "DROP TABLE IF EXISTS attention_map");
    if (status < 0)
        return status;
    status = es_remote_copy_begin(
        &copy, remote->postgres,
        "SELECT phase, step, layer, head, size, ctx, value"
        " FROM entropy_scan.attention_map WHERE run_id = %" PRId64,
        remote->runs[run_id - 1].id);
    while (status == ES_OK && (status = es_remote_copy_next(&copy, 7)) == ES_OK)
        status = take_map(remote, run_id, uuid, &copy);
    es_remote_copy_end(&copy);
    if (status == ES_DONE) {
        remote->maps_of = run_id;
        status = ES_OK;
    }
    return status;
}

/* --- loading -------------------------------------------------------------- */

static es_status make_tables(es_remote *remote)
{
    es_database *database = remote->database;
    es_status status = es_database_open_private(database);
    if (status < 0)
        return status;
    database->refusal = remote->refusal;
    if ((status = es_database_status(database, add_sample_table(remote))) < 0)
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

static void forget_runs(es_remote *remote)
{
    release_rows(remote->block);
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
    forget_runs(remote);
    status = load_rows(remote);
    es_status ended = es_database_execute(
        remote->database, status == ES_OK ? "COMMIT" : "ROLLBACK");
    return status < 0 ? status : ended;
}

/* --- the backend ---------------------------------------------------------- */

static es_status open_source(es_run_source *source, const char *url)
{
    es_remote *remote;
    es_database *database = source->database;
    es_status status = es_alloc(&remote, 1, sizeof *remote, "a database");
    if (status < 0)
        return status;
    source->state = remote;
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

/* Loads all runs again. Reconnects first if the connection was lost. */
static es_status refresh_source(const es_run_source *source)
{
    es_remote *remote = source->state;
    if (remote->postgres && es_postgres_is_lost(remote->postgres)) {
        es_postgres_close(remote->postgres);
        remote->postgres = NULL;
    }
    es_status status = ES_OK;
    if (!remote->postgres)
        status = es_postgres_open(&remote->postgres, &remote->url, false);
    return status == ES_OK ? read_all(remote) : status;
}

static void close_source(es_run_source *source)
{
    es_remote *remote = source->state;
    if (!remote)
        return;
    forget_runs(remote);
    for (size_t i = 0; i < remote->n_kinds; i++)
        free(remote->kinds[i].name);
    free(remote->kinds);
    es_postgres_close(remote->postgres);
    es_remote_where_free(remote);
    es_postgres_url_free(&remote->url);
    remote->database->refusal = NULL;
    free(remote);
}

static es_status is_source_written(const es_run_source *source, bool *out)
{
    const es_remote *remote = source->state;
    *out = false;
    for (size_t i = 0; i < remote->n_runs; i++)
        if (remote->runs[i].is_written && !remote->runs[i].left_out)
            *out = true;
    return ES_OK;
}

static bool is_run_written(const es_run_source *source, int64_t run_id)
{
    const es_remote *remote = source->state;
    return remote->runs[run_id - 1].is_written;
}

static bool reads_config(const es_run_source *source)
{
    const es_remote *remote = source->state;
    return remote->n_conditions != 0;
}

static es_status leave_out(size_t *n, const es_run_source *source,
                           es_reader *reader)
{
    return es_remote_leave_out(n, source->state, reader);
}

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

static es_status locate_run(char **out, const es_run_source *source,
                            const char *uuid)
{
    return es_remote_run_url(out, source->state, uuid);
}

const es_store_backend es_remote_backend = {
    .accepts = es_postgres_is_url,
    .open = open_source,
    .refresh = refresh_source,
    .is_written = is_source_written,
    .close = close_source,
    .load_maps = load_maps,
    .reads_config = reads_config,
    .leave_out = leave_out,
    .locate_run = locate_run,
    .is_run_written = is_run_written,
    .hide_password = es_postgres_hide_password,
    .state = es_remote_state,
};
