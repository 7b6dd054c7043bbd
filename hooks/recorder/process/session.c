/* Runs a recording from its opening to its end. Writes batches of frames as
 * transactions and retries failed transactions while the training continues.
 * Every frame is written to the file or counted as lost. */
#include "hooks/recorder/process/session.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"

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
#define LAST_TRIES 3 /* number of attempts after the trainer has ended */
#define LOOK_MS 1000 /* milliseconds between two runs of look_around */

es_status es_session_open_file(es_session *session)
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

/* Checks for a stop request next to the path that the trainer gave and next to
 * the file being written. */
static bool is_stop_requested(const es_session *session, char *line,
                              size_t size)
{
    return es_stop_requested(line, size, session->given) ||
           es_stop_requested(line, size, session->hello.path);
}

/* Removes a stop request that is older than this training and was meant for an
 * earlier one. */
static void drop_old_request(const es_session *session)
{
    char line[256];
    if (is_stop_requested(session, line, sizeof line))
        fprintf(stderr,
                "entropy-recorder: %s.stop: older than this training: removed "
                "and ignored\n",
                session->given);
}

/* Chooses the file to record into, either the run file or a fragment, and
 * stores its path in the greeting. */
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
                "entropy-recorder: %s: on %s, which hosts share: recording "
                "into %s\n",
                hello->path, place->type, place->path);
    hello->path = place->path;
    return ES_OK;
}

/* Opens the file. After each successful opening the place is chosen again,
 * because a fragment may have been folded into the run file while this function
 * waited for its lock. */
static es_status open_place(es_session *session)
{
    es_place *place = &session->place, now;
    for (;;) {
        es_status status = es_session_open_file(session);
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

es_status es_session_open(es_session *session)
{
    es_hello *hello = &session->hello;
    es_status status = choose_place(session);
    if (status < 0)
        return status;
    session->ring.name = hello->path;
    if (!hello->run.uuid) { /* created here instead of in the store, because the
                               file may be opened again and must then get the
                               same UUID */
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
    /* If another program had an empty file of the same name open, SQLite may
     * have removed the new file's log. */
    es_session_look_at_log(session);
    return session->writer ? ES_OK : (es_status)session->trouble.code;
}

/* Returns true if a retry may succeed, for example after space has become free
 * on the disk or a lock was released. */
static bool may_pass(es_status status)
{
    return status == ES_EIO || status == ES_ENOMEM || status == ES_ELOCKED;
}

/* Keeps only the first problem, because later problems usually follow from
 * it. */
void es_session_keep_trouble(es_session *session, es_status code)
{
    if (session->trouble.code != ES_OK)
        return;
    session->trouble.code = code;
    snprintf(session->trouble.text, sizeof session->trouble.text, "%s",
             es_message());
}

bool es_session_has_ended(const es_session *session)
{
    return es_ring_is_closed(&session->ring, NULL) ||
           atomic_load(&session->watch.orphaned);
}

/* Releases the ring's space that the committed frames occupied. */
static void release(es_session *session)
{
    if (es_writer_is_settled(session->writer))
        session->safe = session->tally.committed;
    es_ring_release(&session->ring, session->tally.committed);
}

/* Writes a batch in one transaction. Frames before a corrupt frame are still
 * valid and are committed. */
static es_status commit_batch(es_session *session)
{
    es_ring *ring = &session->ring;
    const es_session_tally before = session->tally;
    uint64_t start = ring->position;
    es_frame frame;
    es_status status = es_writer_begin(session->writer);
    /* The condition is "!=" instead of "<", so that a corrupt head which lies
     * before the position is noticed. */
    while (status == ES_OK && ring->position != session->until &&
           ring->position - start < BATCH_BYTES)
        status = es_session_record(session, &frame);
    if (session->corrupt)
        es_session_keep_trouble(session, status);
    if (status == ES_OK || status == ES_DONE || session->corrupt)
        status = es_writer_commit(session->writer);
    session->reached = ring->position;
    if (status < 0) {
        es_writer_rollback(session->writer);
        es_ring_rewind(ring);
        session->tally = before;
        return status;
    }
    release(session);
    return ES_OK;
}

/* Writes one frame in a separate transaction. If the store refuses the frame,
 * counts it as refused. */
static es_status commit_frame(es_session *session)
{
    const es_session_tally before = session->tally;
    es_frame frame;
    es_status status = es_session_record(session, &frame);
    if (may_pass(status)) {
        es_ring_rewind(&session->ring);
        session->tally = before;
        return status;
    }
    if (status < 0)
        es_session_keep_trouble(session, status);
    if (status < 0 && !session->corrupt && frame.type != ES_FRAME_SERIES)
        session->tally.refused++;
    release(session);
    return ES_OK;
}

static void complain(es_session *session)
{
    if (!session->complained)
        fprintf(stderr, "entropy-recorder: %s: retrying\n", es_message());
    session->complained = true;
}

/* Repeats `attempt` after failures that may pass, as long as the training
 * continues and a few times after its end. Meanwhile frames wait in the ring;
 * once the ring is full, new frames are dropped and counted. */
static es_status insist(es_session *session,
                        es_status (*attempt)(es_session *session))
{
    for (;;) {
        uint32_t bell = es_ring_bell(&session->ring);
        if (!session->writer)
            return (es_status)session->trouble.code;
        es_status status = attempt(session);
        if (status < 0 && es_writer_log_is_broken(session->writer)) {
            status = es_session_replace_log(session);
            if (status < 0)
                return status;
            continue;
        }
        if (!may_pass(status)) {
            session->complained = false;
            return status;
        }
        complain(session);
        if (es_session_has_ended(session) &&
            session->late_tries++ >= LAST_TRIES)
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

/* Writes all frames that are in the ring at the time of the call. */
static es_status drain(es_session *session)
{
    es_status status = ES_OK;
    uint64_t start = session->ring.position + 1;
    session->until = es_ring_head(&session->ring);
    /* The loop also ends if an iteration reads nothing, because the position
     * never reaches `until` if the ring's head was corrupt for a moment. */
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

es_status es_session_note(es_session *session, const char *kind,
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

es_status es_session_note_number(es_session *session, const char *kind,
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
    return es_session_note(session, kind, severity, message, data);
}

/* Reports that the run file was moved or replaced. Writing continues, because a
 * moved file is still complete. */
static void look_for_file(es_session *session)
{
    if (session->trouble.code != ES_OK)
        return;
    es_status status = es_writer_check_place(session->writer);
    if (status == ES_OK)
        return;
    es_session_keep_trouble(session, status);
    fprintf(stderr, "entropy-recorder: %s\n", es_message());
}

static void look_for_stop(es_session *session)
{
    char line[256];
    if (session->stop_passed || !is_stop_requested(session, line, sizeof line))
        return;
    session->stop_passed = true;
    es_ring_request_stop(&session->ring);
    /* The trainer gets the request even if the event cannot be written. */
    (void)!es_session_note(
        session, "stop", ES_SEVERITY_INFO,
        line[0] ? line : "a stop of the training was requested", NULL);
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
    es_session_look_at_log(session);
}

/* Sleeps until a frame arrives, then until enough frames for a transaction have
 * arrived or BATCH_MS have passed. Returns earlier if the bell rings. */
static void gather(es_session *session, uint32_t bell)
{
    es_ring *ring = &session->ring;
    es_ring_wait(ring, bell, 1, es_writer_beat_ms(session->writer));
    es_writer_beat(session->writer);
    look_around(session);
    bell = es_ring_bell(ring);
    if (es_session_has_ended(session) || atomic_load(&session->watch.hurried))
        return;
    uint64_t half = ring->capacity / 2;
    es_ring_wait(ring, bell, half < BATCH_BYTES ? half : BATCH_BYTES, BATCH_MS);
}

void es_session_serve(es_session *session)
{
    session->look = es_now_ms() - LOOK_MS;
    for (;;) {
        uint32_t bell = es_ring_bell(&session->ring);
        /* The end is checked before the frames are read, because after the end
         * no further frame can enter the ring. */
        bool last = es_session_has_ended(session);
        es_status status = drain(session);
        if (status < 0)
            es_session_keep_trouble(session, status);
        if (status < 0 || session->corrupt || last)
            return;
        es_session_tend_log(session);
        gather(session, bell);
        if (!session->writer)
            return;
    }
}

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
    return es_session_note_number(session, kind, ES_SEVERITY_WARNING, message,
                                  kind, (int64_t)n);
}

static es_status note_death(es_session *session)
{
    char message[128];
    if (es_ring_is_closed(&session->ring, NULL) || session->corrupt)
        return ES_OK;
    snprintf(message, sizeof message,
             "the training process (pid %lld) ended without closing the run",
             (long long)session->hello.trainer);
    return es_session_note(session, "trainer_died", ES_SEVERITY_ERROR, message,
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
             "did not fit into the ring and were dropped")) < 0 ||
        (status = note_count(session, "refused", session->tally.refused, why)) <
            0 ||
        (session->corrupt &&
         (status = es_session_note(session, "ring_corrupt", ES_SEVERITY_ERROR,
                                   session->trouble.text, NULL)) < 0) ||
        (status = note_death(session)) < 0 ||
        (status = es_writer_end_run(session->writer, session->run_id,
                                    final_status(session))) < 0 ||
        (status = es_writer_commit(session->writer)) < 0) {
        es_writer_rollback(session->writer);
    }
    return status;
}

/* Moves all commits from the log into the run file. Other programs that read
 * the log may prevent this; the log then stays next to the file, and the
 * function succeeds. */
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
    do { /* repeated if the log was lost after the run's end had been written
            into it */
        n_opened = session->n_opened;
        status = insist(session, write_end);
        if (status < 0)
            return status;
        status = insist(session, seal);
    } while (status == ES_OK && session->n_opened != n_opened);
    /* If the disk is full, the log stays next to the file and contains
     * everything. The contents are lost only if the log was removed or
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
        es_session_keep_trouble(session, status);
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
