/** Checks that all ranks of a training run have the same settings, data and
 *  weights. */
#ifndef ES_TRAIN_RANKS_H
#define ES_TRAIN_RANKS_H

#include "hooks/trainer/ranks/transport.h"
#include "hooks/trainer/trainer.h"

/**
 * Compares settings, data, kernels and weights of all ranks with those of rank
 * 0. Paths and numbers of threads may differ. Returns ES_OK, also for a NULL
 * transport; ES_EUSAGE with a message that names the first difference; a status
 * of es_transport_gather; or ES_ENOMEM.
 */
es_status es_train_compare_ranks(es_transport *transport,
                                 es_trainer *trainer) ES_MUST_USE;

#endif
