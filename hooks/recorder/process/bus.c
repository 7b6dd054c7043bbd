/* Handles SIGBUS, which occurs if another program has truncated RUN.db-shm, the
 * index of the write-ahead log, which SQLite maps into memory. The signal
 * interrupts SQLite while it accesses this memory, so the process has to end.
 * All committed frames are in the run file and its log, and the next program
 * that opens the run file rebuilds the index. */
#include "hooks/recorder/process/session.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The signal handler cannot format text, so it sends prepared messages: `last`
 * to the trainer through `ring`, and `line` to standard error. */
static es_ring *ring;
static es_reply last;
static char line[ES_MESSAGE_MAX + 32];

static void say_and_end(int number)
{
    (void)number;
    if (write(STDERR_FILENO, line, strlen(line)) >= 0 && ring) {
        last.committed = atomic_load(&ring->words->committed);
        es_ring_say(ring, &last, sizeof last);
    }
    _exit(es_exit_code(ES_EIO));
}

void es_session_catch_bus(es_session *session)
{
    struct sigaction action = {.sa_handler = say_and_end};
    snprintf(last.text, sizeof last.text,
             "%s-shm: another program truncated it, so the recording ended; "
             "all committed samples are intact",
             session->hello.path);
    snprintf(line, sizeof line, "entropy-recorder: %s\n", last.text);
    last.code = ES_EIO;
    ring = &session->ring;
    sigaction(SIGBUS, &action, NULL);
}
