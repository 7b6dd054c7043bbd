/* Loads the state of a run in the database, and compares a series of the file
 * with the pushed samples, first by a digest and, if the digests differ, sample
 * by sample. */
#include "store/push/push_internal.h"

#include "analyzer/base/checked.h"
#include "store/crc32c.h"
#include "store/store_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const part_names[ES_N_PUSH_PARTS] = {
    "run", "event", "map/train", "map/eval"};

const char *es_push_part_name(es_push_part_kind kind)
{
    return part_names[kind];
}

/* --- the state of the database -------------------------------------------- */

static int64_t number_of(const PGresult *result, int row, int column)
{
    if (es_pq.getisnull(result, row, column))
        return ES_UNKNOWN;
    return strtoll(es_pq.getvalue(result, row, column), NULL, 10);
}

static es_status take_run(es_pushed *out, const PGresult *result)
{
    out->run_id = number_of(result, 0, 0);
    out->revision = number_of(result, 0, 1);
    out->n_layer = number_of(result, 0, 2);
    out->n_head = number_of(result, 0, 3);
    out->low_below = es_pq.getisnull(result, 0, 5)
                         ? (double)NAN
                         : strtod(es_pq.getvalue(result, 0, 5), NULL);
    snprintf(out->run, sizeof out->run, "%lld", (long long)out->run_id);
    snprintf(out->month, sizeof out->month, "%s", es_pq.getvalue(result, 0, 4));
    return es_copy_text(&out->source, es_pq.getvalue(result, 0, 6));
}

static es_status take_series(es_pushed *out, const PGresult *result)
{
    const int n = es_pq.ntuples(result);
    es_status status = es_alloc(&out->series, (size_t)n, sizeof *out->series,
                                "the series of a run");
    for (int i = 0; i < n && status == ES_OK; i++) {
        es_pushed_series *s = &out->series[i];
        const char *shape = es_pq.getvalue(result, i, 3);
        s->number = (int32_t)number_of(result, i, 0);
        s->phase = strcmp(es_pq.getvalue(result, i, 2), "train") == 0
                       ? ES_PHASE_TRAIN
                       : ES_PHASE_EVAL;
        s->shape = strcmp(shape, "run") == 0     ? ES_SHAPE_RUN
                   : strcmp(shape, "layer") == 0 ? ES_SHAPE_LAYER
                                                 : ES_SHAPE_HEAD;
        s->place.n = number_of(result, i, 4);
        s->place.last = number_of(result, i, 5);
        s->place.digest = (uint32_t)number_of(result, i, 6);
        out->n_series++;
        if (s->number > out->last_number)
            out->last_number = s->number;
        status = es_copy_text(&s->name, es_pq.getvalue(result, i, 1));
    }
    return status;
}

static void take_parts(es_pushed *out, const PGresult *result)
{
    for (int i = 0; i < es_pq.ntuples(result); i++)
        for (int k = 0; k < ES_N_PUSH_PARTS; k++)
            if (strcmp(es_pq.getvalue(result, i, 0), part_names[k]) == 0)
                out->parts[k] = (es_push_part){
                    number_of(result, i, 1), (uint32_t)number_of(result, i, 2)};
}

es_status es_pushed_load(es_pushed *out, es_postgres *postgres,
                         const char *uuid)
{
    PGresult *result = NULL;
    es_status status = es_postgres_query(
        &result, postgres,
        "SELECT run_id, revision, n_layer, n_head, month, low_below, source"
        " FROM entropy_scan.run WHERE uuid = $1",
        1, &uuid);
    if (status == ES_OK && es_pq.ntuples(result) > 0)
        status = take_run(out, result);
    es_pq.clear(result);
    if (status < 0 || !out->run_id)
        return status;
    const char *run = out->run;
    status = es_postgres_query(
        &result, postgres,
        "SELECT series, name, phase, shape, n_samples, last_step, digest"
        " FROM entropy_scan.series WHERE run_id = $1 ORDER BY series",
        1, &run);
    if (status == ES_OK)
        status = take_series(out, result);
    es_pq.clear(result);
    if (status < 0)
        return status;
    status = es_postgres_query(&result, postgres,
                               "SELECT name, n, digest FROM entropy_scan.part"
                               " WHERE run_id = $1",
                               1, &run);
    if (status == ES_OK)
        take_parts(out, result);
    es_pq.clear(result);
    return status;
}

void es_pushed_free(es_pushed *pushed)
{
    for (size_t i = 0; i < pushed->n_series; i++)
        free(pushed->series[i].name);
    free(pushed->series);
    free(pushed->source);
    *pushed = (es_pushed){0};
}

/* --- digests -------------------------------------------------------------- */

void es_push_place_add(es_push_place *place, int64_t step, int32_t crc)
{
    unsigned char item[12];
    memcpy(item, &step, 8);
    memcpy(item + 8, &crc, 4);
    place->digest = es_crc32c(place->digest, item, sizeof item);
    place->last = step;
    place->n++;
}

int32_t es_push_crc(const es_series *series, int64_t step, const float *values)
{
    return es_checksum_of_sample(series->crc, step, values,
                                 series->n_values * sizeof *values);
}

/* --- the first difference ------------------------------------------------- */

static const es_push_place nowhere = {.last = ES_UNKNOWN};

static es_status digest_series(es_push_place *out, es_reader *reader,
                               const es_series *series, int64_t last)
{
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    *out = nowhere;
    es_status status =
        es_cursor_open(&cursor, reader, series, ES_STEP_FIRST, last);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &step, &values)) == ES_OK)
        es_push_place_add(out, step, es_push_crc(series, step, values));
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

/** A stream of the samples of one series from the database. */
typedef struct stored {
    es_postgres *postgres;
    int64_t step;
    int32_t crc;
    bool is_over;
} stored;

static es_status stored_begin(stored *s, es_postgres *postgres,
                              const es_pushed *pushed, int32_t number)
{
    char sql[256];
    *s = (stored){.postgres = postgres};
    snprintf(sql, sizeof sql,
             "COPY (SELECT step, crc FROM entropy_scan.sample WHERE"
             " run_id = %s AND series = %d AND month = '%s' ORDER BY step)"
             " TO STDOUT",
             pushed->run, number, pushed->month);
    PGresult *result = es_pq.exec(postgres->connection, sql);
    if (!result || es_pq.resultStatus(result) != ES_PGRES_COPY_OUT)
        return es_postgres_fail(postgres, result);
    es_pq.clear(result);
    return ES_OK;
}

static void stored_next(stored *s)
{
    char *line = NULL, *end;
    const int n =
        s->is_over ? -1 : es_pq.getCopyData(s->postgres->connection, &line, 0);
    s->is_over = n <= 0;
    if (s->is_over)
        return;
    s->step = strtoll(line, &end, 10);
    s->crc = (int32_t)strtol(end, NULL, 10);
    es_pq.freemem(line);
}

static es_status stored_end(stored *s, es_status status)
{
    PGresult *result;
    while (!s->is_over)
        stored_next(s);
    while ((result = es_pq.getResult(s->postgres->connection))) {
        if (status == ES_OK &&
            es_pq.resultStatus(result) != ES_PGRES_COMMAND_OK)
            status = es_postgres_fail(s->postgres, result);
        else
            es_pq.clear(result);
    }
    return status;
}

/**
 * Compares the samples in the database with those in the file, in order of
 * step, up to the first difference.
 */
static es_status compare_samples(es_push_difference *out, es_push_place *place,
                                 int64_t *cut, stored *s, es_cursor *cursor,
                                 const es_series *series)
{
    int64_t step;
    const float *values;
    es_status status;
    *place = nowhere;
    for (;;) {
        stored_next(s);
        status = es_cursor_next(cursor, &step, &values);
        if (status != ES_OK)
            break;
        const int32_t crc = es_push_crc(series, step, values);
        if (s->is_over || s->step != step || s->crc != crc) {
            *out = s->is_over ? ES_PUSH_LACKS : ES_PUSH_DIFFERS;
            *cut = !s->is_over && s->step < step ? s->step : step;
            return ES_OK;
        }
        es_push_place_add(place, step, crc);
    }
    if (status < 0)
        return status;
    *out = s->is_over ? ES_PUSH_LACKS : ES_PUSH_ENDS;
    *cut = s->is_over ? ES_STEP_LAST : s->step;
    return ES_OK;
}

es_status es_push_compare(es_push_difference *out, es_push_place *place,
                          int64_t *cut, es_postgres *postgres,
                          const es_pushed *pushed,
                          const es_pushed_series *known, es_reader *reader,
                          const es_series *series)
{
    es_cursor *cursor = NULL;
    stored s;
    *place = nowhere;
    *out = ES_PUSH_AGREES;
    if (!known->place.n)
        return ES_OK;
    es_status status = digest_series(place, reader, series, known->place.last);
    if (status < 0 ||
        (place->n == known->place.n && place->digest == known->place.digest))
        return status;
    if ((status = stored_begin(&s, postgres, pushed, known->number)) < 0)
        return status;
    status =
        es_cursor_open(&cursor, reader, series, ES_STEP_FIRST, ES_STEP_LAST);
    if (status == ES_OK)
        status = compare_samples(out, place, cut, &s, cursor, series);
    es_cursor_close(cursor);
    return stored_end(&s, status);
}
