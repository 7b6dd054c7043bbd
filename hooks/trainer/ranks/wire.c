/* Transfers bytes over a connection with a time limit, and sends and receives
 * the packet by which a rank reports its failure. Sockets are non-blocking. */
#include "hooks/trainer/ranks/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Time limit in seconds for messages about a failure. */
#define LAST_WORDS_S 2.0

double es_wire_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns true if the socket becomes readable or writable, or is closed, before
 * the time `end`. */
static bool is_ready(int fd, short event, double end)
{
    struct pollfd waits = {.fd = fd, .events = event};
    double left = end - es_wire_now();
    while (left > 0) {
        const int n = poll(&waits, 1, (int)(left * 1000) + 1);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        left = end - es_wire_now();
    }
    return false;
}

static bool is_passing(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static es_status transfer_bytes(int fd, char *bytes, size_t n, double seconds,
                                bool sends)
{
    const double end = es_wire_now() + seconds;
    while (n > 0) {
        const ssize_t some =
            sends ? send(fd, bytes, n, MSG_NOSIGNAL) : recv(fd, bytes, n, 0);
        if (some > 0) {
            bytes += some;
            n -= (size_t)some;
        } else if (some == 0 || !is_passing(errno) ||
                   !is_ready(fd, sends ? POLLOUT : POLLIN, end))
            return es_fail(ES_EIO, "a connection between ranks failed: %s",
                           some == 0 ? "closed" : strerror(errno));
    }
    return ES_OK;
}

es_status es_wire_send(int fd, const void *bytes, size_t n, double seconds)
{
    return transfer_bytes(fd, (char *)(uintptr_t)bytes, n, seconds, true);
}

es_status es_wire_receive(int fd, void *bytes, size_t n, double seconds)
{
    return transfer_bytes(fd, bytes, n, seconds, false);
}

es_status es_wire_take_abort(int fd, const es_packet *packet)
{
    char message[ES_MESSAGE_MAX] = "";
    const int rank = packet->origin < 0 ? -1 - packet->origin : packet->origin;
    const size_t n =
        packet->bytes < sizeof message ? packet->bytes : sizeof message - 1;
    if (es_wire_receive(fd, message, n, LAST_WORDS_S) != ES_OK || n == 0)
        return es_fail(ES_EIO, "rank %d has failed: see its messages", rank);
    message[n] = 0;
    return es_fail(packet->code < 0 && packet->code >= ES_EINTERNAL
                       ? (es_status)packet->code
                       : ES_EIO,
                   "%s", message);
}

bool es_wire_send_abort(int fd, es_status code, int origin, const char *message)
{
    const es_packet packet = {.magic = ES_PACKET_MAGIC,
                              .kind = ES_PACKET_ABORT,
                              .bytes = strlen(message),
                              .code = code,
                              .origin = origin};
    return es_wire_send(fd, &packet, sizeof packet, LAST_WORDS_S) == ES_OK &&
           es_wire_send(fd, message, packet.bytes, LAST_WORDS_S) == ES_OK;
}
