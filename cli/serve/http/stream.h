/**
 * Sends server-sent events. All clients share the texts of the newest events. A
 * client that does not read, or reads so slowly that it misses events, is
 * disconnected.
 */
#ifndef ES_SERVE_STREAM_H
#define ES_SERVE_STREAM_H

#include "cli/serve/http/reply.h"
#include <stdint.h>

/** Maximum number of clients, and number of events that are kept. */
#define ES_SERVE_CLIENTS_MOST 200
#define ES_SERVE_EVENTS_KEPT 64

typedef struct es_serve_event {
    char *text; /* (n) */
    size_t n;
} es_serve_event;

typedef struct es_serve_client es_serve_client;

typedef struct es_serve_stream {
    es_serve_event events[ES_SERVE_EVENTS_KEPT]; /* ring buffer: event i is
                                                    stored at i %
                                                    ES_SERVE_EVENTS_KEPT */
    uint64_t n_events;                           /* number of events so far */
    es_serve_client *clients;                    /* list */
    size_t n_clients;
} es_serve_stream;

/** Adds an event, or a comment if `name` is NULL, and wakes the clients. `data`
 *  is a single line of text. */
void es_serve_stream_add(es_serve_stream *stream, const char *name,
                         const char *id, const char *data);

/** Answers a request with the stream of events. Its first event is "runs" with
 *  the data `data`. */
enum MHD_Result es_serve_stream_open(es_serve_stream *stream,
                                     es_connection *connection, const char *id,
                                     const char *data);

/** Ends the streams of all clients; must precede MHD_stop_daemon. */
void es_serve_stream_end(es_serve_stream *stream);

void es_serve_stream_free(es_serve_stream *stream);

#endif
