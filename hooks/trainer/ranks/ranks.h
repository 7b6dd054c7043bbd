/** Options by which a rank finds the other ranks of its training. */
#ifndef ES_RANKS_H
#define ES_RANKS_H

#include "analyzer/base/status.h"
#include <stdbool.h>

#define ES_MAX_RANKS 256

typedef struct es_transport_options {
    int rank, world;
    const char *rendezvous; /* path that all ranks share: rendezvous.h */
    double timeout_s;       /* longest silence of a rank, in seconds */
    /* Callbacks, or NULL. should_stop ends the wait for missing ranks; on_wait
     * receives one line after some seconds of waiting for them. */
    bool (*should_stop)(void *user);
    void (*on_wait)(void *user, const char *message);
    void *user;
} es_transport_options;

#endif
