/* Disconnects clients that hold connections without using them. */
#include "cli/serve/http/peers.h"

#include "cli/serve/http/clock.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Time in seconds that a client may take to send a request (after connecting or
 * after its last request), and to read an answer. */
#define ASK_MOST 10
#define READ_MOST 300
/* Interval in seconds at which the connections are checked. */
#define LOOK 1
/* Maximum number of connections, and number of descriptors reserved for other
   purposes. */
enum { PEERS_MOST = 2000, OTHERS = 100 };

void es_serve_peers_begin(es_serve_peers *peers)
{
    struct rlimit limit = {1024, 1024};
    *peers = (es_serve_peers){.most = PEERS_MOST};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur < PEERS_MOST + OTHERS) {
        limit.rlim_cur = limit.rlim_max < PEERS_MOST + OTHERS
                             ? limit.rlim_max
                             : PEERS_MOST + OTHERS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < PEERS_MOST + OTHERS)
        peers->most = limit.rlim_cur > 2 * OTHERS ? limit.rlim_cur - OTHERS
                                                  : limit.rlim_cur / 2;
}

static void disconnect(es_serve_peer *peer)
{
    shutdown(peer->fd, SHUT_RDWR);
    peer->is_cut = true;
}

/* Disconnects the client that has waited longest without a request. */
static void evict_oldest(const es_serve_peers *peers)
{
    es_serve_peer *oldest = NULL;
    for (es_serve_peer *peer = peers->list; peer; peer = peer->next)
        if (!peer->is_asking && !peer->is_cut &&
            (!oldest || peer->since < oldest->since))
            oldest = peer;
    if (oldest)
        disconnect(oldest);
}

static void add_peer(es_serve_peers *peers, es_connection *connection,
                     void **context)
{
    const union MHD_ConnectionInfo *info = es_mhd.get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    es_serve_peer *peer = info ? calloc(1, sizeof *peer) : NULL;
    *context = peer;
    if (!peer)
        return;
    *peer = (es_serve_peer){.next = peers->list,
                            .before = &peers->list,
                            .fd = info->connect_fd,
                            .since = es_serve_now()};
    if (peer->next)
        peer->next->before = &peer->next;
    peers->list = peer;
    if (++peers->n > peers->most / 4 * 3)
        evict_oldest(peers);
}

void es_serve_peers_notify(void *user, es_connection *connection,
                           void **context,
                           enum MHD_ConnectionNotificationCode code)
{
    es_serve_peers *peers = user;
    es_serve_peer *peer = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        add_peer(peers, connection, context);
        return;
    }
    if (!peer)
        return;
    *peer->before = peer->next;
    if (peer->next)
        peer->next->before = peer->before;
    peers->n--;
    free(peer);
    *context = NULL;
}

void es_serve_peers_set(es_connection *connection, bool is_asking,
                        bool is_stream)
{
    const union MHD_ConnectionInfo *info = es_mhd.get_connection_info(
        connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    es_serve_peer *peer = info ? info->socket_context : NULL;
    if (!peer)
        return;
    peer->is_asking = is_asking;
    peer->is_stream = is_stream;
    peer->since = es_serve_now();
}

double es_serve_peers_step(es_serve_peers *peers)
{
    const double time = es_serve_now();
    for (es_serve_peer *peer = peers->list; peer; peer = peer->next) {
        const double most = peer->is_asking ? READ_MOST : ASK_MOST;
        if (!peer->is_stream && !peer->is_cut && time - peer->since > most)
            disconnect(peer);
    }
    return peers->list ? LOOK : INFINITY;
}
