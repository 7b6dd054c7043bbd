/* Loads the small tables of a run file (run, series and event) into arrays for
   a reader. Every column is checked here, so that the other files of the reader
   can rely on the values. Rows that do not match their checksum are added to a
   list. */
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Limits of a run file. They are needed because a damaged B-tree can seem to
   have endless rows. */
/* Maximum number of rows of the table run, series or event. */
#define MAX_ROWS 4000000
/* Maximum number of bytes of all strings in a file. */
#define MAX_ALL_TEXT (256 << 20)

/* --- strings ------------------------------------------------------------- */

typedef struct es_strings_block {
    struct es_strings_block *next;
    size_t used, size;
    char bytes[];
} es_strings_block;

#define BLOCK_BYTES 8192

static void strings_free(es_strings *strings)
{
    while (strings->blocks) {
        es_strings_block *next = strings->blocks->next;
        free(strings->blocks);
        strings->blocks = next;
    }
    strings->total = 0;
}

static char *strings_reserve(es_strings *strings, size_t n)
{
    es_strings_block *block = strings->blocks;
    if (!block || block->size - block->used < n) {
        size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (es_strings_block){.next = strings->blocks, .size = size};
        strings->blocks = block;
    }
    char *at = block->bytes + block->used;
    block->used += n;
    return at;
}

/* --- rows ---------------------------------------------------------------- */

/**
 * The current row of a query, and the storage for its strings. `status`
 * contains the first failure.
 */
typedef struct row {
    const es_database *database;
    sqlite3_stmt *statement;
    es_strings *strings;
    const char *table;
    es_status status;
} row;

static void fail_row(row *r, int column, const char *problem)
{
    const char *name = sqlite3_column_name(r->statement, column);
    if (r->status == ES_OK)
        r->status =
            es_fail(ES_EFORMAT, "%s: damaged: %s %lld: %s %s: restore a copy",
                    r->database->path, r->table,
                    (long long)sqlite3_column_int64(r->statement, 0),
                    name && *name == '+' ? name + 1 : name, problem);
}

/**
 * Returns a copy of the text in a column, truncated at the first NUL byte.
 * Returns NULL if the column is NULL.
 */
static const char *take_text(row *r, int column)
{
    if (r->status < 0 ||
        sqlite3_column_type(r->statement, column) == SQLITE_NULL)
        return NULL;
    const char *text = (const char *)sqlite3_column_text(r->statement, column);
    size_t n = text ? strlen(text) + 1 : 0;
    r->strings->total += n;
    if (r->strings->total > MAX_ALL_TEXT) {
        fail_row(r, column, "exceeds the text limit of a run file");
        return NULL;
    }
    char *copy = text ? strings_reserve(r->strings, n) : NULL;
    if (!copy) {
        r->status = es_fail(ES_ENOMEM, "%s: out of memory", r->database->path);
        return NULL;
    }
    return memcpy(copy, text, n);
}

static const char *take_required_text(row *r, int column)
{
    const char *text = take_text(r, column);
    if (!text)
        fail_row(r, column, "is missing");
    return text ? text : "";
}

/** Returns the integer in a column, or ES_UNKNOWN if the column is NULL. */
static int64_t take_number(row *r, int column)
{
    int type = sqlite3_column_type(r->statement, column);
    if (type == SQLITE_INTEGER)
        return sqlite3_column_int64(r->statement, column);
    if (type != SQLITE_NULL)
        fail_row(r, column, "is not an integer");
    return ES_UNKNOWN;
}

/**
 * Returns the index of the column's text in a list of n names, which `name`
 * returns by index. Fails if the text is not in the list.
 */
static int take_choice(row *r, int column, const char *(*name)(int), int n)
{
    const char *text = (const char *)sqlite3_column_text(r->statement, column);
    for (int i = 0; text && i < n; i++)
        if (strcmp(text, name(i)) == 0)
            return i;
    fail_row(r, column, "has an unknown value");
    return 0;
}

static const char *status_name(int i)
{
    return es_run_status_name((es_run_status)i);
}

static const char *shape_name(int i)
{
    return es_shape_name((es_shape)i);
}

static const char *phase_name(int i)
{
    return es_phase_name((es_phase)i);
}

/**
 * Calls `take` for each row of a query. Fails with ES_EFORMAT after MAX_ROWS
 * rows.
 */
static es_status each_row(const es_database *database, es_strings *strings,
                          const char *table, const char *sql,
                          void (*take)(row *, void *), void *user)
{
    row r = {.database = database, .strings = strings, .table = table};
    r.status = es_database_prepare(database, &r.statement, sql);
    int64_t n = 0;
    int rc = SQLITE_OK;
    while (r.status == ES_OK &&
           (rc = sqlite3_step(r.statement)) == SQLITE_ROW) {
        if (n++ == MAX_ROWS)
            fail_row(&r, 0, "exceeds the row limit of a run file");
        else
            take(&r, user);
    }
    if (r.status == ES_OK)
        r.status = es_database_status(database, rc);
    sqlite3_finalize(r.statement);
    return r.status;
}

/**
 * Reserves memory so that one element can be added to an array of n elements.
 */
static bool reserve_row(row *r, void *array, size_t n, size_t size)
{
    if (r->status == ES_OK)
        r->status = es_reserve_next(array, n, size);
    return r->status == ES_OK;
}

/* --- checksums ----------------------------------------------------------- */

/* Defines the two statements that read a table, one without and one with
 * checksums. */
#define WITH_CHECKSUMS(columns, table, id, tail)                               \
    {                                                                          \
        "SELECT " columns ", NULL FROM " table tail,                           \
            "SELECT " columns ", (SELECT crc FROM row_checksum WHERE"          \
            " of_table = '" table "' AND row_checksum.id = " table "." id      \
            ") FROM " table tail                                               \
    }

static void list_changed(row *r, es_changed_rows *changed, es_row_table table,
                         size_t run, int64_t step)
{
    if (reserve_row(r, &changed->list, changed->n, sizeof *changed->list))
        changed->list[changed->n++] = (struct es_changed_row){
            table, run, sqlite3_column_int64(r->statement, 0), step};
}

/**
 * Returns true if the n columns after the id match the checksum in the last
 * column. A row without a checksum was written by another program and counts as
 * unchanged. Must be called before any column is read, because reading may
 * convert a value.
 */
static bool is_as_recorded(const row *r, int n)
{
    sqlite3_stmt *s = r->statement;
    const int crc = sqlite3_column_count(s) - 1;
    return sqlite3_column_type(s, crc) == SQLITE_NULL ||
           sqlite3_column_int64(s, crc) == es_checksum_of_columns(s, 1, n);
}

/* --- runs ---------------------------------------------------------------- */

static const char *const run_sql[] =
    WITH_CHECKSUMS("+run_id, " ES_RUN_COLUMNS ", +last_step", "run", "run_id",
                   " ORDER BY run_id");

static void check_run(row *r, const es_run_info *info)
{
    if (info->n_layer < 1 || info->n_layer > ES_MAX_LAYERS)
        fail_row(r, 5, "is out of bounds");
    else if (info->n_head < 1 || info->n_head > ES_MAX_HEADS ||
             info->n_layer * info->n_head > ES_MAX_VALUES)
        fail_row(r, 6, "is out of bounds");
    else if (info->last_step != ES_UNKNOWN &&
             (info->last_step < 0 || info->last_step > ES_MAX_STEP))
        fail_row(r, 19, "is not a step");
    else if (!es_uuid_is(info->uuid))
        fail_row(r, 1, "is not a uuid");
}

static void take_run(row *r, void *user)
{
    es_contents *contents = user;
    if (!reserve_row(r, &contents->runs, contents->n_runs,
                     sizeof *contents->runs))
        return;
    if (!is_as_recorded(r, ES_N_RUN_COLUMNS))
        list_changed(r, &contents->changed, ES_ROW_RUN, contents->n_runs,
                     ES_UNKNOWN);
    es_stored_run run = {
        .id = sqlite3_column_int64(r->statement, 0),
        .info = {.uuid = take_required_text(r, 1),
                 .name = take_required_text(r, 2),
                 .arch = take_text(r, 3),
                 .family = take_text(r, 4),
                 .n_layer = take_number(r, 5),
                 .n_head = take_number(r, 6),
                 .d_model = take_number(r, 7),
                 .ctx = take_number(r, 8),
                 .vocab = take_number(r, 9),
                 .batch = take_number(r, 10),
                 .seed = take_number(r, 11),
                 .config = take_text(r, 12),
                 .program = take_text(r, 13),
                 .host = take_text(r, 14),
                 .started_at = take_text(r, 15),
                 .ended_at = take_text(r, 16),
                 .status = (es_run_status)take_choice(r, 17, status_name, 4),
                 .last_step = take_number(r, 19)},
    };
    check_run(r, &run.info);
    if (contents->n_runs > 0 &&
        contents->runs[contents->n_runs - 1].id >= run.id)
        fail_row(r, 0, "is out of order");
    contents->runs[contents->n_runs++] = run;
}

/* --- series -------------------------------------------------------------- */

static const char *const series_sql[] =
    WITH_CHECKSUMS("+series_id, " ES_SERIES_COLUMNS, "series", "series_id",
                   " ORDER BY run_id, name, phase DESC");

typedef struct series_target {
    es_contents *contents;
    size_t run; /* index of the run to which the last row belongs; the rows are
                   in order of runs */
} series_target;

/**
 * Returns the run to which the current row (id, run_id, ...) belongs. Returns
 * NULL if the run does not exist.
 */
static es_stored_run *find_run(row *r, es_contents *contents, size_t *run)
{
    int64_t id = sqlite3_column_int64(r->statement, 1);
    while (*run < contents->n_runs && contents->runs[*run].id < id)
        ++*run;
    if (*run < contents->n_runs && contents->runs[*run].id == id)
        return &contents->runs[*run];
    return NULL;
}

static void take_series(row *r, void *user)
{
    series_target *target = user;
    es_contents *contents = target->contents;
    const bool as_recorded = is_as_recorded(r, ES_N_SERIES_COLUMNS);
    es_stored_run *run = find_run(r, contents, &target->run);
    if (!run) {
        fail_row(r, 1, "refers to no run");
        return;
    }
    if (!as_recorded)
        list_changed(r, &contents->changed, ES_ROW_SERIES, target->run,
                     ES_UNKNOWN);
    if (!reserve_row(r, &contents->series, contents->n_series,
                     sizeof *contents->series))
        return;
    es_series series = {
        .id = sqlite3_column_int64(r->statement, 0),
        .name = take_required_text(r, 2),
        .shape = (es_shape)take_choice(r, 3, shape_name, 3),
        .phase = (es_phase)take_choice(r, 4, phase_name, 2),
        .unit = take_required_text(r, 5),
        .first_step = ES_UNKNOWN,
        .last_step = ES_UNKNOWN,
    };
    series.n_values =
        es_shape_values(series.shape, run->info.n_layer, run->info.n_head);
    series.crc =
        es_checksum_of_series(run->info.uuid, series.phase, series.name);
    if (!series.name[0])
        fail_row(r, 2, "is empty");
    if (run->n_series == 0)
        run->first_series = contents->n_series;
    if (++run->n_series > ES_MAX_SERIES)
        fail_row(r, 1, "has too many series");
    contents->series[contents->n_series++] = series;
}

/* Selects the checksums whose rows were deleted from their tables. */
static const char gone_sql[] =
    "SELECT id, of_table FROM row_checksum WHERE CASE of_table"
    " WHEN 'run' THEN id NOT IN (SELECT run_id FROM run)"
    " WHEN 'series' THEN id NOT IN (SELECT series_id FROM series)"
    " ELSE id NOT IN (SELECT event_id FROM event) END";

static const char *table_name(int i)
{
    return es_row_table_name((es_row_table)(i + ES_ROW_RUN));
}

/* Adds a deleted row to the list of changed rows. The run of the row is
   unknown, so the row is reported for the first run. */
static void take_gone(row *r, void *user)
{
    es_contents *contents = user;
    const int table = ES_ROW_RUN + take_choice(r, 1, table_name, 3);
    list_changed(r, &contents->changed, (es_row_table)table, 0, ES_UNKNOWN);
}

/* Loads the tables run and series in one transaction, so that every series
   belongs to a run that was loaded. Begins a transaction if none is open. */
es_status es_contents_load(es_contents *contents, const es_database *database)
{
    series_target target = {.contents = contents};
    const bool own = sqlite3_get_autocommit(database->handle);
    const bool sums = database->has_row_checksums;
    es_status status = own ? es_database_execute(database, "BEGIN") : ES_OK;
    if (status < 0)
        return status;
    if ((status = each_row(database, &contents->strings, "run", run_sql[sums],
                           take_run, contents)) == ES_OK &&
        (status = each_row(database, &contents->strings, "series",
                           series_sql[sums], take_series, &target)) == ES_OK &&
        sums)
        status = each_row(database, &contents->strings, "row_checksum",
                          gone_sql, take_gone, contents);
    /* The transaction has written nothing, so the rollback cannot fail to end
     * it. */
    if (own)
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

const es_stored_run *es_reader_find_run(const es_reader *reader, size_t run)
{
    if (run < reader->contents.n_runs)
        return &reader->contents.runs[run];
    es_fail(ES_EARGUMENT, "%s: no run with index %zu: it has %zu runs",
            reader->database.path, run, reader->contents.n_runs);
    return NULL;
}

const es_series *
es_contents_find_series(size_t *run, const es_contents *contents, int64_t id)
{
    for (size_t i = 0; i < contents->n_runs; i++) {
        const es_stored_run *r = &contents->runs[i];
        for (size_t k = 0; k < r->n_series; k++) {
            const es_series *series = &contents->series[r->first_series + k];
            if (series->id != id)
                continue;
            *run = i;
            return series;
        }
    }
    return NULL;
}

void es_contents_free(es_contents *contents)
{
    strings_free(&contents->strings);
    free(contents->runs);
    free(contents->series);
    free(contents->changed.list);
    *contents = (es_contents){0};
}

/* --- events -------------------------------------------------------------- */

static const char *const event_sql[] =
    WITH_CHECKSUMS("event_id, " ES_EVENT_COLUMNS, "event", "event_id",
                   " ORDER BY run_id, step, event_id");

typedef struct event_target {
    es_stored_events *events;
    es_contents *contents;
    size_t run;
} event_target;

/**
 * Returns the event's dedupe key. In the file the key is preceded by the run's
 * uuid and a slash, which are removed.
 */
static const char *take_dedupe(row *r, int column, const es_stored_run *run)
{
    const char *key = take_text(r, column);
    size_t n = strlen(run->info.uuid);
    if (key && strncmp(key, run->info.uuid, n) == 0 && key[n] == '/')
        return key + n + 1;
    return key;
}

static void take_event(row *r, void *user)
{
    event_target *target = user;
    es_stored_events *events = target->events;
    const bool as_recorded = is_as_recorded(r, ES_N_EVENT_COLUMNS);
    es_stored_run *run = find_run(r, target->contents, &target->run);
    if (!run && target->run < target->contents->n_runs)
        fail_row(r, 1, "refers to no run"); /* the row belongs to a run that was
                                               added after the runs were read */
    if (!run)
        return;
    if (!reserve_row(r, &events->events, events->n_events,
                     sizeof *events->events))
        return;
    int64_t severity = take_number(r, 4);
    if (severity < ES_SEVERITY_NONE || severity > ES_SEVERITY_CRITICAL)
        fail_row(r, 4, "is out of bounds");
    if (run->n_events++ == 0)
        run->first_event = events->n_events;
    es_event *event = &events->events[events->n_events++];
    *event = (es_event){
        .step = take_number(r, 2),
        .kind = take_required_text(r, 3),
        .severity = (es_severity)severity,
        .layer = take_number(r, 5),
        .head = take_number(r, 6),
        .message = take_text(r, 7),
        .data = take_text(r, 8),
        .at = take_text(r, 9),
        .dedupe = take_dedupe(r, 10, run),
    };
    if (!as_recorded)
        list_changed(r, &events->changed, ES_ROW_EVENT, target->run,
                     event->step);
}

es_status es_events_load(es_stored_events *events, es_contents *contents,
                         const es_database *database)
{
    event_target target = {.events = events, .contents = contents};
    for (size_t i = 0; i < contents->n_runs; i++)
        contents->runs[i].n_events = 0;
    es_status status =
        each_row(database, &events->strings, "event",
                 event_sql[database->has_row_checksums], take_event, &target);
    events->loaded = status == ES_OK;
    if (status < 0)
        es_events_free(events);
    return status;
}

void es_events_free(es_stored_events *events)
{
    strings_free(&events->strings);
    free(events->events);
    free(events->changed.list);
    *events = (es_stored_events){0};
}
