/* Pushes one run: plans without a lock, then writes transactions of at most 16
 * MiB of samples. Each transaction begins by incrementing the run's revision.
 * If another pusher has changed the revision since the plan was made, the run
 * is planned again. */
#include "store/push/push_internal.h"

#include "analyzer/heads/bands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_BYTES (16 << 20)
/* Maximum number of attempts if other processes push the same run. */
#define MOST_TRIES 100

/* Converts the first day of a month, "2026-11-01", to PostgreSQL's number of
 * days since 2000-01-01. */
static int32_t days_of(const char *month)
{
    struct tm t = {.tm_mday = 1};
    t.tm_year = atoi(month) - 1900;
    t.tm_mon = atoi(month + 5) - 1;
    return (int32_t)((timegm(&t) - 946684800) / 86400);
}

/* --- the beginning of a transaction --------------------------------------- */

/* Locks the run by incrementing its revision. Returns ES_DONE if another
   process has pushed or deleted the run since the plan was made. */
static es_status lock_run(es_push_job *j)
{
    char revision[24];
    PGresult *result = NULL;
    const char *const parameters[] = {j->pushed.run, revision};
    snprintf(revision, sizeof revision, "%lld", (long long)j->pushed.revision);
    es_status status =
        es_postgres_query(&result, j->pusher->postgres,
                          "UPDATE entropy_scan.run SET revision = revision + 1"
                          " WHERE run_id = $1 AND revision = $2"
                          " RETURNING entropy_scan.add_month(month)",
                          2, parameters);
    if (status == ES_OK && es_pq.ntuples(result) < 1)
        status = ES_DONE;
    es_pq.clear(result);
    return status;
}

static es_status delete_samples(es_push_job *j, int32_t series, int64_t from)
{
    char sql[256];
    PGresult *result = NULL;
    snprintf(sql, sizeof sql,
             "DELETE FROM entropy_scan.sample WHERE run_id = %s"
             " AND series = %d AND month = '%s' AND step >= %lld",
             j->pushed.run, series, j->pushed.month, (long long)from);
    es_status status =
        es_postgres_query(&result, j->pusher->postgres, sql, 0, NULL);
    if (status == ES_OK)
        j->added.cut += strtoull(es_pq.cmdTuples(result), NULL, 10);
    es_pq.clear(result);
    return status;
}

static es_status delete_cut(es_push_job *j)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < j->n_lanes && status == ES_OK; i++)
        if (j->lanes[i].cut != ES_UNKNOWN) {
            status = delete_samples(j, j->lanes[i].number, j->lanes[i].cut);
            j->lanes[i].cut = ES_UNKNOWN;
        }
    for (size_t i = 0; i < j->pushed.n_series && status == ES_OK; i++) {
        char sql[160];
        es_pushed_series *known = &j->pushed.series[i];
        if (!es_push_is_vanished(j, i) ||
            (status = delete_samples(j, known->number, 0)) < 0)
            continue;
        known->place = (es_push_place){.last = ES_UNKNOWN};
        snprintf(sql, sizeof sql,
                 "DELETE FROM entropy_scan.series WHERE run_id = %s"
                 " AND series = %d",
                 j->pushed.run, known->number);
        status = es_postgres_execute(j->pusher->postgres, sql);
    }
    return status;
}

/* --- samples -------------------------------------------------------------- */

/* Counts the low heads: heads whose entropy is below a certain share of their
 * ceiling. */
static int32_t count_low(const es_push_job *j, const float *values, size_t n)
{
    int32_t low = 0;
    for (size_t i = 0; i < n; i++) {
        const double own = j->judged.ceilings
                               ? es_judge_run_ceiling_of(&j->judged, i)
                               : j->ceiling;
        low += (double)values[i] * (j->ceiling / own) < j->pushed.low_below;
    }
    return low;
}

static void put_sample(es_push_job *j, es_push_lane *l, int32_t month,
                       int64_t step, const float *values)
{
    es_copy_in *copy = &j->pusher->copy;
    const size_t n = l->series.n_values;
    const int32_t crc = es_push_crc(&l->series, step, values);
    es_copy_in_row(copy, 7);
    es_copy_in_bigint(copy, j->pushed.run_id);
    es_copy_in_bigint(copy, step);
    es_copy_in_integer(copy, l->number);
    es_copy_in_integer(copy, month);
    es_copy_in_integer(copy, crc);
    if (l->has_low)
        es_copy_in_integer(copy, count_low(j, values, n));
    else
        es_copy_in_null(copy);
    es_copy_in_reals(copy, values, n);
    es_push_place_add(&l->place, step, crc);
    l->has_changed = true;
    j->added.samples++;
}

/* Returns the next sample to push, which may belong to any series. Returns
   ES_DONE if there are no more. */
static es_status next_sample(es_push_job *j, int64_t *step,
                             const float **values)
{
    for (;; j->lane++) {
        es_status status = ES_OK;
        while (j->lane < j->n_lanes && !j->lanes[j->lane].has_more)
            j->lane++;
        if (j->lane == j->n_lanes)
            return ES_DONE;
        const es_push_lane *l = &j->lanes[j->lane];
        const int64_t from =
            l->place.last == ES_UNKNOWN ? ES_STEP_FIRST : l->place.last + 1;
        if (!j->cursor)
            status = es_cursor_open(&j->cursor, j->reader, &l->series, from,
                                    ES_STEP_LAST);
        if (status == ES_OK)
            status = es_cursor_next(j->cursor, step, values);
        if (status != ES_DONE)
            return status;
        es_cursor_close(j->cursor);
        j->cursor = NULL;
    }
}

es_status es_push_begin_samples(es_pusher *pusher)
{
    return es_copy_in_begin(
        &pusher->copy, pusher->postgres,
        "COPY entropy_scan.sample(run_id, step, series, month, crc, low,"
        " value) FROM STDIN (FORMAT binary)");
}

es_status es_push_put_samples(es_push_job *j)
{
    size_t bytes = 0;
    int64_t step;
    const float *values;
    const int32_t month = days_of(j->pushed.month);
    es_status status = ES_OK;
    while (bytes < BATCH_BYTES && j->pusher->copy.status == ES_OK &&
           (status = next_sample(j, &step, &values)) == ES_OK) {
        put_sample(j, &j->lanes[j->lane], month, step, values);
        bytes += j->lanes[j->lane].series.n_values * sizeof *values + 64;
    }
    return status;
}

/* Writes the samples of one transaction. Returns ES_DONE if no sample is
   left. */
static es_status copy_samples(es_push_job *j)
{
    bool has_more = false;
    for (size_t i = 0; i < j->n_lanes; i++)
        has_more |= j->lanes[i].has_more;
    if (!has_more)
        return ES_DONE;
    es_status copied, status = es_push_begin_samples(j->pusher);
    if (status < 0 || (status = es_push_put_samples(j)) < 0)
        return status; /* the caller's rollback also abandons the COPY */
    copied = es_copy_in_end(&j->pusher->copy);
    return copied < 0 ? copied : status;
}

/* --- the end of a transaction --------------------------------------------- */

es_status es_push_begin_series(es_pusher *pusher)
{
    return es_copy_in_begin(
        &pusher->copy, pusher->postgres,
        "COPY entropy_scan.series(run_id, series, name, shape, phase, unit,"
        " n_samples, last_step, digest) FROM STDIN (FORMAT binary)");
}

void es_push_put_series(es_push_job *j)
{
    es_copy_in *copy = &j->pusher->copy;
    for (size_t i = 0; i < j->n_lanes; i++) {
        es_push_lane *l = &j->lanes[i];
        if (!l->is_new)
            continue;
        es_copy_in_row(copy, 9);
        es_copy_in_bigint(copy, j->pushed.run_id);
        es_copy_in_integer(copy, l->number);
        es_copy_in_text(copy, l->series.name);
        es_copy_in_text(copy, es_shape_name(l->series.shape));
        es_copy_in_text(copy, es_phase_name(l->series.phase));
        es_copy_in_text(copy, l->series.unit);
        es_copy_in_bigint(copy, l->place.n);
        es_copy_in_known(copy, l->place.last);
        es_copy_in_bigint(copy, l->place.digest);
        l->is_new = l->has_changed = false;
    }
}

static es_status insert_series(es_push_job *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_lanes; i++)
        n += j->lanes[i].is_new;
    if (!n)
        return ES_OK;
    es_status status = es_push_begin_series(j->pusher);
    if (status < 0)
        return status;
    es_push_put_series(j);
    return es_copy_in_end(&j->pusher->copy);
}

static es_status update_series(es_push_job *j)
{
    char n[24], last[24], digest[24], number[24];
    es_status status = ES_OK;
    for (size_t i = 0; i < j->n_lanes && status == ES_OK; i++) {
        es_push_lane *l = &j->lanes[i];
        PGresult *result = NULL;
        const char *const parameters[] = {
            j->pushed.run, number, n, l->place.last == ES_UNKNOWN ? NULL : last,
            digest};
        if (!l->has_changed)
            continue;
        snprintf(number, sizeof number, "%d", l->number);
        snprintf(n, sizeof n, "%lld", (long long)l->place.n);
        snprintf(last, sizeof last, "%lld", (long long)l->place.last);
        snprintf(digest, sizeof digest, "%u", l->place.digest);
        status = es_postgres_query(
            &result, j->pusher->postgres,
            "UPDATE entropy_scan.series SET n_samples = $3, last_step = $4,"
            " digest = $5 WHERE run_id = $1 AND series = $2",
            5, parameters);
        es_pq.clear(result);
        l->has_changed = false;
    }
    return status;
}

static es_status update_parts(es_push_job *j)
{
    es_status status = ES_OK;
    j->whole[ES_PUSH_RUN] = (es_push_part){1, j->about};
    for (int k = ES_PUSH_RUN; k <= ES_PUSH_MAP_EVAL && status == ES_OK; k++) {
        char sql[256];
        if (j->whole[k].n == j->pushed.parts[k].n &&
            j->whole[k].digest == j->pushed.parts[k].digest)
            continue;
        snprintf(sql, sizeof sql,
                 "INSERT INTO entropy_scan.part VALUES(%s, '%s', %lld, %u)"
                 " ON CONFLICT (run_id, name) DO UPDATE SET n = excluded.n,"
                 " digest = excluded.digest",
                 j->pushed.run, es_push_part_name((es_push_part_kind)k),
                 (long long)j->whole[k].n, j->whole[k].digest);
        status = es_postgres_execute(j->pusher->postgres, sql);
    }
    return status;
}

/* Writes everything except samples. Called in the transaction that has written
 * the last samples. */
static es_status write_rest(es_push_job *j)
{
    es_pusher *p = j->pusher;
    es_status status;
    if ((status = es_push_measure(j->whole, j->begun, &j->pushed, j->reader,
                                  j->run)) < 0 ||
        (status = es_push_events(&p->copy, p->postgres, &j->pushed, j->begun,
                                 j->reader, j->run, &j->added)) < 0 ||
        (status = es_push_maps(&p->copy, p->postgres, &j->pushed, j->begun,
                               j->whole, j->reader, j->run, &j->added)) < 0 ||
        (status = es_push_alerts(j)) < 0 || (status = update_parts(j)) < 0)
        return status;
    return es_push_update_run(j);
}

/* Pushes one transaction. Returns ES_OK if there is more to push, ES_DONE if
   everything is written. */
static es_status push_batch(es_push_job *j, bool *is_stale)
{
    es_status begun, status, copied;
    j->added = (es_push_counts){0};
    if ((status = es_pusher_begin(j->pusher)) < 0)
        return status;
    begun = j->pushed.run_id ? lock_run(j) : es_push_insert_run(j);
    *is_stale = begun == ES_DONE;
    if (begun != ES_OK)
        return begun;
    if ((status = delete_cut(j)) < 0 || (copied = copy_samples(j)) < 0 ||
        (status = insert_series(j)) < 0 || (status = update_series(j)) < 0)
        return status < 0 ? status : copied;
    if ((copied == ES_DONE && (status = write_rest(j)) < 0) ||
        (status = es_pusher_commit(j->pusher)) < 0)
        return status;
    j->pushed.revision++;
    es_push_counts_add(j->counts, &j->added);
    return copied;
}

/* --- a run ---------------------------------------------------------------- */

void es_push_forget(es_push_job *j)
{
    es_cursor_close(j->cursor);
    j->cursor = NULL;
    free(j->lanes);
    j->lanes = NULL;
    j->lane = 0;
    es_pushed_free(&j->pushed);
}

void es_push_job_free(es_push_job *j)
{
    es_push_forget(j);
    free(j->config);
    es_layers_free(j->layers);
    j->config = NULL;
}

/* Plans and pushes the run. If another process has pushed the run since the
 * plan was made, sets *is_stale and stops; the caller must then plan again. */
static es_status push_once(es_push_job *j, bool *is_stale)
{
    *is_stale = false;
    es_status status = es_push_plan(j);
    if (status < 0)
        return status;
    const bool was_there = j->pushed.run_id;
    if (status == ES_DONE) {
        j->counts->same++;
        return ES_OK;
    }
    do
        status = push_batch(j, is_stale);
    while (status == ES_OK);
    if (status == ES_DONE && !*is_stale && was_there)
        j->counts->changed++;
    return status < 0 ? status : ES_OK;
}

es_status es_push_prepare(es_push_job *j)
{
    es_status status;
    if ((status = es_reader_run(j->reader, j->run, &j->info)) < 0 ||
        (status = es_reader_config(j->reader, j->run, &j->config)) < 0 ||
        (status = es_reader_layers(&j->layers, j->reader, j->run)) < 0 ||
        (status = es_reader_judged(&j->judged, j->reader, j->run, j->layers)) <
            0)
        return status;
    j->ceiling = j->judged.ceilings ? es_judge_run_ceiling(&j->judged)
                 : isfinite(j->judged.ceiling) ? j->judged.ceiling
                                               : es_ceiling(j->judged.ctx);
    return es_pusher_connect(j->pusher);
}

es_status es_push_run(es_pusher *pusher, es_reader *reader, size_t run,
                      const es_push_source *source,
                      es_push_alert_finder *finder, void *user,
                      es_push_counts *counts)
{
    es_push_job j = {.pusher = pusher,
                     .reader = reader,
                     .run = run,
                     .source = source,
                     .finder = finder,
                     .user = user,
                     .counts = counts};
    bool is_stale = true;
    es_status status = es_push_prepare(&j);
    for (int i = 0; status == ES_OK && is_stale; i++) {
        es_push_forget(&j);
        es_pusher_rollback(pusher);
        status =
            i < MOST_TRIES
                ? push_once(&j, &is_stale)
                : es_fail(ES_ELOCKED,
                          "%s: other processes keep pushing run %s: try again",
                          es_reader_path(reader), j.info.uuid);
    }
    if (status < 0)
        es_pusher_rollback(pusher);
    es_push_job_free(&j);
    return status;
}
