/* Pushes the events, attention maps and alerts of a run, which are few. The
 * pushed events and maps are compared with the file by a digest, and replaced
 * if the digests differ. An alert has an id, so that it is entered only
 * once. */
#include "store/push/push_internal.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"
#include "analyzer/base/value.h"
#include "store/crc32c.h"
#include "store/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- digests -------------------------------------------------------------- */

static uint32_t add_text(uint32_t digest, const char *text)
{
    return es_crc32c(digest, text ? text : "\001", text ? strlen(text) + 1 : 2);
}

/* Adds an event to the digest of a list of events. The result is never 0, which
 * is the digest of an empty list. */
static void add_event(es_push_part *part, const es_event *event)
{
    const int64_t numbers[] = {event->step, event->severity, event->layer,
                               event->head};
    uint32_t digest = es_crc32c(part->digest, numbers, sizeof numbers);
    digest = add_text(digest, event->kind);
    digest = add_text(digest, event->message);
    digest = add_text(digest, event->data);
    digest = add_text(digest, event->at);
    part->digest = add_text(digest, event->dedupe) | 1;
    part->n++;
}

static es_status measure_events(es_push_part *whole, es_push_part *begun,
                                int64_t n_begun, es_reader *reader, size_t run)
{
    const es_event *events;
    size_t n;
    es_status status = es_reader_events(reader, run, &events, &n);
    for (size_t i = 0; status == ES_OK && i < n; i++) {
        add_event(whole, &events[i]);
        if (whole->n == n_begun)
            *begun = *whole;
    }
    return status;
}

typedef struct map_measure {
    es_push_part *whole, *begun; /* outputs with ES_N_PUSH_PARTS elements each:
                                    count and digest of all maps of part i
                                    (whole), and of its first known[i].n maps
                                    (begun) */
    const es_push_part *known;
} map_measure;

static int part_of_map(const es_map *map)
{
    return map->phase == ES_PHASE_TRAIN ? ES_PUSH_MAP_TRAIN : ES_PUSH_MAP_EVAL;
}

static es_status measure_map(void *user, const es_map *map, const float *values)
{
    const map_measure *m = user;
    const int kind = part_of_map(map);
    es_push_part *part = &m->whole[kind];
    const int64_t numbers[] = {map->step, map->layer, map->head, map->size,
                               map->n_ctx};
    uint32_t digest = es_crc32c(part->digest, numbers, sizeof numbers);
    if (values)
        digest = es_crc32c(digest, values,
                           (size_t)(map->size * map->size) * sizeof *values);
    part->digest = digest | 1;
    if (++part->n == m->known[kind].n)
        m->begun[kind] = *part;
    return ES_OK;
}

es_status es_push_measure(es_push_part *whole, es_push_part *begun,
                          const es_pushed *pushed, es_reader *reader,
                          size_t run)
{
    memset(whole, 0, ES_N_PUSH_PARTS * sizeof *whole);
    memset(begun, 0, ES_N_PUSH_PARTS * sizeof *begun);
    es_status status =
        measure_events(&whole[ES_PUSH_EVENT], &begun[ES_PUSH_EVENT],
                       pushed->parts[ES_PUSH_EVENT].n, reader, run);
    if (status < 0)
        return status;
    map_measure m = {whole, begun, pushed->parts};
    return es_reader_maps(reader, run, measure_map, &m);
}

/* --- writing -------------------------------------------------------------- */

static bool goes_on(const es_pushed *pushed, const es_push_part *begun,
                    es_push_part_kind kind)
{
    return pushed->parts[kind].n == begun[kind].n &&
           pushed->parts[kind].digest == begun[kind].digest;
}

/**
 * Sets *n_kept to the number of pushed rows if the file still begins with them.
 * Otherwise sets it to 0 and deletes the run's pushed rows.
 */
static es_status keep_rows(int64_t *n_kept, es_postgres *postgres,
                           const es_pushed *pushed, const es_push_part *begun,
                           es_push_part_kind kind, const char *rows)
{
    char sql[160];
    *n_kept = 0;
    if (!pushed->parts[kind].n)
        return ES_OK;
    if (goes_on(pushed, begun, kind)) {
        *n_kept = begun[kind].n;
        return ES_OK;
    }
    snprintf(sql, sizeof sql, "DELETE FROM entropy_scan.%s AND run_id = %s",
             rows, pushed->run);
    return es_postgres_execute(postgres, sql);
}

static void put_event(es_copy_in *copy, int64_t run_id, int32_t number,
                      const es_event *event)
{
    es_copy_in_row(copy, 11);
    es_copy_in_bigint(copy, run_id);
    es_copy_in_integer(copy, number);
    es_copy_in_known(copy, event->step);
    es_copy_in_text(copy, event->kind);
    es_copy_in_integer(copy, (int32_t)event->severity);
    es_copy_in_known(copy, event->layer);
    es_copy_in_known(copy, event->head);
    es_copy_in_text(copy, event->message);
    es_copy_in_text(copy, event->data);
    es_copy_in_text(copy, event->at);
    es_copy_in_text(copy, event->dedupe);
}

es_status es_push_begin_events(es_copy_in *copy, es_postgres *postgres)
{
    return es_copy_in_begin(
        copy, postgres,
        "COPY entropy_scan.event(run_id, number, step, kind, severity, layer,"
        " head, message, data, at, dedupe) FROM STDIN (FORMAT binary)");
}

es_status es_push_put_events(es_copy_in *copy, int64_t run_id, int64_t n_kept,
                             es_reader *reader, size_t run,
                             es_push_counts *counts)
{
    const es_event *events;
    size_t n;
    es_status status = es_reader_events(reader, run, &events, &n);
    for (size_t i = (size_t)n_kept; status == ES_OK && i < n; i++) {
        put_event(copy, run_id, (int32_t)i + 1, &events[i]);
        counts->events++;
    }
    return status;
}

es_status es_push_events(es_copy_in *copy, es_postgres *postgres,
                         const es_pushed *pushed, const es_push_part *begun,
                         es_reader *reader, size_t run, es_push_counts *counts)
{
    const es_event *events;
    size_t n;
    int64_t n_kept;
    es_status status;
    if ((status = keep_rows(&n_kept, postgres, pushed, begun, ES_PUSH_EVENT,
                            "event WHERE true")) < 0 ||
        (status = es_reader_events(reader, run, &events, &n)) < 0 ||
        (size_t)n_kept >= n)
        return status;
    if ((status = es_push_begin_events(copy, postgres)) < 0 ||
        (status = es_push_put_events(copy, pushed->run_id, n_kept, reader, run,
                                     counts)) < 0)
        return status;
    return es_copy_in_end(copy);
}

typedef struct map_target {
    es_copy_in *copy;
    int64_t run_id;
    int64_t kept[ES_N_PUSH_PARTS]; /* number of pushed maps that are still to be
                                      skipped */
    map_measure measure; /* measures the written maps; there may be more than
                            planned */
    es_push_counts *counts;
} map_target;

static es_status put_map(void *user, const es_map *map, const float *values)
{
    map_target *target = user;
    es_copy_in *copy = target->copy;
    float missing[ES_MAP_MAX * ES_MAP_MAX];
    const size_t n = (size_t)(map->size * map->size);
    (void)measure_map(&target->measure, map, values);
    if (target->kept[part_of_map(map)]-- > 0)
        return ES_OK;
    for (size_t i = 0; !values && i < n; i++)
        missing[i] = es_missing();
    es_copy_in_row(copy, 8);
    es_copy_in_bigint(copy, target->run_id);
    es_copy_in_text(copy, es_phase_name(map->phase));
    es_copy_in_bigint(copy, map->step);
    es_copy_in_integer(copy, (int32_t)map->layer);
    es_copy_in_integer(copy, (int32_t)map->head);
    es_copy_in_integer(copy, (int32_t)map->size);
    es_copy_in_bigint(copy, map->n_ctx);
    es_copy_in_reals(copy, values ? values : missing, n);
    target->counts->maps++;
    return copy->status;
}

es_status es_push_maps(es_copy_in *copy, es_postgres *postgres,
                       const es_pushed *pushed, const es_push_part *begun,
                       es_push_part *whole, es_reader *reader, size_t run,
                       es_push_counts *counts)
{
    es_push_part ignored[ES_N_PUSH_PARTS] = {{0}};
    map_target target = {
        copy, pushed->run_id, {0}, {whole, ignored, pushed->parts}, counts};
    es_status status;
    if (!whole[ES_PUSH_MAP_TRAIN].n && !whole[ES_PUSH_MAP_EVAL].n &&
        !pushed->parts[ES_PUSH_MAP_TRAIN].n &&
        !pushed->parts[ES_PUSH_MAP_EVAL].n)
        return ES_OK;
    whole[ES_PUSH_MAP_TRAIN] = whole[ES_PUSH_MAP_EVAL] = (es_push_part){0};
    if ((status = keep_rows(&target.kept[ES_PUSH_MAP_TRAIN], postgres, pushed,
                            begun, ES_PUSH_MAP_TRAIN,
                            "attention_map WHERE phase = 'train'")) < 0 ||
        (status = keep_rows(&target.kept[ES_PUSH_MAP_EVAL], postgres, pushed,
                            begun, ES_PUSH_MAP_EVAL,
                            "attention_map WHERE phase = 'eval'")) < 0 ||
        (status = es_copy_in_begin(
             copy, postgres,
             "COPY entropy_scan.attention_map(run_id, phase, step, layer, head,"
             " size, ctx, value) FROM STDIN (FORMAT binary)")) < 0)
        return status;
    if ((status = es_reader_maps(reader, run, put_map, &target)) < 0) {
        es_copy_in_abandon(copy);
        return status;
    }
    return es_copy_in_end(copy);
}

/* --- alerts --------------------------------------------------------------- */

static es_status print_alerts(char **out, const es_push_alert *alerts, size_t n)
{
    size_t size;
    es_json_writer json = {.stream = es_text_stream(out, &size)};
    if (!json.stream)
        return es_fail(ES_ENOMEM, "out of memory for the alerts of a run");
    es_json_write_array(&json, NULL);
    for (size_t i = 0; i < n; i++) {
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "id", alerts[i].id);
        es_json_write_text(&json, "title", alerts[i].title);
        es_json_write_text(&json, "line", alerts[i].line);
        es_json_write_text(&json, "data", alerts[i].json);
        es_json_write_integer(&json, "severity", alerts[i].severity);
        es_json_write_known(&json, "onset", alerts[i].onset);
        es_json_write_known(&json, "step", alerts[i].step);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]");
    if (fclose(json.stream) == 0)
        return ES_OK;
    return es_fail(ES_ENOMEM, "out of memory for the alerts of a run");
}

es_status es_push_alerts(es_push_job *job)
{
    const es_push_alert *alerts = NULL;
    size_t n = 0;
    char *text = NULL;
    PGresult *result = NULL;
    es_status status = ES_OK;
    if (job->finder)
        status = job->finder(job->user, &alerts, &n);
    if (status < 0 || !n)
        return status;
    status = print_alerts(&text, alerts, n);
    const char *const parameters[] = {job->pushed.run, text};
    if (status == ES_OK)
        status = es_postgres_query(
            &result, job->pusher->postgres,
            "INSERT INTO entropy_scan.alert(alert_id, run_id, title, severity,"
            " onset, step, line, data) SELECT id, $1::bigint, title, severity,"
            " onset, step, line, data::json FROM json_to_recordset($2::json)"
            " AS x(id text, title text, line text, data text, severity integer,"
            " onset bigint, step bigint) ON CONFLICT DO NOTHING",
            2, parameters);
    if (status == ES_OK)
        job->added.alerts += strtoull(es_pq.cmdTuples(result), NULL, 10);
    es_pq.clear(result);
    free(text);
    return status;
}

es_status es_push_begin_alerts(es_pusher *pusher)
{
    return es_copy_in_begin(
        &pusher->copy, pusher->postgres,
        "COPY entropy_scan.alert(alert_id, run_id, title, severity, onset,"
        " step, line, data) FROM STDIN (FORMAT binary)");
}

/* Writes the alerts of a new run into the COPY, which fails if two alerts have
 * the same id. */
es_status es_push_put_alerts(es_push_job *job)
{
    const es_push_alert *alerts = NULL;
    size_t n = 0;
    es_copy_in *copy = &job->pusher->copy;
    es_status status = ES_OK;
    if (job->finder)
        status = job->finder(job->user, &alerts, &n);
    for (size_t i = 0; status == ES_OK && i < n; i++) {
        es_copy_in_row(copy, 8);
        es_copy_in_text(copy, alerts[i].id);
        es_copy_in_bigint(copy, job->pushed.run_id);
        es_copy_in_text(copy, alerts[i].title);
        es_copy_in_integer(copy, (int32_t)alerts[i].severity);
        es_copy_in_known(copy, alerts[i].onset);
        es_copy_in_known(copy, alerts[i].step);
        es_copy_in_text(copy, alerts[i].line);
        es_copy_in_text(copy, alerts[i].json);
    }
    job->added.alerts += status == ES_OK ? n : 0;
    return status;
}
