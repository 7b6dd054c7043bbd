/** What ranks that train together have to agree on. */
#ifndef ES_TRAIN_RANKS_H
#define ES_TRAIN_RANKS_H

#include "hooks/trainer/ranks/transport.h"
#include "hooks/trainer/trainer.h"

/**
 * Compares what all ranks are about to do: settings, data, kernels, weights.
 * Paths and threads may differ. ES_OK, also of a transport that is NULL;
 * ES_EUSAGE naming the first difference; as es_transport_gather; ES_ENOMEM.
 */
es_status es_train_compare_ranks(es_transport *transport,
                                 es_trainer *trainer) ES_MUST_USE;

#endif
