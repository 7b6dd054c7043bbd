/*
 * Main program of entropy-recorder, which owns a run file while a training
 * process records into it. es_recorder_open starts this program with a few open
 * file descriptors (wire.h); users do not start it.
 *
 * The program ends when the trainer closes the run or dies, after it has
 * written all frames of the ring into the file. SIGTERM, SIGINT and SIGHUP mean
 * that little time remains: after such a signal each frame is committed at
 * once, so that a later SIGKILL loses nothing. These signals do not end the
 * recorder, because a trainer that got the same signal still has to push its
 * last frames.
 */
#include "hooks/recorder/process/session.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(es_reply) <= ES_RING_LAST_WORDS,
               "the ring must have space for the last message");

static const char usage[] =
    "usage: entropy-recorder -h | --help | -V | --version\n"
    "\n"
    "Writes a run file while a training program records into it. The training\n"
    "program starts entropy-recorder through es_recorder_open, and\n"
    "entropy-recorder ends when the training program has ended. To stop the\n"
    "training, create a file RUN.db.stop next to the run file.\n";

/* Opens /dev/null for each standard stream that is closed, so that SQLite's
 * files do not get descriptors 0 to 2. */
static void fill_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    for (fd = ES_FD_RING; fd < ES_FD_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Reads and unpacks the greeting, the first message from the training process.
 * The strings of *hello point into *data, which the caller must free. */
static es_status read_hello(es_hello *hello, unsigned char **data)
{
    struct stat file;
    if (fstat(ES_FD_HELLO, &file) != 0 || file.st_size <= 0 ||
        (uint64_t)file.st_size > ES_HELLO_MAX)
        return es_fail(ES_EFORMAT, "the training process sent no greeting");
    size_t size = (size_t)file.st_size;
    es_status status = es_alloc(data, size, 1, "the greeting");
    if (status < 0)
        return status;
    if (pread(ES_FD_HELLO, *data, size, 0) != (ssize_t)size)
        return es_fail(ES_EFORMAT, "cannot read the greeting");
    es_pack pack = {.mode = ES_PACK_READ, .data = *data, .size = size};
    es_pack_hello(&pack, hello);
    if (pack.failed || !hello->path)
        return es_fail(ES_EFORMAT,
                       "cannot parse the greeting: install libentropyrecord "
                       "and entropy-recorder of the same version");
    return ES_OK;
}

static es_status open_session(es_session *session, unsigned char **strings)
{
    es_status status;
    if ((status = es_ring_attach(&session->ring, ES_FD_RING)) < 0 ||
        (status = read_hello(&session->hello, strings)) < 0 ||
        (status = es_watch_start(&session->watch, &session->ring,
                                 (pid_t)session->hello.trainer)) < 0)
        return status;
    return es_session_open(session);
}

/* Tells the training process through the socket whether the file is open. */
static void reply(const es_reply *answer)
{
    ssize_t n = send(ES_FD_CONTROL, answer, sizeof *answer, MSG_NOSIGNAL);
    if (answer->code != ES_OK && n < 0)
        fprintf(stderr, "entropy-recorder: %s\n", answer->text);
}

static void record(es_session *session)
{
    const es_reply opened = {.code = ES_OK};
    es_watch_own(&session->ring);
    es_session_catch_bus(session);
    reply(&opened);
    es_session_serve(session);
    es_session_finish(session);
    es_reply *last = &session->trouble;
    last->committed = session->tally.committed;
    es_ring_say(&session->ring, last, sizeof *last);
    if (last->code != ES_OK)
        fprintf(stderr, "entropy-recorder: %s\n", last->text);
    es_ring_disown(&session->ring);
}

static es_status run_session(void)
{
    unsigned char *strings = NULL;
    es_session *session;
    es_status status = es_alloc(&session, 1, sizeof *session, "a session");
    if (status < 0)
        return status;
    if ((status = open_session(session, &strings)) == ES_OK) {
        record(session);
        status = (es_status)session->trouble.code;
    } else {
        es_reply refusal = {.code = status};
        snprintf(refusal.text, sizeof refusal.text, "%s", es_message());
        es_writer_abandon(session->writer);
        reply(&refusal);
    }
    if (es_watch_stop(&session->watch)) { /* if it returns false, the thread
                                             that watches the trainer still uses
                                             the ring and the session */
        es_ring_detach(&session->ring);
        es_session_free(session);
        free(strings);
    }
    return status;
}

static bool is_either(const char *argument, const char *a, const char *b)
{
    return strcmp(argument, a) == 0 || strcmp(argument, b) == 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && is_either(argv[1], "-h", "--help")) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc == 2 && is_either(argv[1], "-V", "--version")) {
        puts("entropy-recorder " ES_VERSION);
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "--") != 0) {
        fputs(usage, stderr);
        return 2;
    }
    fill_streams();
    /* A write to a closed socket must fail with an error instead of a fatal
     * signal. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return es_exit_code(run_session());
}
