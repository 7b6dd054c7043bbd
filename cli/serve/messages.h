/**
 * Messages from the process that reads run files to the process that answers
 * browsers. A message is a struct (its header) followed by bytes. Both
 * processes run the same program, so no portable format is needed.
 */
#ifndef ES_SERVE_MESSAGES_H
#define ES_SERVE_MESSAGES_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_serve_kind {
    ES_SERVE_RUN,   /* a new or changed run: key, path, number, its JSON */
    ES_SERVE_GONE,  /* a run that no longer exists: its key */
    ES_SERVE_HEAD,  /* JSON members that concern all runs */
    ES_SERVE_ALERT, /* a JSON object */
    ES_SERVE_ROUND, /* ends a group of messages that belong together; one byte,
                       which is 0 while the first search for run files is
                       running, then 1 */
    ES_SERVE_FATAL, /* a message for the user, because no run file can be
                       read */
    ES_SERVE_N_KINDS
} es_serve_kind;

/** Length of the key of a run, which names the run in requests. */
#define ES_SERVE_KEY 16

/** The beginning of the bytes of an ES_SERVE_RUN message. It is followed by the
 *  path (n_path bytes), which has no symbolic links, and by the members of the
 *  run's JSON object. */
typedef struct es_serve_run_head {
    char key[ES_SERVE_KEY];
    uint64_t number; /* number of the run in its file, from 1 */
    uint64_t n_path;
    int64_t phase; /* es_phase of the run's summary */
} es_serve_run_head;

/** Maximum length of a message in bytes. */
#define ES_SERVE_MESSAGE_MOST ((size_t)16 << 20)

/**
 * Writes a message, whose bytes are given in up to three parts that may be
 * empty. Waits while the pipe is full. Returns false if the receiver has closed
 * the pipe.
 */
bool es_serve_send(int fd, es_serve_kind kind, const void *const *parts,
                   const size_t *sizes, size_t n_parts);

/** Bytes that were received but do not form a complete message yet. */
typedef struct es_serve_inbox {
    char *bytes; /* (n) */
    size_t n, capacity;
} es_serve_inbox;

/** Receives one message; `bytes` (n) are borrowed. */
typedef es_status es_serve_handler(void *user, es_serve_kind kind,
                                   const char *bytes, size_t n);

/**
 * Reads available bytes from the pipe, and calls `handler` for each complete
 * message.
 *
 * Returns ES_OK; ES_DONE if the sender has ended; ES_EFORMAT if the bytes are
 * not a message; ES_ENOMEM; the handler's failure.
 */
es_status es_serve_receive(es_serve_inbox *inbox, int fd,
                           es_serve_handler *handler, void *user) ES_MUST_USE;

#endif
