/* Exchanges data between ranks over TCP. All communication is a sequence of
 * exchanges. In each exchange, a rank sends one packet to every other rank and
 * receives one packet from each, so all ranks notice a lost rank at once. */
#include "hooks/trainer/ranks/transport.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/ranks/rendezvous.h"
#include "hooks/trainer/ranks/wire.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Number of floats that one exchange of a sum processes. */
#define BUCKET ((size_t)1 << 20)
/* Time limit in seconds for other ranks to read pending data before a failure
 * is reported to them. */
#define LAST_S 2.0

/* The packet to send to another rank in the current exchange, and the packet to
 * receive from it. */
typedef struct post {
    es_packet out_packet, in_packet;
    const char *out;
    char *in;
    size_t n_out, n_in;    /* lengths of the payloads in bytes */
    size_t n_sent, n_come; /* bytes sent and received, with headers */
} post;

struct es_transport {
    int rank, world;
    double timeout_s;
    uint64_t number; /* number of exchanges so far */
    es_peer *peers;  /* (world) */
    post *posts;     /* (world) packets of the current exchange */
    struct pollfd *waits;
    float *bucket; /* (BUCKET) parts received from other ranks */
    double *doubles;
    size_t n_doubles;
    es_status failed;
    char message[ES_MESSAGE_MAX];
    bool reports;
};

/* --- trouble -------------------------------------------------------------- */

static size_t left_to_send(const post *p)
{
    return sizeof p->out_packet + p->n_out - p->n_sent;
}

static size_t left_to_come(const post *p)
{
    return sizeof p->in_packet + p->n_in - p->n_come;
}

/* Sends the rest of a partly sent packet, so that another packet can follow.
 * Returns true on success. */
static bool finish_packet(const es_transport *t, int rank)
{
    const post *p = &t->posts[rank];
    const size_t head = sizeof p->out_packet;
    const int fd = t->peers[rank].fd;
    size_t sent = p->n_sent;
    if (sent == 0 || left_to_send(p) == 0)
        return true;
    if (sent < head && es_wire_send(fd, (const char *)&p->out_packet + sent,
                                    head - sent, LAST_S) != ES_OK)
        return false;
    sent = sent < head ? 0 : sent - head;
    return es_wire_send(fd, p->out + sent, p->n_out - sent, LAST_S) == ES_OK;
}

/* Waits until the other ranks have read the data of this rank: closing a socket
 * with unread incoming bytes would discard outgoing data. */
static void wait_for_readers(const es_transport *t)
{
    const double end = es_wire_now() + LAST_S;
    char waste[4096];
    for (int r = 0; r < t->world; r++) {
        const int fd = t->peers[r].fd;
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        ssize_t n = 1;
        if (fd < 0)
            continue;
        (void)shutdown(fd, SHUT_WR);
        while (n > 0 && es_wire_now() < end)
            n = poll(&waits, 1, 100) == 1 ? recv(fd, waste, sizeof waste, 0)
                                          : 1;
    }
}

/* Stores the first failure, whose message is es_message(), and sends it to the
 * other ranks. `origin` has the meaning of es_packet.origin. */
static es_status give_up(es_transport *t, es_status code, int origin)
{
    const bool is_gone = origin < 0;
    const int about = is_gone ? -1 - origin : origin;
    const int reporter = is_gone && about == 0 ? 1 : 0;
    bool knows = false; /* true if the failure was sent to rank `reporter` */
    t->failed = code;
    snprintf(t->message, sizeof t->message, "%s", es_message());
    for (int r = 0; r < t->world; r++) {
        const int fd = t->peers[r].fd;
        if (fd < 0)
            continue;
        const bool sent = finish_packet(t, r) &&
                          es_wire_send_abort(fd, code, origin, t->message);
        knows = knows || (r == reporter && sent);
    }
    wait_for_readers(t);
    t->reports =
        t->rank == reporter || (!is_gone && t->rank == about && !knows);
    return es_fail(code, "%s", t->message);
}

/* Fails because a rank no longer answers; `how` completes the message. */
static es_status lose_rank(es_transport *t, int rank, const char *how)
{
    es_fail(ES_EIO,
            "rank %d (process %d on %s) %s: see its messages, then start all "
            "ranks again, with --resume if there are checkpoints",
            rank, t->peers[rank].pid, t->peers[rank].host, how);
    return give_up(t, ES_EIO, -1 - rank);
}

/* --- an exchange ---------------------------------------------------------- */

static es_status check_packet(es_transport *t, int rank)
{
    const post *p = &t->posts[rank];
    const es_packet *packet = &p->in_packet;
    if (packet->magic == ES_PACKET_MAGIC && packet->kind == ES_PACKET_ABORT) {
        const es_status code = es_wire_take_abort(t->peers[rank].fd, packet);
        return give_up(t, code, packet->origin);
    }
    if (packet->magic == ES_PACKET_MAGIC && packet->kind == ES_PACKET_DATA &&
        packet->number == t->number && packet->bytes == p->n_in)
        return ES_OK;
    return lose_rank(t, rank, "is out of step with the other ranks");
}

/* Sends as many bytes to the rank as possible without waiting. */
static es_status send_some(es_transport *t, int rank)
{
    post *p = &t->posts[rank];
    const size_t head = sizeof p->out_packet;
    while (left_to_send(p) > 0) {
        const bool in_head = p->n_sent < head;
        const char *from = in_head ? (const char *)&p->out_packet + p->n_sent
                                   : p->out + (p->n_sent - head);
        const size_t n = in_head ? head - p->n_sent : left_to_send(p);
        const ssize_t some =
            send(t->peers[rank].fd, from, n,
                 MSG_NOSIGNAL | (in_head && p->n_out > 0 ? MSG_MORE : 0));
        if (some >= 0)
            p->n_sent += (size_t)some;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return ES_OK;
        else if (errno != EINTR)
            /* The rank may have sent the reason for its end. Stop sending, so
             * that this reason is read. */
            p->n_sent = head + p->n_out;
    }
    return ES_OK;
}

static es_status receive_some(es_transport *t, int rank)
{
    post *p = &t->posts[rank];
    const size_t head = sizeof p->in_packet;
    es_status status;
    while (left_to_come(p) > 0) {
        const bool in_head = p->n_come < head;
        char *to = in_head ? (char *)&p->in_packet + p->n_come
                           : p->in + (p->n_come - head);
        const size_t n = in_head ? head - p->n_come : left_to_come(p);
        const ssize_t some = recv(t->peers[rank].fd, to, n, 0);
        if (some < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return ES_OK;
        if (some == 0 || (some < 0 && errno != EINTR))
            return lose_rank(t, rank, "has ended unexpectedly");
        p->n_come += some > 0 ? (size_t)some : 0;
        if (in_head && p->n_come == head &&
            (status = check_packet(t, rank)) != ES_OK)
            return status;
    }
    return ES_OK;
}

/* Fills the poll list with the ranks to which bytes must still be sent, or from
 * which bytes must still arrive. Returns their number; *first is the first such
 * rank. */
static int list_waits(es_transport *t, int *first)
{
    int n = 0;
    *first = -1;
    for (int r = 0; r < t->world; r++) {
        const post *p = &t->posts[r];
        struct pollfd *w = &t->waits[r];
        *w = (struct pollfd){.fd = -1};
        if (r == t->rank)
            continue;
        if (left_to_send(p) > 0)
            w->events |= POLLOUT;
        if (left_to_come(p) > 0)
            w->events |= POLLIN;
        if (!w->events)
            continue;
        w->fd = t->peers[r].fd;
        *first = *first < 0 ? r : *first;
        n++;
    }
    return n;
}

/* Sends and receives the packets that `posts` describe. */
static es_status exchange_packets(es_transport *t)
{
    double heard = es_wire_now();
    es_status status;
    int first;
    t->number++;
    for (int r = 0; r < t->world; r++) {
        post *p = &t->posts[r];
        p->n_sent = p->n_come = 0;
        p->out_packet = (es_packet){.magic = ES_PACKET_MAGIC,
                                    .kind = ES_PACKET_DATA,
                                    .number = t->number,
                                    .bytes = p->n_out};
    }
    while (list_waits(t, &first) > 0) {
        const int n = poll(t->waits, (nfds_t)t->world, 1000);
        if (n > 0)
            heard = es_wire_now();
        else if (es_wire_now() - heard > t->timeout_s)
            return lose_rank(t, first,
                             "has been silent for longer than --rank-timeout");
        for (int r = 0; r < t->world && n > 0; r++)
            if (t->waits[r].revents && ((status = send_some(t, r)) != ES_OK ||
                                        (status = receive_some(t, r)) != ES_OK))
                return status;
    }
    return ES_OK;
}

static es_status kept_failure(const es_transport *t)
{
    return es_fail(t->failed, "%s", t->message);
}

/* --- opening -------------------------------------------------------------- */

static es_status allocate_transport(es_transport *t,
                                    const es_transport_options *options)
{
    const size_t n = (size_t)options->world;
    es_status status;
    t->rank = options->rank;
    t->timeout_s = options->timeout_s;
    if ((status = es_alloc(&t->peers, n, sizeof *t->peers, "ranks")) < 0 ||
        (status = es_alloc(&t->posts, n, sizeof *t->posts, "ranks")) < 0 ||
        (status = es_alloc(&t->waits, n, sizeof *t->waits, "ranks")) < 0 ||
        (status = es_alloc(&t->bucket, BUCKET, sizeof *t->bucket, "ranks")) < 0)
        return status;
    t->world = options->world;
    for (int r = 0; r < t->world; r++)
        t->peers[r].fd = -1;
    return ES_OK;
}

es_status es_transport_open(es_transport **out, bool *reports,
                            const es_transport_options *options)
{
    es_transport *t = NULL;
    *out = NULL;
    *reports = true;
    if (options->world > ES_MAX_RANKS || options->rank < 0 ||
        options->rank >= options->world)
        return es_fail(
            ES_EUSAGE, "--rank %d: the ranks are 0 to %d", options->rank,
            (options->world > ES_MAX_RANKS ? ES_MAX_RANKS : options->world) -
                1);
    es_status status = es_alloc(&t, 1, sizeof *t, "ranks");
    if (status == ES_OK)
        status = allocate_transport(t, options);
    if (status == ES_OK)
        status = es_rendezvous(t->peers, reports, options);
    if (status == ES_OK)
        *out = t;
    else
        es_transport_close(t);
    return status;
}

void es_transport_close(es_transport *t)
{
    if (!t)
        return;
    for (int r = 0; r < t->world; r++)
        if (t->peers[r].fd >= 0)
            (void)close(t->peers[r].fd);
    free(t->peers);
    free(t->posts);
    free(t->waits);
    free(t->bucket);
    free(t->doubles);
    free(t);
}

/* --- the ranks ------------------------------------------------------------ */

int es_transport_rank(const es_transport *t)
{
    return t ? t->rank : 0;
}

int es_transport_world(const es_transport *t)
{
    return t ? t->world : 1;
}

double es_transport_timeout(const es_transport *t)
{
    return t ? t->timeout_s : HUGE_VAL;
}

int es_transport_local_rank(const es_transport *t, int *n_local)
{
    int n_below = 0;
    *n_local = t ? 0 : 1;
    for (int r = 0; t && r < t->world; r++)
        if (strcmp(t->peers[r].host, t->peers[t->rank].host) == 0) {
            n_below += r < t->rank;
            ++*n_local;
        }
    return n_below;
}

es_status es_transport_abort(es_transport *t, es_status code)
{
    char message[ES_MESSAGE_MAX];
    if (!t || t->failed != ES_OK)
        return code;
    snprintf(message, sizeof message, "%s", es_message());
    if (strncmp(message, "rank ", 5) != 0) /* add this rank, because the message
                                              names no rank */
        es_fail(code, "rank %d: %s", t->rank, message);
    return give_up(t, code, t->rank);
}

bool es_transport_reports(const es_transport *t)
{
    return !t || (t->failed ? t->reports : t->rank == 0);
}

/* --- exchanges ------------------------------------------------------------ */

/* Prepares to send the same n bytes to all ranks. */
static void post_to_all(es_transport *t, const void *bytes, size_t n)
{
    for (int r = 0; r < t->world; r++) {
        t->posts[r].out = bytes;
        t->posts[r].n_out = n;
    }
}

/* Returns the first index of part r of n numbers, the part that rank r sums. */
static size_t part_from(const es_transport *t, size_t n, int r)
{
    return n / (size_t)t->world * (size_t)r +
           (n % (size_t)t->world) * (size_t)r / (size_t)t->world;
}

static void add_floats(float *total, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        total[i] += x[i];
}

/* Adds n <= BUCKET numbers of all ranks: sends each part to the rank that sums
 * it, then receives the sums from all ranks. */
static es_status add_bucket(es_transport *t, float *total, const float *x,
                            size_t n)
{
    const size_t own = part_from(t, n, t->rank);
    const size_t n_own = part_from(t, n, t->rank + 1) - own;
    for (int r = 0; r < t->world; r++) {
        const size_t first = part_from(t, n, r);
        t->posts[r].out = (const char *)(x + first);
        t->posts[r].n_out = (part_from(t, n, r + 1) - first) * sizeof *x;
        t->posts[r].in = (char *)(t->bucket + (size_t)r * n_own);
        t->posts[r].n_in = n_own * sizeof *x;
    }
    es_status status = exchange_packets(t);
    for (int r = 0; status == ES_OK && r < t->world; r++)
        add_floats(total + own,
                   r == t->rank ? x + own : t->bucket + (size_t)r * n_own,
                   n_own);
    for (int r = 0; r < t->world; r++) {
        const size_t first = part_from(t, n, r);
        t->posts[r].in = (char *)(total + first);
        t->posts[r].n_in = (part_from(t, n, r + 1) - first) * sizeof *x;
    }
    post_to_all(t, total + own, n_own * sizeof *x);
    return status == ES_OK ? exchange_packets(t) : status;
}

es_status es_transport_add(es_transport *t, float *total, const float *x,
                           size_t n)
{
    es_status status = t && t->failed ? kept_failure(t) : ES_OK;
    if (!t)
        add_floats(total, x, n);
    /* The ranks' parts of a bucket are rounded up; together they must still fit
     * in the receive buffer. */
    const size_t most = t ? BUCKET - (size_t)t->world : 0;
    for (size_t first = 0; t && status == ES_OK && first < n; first += most)
        status = add_bucket(t, total + first, x + first,
                            n - first < most ? n - first : most);
    return status;
}

es_status es_transport_gather(es_transport *t, void *out, const void *in,
                              size_t bytes)
{
    if (t && t->failed)
        return kept_failure(t);
    memcpy((char *)out + (size_t)es_transport_rank(t) * bytes, in, bytes);
    if (!t)
        return ES_OK;
    post_to_all(t, in, bytes);
    for (int r = 0; r < t->world; r++) {
        t->posts[r].in = (char *)out + (size_t)r * bytes;
        t->posts[r].n_in = bytes;
    }
    return exchange_packets(t);
}

es_status es_transport_add_double(es_transport *t, double *total,
                                  const double *x, size_t n)
{
    const size_t n_all = n * (size_t)es_transport_world(t);
    double *all = t ? t->doubles : NULL;
    es_status status = ES_OK;
    if (t && t->n_doubles < n_all) {
        status = es_grow(&t->doubles, n_all, sizeof *t->doubles, "ranks");
        t->n_doubles = status == ES_OK ? n_all : 0;
        all = t->doubles;
    }
    if (t && status == ES_OK)
        status = es_transport_gather(t, all, x, n * sizeof *x);
    for (size_t i = 0; status == ES_OK && i < n_all; i++)
        total[i % n] += t ? all[i] : x[i];
    return status;
}

es_status es_transport_any(es_transport *t, bool *any, bool mine)
{
    char all[ES_MAX_RANKS];
    const char one = mine;
    *any = false;
    es_status status = es_transport_gather(t, all, &one, 1);
    for (int r = 0; status == ES_OK && r < es_transport_world(t); r++)
        *any = *any || all[r];
    return status;
}

es_status es_transport_check(es_transport *t)
{
    es_packet packet;
    if (t && t->failed)
        return kept_failure(t);
    for (int r = 0; t && r < t->world; r++) {
        const int fd = t->peers[r].fd;
        const ssize_t n =
            fd < 0 ? 1 : recv(fd, &packet, sizeof packet, MSG_PEEK);
        if (n == 0)
            return lose_rank(t, r, "has ended unexpectedly");
        if (n != (ssize_t)sizeof packet || packet.magic != ES_PACKET_MAGIC ||
            packet.kind != ES_PACKET_ABORT)
            continue;
        (void)recv(fd, &packet, sizeof packet, 0);
        const es_status code = es_wire_take_abort(fd, &packet);
        return give_up(t, code, packet.origin);
    }
    return ES_OK;
}

es_status es_transport_wait(es_transport *t)
{
    bool any;
    return es_transport_any(t, &any, false);
}
