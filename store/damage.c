/* Detects damaged samples and rows, and remembers them for the reader. The
   values of a damaged sample are missing; es_reader_damaged lists the sample,
   and an event of the kind "damaged" reports it. */
#include "store/esf_in.h"
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"
#include "analyzer/base/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the macro that sets a size, so that the function itself can be
 * defined below. */
#undef es_reader_damaged

typedef struct es_damage_place es_damage_place;

/* --- list of damaged places ----------------------------------------------- */

static int compare(const es_damage_place *a, const es_damage_place *b)
{
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->is_lost != b->is_lost)
        return a->is_lost ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

static es_status add(es_damage *damage, es_damage_place place)
{
    size_t at = damage->n;
    es_status status;
    while (at > 0 && compare(&damage->places[at - 1], &place) > 0)
        at--;
    if (at > 0 && compare(&damage->places[at - 1], &place) == 0) {
        damage->places[at - 1].n_frames = place.n_frames;
        return ES_OK;
    }
    if (damage->n == ES_MAX_DAMAGED)
        return ES_OK;
    if (!damage->places &&
        (status = es_alloc(&damage->places, ES_MAX_DAMAGED, sizeof place,
                           "damaged samples")) < 0)
        return status;
    memmove(damage->places + at + 1, damage->places + at,
            (damage->n - at) * sizeof place);
    damage->places[at] = place;
    damage->n++;
    return ES_OK;
}

static es_status note(es_reader *reader, const es_series *series, int64_t step)
{
    es_damage_place place = {.step = step, .id = series->id};
    (void)es_contents_find_series(&place.run, &reader->contents, series->id);
    return add(&reader->damage, place);
}

es_status es_damage_note_rows(es_reader *reader, const es_changed_rows *rows)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < rows->n && status == ES_OK; i++) {
        const struct es_changed_row *row = &rows->list[i];
        const es_damage_place place = {.run = row->run,
                                       .step = row->step,
                                       .table = row->table,
                                       .id = row->id};
        if (row->run < reader->contents.n_runs)
            status = add(&reader->damage, place);
    }
    return status;
}

/* Adds the frames that the recorder lost after it had committed them. The
 * recorder (hooks/recorder/process/session.c) has counted them in events of
 * the kind "log". */
es_status es_damage_note_lost(es_reader *reader)
{
    es_status status = ES_OK;
    for (size_t run = 0; run < reader->contents.n_runs; run++) {
        const es_stored_run *r = &reader->contents.runs[run];
        for (size_t i = 0; i < r->n_events && status == ES_OK; i++) {
            const es_event *e = &reader->events.events[r->first_event + i];
            es_damage_place place = {
                .run = run, .step = e->step, .is_lost = true};
            if (e->severity >= ES_SEVERITY_ERROR &&
                strcmp(e->kind, "log") == 0 && e->data &&
                sscanf(e->data, "{\"lost\":%" SCNu64, &place.n_frames) == 1 &&
                place.n_frames)
                status = add(&reader->damage, place);
        }
    }
    return status;
}

es_status es_damage_note_frames(es_reader *reader)
{
    const es_contents *contents = &reader->contents;
    es_status status = ES_OK;
    size_t n = 0;
    const es_esf_loss *losses = reader->source.fragment
                                    ? es_esf_losses(reader->source.fragment, &n)
                                    : NULL;
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        es_damage_place place = {.step = losses[i].step,
                                 .n_frames = losses[i].n_frames};
        while (place.run < contents->n_runs &&
               contents->runs[place.run].id != losses[i].run_id)
            place.run++;
        if (place.run < contents->n_runs)
            status = add(&reader->damage, place);
    }
    return status;
}

/**
 * Finds a sample's values in a file of schema 1. Such a file has no checksums,
 * so only type and size are checked.
 */
static es_status find_unchecked(const void **bytes, const es_reader *reader,
                                sqlite3_stmt *statement, int column,
                                const es_series *series, int64_t step)
{
    const char *path = reader->database.path;
    const size_t wanted = series->n_values * sizeof(float);
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: %s, step %lld: not a BLOB: restore a copy",
                       path, series->name, (long long)step);
    *bytes = sqlite3_column_blob(statement, column);
    size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (size != wanted)
        return es_fail(
            ES_EFORMAT,
            "%s: damaged: %s, step %lld: %zu bytes, not %zu: restore a copy",
            path, series->name, (long long)step, size, wanted);
    return *bytes ? ES_OK : es_fail(ES_ENOMEM, "%s: out of memory", path);
}

/* Uses sqlite3_column_value, because the other column functions take locks and
 * check for errors at every call, which costs as much as the checksum itself.
 * No lock is needed, because a connection belongs to one thread. */
es_status es_value_find(const void **bytes, es_reader *reader,
                        sqlite3_stmt *statement, int column,
                        const es_series *series, int64_t step)
{
    const size_t wanted = series->n_values * sizeof(float);
    if (!es_reader_has_checksums(reader))
        return find_unchecked(bytes, reader, statement, column, series, step);
    sqlite3_value *value = sqlite3_column_value(statement, column);
    *bytes = sqlite3_value_blob(value);
    if (*bytes && (size_t)sqlite3_value_bytes(value) == wanted &&
        sqlite3_value_int64(sqlite3_column_value(statement, column + 1)) ==
            es_checksum_of_sample(series->crc, step, *bytes, wanted))
        return ES_OK;
    if (sqlite3_errcode(reader->database.handle) == SQLITE_NOMEM)
        return es_fail(ES_ENOMEM, "%s: out of memory", reader->database.path);
    *bytes = NULL;
    return note(reader, series, step);
}

void es_value_copy(float *values, const void *bytes, size_t n)
{
    if (bytes)
        memcpy(values, bytes, n * sizeof *values);
    for (size_t i = 0; !bytes && i < n; i++)
        values[i] = es_missing();
}

bool es_reader_has_checksums(const es_reader *reader)
{
    return reader->database.schema > 1;
}

size_t es_reader_n_damaged(const es_reader *reader)
{
    return reader->damage.n;
}

es_status es_reader_damaged(const es_reader *reader, size_t index,
                            es_damaged *out)
{
    size_t run;
    if (index >= reader->damage.n)
        return es_fail(ES_EARGUMENT, "%s: no damaged sample with index %zu",
                       reader->database.path, index);
    const es_damage_place *place = &reader->damage.places[index];
    es_damaged found = {.run = place->run,
                        .step = place->step,
                        .series = place->n_frames || place->table ? "" : "?",
                        .n_frames = place->n_frames,
                        .is_lost = place->is_lost,
                        .table = place->table,
                        .row = place->table ? place->id : 0};
    const es_series *series =
        place->table
            ? NULL
            : es_contents_find_series(&run, &reader->contents, place->id);
    if (series) {
        found.series = series->name;
        found.phase = series->phase;
    }
    return es_sized_give(out, &found, sizeof found, "es_damaged");
}

/* --- as events ----------------------------------------------------------- */

typedef struct es_damage_texts {
    char message[ES_MAX_NAME + 80], dedupe[ES_MAX_NAME + 80];
} es_damage_texts;

static es_status make_event(es_event *out, es_damage_texts *texts,
                            const es_reader *reader, size_t index)
{
    es_damaged sample;
    es_status status =
        es_reader_damaged(reader, index, es_damaged_sized(&sample));
    if (status < 0)
        return status;
    if (sample.table) {
        snprintf(texts->message, sizeof texts->message,
                 "%s %lld is not as it was recorded: edited, or damaged",
                 es_row_table_name(sample.table), (long long)sample.row);
        snprintf(texts->dedupe, sizeof texts->dedupe, "damaged/%s/%lld",
                 es_row_table_name(sample.table), (long long)sample.row);
    } else {
        snprintf(texts->message, sizeof texts->message,
                 "the sample of %.*s (%s) is damaged: shown as missing",
                 ES_MAX_NAME, sample.series, es_phase_name(sample.phase));
        snprintf(texts->dedupe, sizeof texts->dedupe, "damaged/%s/%lld/%.*s",
                 es_phase_name(sample.phase), (long long)sample.step,
                 ES_MAX_NAME, sample.series);
    }
    *out = (es_event){.step = sample.step,
                      .kind = "damaged",
                      .severity = ES_SEVERITY_ERROR,
                      .layer = ES_UNKNOWN,
                      .head = ES_UNKNOWN,
                      .message = texts->message,
                      .dedupe = texts->dedupe};
    return ES_OK;
}

es_status es_damage_add_events(es_reader *reader, size_t run,
                               const es_event **events, size_t *n)
{
    es_damage *damage = &reader->damage;
    size_t first = 0, end, n_merged = 0, own = 0;
    while (first < damage->n && damage->places[first].run < run)
        first++;
    for (end = first; end < damage->n && damage->places[end].run == run;)
        end++;
    if (first == end)
        return ES_OK;
    es_status status;
    if ((status = es_grow(&damage->events, *n + end - first,
                          sizeof *damage->events, "damaged samples")) < 0 ||
        (status = es_grow(&damage->texts, end - first, sizeof *damage->texts,
                          "damaged samples")) < 0)
        return status;
    for (size_t i = first; i < end; i++) {
        if (damage->places[i].n_frames)
            continue; /* the file already contains an event about lost frames */
        while (own < *n && (*events)[own].step <= damage->places[i].step)
            damage->events[n_merged++] = (*events)[own++];
        if ((status = make_event(&damage->events[n_merged++],
                                 &damage->texts[i - first], reader, i)) < 0)
            return status;
    }
    while (own < *n)
        damage->events[n_merged++] = (*events)[own++];
    *events = damage->events;
    *n = n_merged;
    return ES_OK;
}

void es_damage_free(es_damage *damage)
{
    free(damage->places);
    free(damage->events);
    free(damage->texts);
    *damage = (es_damage){0};
}
