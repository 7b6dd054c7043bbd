/* Copies whole runs from one file into another, each in one transaction. Runs
   get new ids but keep their uuids. */
#include "store/merge.h"

#include "analyzer/base/value.h"
#include "store/esf_in.h"
#include "store/map.h"
#include "store/reader_internal.h"
#include "store/writer_internal.h"

static es_status copy_samples(es_writer *writer, es_reader *reader,
                              const es_series *series, int64_t series_id,
                              void (*on_sample)(size_t n_bytes))
{
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    es_status status =
        es_cursor_open(&cursor, reader, series, ES_STEP_FIRST, ES_STEP_LAST);
    while (status == ES_OK &&
           (status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        status =
            es_writer_sample(writer, series_id, step, values, series->n_values);
        if (on_sample)
            on_sample(series->n_values * sizeof *values);
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status copy_series(es_writer *writer, es_reader *reader, size_t run,
                             int64_t run_id, void (*on_sample)(size_t n_bytes))
{
    es_series series;
    int64_t series_id;
    size_t n = es_reader_n_series(reader, run);
    for (size_t i = 0; i < n; i++) {
        es_status status;
        if ((status = es_reader_series(reader, run, i, &series)) < 0 ||
            (status = es_writer_series(writer, &series_id, run_id, series.name,
                                       series.shape, series.phase,
                                       series.unit)) < 0 ||
            (status = copy_samples(writer, reader, &series, series_id,
                                   on_sample)) < 0)
            return status;
    }
    return ES_OK;
}

static es_status copy_events(es_writer *writer, es_reader *reader, size_t run,
                             int64_t run_id)
{
    const es_event *events = NULL;
    size_t n = 0;
    es_status status = es_reader_events(reader, run, &events, &n);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = es_writer_event(writer, run_id, &events[i]);
    return status;
}

typedef struct map_target {
    es_writer *writer;
    int64_t run_id;
} map_target;

static es_status copy_map(void *user, const es_map *map, const float *values)
{
    const map_target *target = user;
    float missing[ES_MAP_MAX * ES_MAP_MAX];
    for (int64_t i = 0; !values && i < map->size * map->size; i++)
        missing[i] = es_missing();
    return es_writer_map(target->writer, target->run_id, map,
                         values ? values : missing);
}

/** Copies the run with index `run`, within a transaction. Returns ES_DONE if
 *  the target already has the run. */
static es_status copy_run(es_writer *writer, es_reader *reader, size_t run,
                          void (*on_sample)(size_t n_bytes))
{
    es_run_info info;
    int64_t run_id = 0, n_layer, n_head;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0 ||
        (status = es_writer_find_run(writer, &run_id, &n_layer, &n_head,
                                     info.uuid)) < 0)
        return status;
    if (run_id)
        return ES_DONE;
    if ((status = es_writer_add_run(writer, &run_id, &info)) < 0 ||
        (status = copy_series(writer, reader, run, run_id, on_sample)) < 0)
        return status;
    if ((status = copy_events(writer, reader, run, run_id)) < 0)
        return status;
    return es_reader_maps(reader, run, copy_map, &(map_target){writer, run_id});
}

es_status es_merge_run(es_writer *writer, es_reader *reader, size_t run,
                       size_t *n_copied, size_t *n_skipped,
                       es_merge_handler *handler,
                       void (*on_sample)(size_t n_bytes))
{
    es_status status = es_writer_begin(writer);
    if (status < 0)
        return status;
    es_status copied = copy_run(writer, reader, run, on_sample);
    if (copied == ES_OK && handler)
        copied = handler(writer, reader, run);
    if (copied == ES_OK)
        copied = es_writer_commit(writer);
    else
        es_writer_rollback(writer);
    if (copied < 0)
        return copied;
    ++*(copied == ES_DONE ? n_skipped : n_copied);
    return ES_OK;
}

es_status es_merge(es_writer *writer, es_reader *reader, size_t *n_copied,
                   size_t *n_skipped, es_merge_handler *handler)
{
    const size_t n = es_reader_n_runs(reader);
    es_status status = ES_OK;
    for (size_t run = 0; run < n && status == ES_OK; run++)
        status = es_merge_run(writer, reader, run, n_copied, n_skipped, handler,
                              NULL);
    return status;
}

bool es_merge_is_behind(const es_reader *reader)
{
    return es_run_source_is_behind(&reader->source);
}

es_status es_merge_open(es_reader **out, const es_writer *writer)
{
    return es_reader_open(out, writer->database.path);
}
