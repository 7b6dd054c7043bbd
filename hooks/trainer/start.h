/** A training or a probe that starts from existing weights: --init FILE. */
#ifndef ES_START_H
#define ES_START_H

#include "hooks/trainer/trainer.h"

/**
 * Settles what the file settings->init determines: architecture, family,
 * sizes, biases, context; of a checkpoint also micro-batch and EReg's settings.
 * What was given stays as it is, if the weights permit it.
 *
 * ES_OK; ES_EUSAGE naming the first contradiction; what es_weights_open
 * returns.
 */
es_status es_start_settings(es_settings *settings) ES_MUST_USE;

/** What there is to say of weights that were loaded. */
typedef struct es_start {
    char note[ES_MESSAGE_MAX]; /* one line if arrays are new or were left out,
                                  else "" */
    char maker[32];            /* "GPT-2", ... */
    int64_t step;              /* steps they were trained for, 0: unknown */
} es_start;

/**
 * Fills the new trainer's model with the weights of settings.init.
 * Returns as es_weights_open and es_weights_load do.
 */
es_status es_start_load(es_start *out, es_trainer *trainer) ES_MUST_USE;

#endif
