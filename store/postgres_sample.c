/* Implements the virtual table `sample` for runs in PostgreSQL. A scan fetches
 * the samples that it needs. If runs are small, it fetches the same kinds of
 * series of several runs with one query. */
#include "store/postgres_in_internal.h"

#include <stdlib.h>
#include <string.h>

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
    size_t series, end_series; /* index of the current series, and index behind
                                  the last series to scan */
    int64_t from, to;          /* range of steps that is still to be scanned */
    size_t n_pieces;           /* number of queries for the current series so
                                  far */
    es_remote_rows *rows;      /* samples that were fetched last; NULL at the
                                  end */
    size_t at, n;              /* remaining rows are [at, n) of `rows` */
    bool is_whole; /* true if the fetched rows reach the end of the series */
    sqlite3_int64 rowid;
} sample_cursor;

static es_remote *remote_of(const sample_cursor *cursor)
{
    return ((sample_table *)cursor->base.pVtab)->remote;
}

/* --- position ------------------------------------------------------------- */

/** Sets [at, n) to the rows of the current series with steps in [from, to]. */
static void narrow(sample_cursor *cursor)
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
 * last. If it is not, but a series of this kind was scanned in an earlier run,
 * first fetches a block that begins with this run. A query for a single sample
 * with many values does not count as a scan.
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
    if (is_there && kind->is_wanted) /* the series is wanted now but not in the
                                        block, so later runs need a new block */
        remote->block->end_run = series->run + 1;
    if (is_there || !kind->is_wanted ||
        es_remote_run_bytes(remote, series->run) > ES_REMOTE_BLOCK_BYTES)
        return ES_OK;
    *found = true;
    return es_remote_fetch_runs(remote, series->run);
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
    if (!series->has_steps &&
        (status = es_remote_find_steps(remote, series->run)) < 0)
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
static es_status fetch(sample_cursor *cursor)
{
    es_remote *remote = remote_of(cursor);
    const es_remote_series *series = &remote->series[cursor->series];
    const bool falling = cursor->plan & FALLING;
    bool taken = false;
    es_status status;
    es_remote_rows_release(cursor->rows);
    cursor->rows = NULL;
    if ((status = find_block(&taken, cursor)) < 0)
        return status;
    if (taken) {
        cursor->rows = remote->block;
        cursor->rows->n_uses++;
        cursor->is_whole = true;
        narrow(cursor);
        return ES_OK;
    }
    cursor->at = cursor->n = 0;
    if (cursor->n_pieces++ == 0 && !(cursor->plan & WITH_VALUES) &&
        ((status = take_end(cursor, &taken)) < 0 || taken))
        return status;
    const size_t bytes = series->n_values * sizeof(float) + 1;
    const bool is_small =
        es_remote_series_bytes(series) <= ES_REMOTE_PIECE_BYTES;
    const size_t most = falling && cursor->n_pieces == 1 ? 1
                        : cursor->n_pieces > 1 || is_small
                            ? ES_REMOTE_PIECE_BYTES / bytes + 1
                            : FIRST_PIECE;
    status = es_remote_fetch_piece(&cursor->rows, remote, cursor->series,
                                   cursor->from, cursor->to, most, falling,
                                   cursor->plan & WITH_VALUES);
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
static es_status settle(sample_cursor *cursor)
{
    es_status status;
    while (cursor->at >= cursor->n) {
        if (cursor->is_whole || cursor->from > cursor->to) {
            if (++cursor->series >= cursor->end_series)
                break;
            begin_series(cursor, 0, ES_MAX_STEP);
        }
        if ((status = fetch(cursor)) < 0)
            return status;
    }
    if (cursor->at < cursor->n)
        return ES_OK;
    es_remote_rows_release(cursor->rows);
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
    es_remote_rows_release(cursor->rows);
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
    es_remote_rows_release(cursor->rows);
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
    es_remote_rows_release(cursor->rows);
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
    return result_of(cursor, settle(cursor));
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
    return result_of(cursor, settle(cursor));
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

int es_remote_add_sample(es_remote *remote)
{
    return sqlite3_create_module_v2(remote->database->handle, "sample",
                                    &sample_module, remote, NULL);
}
