/** Connects the ranks of a training with each other when the transport
 *  opens. */
#ifndef ES_RANKS_RENDEZVOUS_H
#define ES_RANKS_RENDEZVOUS_H

#include "hooks/trainer/ranks/ranks.h"

/** Another rank. */
typedef struct es_peer {
    int fd; /* -1: this rank, or not connected */
    int pid;
    char host[64];
} es_peer;

/**
 * Connects all ranks by means of a file that rank 0 writes and removes.
 *
 *   peers    (world) written; pid and host also for this rank
 *   reports  set to false if another rank has sent the failure
 *
 * Returns as es_transport_open. On failure all connections are closed, and the
 * connected ranks have received the message.
 */
es_status es_rendezvous(es_peer *peers, bool *reports,
                        const es_transport_options *options) ES_MUST_USE;

#endif
