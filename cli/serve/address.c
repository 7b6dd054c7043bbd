/* Resolves the address given by --bind. */
#include "cli/serve/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)
                         ->sin_addr.s_addr) >>
                   24 ==
               127;
    return address->sa_family == AF_INET6 &&
           memcmp(
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
               &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

es_status es_serve_resolve(struct addrinfo **out, const char *address, int port)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    const int failure = getaddrinfo(address, service, &hints, out);
    return failure ? es_fail(ES_EUSAGE, "--bind: %s: %s", address,
                             gai_strerror(failure))
                   : ES_OK;
}

es_status es_serve_is_local(bool *out, const char *address)
{
    struct addrinfo *found;
    es_status status = es_serve_resolve(&found, address, 0);
    if (status < 0)
        return status;
    *out = true;
    for (const struct addrinfo *one = found; one; one = one->ai_next)
        *out = *out && is_loopback(one->ai_addr);
    freeaddrinfo(found);
    return ES_OK;
}
