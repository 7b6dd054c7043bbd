/** Limits connections. A client that sends its request or reads its answer too
 *  slowly is disconnected. If there are many connections, the ones that have
 *  been idle for longest are closed. */
#ifndef ES_SERVE_PEERS_H
#define ES_SERVE_PEERS_H

#include "cli/serve/http/reply.h"

typedef struct es_serve_peer {
    struct es_serve_peer *next, **before;
    int fd;
    bool is_asking; /* true while a request of the client is being answered */
    bool is_stream; /* true if the answer is the endless stream of events */
    bool is_cut;    /* true if the connection was shut down and will be removed
                       soon */
    double since;   /* time at which is_asking last changed, in seconds of the
                       monotonic clock */
} es_serve_peer;

typedef struct es_serve_peers {
    es_serve_peer *list; /* linked list of clients, the newest first */
    size_t n, most;      /* number of connections, and maximum number of
                            connections */
} es_serve_peers;

/** Raises the process's limit on open descriptors if possible, and derives the
 *  maximum number of connections from it. */
void es_serve_peers_begin(es_serve_peers *peers);

/** Callback that libmicrohttpd calls when a connection begins or ends; `user`
 *  is the es_serve_peers. */
void es_serve_peers_notify(void *user, es_connection *connection,
                           void **context,
                           enum MHD_ConnectionNotificationCode code);

/** Notes that a request has begun (is_asking is true) or that its answer is
 *  complete (false). is_stream is true if the answer is the stream of
 *  events. */
void es_serve_peers_set(es_connection *connection, bool is_asking,
                        bool is_stream);

/** Disconnects slow clients. Returns the time in seconds until this function
 *  must be called again; INFINITY without connections. */
double es_serve_peers_step(es_serve_peers *peers);

#endif
