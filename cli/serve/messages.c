/* Sends messages through a pipe, and reassembles them in the receiver. */
#include "cli/serve/messages.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct message_head {
    uint32_t kind, n;
} message_head;

/* Minimum free space in the inbox for a read, in bytes. */
enum { READ_LEAST = 65536 };

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
    return true;
}

bool es_serve_send(int fd, es_serve_kind kind, const void *const *parts,
                   const size_t *sizes, size_t n_parts)
{
    size_t n = 0;
    for (size_t i = 0; i < n_parts; i++)
        n += sizes[i];
    if (n > ES_SERVE_MESSAGE_MOST)
        return true; /* does not happen, because all messages that are sent are
                        much shorter */
    const message_head head = {(uint32_t)kind, (uint32_t)n};
    bool sent = write_all(fd, (const char *)&head, sizeof head);
    for (size_t i = 0; sent && i < n_parts; i++)
        sent = write_all(fd, parts[i], sizes[i]);
    return sent;
}

/* Calls `handler` for each complete message in the inbox, and keeps the bytes
   of an incomplete one. */
static es_status hand_out(es_serve_inbox *inbox, es_serve_handler *handler,
                          void *user)
{
    size_t at = 0;
    es_status status = ES_OK;
    while (status == ES_OK && inbox->n - at >= sizeof(message_head)) {
        message_head head;
        memcpy(&head, inbox->bytes + at, sizeof head);
        if (head.kind >= ES_SERVE_N_KINDS || head.n > ES_SERVE_MESSAGE_MOST)
            return es_fail(ES_EFORMAT, "the process that reads run files sent "
                                       "an invalid message");
        if (inbox->n - at - sizeof head < head.n)
            break;
        at += sizeof head;
        status =
            handler(user, (es_serve_kind)head.kind, inbox->bytes + at, head.n);
        at += head.n;
    }
    memmove(inbox->bytes, inbox->bytes + at, inbox->n - at);
    inbox->n -= at;
    return status;
}

es_status es_serve_receive(es_serve_inbox *inbox, int fd,
                           es_serve_handler *handler, void *user)
{
    if (inbox->capacity - inbox->n < READ_LEAST) {
        const size_t capacity = 2 * inbox->capacity + READ_LEAST;
        es_status status =
            es_grow(&inbox->bytes, capacity, 1, "a message about runs");
        if (status < 0)
            return status;
        inbox->capacity = capacity;
    }
    ssize_t n = read(fd, inbox->bytes + inbox->n, inbox->capacity - inbox->n);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? ES_OK : ES_DONE;
    if (n == 0)
        return ES_DONE;
    inbox->n += (size_t)n;
    return hand_out(inbox, handler, user);
}
