/** Checks that ranks which train together agree on settings, data and
 *  weights. */
#ifndef ES_TRAIN_RANKS_H
#define ES_TRAIN_RANKS_H

#include "hooks/trainer/ranks/transport.h"
#include "hooks/trainer/trainer.h"

/**
 * Compares what all ranks are about to do: settings, data, kernels, weights.
 * Paths and threads may differ. Returns ES_OK, also for a NULL transport;
 * ES_EUSAGE naming the first difference; a status of es_transport_gather; or
 * ES_ENOMEM.
 */
es_status es_train_compare_ranks(es_transport *transport,
                                 es_trainer *trainer) ES_MUST_USE;

#endif
