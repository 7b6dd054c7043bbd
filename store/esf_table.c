/* Implements the virtual table `sample` of the private SQLite database through
   which a fragment is read. The table has one row per entry of the index, in
   order of series and of ascending or descending step; crc and value are read
   from the file. If values are no longer in the file, they are NULL, and
   readers treat the sample as damaged. */
#include "store/esf_index_internal.h"

#include "store/esf_record.h"

#include <string.h>

/* Gaps of fewer bytes between two samples are read and discarded instead of
   skipped. */
#define NEAR 2048
#define AHEAD 65536 /* number of bytes that are read at once */

enum { SERIES, STEP, CRC, VALUE };

/* Bits of idxNum: first the constraints, in the order of xFilter's arguments,
 * then the direction of the scan. */
enum {
    BY_SERIES = 1,
    BY_LEAST = 2, /* lower bound of the step; a step that must be equal to a
                     value has the bit BY_STEP instead */
    BY_MOST = 4,
    BY_STEP = 8,
    DOWN = 16
};

typedef struct table {
    sqlite3_vtab base;
    es_esf_index *index;
} table;

typedef struct cursor {
    sqlite3_vtab_cursor base;
    size_t lane, end; /* index of the lane (series) that is being scanned; index
                         after the last lane to scan */
    int64_t least, most; /* lowest and highest step to return */
    bool down;
    int64_t step; /* step of the current row */
    size_t at;    /* index of the current item in its lane (the samples of one
                     series); valid only while `generation` equals the
                     generation of the fragment's index */
    uint64_t generation;
} cursor;

static int connect(sqlite3 *db, void *index, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message)
{
    (void)argc, (void)argv, (void)message;
    int rc = sqlite3_declare_vtab(
        db, "CREATE TABLE x(series_id INTEGER, step INTEGER, crc INTEGER,"
            " value BLOB)");
    table *made = rc == SQLITE_OK ? sqlite3_malloc64(sizeof *made) : NULL;
    if (!made)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *made = (table){.index = index};
    *out = &made->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

/* --- plans ---------------------------------------------------------------- */

/**
 * Returns the bit of idxNum for a constraint on a column, or 0 if the table
 * cannot use the constraint.
 */
static int use_of(const struct sqlite3_index_constraint *constraint)
{
    if (!constraint->usable)
        return 0;
    if (constraint->iColumn == SERIES)
        return constraint->op == SQLITE_INDEX_CONSTRAINT_EQ ? BY_SERIES : 0;
    if (constraint->iColumn != STEP)
        return 0;
    switch (constraint->op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return BY_STEP;
    case SQLITE_INDEX_CONSTRAINT_GT: /* rows at the bound itself are returned,
                                        too, and SQLite discards them */
    case SQLITE_INDEX_CONSTRAINT_GE:
        return BY_LEAST;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return BY_MOST;
    default:
        return 0;
    }
}

static int plan(sqlite3_vtab *base, sqlite3_index_info *info)
{
    int chosen[BY_STEP + 1] = {0}; /* for each bit of the plan, 1 + the index of
                                      the constraint to which the bit belongs; 0
                                      if the query has no such constraint */
    (void)base;
    for (int i = 0; i < info->nConstraint; i++)
        chosen[use_of(&info->aConstraint[i])] = i + 1;
    int n = 0, number = 0;
    for (int bit = BY_SERIES; bit <= BY_STEP; bit *= 2)
        if (chosen[bit]) {
            info->aConstraintUsage[chosen[bit] - 1].argvIndex = ++n;
            number |= bit;
        }
    if (info->nOrderBy == 1 && info->aOrderBy[0].iColumn == STEP &&
        number & BY_SERIES) {
        info->orderByConsumed = 1;
        number |= info->aOrderBy[0].desc ? DOWN : 0;
    }
    info->idxNum = number;
    info->estimatedCost = number & BY_STEP     ? 10
                          : number & BY_SERIES ? 1e3
                                               : 1e6;
    info->estimatedRows = number & BY_STEP ? 1 : 1000;
    return SQLITE_OK;
}

/* --- rows ----------------------------------------------------------------- */

static es_esf_index *index_of(const cursor *c)
{
    return ((const table *)c->base.pVtab)->index;
}

/**
 * Returns the index entry of the current row, or NULL if the row was deleted.
 */
static const es_esf_item *item_of(cursor *c)
{
    const es_esf_index *index = index_of(c);
    if (c->lane >= index->n_lanes)
        return NULL;
    const es_esf_lane *l = &index->lanes[c->lane];
    if (c->generation != index->generation) {
        c->at = es_esf_lane_find(l, c->step);
        c->generation = index->generation;
    }
    return c->at < l->n && l->items[c->at].step == c->step ? &l->items[c->at]
                                                           : NULL;
}

/**
 * Moves to the first row with a step within [least, most] or, if `down` is set,
 * to the last such row. Searches the current lane (series) and, if it has no
 * such row, the following lanes.
 */
static int find_row(cursor *c)
{
    es_esf_index *index = index_of(c);
    if (c->end > index->n_lanes)
        c->end = index->n_lanes;
    c->generation = index->generation;
    for (; c->lane < c->end; c->lane++) {
        es_esf_lane *l = &index->lanes[c->lane];
        if (es_esf_lane_settle(l) < 0)
            return SQLITE_NOMEM;
        const size_t first = es_esf_lane_find(l, c->least);
        const size_t end =
            c->most == INT64_MAX ? l->n : es_esf_lane_find(l, c->most + 1);
        if (first >= end)
            continue;
        c->at = c->down ? end - 1 : first;
        c->step = l->items[c->at].step;
        return SQLITE_OK;
    }
    return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)base;
    const es_esf_index *index = index_of(c);
    const bool here =
        item_of(c) != NULL; /* if the current row was deleted, `at` already is
                               the index of the next row */
    const size_t at = c->down ? c->at - 1 : here ? c->at + 1 : c->at;
    const es_esf_lane *l =
        c->lane < index->n_lanes ? &index->lanes[c->lane] : NULL;
    if (l && at < l->n && l->items[at].step >= c->least &&
        l->items[at].step <= c->most) {
        c->at = at;
        c->step = l->items[at].step;
        return SQLITE_OK;
    }
    c->lane++;
    return find_row(c);
}

/**
 * Sets a bound to a value given by the query. A value that is not an integer is
 * ignored, because SQLite also checks the condition on each returned row.
 */
static void set_bound(int64_t *bound, sqlite3_value *given)
{
    if (sqlite3_value_type(given) == SQLITE_INTEGER)
        *bound = sqlite3_value_int64(given);
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *text,
                  int argc, sqlite3_value **argv)
{
    cursor *c = (cursor *)base;
    es_esf_index *index = index_of(c);
    int64_t series = 0, step = -1;
    int n = 0;
    (void)text, (void)argc;
    *c = (cursor){.base = c->base,
                  .end = index->n_lanes,
                  .least = INT64_MIN,
                  .most = INT64_MAX,
                  .down = number & DOWN};
    if (number & BY_SERIES) {
        set_bound(&series, argv[n++]);
        if (series < 1 || series > (int64_t)index->n_lanes)
            c->lane = c->end;
        else
            c->lane = (size_t)(series - 1);
        c->end = c->lane + 1;
    }
    if (number & BY_LEAST)
        set_bound(&c->least, argv[n++]);
    if (number & BY_MOST)
        set_bound(&c->most, argv[n++]);
    if (number & BY_STEP && sqlite3_value_type(argv[n]) == SQLITE_INTEGER) {
        set_bound(&step, argv[n]);
        c->least = step > c->least ? step : c->least;
        c->most = step < c->most ? step : c->most;
    }
    es_esf_pieces_restart(&index->pieces, index->pieces.fd);
    return find_row(c);
}

static int at_end(sqlite3_vtab_cursor *base)
{
    const cursor *c = (const cursor *)base;
    return c->lane >= c->end;
}

static int row_number(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const cursor *c = (const cursor *)base;
    *out = (sqlite3_int64)c->lane << 40 | (sqlite3_int64)c->at;
    return SQLITE_OK;
}

/* --- values --------------------------------------------------------------- */

/**
 * Reads a sample's record and values from the file. Sets *out to NULL if the
 * file no longer contains them.
 */
static int read_sample(unsigned char **out, cursor *c)
{
    es_esf_index *index = index_of(c);
    es_esf_pieces *pieces = &index->pieces;
    const es_esf_item *found = item_of(c);
    *out = NULL;
    if (!found || pieces->fd < 0)
        return SQLITE_OK;
    const int64_t place = found->place - (int64_t)sizeof(es_esf_sample);
    const int64_t end = pieces->place + (int64_t)pieces->n;
    const bool goes_on =
        pieces->n > 0 && place >= pieces->place && place - end < NEAR;
    es_status status = es_esf_pieces_get(
        out, pieces, place, sizeof(es_esf_sample) + index->lanes[c->lane].bytes,
        goes_on ? AHEAD : 0);
    if (status != ES_OK)
        *out = NULL;
    return status == ES_ENOMEM ? SQLITE_NOMEM : SQLITE_OK;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *out, int which)
{
    cursor *c = (cursor *)base;
    unsigned char *bytes;
    es_esf_sample sample;
    if (which == SERIES)
        sqlite3_result_int64(out, (sqlite3_int64)c->lane + 1);
    if (which == STEP)
        sqlite3_result_int64(out, c->step);
    if (which == SERIES || which == STEP)
        return SQLITE_OK;
    int rc = read_sample(&bytes, c);
    if (rc != SQLITE_OK || !bytes)
        return rc;
    memcpy(&sample, bytes, sizeof sample);
    if (which == CRC)
        sqlite3_result_int(out, sample.crc);
    else
        sqlite3_result_blob64(out, bytes + sizeof sample,
                              index_of(c)->lanes[c->lane].bytes,
                              SQLITE_TRANSIENT);
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    cursor *made = sqlite3_malloc64(sizeof *made);
    if (!made)
        return SQLITE_NOMEM;
    *made = (cursor){.lane = 0};
    *out = &made->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

const sqlite3_module es_esf_sample_module = {
    .iVersion = 1,
    .xConnect = connect,
    .xBestIndex = plan,
    .xDisconnect = disconnect,
    .xDestroy = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next_row,
    .xEof = at_end,
    .xColumn = column,
    .xRowid = row_number,
};
