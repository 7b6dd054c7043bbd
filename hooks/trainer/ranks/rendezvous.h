/** Connects the ranks of a training run with each other when es_transport_open
 *  is called. */
#ifndef ES_RANKS_RENDEZVOUS_H
#define ES_RANKS_RENDEZVOUS_H

#include "hooks/trainer/ranks/ranks.h"

/** Another rank. */
typedef struct es_peer {
    int fd; /* socket connected to the rank; -1 for this process itself, or if
               not connected */
    int pid;
    char host[64];
} es_peer;

/**
 * Connects all ranks with the help of a file, which rank 0 writes and later
 * removes.
 *
 *   peers    (world) written; the calling rank's entry has only pid and host
 *   reports  set to false if this process need not report the failure, because
 *            it was sent by another rank, which reports it
 *
 * Returns the statuses of es_transport_open. On failure all connections are
 * closed, and the connected ranks have received the error message.
 */
es_status es_rendezvous(es_peer *peers, bool *reports,
                        const es_transport_options *options) ES_MUST_USE;

#endif
