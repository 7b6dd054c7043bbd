/** State of the server, shared by its loop (server.c) and the answers to
 *  requests (routes.c). */
#ifndef ES_SERVE_SERVER_INTERNAL_H
#define ES_SERVE_SERVER_INTERNAL_H

#include "cli/serve/http/jobs.h"
#include "cli/serve/http/peers.h"
#include "cli/serve/http/stream.h"
#include "cli/serve/listing.h"
#include "cli/serve/server.h"

typedef struct es_server {
    const es_serve_options *options;
    es_serve_listing listing;
    es_serve_stream stream;
    es_serve_jobs jobs;
    es_serve_peers peers;
    es_response *page, *embedded; /* the page, for a tab and for a frame */
    es_response *list; /* the complete list, compressed; NULL if it was
                          not requested since the last version */
    uint64_t list_version;
} es_server;

/** Makes the responses with the page. Returns ES_OK or ES_ENOMEM. */
es_status es_serve_routes_begin(es_server *server) ES_MUST_USE;

/** Answers a request, as libmicrohttpd requires; `user` is the es_server. */
enum MHD_Result es_serve_routes_answer(void *user, es_connection *connection,
                                       const char *path, const char *method,
                                       const char *version, const char *body,
                                       size_t *n_body, void **context);

/** Releases what a request needed. */
void es_serve_routes_complete(void *user, es_connection *connection,
                              void **context,
                              enum MHD_RequestTerminationCode code);

void es_serve_routes_free(es_server *server);

#endif
