/**
 * Decides which requests are answered. A request must name this server as its
 * host, come from the server's own page, and contain the token.
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
    char cookie[ES_SERVE_COOKIE_MOST]; /* name of the cookie that contains the
                                          token */
    bool is_local;      /* true if the server listens on a loopback address */
    char *const *hosts; /* the n_hosts additional host names that requests may
                           use; borrowed */
    size_t n_hosts;
} es_serve_access;

/**
 * Sets the token, which is random or the first line of a file, and the name of
 * the cookie. The name depends on the token, so that servers on one host do not
 * overwrite each other's cookies.
 *
 *   path  file with the token, or NULL for a random token. If the file does not
 *         exist, it is created with a random token, readable by its owner only
 *
 * Returns ES_OK or ES_EIO. Returns ES_EUSAGE if other users can read the file,
 * or if its first line is not a token (16 to 128 letters, digits, - and _).
 */
es_status es_serve_access_set_token(es_serve_access *access,
                                    const char *path) ES_MUST_USE;

/** Returns true if `text` (n bytes) is the token. The time that the comparison
 *  takes does not depend on the bytes. */
bool es_serve_access_is_token(const es_serve_access *access, const char *text,
                              size_t n);

/** Returns true if the header "Cookie" contains the token; false if `header` is
 *  NULL. */
bool es_serve_access_has_cookie(const es_serve_access *access,
                                const char *header);

/** Returns true if the header "Authorization" is "Bearer TOKEN"; false if
 *  `header` is NULL. */
bool es_serve_access_has_bearer(const es_serve_access *access,
                                const char *header);

/**
 * Returns true if the header "Host" names this server. This rejects requests of
 * another site whose domain name resolves to this machine (DNS rebinding). The
 * accepted names are localhost and names below it, loopback addresses, and the
 * names in `hosts`. If the server does not listen on a loopback address, any
 * other address and the name of this machine are accepted, too. Any port is
 * accepted, because the port may be forwarded.
 */
bool es_serve_access_is_host(const es_serve_access *access, const char *header);

/** Returns true if the header "Origin" names the same host and port as the
 *  header "Host", or a host in `hosts` (a proxy may have changed the header
 *  "Host"). Also returns true if `origin` is NULL, that is, without this
 *  header. */
bool es_serve_access_is_origin(const es_serve_access *access,
                               const char *origin, const char *host);

#endif
