/** Resolves the address on which the server listens. */
#ifndef ES_SERVE_ADDRESS_H
#define ES_SERVE_ADDRESS_H

#include "analyzer/base/status.h"
#include <netdb.h>
#include <stdbool.h>

/** Resolves an address or the name of a host. The caller frees *out with
 *  freeaddrinfo. Returns ES_OK, or ES_EUSAGE if `address` is neither. */
es_status es_serve_resolve(struct addrinfo **out, const char *address,
                           int port) ES_MUST_USE;

/** Sets *out to true if the address is a loopback address. Returns the statuses
 *  of es_serve_resolve. */
es_status es_serve_is_local(bool *out, const char *address) ES_MUST_USE;

#endif
