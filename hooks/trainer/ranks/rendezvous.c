/* Connects the ranks: each rank sends a description of itself to rank 0, which
 * answers with the addresses of all ranks; then each rank connects to all lower
 * ranks. */
#include "hooks/trainer/ranks/rendezvous.h"

#include "hooks/trainer/ranks/address.h"
#include "hooks/trainer/ranks/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_S 5.0   /* seconds to wait for the first message of a rank */
#define NOTICE_S 10.0 /* seconds to wait before on_wait is called */

/* A rank's description of itself, the first message on a connection, which is
 * sent in this binary form. */
typedef struct hello {
    int rank, world, pid;
    es_address place;
    char version[16];
} hello;

typedef struct meeting {
    const es_transport_options *options;
    es_peer *peers;
    hello *all; /* descriptions of all `world` ranks */
    bool *reports;
    int listener;
    double begun;
    bool has_noticed;
} meeting;

/* --- sockets -------------------------------------------------------------- */

static void settle_socket(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Opens a socket that listens on any free port. */
static es_status listen_somewhere(int *out, int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t n = sizeof address;
    *out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out < 0 || bind(*out, (struct sockaddr *)&address, n) != 0 ||
        listen(*out, ES_MAX_RANKS) != 0 ||
        getsockname(*out, (struct sockaddr *)&address, &n) != 0)
        return es_fail(ES_EIO, "cannot listen for other ranks: %s",
                       strerror(errno));
    *port = ntohs(address.sin_port);
    return ES_OK;
}

/* Returns a connection, or -1 if the host does not answer. */
static int connect_at(const char *text, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    int error = 0;
    socklen_t n = sizeof error;
    const int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd waits = {.fd = fd, .events = POLLOUT};
    if (fd < 0 || inet_pton(AF_INET, text, &address.sin_addr) != 1)
        error = EINVAL;
    else if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        error = errno;
    if (error == EINPROGRESS &&
        (poll(&waits, 1, 2000) != 1 ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0))
        error = ETIMEDOUT;
    if (error == 0) {
        settle_socket(fd);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_to(const es_address *place, const char *own_host)
{
    int fd = -1;
    if (strcmp(place->host, own_host) == 0)
        fd = connect_at("127.0.0.1", place->port);
    for (int i = 0; fd < 0 && i < place->n_addresses && i < ES_MAX_ADDRESSES;
         i++)
        fd = connect_at(place->addresses[i], place->port);
    return fd;
}

/* --- waiting -------------------------------------------------------------- */

/* Returns the lowest missing rank, or -1, and counts the missing ranks. */
static int find_missing(const meeting *m, int *n)
{
    int first = -1;
    *n = 0;
    for (int r = m->options->world - 1; r >= 0; r--)
        if (r != m->options->rank && m->peers[r].fd < 0) {
            first = r;
            ++*n;
        }
    return first;
}

/* Returns ES_OK if the wait for this rank may continue. Otherwise fails because
 * the rank is late or the user wants to stop. */
static es_status look_at_clock(meeting *m, int rank)
{
    const es_transport_options *o = m->options;
    const double waited = es_wire_now() - m->begun;
    char message[ES_MESSAGE_MAX];
    if (o->should_stop && o->should_stop(o->user))
        return es_fail(ES_EIO, "stopped while waiting for rank %d of %d", rank,
                       o->world);
    if (waited >= o->timeout_s)
        return es_fail(
            ES_EIO,
            "rank %d of %d did not arrive at %s within %g s: start it with the "
            "same --rendezvous, or give a longer --rank-timeout",
            rank, o->world, o->rendezvous, o->timeout_s);
    if (!m->has_noticed && o->on_wait && waited > NOTICE_S) {
        m->has_noticed = true;
        snprintf(message, sizeof message,
                 "rank %d waits for rank %d of %d at "
                 "%.512s",
                 o->rank, rank, o->world, o->rendezvous);
        o->on_wait(o->user, message);
    }
    return ES_OK;
}

/* --- rank 0 --------------------------------------------------------------- */

static bool is_in_meeting(const meeting *m, const hello *guest)
{
    const hello *own = &m->all[m->options->rank];
    return memcmp(guest->place.key, own->place.key, sizeof own->place.key) == 0;
}

/* Checks the description that a connecting rank has sent. Returns ES_OK, or an
 * error whose message states the mismatch. */
static es_status check_guest(const meeting *m, const hello *guest)
{
    const hello *own = &m->all[m->options->rank];
    if (strncmp(guest->version, own->version, sizeof own->version) != 0)
        return es_fail(ES_EUSAGE,
                       "rank %d runs entropy-train %.15s, rank 0 runs %.15s: "
                       "start the same version on all ranks",
                       guest->rank, guest->version, own->version);
    if (guest->world != own->world || guest->rank < 1 ||
        guest->rank >= own->world)
        return es_fail(ES_EUSAGE,
                       "rank %d was started with --world %d, rank 0 with %d: "
                       "give all ranks the same --world",
                       guest->rank, guest->world, own->world);
    if (m->peers[guest->rank].fd >= 0)
        return es_fail(ES_EUSAGE,
                       "rank %d was started twice (processes %d and %d): give "
                       "each process a different --rank",
                       guest->rank, m->peers[guest->rank].pid, guest->pid);
    return ES_OK;
}

static void keep_guest(meeting *m, int fd, const hello *guest)
{
    es_peer *peer = &m->peers[guest->rank];
    m->all[guest->rank] = *guest;
    *peer = (es_peer){.fd = fd, .pid = guest->pid};
    memcpy(peer->host, guest->place.host, sizeof peer->host);
    peer->host[sizeof peer->host - 1] = 0;
}

/* Accepts one pending connection, if there is any. Closes connections that do
 * not belong to this training run. */
static es_status admit_guest(meeting *m)
{
    hello guest;
    const int fd =
        accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return ES_OK;
    settle_socket(fd);
    if (es_wire_receive(fd, &guest, sizeof guest, HELLO_S) != ES_OK ||
        !is_in_meeting(m, &guest)) {
        close(fd);
        return ES_OK;
    }
    const es_status status = check_guest(m, &guest);
    if (status == ES_OK)
        keep_guest(m, fd, &guest);
    else {
        (void)es_wire_send_abort(fd, status, m->options->rank, es_message());
        close(fd);
    }
    return status;
}

static es_status fail_gone(const meeting *m, int rank)
{
    return es_fail(ES_EIO,
                   "rank %d (process %d on %s) has disconnected: see its "
                   "messages, then start all ranks again",
                   rank, m->peers[rank].pid, m->peers[rank].host);
}

/* Checks that the connected ranks are still there. They send nothing in this
 * phase, so a readable connection has been closed. */
static es_status check_present(const meeting *m)
{
    char byte;
    for (int r = 0; r < m->options->world; r++) {
        const int fd = m->peers[r].fd;
        if (fd >= 0 && recv(fd, &byte, 1, MSG_PEEK) == 0)
            return fail_gone(m, r);
    }
    return ES_OK;
}

/* Waits until all ranks above `rank` have connected. */
static es_status receive_guests(meeting *m)
{
    es_status status = ES_OK;
    int n;
    for (int missing = find_missing(m, &n); status == ES_OK && missing >= 0;
         missing = find_missing(m, &n)) {
        struct pollfd waits = {.fd = m->listener, .events = POLLIN};
        if (poll(&waits, 1, 100) > 0)
            status = admit_guest(m);
        else if ((status = look_at_clock(m, missing)) == ES_OK)
            status = check_present(m);
    }
    return status;
}

static es_status send_table(const meeting *m)
{
    const size_t bytes = (size_t)m->options->world * sizeof *m->all;
    const es_packet packet = {
        .magic = ES_PACKET_MAGIC, .kind = ES_PACKET_TABLE, .bytes = bytes};
    for (int r = 1; r < m->options->world; r++)
        if (es_wire_send(m->peers[r].fd, &packet, sizeof packet, HELLO_S) !=
                ES_OK ||
            es_wire_send(m->peers[r].fd, m->all, bytes, HELLO_S) != ES_OK)
            return fail_gone(m, r);
    return ES_OK;
}

static es_status host_meeting(meeting *m)
{
    const char *path = m->options->rendezvous;
    hello *own = &m->all[0];
    es_address old;
    es_status status = es_address_read(&old, path);
    if (status == ES_ENOTFOUND)
        status = ES_OK;
    if (status != ES_OK ||
        (status = listen_somewhere(&m->listener, &own->place.port)) != ES_OK ||
        (status = es_address_write(&own->place, path)) != ES_OK)
        return status;
    if ((status = receive_guests(m)) == ES_OK)
        status = send_table(m);
    for (int r = 1; status != ES_OK && r < m->options->world; r++)
        if (m->peers[r].fd >= 0)
            (void)es_wire_send_abort(m->peers[r].fd, status, 0, es_message());
    /* Remove the file only if it still belongs to this training run. The calls
     * below may replace the current message, so it is saved. */
    char message[ES_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", es_message());
    if (es_address_read(&old, path) == ES_OK &&
        strcmp(old.key, own->place.key) == 0)
        (void)unlink(path);
    return status == ES_OK ? ES_OK : es_fail(status, "%s", message);
}

/* --- the others ----------------------------------------------------------- */

/* Waits until rank 0 has sent something or has disconnected. */
static es_status wait_for_answer(meeting *m)
{
    struct pollfd waits = {.fd = m->peers[0].fd, .events = POLLIN};
    es_status status = ES_OK;
    const double begun = m->begun;
    /* Wait HELLO_S longer than rank 0, because rank 0 sends the reason when its
     * own wait times out. */
    m->begun = es_wire_now() + HELLO_S;
    while (status == ES_OK && poll(&waits, 1, 100) <= 0)
        status = look_at_clock(m, 0);
    m->begun = begun;
    return status;
}

/* Reads rank 0's answer. Returns ES_DONE if the host at this address was not
 * rank 0 of this training run. */
static es_status read_answer(meeting *m)
{
    const size_t bytes = (size_t)m->options->world * sizeof *m->all;
    es_packet packet;
    const int fd = m->peers[0].fd;
    if (es_wire_receive(fd, &packet, sizeof packet, HELLO_S) != ES_OK ||
        packet.magic != ES_PACKET_MAGIC)
        return ES_DONE;
    if (packet.kind == ES_PACKET_ABORT) {
        *m->reports = false;
        return es_wire_take_abort(fd, &packet);
    }
    return packet.kind == ES_PACKET_TABLE && packet.bytes == bytes &&
                   es_wire_receive(fd, m->all, bytes, HELLO_S) == ES_OK
               ? ES_OK
               : ES_DONE;
}

/* Connects to the rank at this address and sends `own`, this rank's description
 * of itself. Returns the connection, or -1. */
static int greet_rank(const es_address *place, const hello *own)
{
    const int fd = connect_to(place, own->place.host);
    hello as_known = *own;
    memcpy(as_known.place.key, place->key, sizeof place->key);
    if (fd >= 0 &&
        es_wire_send(fd, &as_known, sizeof as_known, HELLO_S) != ES_OK) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Connects to rank 0 and receives the table of all ranks; `own` describes the
 * calling rank. */
static es_status find_host(meeting *m, const hello *own)
{
    es_address place;
    es_status status = ES_DONE;
    while (status == ES_DONE) {
        const es_status found = es_address_read(&place, m->options->rendezvous);
        if (found == ES_EUSAGE)
            return found;
        m->peers[0].fd = found == ES_OK ? greet_rank(&place, own) : -1;
        if (m->peers[0].fd >= 0) {
            if ((status = wait_for_answer(m)) == ES_OK)
                status = read_answer(m);
            if (status == ES_OK)
                return ES_OK;
            close(m->peers[0].fd);
            m->peers[0].fd = -1;
        }
        if (status == ES_DONE) {
            const es_status late = look_at_clock(m, 0);
            if (late != ES_OK)
                return late;
            (void)poll(NULL, 0, 50);
        }
    }
    return status;
}

/* Connects to all lower ranks, and accepts the connections of all higher
 * ranks. */
static es_status join_mesh(meeting *m)
{
    const int rank = m->options->rank;
    const hello own = m->all[rank];
    for (int r = 0; r < m->options->world; r++) {
        es_peer *peer = &m->peers[r];
        peer->pid = m->all[r].pid;
        memcpy(peer->host, m->all[r].place.host, sizeof peer->host);
        peer->host[sizeof peer->host - 1] = 0;
        if (r > 0 && r < rank &&
            (peer->fd = greet_rank(&m->all[r].place, &own)) < 0)
            return es_fail(ES_EIO,
                           "rank %d cannot connect to rank %d on %s: let the "
                           "hosts reach each other by TCP",
                           rank, r, peer->host);
    }
    return receive_guests(m);
}

static es_status visit_meeting(meeting *m)
{
    hello own = m->all[m->options->rank];
    es_status status = listen_somewhere(&m->listener, &own.place.port);
    if (status == ES_OK)
        status = find_host(m, &own);
    return status == ES_OK ? join_mesh(m) : status;
}

es_status es_rendezvous(es_peer *peers, bool *reports,
                        const es_transport_options *options)
{
    const int rank = options->rank;
    meeting m = {.options = options,
                 .peers = peers,
                 .reports = reports,
                 .listener = -1,
                 .begun = es_wire_now()};
    m.all = calloc((size_t)options->world, sizeof *m.all);
    if (!m.all)
        return es_fail(ES_ENOMEM, "out of memory for %d ranks", options->world);
    hello *own = &m.all[rank];
    *own = (hello){.rank = rank, .world = options->world, .pid = (int)getpid()};
    snprintf(own->version, sizeof own->version, "%s", ES_VERSION);
    es_status status = es_address_find(&own->place);
    if (status == ES_OK)
        status = rank == 0 ? host_meeting(&m) : visit_meeting(&m);
    peers[rank].pid = own->pid;
    snprintf(peers[rank].host, sizeof peers[rank].host, "%s", own->place.host);
    if (m.listener >= 0)
        close(m.listener);
    /* Rank 0 may already be training while other ranks still connect, so the
     * failure is also sent to rank 0. */
    if (status != ES_OK && rank > 0 && peers[0].fd >= 0 &&
        es_wire_send_abort(peers[0].fd, status, rank, es_message()))
        *reports = false;
    for (int r = 0; status != ES_OK && r < options->world; r++)
        if (peers[r].fd >= 0) {
            close(peers[r].fd);
            peers[r].fd = -1;
        }
    free(m.all);
    return status;
}
