/** Makes HTTP responses with headers that protect the page. */
#ifndef ES_SERVE_REPLY_H
#define ES_SERVE_REPLY_H

#include "cli/serve/http/microhttpd.h"
#include <stdbool.h>

typedef struct MHD_Connection es_connection;
typedef struct MHD_Response es_response;

/** Adds the headers of every response. They prevent browsers from guessing the
 *  content type and from sending the page's address to other sites, and prevent
 *  other sites from embedding the response or keeping a reference to its
 *  window. Returns `response`, which may be NULL. */
es_response *es_reply_guard(es_response *response);

/** Makes a response with the text (n bytes), which the response then owns. If
 *  `packed` is true, the text may be compressed. Returns NULL if memory is
 *  short. */
es_response *es_reply_text(char *text, size_t n, const char *type, bool packed);

/** Returns true if the client accepts gzip. */
bool es_reply_is_packed(es_connection *connection);

/** Queues a response and releases it. */
enum MHD_Result es_reply_queue(es_connection *connection, unsigned status,
                               es_response *response);

/** Answers {"error":MESSAGE}. */
enum MHD_Result es_reply_error(es_connection *connection, unsigned status,
                               const char *message);

/** Returns the value of the request's header `name`, or NULL. */
const char *es_reply_header(es_connection *connection, const char *name);

/** Returns the value of the argument `name` in the request's address, or
 *  NULL. */
const char *es_reply_argument(es_connection *connection, const char *name);

#endif
