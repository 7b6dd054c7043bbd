/* Reads any file with all functions of store/reader.h and checks that the
 * results are within their bounds. */
#include "tests/fuzz/reading.h"

#include "store/layers.h"
#include "tests/fuzz/fuzz.h"
#include <math.h>

#include <stdlib.h>
#include <string.h>

/* sum of all values and letters, which ensures that each of them is read */
static double sum;

static void read_text(const char *text)
{
    if (text)
        sum += (double)strlen(text);
}

static void read_values(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
}

static void check_info(const es_run_info *info)
{
    fuzz_require(info->n_layer >= 1 && info->n_layer <= ES_MAX_LAYERS);
    fuzz_require(info->n_head >= 1 && info->n_head <= ES_MAX_HEADS);
    fuzz_require(info->n_layer * info->n_head <= ES_MAX_VALUES);
    fuzz_require(info->name);
    fuzz_require(info->status >= ES_RUN_RUNNING &&
                 info->status <= ES_RUN_STOPPED);
    read_text(info->uuid);
    read_text(info->name);
    read_text(info->arch);
    read_text(info->family);
    read_text(info->config);
    read_text(info->program);
    read_text(info->host);
    read_text(info->started_at);
    read_text(info->ended_at);
}

static void check_cursor(es_reader *reader, const es_series *series)
{
    es_cursor *cursor = NULL;
    const float *values;
    int64_t step, before = -1;
    es_status status;
    if (!fuzz_succeeded(es_cursor_open(&cursor, reader, series, ES_STEP_FIRST,
                                       ES_STEP_LAST)))
        return;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK) {
        fuzz_require(step > before && step <= ES_MAX_STEP);
        fuzz_require((uintptr_t)values % sizeof *values == 0);
        read_values(values, series->n_values);
        before = step;
    }
    fuzz_require(status == ES_DONE || !fuzz_succeeded(status));
    es_cursor_close(cursor);
}

static void check_series(es_reader *reader, const es_series *series,
                         const es_run_info *info)
{
    int64_t n, found;
    fuzz_require(series->name && series->unit);
    fuzz_require(series->n_values ==
                 es_shape_values(series->shape, info->n_layer, info->n_head));
    if (fuzz_succeeded(es_reader_count(reader, series, &n)))
        fuzz_require(n >= 0);
    float *values = malloc(series->n_values * sizeof *values);
    fuzz_require(values);
    const int64_t steps[] = {ES_STEP_FIRST, ES_STEP_LAST, 35, 36};
    for (int i = 0; i < 4; i++)
        if (fuzz_succeeded(es_reader_sample(reader, series, steps[i], values,
                                            series->n_values, &found))) {
            fuzz_require(found >= 0 && found <= ES_MAX_STEP);
            read_values(values, series->n_values);
        }
    free(values);
    check_cursor(reader, series);
}

static void check_whole(es_reader *reader, size_t run)
{
    es_cursor *cursor = NULL;
    const float *values;
    es_series series;
    int64_t step, before = -1;
    es_status status;
    if (!fuzz_succeeded(es_cursor_open_run(&cursor, reader, run)))
        return;
    while ((status = es_cursor_next_of_run(cursor, &step, &values, &series)) ==
           ES_OK) {
        fuzz_require(step >= before);
        read_values(values, series.n_values);
        before = step;
    }
    fuzz_require(status == ES_DONE || !fuzz_succeeded(status));
    es_cursor_close(cursor);
}

static void check_events(es_reader *reader, size_t run)
{
    const es_event *events;
    size_t n;
    if (!fuzz_succeeded(es_reader_events(reader, run, &events, &n)))
        return;
    for (size_t i = 0; i < n; i++) {
        fuzz_require(events[i].kind);
        fuzz_require(events[i].severity >= ES_SEVERITY_NONE &&
                     events[i].severity <= ES_SEVERITY_CRITICAL);
        read_text(events[i].kind);
        read_text(events[i].message);
        read_text(events[i].data);
        read_text(events[i].at);
    }
}

static void check_run(es_reader *reader, size_t run)
{
    es_run_info info;
    es_series series;
    fuzz_require(es_reader_run(reader, run, &info) == ES_OK);
    check_info(&info);
    int64_t planned;
    fuzz_require(es_reader_planned_steps(reader, run, &planned) == ES_OK);
    fuzz_require(planned == ES_UNKNOWN || planned > 0);
    es_layers *layers;
    fuzz_require(es_reader_layers(&layers, reader, run) == ES_OK);
    for (size_t i = 0;
         layers && layers->ceilings && i < layers->n_layers * layers->n_heads;
         i++)
        fuzz_require(isnan(layers->ceilings[i]) || layers->ceilings[i] >= 0);
    es_layers_free(layers);
    size_t n = es_reader_n_series(reader, run);
    for (size_t i = 0; i < n; i++)
        if (fuzz_succeeded(es_reader_series(reader, run, i, &series)))
            check_series(reader, &series, &info);
    fuzz_succeeded(
        es_reader_find(reader, run, "entropy", ES_PHASE_TRAIN, &series));
    check_whole(reader, run);
    check_events(reader, run);
}

void fuzz_read_all(es_reader *reader)
{
    for (size_t i = 0; i < es_reader_n_runs(reader); i++)
        check_run(reader, i);
}
