/* Implements the index of a fragment's samples by series and step. Samples that
 * arrive in order of step are appended. If samples arrive out of order, they
 * are sorted when the transaction ends or the index is read. Committed entries
 * are copied before they are changed, so that a rollback can restore them. */
#include "store/esf_index_internal.h"

#include "analyzer/base/checked.h"

#include <string.h>

#define MOST_SERIES (1 << 20)

typedef es_esf_item item;
typedef es_esf_lane lane;

/* --- lanes ---------------------------------------------------------------- */

static es_status reserve_item(lane *l)
{
    if (l->n < l->capacity)
        return ES_OK;
    const size_t more = l->capacity ? 2 * l->capacity : 16;
    es_status status =
        es_grow(&l->items, more, sizeof *l->items, "a fragment's samples");
    if (status == ES_OK)
        l->capacity = more;
    return status;
}

/**
 * Copies the committed samples of a series, so that a rollback can restore
 * them. Must be called before any change other than appending.
 */
static es_status save_lane(lane *l)
{
    if (l->is_saved)
        return ES_OK;
    es_status status = es_alloc(&l->saved, l->n_committed, sizeof *l->saved,
                                "a fragment's samples");
    if (status < 0)
        return status;
    if (l->n_committed)
        memcpy(l->saved, l->items, l->n_committed * sizeof *l->saved);
    l->is_saved = true;
    return ES_OK;
}

static int by_step(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/**
 * Sorts the samples of a series by step. If several samples have the same step,
 * keeps only the last of them.
 */
static void put_in_order(lane *l)
{
    size_t n = 0;
    qsort(l->items, l->n, sizeof *l->items, by_step);
    for (size_t i = 0; i < l->n; i++) {
        if (n > 0 && l->items[n - 1].step == l->items[i].step)
            n--;
        l->items[n++] = l->items[i];
    }
    l->n = n;
    l->mixed = false;
}

es_status es_esf_lane_settle(lane *l)
{
    es_status status = l->mixed ? save_lane(l) : ES_DONE;
    if (status == ES_OK)
        put_in_order(l);
    return status < 0 ? status : ES_OK;
}

size_t es_esf_lane_find(const lane *l, int64_t step)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (l->items[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void free_lanes(lane *lanes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(lanes[i].items);
        free(lanes[i].saved);
    }
    free(lanes);
}

static lane *lane_of(es_esf_index *index, int64_t series_id)
{
    return series_id >= 1 && series_id <= (int64_t)index->n_lanes
               ? &index->lanes[series_id - 1]
               : NULL;
}

/* --- changes -------------------------------------------------------------- */

es_status es_esf_index_add_series(es_esf_index *index, int64_t series_id,
                                  int64_t run_id, uint32_t bytes)
{
    es_status status;
    if (series_id < 1 || series_id > MOST_SERIES)
        return es_fail(ES_EARGUMENT, "not a series number of a fragment: %lld",
                       (long long)series_id);
    while ((int64_t)index->n_lanes < series_id) {
        if ((status = es_reserve_next(&index->lanes, index->n_lanes,
                                      sizeof *index->lanes)) < 0)
            return status;
        index->lanes[index->n_lanes++] = (lane){.bytes = 0};
    }
    index->lanes[series_id - 1].run_id = run_id;
    index->lanes[series_id - 1].bytes = bytes;
    return ES_OK;
}

es_status es_esf_index_put(es_esf_index *index, int64_t series_id, int64_t step,
                           int64_t place)
{
    lane *l = lane_of(index, series_id);
    es_status status;
    if (!l)
        return es_fail(ES_EARGUMENT, "not a series number of a fragment: %lld",
                       (long long)series_id);
    if ((status = reserve_item(l)) < 0)
        return status;
    l->mixed = l->mixed || (l->n > 0 && l->items[l->n - 1].step >= step);
    l->items[l->n++] = (item){.step = step, .place = place};
    return ES_OK;
}

static es_status cut_lane(lane *l, int64_t step)
{
    es_status status = es_esf_lane_settle(l);
    if (status < 0)
        return status;
    const size_t n = es_esf_lane_find(l, step);
    if (n < l->n_committed && (status = save_lane(l)) < 0)
        return status;
    l->n = n;
    return ES_OK;
}

es_status es_esf_index_cut(es_esf_index *index, int64_t run_id, int64_t step)
{
    es_status status = ES_OK;
    if (!index)
        return ES_OK;
    for (size_t i = 0; i < index->n_lanes && status == ES_OK; i++)
        if (index->lanes[i].run_id == run_id)
            status = cut_lane(&index->lanes[i], step);
    index->generation++;
    return status;
}

void es_esf_index_clear(es_esf_index *index)
{
    es_esf_index_roll_back(index);
    index->past = index->lanes;
    index->n_past = index->n_lanes;
    index->is_cleared = true;
    index->lanes = NULL;
    index->n_lanes = 0;
    index->generation++;
}

/* --- transactions --------------------------------------------------------- */

static void drop_past(es_esf_index *index)
{
    free_lanes(index->past, index->n_past);
    index->past = NULL;
    index->n_past = 0;
    index->is_cleared = false;
}

void es_esf_index_commit(es_esf_index *index)
{
    if (!index)
        return;
    drop_past(index);
    for (size_t i = 0; i < index->n_lanes; i++) {
        lane *l = &index->lanes[i];
        if (l->mixed)
            put_in_order(l);
        free(l->saved);
        l->saved = NULL;
        l->is_saved = false;
        l->n_committed = l->n;
    }
    index->generation++;
}

void es_esf_index_roll_back(es_esf_index *index)
{
    if (!index)
        return;
    if (index->is_cleared) {
        free_lanes(index->lanes, index->n_lanes);
        index->lanes = index->past;
        index->n_lanes = index->n_past;
        index->past = NULL;
        index->n_past = 0;
        index->is_cleared = false;
    }
    for (size_t i = 0; i < index->n_lanes; i++) {
        lane *l = &index->lanes[i];
        if (l->is_saved) {
            free(l->items);
            l->items = l->saved;
            l->capacity = l->n_committed;
            l->saved = NULL;
            l->is_saved = false;
        }
        l->n = l->n_committed;
        l->mixed = false;
    }
    index->generation++;
}

/* --- creation ------------------------------------------------------------- */

void es_esf_index_set_file(es_esf_index *index, int fd)
{
    es_esf_pieces_restart(&index->pieces, fd);
}

static void free_index(void *user)
{
    es_esf_index *index = user;
    free_lanes(index->lanes, index->n_lanes);
    drop_past(index);
    es_esf_pieces_free(&index->pieces);
    free(index);
}

es_status es_esf_index_make(es_esf_index **out, const es_database *database)
{
    es_esf_index *index;
    *out = NULL;
    es_status status =
        es_alloc(&index, 1, sizeof *index, "a fragment's samples");
    if (status < 0)
        return status;
    index->pieces.fd = -1;
    /* SQLite frees the index, even if this call fails. */
    status = es_database_status(
        database,
        sqlite3_create_module_v2(database->handle, "sample",
                                 &es_esf_sample_module, index, free_index));
    if (status == ES_OK)
        *out = index;
    return status;
}
