/** Limits connections: a client that sends its request too slowly, or reads its
 *  answer too slowly, is disconnected; when there are many connections, the
 *  oldest without a request are. */
#ifndef ES_SERVE_PEERS_H
#define ES_SERVE_PEERS_H

#include "cli/serve/http/reply.h"

typedef struct es_serve_peer {
    struct es_serve_peer *next, **before;
    int fd;
    bool is_asking; /* true while a request is answered */
    bool is_stream; /* true if the answer has no end */
    bool is_cut;    /* true if it was disconnected and will end soon */
    double since;   /* time at which this state began, in seconds of the
                       monotonic clock */
} es_serve_peer;

typedef struct es_serve_peers {
    es_serve_peer *list; /* the newest connection first */
    size_t n, most;      /* number of connections, and their limit */
} es_serve_peers;

/** Sets the limit by the limit on descriptors, which is raised first. */
void es_serve_peers_begin(es_serve_peers *peers);

/** Receives the beginning and end of connections from libmicrohttpd; `user` is
 *  the es_serve_peers. */
void es_serve_peers_notify(void *user, es_connection *connection,
                           void **context,
                           enum MHD_ConnectionNotificationCode code);

/** Notes that a request began (true) or that its answer is complete. */
void es_serve_peers_set(es_connection *connection, bool is_asking,
                        bool is_stream);

/** Disconnects slow clients. Returns the time in seconds until it must be
 *  called again; INFINITY without connections. */
double es_serve_peers_step(es_serve_peers *peers);

#endif
