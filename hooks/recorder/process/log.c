/* Recovers when other programs damage the write-ahead log of a recording. If
 * the log is truncated, its contents are lost; if it is removed or renamed,
 * nothing is lost. In both cases the run file is opened again. */
#include "hooks/recorder/process/session.h"

#include <stdio.h>
#include <string.h>

/* Log size in bytes above which a warning is given. */
#define LOG_MOST ((int64_t)64 << 20)

/* Opens the file, the run and its series again. The run and series get new ids
 * if their rows were in the lost log. */
static es_status open_again(es_session *session)
{
    const es_run_info *run = &session->hello.run;
    es_status status;
    status = es_session_open_file(session);
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
 * and is stored as an event. */
static es_status go_on(es_session *session, es_severity severity,
                       const char *message, uint64_t lost)
{
    session->n_opened++;
    es_status status;
    if ((status = open_again(session)) == ES_OK &&
        (status = es_session_note_number(session, "log", severity, message,
                                         "lost", (int64_t)lost)) == ES_OK)
        return ES_OK;
    es_session_keep_trouble(session, status);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    return status;
}

es_status es_session_replace_log(es_session *session)
{
    char message[ES_MESSAGE_MAX + 64];
    uint64_t committed = session->tally.committed;
    if (es_writer_is_settled(session->writer))
        session->safe = committed;
    uint64_t lost = committed - session->safe;
    es_session_keep_trouble(session, ES_EIO);
    snprintf(message, sizeof message, "%s (%llu frames)", es_message(),
             (unsigned long long)lost);
    fprintf(stderr, "entropy-recorder: %s\n", message);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    session->tally.committed = session->safe;
    return go_on(session, ES_SEVERITY_ERROR, message, lost);
}

/* Starts a new file after the run file and its log have disappeared. All frames
 * that were committed before are lost. */
static void begin_anew(es_session *session)
{
    char message[ES_MESSAGE_MAX];
    const uint64_t lost = session->tally.committed;
    es_session_keep_trouble(session, ES_EIO);
    snprintf(message, sizeof message,
             "removed, moved or replaced during the recording: samples up to "
             "step %lld are not in this file (%llu frames)",
             (long long)session->tally.last_step, (unsigned long long)lost);
    fprintf(stderr, "entropy-recorder: %s: %s\n", session->hello.path, message);
    es_writer_abandon(session->writer);
    session->writer = NULL;
    session->tally.committed = session->safe = 0;
    (void)!go_on(session, ES_SEVERITY_ERROR, message, lost);
}

/* Checks whether the log was removed, moved or replaced. Nothing is lost if the
 * log's contents can be moved into the run file while the recorder still has
 * the log open. */
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
             "%s-wal: removed, moved or replaced by another program: nothing "
             "is lost",
             session->hello.path);
    fprintf(stderr, "entropy-recorder: %s\n", message);
    es_status status = es_writer_close(session->writer);
    session->writer = NULL;
    if (status < 0)
        es_session_keep_trouble(session, status);
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
             "the write-ahead log has %lld MiB: it cannot shrink while other "
             "programs read the file%s: end them",
             size >> 20, reader);
    fprintf(stderr, "entropy-recorder: %s: %s\n", session->hello.path, message);
    (void)!es_session_note_number(session, "log", ES_SEVERITY_WARNING, message,
                                  "bytes", size);
}

void es_session_look_at_log(es_session *session)
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
           !es_session_has_ended(session);
}

void es_session_tend_log(es_session *session)
{
    es_writer_tend_log(session->writer, has_time, session);
}
