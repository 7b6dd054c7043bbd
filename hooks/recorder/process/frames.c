/* Writes one frame of the ring into the run file. Each frame is checked first,
 * because a bug of the training process may have overwritten it. */
#include "hooks/recorder/process/session.h"

#include "analyzer/base/checked.h"
#include "store/map.h"

#include <stdlib.h>
#include <string.h>

/* Reports a frame that the functions of recorder.h cannot have written. */
static es_status fail_frame(es_session *session, const es_frame *frame)
{
    session->corrupt = true;
    return es_fail(
        ES_EFORMAT,
        "%s: the ring is corrupt: a frame of type %u, series %u, %u bytes: "
        "something in the training process overwrites the shared memory",
        session->hello.path, frame->type, frame->series, frame->bytes);
}

static es_status record_sample(es_session *session, const es_frame *frame)
{
    if (frame->series >= session->tally.n_series)
        return fail_frame(session, frame);
    const es_recorded *series = &session->series[frame->series];
    if (frame->bytes != series->n_values * sizeof(float))
        return fail_frame(session, frame);
    if (series->refused) {
        session->tally.refused++;
        return ES_OK;
    }
    const float *values = (const float *)(const void *)session->payload;
    es_status status = es_writer_sample(session->writer, series->id,
                                        frame->step, values, series->n_values);
    if (status < 0)
        return status;
    session->tally.committed++;
    if (frame->step > session->tally.last_step)
        session->tally.last_step = frame->step;
    return ES_OK;
}

/* Sets *out to a copy of `text` and frees the earlier value of *out, which a
 * failed transaction may have left. */
static es_status copy(char **out, const char *text)
{
    free(*out);
    return es_copy_text(out, text);
}

static es_status record_series(es_session *session, const es_frame *frame)
{
    es_series_frame sent;
    es_pack pack = {
        .mode = ES_PACK_READ, .data = session->payload, .size = frame->bytes};
    es_pack_series(&pack, &sent);
    if (pack.failed || !sent.name || sent.shape < ES_SHAPE_RUN ||
        sent.shape > ES_SHAPE_HEAD || sent.phase < ES_PHASE_TRAIN ||
        sent.phase > ES_PHASE_EVAL || frame->series >= ES_MAX_SERIES ||
        frame->series != session->tally.n_series)
        return fail_frame(session, frame);
    const es_run_info *run = &session->hello.run;
    es_shape shape = (es_shape)sent.shape;
    es_recorded *series = &session->series[session->tally.n_series++];
    series->n_values = es_shape_values(shape, run->n_layer, run->n_head);
    series->shape = shape;
    series->phase = (es_phase)sent.phase;
    es_status status;
    if ((status = copy(&series->name, sent.name)) < 0 ||
        (status = copy(&series->unit, sent.unit)) < 0)
        return status;
    status =
        es_writer_series(session->writer, &series->id, session->run_id,
                         sent.name, shape, (es_phase)sent.phase, sent.unit);
    series->refused = status < 0;
    return status;
}

static es_status record_event(es_session *session, const es_frame *frame)
{
    es_event_frame sent;
    es_pack pack = {
        .mode = ES_PACK_READ, .data = session->payload, .size = frame->bytes};
    es_pack_event(&pack, &sent);
    if (pack.failed || !sent.kind || sent.severity < ES_SEVERITY_NONE ||
        sent.severity > ES_SEVERITY_CRITICAL)
        return fail_frame(session, frame);
    const es_event event = {.step = frame->step,
                            .kind = sent.kind,
                            .severity = (es_severity)sent.severity,
                            .layer = ES_UNKNOWN,
                            .head = ES_UNKNOWN,
                            .message = sent.message};
    es_status status =
        es_writer_event(session->writer, session->run_id, &event);
    if (status == ES_OK)
        session->tally.committed++;
    return status;
}

static es_status record_map(es_session *session, const es_frame *frame)
{
    const es_map_frame *sent =
        (const es_map_frame *)(const void *)session->payload;
    const size_t head = offsetof(es_map_frame, values);
    if (frame->bytes <= head || sent->size < 1 || sent->size > ES_MAP_MAX ||
        frame->bytes !=
            head + (size_t)(sent->size * sent->size) * sizeof *sent->values)
        return fail_frame(session, frame);
    const es_map map = {.phase = (es_phase)sent->phase,
                        .step = frame->step,
                        .layer = sent->layer,
                        .head = sent->head,
                        .size = sent->size,
                        .n_ctx = sent->n_ctx};
    es_status status =
        es_writer_map(session->writer, session->run_id, &map, sent->values);
    if (status == ES_EARGUMENT)
        return fail_frame(session, frame);
    if (status == ES_EFORMAT) { /* the file contains an unrelated table with the
                                   name of the table for maps */
        session->tally.refused++;
        es_session_keep_trouble(session, status);
        return ES_OK;
    }
    if (status < 0)
        return status;
    session->tally.committed++;
    if (frame->step > session->tally.last_step)
        session->tally.last_step = frame->step;
    return ES_OK;
}

es_status es_session_record(es_session *session, es_frame *frame)
{
    es_status status = es_ring_read(&session->ring, frame, session->payload,
                                    session->payload_size);
    if (status == ES_EFORMAT)
        session->corrupt = true;
    if (status != ES_OK)
        return status;
    switch (frame->type) {
    case ES_FRAME_SAMPLE:
        return record_sample(session, frame);
    case ES_FRAME_SERIES:
        return record_series(session, frame);
    case ES_FRAME_EVENT:
        return record_event(session, frame);
    case ES_FRAME_MAP:
        return record_map(session, frame);
    default:
        return fail_frame(session, frame);
    }
}
