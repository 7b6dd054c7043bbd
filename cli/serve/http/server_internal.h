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
    es_response *page, *embedded; /* the page for a browser tab, and the page
                                     for embedding in another page */
    es_response *list; /* compressed response with the complete list, in the
                          version `list_version`; NULL before the first
                          request */
    uint64_t list_version;
} es_server;

/** Makes the two responses with the page. Returns ES_OK or ES_ENOMEM. */
es_status es_serve_routes_begin(es_server *server) ES_MUST_USE;

/** Answers a request. This is the access handler of libmicrohttpd; `user` is
 *  the es_server. */
enum MHD_Result es_serve_routes_answer(void *user, es_connection *connection,
                                       const char *path, const char *method,
                                       const char *version, const char *body,
                                       size_t *n_body, void **context);

/** Called by libmicrohttpd at the end of a request. Ends the request's job. */
void es_serve_routes_complete(void *user, es_connection *connection,
                              void **context,
                              enum MHD_RequestTerminationCode code);

void es_serve_routes_free(es_server *server);

#endif
