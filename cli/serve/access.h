/**
 * Decides which requests are answered: those that name this server as their
 * host, come from its own page, and have the token.
 */
#ifndef ES_SERVE_ACCESS_H
#define ES_SERVE_ACCESS_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>

/** Maximum and minimum length of a token. */
#define ES_SERVE_TOKEN_MOST 128
#define ES_SERVE_TOKEN_LEAST 16
#define ES_SERVE_COOKIE_MOST 64

typedef struct es_serve_access {
    char token[ES_SERVE_TOKEN_MOST + 1];
    char cookie[ES_SERVE_COOKIE_MOST]; /* name of the cookie */
    bool is_local;      /* true if the server listens on a loopback address */
    char *const *hosts; /* (n_hosts) further host names; borrowed */
    size_t n_hosts;
} es_serve_access;

/**
 * Sets the token, a random one or the first line of a file, and the name of the
 * cookie, which depends on the token so that servers on one host do not share
 * cookies.
 *
 *   path  NULL: a random token. A file that does not exist is created with a
 *         random token, readable by its owner only
 *
 * Returns ES_OK; ES_EUSAGE if others can read the file, or if its first line is
 * not a token (16 to 128 letters, digits, - and _); ES_EIO.
 */
es_status es_serve_access_set_token(es_serve_access *access,
                                    const char *path) ES_MUST_USE;

/** Compares n bytes with the token, in a time that does not depend on them. */
bool es_serve_access_is_token(const es_serve_access *access, const char *text,
                              size_t n);

/** Returns true if a header "Cookie" contains the token. NULL: no header. */
bool es_serve_access_has_cookie(const es_serve_access *access,
                                const char *header);

/** Returns true if a header "Authorization" is "Bearer TOKEN". */
bool es_serve_access_has_bearer(const es_serve_access *access,
                                const char *header);

/**
 * Returns true if a header "Host" names this server. A page of another site
 * whose name resolves to this machine (DNS rebinding) has another host name. On
 * a loopback address, the host must be localhost, a name below it, or a
 * loopback address; otherwise an address, the name of this machine, or a name
 * in `hosts`. The port may be any, because it may be forwarded.
 */
bool es_serve_access_is_host(const es_serve_access *access, const char *header);

/** Returns true if a header "Origin" (NULL: no header) names the host and port
 *  of the header "Host", or a host in `hosts`, for whose proxy the header
 * "Host" may have another name. */
bool es_serve_access_is_origin(const es_serve_access *access,
                               const char *origin, const char *host);

#endif
