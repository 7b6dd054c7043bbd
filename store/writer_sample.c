/* Writes series, samples and events. Each sample gets a checksum, and a rowid
   that keeps the samples of a series next to each other in the file. */
#include "store/esf_index.h"
#include "store/writer_internal.h"

#include <stdlib.h>
#include <string.h>

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

/* --- series -------------------------------------------------------------- */

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
    status = es_writer_step(writer, s);
    sqlite3_clear_bindings(s);
    *series_id = sqlite3_last_insert_rowid(writer->database.handle);
    if (status == ES_OK)
        status = es_writer_seal(writer, ES_SQL_SERIES_ROW, *series_id);
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
    if ((status = es_writer_check_text(writer, "a series' name", name,
                                       ES_MAX_NAME)) < 0 ||
        (status = es_writer_check_text(writer, "a series' unit", unit,
                                       ES_MAX_NAME)) < 0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status =
        find_or_add_series(writer, series_id, run, name, shape, phase, unit);
    return es_writer_leave(writer, own, status);
}

/* --- samples and events -------------------------------------------------- */

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
    es_status status = es_writer_step(writer, s);
    sqlite3_clear_bindings(s);
    es_event dated = *event;
    if (!dated.at)
        dated.at = now;
    if (status < 0 || sqlite3_changes(writer->database.handle) == 0)
        return status; /* the run already has an event with this dedupe key */
    const int64_t id = sqlite3_last_insert_rowid(writer->database.handle);
    if ((status = es_writer_seal(writer, ES_SQL_EVENT_ROW, id)) < 0)
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
        if ((status = es_writer_check_text(writer, "an event's text", texts[i],
                                           ES_MAX_TEXT)) < 0)
            return status;
    if ((status = es_writer_check_json(writer, "an event's data",
                                       event->data)) < 0 ||
        (status = es_writer_enter(writer, &own)) < 0)
        return status;
    status = put_event(writer, run_id, event);
    return es_writer_leave(writer, own, status);
}
