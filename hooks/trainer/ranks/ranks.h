/** Options by which a rank finds the other ranks of its training run. */
#ifndef ES_RANKS_H
#define ES_RANKS_H

#include "analyzer/base/status.h"
#include <stdbool.h>

#define ES_MAX_RANKS 256

typedef struct es_transport_options {
    int rank, world;
    const char *rendezvous; /* path of the rendezvous file, on a file system
                             * that all ranks share */
    double timeout_s;       /* seconds without a sign of life after which a rank
                             * counts as lost */
    /* Callbacks, or NULL. If should_stop returns true, the wait for missing
     * ranks ends; on_wait receives a one-line notice after some seconds of
     * waiting. */
    bool (*should_stop)(void *user);
    void (*on_wait)(void *user, const char *message);
    void *user;
} es_transport_options;

#endif
