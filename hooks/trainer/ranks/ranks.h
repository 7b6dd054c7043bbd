/** How a rank finds the others. */
#ifndef ES_RANKS_H
#define ES_RANKS_H

#include "analyzer/base/status.h"
#include <stdbool.h>

#define ES_MAX_RANKS 256

typedef struct es_transport_options {
    int rank, world;
    const char *rendezvous; /* file that all ranks see: rendezvous.h */
    double timeout_s;       /* the longest silence of a rank */
    /* NULL, or what ends the wait for ranks that have not come yet; one line
       after some seconds of waiting for them */
    bool (*should_stop)(void *user);
    void (*on_wait)(void *user, const char *message);
    void *user;
} es_transport_options;

#endif
