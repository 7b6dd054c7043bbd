/* Implements the functions that a training process calls at each step. They
 * check a frame and copy it into the ring. Only one thread may call them at a
 * time. If the recorder has ended, frames are lost and counted, but training is
 * never disturbed. */
#include "hooks/recorder/recorder_internal.h"

#include "analyzer/base/checked.h"
#include <stdlib.h>
#include <string.h>

/* Milliseconds between two checks that the recorder process is alive. */
#define SLICE_MS 50

static es_status enter(es_recorder *recorder)
{
    if (!recorder)
        return es_fail(ES_EBROKEN, "no recorder is open");
    if (!es_recorder_is_mine(recorder))
        return es_fail(ES_EFORK,
                       "%s: a forked child cannot record: open a separate "
                       "recorder and file in it",
                       recorder->path);
    if (atomic_exchange_explicit(&recorder->busy, true, memory_order_acquire))
        return es_fail(ES_EARGUMENT,
                       "%s: two threads use the recorder at once: the sample "
                       "of this thread is not recorded",
                       recorder->path);
    return ES_OK;
}

static void leave(es_recorder *recorder)
{
    atomic_store_explicit(&recorder->busy, false, memory_order_release);
}

static bool is_gone(es_recorder *recorder)
{
    return atomic_load_explicit(&recorder->ring.words->owner,
                                memory_order_relaxed) != recorder->owner &&
           es_recorder_is_gone(recorder);
}

/* Returns true if the recorder has ended. Does not rely only on the ring's word
 * `owner`, which may have been overwritten. */
static bool has_ended(es_recorder *recorder)
{
    return is_gone(recorder) || es_process_has_ended(&recorder->child, 0);
}

/* Fails with the message that the recorder left at its end, or with a general
 * message if it left none. */
static es_status say_why(es_recorder *recorder)
{
    if (es_recorder_hear(recorder, 0) && recorder->reply.code != ES_OK)
        return es_fail(ES_EBROKEN, "%s", recorder->reply.text);
    return es_fail(ES_EBROKEN,
                   "%s: entropy-recorder (pid %d) has ended: recording stopped",
                   recorder->path, (int)recorder->child.pid);
}

/*
 * Waits for space in the ring and writes the frame. After a failed wait,
 * further frames are written without waiting until a frame fits again.
 * Therefore a recorder that hangs, or whose end goes unnoticed because the ring
 * was overwritten, delays training only once.
 */
static es_status write_when_free(es_recorder *recorder, const es_frame *frame,
                                 const void *payload)
{
    int64_t wait_ms = recorder->stalled ? 0 : recorder->wait_ms;
    int64_t deadline = es_now_ms() + wait_ms;
    for (int64_t left = wait_ms; left > 0; left = deadline - es_now_ms()) {
        es_ring_wait_space(&recorder->ring, frame->bytes,
                           left < SLICE_MS ? left : SLICE_MS);
        if (es_ring_write(&recorder->ring, frame, payload))
            return ES_OK;
        if (has_ended(recorder))
            break;
    }
    if (has_ended(recorder) || es_recorder_hear(recorder, 0))
        return say_why(recorder);
    return es_fail(ES_EFULL,
                   "%s: the ring is full: entropy-recorder (pid %d) does not "
                   "keep up",
                   recorder->path, (int)recorder->child.pid);
}

static es_status send(es_recorder *recorder, const es_frame *frame,
                      const void *payload)
{
    if (is_gone(recorder))
        return say_why(recorder);
    es_status status = ES_OK;
    if (!es_ring_write(&recorder->ring, frame, payload))
        status = write_when_free(recorder, frame, payload);
    recorder->stalled = status != ES_OK;
    return status;
}

/* Sends a sample, a map or an event, which are the frames that
 * es_recorder_report counts. */
static es_status send_counted(es_recorder *recorder, const es_frame *frame,
                              const void *payload)
{
    es_status status = send(recorder, frame, payload);
    if (status == ES_OK)
        recorder->pushed++;
    else if (status == ES_EFULL)
        atomic_store_explicit(&recorder->ring.words->dropped,
                              ++recorder->dropped, memory_order_release);
    else
        recorder->missed++;
    return status;
}

static es_status check_step(const es_recorder *recorder, int64_t step)
{
    if (step < 0 || step > ES_MAX_STEP)
        return es_fail(ES_EARGUMENT, "%s: step %lld: steps start at 0",
                       recorder->path, (long long)step);
    return ES_OK;
}

static es_status check_sample(const es_recorder *recorder, int series,
                              int64_t step, const float *values, size_t n)
{
    if (series < 0 || (size_t)series >= recorder->n_declared)
        return es_fail(ES_EARGUMENT, "%s: no series with number %d",
                       recorder->path, series);
    const es_declared *declared = &recorder->declared[series];
    if (!values || n != declared->n_values)
        return es_fail(ES_EARGUMENT, "%s: %zu values for %s: expected %zu",
                       recorder->path, values ? n : 0, declared->name,
                       declared->n_values);
    return check_step(recorder, step);
}

es_status es_recorder_push(es_recorder *recorder, int series, int64_t step,
                           const float *values, size_t n)
{
    es_status status = enter(recorder);
    if (status < 0)
        return status;
    /* A series that is declared after the recorder has ended gets no number.
     * check_sample would therefore report its samples as a mistake of the
     * caller, although they are merely lost. */
    if (!is_gone(recorder))
        status = check_sample(recorder, series, step, values, n);
    if (status == ES_OK) {
        es_frame frame = {.type = ES_FRAME_SAMPLE,
                          .series = (uint32_t)series,
                          .step = step,
                          .bytes = (uint32_t)(n * sizeof *values)};
        status = send_counted(recorder, &frame, values);
    }
    leave(recorder);
    return status;
}

/* Returns the index of a declared series, or n_declared if the series is
 * new. */
static size_t find_series(const es_recorder *recorder, const char *name,
                          es_phase phase)
{
    size_t i = 0;
    while (i < recorder->n_declared &&
           (recorder->declared[i].phase != phase ||
            strcmp(recorder->declared[i].name, name) != 0))
        i++;
    return i;
}

static es_status send_series(es_recorder *recorder, const char *name,
                             es_shape shape, es_phase phase, const char *unit)
{
    _Alignas(8) unsigned char payload[2 * ES_FRAME_TEXT_MAX];
    es_pack pack = {
        .mode = ES_PACK_WRITE, .data = payload, .size = sizeof payload};
    es_series_frame series = {
        .name = name, .unit = unit, .shape = shape, .phase = phase};
    es_pack_series(&pack, &series);
    es_frame frame = {.type = ES_FRAME_SERIES,
                      .series = (uint32_t)recorder->n_declared,
                      .bytes = (uint32_t)pack.at};
    return send(recorder, &frame, payload);
}

static es_status add_series(es_recorder *recorder, const char *name,
                            es_shape shape, es_phase phase, const char *unit)
{
    size_t n = recorder->n_declared;
    char *copy = NULL;
    es_status status;
    if ((status = es_grow(&recorder->declared, n + 1,
                          sizeof *recorder->declared, "a series")) < 0 ||
        (status = es_copy_text(&copy, name)) < 0 ||
        (status = send_series(recorder, name, shape, phase, unit)) < 0) {
        free(copy);
        return status;
    }
    recorder->declared[n] = (es_declared){
        copy, phase, shape,
        es_shape_values(shape, recorder->n_layer, recorder->n_head)};
    recorder->n_declared = n + 1;
    return ES_OK;
}

static es_status declare(es_recorder *recorder, int *series, const char *name,
                         es_shape shape, es_phase phase, const char *unit)
{
    if (!name || !*name || shape < ES_SHAPE_RUN || shape > ES_SHAPE_HEAD ||
        phase < ES_PHASE_TRAIN || phase > ES_PHASE_EVAL)
        return es_fail(ES_EARGUMENT,
                       "%s: a series needs a name, a shape and a phase",
                       recorder->path);
    if (strlen(name) > ES_MAX_NAME || (unit && strlen(unit) > ES_MAX_NAME))
        return es_fail(
            ES_EARGUMENT,
            "%s: the name and unit of a series may have at most %d bytes",
            recorder->path, ES_MAX_NAME);
    size_t i = find_series(recorder, name, phase);
    if (i >= ES_MAX_SERIES)
        return es_fail(ES_EARGUMENT, "%s: more than %d series", recorder->path,
                       ES_MAX_SERIES);
    if (i < recorder->n_declared && recorder->declared[i].shape != shape)
        return es_fail(ES_EARGUMENT, "%s: %s was declared with shape %s before",
                       recorder->path, name,
                       es_shape_name(recorder->declared[i].shape));
    es_status status;
    if (i == recorder->n_declared &&
        (status = add_series(recorder, name, shape, phase, unit)) < 0)
        return status;
    *series = (int)i;
    return ES_OK;
}

es_status es_recorder_series(es_recorder *recorder, int *series,
                             const char *name, es_shape shape, es_phase phase,
                             const char *unit)
{
    *series = -1;
    es_status status = enter(recorder);
    if (status < 0)
        return status;
    status = declare(recorder, series, name, shape, phase, unit);
    leave(recorder);
    return status;
}

static es_status send_event(es_recorder *recorder, int64_t step,
                            const char *kind, es_severity severity,
                            const char *message)
{
    if (!kind ||
        strlen(kind) + (message ? strlen(message) : 0) > ES_FRAME_TEXT_MAX)
        return es_fail(
            ES_EARGUMENT,
            "%s: an event needs a kind and may have at most %d bytes",
            recorder->path, ES_FRAME_TEXT_MAX);
    _Alignas(8) unsigned char payload[2 * ES_FRAME_TEXT_MAX];
    es_pack pack = {
        .mode = ES_PACK_WRITE, .data = payload, .size = sizeof payload};
    es_event_frame event = {
        .kind = kind, .message = message, .severity = severity};
    es_pack_event(&pack, &event);
    es_frame frame = {
        .type = ES_FRAME_EVENT, .step = step, .bytes = (uint32_t)pack.at};
    return send_counted(recorder, &frame, payload);
}

es_status es_recorder_event(es_recorder *recorder, int64_t step,
                            const char *kind, es_severity severity,
                            const char *message)
{
    es_status status = enter(recorder);
    if (status < 0)
        return status;
    status = send_event(recorder, step, kind, severity, message);
    leave(recorder);
    return status;
}

static es_status check_map(const es_recorder *recorder, const es_map_frame *map,
                           const float *values)
{
    if (map->phase < ES_PHASE_TRAIN || map->phase > ES_PHASE_EVAL ||
        map->layer < 0 || map->layer >= recorder->n_layer ||
        map->head < ES_MAP_MEAN || map->head >= recorder->n_head)
        return es_fail(ES_EARGUMENT,
                       "%s: an attention map of layer %lld, head %lld: the run "
                       "has %lld layers of %lld heads",
                       recorder->path, (long long)map->layer,
                       (long long)map->head, (long long)recorder->n_layer,
                       (long long)recorder->n_head);
    if (!values || map->size < 1 || map->size > ES_MAP_MAX ||
        map->n_ctx < map->size || map->n_ctx > INT32_MAX)
        return es_fail(
            ES_EARGUMENT,
            "%s: an attention map of %lld cells per side for %lld "
            "tokens: expected 1 to %d cells, and at most one per token",
            recorder->path, values ? (long long)map->size : 0,
            (long long)map->n_ctx, ES_MAP_MAX);
    return ES_OK;
}

static es_status send_map(es_recorder *recorder, int64_t step,
                          es_map_frame *map, const float *values)
{
    es_status status;
    if ((status = check_map(recorder, map, values)) < 0 ||
        (status = check_step(recorder, step)) < 0)
        return status;
    const size_t bytes = (size_t)map->size * (size_t)map->size * sizeof *values;
    memcpy(map->values, values, bytes);
    es_frame frame = {.type = ES_FRAME_MAP,
                      .step = step,
                      .bytes =
                          (uint32_t)(offsetof(es_map_frame, values) + bytes)};
    return send_counted(recorder, &frame, map);
}

es_status es_recorder_map(es_recorder *recorder, es_phase phase, int64_t step,
                          int64_t layer, int64_t head, const float *values,
                          int64_t size, int64_t n_ctx)
{
    es_map_frame map;
    map.phase = phase;
    map.layer = layer;
    map.head = head;
    map.size = size;
    map.n_ctx = n_ctx;
    es_status status = enter(recorder);
    if (status < 0)
        return status;
    status = send_map(recorder, step, &map, values);
    leave(recorder);
    return status;
}

bool es_recorder_stop_requested(const es_recorder *recorder)
{
    return recorder && es_recorder_is_mine(recorder) &&
           es_ring_stop_requested(&recorder->ring);
}
