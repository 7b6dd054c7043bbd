/* Runs a recording from its opening to its end. Writes batches of frames as
 * transactions and retries failed transactions while the training continues.
 * Every frame is written to the file or counted as lost. Each frame is checked
 * before it is written, because a bug of the training process may have
 * overwritten it. If other programs truncate the write-ahead log, its contents
 * are lost; if they remove or rename it, nothing is lost. In both cases the run
 * file is opened again. */
#include "hooks/recorder/process/session.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "store/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_BYTES ((uint64_t)1 << 20)
/* Milliseconds that a batch waits for further frames after its first frame. The
 * rest of a second is left for the commit, so that a frame is committed within
 * one second. */
#define BATCH_MS 900
#define LOCK_MS 2000
#define RETRY_MS 1000
/* Number of attempts to write after the trainer has ended. */
#define LAST_TRIES 3
/* Minimum time in milliseconds between two calls of look_around(). */
#define LOOK_MS 1000
/* Log size in bytes above which a warning is given. */
#define LOG_MOST ((int64_t)64 << 20)

/* --- problems and events ------------------------------------------------- */

/* Stores `code` and es_message() in session->trouble if this is the first
 * problem, because later problems usually follow from it. */
static void keep_trouble(es_session *session, es_status code)
{
    if (session->trouble.code != ES_OK)
        return;
    session->trouble.code = code;
    snprintf(session->trouble.text, sizeof session->trouble.text, "%s",
             es_message());
}

/* Returns true if the training process has closed the run or has died. */
static bool has_ended(const es_session *session)
{
    return es_ring_is_closed(&session->ring, NULL) ||
           atomic_load(&session->watch.orphaned);
}

/* Writes an event at the highest step recorded so far. `data` may be NULL. */
static es_status note_event(es_session *session, const char *kind,
                            es_severity severity, const char *message,
                            const char *data)
{
    const es_event event = {.step = session->tally.last_step,
                            .kind = kind,
                            .severity = severity,
                            .layer = ES_UNKNOWN,
                            .head = ES_UNKNOWN,
                            .message = message,
                            .data = data};
    return es_writer_event(session->writer, session->run_id, &event);
}

/* Writes an event at the highest step recorded so far with the data
 * {"NAME":NUMBER}. */
static es_status note_number(es_session *session, const char *kind,
                             es_severity severity, const char *message,
                             const char *name, int64_t number)
{
    char data[128] = "";
    FILE *out = fmemopen(data, sizeof data, "w");
    if (!out)
        return es_fail(ES_ENOMEM, "out of memory for an event");
    es_json_writer json = {.stream = out};
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, name, number);
    es_json_write_end(&json, "}");
    fclose(out);
    return note_event(session, kind, severity, message, data);
}

/* --- frames -------------------------------------------------------------- */

/* Reports a corrupt ring buffer after reading a frame that the functions of
   recorder.h cannot have written. */
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
static es_status set_text(char **out, const char *text)
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
    if ((status = set_text(&series->name, sent.name)) < 0 ||
        (status = set_text(&series->unit, sent.unit)) < 0)
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
    if (status == ES_EFORMAT) { /* the file has an unrelated table with the name
                                   that the table of maps needs */
        session->tally.refused++;
        keep_trouble(session, status);
        return ES_OK;
    }
    if (status < 0)
        return status;
    session->tally.committed++;
    if (frame->step > session->tally.last_step)
        session->tally.last_step = frame->step;
    return ES_OK;
}

/* Reads the next frame and writes it into the file, in the current transaction
 * or, if none is open, in a separate transaction.
 *
 *   frame  output: header of the frame
 *
 * Returns ES_OK; ES_DONE if the ring buffer has no unread frame; ES_EFORMAT if
 * it is corrupt, with session->corrupt set; or a status of the store. */
static es_status record_frame(es_session *session, es_frame *frame)
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

/* --- the file ------------------------------------------------------------ */

/* Opens the file with es_writer_open. If another writer has locked the file,
 * waits a little for that writer to end. */
static es_status open_file(es_session *session)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    int64_t deadline = es_now_ms() + LOCK_MS;
    for (;;) {
        es_status status =
            es_writer_open(&session->writer, session->hello.path, ES_DURABLE);
        if (status != ES_ELOCKED || es_now_ms() >= deadline)
            return status;
        nanosleep(&nap, NULL);
    }
}

/* Decides whether to record into the run file or into a fragment, and replaces
 * the path in session->hello by the path of the chosen file. */
static es_status choose_place(es_session *session)
{
    es_hello *hello = &session->hello;
    es_place *place = &session->place;
    session->given = hello->path;
    es_status status = es_place_choose(place, hello->path,
                                       (es_store)hello->store, hello->run.uuid);
    if (status < 0)
        return status;
    if (place->type[0])
        fprintf(stderr,
                "entropy-recorder: %s: is on the shared file system %s: "
                "recording into %s\n",
                hello->path, place->type, place->path);
    hello->path = place->path;
    return ES_OK;
}

/* Opens the file. After each successful opening the choice between run file and
 * fragment is made again, because another recorder may have copied the fragment
 * into the run file while this function waited for the lock. */
static es_status open_place(es_session *session)
{
    es_place *place = &session->place, now;
    for (;;) {
        es_status status = open_file(session);
        if (status == ES_OK)
            status = es_place_choose(&now, session->given,
                                     (es_store)session->hello.store,
                                     session->hello.run.uuid);
        if (status < 0 || strcmp(now.path, place->path) == 0)
            return status;
        es_writer_abandon(session->writer);
        session->writer = NULL;
        *place = now;
    }
}

/* --- a damaged log ------------------------------------------------------- */

/* Opens the file, the run and its series again. The run and series get new ids
 * if their rows were in the lost write-ahead log. */
static es_status open_again(es_session *session)
{
    const es_run_info *run = &session->hello.run;
    es_status status;
    status = open_file(session);
    /* es_writer_run deletes samples from the given step on; INT64_MAX deletes
     * none. */
    if (status < 0 || (status = es_writer_run(session->writer, &session->run_id,
                                              run, INT64_MAX)) < 0)
        return status;
    for (size_t i = 0; i < session->tally.n_series; i++) {
        es_recorded *series = &session->series[i];
        if (!series->refused &&
            (status = es_writer_series(
                 session->writer, &series->id, session->run_id, series->name,
                 series->shape, series->phase, series->unit)) < 0)
            return status;
    }
    return ES_OK;
}

/* Resumes writing after the old writer was closed. `message` gives the reason
 * and is stored as an event, with `lost`, the number of lost frames. */
static es_status go_on(es_session *session, es_severity severity,
                       const char *message, uint64_t lost)
{
    session->n_opened++;
    es_status status;
    if ((status = open_again(session)) == ES_OK &&
        (status = note_number(session, "log", severity, message, "lost",
                              (int64_t)lost)) == ES_OK)
        return ES_OK;
    keep_trouble(session, status);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    return status;
}

/* Recovers after es_writer_log_is_broken has returned true: counts the contents
 * of the log as lost and opens the file again. Returns ES_OK; on failure
 * session->writer is NULL. */
static es_status replace_log(es_session *session)
{
    char message[ES_MESSAGE_MAX + 64];
    uint64_t committed = session->tally.committed;
    if (es_writer_is_settled(session->writer))
        session->safe = committed;
    uint64_t lost = committed - session->safe;
    keep_trouble(session, ES_EIO);
    snprintf(message, sizeof message, "%s (%llu frames)", es_message(),
             (unsigned long long)lost);
    fprintf(stderr, "entropy-recorder: %s\n", message);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    session->tally.committed = session->safe;
    return go_on(session, ES_SEVERITY_ERROR, message, lost);
}

/* Opens the file again, because SQLite cannot release a lock of the open
   connection. */
static es_status reconnect(es_session *session)
{
    char message[ES_MESSAGE_MAX];
    snprintf(message, sizeof message,
             "%s: opened again, because SQLite could not release one of its "
             "own locks; nothing is lost",
             session->hello.path);
    fprintf(stderr, "entropy-recorder: %s\n", message);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    return go_on(session, ES_SEVERITY_WARNING, message, 0);
}

/* Starts a new file after the run file and its log have disappeared. All frames
 * that were committed before are lost. */
static void begin_anew(es_session *session)
{
    char message[ES_MESSAGE_MAX];
    const uint64_t lost = session->tally.committed;
    keep_trouble(session, ES_EIO);
    snprintf(message, sizeof message,
             "the earlier file was removed, moved or replaced during the "
             "recording: samples up to step %lld are not in this file (%llu "
             "frames)",
             (long long)session->tally.last_step, (unsigned long long)lost);
    fprintf(stderr, "entropy-recorder: %s: %s\n", session->hello.path, message);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    session->tally.committed = session->safe = 0;
    (void)!go_on(session, ES_SEVERITY_ERROR, message, lost);
}

/* Checks whether the write-ahead log was removed, moved or replaced. Nothing is
 * lost if its contents can be copied into the run file while the recorder still
 * has the log open. */
static void look_for_name(es_session *session)
{
    char message[ES_MESSAGE_MAX];
    if (!es_writer_log_is_away(session->writer))
        return;
    if (es_writer_check_place(session->writer) < 0) {
        begin_anew(session);
        return;
    }
    if (es_writer_settle(session->writer) != ES_OK)
        return;
    snprintf(message, sizeof message,
             "%s-wal: was removed, moved or replaced by another program, but "
             "nothing is lost",
             session->hello.path);
    fprintf(stderr, "entropy-recorder: %s\n", message);
    es_status status = es_writer_close(session->writer);
    session->writer = NULL;
    if (status < 0)
        keep_trouble(session, status);
    (void)!go_on(session, ES_SEVERITY_WARNING, message, 0);
}

static void look_at_size(es_session *session)
{
    char message[256], reader[64] = "";
    long long size = es_writer_log_bytes(session->writer);
    if (session->log_reported || size <= LOG_MOST)
        return;
    session->log_reported = true;
    const pid_t pid = es_writer_log_reader(session->writer);
    if (pid > 0)
        snprintf(reader, sizeof reader, " (process %d reads it)", (int)pid);
    snprintf(message, sizeof message,
             "the write-ahead log has %lld MiB, and cannot shrink while other "
             "programs read the file%s: end these programs",
             size >> 20, reader);
    fprintf(stderr, "entropy-recorder: %s: %s\n", session->hello.path, message);
    (void)!note_number(session, "log", ES_SEVERITY_WARNING, message, "bytes",
                       size);
}

/* Checks whether the write-ahead log was removed or renamed, or keeps growing.
 * Must be called between transactions; may set session->writer to NULL. */
static void look_at_log(es_session *session)
{
    look_for_name(session);
    if (session->writer)
        look_at_size(session);
}

static bool has_time(void *user)
{
    const es_session *session = user;
    const es_ring *ring = &session->ring;
    return es_ring_head(ring) - ring->released < ring->capacity / 4 &&
           !has_ended(session);
}

/* --- requests to stop ---------------------------------------------------- */

/* Checks for a stop request next to the path that the trainer gave and next to
 * the file being written. */
static bool is_stop_requested(const es_session *session, char *line,
                              size_t size)
{
    return es_stop_requested(line, size, session->given) ||
           es_stop_requested(line, size, session->hello.path);
}

/* Removes a stop request that is older than this training run and was meant for
 * an earlier run. */
static void drop_old_request(const es_session *session)
{
    char line[256];
    if (is_stop_requested(session, line, sizeof line))
        fprintf(stderr,
                "entropy-recorder: %s.stop: removed and ignored, because the "
                "request is older than this training run\n",
                session->given);
}

static void look_for_stop(es_session *session)
{
    char line[256];
    if (session->stop_passed || !is_stop_requested(session, line, sizeof line))
        return;
    session->stop_passed = true;
    es_ring_request_stop(&session->ring);
    /* The trainer receives the request to stop even if the event cannot be
       written. */
    (void)!note_event(session, "stop", ES_SEVERITY_INFO,
                      line[0] ? line : "a stop of the training was requested",
                      NULL);
}

/* --- opening ------------------------------------------------------------- */

es_status es_session_open(es_session *session)
{
    es_hello *hello = &session->hello;
    es_status status = choose_place(session);
    if (status < 0)
        return status;
    session->ring.name = hello->path;
    if (!hello->run.uuid) { /* The UUID is created here instead of in the store,
                               because the file may be opened again and must
                               then get the same UUID. */
        if ((status = es_uuid_make(session->uuid)) < 0)
            return status;
        hello->run.uuid = session->uuid;
    }
    if ((status = open_place(session)) < 0)
        return status;
    drop_old_request(session);
    status = es_writer_run(session->writer, &session->run_id, &hello->run,
                           hello->resume_step);
    if (status < 0)
        return status;
    /* The product of layers and heads does not overflow, because the store has
     * checked both. */
    size_t heads =
        es_shape_values(ES_SHAPE_HEAD, hello->run.n_layer, hello->run.n_head);
    size_t size = heads * sizeof(float);
    session->payload_size = size > ES_FRAME_MAX ? size : ES_FRAME_MAX;
    if ((status = es_alloc(&session->payload, session->payload_size, 1,
                           "a frame")) < 0)
        return status;
    if (hello->resume_step > 0 && hello->resume_step <= ES_MAX_STEP)
        session->tally.last_step = hello->resume_step;
    /* If another program had an empty file of the same name open, that
     * program's SQLite may have removed the new file's log. */
    look_at_log(session);
    return session->writer ? ES_OK : (es_status)session->trouble.code;
}

/* --- transactions -------------------------------------------------------- */

/* Returns true if a retry may succeed, for example after space has become free
 * on the disk or a lock was released. */
static bool may_pass(es_status status)
{
    return status == ES_EIO || status == ES_ENOMEM || status == ES_ELOCKED;
}

/* Releases the space in the ring buffer that the committed frames occupied. */
static void release_space(es_session *session)
{
    if (es_writer_is_settled(session->writer))
        session->safe = session->tally.committed;
    es_ring_release(&session->ring, session->tally.committed);
}

/* Writes a batch in one transaction. If a frame is corrupt, the frames before
 * it are committed. */
static es_status commit_batch(es_session *session)
{
    es_ring *ring = &session->ring;
    const es_session_tally before = session->tally;
    uint64_t start = ring->position;
    es_frame frame;
    es_status status = es_writer_begin(session->writer);
    /* The condition is "!=" instead of "<", so that a corrupt ring buffer,
     * whose head lies before the position, is noticed. */
    while (status == ES_OK && ring->position != session->until &&
           ring->position - start < BATCH_BYTES)
        status = record_frame(session, &frame);
    if (session->corrupt)
        keep_trouble(session, status);
    if (status == ES_OK || status == ES_DONE || session->corrupt)
        status = es_writer_commit(session->writer);
    session->reached = ring->position;
    if (status < 0) {
        es_writer_rollback(session->writer);
        es_ring_rewind(ring);
        session->tally = before;
        return status;
    }
    release_space(session);
    return ES_OK;
}

/* Writes one frame in a separate transaction. If the store refuses the frame,
 * counts it as refused. */
static es_status commit_frame(es_session *session)
{
    const es_session_tally before = session->tally;
    es_frame frame;
    es_status status = record_frame(session, &frame);
    if (may_pass(status)) {
        es_ring_rewind(&session->ring);
        session->tally = before;
        return status;
    }
    if (status < 0)
        keep_trouble(session, status);
    if (status < 0 && !session->corrupt && frame.type != ES_FRAME_SERIES)
        session->tally.refused++;
    release_space(session);
    return ES_OK;
}

static void complain(es_session *session)
{
    if (!session->complained)
        fprintf(stderr, "entropy-recorder: %s: retrying\n", es_message());
    session->complained = true;
}

/* Calls `attempt` again after failures that may be temporary, as long as the
 * training continues and a few times after its end. Meanwhile frames wait in
 * the ring buffer; once it is full, new frames are dropped and counted. */
static es_status insist(es_session *session,
                        es_status (*attempt)(es_session *session))
{
    for (;;) {
        uint32_t bell = es_ring_bell(&session->ring);
        if (session->writer && es_writer_is_stuck(session->writer))
            (void)!reconnect(session);
        if (!session->writer)
            return (es_status)session->trouble.code;
        es_status status = attempt(session);
        if (status < 0 && es_writer_log_is_broken(session->writer)) {
            status = replace_log(session);
            if (status < 0)
                return status;
            continue;
        }
        if (!may_pass(status)) {
            session->complained = false;
            return status;
        }
        complain(session);
        if (has_ended(session) && session->late_tries++ >= LAST_TRIES)
            return status;
        es_ring_wait(&session->ring, bell, SIZE_MAX, RETRY_MS);
    }
}

/* Writes the frames of a failed batch one by one, so that only the frames that
 * the store refuses are lost. */
static es_status commit_one_by_one(es_session *session, uint64_t end)
{
    es_status status;
    do
        status = insist(session, commit_frame);
    while (status == ES_OK && !session->corrupt &&
           session->ring.position < end);
    return status;
}

/* Writes all frames that are in the ring buffer at the time of the call. */
static es_status drain(es_session *session)
{
    es_status status = ES_OK;
    uint64_t start = session->ring.position + 1;
    session->until = es_ring_head(&session->ring);
    /* The loop also ends if an iteration reads nothing: if the head of the ring
     * buffer was corrupt when it was read into `until`, the position never
     * reaches `until`. */
    while (status == ES_OK && !session->corrupt &&
           session->ring.position != session->until &&
           session->ring.position != start) {
        start = session->ring.position;
        status = insist(session, commit_batch);
        if (status < 0 && !may_pass(status))
            status = commit_one_by_one(session, session->reached);
    }
    return status;
}

/* --- serving ------------------------------------------------------------- */

/* Reports that the run file was moved or replaced. Writing continues, because a
 * moved file is still complete. */
static void look_for_file(es_session *session)
{
    if (session->trouble.code != ES_OK)
        return;
    es_status status = es_writer_check_place(session->writer);
    if (status == ES_OK)
        return;
    keep_trouble(session, status);
    fprintf(stderr, "entropy-recorder: %s\n", es_message());
}

/* Checks once a second whether users have changed, moved or removed the files,
 * or requested a stop. */
static void look_around(es_session *session)
{
    int64_t now = es_now_ms();
    if (now - session->look < LOOK_MS)
        return;
    session->look = now;
    look_for_stop(session);
    look_for_file(session);
    look_at_log(session);
}

/* Sleeps until a frame arrives, then until enough frames for a transaction have
 * arrived or BATCH_MS have passed. Returns earlier if the wake-up counter in
 * the shared memory is no longer `bell`. */
static void await_frames(es_session *session, uint32_t bell)
{
    es_ring *ring = &session->ring;
    es_ring_wait(ring, bell, 1, es_writer_beat_ms(session->writer));
    es_writer_beat(session->writer);
    look_around(session);
    bell = es_ring_bell(ring);
    if (has_ended(session) || atomic_load(&session->watch.hurried))
        return;
    uint64_t half = ring->capacity / 2;
    es_ring_wait(ring, bell, half < BATCH_BYTES ? half : BATCH_BYTES, BATCH_MS);
}

void es_session_serve(es_session *session)
{
    session->look = es_now_ms() - LOOK_MS;
    for (;;) {
        uint32_t bell = es_ring_bell(&session->ring);
        /* The end is checked before the frames are read, because no frame can
         * enter the ring buffer after the end. */
        bool last = has_ended(session);
        es_status status = drain(session);
        if (status < 0)
            keep_trouble(session, status);
        if (status < 0 || session->corrupt || last)
            return;
        /* There may always be a reader that uses the write-ahead log, so the
         * log must be emptied while others read it. This may have to wait for a
         * reader, and is therefore skipped while the ring buffer fills up. */
        es_writer_tend_log(session->writer, has_time, session);
        await_frames(session, bell);
        if (!session->writer)
            return;
    }
}

/* --- the end ------------------------------------------------------------- */

static es_run_status final_status(const es_session *session)
{
    uint32_t status;
    if (session->corrupt || !es_ring_is_closed(&session->ring, &status))
        return ES_RUN_FAILED;
    return status == ES_RUN_FINISHED || status == ES_RUN_STOPPED
               ? (es_run_status)status
               : ES_RUN_FAILED;
}

static es_status note_count(es_session *session, const char *kind, uint64_t n,
                            const char *why)
{
    char message[ES_MESSAGE_MAX + 64];
    if (n == 0)
        return ES_OK;
    snprintf(message, sizeof message, "%llu frames %s", (unsigned long long)n,
             why);
    return note_number(session, kind, ES_SEVERITY_WARNING, message, kind,
                       (int64_t)n);
}

static es_status note_death(es_session *session)
{
    char message[128];
    if (es_ring_is_closed(&session->ring, NULL) || session->corrupt)
        return ES_OK;
    snprintf(message, sizeof message,
             "the training process (pid %lld) ended without closing the run",
             (long long)session->hello.trainer);
    return note_event(session, "trainer_died", ES_SEVERITY_ERROR, message,
                      NULL);
}

static es_status write_end(es_session *session)
{
    char why[ES_MESSAGE_MAX + 32];
    snprintf(why, sizeof why, "were refused: %s", session->trouble.text);
    es_status status;
    if ((status = es_writer_begin(session->writer)) < 0 ||
        (status = note_count(
             session, "dropped", atomic_load(&session->ring.words->dropped),
             "did not fit into the ring buffer and were dropped")) < 0 ||
        (status = note_count(session, "refused", session->tally.refused, why)) <
            0 ||
        (session->corrupt &&
         (status = note_event(session, "ring_corrupt", ES_SEVERITY_ERROR,
                              session->trouble.text, NULL)) < 0) ||
        (status = note_death(session)) < 0 ||
        (status = es_writer_end_run(session->writer, session->run_id,
                                    final_status(session))) < 0 ||
        (status = es_writer_commit(session->writer)) < 0) {
        es_writer_rollback(session->writer);
    }
    return status;
}

/* Moves all commits from the write-ahead log into the run file. If programs
 * that read the log prevent this, the log stays next to the file and the
 * function still succeeds. */
static es_status seal(es_session *session)
{
    es_status status = es_writer_settle(session->writer);
    if (status == ES_OK)
        session->safe = session->tally.committed;
    return status == ES_ELOCKED && !es_writer_log_is_away(session->writer)
               ? ES_OK
               : status;
}

static es_status end_run(es_session *session)
{
    int n_opened;
    es_status status;
    do { /* The loop runs again if the write-ahead log was lost after the run's
            end had been written into it. */
        n_opened = session->n_opened;
        status = insist(session, write_end);
        if (status < 0)
            return status;
        status = insist(session, seal);
    } while (status == ES_OK && session->n_opened != n_opened);
    /* If the disk is full, the write-ahead log stays next to the file and
     * nothing is lost. Its contents are lost only if it was removed or
     * renamed. */
    if (status < 0 &&
        (!session->writer || es_writer_log_is_away(session->writer)))
        session->tally.committed = session->safe;
    return status == ES_ELOCKED ? ES_OK : status;
}

/* Copies the fragment's run into the run file and removes the fragment. If this
 * fails, nothing is lost, because the run stays in the fragment. If another
 * recording already continues the fragment, that recording copies it later. */
static void fold(const es_session *session)
{
    es_status status = ES_OK;
    if (session->place.folds)
        status = es_place_fold(session->place.path, session->given);
    if (status < 0 && status != ES_ELOCKED)
        fprintf(stderr, "entropy-recorder: %s\n", es_message());
}

void es_session_finish(es_session *session)
{
    es_status status = ES_OK;
    if (session->writer)
        status = end_run(session);
    if (status == ES_OK)
        status = es_writer_close(session->writer);
    else
        es_writer_abandon(session->writer);
    session->writer = NULL;
    if (status < 0)
        keep_trouble(session, status);
    else
        fold(session);
}

void es_session_free(es_session *session)
{
    for (size_t i = 0; i < ES_MAX_SERIES; i++) {
        free(session->series[i].name);
        free(session->series[i].unit);
    }
    free(session->payload);
    free(session);
}
